//! Building a revision, once.

use std::collections::BTreeMap;
use std::env;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::plant::Plant;
use super::revision::{self, Revision};

/// The bench program of instruction counts: it is run under valgrind and not by criterion.
pub(crate) const COUNTS: &str = "instructions";

/// The sources of the program `ridgeline` and of what only it and no bench program needs, as cargo names them to
/// the compiler.
const NEEDLESS: &str = "crates/cli/main.rs|mock-server/src/lib.rs\
                        |crates/net-epoll/src/lib.rs|crates/net-uring/src/lib.rs";

/// The profile of all that is built, the same for every revision, whether it knows of it or not.
///
/// Optimised as a release, but each crate by itself: to optimise a program as a whole takes many minutes for
/// each of a dozen, and the gate compares programs that are made alike. One unit a crate, so that a change does
/// not move functions from one to another. A panic unwinds because that of a bench program must: else all
/// dependencies would be built in two ways.
const PROFILE: &str = "gate";
const PROFILE_SETTINGS: [&str; 5] = [
    "inherits=\"release\"",
    "lto=\"off\"",
    "codegen-units=1",
    "panic=\"unwind\"",
    "debug=false",
];

/// What runs before or after a load, if at all: to optimise it takes most of the time of a build, and changes
/// nothing that is measured.
const ASIDE: [&str; 14] = [
    "aho-corasick",
    "clap_builder",
    "daachorse",
    "encoding_rs",
    "fancy-regex",
    "granit-parser",
    "rayon",
    "regex-automata",
    "regex-syntax",
    "ridgeline-mock-server",
    "schemars",
    "serde-saphyr",
    "tiktoken-rs",
    "tokenizers",
];

/// Where programs are built and kept.
#[derive(Debug)]
pub(crate) struct Workshop {
    /// The work tree that this is run in.
    pub(crate) root: PathBuf,
    /// `target/perf-gate`.
    pub(crate) folder: PathBuf,
    /// Versions of the compiler and of cargo, and the profile, which a build depends on.
    toolchain: String,
}

/// What is built.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    /// Bench programs by name; all that there are where none are named.
    pub(crate) benches: Vec<String>,
    /// Whether with `ridgeline` and the bare server.
    pub(crate) ends: bool,
    /// The slowdown that is built in.
    pub(crate) plant: Option<Plant>,
}

/// The programs of a revision.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Programs {
    /// What the builds were made with.
    toolchain: String,
    /// Whether the bench programs are all that the revision has.
    complete: bool,
    /// Bench programs by name.
    pub(crate) benches: BTreeMap<String, PathBuf>,
    pub(crate) ridgeline: Option<PathBuf>,
    pub(crate) bare_server: Option<PathBuf>,
}

impl Workshop {
    /// In `target/perf-gate` of this work tree, or of where cargo is told to build.
    pub(crate) fn open(root: PathBuf) -> io::Result<Self> {
        let target =
            env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let folder = root.join(target).join("perf-gate");
        fs::create_dir_all(&folder)?;
        let version = |program: &str, variable: &str| {
            let program = env::var_os(variable).unwrap_or_else(|| program.into());
            let output = Command::new(&program).arg("-vV").output()?;
            Ok::<_, io::Error>(String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let toolchain = [version("rustc", "RUSTC")?, version("cargo", "CARGO")?].concat()
            + &settings().join(" ");
        Ok(Self {
            root,
            folder,
            toolchain,
        })
    }

    /// The programs of a revision. Those of a commit are built once, those of the work tree as far as it
    /// changed; dependencies are built once for all revisions that agree about them.
    pub(crate) fn build(&self, revision: &Revision, order: &Order) -> io::Result<Programs> {
        let mut label = revision.label();
        if let Some(plant) = order.plant {
            label = format!("{label}-{plant}");
        }
        let kept = self.folder.join(&label);
        let list = kept.join("programs.json");
        if let Revision::Commit(_) = revision
            && let Some(programs) = self.built(&list, order)
        {
            return Ok(programs);
        }
        let source = revision::check_out(&self.root, revision, &self.folder.join("source"))?;
        let built = self.compile(&source, order)?;
        fs::create_dir_all(&kept)?;
        let keep = |path: &PathBuf, name: &str| {
            let copy = kept.join(name);
            // A program that runs can't be written over, but its name can be given to another.
            let _ = fs::remove_file(&copy);
            fs::copy(path, &copy)?;
            Ok::<_, io::Error>(copy)
        };
        let mut programs = Programs {
            toolchain: self.toolchain.clone(),
            complete: order.benches.is_empty(),
            ..Programs::default()
        };
        for (name, path) in &built.benches {
            programs
                .benches
                .insert(name.clone(), keep(path, &format!("bench-{name}"))?);
        }
        let kept_as =
            |path: &Option<PathBuf>, name| path.as_ref().map(|path| keep(path, name)).transpose();
        programs.ridgeline = kept_as(&built.ridgeline, "ridgeline")?;
        programs.bare_server = kept_as(&built.bare_server, "bare-server")?;
        fs::write(&list, serde_json::to_string_pretty(&programs)?)?;
        Ok(programs)
    }

    /// What an earlier run left, if it is all that is wanted.
    fn built(&self, list: &Path, order: &Order) -> Option<Programs> {
        let programs: Programs = serde_json::from_str(&fs::read_to_string(list).ok()?).ok()?;
        let mut paths = programs
            .benches
            .values()
            .chain(&programs.ridgeline)
            .chain(&programs.bare_server);
        let there = paths.all(|path| path.is_file());
        let has = |name: &String| programs.benches.contains_key(name);
        let all = programs.complete || !order.benches.is_empty();
        let enough = all
            && order.benches.iter().all(has)
            && (!order.ends || programs.ridgeline.is_some() && programs.bare_server.is_some());
        (there && enough && programs.toolchain == self.toolchain).then_some(programs)
    }

    fn compile(&self, source: &Path, order: &Order) -> io::Result<Programs> {
        let there = bench_targets(source)?;
        let wanted = |name: &&String| order.benches.is_empty() || order.benches.contains(*name);
        let names: Vec<&String> = there.iter().filter(wanted).collect();
        let mut programs = Programs::default();
        if !names.is_empty() {
            let mut cargo = self.cargo(source, order)?;
            cargo.args(["bench", "--package", "ridgeline", "--no-run"]);
            for name in names {
                cargo.arg("--bench").arg(name);
            }
            programs.take(&artefacts(&mut cargo)?);
        }
        if !order.ends {
            // The one that stands in.
            programs.ridgeline = None;
        }
        if order.ends {
            let mut cargo = self.cargo(source, order)?;
            cargo.args(["build", "--package", "ridgeline", "--bin", "ridgeline"]);
            programs.take(&artefacts(&mut cargo)?);
            let mut cargo = self.cargo(source, order)?;
            cargo.args(["build", "--package", "ridgeline-perf"]);
            cargo.args(["--bin", "bare-server"]);
            programs.take(&artefacts(&mut cargo)?);
        }
        Ok(programs)
    }

    fn cargo(&self, source: &Path, order: &Order) -> io::Result<Command> {
        let mut cargo = cargo(source);
        cargo.env("CARGO_TARGET_DIR", self.folder.join("build"));
        if order.ends {
            cargo.env_remove("RUSTC_WORKSPACE_WRAPPER");
        } else {
            cargo.env("RUSTC_WORKSPACE_WRAPPER", self.wrapper(order.plant)?);
        }
        Ok(cargo)
    }

    /// A compiler for builds of which only bench programs are run. Cargo builds the program `ridgeline`
    /// along with them, which takes longer than all else: empty sources stand in.
    ///
    /// With a plant it sets that one's `cfg`. By cargo's setting for the workspace's own crates it is for
    /// these alone, so that dependencies need not be built again, as flags for all crates would make them.
    fn wrapper(&self, plant: Option<Plant>) -> io::Result<PathBuf> {
        let empty = self.folder.join("empty.rs");
        renew(&empty, "//! Nothing.\n#![allow(dead_code)]\nfn main() {}\n")?;
        let (name, flag) = match plant {
            Some(plant) => (
                format!("rustc-planting-{plant}"),
                format!(" --cfg '{}'", plant.cfg()),
            ),
            None => ("rustc-for-benches".to_owned(), String::new()),
        };
        let path = self.folder.join(name);
        let script = format!(
            "#!/bin/sh\n\
             for argument do\n\
             shift\n\
             case \"$argument\" in {NEEDLESS}) argument='{}' ;; esac\n\
             set -- \"$@\" \"$argument\"\n\
             done\n\
             exec \"$@\"{flag}\n",
            empty.display(),
        );
        renew(&path, &script)?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(path)
    }
}

/// Writes a file unless it is as wanted: what was built from it is then still good.
fn renew(path: &Path, text: &str) -> io::Result<()> {
    if fs::read_to_string(path).is_ok_and(|there| there == text) {
        return Ok(());
    }
    fs::write(path, text)
}

impl Programs {
    /// Takes what cargo built, from the lines of its messages.
    fn take(&mut self, messages: &str) {
        for message in messages.lines() {
            let Ok(message) = serde_json::from_str::<Value>(message) else {
                continue;
            };
            let text = |pointer: &str| message.pointer(pointer).and_then(Value::as_str);
            let (Some(name), Some(kind), Some(path)) = (
                text("/target/name"),
                text("/target/kind/0"),
                text("/executable").map(PathBuf::from),
            ) else {
                continue;
            };
            match (kind, name) {
                ("bench", _) => _ = self.benches.insert(name.to_owned(), path),
                ("bin", "ridgeline") => self.ridgeline = Some(path),
                ("bin", "bare-server") => self.bare_server = Some(path),
                _ => {}
            }
        }
    }
}

/// The names of the root package's bench programs.
fn bench_targets(source: &Path) -> io::Result<Vec<String>> {
    let mut cargo = cargo(source);
    cargo.args(["metadata", "--format-version", "1", "--no-deps", "--locked"]);
    let metadata: Value = serde_json::from_str(&output(&mut cargo)?)?;
    let list = |value: &Value, key: &str| value[key].as_array().cloned().unwrap_or_default();
    let root = list(&metadata, "packages")
        .into_iter()
        .find(|package| package["name"] == "ridgeline");
    let Some(root) = root else {
        return Err(io::Error::other("the workspace has no package ridgeline"));
    };
    let benches = list(&root, "targets")
        .into_iter()
        .filter(|target| target["kind"][0] == "bench");
    Ok(benches
        .filter_map(|target| target["name"].as_str().map(str::to_owned))
        .collect())
}

fn artefacts(cargo: &mut Command) -> io::Result<String> {
    cargo.args(["--profile", PROFILE]);
    for setting in settings() {
        cargo.args(["--config", &setting]);
    }
    output(cargo.args(["--locked", "--message-format", "json-render-diagnostics"]))
}

/// The profile, as cargo is told of it.
fn settings() -> Vec<String> {
    let aside = ASIDE.map(|package| format!("package.{package}.opt-level=0"));
    let all = PROFILE_SETTINGS.into_iter().map(str::to_owned).chain(aside);
    all.map(|setting| format!("profile.{PROFILE}.{setting}"))
        .collect()
}

fn cargo(source: &Path) -> Command {
    let mut command = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(source);
    // What cargo says of the package that this program belongs to is not about the ones it builds.
    for (variable, _) in env::vars_os() {
        if variable.to_string_lossy().starts_with("CARGO_PKG_") {
            command.env_remove(variable);
        }
    }
    command
}

/// What a command prints; what it says on the way is for whoever waits.
fn output(command: &mut Command) -> io::Result<String> {
    let output = command.stderr(Stdio::inherit()).output()?;
    if !output.status.success() {
        let text = format!("{command:?} ended with {}", output.status);
        return Err(io::Error::other(text));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;

    fn workshop(folder: &Path) -> Workshop {
        Workshop {
            root: folder.to_owned(),
            folder: folder.to_owned(),
            toolchain: "1.95".to_owned(),
        }
    }

    fn order(benches: &[&str], ends: bool) -> Order {
        Order {
            benches: benches.iter().map(|&name| name.to_owned()).collect(),
            ends,
            plant: None,
        }
    }

    #[test]
    fn programs_are_found_in_what_cargo_says() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"ridgeline_wire"},"executable":null}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"kind":["bench"],"name":"scanner"},"executable":"/t/scanner-1"}"#,
            "\nnot a message\n",
            r#"{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"ridgeline"},"executable":"/t/ridgeline"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"versus"},"executable":"/t/versus"}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        let mut programs = Programs::default();
        programs.take(messages);
        assert_eq!(
            programs.benches,
            [("scanner".to_owned(), "/t/scanner-1".into())].into()
        );
        assert_eq!(programs.ridgeline, Some("/t/ridgeline".into()));
        assert_eq!(programs.bare_server, None);
    }

    #[test]
    fn an_earlier_build_serves_if_it_has_all_and_was_made_alike() {
        let folder = tempfile::tempdir().unwrap();
        let (list, program) = (folder.path().join("programs.json"), folder.path().join("p"));
        fs::write(&program, "").unwrap();
        let programs = Programs {
            toolchain: "1.95".to_owned(),
            benches: [("scanner".to_owned(), program.clone())].into(),
            ..Programs::default()
        };
        fs::write(&list, serde_json::to_string(&programs).unwrap()).unwrap();
        let mut workshop = workshop(folder.path());
        assert_eq!(
            workshop.built(&list, &order(&["scanner"], false)),
            Some(programs)
        );
        assert_eq!(
            workshop.built(&list, &order(&["scanner", "engine"], false)),
            None
        );
        assert_eq!(workshop.built(&list, &order(&["scanner"], true)), None);
        assert_eq!(
            workshop.built(&list, &order(&[], false)),
            None,
            "all of them"
        );
        workshop.toolchain = "1.96".to_owned();
        assert_eq!(workshop.built(&list, &order(&["scanner"], false)), None);
        workshop.toolchain = "1.95".to_owned();
        fs::remove_file(&program).unwrap();
        assert_eq!(workshop.built(&list, &order(&["scanner"], false)), None);
    }

    #[test]
    fn a_file_that_is_as_wanted_is_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("f");
        renew(&path, "text").unwrap();
        let long_ago = UNIX_EPOCH + Duration::from_secs(1);
        fs::File::options()
            .write(true)
            .open(&path)
            .unwrap()
            .set_modified(long_ago)
            .unwrap();
        renew(&path, "text").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().modified().unwrap(), long_ago);
        renew(&path, "other").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "other");
    }

    #[test]
    fn the_compiler_for_benches_leaves_the_program_out_and_may_plant() {
        let folder = tempfile::tempdir().unwrap();
        let workshop = workshop(folder.path());
        let said = |plant, arguments: &[&str]| {
            let wrapper = workshop.wrapper(plant).unwrap();
            output(Command::new(wrapper).arg("echo").args(arguments)).unwrap()
        };
        assert_eq!(
            said(Some(Plant::Scanner), &["--edition", "a b"]),
            "--edition a b --cfg ridgeline_planted=\"scanner\"\n"
        );
        let empty = folder.path().join("empty.rs").display().to_string();
        for needless in NEEDLESS.split('|') {
            assert_eq!(said(None, &[needless, "x"]), format!("{empty} x\n"));
        }
    }
}
