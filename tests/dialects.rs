//! Every dialect of the mock server from outside: the program measures a server that speaks it, and
//! its records must say what was answered, whatever the words.
#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "outside/program.rs"]
mod program; // the program as a child, never for longer than a limit

use std::fs;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use clap::{Parser, ValueEnum};
use ridgeline_mock_server::{Dialect, MockServerArgs, Running, text};
use serde_json::Value;

/// Programs that run at once.
const WORKERS: usize = 3;

const REQUESTS: usize = 3;
const TOKENS: u32 = 5;

/// What is asked, and of which server.
#[derive(Clone, Copy, Debug)]
struct Kind {
    endpoint: &'static str,
    streaming: bool,
    modelled: bool,
}

const KINDS: [Kind; 4] = [
    Kind {
        endpoint: "chat",
        streaming: true,
        modelled: true,
    },
    Kind {
        endpoint: "completions",
        streaming: true,
        modelled: false,
    },
    Kind {
        endpoint: "chat",
        streaming: false,
        modelled: false,
    },
    Kind {
        endpoint: "completions",
        streaming: false,
        modelled: true,
    },
];

/// The server's own flags.
#[derive(Debug, Parser)]
struct Flags {
    #[command(flatten)]
    server: MockServerArgs,
}

fn start(mode: &[&str]) -> Running {
    let tokens = TOKENS.to_string();
    let flags = [
        "mock-server",
        "--port",
        "0",
        "--max-tokens-default",
        &tokens,
    ];
    let flags = Flags::try_parse_from([&flags, mode].concat()).unwrap();
    flags.server.start().unwrap()
}

#[test]
fn records_say_what_was_answered_in_every_dialect() {
    let times = [
        "--time-to-first-token",
        "1ms",
        "--inter-token-latency",
        "100us",
    ];
    let (modelled, instant) = (start(&times), start(&["--mode", "instant"]));
    let (modelled_url, instant_url) = (modelled.url(), instant.url());
    let works: Vec<(Dialect, Kind)> = Dialect::value_variants()
        .iter()
        .flat_map(|dialect| KINDS.map(|kind| (*dialect, kind)))
        .collect();
    let folder = tempfile::tempdir().unwrap();
    let (next, found) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some((dialect, kind)) = works.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let url = if kind.modelled {
                        &modelled_url
                    } else {
                        &instant_url
                    };
                    let complaints = judge(*dialect, *kind, url, folder.path());
                    found.lock().unwrap().extend(complaints);
                }
            });
        }
    });
    let found = found.into_inner().unwrap();
    assert!(found.is_empty(), "{}", found.join("\n"));
    for server in [modelled, instant] {
        server.stop().unwrap();
    }
}

/// Runs the program; what is wrong with its records.
fn judge(dialect: Dialect, kind: Kind, url: &str, folder: &Path) -> Vec<String> {
    let name = dialect.to_possible_value().unwrap().get_name().to_owned();
    let out = folder.join(format!("{name}-{}-{}", kind.endpoint, kind.streaming));
    let header = format!("X-Mock-Dialect: {name}");
    let requests = REQUESTS.to_string();
    let streaming = if kind.streaming {
        "--streaming"
    } else {
        "--no-streaming"
    };
    let arguments = [
        "bench", "--url", url, "--model", "mock", "--header", &header,
    ];
    let load = [
        "--concurrency",
        "1",
        "--request-count",
        &requests,
        "--timeout",
        "20s",
    ];
    let asked = [
        "--prompt",
        "Say five words.",
        "--endpoint-type",
        kind.endpoint,
        streaming,
    ];
    let kept = [
        "--save-text",
        "--records",
        "jsonl",
        "--output-dir",
        out.to_str().unwrap(),
    ];
    let exit = program::run(&[&arguments[..], &load, &asked, &kept].concat());
    let records = fs::read_to_string(out.join("records.jsonl")).unwrap_or_default();
    let records: Vec<Value> = records
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let mut wrong = Vec::new();
    if exit.code != Some(0) || records.len() != REQUESTS {
        wrong.push(format!("{} records; it said: {}", records.len(), exit.said));
    }
    for record in &records {
        for (field, want) in expected(dialect, kind) {
            if record[field] != want {
                wrong.push(format!("{field} expected {want} got {}", record[field]));
            }
        }
    }
    wrong
        .into_iter()
        .map(|complaint| format!("{name} {kind:?}: {complaint}"))
        .collect()
}

/// What a record must say. All dialects are successes: those that are none are faults.
fn expected(dialect: Dialect, kind: Kind) -> Vec<(&'static str, Value)> {
    let streamed = match dialect {
        Dialect::JsonReply => false,
        Dialect::SseReply => true,
        _ => kind.streaming,
    };
    let has_text = dialect != Dialect::NoText;
    let events = match (has_text, streamed) {
        (false, _) => 0,
        (true, true) => TOKENS,
        // One document is one content event.
        (true, false) => 1,
    };
    vec![
        ("outcome", "ok".into()),
        ("error", Value::Null),
        ("http_status", 200.into()),
        (
            "text",
            if has_text {
                text(TOKENS)
            } else {
                String::new()
            }
            .into(),
        ),
        ("reasoning", Value::Null),
        ("tool_calls", Value::Null),
        (
            "finish_reason",
            match dialect {
                Dialect::Gemini => Value::Null,
                Dialect::AzureFiltered => "content_filter".into(),
                _ => "stop".into(),
            },
        ),
        ("content_events", events.into()),
        ("output_tokens", TOKENS.into()),
        ("retries", 0.into()),
    ]
}
