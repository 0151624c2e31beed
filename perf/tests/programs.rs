//! The programs against one another, as processes. Counts must be exact.

#![expect(clippy::unwrap_used, reason = "a test's own steps")]

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use ridgeline_perf::client::Outcome;
use serde_json::Value;

/// A running bare-server; ends with its input, that is when it is dropped.
struct Served {
    child: Child,
    address: String,
}

impl Served {
    fn start(args: &[&str]) -> Self {
        let mut server = Command::new(env!("CARGO_BIN_EXE_bare-server"));
        Self::spawn(server.args(args).arg("--attached"))
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line
            .trim()
            .strip_prefix("listening on http://")
            .unwrap()
            .to_owned();
        Self { child, address }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(&self.address).unwrap()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
    }
}

fn client(server: &Served, args: &[&str]) -> Outcome {
    let output = Command::new(env!("CARGO_BIN_EXE_bare-client"))
        .arg(format!("http://{}", server.address))
        .args(args)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn requests_are_counted_exactly() {
    let server = Served::start(&["--mode", "request"]);
    for (connections, requests) in [("1", "50"), ("64", "500"), ("64", "3"), ("8", "0")] {
        let outcome = client(
            &server,
            &["--connections", connections, "--requests", requests],
        );
        assert_eq!(outcome.requests, requests.parse::<u64>().unwrap());
        assert!(outcome.reads >= outcome.requests);
        assert_eq!((outcome.events, outcome.stamped), (0, 0));
    }
}

#[test]
fn every_kind_of_stream_has_the_same_events() {
    for args in [
        &["--mode", "coalesced", "--events", "1000"][..],
        &["--mode", "paced", "--events", "100"],
        &["--mode", "timed", "--events", "20", "--itl-us", "500"],
        &["--mode", "coalesced", "--events", "0"],
        &[
            "--mode",
            "paced",
            "--events",
            "100",
            "--events-per-write",
            "16",
        ],
        &[
            "--mode",
            "timed",
            "--events",
            "20",
            "--events-per-write",
            "4",
            "--itl-us",
            "500",
        ],
    ] {
        let server = Served::start(args);
        let events: u64 = args[3].parse().unwrap();
        for stamps in [&[][..], &["--timestamps"]] {
            let mut flags = vec!["--mode", "stream", "--requests", "200"];
            flags.extend(stamps);
            let outcome = client(&server, &flags);
            assert_eq!(outcome.requests, 200);
            assert_eq!(outcome.events, 200 * (events + 4), "{args:?}");
            let stamped = if stamps.is_empty() { 0 } else { outcome.reads };
            assert_eq!(outcome.stamped, stamped, "{args:?}");
        }
    }
}

#[test]
fn more_connections_than_a_ring_holds_take_several() {
    // 60 descriptors: a ring has as many sockets, and the process needs a few.
    let server = Served::spawn(Command::new("sh").args([
        "-c",
        "ulimit -n 60; exec \"$0\" --mode timed --events 3 --itl-us 20000 --connections-max 150 --attached",
        env!("CARGO_BIN_EXE_bare-server"),
    ]));
    let flags = ["--mode", "stream", "--connections", "150"];
    let outcome = client(&server, &[&flags[..], &["--requests", "300"]].concat());
    assert_eq!((outcome.requests, outcome.events), (300, 300 * 7));
}

#[test]
fn too_few_buffers_lose_nothing() {
    let server = Served::start(&["--mode", "coalesced", "--events", "300"]);
    for size in [["1", "512"], ["4", "100"]] {
        let [buffers, bytes] = size;
        let flags = ["--mode", "stream", "--requests", "130"];
        let sizes = ["--buffers", buffers, "--buffer-bytes", bytes];
        let outcome = client(&server, &[&flags[..], &sizes[..]].concat());
        assert_eq!((outcome.requests, outcome.events), (130, 130 * 304));
        assert!(outcome.out_of_buffers > 0);
    }
}

#[test]
fn a_run_ends_by_time_with_all_answers_in() {
    let server = Served::start(&["--mode", "paced", "--events", "10"]);
    let outcome = client(&server, &["--mode", "stream", "--seconds", "0.1"]);
    assert!(
        outcome.requests >= 64,
        "each connection finishes one: {}",
        outcome.requests
    );
    assert_eq!(outcome.events, outcome.requests * 14);
}

#[test]
fn a_request_may_come_in_any_pieces() {
    let server = Served::start(&["--mode", "request"]);
    let request = b"POST /v1/chat/completions HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\n{  }";
    let mut socket = server.connect();
    socket.set_nodelay(true).unwrap();
    for size in [1, 7, request.len()] {
        for piece in request.chunks(size) {
            socket.write_all(piece).unwrap();
        }
        let mut answer = vec![0; 2048];
        let length = socket.read(&mut answer).unwrap();
        let answer = str::from_utf8(&answer[..length]).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK"));
        let body: Value = serde_json::from_str(body).unwrap();
        assert_eq!(body["usage"]["completion_tokens"], 9);
    }
}

#[test]
fn what_the_server_refuses_is_closed_and_the_slot_is_free_again() {
    let server = Served::start(&["--mode", "request", "--connections-max", "2"]);
    for _ in 0..10 {
        let mut socket = server.connect();
        socket
            .write_all(b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n")
            .unwrap();
        let mut rest = Vec::new();
        // Closed, in order or by a reset; no answer either way.
        let ended = socket.read_to_end(&mut rest);
        assert!(ended.is_err() || rest.is_empty());
    }
    assert_eq!(
        client(&server, &["--connections", "1", "--requests", "9"]).requests,
        9
    );
}

#[test]
fn another_answer_than_the_first_is_an_error() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for (socket, body) in listener.incoming().zip(["abc", "abcd"]) {
            let mut socket = socket.unwrap();
            let mut piece = [0; 4096];
            let _ = socket.read(&mut piece).unwrap();
            let length = body.len();
            write!(
                socket,
                "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\n\r\n{body}"
            )
            .unwrap();
            // Held open until the peer is gone.
            let _ = socket.read(&mut piece);
        }
    });
    let output = Command::new(env!("CARGO_BIN_EXE_bare-client"))
        .args([
            &address.to_string(),
            "--connections",
            "1",
            "--requests",
            "1",
        ])
        .output()
        .unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("more bytes than the first"));
}

#[test]
fn each_of_the_others_prints_json() {
    for (program, args, field) in [
        (
            env!("CARGO_BIN_EXE_bare-sleeper"),
            &["--rate", "1000", "--seconds", "0.05"][..],
            "lag",
        ),
        (
            env!("CARGO_BIN_EXE_bare-pair"),
            &["--rate", "1000", "--seconds", "0.05"],
            "messages",
        ),
        (
            env!("CARGO_BIN_EXE_memchr-pass"),
            &["--seconds", "0", "--bytes", "4096"],
            "passes",
        ),
    ] {
        let output = Command::new(program).args(args).output().unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        for line in str::from_utf8(&output.stdout).unwrap().lines() {
            let value: Value = serde_json::from_str(line).unwrap();
            assert!(!value[field].is_null(), "{line}");
        }
    }
}
