//! The program's connections: where they lead.
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

#[path = "outside/program.rs"]
mod program; // the program as a child, never for longer than a limit

#[path = "outside/mock.rs"]
mod mock; // the mock server as a child

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;

use serde_json::Value;

use mock::Mock;

/// Runs against a server; what was printed, and `load` of the report.
fn bench(url: &str, flags: &[&str]) -> (String, Value) {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out");
    let mut arguments = vec!["bench", "--url", url, "--model", "m", "--no-streaming"];
    arguments.extend(["--prompt", "Hi", "--output-dir", output.to_str().unwrap()]);
    arguments.extend(flags);
    let exit = program::run(&arguments);
    assert_eq!(exit.code, Some(0), "{}", exit.said);
    let report = fs::read_to_string(output.join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    (exit.said, report["load"].clone())
}

#[test]
fn a_socket_in_the_file_system_and_ipv6_are_endpoints() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("server.sock");
    // As a server leaves it that was killed.
    drop(UnixListener::bind(&socket).unwrap());
    let listen = format!("unix:{}", socket.display());
    let mut places = vec![vec!["--listen", &listen]];
    // Not every machine has IPv6.
    if TcpListener::bind("[::1]:0").is_ok() {
        places.push(vec!["--host", "::1"]);
    }
    for place in places {
        let mock = Mock::start(&[&place[..], &["--mode", "instant"]].concat());
        let (said, load) = bench(&mock.url, &["--request-count", "50"]);
        assert_eq!(load["completed"], 50, "{said}");
        assert_eq!(
            said.contains(" local ports"),
            !mock.url.starts_with("unix:"),
            "{said}"
        );
        mock.stop();
    }
    assert!(!socket.exists(), "it is removed at the end");
}
