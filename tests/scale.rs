//! More in flight than the table of one ring holds, with a limit that makes it few.
#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "outside/mock.rs"]
mod mock;

use std::fs;
use std::process::{Command, Output};

use serde_json::Value;

/// Runs a load in a process that may have `descriptors` descriptors, and no way to raise that.
fn bench(descriptors: u32, arguments: &[&str]) -> Output {
    Command::new("sh")
        .args([
            "-c",
            &format!("ulimit -n {descriptors}; exec \"$0\" \"$@\""),
        ])
        .arg(env!("CARGO_BIN_EXE_ridgeline"))
        .arg("bench")
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn a_load_is_spread_over_the_rings_that_it_takes() {
    let server = mock::Mock::start(&["--mode", "instant"]);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out").display().to_string();
    let core = rustix::thread::sched_getcpu().to_string();
    let load = [
        "--url",
        &server.url,
        "--isl",
        "8",
        "--osl",
        "3",
        "--driver",
        "auto",
        "--concurrency",
        "600",
        "--request-count",
        "1800",
        "--output-dir",
        &out,
    ];
    let of = |report: &Value, path: &str| report.pointer(path).unwrap().as_u64().unwrap();
    for cores in [core.as_str(), "none"] {
        let output = bench(300, &[&load[..], &["--cores", cores]].concat());
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("epoll is used instead") || said.contains("this process needs") {
            println!("skipped: {said}");
            return;
        }
        let report = fs::read(folder.path().join("out/report.json"));
        let report: Value = serde_json::from_slice(&report.expect(&said)).unwrap();
        assert_eq!(of(&report, "/load/completed"), 1800, "{said}");
        assert_eq!(of(&report, "/load/failed"), 0, "{said}");
        let shards = report.pointer("/harness/shards").unwrap();
        let shards = shards.as_array().unwrap();
        // 236 connections a table: 207 slots, and those that are still closing.
        assert_eq!(shards.len(), 3);
        let opened = |shard: &Value| of(shard, "/connections_opened");
        assert!(shards.iter().all(|shard| opened(shard) > 0), "{shards:?}");
        assert!(
            said.contains("600 requests in flight take 3 rings"),
            "{said}"
        );
    }
    // The file that repeats the run does.
    let again = folder.path().join("again").display().to_string();
    let file = folder.path().join("out/config.yaml").display().to_string();
    let output = bench(300, &["--config", &file, "--output-dir", &again]);
    assert_eq!(
        output.status.code(),
        Some(0),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    // The embedded server, too, has as many rings as that takes.
    let mock = ["--mock", "--isl", "8", "--osl", "3", "--cores", &core];
    let many = [
        "--concurrency",
        "600",
        "--request-count",
        "1200",
        "--output-dir",
        &again,
    ];
    let output = bench(300, &[&mock[..], &many[..]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    let report = fs::read(folder.path().join("again/report.json"));
    let report: Value = serde_json::from_slice(&report.expect(&said)).unwrap();
    assert_eq!(of(&report, "/load/completed"), 1200, "{said}");
    // With a number of shards that was named, what is missing is said.
    let output = bench(300, &[&load[..], &["--shards", "1"]].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("leave --shards out"), "{said}");
    server.stop();
}

#[test]
fn epoll_says_what_its_limit_is_and_why() {
    let server = mock::Mock::start(&["--mode", "instant"]);
    let flags = [
        "--driver",
        "epoll",
        "--concurrency",
        "600",
        "--request-count",
        "600",
    ];
    let fixed = ["--url", &server.url, "--model", "mock", "--prompt", "Hi"];
    let output = bench(300, &[&fixed[..], &flags].concat());
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{said}");
    let parts = [
        "needs 653 descriptors",
        "leaves 236",
        "each connection is a descriptor",
        "--driver uring",
    ];
    for part in parts {
        assert!(said.contains(part), "{part}: {said}");
    }
}
