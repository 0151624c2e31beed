//! The batch script, run whole: `srun` and `scontrol` are stand-ins that stay on this machine.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde_json::Value;

use crate::kustomize::root;
use crate::mock::Mock;

/// A script that takes longer hangs.
const RUN_MAX: Duration = Duration::from_secs(90);

/// Leaves its options out, notes them, and runs the rest.
const SRUN: &str = r#"#!/bin/bash
while [[ ${1:-} == --* ]]; do
    echo "$1" >> "$NOTES"
    shift
done
exec "$@"
"#;

/// Every node is this machine; the first is the coordinator's.
const SCONTROL: &str = r#"#!/bin/bash
[[ $1 == show && $2 == hostnames ]] || exit 1
for node in ${3//,/ }; do echo "$node"; done
"#;

fn install(folder: &Path, name: &str, script: &str) {
    let path = folder.join(name);
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

/// Runs the script in `folder` for the nodes, by commas. `None`: it did not end.
fn run(folder: &Path, nodes: &str, port: u16) -> Option<Output> {
    let bin = folder.join("bin");
    fs::create_dir_all(&bin).unwrap();
    install(&bin, "srun", SRUN);
    install(&bin, "scontrol", SCONTROL);
    // The first of several runs has made it.
    let _ = symlink(env!("CARGO_BIN_EXE_ridgeline"), bin.join("ridgeline"));
    let path = std::env::var("PATH").unwrap();
    let child = Command::new("bash")
        .arg(root().join("deploy/slurm/run.sbatch"))
        .arg("plan.yaml")
        .current_dir(folder)
        .env("PATH", format!("{}:{path}", bin.display()))
        .env("NOTES", folder.join("notes"))
        .env("SLURM_JOB_ID", "7")
        .env("SLURM_JOB_NODELIST", nodes)
        .env("SLURM_CPUS_PER_TASK", "1")
        .env("RIDGELINE_PORT", port.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    let (ended, end) = mpsc::channel();
    thread::spawn(move || ended.send(child.wait_with_output()));
    if let Ok(output) = end.recv_timeout(RUN_MAX) {
        return Some(output.unwrap());
    }
    // It may have ended just now.
    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
    None
}

#[test]
fn the_batch_script_runs_a_load_over_its_nodes() {
    let server = Mock::start(&["--mode", "instant"]);
    let folder = tempfile::tempdir().unwrap();
    let plan = format!(
        "url: {}\nisl: 8\nosl: 3\nrequest-count: 20\nconcurrency: 4\n",
        server.url
    );
    fs::write(folder.path().join("plan.yaml"), plan).unwrap();
    // Free a moment ago; nothing else here asks for a port by its number.
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr();
    let output = run(folder.path(), "127.0.0.9,127.0.0.1", port.unwrap().port());
    let output = output.expect("the script ends");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let report = fs::read(folder.path().join("ridgeline-7/report.json")).unwrap();
    let report: Value = serde_json::from_slice(&report).unwrap();
    assert_eq!(report["load"]["completed"], 20, "{said}");
    let workers = report["harness"]["workers"].as_array().unwrap();
    assert_eq!(workers.len(), 1, "{workers:?}");
    // The worker's step has the second node, the coordinator's the first.
    let notes = fs::read_to_string(folder.path().join("notes")).unwrap();
    for option in [
        "--nodelist=127.0.0.1",
        "--nodelist=127.0.0.9",
        "--ntasks=1",
        "--cpu-bind=cores",
    ] {
        assert!(
            notes.lines().any(|line| line == option),
            "{option}: {notes}"
        );
    }
    server.stop();
}

#[test]
fn one_node_is_too_few_for_the_batch_script() {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), "127.0.0.1", 1).expect("the script ends");
    assert_eq!(output.status.code(), Some(2));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("take two nodes"), "{said}");
}
