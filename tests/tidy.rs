//! Rules about the tree itself: which crate may use which, where `unsafe` may stand, and what no
//! file may say.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The architecture: each crate, and every workspace crate that it may depend on. Arrows point
/// down; the crates of layer 1 do not use one another.
const EDGES: &[(&str, &[&str])] = &[
    ("clock", &[]),
    ("wire", &["clock"]),
    ("schedule", &["clock"]),
    ("workload", &["clock"]),
    ("metrics", &["clock"]),
    ("search", &[]),
    ("tls", &["clock"]),
    ("net", &["clock"]),
    ("http2", &["wire"]),
    ("transport", &["clock", "net"]),
    ("net-uring", &["clock", "net"]),
    ("net-epoll", &["clock", "net"]),
    ("net-tasks", &["clock", "net"]),
    ("net-monoio", &["clock", "net", "net-tasks"]),
    ("net-glommio", &["clock", "net", "net-tasks"]),
    ("transport-zmq", &["clock", "net", "transport"]),
    (
        "engine",
        &[
            "clock", "wire", "http2", "schedule", "workload", "metrics", "tls", "net",
        ],
    ),
    ("service", &["clock", "wire", "engine", "transport"]),
    ("fleet", &["clock", "metrics", "net", "engine"]),
    ("telemetry", &["clock"]),
    (
        "report",
        &[
            "clock",
            "wire",
            "schedule",
            "metrics",
            "engine",
            "telemetry",
        ],
    ),
    (
        "mock-server",
        &[
            "clock",
            "wire",
            "schedule",
            "workload",
            "tls",
            "net",
            "net-uring",
            "net-epoll",
        ],
    ),
    ("perf", &["clock"]),
    (
        "roofline",
        &[
            "clock",
            "wire",
            "schedule",
            "workload",
            "metrics",
            "net",
            "transport",
            "engine",
            "report",
            "perf",
        ],
    ),
    ("xtask", &["clock", "perf"]),
];

/// Crates that may hold `unsafe`: the ring, and the bare programs it is measured against. The
/// counting allocator of the simulator test is the one place outside them.
const UNSAFE: &[&str] = &["net-uring", "perf"];
const UNSAFE_FILES: &[&str] = &["tests/simulator/allocations.rs"];

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn metadata() -> serde_json::Value {
    let output = Command::new(env!("CARGO"))
        .args([
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
            "--offline",
        ])
        .current_dir(root())
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Every file that git tracks or would track.
fn files() -> Vec<PathBuf> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output()
        .unwrap();
    let names = String::from_utf8(output.stdout).unwrap();
    names
        .lines()
        .map(|name| root().join(name))
        .filter(|path| path.is_file())
        .collect()
}

fn sources() -> Vec<(PathBuf, String)> {
    files()
        .into_iter()
        .filter(|path| path.extension().is_some_and(|ending| ending == "rs"))
        .map(|path| (path.clone(), fs::read_to_string(&path).unwrap()))
        .collect()
}

fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap().display().to_string()
}

#[test]
fn crates_use_only_what_the_table_allows() {
    let allowed: BTreeMap<&str, &[&str]> = EDGES.iter().copied().collect();
    let metadata = metadata();
    let mut seen = BTreeSet::new();
    for package in metadata["packages"].as_array().unwrap() {
        let Some(name) = package["name"].as_str().unwrap().strip_prefix("ridgeline-") else {
            continue;
        };
        seen.insert(name.to_owned());
        let edges = allowed
            .get(name)
            .unwrap_or_else(|| panic!("{name} is not in the table"));
        for dependency in package["dependencies"].as_array().unwrap() {
            let is_normal = dependency["kind"].is_null();
            let to = dependency["name"]
                .as_str()
                .unwrap()
                .strip_prefix("ridgeline-");
            if let (true, Some(to)) = (is_normal, to) {
                assert!(edges.contains(&to), "{name} must not use {to}");
            }
        }
    }
    let named: BTreeSet<String> = allowed.keys().map(|&name| name.to_owned()).collect();
    assert_eq!(
        seen, named,
        "the table and the workspace name different crates"
    );
}

#[test]
fn every_other_crate_forbids_unsafe() {
    for (name, _) in EDGES {
        let folder = if ["mock-server", "perf"].contains(name) {
            root().join(name)
        } else {
            root().join("crates").join(name)
        };
        let entry = ["src/lib.rs", "src/main.rs"]
            .iter()
            .map(|file| folder.join(file))
            .find(|path| path.exists())
            .unwrap();
        let forbids = fs::read_to_string(&entry)
            .unwrap()
            .contains("#![forbid(unsafe_code)]");
        assert_eq!(forbids, !UNSAFE.contains(name), "{}", entry.display());
    }
}

#[test]
fn unsafe_blocks_stand_where_they_may() {
    // In two pieces, so that this file does not find itself.
    let word = concat!("uns", "afe {");
    for (path, text) in sources() {
        let name = relative(&path);
        let may = UNSAFE_FILES.contains(&name.as_str())
            || UNSAFE
                .iter()
                .any(|folder| name.contains(&format!("{folder}/")));
        assert!(may || !text.contains(word), "{name} holds unsafe code");
    }
}

#[test]
fn libraries_open_with_what_they_are_and_an_example() {
    for (path, text) in sources() {
        let name = relative(&path);
        if !name.ends_with("src/lib.rs") {
            continue;
        }
        let page: String = text
            .lines()
            .take_while(|line| line.starts_with("//!"))
            .collect::<Vec<_>>()
            .join("\n");
        for needed in ["What this is:", "What this is not:", "```"] {
            assert!(
                page.contains(needed),
                "{name}: the crate page lacks {needed:?}"
            );
        }
    }
}

#[test]
fn the_map_names_every_crate() {
    let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    for (name, _) in EDGES {
        assert!(
            map.contains(&format!("`{name}`")),
            "ARCHITECTURE.md does not name `{name}`"
        );
    }
}

/// Files that may name the `cfg` of slowdowns that the performance gate builds in to find them: where
/// they stand, where the gate sets it, where the lint is told of it, and what explains it.
const PLANTED_FILES: &[&str] = &[
    "Cargo.toml",
    "crates/engine/src/requests.rs",
    "crates/wire/src/exchange/events.rs",
    "crates/xtask/src/perf_gate/build.rs",
    "crates/xtask/src/perf_gate/plant.rs",
    "perf/METHOD.md",
    "tests/tidy.rs",
];

#[test]
fn no_build_but_the_gates_own_has_a_planted_slowdown() {
    let planted = cfg!(ridgeline_planted = "scanner") || cfg!(ridgeline_planted = "engine");
    assert!(!planted, "this build is slower than it need be");
    // In two pieces, so that this file does not count itself.
    let name = concat!("ridgeline_", "planted");
    for path in files() {
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        let file = relative(&path);
        if !text.contains(name) {
            continue;
        }
        assert!(
            PLANTED_FILES.contains(&file.as_str()),
            "{file} names {name}"
        );
        let is_code = ["crates/engine/", "crates/wire/"]
            .iter()
            .any(|folder| file.starts_with(folder));
        for line in text.lines().filter(|line| is_code && line.contains(name)) {
            assert!(
                line.trim().starts_with(&format!("#[cfg({name} = ")),
                "{file}: only a cfg attribute may stand before planted code: {line}"
            );
        }
    }
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let uses = manifest.lines().filter(|line| line.contains(name));
    let uses: Vec<&str> = uses.collect();
    assert!(
        matches!(uses[..], [line] if line.starts_with("unexpected_cfgs = ")),
        "the manifest only declares {name}: {uses:?}"
    );
}

#[test]
fn files_say_nothing_of_one_machine_and_leave_nothing_to_do() {
    let banned = [
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
        concat!("/ho", "me/"),
        concat!("TO", "DO"),
        concat!("FIX", "ME"),
        concat!("XX", "X:"),
        concat!("tod", "o!("),
        concat!("unimple", "mented!("),
    ];
    for path in files() {
        let Ok(text) = fs::read_to_string(&path) else {
            continue;
        };
        for word in banned {
            assert!(!text.contains(word), "{} says {word:?}", relative(&path));
        }
    }
}
