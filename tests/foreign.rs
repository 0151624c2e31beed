//! The program against a server that nobody here wrote: http.server of Python's standard library,
//! which writes as it likes. Skipped, with a line that says so, where there is no Python.
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]
#![expect(clippy::print_stdout, reason = "a skipped test says so")]

#[path = "outside/program.rs"]
mod program; // the program as a child, never for longer than a limit

use std::fs;
use std::io::{BufRead, BufReader, ErrorKind};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// An endpoint on http.server. What it sends, and when, follows from the numbers below.
///
/// The model "chunked" gets HTTP/1.1 with chunks, line ends of CR LF and comments between the
/// events; "until-close" gets HTTP/1.0, where the end of the connection is the end of the body.
const SCRIPT: &str = r#"
import http.server, json, time

class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def log_message(self, *args):
        pass

    def write(self, text):
        data = text.encode()
        if self.chunked:
            data = b"%x\r\n%b\r\n" % (len(data), data)
        self.wfile.write(data)

    def event(self, choices, **more):
        chunk = {"object": "chat.completion.chunk", "choices": choices, **more}
        self.write("data: " + json.dumps(chunk) + "\r\n\r\n")

    def delta(self, delta, reason=None):
        self.event([{"index": 0, "delta": delta, "finish_reason": reason}])

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert self.path == "/v1/chat/completions", self.path
        assert body["stream"] and body["stream_options"] == {"include_usage": True}, body
        words = sum(len(message["content"].split()) for message in body["messages"])
        self.chunked = body["model"] == "chunked"
        if not self.chunked:
            self.protocol_version = "HTTP/1.0"
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        if self.chunked:
            self.send_header("Transfer-Encoding", "chunked")
        else:
            self.close_connection = True
        self.end_headers()
        self.delta({"role": "assistant", "content": ""})
        self.write(": ping\r\n\r\n")
        time.sleep(0.060)
        for number in range(12):
            if number > 0:
                self.write(": ping\r\n\r\n")
                time.sleep(0.004)
            self.delta({"content": " w\u00f6rd%d" % number})
        self.delta({}, "length")
        usage = {"prompt_tokens": words, "completion_tokens": 24, "total_tokens": words + 24}
        self.event([], usage=usage)
        self.write("data: [DONE]\r\n\r\n")
        if self.chunked:
            self.wfile.write(b"0\r\n\r\n")

server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
print(server.server_address[1], flush=True)
server.serve_forever()
"#;

/// Pauses of the script: before the first token, and between it and the last one.
const FIRST_NS: u64 = 60_000_000;
const BETWEEN_NS: u64 = 4_000_000;
/// Its events with text, and the tokens it says they hold.
const EVENTS: u64 = 12;
const TOKENS: u64 = 24;

/// The script as a child. Killed when dropped.
struct Python {
    child: Child,
    url: String,
}

impl Python {
    /// `None`, with a line, when Python is not installed.
    fn start() -> Option<Self> {
        let child = Command::new("python3")
            .args(["-c", SCRIPT])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn();
        if let Err(error) = &child
            && error.kind() == ErrorKind::NotFound
        {
            println!("skipped: python3 is not installed");
            return None;
        }
        let mut child = child.unwrap();
        let mut line = String::new();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        out.read_line(&mut line).unwrap();
        let url = format!("http://127.0.0.1:{}", line.trim());
        Some(Self { child, url })
    }
}

impl Drop for Python {
    fn drop(&mut self) {
        // It serves for ever: it can only be killed.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs a load against a model of the script; the report and the records.
fn bench(python: &Python, model: &str, folder: &Path) -> (Value, Vec<Value>) {
    let folder = folder.join(model);
    let exit = program::run(&[
        "bench",
        "--url",
        &python.url,
        "--model",
        model,
        "--concurrency",
        "4",
        "--request-count",
        "24",
        "--prompt",
        "Count to twelve in words.",
        "--save-text",
        "--output-dir",
        folder.to_str().unwrap(),
    ]);
    assert_eq!(exit.code, Some(0), "{}", exit.said);
    let report = fs::read_to_string(folder.join("report.json")).unwrap();
    let records = fs::read_to_string(folder.join("records.jsonl")).unwrap();
    let records = records
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    (serde_json::from_str(&report).unwrap(), records.collect())
}

/// What is the same however the body is framed.
fn check(report: &Value, records: &[Value]) {
    let load = &report["load"];
    assert_eq!(
        (&load["issued"], &load["completed"]),
        (&24.into(), &24.into())
    );
    assert_eq!((&load["failed"], &load["retried"]), (&0.into(), &0.into()));
    assert_eq!(report["tokens"]["input"], 24 * 5);
    assert_eq!(report["tokens"]["output"], 24 * TOKENS);
    assert_eq!(report["finish_reasons"]["length"], 24);
    // No answer is faster than its server, which says nothing of how slow it may be.
    let least = |metric: &str| report[metric]["min"].as_u64().unwrap();
    assert!(least("ttft_ns") >= FIRST_NS, "{}", report["ttft_ns"]);
    let whole_ns = FIRST_NS + (EVENTS - 1) * BETWEEN_NS;
    assert!(least("latency_ns") >= whole_ns, "{}", report["latency_ns"]);

    assert_eq!(records.len(), 24);
    let text: String = (0..EVENTS).map(|number| format!(" wörd{number}")).collect();
    for record in records {
        assert_eq!(record["outcome"], "ok", "{record}");
        assert_eq!(record["text"], text);
        assert_eq!(record["content_events"], EVENTS);
        assert_eq!(record["input_tokens"], 5);
        assert_eq!(record["output_tokens"], TOKENS);
        assert_eq!(record["token_source"], "usage");
        let time = |name: &str| record[name].as_u64().unwrap();
        // The role comes before the pause, and is not a token.
        assert!(time("first_byte_ns") < time("first_token_ns"));
        assert!(time("first_token_ns") - time("submitted_ns") >= FIRST_NS);
        assert!(time("last_token_ns") - time("submitted_ns") >= whole_ns);
        assert!(time("last_token_ns") <= time("done_ns"));
    }
}

#[test]
fn python_serves_chunks_with_comments() {
    let Some(python) = Python::start() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (report, records) = bench(&python, "chunked", folder.path());
    check(&report, &records);
    // Each slot keeps its connection.
    assert_eq!(report["connect_ns"]["count"], 4);
}

#[test]
fn python_serves_until_the_connection_closes() {
    let Some(python) = Python::start() else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let (report, records) = bench(&python, "until-close", folder.path());
    check(&report, &records);
    // Each request needs a connection of its own.
    assert_eq!(report["connect_ns"]["count"], 24);
}
