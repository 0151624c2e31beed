//! The program against servers that close connections when they like: no request fails for that.
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

#[path = "outside/program.rs"]
mod program; // the program as a child, never for longer than a limit

#[path = "outside/mock.rs"]
mod mock; // the mock server as a child

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixListener;
use std::thread;

use serde_json::Value;

use mock::Mock;

const ANSWER: &str = r#"{"choices":[{"index":0,"message":{"role":"assistant","content":"Hi"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}"#;

/// Takes one request. None: the other side is done.
fn request(stream: &mut BufReader<TcpStream>) -> Option<()> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        if let Some((name, value)) = line.split_once(':')
            && name.eq_ignore_ascii_case("content-length")
        {
            length = value.trim().parse().ok()?;
        }
    }
    stream.read_exact(&mut vec![0; length]).ok()
}

/// Serves `requests_max` requests on each connection; the next one it reads, and closes. Ends with the program.
fn server(requests_max: usize) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || {
                let mut stream = BufReader::new(stream);
                for _ in 0..requests_max {
                    request(&mut stream)?;
                    let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
                    let answer = format!("{head}Content-Length: {}\r\n\r\n{ANSWER}", ANSWER.len());
                    stream.get_mut().write_all(answer.as_bytes()).ok()?;
                }
                request(&mut stream)
            });
        }
    });
    url
}

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
fn requests_that_a_closed_connection_lost_are_sent_again_and_counted() {
    let flags = ["--concurrency", "4", "--request-count", "203"];
    let (said, load) = bench(&server(10), &flags);
    assert_eq!(load["completed"], 203, "{said}");
    assert_eq!(load["failed"], 0, "{said}");
    // Ten answers a connection, of which the first may be that to a request that was lost.
    let retried = load["retried"].as_u64().unwrap();
    assert!((16..=21).contains(&retried), "{said}");
    assert!(said.contains(&format!("{retried} retries")), "{said}");
}

#[test]
fn with_a_connection_for_each_request_none_is_lost() {
    let flags = ["--connections", "per-request", "--request-count", "40"];
    let (said, load) = bench(&server(1), &flags);
    assert_eq!(load["completed"], 40, "{said}");
    assert_eq!(load["retried"], 0, "{said}");
    assert!(said.contains("a connection per request"), "{said}");
}

#[test]
fn requests_that_are_given_up_on_purpose_are_no_failures() {
    let flags = [
        "--cancel-rate",
        "100%",
        "--request-count",
        "20",
        "--cancel-after",
        "0s",
    ];
    let (said, load) = bench(&server(1_000), &flags);
    let number = |name: &str| load[name].as_u64().unwrap();
    assert_eq!(number("failed"), 0, "{said}");
    assert_eq!(number("cancelled"), number("given_up"), "{said}");
    assert_eq!(number("completed") + number("cancelled"), 20, "{said}");
    assert!(said.contains("100% cancelled after 0s"), "{said}");
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

#[test]
fn several_endpoints_share_the_requests_and_are_told_apart() {
    // Two shards of this process, or one of each of two workers: it is one order of requests.
    several_endpoints(["--shards", "2"]);
    several_endpoints(["--workers", "2"]);
}

fn several_endpoints(client: [&str; 2]) {
    let mocks = [
        Mock::start(&["--mode", "instant"]),
        Mock::start(&["--mode", "instant"]),
    ];
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("out");
    let mut arguments = vec!["bench", "--url", &mocks[0].url, "--url", &mocks[1].url];
    arguments.extend(["--balance", "weights=3,1", "--model", "m", "--prompt", "Hi"]);
    arguments.extend(["--request-count", "40"]);
    arguments.extend(client);
    arguments.extend(["--output-dir", output.to_str().unwrap()]);
    let exit = program::run(&arguments);
    assert_eq!(exit.code, Some(0), "{}", exit.said);
    assert!(
        exit.said.contains("and 1 more (2 addresses), weights=3,1"),
        "{}",
        exit.said
    );
    let report = fs::read_to_string(output.join("report.json")).unwrap();
    let report: Value = serde_json::from_str(&report).unwrap();
    let of = |n: usize, key: &str| report["endpoints"][n][key].clone();
    assert_eq!(of(0, "completed"), 30);
    assert_eq!(of(1, "completed"), 10);
    for (n, mock) in mocks.into_iter().enumerate() {
        let url = of(n, "url");
        assert_eq!(url, format!("{}/v1/chat/completions", mock.url));
        assert!(exit.said.contains(url.as_str().unwrap()), "{}", exit.said);
        assert_eq!(of(n, "ttft_ns")["count"], if n == 0 { 30 } else { 10 });
        let served = mock.stop();
        let requests = if n == 0 {
            "served 30 requests"
        } else {
            "served 10 requests"
        };
        assert!(served.contains(requests), "{served}");
    }
}
