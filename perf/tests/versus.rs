//! The comparison as a whole, with programs that are there and with a stand-in for ridgeline.

#![expect(clippy::unwrap_used, reason = "a test's own steps")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// Runs on a core that is allowed here, whichever that is.
fn versus(args: &[&str]) -> Output {
    let core = rustix::thread::sched_getcpu().to_string();
    Command::new(env!("CARGO_BIN_EXE_versus"))
        .args(args)
        .args(["--server-core", &core, "--client-core", &core])
        .output()
        .unwrap()
}

fn json(output: &Output) -> Value {
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let text = str::from_utf8(&output.stdout).unwrap();
    serde_json::from_str(text.lines().last().unwrap()).unwrap()
}

/// A program that writes `report.json` as ridgeline does, for 500 requests in 2 s.
fn stand_in(folder: &Path, failed: u32) -> PathBuf {
    let path = folder.join("ridgeline");
    let report = format!(
        r#"{{"verdict":{{"status":"valid"}},"load":{{"completed":500,"failed":{failed},
           "duration_ns":2000000000,"schedule_lag_ns":{{"p50":0}}}}}}"#
    );
    let script = format!(
        "#!/bin/sh\nwhile [ $# -gt 1 ]; do [ \"$1\" = --output-dir ] && dir=$2; shift; done\n\
         cat > \"$dir/report.json\" <<'END'\n{report}\nEND\n"
    );
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn the_bare_client_is_compared_with_itself() {
    let output = versus(&["self", "--rounds", "2", "--requests", "300"]);
    let value = json(&output);
    assert_eq!(value["preset"], "self");
    let rounds = value["rounds"].as_array().unwrap();
    assert_eq!(rounds.len(), 2);
    for sample in rounds.iter().flat_map(|round| round.as_array().unwrap()) {
        assert_eq!(sample["requests"], 300);
        assert!(sample["wall_ns"].as_u64() >= sample["elapsed_ns"].as_u64());
    }
    let figure = &value["figures"][0];
    assert_eq!(figure["measure"], "cpu_ns_per_request");
    assert!(figure["a"].as_f64().unwrap() > 0.0 && figure["value"].as_f64().unwrap() > 0.0);
}

#[test]
fn a_report_in_the_output_folder_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let ridgeline = stand_in(folder.path(), 0);
    let ridgeline = ridgeline.to_str().unwrap();
    let flags = [
        "--rounds",
        "1",
        "--requests",
        "200",
        "--ridgeline",
        ridgeline,
    ];
    for (preset, measure, b) in [
        ("request", "requests_per_s", 250.0),
        ("offline", "requests_per_s", 250.0),
        ("paced", "events_per_s", 2500.0),
        ("coalesced", "events_per_s", 2500.0),
    ] {
        let value = json(&versus(&[&[preset, "--events", "10"], &flags[..]].concat()));
        let figure = &value["figures"][1];
        assert_eq!(figure["measure"], measure);
        assert_eq!(figure["b"], b);
        assert_eq!(
            value["rounds"][0][0]["requests"], 200,
            "A is the bare client"
        );
        assert_eq!(value["rounds"][0][1]["requests"], 500, "B is the other");
        assert_eq!(value["rounds"][0][1]["verdict"], "valid");
    }
    let value = json(&versus(&[&["memory"], &flags[..]].concat()));
    assert_eq!(value["figures"][0]["measure"], "resident_bytes");
    let lag = [&["lag", "--seconds", "1", "--rate", "500"], &flags[..]].concat();
    let value = json(&versus(&lag));
    assert_eq!(value["figures"][0]["b"], 0.0);
    assert_eq!(
        value["rounds"][0][0]["requests"], 500,
        "deadlines of the sleeper"
    );
}

/// A program that serves, loads and joins as ridgeline does, with errors that it was given.
fn stand_in_of_all(folder: &Path) -> PathBuf {
    let path = folder.join("ridgeline");
    let script = r#"#!/bin/sh
case "$1" in
mock-server)
    printf 'listening on http://127.0.0.1:9\n'
    while read line; do :; done ;;
report)
    printf '{"ttft_alone_error_ns":{"size_p50":7,"size_p99":8},"gap_alone_error_ns":{"size_p50":9,"size_p99":10}}' \
        > "$2/truth.json" ;;
bench)
    while [ $# -gt 1 ]; do [ "$1" = --output-dir ] && dir=$2; shift; done
    mkdir "$dir"
    printf '{"verdict":{"status":"valid"},"load":{"completed":5,"duration_ns":7}}' > "$dir/report.json" ;;
esac
"#;
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn times_are_compared_with_those_of_a_bare_pair() {
    let folder = tempfile::tempdir().unwrap();
    let ridgeline = stand_in_of_all(folder.path());
    let flags = ["timing", "--rounds", "1", "--seconds", "1", "--rate", "200"];
    let own = ["--ridgeline", ridgeline.to_str().unwrap()];
    let value = json(&versus(&[&flags[..], &own].concat()));
    assert_eq!(value["arms"], serde_json::json!(["bare-pair", "ridgeline"]));
    let figures = value["figures"].as_array().unwrap();
    let found: Vec<(&str, f64, bool)> = figures
        .iter()
        .map(|figure| {
            let (measure, b) = (figure["measure"].as_str(), figure["b"].as_f64());
            (measure.unwrap(), b.unwrap(), figure["bound"].is_null())
        })
        .collect();
    let expected = [
        ("ttft_error_p50_ns", 7.0, false),
        ("gap_error_p50_ns", 9.0, false),
        ("gap_error_p99_ns", 10.0, false),
        ("ttft_error_p99_ns", 8.0, true),
        ("ttft_read_error_p50_ns", 7.0, true),
        ("ttft_read_error_p99_ns", 8.0, true),
        ("gap_read_error_p50_ns", 9.0, true),
        ("gap_read_error_p99_ns", 10.0, true),
    ];
    assert_eq!(found, expected);
    assert!(
        figures
            .iter()
            .all(|figure| figure["a"].as_f64() > Some(0.0))
    );
    assert_eq!(value["rounds"][0][1]["requests"], 5);
    let output = versus(&["timing", "--share", "1.5"]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--share must be above 0"));
}

/// A program that serves as `ridgeline mock-server` does, whatever it is told.
fn stand_in_server(folder: &Path, flags: &str) -> PathBuf {
    let path = folder.join("ridgeline");
    let server = env!("CARGO_BIN_EXE_bare-server");
    let script = format!("#!/bin/sh\nexec '{server}' --attached {flags}\n");
    fs::write(&path, script).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

#[test]
fn servers_are_compared_by_what_they_use_themselves() {
    let folder = tempfile::tempdir().unwrap();
    for (preset, server, requests, measure) in [
        ("serve-self", "", 3000, "cpu_ns_per_request"),
        (
            "serve-request",
            "--mode request",
            3000,
            "cpu_ns_per_request",
        ),
        (
            "serve-coalesced",
            "--mode coalesced --events 40",
            300,
            "cpu_ns_per_event",
        ),
        (
            "serve-paced",
            "--mode paced --events 40",
            300,
            "cpu_ns_per_event",
        ),
    ] {
        let ridgeline = stand_in_server(folder.path(), server);
        let flags = [
            "--rounds",
            "1",
            "--events",
            "40",
            "--requests",
            &requests.to_string(),
        ]
        .map(str::to_owned);
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let own = ["--ridgeline", ridgeline.to_str().unwrap()];
        let value = json(&versus(&[&[preset], &flags[..], &own].concat()));
        assert_eq!(value["figures"][0]["measure"], measure);
        let samples = value["rounds"][0].as_array().unwrap();
        for sample in samples {
            assert_eq!(sample["requests"], requests);
            // Both answer with the same bytes: the bare server with what the other was heard to say.
            assert_eq!(sample["response_bytes"], samples[0]["response_bytes"]);
            assert!(sample["cpu_ns"].as_u64() > Some(0));
        }
    }
}

#[test]
fn nginx_answers_with_a_body_of_the_same_length() {
    let folder = tempfile::tempdir().unwrap();
    let ridgeline = stand_in_server(folder.path(), "--mode request");
    let flags = ["nginx", "--rounds", "1", "--requests", "500", "--ridgeline"];
    let output = versus(&[&flags[..], &[ridgeline.to_str().unwrap()]].concat());
    let said = String::from_utf8_lossy(&output.stdout);
    if said.contains("skipped") {
        println!("{said}");
        return;
    }
    let value = json(&output);
    assert_eq!(value["arms"], serde_json::json!(["nginx", "ridgeline"]));
    assert_eq!(value["rounds"][0][0]["requests"], 500);
    assert!(value["rounds"][0][0]["cpu_ns"].as_u64() > Some(0));
}

#[test]
fn a_server_that_does_not_start_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let ridgeline = stand_in_server(folder.path(), "--no-such-flag");
    let flags = ["serve-request", "--ridgeline", ridgeline.to_str().unwrap()];
    let output = versus(&flags);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("does not listen"));
    let output = versus(&["endpoints-server", flags[1], flags[2]]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stdout).contains("skipped"));
}

#[test]
fn a_broken_promise_is_a_code_and_a_failed_run_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let ridgeline = stand_in(folder.path(), 0);
    let flags = [
        "request",
        "--rounds",
        "1",
        "--requests",
        "2000",
        "--check",
        "--ridgeline",
    ];
    // 250 requests per second are far below what the bare client does.
    let output = versus(&[&flags[..], &[ridgeline.to_str().unwrap()]].concat());
    assert_eq!(
        output.status.code(),
        Some(5),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    assert!(String::from_utf8_lossy(&output.stdout).contains("BROKEN"));
    let ridgeline = stand_in(folder.path(), 3);
    let output = versus(&[&flags[..], &[ridgeline.to_str().unwrap()]].concat());
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        said.contains("error: ridgeline: 3 requests failed"),
        "{said}"
    );
    let output = versus(&[&flags[..], &["no such program"]].concat());
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("build it first"));
}
