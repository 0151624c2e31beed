//! Drivers that a build may have (`--features monoio,glommio`), and what is said where it has not.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

fn bench(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_ridgeline"))
        .args(["bench", "--mock", "--quiet"])
        .args(arguments)
        .output()
        .unwrap()
}

/// A load of each kind, all of it answered.
#[expect(clippy::print_stdout, reason = "a test that is skipped says so")]
fn carries(driver: &str) {
    for more in [
        &["--streaming", "--concurrency", "16"][..],
        &["--no-streaming", "--request-rate", "2000"],
        &[
            "--no-streaming",
            "--offline",
            "--shards",
            "2",
            "--cores",
            "none",
        ],
    ] {
        let folder = tempfile::tempdir().unwrap();
        let out = folder.path().join("out").display().to_string();
        let fixed = [
            "--driver",
            driver,
            "--request-count",
            "300",
            "--output-dir",
            &out,
        ];
        let output = bench(&[&fixed, more].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("can't have an io_uring") || said.contains("can't start here") {
            println!("skipped: {said}");
            return;
        }
        // Bursts on a busy machine may lag.
        assert!([Some(0), Some(3)].contains(&output.status.code()), "{said}");
        let report = fs::read(folder.path().join("out/report.json")).unwrap();
        let report: Value = serde_json::from_slice(&report).unwrap();
        let load = &report["load"];
        assert_eq!(
            (&load["completed"], &load["failed"]),
            (&300.into(), &0.into())
        );
        assert_eq!(report["environment"]["driver"], driver);
    }
}

/// A build without the driver says which one has it.
fn is_told_of(driver: &str) {
    let output = bench(&["--driver", driver, "--request-count", "1"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let way = format!("cargo build --release --features {driver}`");
    assert!(said.contains(&way), "{said}");
}

/// Without it times would be the program's own, and nobody would know.
fn has_no_stamps(driver: &str) {
    let output = bench(&["--driver", driver, "--rx-timestamps", "on"]);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    let why = format!("--rx-timestamps on: {driver} hands out no kernel stamps");
    assert!(said.contains(&why) || said.contains("here: "), "{said}");
}

#[test]
fn monoio() {
    if cfg!(feature = "monoio") {
        carries("monoio");
        has_no_stamps("monoio");
    } else {
        is_told_of("monoio");
    }
}

#[test]
fn glommio() {
    if cfg!(feature = "glommio") {
        carries("glommio");
        has_no_stamps("glommio");
    } else {
        is_told_of("glommio");
    }
}

/// glommio asks for the limit, whether or not the kernel counts its rings against it.
#[test]
#[cfg(feature = "glommio")]
fn glommio_says_what_locked_memory_it_wants() {
    let output = Command::new("sh")
        .args([
            "-c",
            "ulimit -l 64 && exec \"$0\" bench --mock --quiet --driver glommio",
        ])
        .arg(env!("CARGO_BIN_EXE_ridgeline"))
        .output()
        .unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert_eq!(said.lines().count(), 1, "{said}");
    if !said.contains("io_uring") {
        for word in [
            "512 KiB of locked memory",
            "64 KiB",
            "ulimit -l",
            "--driver epoll",
        ] {
            assert!(said.contains(word), "{said}");
        }
    }
}
