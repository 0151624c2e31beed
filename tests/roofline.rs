//! `ridgeline roofline` as a whole: the files of a run, the profile, a plan, and what `bench` makes of it.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::{Value, json};

/// Runs the program with the profiles of a folder.
fn ridgeline(profiles: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ridgeline"))
        .args(arguments)
        .env("RIDGELINE_PROFILES", profiles)
        .output()
        .unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

fn peak(value: f64) -> Value {
    json!({
        "value": value, "cpu_ns": null, "name": "made up", "ratio": null, "ceiling": null,
        "limited_by": "the test"
    })
}

/// A profile as a roofline of `host` leaves it.
fn profile(host: &str) -> Value {
    json!({
        "schema": "ridgeline.profile/1",
        "ridgeline": { "version": "0.1.0", "revision": "long-ago" },
        "optimised": false,
        "host": host,
        "environment": { "driver": "io_uring", "cores": 2, "kernel": "6.1", "port_range": [32768, 60999] },
        "measured_unix_ns": 1_700_000_000_000_000_000_u64,
        "quick": true,
        "ceilings": {
            "requests": peak(165_000.0), "coalesced": peak(34e6), "paced": peak(400_000.0),
            "streams": peak(50_000.0), "stream_bytes": 3_600.0, "timely": peak(100_000.0)
        }
    })
}

#[test]
fn a_plan_shows_its_arithmetic() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("profile.json");
    fs::write(&file, profile("elsewhere").to_string()).unwrap();
    let file = file.display().to_string();
    let asked = [
        "roofline",
        "plan",
        "--requests-per-s",
        "1M",
        "--open-streams",
        "200k",
        "--events-per-s",
        "3M",
        "--profile",
        &file,
    ];
    let output = ridgeline(folder.path(), &asked);
    let said = text(&output.stdout);
    assert!(output.status.success(), "{said}{}", text(&output.stderr));
    assert!(said.starts_with("20 cores on 10 hosts\n"), "{said}");
    for part in [
        "1,000,000 requests/s / 165,000 a core = 6.06 cores",
        "3,000,000 paced events/s / 400,000 a core = 7.50 cores",
        "20 cores / 2 a host -> 10 hosts",
        "elsewhere",
    ] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let more = ridgeline(
        folder.path(),
        &[
            &asked[..],
            &["--cores-per-host", "16", "--safe-share", "50%"],
        ]
        .concat(),
    );
    assert!(
        text(&more.stdout).starts_with("28 cores on 2 hosts\n"),
        "{more:?}"
    );
}

#[test]
fn what_can_not_be_planned_is_one_message() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("profile.json");
    fs::write(&file, "{}").unwrap();
    let file = file.display().to_string();
    for (arguments, part) in [
        (
            &["--requests-per-s", "1M"][..],
            "there is no profile of this machine",
        ),
        (
            &["--requests-per-s", "1M", "--profile", &file],
            "it names no schema",
        ),
        (
            &["--requests-per-s", "many"],
            "write one like 500, 200k or 1.5M",
        ),
        (&["--open-streams", "0"], "must be above 0"),
        (&["--cores-per-host", "0"], "1..=65536"),
        (&["--requests-per-s", "-1"], "`-1` is no count"),
    ] {
        let output = ridgeline(folder.path(), &[&["roofline", "plan"], arguments].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(
            said.contains(part) && output.stdout.is_empty(),
            "{arguments:?}: {said}"
        );
    }
}

#[test]
fn a_run_says_how_much_of_the_ceiling_it_used() {
    let profiles = tempfile::tempdir().unwrap();
    let results = tempfile::tempdir().unwrap();
    let out = results.path().join("out");
    let quick = |more: &str| {
        let words = "bench --mock --osl 3 --isl 8 --concurrency 4 --request-count 12 --output-dir";
        let words = words.split(' ').chain([out.to_str().unwrap()]);
        let words: Vec<&str> = words.chain(more.split_whitespace()).collect();
        ridgeline(profiles.path(), &words)
    };
    let output = quick("");
    // Nobody has measured this machine, and nobody is offered that who does not read it.
    assert!(!text(&output.stdout).contains("Headroom"), "{output:?}");
    assert!(
        !text(&output.stderr).contains("ridgeline roofline"),
        "{output:?}"
    );
    assert!(read(&out.join("report.json"))["harness"]["headroom"].is_null());

    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let mut own = profile(host.trim());
    own["optimised"] = json!(!cfg!(debug_assertions));
    let name: String = host
        .trim()
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '.' {
                c
            } else {
                '_'
            }
        })
        .collect();
    fs::write(
        profiles.path().join(format!("{name}-x.json")),
        own.to_string(),
    )
    .unwrap();
    let output = quick("");
    let page = text(&output.stdout);
    assert!(page.contains("Headroom    this run used "), "{page}");
    assert!(page.contains("of this machine's client ceiling"), "{page}");
    assert!(page.contains("long-ago"), "{page}");
    let headroom = &read(&out.join("report.json"))["harness"]["headroom"];
    let share = headroom["value"].as_f64().unwrap() / headroom["ceiling"].as_f64().unwrap();
    assert!(
        (headroom["share"].as_f64().unwrap() - share).abs() < 1e-12,
        "{headroom}"
    );
    // The same page again, from the folder.
    let again = ridgeline(profiles.path(), &["report", out.to_str().unwrap()]);
    assert_eq!(text(&again.stdout), page);
}

#[test]
fn a_roofline_leaves_a_document_and_a_page() {
    let profiles = tempfile::tempdir().unwrap();
    let results = tempfile::tempdir().unwrap();
    let out = results.path().join("out");
    let words = "roofline --quick --json --sections records --output-dir";
    let words: Vec<&str> = words.split(' ').chain([out.to_str().unwrap()]).collect();
    let output = ridgeline(profiles.path(), &words);
    let progress = text(&output.stderr);
    assert!(output.status.success(), "{progress}");
    assert!(progress.starts_with("[1/1] records: "), "{progress}");
    let document = read(&out.join("roofline.json"));
    assert_eq!(document["schema"], "ridgeline.roofline/1");
    assert_eq!(document["quick"], true);
    assert_eq!(document["interrupted"], false);
    assert_eq!(document["sections"][0]["section"], "records");
    let rows = document["rows"].as_array().unwrap();
    assert!(!rows.is_empty());
    for row in rows {
        assert_eq!(row["section"], "records");
        let why = row["limited_by"].as_str().unwrap();
        assert!(
            row["measured"].is_object() || why.starts_with("not measured: "),
            "{row}"
        );
    }
    let printed: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(printed, document);
    let page = fs::read_to_string(out.join("roofline.html")).unwrap();
    assert!(page.starts_with("<!doctype html>") && page.ends_with("</html>\n"));
    // A section that no profile keeps leaves none.
    assert_eq!(fs::read_dir(profiles.path()).unwrap().count(), 0);
}

#[test]
fn a_core_that_is_not_there_is_one_message() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, part) in [
        (
            &["--client-core", "5000"][..],
            "--client-core 5000: this process may not use",
        ),
        (&["--sections", "kernel"], "possible values: scanner"),
    ] {
        let output = ridgeline(folder.path(), &[&["roofline"], arguments].concat());
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(part), "{said}");
    }
}
