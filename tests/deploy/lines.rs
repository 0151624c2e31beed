//! Every command line of deploy/ is one that the program takes, and every file that one names is there.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use crate::commands::{Call, of_page, of_script};
use crate::kubernetes::Object;
use crate::kustomize::{render, root, text};
use crate::manifests::{containers, everything, flag};
use crate::program;

/// The files of deploy/, by the ending of their names.
fn files(ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![root().join("deploy")];
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.to_string_lossy().ends_with(ending) {
                found.push(path);
            }
        }
    }
    found
}

/// The commands of the Dockerfile's final image, and the lines that its build runs.
fn of_dockerfile(path: &Path) -> Vec<Call> {
    let text = text(path).replace("\\\n", " ");
    let mut calls = Vec::new();
    for (instruction, rest) in text.lines().filter_map(|line| line.split_once(' ')) {
        match instruction {
            "RUN" => calls.extend(of_script("Dockerfile", rest)),
            "#" if rest.trim().starts_with("docker ") => {
                calls.extend(of_script("Dockerfile", rest));
            }
            _ => {}
        }
    }
    let list = |instruction: &str| -> Vec<String> {
        let mut lines = text
            .lines()
            .filter_map(|line| line.strip_prefix(instruction));
        let line = lines.next().unwrap_or_else(|| panic!("no {instruction}"));
        serde_json::from_str(line).unwrap()
    };
    let words = [list("ENTRYPOINT "), list("CMD ")].concat();
    let place = "Dockerfile, what a container runs".to_owned();
    calls.push(Call { place, words });
    calls
}

/// Every command line that deploy/ or the README shows or runs.
fn calls() -> Vec<Call> {
    let mut calls = Vec::new();
    let named = |path: &Path| path.strip_prefix(root()).unwrap().display().to_string();
    let mut pages = files(".md");
    pages.push(root().join("README.md"));
    for path in pages {
        calls.extend(of_page(&named(&path), &text(&path)));
    }
    for path in files(".sbatch") {
        calls.extend(of_script(&named(&path), &text(&path)));
    }
    calls.extend(of_dockerfile(&root().join("deploy/Dockerfile")));
    // What comments of manifests tell to run.
    for path in files(".yaml") {
        let comments: Vec<String> = text(&path)
            .lines()
            .filter_map(|line| line.strip_prefix('#'))
            .filter_map(|line| line.split_once(": kubectl "))
            .map(|(_, rest)| format!("kubectl {rest}"))
            .collect();
        calls.extend(
            comments
                .iter()
                .flat_map(|line| of_script(&named(&path), line)),
        );
    }
    for (_, container) in containers(&everything().objects) {
        calls.push(Call {
            place: format!("the container {}", container.name),
            words: container.words(),
        });
    }
    calls
}

/// Why the program does not take these arguments, if it does not. It reads all of them, and then says
/// what it takes in place of doing it.
fn refusal(arguments: &[String]) -> Option<String> {
    let mut arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    arguments.push("--help");
    let exit = program::run(&arguments);
    (exit.code != Some(0)).then_some(exit.said)
}

#[test]
fn the_program_takes_every_command_line() {
    let calls = calls();
    let mut subcommands = BTreeSet::new();
    let mut wrong = Vec::new();
    for call in &calls {
        let Some(arguments) = call.of_ridgeline() else {
            continue;
        };
        subcommands.extend(arguments.first().cloned());
        let unknown = arguments.iter().find(|word| word.contains('$'));
        assert_eq!(unknown, None, "{}: what may it be?", call.place);
        if let Some(why) = refusal(arguments) {
            wrong.push(format!("{}: {}\n{why}", call.place, arguments.join(" ")));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for needed in ["bench", "worker", "mock-server", "config"] {
        assert!(subcommands.contains(needed), "none runs {needed}");
    }
}

#[test]
fn a_flag_or_a_value_that_is_not_known_is_found() {
    let words = |line: &str| -> Vec<String> { line.split(' ').map(str::to_owned).collect() };
    assert_eq!(refusal(&words("bench --url http://127.0.0.1:1")), None);
    for wrong in [
        "worker --listen=tcp://0.0.0.0:9700 --no-such-flag",
        "bench --request-rate=fast",
        "bench --worker-records=somewhere",
        "no-such-command",
    ] {
        let said = refusal(&words(wrong)).unwrap_or_else(|| panic!("{wrong} was taken"));
        assert!(said.contains("error"), "{said}");
    }
}

#[test]
fn files_and_folders_that_command_lines_name_are_there() {
    let mut seen = 0;
    for call in calls() {
        for word in call.words.iter().filter(|word| word.starts_with("deploy/")) {
            assert!(root().join(word).exists(), "{}: {word}", call.place);
            seen += 1;
        }
    }
    assert!(seen >= 8, "{seen}");
}

#[test]
fn the_plan_is_one_that_can_be_run() {
    let objects = render("base").objects;
    let (name, data) = objects
        .iter()
        .find_map(|object| match object {
            Object::ConfigMap(map) => Some((&map.metadata.name, &map.data)),
            _ => None,
        })
        .unwrap();
    assert_eq!(name, "ridgeline-plan");
    let plans: Vec<_> = data.iter().collect();
    let [(file, plan)] = plans[..] else {
        panic!("one plan is expected");
    };
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(file);
    fs::write(&path, plan).unwrap();
    let exit = program::run(&["config", "validate", &path.display().to_string()]);
    assert_eq!(exit.code, Some(0), "{}", exit.said);
    // The coordinator reads it where it is mounted.
    let all = containers(&objects);
    let (pod, coordinator) = all.iter().find(|(_, c)| c.name == "coordinator").unwrap();
    let map = pod
        .volumes
        .iter()
        .find(|volume| volume.config_map.is_some())
        .unwrap();
    assert_eq!(&map.config_map.as_ref().unwrap().name, name);
    let mounts = coordinator.volume_mounts.iter();
    let mount = mounts.clone().find(|mount| mount.name == map.name).unwrap();
    let read = format!("{}/{file}", mount.mount_path);
    assert!(coordinator.args.contains(&read), "{read}");
    assert!(flag(coordinator, "output-dir").starts_with("/results/"));
    // The server that it measures is the one to try it with.
    let url = plan
        .lines()
        .find_map(|line| line.strip_prefix("url: http://"));
    let (host, port) = url.unwrap().split_once(':').unwrap();
    let trial = render("trial").objects;
    let is_it = |object: &Object| match object {
        Object::Service(service) => {
            service.metadata.name == host && service.spec.ports[0].port.to_string() == port
        }
        _ => false,
    };
    assert!(trial.iter().any(is_it), "{host}:{port}");
}

#[test]
fn the_image_is_built_as_the_checkout_says_and_runs_as_nobody() {
    let dockerfile = text(&root().join("deploy/Dockerfile")).replace("\\\n", " ");
    let mut stages = Vec::new();
    let mut user = None;
    let is_read = |line: &&str| !line.trim().is_empty() && !line.starts_with('#');
    for line in dockerfile.lines().filter(is_read) {
        let (instruction, rest) = line.split_once(' ').unwrap();
        match instruction {
            "FROM" => {
                let (image, name) = rest.split_once(" AS ").unwrap_or((rest, ""));
                assert!(
                    image.contains(':') && !image.ends_with(":latest"),
                    "{image}: a release"
                );
                stages.push(name.to_owned());
                user = None;
            }
            "COPY" => {
                let from = rest
                    .split(' ')
                    .find_map(|word| word.strip_prefix("--from="));
                assert!(from.is_none_or(|from| stages.iter().any(|name| name == from)));
            }
            "USER" => user = Some(rest.to_owned()),
            "RUN" => {
                let fetches = ["curl", "wget", "apt-get", "git clone", "pip"];
                assert!(fetches.iter().all(|word| !rest.contains(word)), "{rest}");
            }
            "WORKDIR" | "ARG" | "ENV" | "LABEL" | "ENTRYPOINT" | "CMD" => {}
            other => panic!("{other} is not expected here"),
        }
    }
    assert_eq!(
        stages,
        ["build", ""],
        "a stage that builds, and a small one"
    );
    let user = user.expect("the last stage names its user");
    assert!(
        user.split(':')
            .all(|id| id.parse::<u32>().is_ok_and(|id| id > 0)),
        "{user}"
    );
    assert!(dockerfile.contains("cargo build --release --locked --package ridgeline"));
    // What the context leaves out is not what the build needs.
    let ignored = text(&root().join("deploy/Dockerfile.dockerignore"));
    let needed = [
        "Cargo.toml",
        "Cargo.lock",
        "crates",
        "mock-server",
        "perf",
        "benches",
        "tests",
    ];
    for line in ignored.lines().filter(|line| !line.starts_with('#')) {
        assert!(!needed.contains(&line), "{line}");
    }
}
