//! The program itself against clients that nobody here wrote: Python's http.client, curl, Node's
//! fetch, and OpenAI's Python client.
//! A client that is not installed is skipped, with a line that says so.
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]
#![expect(clippy::print_stdout, reason = "a skipped test says so")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};

use ridgeline_mock_server::{DriverKind, Placement, ServerConfig, start, text};

/// The program, on a port that the system chose. Killed when dropped.
struct Program {
    child: Child,
    out: BufReader<ChildStdout>,
    url: String,
}

impl Program {
    fn start(flags: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_ridgeline-mock-server"))
            .args(["--port", "0"])
            .args(flags)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        out.read_line(&mut line).unwrap();
        let url = line
            .trim_end()
            .strip_prefix("listening on ")
            .unwrap()
            .to_owned();
        Self { child, out, url }
    }

    fn port(&self) -> &str {
        self.url.strip_prefix("http://127.0.0.1:").unwrap()
    }

    /// Sends the signal that asks it to end. Returns the last line it says.
    fn end(mut self, signal: rustix::process::Signal) -> String {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).unwrap();
        let mut rest = String::new();
        self.out.read_to_string(&mut rest).unwrap();
        assert!(self.child.wait().unwrap().success());
        rest.lines().last().unwrap().to_owned()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Already over, when the test went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The output of a client; `None`, with a line, when it is not installed.
fn run(client: &str, args: &[&str]) -> Option<String> {
    match Command::new(client).args(args).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: {client} is not installed");
            None
        }
        output => {
            let output = output.unwrap();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{client}: {errors}");
            Some(String::from_utf8(output.stdout).unwrap())
        }
    }
}

const PYTHON: &str = r#"
import http.client, json, socket, sys

port, expected = int(sys.argv[1]), sys.argv[2]
http_ = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

def ask(method, path, body=None, headers={}):
    http_.request(method, path, body, headers)
    response = http_.getresponse()
    return response, response.read()

def chat(**fields):
    messages = [{"role": "user", "content": "one two three"}]
    return json.dumps({"model": "m", "messages": messages, "max_tokens": 40, **fields})

for repeat in range(20):
    response, body = ask("POST", "/v1/chat/completions", chat(), {"X-Request-Id": f"r{repeat}"})
    assert response.status == 200 and response.getheader("X-Request-Id") == f"r{repeat}"
    body = json.loads(body)
    assert body["choices"][0]["message"]["content"] == expected
    assert body["usage"] == {"prompt_tokens": 3, "completion_tokens": 40, "total_tokens": 43}

    fields = {"stream": True, "stream_options": {"include_usage": True}}
    response, body = ask("POST", "/v1/chat/completions", chat(**fields))
    assert response.getheader("Content-Type").startswith("text/event-stream")
    events = body.decode().split("\n\n")
    assert events.pop() == "" and events.pop() == "data: [DONE]"
    events = [json.loads(event.removeprefix("data: ")) for event in events]
    assert len({event["id"] for event in events}) == 1
    assert events[-1]["usage"]["completion_tokens"] == 40 and events[-1]["choices"] == []
    deltas = [event["choices"][0]["delta"].get("content", "") for event in events[:-1]]
    assert "".join(deltas) == expected and len(deltas) == 42

    # Chunked request bodies, of pieces that Python chooses.
    pieces = iter([b'{"prompt":', b'[1,2],', b'"max_tokens":40}'])
    response, body = ask("POST", "/v1/completions", pieces)
    assert json.loads(body)["choices"][0]["text"] == expected

    for method, path, body, status in [
        ("GET", "/health", None, 200), ("GET", "/v1/models", None, 200),
        ("GET", "/no", None, 404), ("PUT", "/health", "x", 405),
        ("POST", "/v1/completions", "{", 400), ("POST", "/v1/completions", chat(n=2), 400),
    ]:
        response, body = ask(method, path, body)
        assert response.status == status, (path, response.status)
        assert status == 200 or json.loads(body)["error"]["message"]

# Too large: refused before the body is sent, with the reason readable.
raw = socket.create_connection(("127.0.0.1", port), timeout=30)
raw.sendall(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\nxxx")
answer = raw.makefile("rb").read()
assert answer.startswith(b"HTTP/1.1 413 ") and b"connection: close" in answer
raw.close()

# HTTP/1.0: no chunks, the end of the connection ends the stream.
raw = socket.create_connection(("127.0.0.1", port), timeout=30)
body = chat(stream=True).encode()
raw.sendall(b"POST /v1/chat/completions HTTP/1.0\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
answer = raw.makefile("rb").read()
assert b"chunked" not in answer and answer.endswith(b"data: [DONE]\n\n")
raw.close()

# 50 requests at once on one connection, head and body apart.
raw = socket.create_connection(("127.0.0.1", port), timeout=30)
raw.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
for index in range(50):
    last = b"Connection: close\r\n" if index == 49 else b""
    body = chat(max_tokens=index + 1).encode()
    raw.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n%bContent-Length: %d\r\n\r\n" % (last, len(body)))
    raw.sendall(body)
answers = raw.makefile("rb").read().split(b"HTTP/1.1 200 OK\r\n")[1:]
counts = [json.loads(answer.split(b"\r\n\r\n", 1)[1])["usage"]["completion_tokens"] for answer in answers]
assert counts == list(range(1, 51)), counts
raw.close()

# Gone in the middle of a stream, 20 times.
for _ in range(20):
    raw = socket.create_connection(("127.0.0.1", port), timeout=30)
    body = chat(stream=True, max_tokens=30000).encode()
    raw.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
    raw.recv(100)
    raw.close()
print("done")
"#;

fn against_python(flags: &[&str]) {
    let program = Program::start(flags);
    if let Some(said) = run("python3", &["-c", PYTHON, program.port(), &text(40)]) {
        assert_eq!(said, "done\n");
        let last = program.end(rustix::process::Signal::TERM);
        // 20 times 9, 413, HTTP/1.0, 50, and 20 that went away; 20 times 4 errors and the 413.
        assert!(
            last.starts_with("served 252 requests on 24 connections: 81 refused, "),
            "{last}"
        );
    }
}

#[test]
fn python_reads_modelled_answers() {
    for driver in ["--driver=auto", "--driver=epoll"] {
        against_python(&[
            driver,
            "--time-to-first-token=2ms",
            "--inter-token-latency=100us",
        ]);
    }
}

#[test]
fn python_reads_instant_answers() {
    for driver in ["--driver=auto", "--driver=epoll"] {
        against_python(&[driver, "--mode=instant"]);
        against_python(&[driver, "--mode=instant", "--events-per-write=1"]);
    }
}

/// Runs a script that ends with `done`, or says why it was skipped.
fn against_script(client: &str, flags: &[&str], script: &[&str]) {
    let program = Program::start(flags);
    let expected = text(40);
    let args = [script, &[&program.url, &expected]].concat();
    match run(client, &args).as_deref() {
        None | Some("done\n") => {}
        Some(said) => {
            assert!(said.starts_with("skipped: "), "{said}");
            print!("{said}");
        }
    }
    program.end(rustix::process::Signal::TERM);
}

const PACES: [&[&str]; 3] = [
    &["--time-to-first-token=1ms", "--inter-token-latency=100us"],
    &["--mode=instant"],
    &["--mode=instant", "--events-per-write=1"],
];

#[test]
fn node_reads_answers() {
    let script = ["--input-type=module", "-e", include_str!("peers/node.mjs")];
    for flags in PACES {
        against_script("node", flags, &script);
    }
}

#[test]
fn the_openai_client_reads_answers() {
    for flags in PACES {
        against_script(
            "python3",
            flags,
            &["-c", include_str!("peers/openai_sdk.py")],
        );
    }
}

#[test]
fn curl_reads_answers_and_waits_for_continue() {
    let program = Program::start(&["--time-to-first-token=1ms", "--inter-token-latency=0"]);
    let url = format!("{}/v1/completions", program.url);
    let long = format!(
        r#"{{"prompt":"{}","max_tokens":3,"stream":true}}"#,
        "word ".repeat(20_000)
    );
    let file = std::env::temp_dir().join(format!("mock-server-{}.json", program.port()));
    std::fs::write(&file, long).unwrap();
    let data = format!("@{}", file.display());
    let fields = [
        "-H",
        "Expect: 100-continue",
        "-H",
        "Content-Type: application/json",
    ];
    let args = [
        &["-sS", "-m", "30", "-D", "-", "-d", &data][..],
        &fields,
        &[&url],
    ]
    .concat();
    let said = run("curl", &args);
    std::fs::remove_file(&file).unwrap();
    if let Some(said) = said {
        assert!(
            said.starts_with("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n"),
            "{said}"
        );
        assert!(said.ends_with("data: [DONE]\n\n"));
        assert_eq!(said.matches(r#""text":""#).count(), 4);
    }
    program.end(rustix::process::Signal::INT);
}

#[test]
fn a_port_in_use_and_a_wrong_core_are_told() {
    let program = Program::start(&[]);
    let port = program.port();
    for (flags, told) in [
        (&["--port", port][..], "cannot listen on 127.0.0.1:"),
        (
            &["--port", "0", "--cores", "1023"],
            "cannot pin a thread to core 1023",
        ),
    ] {
        let output = Command::new(env!("CARGO_BIN_EXE_ridgeline-mock-server"))
            .args(flags)
            .output()
            .unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2));
        assert!(errors.contains(told), "{errors}");
    }
}

#[test]
fn embedded_shards_share_a_port_and_count_together() {
    let allowed = core_affinity::get_core_ids().unwrap();
    let cores: Vec<_> = allowed.iter().cycle().take(2).map(|core| core.id).collect();
    for driver in [DriverKind::Auto, DriverKind::Epoll] {
        let any = SocketAddr::from(([127, 0, 0, 1], 0));
        let config = ServerConfig::default();
        let placement = Placement {
            driver,
            cores: Some(cores.clone()),
            ..Placement::at(any)
        };
        let running = start(config, placement).unwrap();
        assert_eq!(running.url(), format!("http://{}", running.address()));
        for _ in 0..32 {
            let mut peer = TcpStream::connect(running.address()).unwrap();
            peer.write_all(b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
                .unwrap();
            let mut answer = String::new();
            peer.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("HTTP/1.1 200 OK\r\n"), "{answer}");
        }
        let served = running.stop().unwrap();
        assert_eq!((served.connections, served.answers), (32, 32));
    }
}
