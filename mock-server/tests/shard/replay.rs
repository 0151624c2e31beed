//! Replay mode: times, tokens and errors of a recorded run, to the nanosecond.

use std::io::Write;

use ridgeline_clock::Nanos;
use ridgeline_net::Token;

use crate::fed::{Fed, chat, responses};

const RECORDS: &str = concat!(
    r#"{"phase":"measured","outcome":"ok","error":null,"http_status":200,"finish_reason":"stop","content_events":3,"output_tokens":6,"submitted_ns":1000,"first_byte_ns":1500,"first_token_ns":21001,"last_token_ns":51003,"done_ns":60000,"event_ns":[21001,31002,51003]}"#,
    "\n",
    r#"{"phase":"measured","outcome":"error","error":{"kind":"http_status","message":"x","http_status":429},"http_status":429,"finish_reason":null,"content_events":0,"output_tokens":null,"submitted_ns":5000,"first_byte_ns":7000,"first_token_ns":null,"last_token_ns":null,"done_ns":7007}"#,
    "\n",
    r#"{"phase":"measured","outcome":"ok","error":null,"http_status":200,"finish_reason":"length","content_events":4,"output_tokens":null,"submitted_ns":100,"first_byte_ns":150,"first_token_ns":200,"last_token_ns":1100,"done_ns":1200}"#,
    "\n",
);

fn replay() -> Fed {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(RECORDS.as_bytes()).unwrap();
    let path = file.path().to_str().unwrap();
    // The file is gone when the first request comes.
    Fed::with_flags(&["--mode=replay", "--replay", path])
}

/// The times of all writes to `token`, and how many tokens each has: words of its texts.
fn writes(fed: &Fed, token: Token, from: Nanos) -> Vec<(u64, usize)> {
    let writes = fed.sent.iter().filter(|(_, to, _)| *to == token);
    let counted = writes.map(|(at, _, bytes)| {
        let text = String::from_utf8_lossy(bytes);
        let contents = text.split(r#""content":""#).skip(1);
        let words = contents.map(|rest| {
            let content = rest.split('"').next().unwrap();
            content.split_ascii_whitespace().count()
        });
        ((*at - from).0, words.sum())
    });
    counted.filter(|(_, words)| *words > 0).collect()
}

#[test]
fn streams_come_as_they_were_recorded() {
    let mut fed = replay();
    let token = fed.accept();
    for expected in [
        &[(20_001, 2), (30_002, 2), (50_003, 2)][..],
        &[],
        &[(100, 1), (400, 1), (700, 1), (1_000, 1)],
        &[(20_001, 2), (30_002, 2), (50_003, 2)],
    ] {
        fed.now += Nanos(12_345);
        let from = fed.now;
        fed.feed(token, &chat(r#","stream":true,"max_tokens":1"#));
        fed.run(from + Nanos::from_millis(1));
        assert_eq!(writes(&fed, token, from), expected);
        if expected.is_empty() {
            assert_eq!(fed.sent[0].0, from + Nanos(2_007));
        }
        let status = if expected.is_empty() { 429 } else { 200 };
        assert_eq!(responses(&fed.take(token))[0].status, status);
    }
}

#[test]
fn whole_answers_are_due_when_they_were_done() {
    let mut fed = replay();
    let token = fed.accept();
    for (status, due, tokens) in [(200, 59_000, 6), (429, 2_007, 0), (200, 1_100, 4)] {
        let from = fed.now;
        fed.feed(token, &chat(""));
        fed.run(from + Nanos::from_millis(1));
        assert_eq!(fed.sent[0].0, from + Nanos(due));
        let response = responses(&fed.take(token)).remove(0);
        assert_eq!(response.status, status);
        if status == 200 {
            assert_eq!(response.json()["usage"]["completion_tokens"], tokens);
        }
    }
}

#[test]
fn a_request_without_fault_gets_none_and_the_file_is_read_once() {
    let mut fed = replay();
    let token = fed.accept();
    let patch = crate::fed::post("/admin/config", "", r#"{"late-over":"2ms"}"#);
    fed.feed(token, &patch);
    assert_eq!(responses(&fed.take(token))[0].status, 200);
    let body = r#"{"messages":[{"role":"user","content":"x"}]}"#;
    let sound = crate::fed::post("/v1/chat/completions", "X-Mock-Fault: none\r\n", body);
    for _ in 0..2 {
        fed.feed(token, &sound);
        fed.run(fed.now + Nanos::from_millis(1));
        assert_eq!(responses(&fed.take(token))[0].status, 200);
    }
}
