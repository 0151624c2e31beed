//! The program from its start to its end: signals, exit codes, `--stats`, many rings.
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// The program, on a port that the system chose. Killed when dropped.
struct Program {
    child: Child,
    out: Box<dyn BufRead>,
    address: String,
}

impl Program {
    fn start(command: &mut Command) -> Option<Self> {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let address = line.trim_end().strip_prefix("listening on http://");
        let address = address.map(ToOwned::to_owned);
        let mut program = Self {
            child,
            out: Box::new(out),
            address: String::new(),
        };
        program.address = address?;
        Some(program)
    }

    fn with(flags: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_ridgeline-mock-server"));
        Self::start(command.args(["--port", "0"]).args(flags)).unwrap()
    }

    fn signal(&self) {
        kill_process(Pid::from_child(&self.child), Signal::TERM).unwrap();
    }

    /// Waits for its end. Its exit code, the last line of its output, and all errors.
    fn ended(mut self) -> (i32, String, String) {
        let (mut rest, mut errors) = (String::new(), String::new());
        self.out.read_to_string(&mut rest).unwrap();
        let mut stderr = self.child.stderr.take().unwrap();
        stderr.read_to_string(&mut errors).unwrap();
        let code = self.child.wait().unwrap().code().unwrap();
        (code, rest.lines().last().unwrap().to_owned(), errors)
    }

    /// Asks for a stream of 3 tokens, and reads up to the first.
    fn ask(&self) -> BufReader<TcpStream> {
        let mut peer = TcpStream::connect(&self.address).unwrap();
        let body = r#"{"prompt":"x","max_tokens":3,"stream":true}"#;
        let length = body.len();
        write!(
            peer,
            "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}"
        )
        .unwrap();
        let mut peer = BufReader::new(peer);
        let mut line = String::new();
        while !line.starts_with("data: ") {
            line.clear();
            assert!(peer.read_line(&mut line).unwrap() > 0);
        }
        peer
    }

    /// Returns when nobody listens any more.
    fn refuses(&self) {
        while let Ok(mut peer) = TcpStream::connect(&self.address) {
            // It came in before that: closed, or reset with whatever it asked. One whose handshake met the end
            // of the listener may hear nothing: the kernel forgets the server's side without a reset.
            peer.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
            let _ = peer.read(&mut [0]);
        }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Already over, when the test went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_signal_lets_answers_end_and_closes_the_idle() {
    for driver in ["auto", "epoll"] {
        let flags = ["--inter-token-latency=300ms", "--driver", driver];
        let program = Program::with(&flags);
        let mut idle = TcpStream::connect(&program.address).unwrap();
        let mut peer = program.ask();
        program.signal();
        assert_eq!(idle.read(&mut [0]).unwrap(), 0, "closed in good order");
        let mut rest = String::new();
        peer.read_to_string(&mut rest).unwrap();
        assert!(rest.contains("data: [DONE]"), "{rest}");
        let (code, said, errors) = program.ended();
        assert_eq!((code, errors.as_str()), (0, ""), "{driver}");
        let counts =
            "served 1 requests on 2 connections: 0 refused, 0 cut off, 0 of them by the end";
        assert!(said.starts_with(counts), "{said}");
    }
}

#[test]
fn a_second_signal_ends_at_once_and_the_exit_code_says_what_was_cut() {
    let program = Program::with(&["--inter-token-latency=1000s", "--drain-timeout=1000s"]);
    let mut peer = program.ask();
    program.signal();
    program.refuses();
    program.signal();
    let mut rest = Vec::new();
    // It may be reset.
    let _ = peer.read_to_end(&mut rest);
    let (code, said, _) = program.ended();
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("1 cut off, 1 of them by the end"), "{said}");
}

#[test]
fn draining_has_an_end() {
    let program = Program::with(&["--inter-token-latency=1000s", "--drain-timeout=10ms"]);
    let _peer = program.ask();
    program.signal();
    let (code, said, _) = program.ended();
    assert_eq!(code, 1, "{said}");
    assert!(said.contains("1 cut off, 1 of them by the end"), "{said}");
}

#[test]
fn stats_are_a_line_at_a_time() {
    let mut program = Program::with(&["--stats", "--inter-token-latency=1000s"]);
    let peer = program.ask();
    let mut errors = BufReader::new(program.child.stderr.take().unwrap());
    let mut line = String::new();
    errors.read_line(&mut line).unwrap();
    let parts = [
        "1 s: ",
        " requests/s, ",
        "1 running, 0 waiting, 1 connections",
    ];
    assert!(parts.iter().all(|part| line.contains(part)), "{line}");
    drop(peer);
}

/// As many connections as several rings have room for, where one has not.
#[test]
fn connections_beyond_one_ring_are_taken_by_more() {
    let mut shell = Command::new("sh");
    let program = env!("CARGO_BIN_EXE_ridgeline-mock-server");
    let line =
        format!("ulimit -n 400 && exec {program} --port 0 --connections-max 300 --driver uring");
    let Some(mut program) = Program::start(shell.args(["-c", &line])) else {
        println!("skipped: no io_uring here");
        return;
    };
    let mut said = String::new();
    program.out.read_line(&mut said).unwrap();
    // 400 descriptors leave 144 for connections; shares of 300 are up to 129 on four rings.
    assert_eq!(
        said,
        "driver: io_uring, 4 threads, up to 129 connections each\n"
    );
    let mut peers: Vec<_> = (0..300)
        .map(|_| TcpStream::connect(&program.address).unwrap())
        .collect();
    for peer in &mut peers {
        peer.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n")
            .unwrap();
    }
    for peer in &mut peers {
        let mut status = [0; 15];
        match peer.read_exact(&mut status) {
            Err(error) if error.kind() == ErrorKind::ConnectionReset => panic!("refused"),
            read => read.unwrap(),
        }
        assert_eq!(&status, b"HTTP/1.1 200 OK");
    }
    program.signal();
    let (code, said, _) = program.ended();
    assert_eq!(code, 0);
    assert!(
        said.starts_with("served 300 requests on 300 connections: 0 refused"),
        "{said}"
    );
}
