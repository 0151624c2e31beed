//! The black-box cases from outside: a scripted server plays each of them over a real socket to the
//! program itself, and the records that the program wrote must say what the case says.

#[path = "replay/mod.rs"]
mod replay;

#[path = "outside/program.rs"]
mod program; // the program as a child, never for longer than a limit
#[path = "outside/server.rs"]
mod server; // the cases on real sockets

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use program::Exit;
use replay::{Case, Json, Record, cases};
use server::{Seen, Server};

/// Programs that run at once: most of a case is waiting.
const WORKERS: usize = 3;

/// Tries of a case, where all that is wrong is how long something took: that may be the fault of
/// whatever else the machine does.
const TRIES: usize = 3;

#[test]
fn every_case_passes() {
    judge(&[]);
}

#[test]
fn every_case_passes_on_the_fallback_driver() {
    judge(&["--driver", "epoll"]);
}

/// Plays all cases to the program, with more flags.
fn judge(flags: &[&str]) {
    let cases = cases();
    let server = Server::start(&cases);
    let folder = tempfile::tempdir().expect("a folder for the results");
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(case) = cases.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let complaints = play(case, &server, folder.path(), flags);
                    let mut found = found.lock().expect("no panic while locked");
                    found.extend(complaints.iter().map(|c| format!("{}: {c}", case.name)));
                }
            });
        }
    });
    let found = found.into_inner().expect("no worker panicked");
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// Runs a case; what is wrong.
fn play(case: &Case, server: &Server, folder: &Path, flags: &[&str]) -> Vec<String> {
    let mut late = Vec::new();
    for attempt in 0..TRIES {
        let out = folder.join(format!("{}-{attempt}", case.name));
        let before = server.seen(&case.name).len();
        let exit = run(case, &server.url, &out, flags);
        let mut complaints = on_the_wire(case, &server.seen(&case.name)[before..]);
        late.clear();
        match records(&out.join("records.jsonl")) {
            Ok(records) => {
                complaints.extend(exit_code(&records, &exit));
                complaints.extend(case.misfits(&records));
                late = case.spans(&records);
            }
            Err(complaint) => complaints.push(complaint),
        }
        if !complaints.is_empty() {
            complaints.push(format!("the program said: {}", exit.said));
            return complaints;
        }
        if late.is_empty() {
            break;
        }
    }
    late
}

/// Runs the program on a case.
fn run(case: &Case, url: &str, out: &Path, flags: &[&str]) -> Exit {
    let requests = case.requests.to_string();
    let timeout = format!("{}ms", case.timeout_ms);
    let out = out.to_str().expect("a path in UTF-8");
    let endpoint = if case.chat { "chat" } else { "completions" };
    let streaming = if case.streaming {
        "--streaming"
    } else {
        "--no-streaming"
    };
    let mut arguments = vec!["bench", "--url", url, "--model", &case.name];
    arguments.extend(["--endpoint-type", endpoint, streaming]);
    arguments.extend(["--concurrency", "1", "--request-count", &requests]);
    arguments.extend(["--timeout", &timeout]);
    arguments.extend(["--prompt", "Tell me a short story.", "--save-text"]);
    arguments.extend(["--records", "jsonl", "--output-dir", out]);
    arguments.extend(flags);
    program::run(&arguments)
}

/// Fields that every record has.
const FIELDS: [&str; 18] = [
    "outcome",
    "error",
    "http_status",
    "text",
    "reasoning",
    "tool_calls",
    "finish_reason",
    "content_events",
    "input_tokens",
    "output_tokens",
    "reasoning_tokens",
    "cached_tokens",
    "submitted_ns",
    "first_byte_ns",
    "first_token_ns",
    "first_output_ns",
    "last_token_ns",
    "done_ns",
];

/// The records of a run, in the order of the requests.
fn records(path: &Path) -> Result<Vec<Record>, String> {
    let text = fs::read_to_string(path).map_err(|error| format!("records.jsonl: {error}"))?;
    let mut records: Vec<Record> = text.lines().map(record).collect::<Result<_, _>>()?;
    records.sort_by_key(|record| record.submitted_ns);
    Ok(records)
}

fn record(line: &str) -> Result<Record, String> {
    let fields: Json = serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
    if let Some(missing) = FIELDS.iter().find(|name| fields.get(name).is_none()) {
        return Err(format!("{line}: no {missing}"));
    }
    let time = |name: &str| (fields[name] != Json::Null).then(|| fields[name].usize() as u64);
    let submitted_ns = time("submitted_ns").ok_or_else(|| format!("{line}: not submitted"))?;
    let times_ns = [
        time("first_byte_ns"),
        time("first_token_ns"),
        time("first_output_ns"),
        time("last_token_ns"),
        time("done_ns"),
    ];
    Ok(Record {
        submitted_ns,
        times_ns,
        fields,
    })
}

/// 4 when every request failed, else 0.
fn exit_code(records: &[Record], exit: &Exit) -> Option<String> {
    let failed = |record: &Record| record.fields["outcome"] != Json::text("ok");
    let want = if records.iter().all(failed) { 4 } else { 0 };
    (exit.code != Some(want)).then(|| format!("exit code expected {want} got {:?}", exit.code))
}

/// What the server saw of the client.
fn on_the_wire(case: &Case, seen: &[Seen]) -> Vec<String> {
    let mut complaints = Vec::new();
    let mut want = |what: &str, want: String, got: String| {
        if want != got {
            complaints.push(format!("{what} expected {want} got {got}"));
        }
    };
    want(
        "requests",
        case.requests.to_string(),
        seen.len().to_string(),
    );
    let connections: BTreeSet<u32> = seen.iter().map(|request| request.connection).collect();
    if let Some(number) = case.connections {
        want(
            "connections",
            number.to_string(),
            connections.len().to_string(),
        );
    }
    let path = if case.chat {
        "chat/completions"
    } else {
        "completions"
    };
    for request in seen {
        let line = format!("POST /v1/{path} HTTP/1.1");
        want("request line", line, request.line.clone());
        let streaming = case.streaming.to_string();
        want("stream", streaming, request.body["stream"].to_string());
        if case.streaming {
            let options = &request.body["stream_options"];
            let usage = options["include_usage"].to_string();
            want("include_usage", "true".to_owned(), usage);
        }
        let codings = request
            .fields
            .iter()
            .find(|(name, _)| name == "accept-encoding");
        let codings = codings.map_or("identity", |(_, value)| value.as_str());
        want("accept-encoding", "identity".to_owned(), codings.to_owned());
    }
    complaints
}
