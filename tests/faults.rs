//! Every fault that the mock server can inject, played to the program itself: what the program
//! records is what was injected, request by request, and by number in a mix.

#[path = "outside/program.rs"]
mod program; // the program as a child, never for longer than a limit

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use clap::ValueEnum;
use ridgeline_mock_server::{
    Dialect, DriverKind, Faults, Mode, Placement, Running, Served, ServerConfig,
};
use ridgeline_mock_server::{start, text};
use serde_json::Value;

/// Tokens of an answer, each an event of its own.
const TOKENS: u32 = 6;

/// How often a run with a deadline is repeated, where the machine may have been too busy for it.
const TRIES: usize = 3;

/// What a record must say of a request that got a fault.
#[derive(Clone, Debug)]
struct Want {
    /// `None`: it succeeded.
    kind: Option<&'static str>,
    status: Option<u16>,
    /// Content events, of one token each, or 1 for a whole answer.
    events: u32,
    /// Tokens whose text was kept.
    tokens: u32,
    finish: Option<&'static str>,
    /// The server's usage came.
    usage: bool,
}

/// It failed after this many content events.
fn failed(kind: &'static str, status: impl Into<Option<u16>>, events: u32) -> Want {
    Want {
        kind: Some(kind),
        status: status.into(),
        events,
        tokens: events,
        finish: None,
        usage: false,
    }
}

/// The same, and the whole text had come, and why it ended.
fn failed_late(kind: &'static str) -> Want {
    Want {
        kind: Some(kind),
        finish: Some("length"),
        ..failed(kind, 200, TOKENS)
    }
}

/// It succeeded, with all its text.
fn ok(events: u32) -> Want {
    Want {
        kind: None,
        status: Some(200),
        events,
        tokens: TOKENS,
        finish: Some("length"),
        usage: true,
    }
}

/// Faults of both kinds of answers that end the same way.
fn of_both() -> Vec<(&'static str, Want)> {
    let statuses = [
        ("status-302", 302),
        ("status-400", 400),
        ("status-401:form=openai", 401),
        ("status-404:body=text", 404),
        ("status-408", 408),
        ("status-413:body=none", 413),
        ("status-429:retry-after=1", 429),
        ("status-500:body=html", 500),
        ("status-502:form=tgi", 502),
        ("status-503:form=sglang", 503),
        ("status-504:form=llamacpp", 504),
        ("status-599:form=text", 599),
        ("rate_limit", 429),
        ("invalid_api_key", 401),
        ("context_length", 400),
        ("server_error", 503),
        ("invalid_request", 400),
        ("model_not_found", 404),
    ];
    let mut cases = vec![
        // First, and one after the other: on a connection that was idle before, a request to which
        // no byte came is sent again.
        ("reset-before-head", failed("reset", None, 0)),
        ("fin-before-head", failed("reset", None, 0)),
        ("reset-in-head", failed("truncated", None, 0)),
        ("fin-in-head", failed("truncated", None, 0)),
        ("reset-after-head", failed("truncated", 200, 0)),
        ("fin-after-head", failed("truncated", 200, 0)),
        ("not-http", failed("http_protocol", None, 0)),
        ("head-garbled", failed("http_protocol", None, 0)),
        ("version-unknown", failed("http_protocol", None, 0)),
        ("field-garbled", failed("http_protocol", 200, 0)),
        ("content-coding-unknown", failed("http_protocol", 200, 0)),
        ("transfer-coding-unknown", failed("http_protocol", 200, 0)),
        ("content-length-negative", failed("http_protocol", 200, 0)),
        ("content-length-two", failed("http_protocol", 200, 0)),
        ("content-length-garbled", failed("http_protocol", 200, 0)),
        ("head-oversize", failed("oversize", None, 0)),
        ("error-body", failed("in_band", 200, 0)),
        ("error-body:form=text", failed("in_band", 200, 0)),
    ];
    cases.extend(statuses.map(|(fault, status)| (fault, failed("http_status", status, 0))));
    cases
}

/// Errors inside a stream, in each server's words, and the content events before them.
fn errors_inside() -> [(&'static str, u32); 9] {
    [
        ("error-event:at=0", 0),
        ("error-event:form=openai,at=1", 1),
        ("error-event:form=vllm,at=2", 2),
        ("error-event:form=object,at=3", 3),
        ("error-event:form=sglang,at=4", 4),
        ("error-event:form=tgi,at=5", 5),
        ("error-event:form=llamacpp,at=6", 6),
        ("error-event:form=named,at=1", 1),
        ("error-event:form=text,at=1", 1),
    ]
}

/// Faults of streams.
fn of_streams() -> Vec<(&'static str, Want)> {
    let mut cases = of_both();
    for (fault, events) in [
        ("reset-mid-event", 1),
        ("fin-mid-event:at=2", 2),
        ("reset-mid-chunk:at=0", 0),
        ("fin-mid-chunk:at=3", 3),
        ("reset-after-event:at=2", 2),
        ("fin-after-event:at=0", 0),
        ("fin-after-event:at=5", 5),
    ] {
        cases.push((fault, failed("truncated", 200, events)));
    }
    for fault in ["reset-before-end", "fin-before-end", "content-length-long"] {
        cases.push((fault, failed_late("truncated")));
    }
    let all = TOKENS;
    cases.extend([
        ("chunk-size-overflow:at=2", failed("http_protocol", 200, 2)),
        ("chunk-size-garbled", failed("http_protocol", 200, 1)),
        ("event-oversize:at=2", failed("oversize", 200, 2)),
        ("html", failed("sse_protocol", 200, 0)),
        ("empty-body", failed("truncated", 200, 0)),
        ("no-end", failed("truncated", 200, all)),
        ("event-unterminated", failed("truncated", 200, all - 1)),
        ("json-invalid:at=2", failed("json", 200, 2)),
        ("utf8-invalid", failed("json", 200, 1)),
        ("nul:at=0", failed("json", 200, 0)),
        (
            "no-content",
            Want {
                finish: Some("stop"),
                ..failed("empty", 200, 0)
            },
        ),
        (
            "zero-tokens",
            Want {
                finish: Some("stop"),
                ..failed("empty", 200, 0)
            },
        ),
        ("no-done", ok(all)),
        (
            "no-finish",
            Want {
                finish: None,
                ..ok(all)
            },
        ),
        (
            "no-usage",
            Want {
                usage: false,
                ..ok(all)
            },
        ),
        ("json-reply", ok(1)),
        ("drip:gap=10us,bytes=7", ok(all)),
        ("stall-mid-event:at=2,for=20ms", ok(all)),
        ("extra-bytes", ok(all)),
    ]);
    cases.extend(errors_inside().map(|(fault, events)| (fault, failed("in_band", 200, events))));
    // Last: the connection that they leave behind is of no use.
    cases.extend([("fin-after-answer", ok(all))]);
    cases
}

/// Faults of whole answers.
fn of_wholes() -> Vec<(&'static str, Want)> {
    let mut cases = of_both();
    for fault in [
        "reset-mid-event",
        "fin-mid-event",
        "reset-mid-chunk",
        "fin-mid-chunk",
        "reset-before-end",
        "fin-before-end",
    ] {
        cases.push((fault, failed("truncated", 200, 0)));
    }
    cases.extend([
        ("content-length-long", failed("truncated", 200, 0)),
        ("content-length-short", failed("json", 200, 0)),
        ("chunk-size-overflow", failed("http_protocol", 200, 0)),
        ("chunk-size-garbled", failed("http_protocol", 200, 0)),
        // A whole body may be longer than an event.
        ("event-oversize:bytes=75000000", failed("oversize", 200, 0)),
        ("html", failed("json", 200, 0)),
        ("empty-body", failed("json", 200, 0)),
        ("error-event", failed("in_band", 200, 0)),
        ("json-invalid", failed("json", 200, 0)),
        ("utf8-invalid", failed("json", 200, 0)),
        ("nul", failed("json", 200, 0)),
        (
            "zero-tokens",
            Want {
                finish: Some("stop"),
                ..failed("empty", 200, 0)
            },
        ),
        ("stream-reply", ok(TOKENS)),
        ("drip:gap=10us,bytes=7", ok(1)),
        ("stall-mid-chunk:for=20ms", ok(1)),
        ("extra-bytes", ok(1)),
        ("fin-after-answer", ok(1)),
    ]);
    cases
}

/// Faults that end by the client's deadline.
fn stalls(stream: bool) -> Vec<(&'static str, Want)> {
    let mut cases = vec![
        ("stall-before-head", failed("timeout", None, 0)),
        ("stall-in-head", failed("timeout", None, 0)),
        ("stall-after-head", failed("timeout", 200, 0)),
    ];
    if stream {
        cases.extend([
            ("stall-mid-event:at=2", failed("timeout", 200, 2)),
            ("stall-mid-chunk:at=1", failed("timeout", 200, 1)),
            ("stall-after-event:at=3,for=1h", failed("timeout", 200, 3)),
            ("stall-before-end", failed_late("timeout")),
            ("comments:at=2,gap=20ms", failed("timeout", 200, 2)),
        ]);
    } else {
        cases.push(("stall-mid-event", failed("timeout", 200, 0)));
    }
    cases
}

/// How the program asks, and how the server answers.
#[derive(Clone, Copy, Debug)]
struct Setting {
    endpoint: &'static str,
    stream: bool,
    driver: &'static str,
    dialect: Dialect,
    is_paced: bool,
}

const CHAT: Setting = Setting {
    endpoint: "chat",
    stream: true,
    driver: "auto",
    dialect: Dialect::Vllm,
    is_paced: false,
};

impl Setting {
    fn serve(&self, rules: &[String]) -> Running {
        let rules = rules.iter().map(|rule| rule.parse().expect("a rule"));
        let mode = if self.is_paced {
            ServerConfig::default().mode
        } else {
            Mode::Instant {
                events_per_write: NonZeroU32::new(1),
            }
        };
        let config = ServerConfig {
            mode,
            dialect: self.dialect,
            faults: Faults::new(rules.collect(), 7).expect("rules"),
            ..ServerConfig::default()
        };
        let driver = match self.driver {
            "epoll" => DriverKind::Epoll,
            _ => DriverKind::Auto,
        };
        let placement = Placement {
            driver,
            ..Placement::at(([127, 0, 0, 1], 0).into())
        };
        start(config, placement).expect("a server")
    }

    /// Runs the program against a server with these rules: records by index, what the server
    /// counted, the report.
    fn run(&self, rules: &[String], flags: &[&str]) -> (Vec<Value>, Served, Value) {
        let server = self.serve(rules);
        let (url, tokens) = (server.url(), TOKENS.to_string());
        let folder = tempfile::tempdir().expect("a folder for the results");
        let out = folder.path().join("out");
        let streaming = if self.stream {
            "--streaming"
        } else {
            "--no-streaming"
        };
        let mut arguments = vec![
            "bench", "--url", &url, "--model", "m", "--prompt", "Say it.",
        ];
        arguments.extend(["--endpoint-type", self.endpoint, streaming]);
        arguments.extend(["--osl", &tokens, "--save-text", "--driver", self.driver]);
        arguments.extend(["--output-dir", out.to_str().expect("a path in UTF-8")]);
        arguments.extend(flags);
        let exit = program::run(&arguments);
        assert!(matches!(exit.code, Some(0 | 3 | 4)), "{}", exit.said);
        let served = server.stop().expect("the server ran");
        let report = fs::read_to_string(out.join("report.json")).expect("a report");
        let report = serde_json::from_str(&report).expect("JSON");
        (records(&out.join("records.jsonl")), served, report)
    }

    /// Plays one fault after the other, one to each request; what is wrong.
    fn play(&self, cases: &[(&str, Want)], timeout: &str) -> Vec<String> {
        let numbered = (1..).zip(cases);
        let rules: Vec<_> = numbered
            .map(|(number, (fault, _))| format!("{fault}@{number}"))
            .collect();
        let count = cases.len().to_string();
        let (records, served, _) = self.run(
            &rules,
            &[
                "--concurrency",
                "1",
                "--request-count",
                &count,
                "--timeout",
                timeout,
            ],
        );
        let mut wrong: Vec<_> = records
            .iter()
            .zip(cases)
            .flat_map(|(record, (fault, want))| want.misfits(fault, record))
            .collect();
        let mut injected: BTreeMap<String, u64> = BTreeMap::new();
        for (fault, _) in cases {
            *injected.entry(name(fault)).or_default() += 1;
        }
        let counted: BTreeMap<String, u64> = served.faults.iter().collect();
        if (records.len(), &counted) != (cases.len(), &injected) {
            wrong.push(format!("{} records, {counted:?} injected", records.len()));
        }
        wrong
            .iter()
            .map(|wrong| format!("{self:?}: {wrong}"))
            .collect()
    }
}

/// The name in front of the settings.
fn name(fault: &str) -> String {
    fault.split(':').next().unwrap_or(fault).to_owned()
}

fn records(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).expect("records");
    let lines = text
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"));
    let mut records: Vec<Value> = lines.collect();
    records.sort_by_key(|record| record["index"].as_u64());
    records
}

impl Want {
    fn misfits(&self, fault: &str, record: &Value) -> Vec<String> {
        let status = self.status.map_or(Value::Null, Value::from);
        let finish = self.finish.map_or(Value::Null, Value::from);
        let outcome = if self.kind.is_some() { "error" } else { "ok" };
        let mut wrong = Vec::new();
        let mut compare = |what: &str, want: Value, got: &Value| {
            if want != *got {
                wrong.push(format!("{fault}: {what} {want} recorded as {got}"));
            }
        };
        compare("outcome", outcome.into(), &record["outcome"]);
        compare(
            "kind",
            self.kind.map_or(Value::Null, Value::from),
            &record["error"]["kind"],
        );
        compare("status", status.clone(), &record["http_status"]);
        compare("events", self.events.into(), &record["content_events"]);
        compare("text", text(self.tokens).into(), &record["text"]);
        compare("finish", finish, &record["finish_reason"]);
        compare("retries", 0.into(), &record["retries"]);
        if self.kind.is_some() {
            compare(
                "status of the error",
                status,
                &record["error"]["http_status"],
            );
        } else {
            let tokens = if self.usage {
                TOKENS.into()
            } else {
                Value::Null
            };
            compare("tokens", tokens, &record["output_tokens"]);
        }
        wrong
    }
}

/// Both endpoints, streamed and not.
fn settings(setting: Setting) -> [Setting; 4] {
    [
        ("chat", true),
        ("chat", false),
        ("completions", true),
        ("completions", false),
    ]
    .map(|(endpoint, stream)| Setting {
        endpoint,
        stream,
        ..setting
    })
}

fn cases(stream: bool) -> Vec<(&'static str, Want)> {
    if stream { of_streams() } else { of_wholes() }
}

#[test]
fn every_fault_is_recorded_as_what_it_is() {
    let wrong: Vec<_> = settings(CHAT)
        .iter()
        .flat_map(|setting| setting.play(&cases(setting.stream), "60s"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_fallback_driver_and_modelled_times_change_nothing() {
    let fallback = Setting {
        driver: "epoll",
        ..CHAT
    };
    let paced = Setting {
        is_paced: true,
        ..CHAT
    };
    let settings = [
        fallback,
        Setting {
            stream: false,
            ..fallback
        },
        paced,
    ];
    let wrong: Vec<_> = settings
        .iter()
        .flat_map(|setting| setting.play(&cases(setting.stream), "60s"))
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Runs at one time.
const WORKERS: usize = 3;

/// What a dialect makes of a fault that it does not make of the others' answers.
fn is_its_own(dialect: Dialect, fault: &str) -> bool {
    match name(fault).as_str() {
        // Whichever of the two a dialect never says, the other must not be missing.
        "no-done" => dialect == Dialect::Gemini,
        // Where the last token has the reason, it is missing with it.
        "no-finish" => matches!(
            dialect,
            Dialect::Transformers | Dialect::Tgi | Dialect::FinishWithLast
        ),
        // It says a reason after each text.
        "no-end" | "event-unterminated" => dialect == Dialect::AfterFinish,
        // Tokens that say nothing are known by the usage alone.
        "no-usage" => dialect == Dialect::NoText,
        // HTTP/1.0 knows no chunks.
        "chunk-size-overflow"
        | "chunk-size-garbled"
        | "reset-before-end"
        | "fin-before-end"
        | "extra-bytes" => dialect == Dialect::Http10,
        _ => false,
    }
}

/// Plays all faults in the words of a dialect, after a request without one: failures are of the same
/// kind in each, and what is kept is a beginning of what is said otherwise.
fn play_dialect(dialect: Dialect) -> Vec<String> {
    let setting = Setting { dialect, ..CHAT };
    let cases: Vec<_> = of_streams()
        .into_iter()
        .filter(|(fault, _)| !is_its_own(dialect, fault))
        .collect();
    let numbered = (2..).zip(&cases);
    let rules: Vec<_> = numbered
        .map(|(number, (fault, _))| format!("{fault}@{number}"))
        .collect();
    // A sound answer whose connection ends: the next request, which gets no byte, needs a fresh one.
    let rules = [vec!["fin-after-answer@1".to_owned()], rules].concat();
    let count = (cases.len() + 1).to_string();
    let flags = [
        "--concurrency",
        "1",
        "--request-count",
        &count,
        "--timeout",
        "60s",
    ];
    let (records, served, _) = setting.run(&rules, &flags);
    let text_of = |record: &Value| record["text"].as_str().unwrap_or_default().to_owned();
    let sound = &records[0];
    let mut wrong = Vec::new();
    if sound["outcome"] != "ok" {
        wrong.push(format!("without a fault: {sound}"));
    }
    for (record, (fault, want)) in records[1..].iter().zip(&cases) {
        let kind = record["error"]["kind"].as_str();
        let kept = text_of(record);
        let fits = kind == want.kind
            && text_of(sound).starts_with(&kept)
            && record["content_events"].as_u64() <= sound["content_events"].as_u64()
            && (want.kind.is_some() || kept == text_of(sound));
        if !fits {
            wrong.push(format!("{fault}: {want:?} recorded as {record}"));
        }
    }
    let (injected, asked) = (served.faults.total(), cases.len() as u64 + 1);
    if injected != asked || records.len() as u64 != asked {
        wrong.push(format!("{injected} injected: {}", served.faults));
    }
    wrong
        .iter()
        .map(|wrong| format!("{dialect:?}: {wrong}"))
        .collect()
}

#[test]
fn every_dialect_fails_the_same() {
    // Their answers are not what was asked for as it is.
    let others = [Dialect::Vllm, Dialect::JsonReply, Dialect::SseReply];
    let dialects: Vec<_> = Dialect::value_variants()
        .iter()
        .filter(|dialect| !others.contains(dialect))
        .collect();
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..WORKERS {
            scope.spawn(|| {
                while let Some(dialect) = dialects.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let wrong = play_dialect(**dialect);
                    found.lock().expect("no panic while locked").extend(wrong);
                }
            });
        }
    });
    let found = found.into_inner().expect("no worker panicked");
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn a_stall_ends_by_the_deadline() {
    for setting in [
        CHAT,
        Setting {
            stream: false,
            ..CHAT
        },
        Setting {
            driver: "epoll",
            ..CHAT
        },
    ] {
        let mut wrong = Vec::new();
        for _ in 0..TRIES {
            wrong = setting.play(&stalls(setting.stream), "300ms");
            if wrong.is_empty() {
                break;
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    }
}

#[test]
fn a_request_names_its_own_fault() {
    for (header, faults, want) in [
        (
            "X-Mock-Fault: error-event:at=2",
            "error-event",
            failed("in_band", 200, 2),
        ),
        (
            "X-Return-Error: 503",
            "status-503",
            failed("http_status", 503, 0),
        ),
        ("X-Mock-Fault: none", "", ok(TOKENS)),
    ] {
        let rules = ["nul".to_owned()];
        let flags = [
            "--concurrency",
            "4",
            "--request-count",
            "12",
            "--header",
            header,
        ];
        let (records, served, _) = CHAT.run(&rules, &flags);
        let wrong: Vec<_> = records
            .iter()
            .flat_map(|record| want.misfits(header, record))
            .collect();
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
        let counted: Vec<_> = served.faults.iter().collect();
        let expected = (!faults.is_empty()).then(|| (faults.to_owned(), 12));
        assert_eq!(counted, Vec::from_iter(expected), "{header}");
    }
}

#[test]
fn a_connection_reset_when_it_is_accepted_is_a_reset() {
    // The first connection is the one that looks whether anyone listens, before the run.
    let rules = [2, 3, 4].map(|number| format!("reset-on-accept@{number}"));
    for driver in ["auto", "epoll"] {
        let setting = Setting { driver, ..CHAT };
        let flags = ["--concurrency", "1", "--request-count", "5"];
        let (records, served, _) = setting.run(&rules, &flags);
        let failed: Vec<_> = records
            .iter()
            .map(|record| record["error"]["kind"].as_str().unwrap_or("-"))
            .collect();
        // It is reset while it connects, or just after: whichever the client sees first.
        let is_reset = |kind: &&str| ["reset", "connect"].contains(kind);
        assert!(failed[..3].iter().all(is_reset), "{driver}: {failed:?}");
        assert_eq!(failed[3..], ["-", "-"], "{driver}");
        assert_eq!(served.faults.to_string(), "3 reset-on-accept");
    }
}

/// Requests of a mix.
const MIXED: u64 = 500;

#[test]
fn a_mix_is_counted_as_it_was_injected() {
    let rules = [
        ("status-429@6%", "http_status"),
        ("server_error@4%", "http_status"),
        ("fin-before-head@6%", "reset"),
        ("reset-mid-chunk:at=3@5%", "truncated"),
        ("no-end@4%", "truncated"),
        ("error-event:at=1@5%", "in_band"),
        ("json-invalid@3%", "json"),
        ("utf8-invalid:at=0@2%", "json"),
        ("html@2%", "sse_protocol"),
        ("no-content@3%", "empty"),
        ("chunk-size-overflow@3%", "http_protocol"),
        ("head-oversize@1%", "oversize"),
        ("drip:bytes=50,gap=0us@5%", "-"),
        ("no-done@every=50", "-"),
    ];
    for (driver, stream) in [("auto", true), ("epoll", true)] {
        let setting = Setting {
            driver,
            stream,
            ..CHAT
        };
        let asked = rules.map(|(rule, _)| rule.to_owned());
        let count = MIXED.to_string();
        let flags = ["--concurrency", "16", "--request-count", &count];
        let (records, served, report) = setting.run(&asked, &flags);
        let kind_of = |name: &str| {
            let rule = rules.iter().find(|(rule, _)| rule.starts_with(name));
            rule.expect("an injected fault was asked for").1
        };
        let mut injected: BTreeMap<&str, u64> = BTreeMap::new();
        for (name, count) in served.faults.iter() {
            *injected.entry(kind_of(&name)).or_default() += count;
        }
        assert!(injected.len() >= 9, "{injected:?}");
        // The client sends a request once more when its idle connection turns out to be closed.
        let retries = records
            .iter()
            .map(|record| record["retries"].as_u64().unwrap_or(0));
        *injected.entry("reset").or_default() -= retries.sum::<u64>();
        injected.remove("-");
        let errors = report["errors"].as_object().expect("an object");
        let errors: BTreeMap<&str, u64> = errors
            .iter()
            .map(|(kind, count)| (kind.as_str(), count.as_u64().unwrap_or(0)))
            .filter(|(_, count)| *count > 0)
            .collect();
        injected.retain(|_, count| *count > 0);
        assert_eq!(errors, injected, "{driver}: {}", served.faults);
        assert_eq!(records.len() as u64, MIXED);
    }
}
