//! The mock server's truth against the program's records: every request is on both sides, and what one
//! says fits what the other says. How fast anything was is nobody's matter here.
#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "outside/mock.rs"]
mod mock; // the mock server as a child
#[path = "outside/program.rs"]
mod program; // the program as a child, never for longer than a limit

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use mock::Mock;

const REQUESTS: u64 = 24;
const TOKENS: u64 = 6;

/// Starts a mock server that writes a truth file.
fn start(truth: &Path, more: &[&str]) -> Mock {
    let truth = truth.to_str().unwrap();
    Mock::start(&[&["--truth", truth], more].concat())
}

/// A run and the truth of its server.
struct Pair {
    _keep: tempfile::TempDir,
    results: PathBuf,
    truth: PathBuf,
    /// What the server said at its end.
    said: String,
}

/// Runs `REQUESTS` requests of `TOKENS` tokens.
fn pair(server: &[&str], bench: &[&str]) -> Pair {
    let keep = tempfile::tempdir().unwrap();
    let (results, truth) = (keep.path().join("out"), keep.path().join("truth.jsonl"));
    let server = start(&truth, server);
    let (count, osl) = (REQUESTS.to_string(), TOKENS.to_string());
    let out = results.display().to_string();
    let fixed = [
        "bench",
        "--url",
        &server.url,
        "--model",
        "mock",
        "--isl",
        "8",
        "--osl",
        &osl,
        "--concurrency",
        "4",
        "--request-count",
        &count,
        "--output-dir",
        &out,
        "--quiet",
    ];
    let exit = program::run(&[&fixed, bench].concat());
    assert_eq!(exit.code, Some(0), "{bench:?}: {}", exit.said);
    let said = server.stop();
    Pair {
        _keep: keep,
        results,
        truth,
        said,
    }
}

/// `ridgeline report --truth`: its exit code and what it says.
fn report(results: &Path, truth: &Path) -> (Option<i32>, String) {
    let (results, truth) = (results.display().to_string(), truth.display().to_string());
    let exit = program::run(&["report", &results, "--truth", &truth]);
    (exit.code, exit.said)
}

fn joined(pair: &Pair) -> (Value, String) {
    let (code, said) = report(&pair.results, &pair.truth);
    assert_eq!(code, Some(0), "{said}");
    let kept = fs::read(pair.results.join("truth.json")).unwrap();
    (serde_json::from_slice(&kept).unwrap(), said)
}

/// The sum of a spread, to the nanosecond.
fn sum(spread: &Value) -> f64 {
    let count = spread["count"].as_f64().unwrap();
    (spread["mean"].as_f64().unwrap() * count).round()
}

fn lines(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    lines.collect()
}

#[test]
fn every_request_is_on_both_sides_and_they_agree() {
    for driver in ["auto", "epoll"] {
        for (mode, bench, streamed) in [
            (
                &[
                    "--time-to-first-token",
                    "2ms",
                    "--inter-token-latency",
                    "1ms",
                ][..],
                &[][..],
                true,
            ),
            (&["--mode", "instant"], &["--driver", "epoll"], true),
            (
                &["--mode", "instant", "--events-per-write", "1"],
                &["--endpoint-type", "completions"],
                true,
            ),
            (
                &[
                    "--time-to-first-token",
                    "2ms",
                    "--inter-token-latency",
                    "1ms",
                ],
                &["--no-streaming"],
                false,
            ),
        ] {
            let server = [&["--driver", driver], mode].concat();
            let pair = pair(&server, &[bench, &["--save-events"]].concat());
            agree(&pair, streamed, &format!("{server:?} {bench:?}"));
        }
    }
}

fn agree(pair: &Pair, streamed: bool, what: &str) {
    assert!(
        pair.said.contains("truth: 24 lines, 0 dropped"),
        "{what}: {}",
        pair.said
    );
    let (found, page) = joined(pair);
    let requests = &found["requests"];
    for (member, count) in [
        ("records", REQUESTS),
        ("matched", REQUESTS),
        ("compared", REQUESTS),
        ("only_in_records", 0),
        ("only_in_truth", 0),
        ("without_id", 0),
        ("ambiguous", 0),
        ("events_differ", 0),
        ("without_event_ns", 0),
    ] {
        assert_eq!(requests[member], count, "{what}: {member}\n{page}");
    }
    assert_eq!(
        found["faults"],
        serde_json::json!({"none": {"ok": REQUESTS}}),
        "{what}"
    );
    assert_eq!(found["notes"], serde_json::json!([]), "{what}");
    assert_eq!(found["clock"]["kind"], "monotonic", "{what}");
    // Nothing arrives before it was sent.
    let (request, first) = (
        &found["request_one_way_ns"],
        &found["first_token_one_way_ns"],
    );
    for way in [request, first, &found["write_lateness_ns"]] {
        assert_eq!(way["negative"], 0, "{what}\n{page}");
    }
    assert_eq!(
        (&request["count"], &first["count"]),
        (&REQUESTS.into(), &REQUESTS.into())
    );
    assert_eq!(found["latency_error_ns"]["count"], REQUESTS, "{what}");
    if !streamed {
        assert_eq!(found["ttft_error_ns"], Value::Null, "{what}");
        return;
    }
    // What the client sees too much of TTFT is the two ways; of latency also what the gaps differ by.
    let (ttft, gaps) = (&found["ttft_error_ns"], &found["gap_error_ns"]);
    assert_eq!(sum(ttft), sum(request) + sum(first), "{what}\n{page}");
    assert_eq!(gaps["count"], REQUESTS * (TOKENS - 1), "{what}\n{page}");
    assert_eq!(
        sum(&found["latency_error_ns"]),
        sum(ttft) + sum(gaps),
        "{what}\n{page}"
    );
    assert!(
        page.contains("24 matched, 24 compared") && page.contains("no fault: ok 24"),
        "{page}"
    );
    naive(pair, ttft, what);
}

/// TTFT errors from the two files, by hand.
fn naive(pair: &Pair, found: &Value, what: &str) {
    let truth = lines(&pair.truth);
    let mut errors: Vec<i64> = lines(&pair.results.join("records.jsonl"))
        .iter()
        .map(|record| {
            let ns = |value: &Value| value.as_i64().unwrap();
            let line = truth
                .iter()
                .find(|line| line["request_id"] == record["request_id"]);
            let line = line.unwrap();
            assert_eq!(line["output_tokens"], record["output_tokens"], "{what}");
            assert_eq!(
                (&line["status"], &line["ended"]),
                (&200.into(), &"complete".into())
            );
            assert!(ns(&line["started_ns"]) >= ns(&line["arrival_ns"]), "{what}");
            let writes = line["writes"].as_array().unwrap();
            let first = writes.iter().find(|write| ns(&write[4]) > 0).unwrap();
            let server = ns(&first[0]) - ns(&line["arrival_ns"]);
            ns(&record["first_token_ns"]) - ns(&record["submitted_ns"]) - server
        })
        .collect();
    errors.sort_unstable();
    assert_eq!(found["min"], errors[0], "{what}");
    assert_eq!(found["p50"], errors[errors.len() / 2 - 1], "{what}");
    assert_eq!(found["max"], errors[errors.len() - 1], "{what}");
}

#[test]
fn every_fault_stands_beside_what_was_recorded_of_it() {
    let faults = [
        "status-503",
        "reset-mid-event",
        "error-event",
        "fin-before-head",
    ];
    let rules = [
        "status-503@every=3",
        "reset-mid-event@every=5",
        "error-event@every=7",
        "fin-before-head@every=4",
    ];
    let server: Vec<&str> = rules
        .iter()
        .flat_map(|rule| ["--fault", rule])
        .chain([
            "--time-to-first-token",
            "1ms",
            "--inter-token-latency",
            "1ms",
        ])
        .collect();
    let pair = pair(&server, &["--save-events"]);
    let (found, page) = joined(&pair);
    let truth = lines(&pair.truth);
    let injected = |fault: &str| {
        let lines = truth.iter().filter(|line| line["fault"] == fault);
        lines.count() as u64
    };
    for (fault, kinds) in faults.into_iter().zip([
        &["http_status"][..],
        &["truncated"],
        &["in_band"],
        // A connection that was used before is tried again.
        &["reset", "sent_again"],
    ]) {
        let recorded = found["faults"][fault].as_object().unwrap();
        let counts = recorded.values().map(|count| count.as_u64().unwrap());
        assert_eq!(counts.sum::<u64>(), injected(fault), "{fault}: {page}");
        let strange = recorded.keys().find(|kind| !kinds.contains(&kind.as_str()));
        assert_eq!(strange, None, "{fault}: {page}");
    }
    assert_eq!(found["requests"]["matched"], REQUESTS, "{page}");
    assert_eq!(found["requests"]["ambiguous"], 0, "{page}");
    for line in &truth {
        let ended = match line["fault"].as_str() {
            Some("reset-mid-event") => "reset",
            Some("fin-before-head") => "closed",
            _ => "complete",
        };
        if line["fault"].is_string() {
            assert_eq!(line["ended"], ended, "{line}");
        }
    }
}

#[test]
fn what_is_missing_is_said_and_the_rest_is_printed() {
    let pair = pair(&["--mode", "instant"], &[]);
    let (found, page) = joined(&pair);
    assert_eq!(found["gap_error_ns"], Value::Null);
    assert_eq!(found["ttft_error_ns"]["count"], REQUESTS);
    assert!(page.contains("--save-events"), "{page}");

    // The server was killed while it wrote.
    let text = fs::read(&pair.truth).unwrap();
    let cut = pair.truth.with_file_name("cut.jsonl");
    fs::write(&cut, &text[..text.len() - 150]).unwrap();
    let (code, page) = report(&pair.results, &cut);
    assert_eq!(code, Some(0), "{page}");
    for part in [
        "23 matched",
        "1 only in the records",
        "unknown dropped",
        "its last line is cut",
    ] {
        assert!(page.contains(part), "{part:?}: {page}");
    }

    // The client was killed: there is no report, and nobody knows the run's clock.
    fs::remove_file(pair.results.join("report.json")).unwrap();
    let (code, page) = report(&pair.results, &pair.truth);
    assert_eq!(code, Some(0), "{page}");
    assert!(
        page.contains("24 matched") && page.contains("no times one way"),
        "{page}"
    );
}

#[test]
fn files_that_can_not_be_joined_are_answered_in_a_line() {
    let [one, other] = [(); 2].map(|()| pair(&["--mode", "instant"], &["--records", "jsonl"]));
    let bare = pair(&["--mode", "instant"], &["--records", "none"]);
    for (results, truth, part) in [
        (
            &one.results,
            other.truth.clone(),
            "is the truth of another run: none of its 24",
        ),
        (
            &one.results,
            one.results.join("records.jsonl"),
            "is no truth file that this version can read",
        ),
        (&one.results, one.results.join("nothing"), "cannot read"),
        (&bare.results, bare.truth.clone(), "--records jsonl"),
    ] {
        let (code, said) = report(results, &truth);
        assert_eq!(code, Some(2), "{said}");
        assert!(
            said.starts_with("error: ") && said.contains(part),
            "{part:?}: {said}"
        );
        assert!(!results.join("truth.json").exists());
    }
}

#[test]
fn a_truth_file_that_can_not_be_made_is_told_at_the_start() {
    let exit = program::run(&[
        "mock-server",
        "--port",
        "0",
        "--truth",
        "no/such/folder/truth.jsonl",
    ]);
    assert_eq!(exit.code, Some(2), "{}", exit.said);
    assert!(
        exit.said
            .contains("cannot write the truth to no/such/folder"),
        "{}",
        exit.said
    );
}
