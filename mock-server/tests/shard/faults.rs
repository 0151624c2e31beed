//! Answers that go wrong on purpose: who gets which, what it is, when, and how the connection ends.

use ridgeline_clock::Nanos;
use ridgeline_mock_server::{FaultRule, Faults, Mode, PaceConfig, ServerConfig};
use ridgeline_net::{Arrival, Close, Commands, Sink};

use crate::fed::{Fed, Response, chat, post, responses};

const TTFT: Nanos = Nanos::from_millis(10);
const ITL: Nanos = Nanos::from_millis(1);

fn faults(rules: &[&str]) -> Faults {
    let rules = rules.iter().map(|rule| rule.parse::<FaultRule>().unwrap());
    Faults::new(rules.collect(), 1).unwrap()
}

fn instant(rules: &[&str]) -> ServerConfig {
    ServerConfig {
        mode: Mode::Instant {
            events_per_write: None,
        },
        faults: faults(rules),
        ..ServerConfig::default()
    }
}

fn modelled(rules: &[&str]) -> ServerConfig {
    let mode = Mode::Model(PaceConfig::fixed(TTFT, ITL));
    ServerConfig {
        mode,
        ..instant(rules)
    }
}

const BODY: &str = r#"{"stream":true,"max_tokens":4,"messages":[{"role":"user","content":"x"}]}"#;

/// A streamed chat request with more header fields.
fn request(fields: &str) -> Vec<u8> {
    post("/v1/chat/completions", fields, BODY)
}

/// The answers to streamed chat requests with these fields, one after another.
fn ask(config: &ServerConfig, fields: &[&str]) -> (Vec<Response>, Fed) {
    let mut fed = Fed::new(config);
    let token = fed.accept();
    for fields in fields {
        fed.feed(token, &request(fields));
        fed.run(fed.now + Nanos::from_secs(1));
    }
    let bytes = fed.take(token);
    (responses(&bytes), fed)
}

#[test]
fn rules_take_requests_by_number() {
    for config in [instant, modelled] {
        let config = config(&["status-429@2", "error-body@every=3"]);
        let (answers, fed) = ask(&config, &[""; 4]);
        let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
        assert_eq!(statuses, [200, 429, 200, 200]);
        assert!(answers[1].head.contains("\r\nretry-after: 1"));
        assert!(answers[1].json()["error"]["message"].is_string());
        assert!(answers[2].json()["error"].is_object());
        for sound in [0, 3] {
            assert_eq!(answers[sound].text(), "A quiet river moves");
        }
        let counts = fed.server.served().faults;
        assert_eq!(counts.to_string(), "1 status-429, 1 error-body");
        assert!(fed.closes.is_empty());
    }
}

#[test]
fn a_request_asks_for_its_own() {
    let fields = [
        "X-Mock-Fault: status-503:retry-after=7\r\n",
        "x-mock-fault: none\r\n",
        "X-RETURN-ERROR: 418\r\n",
        "X-Mock-Fault: no-done\r\nX-Request-Id: r1\r\n",
        "",
    ];
    let (answers, fed) = ask(&instant(&["html"]), &fields);
    let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [503, 200, 418, 200, 200]);
    assert!(answers[0].head.contains("\r\nretry-after: 7"));
    assert!(answers[1].body.ends_with("data: [DONE]\n\n"));
    assert!(!answers[3].body.contains("[DONE]"));
    assert!(answers[3].head.contains("\r\nx-request-id: r1"));
    assert!(answers[4].body.starts_with("<!doctype html>"));
    assert_eq!(fed.server.served().faults.total(), 4);
}

#[test]
fn mistakes_are_answered_with_400_and_what_was_meant() {
    for (fields, told) in [
        (
            "X-Mock-Fault: reset-mid-chunc\r\n",
            "did you mean reset-mid-chunk?",
        ),
        ("X-Mock-Fault: nul:at=x\r\n", "expected a number of events"),
        (
            "X-Mock-Fault: stream-reply\r\n",
            "only a whole answer can have",
        ),
        ("X-Mock-Fault: reset-on-accept\r\n", "for --fault"),
        ("X-Return-Error: 42\r\n", "status-300 to status-599"),
    ] {
        let (answers, fed) = ask(&instant(&[]), &[fields]);
        assert_eq!(answers[0].status, 400, "{fields}");
        let message = answers[0].json()["error"]["message"].to_string();
        assert!(message.contains(told), "{message}");
        assert_eq!(fed.server.served().faults.total(), 0);
        assert_eq!(fed.server.served().requests_refused, 1);
    }
}

#[test]
fn faults_keep_the_model_s_times() {
    let rule = "stall-after-event:at=2,for=100ms@2";
    let mut fed = Fed::new(&modelled(&[rule]));
    let token = fed.accept();
    fed.feed(token, &request(""));
    fed.run(Nanos::from_secs(1));
    let sound = fed.take(token);
    let start = fed.now;
    fed.feed(token, &request(""));
    let mut writes = Vec::new();
    while fed.now < start + Nanos::from_secs(1) {
        fed.run(fed.now + Nanos::from_millis(1));
        let now = fed.now - start;
        writes.extend(fed.sent.drain(..).map(|(at, _, bytes)| (at - start, bytes)));
        assert!(writes.iter().all(|(at, _)| *at <= now));
    }
    let contents: Vec<_> = writes
        .iter()
        .filter(|(_, bytes)| String::from_utf8_lossy(bytes).contains("\"delta\":{\"content\":"))
        .map(|(at, _)| *at)
        .collect();
    let late = Nanos::from_millis(100);
    let due = [
        TTFT,
        TTFT + ITL,
        TTFT + ITL * 2 + late,
        TTFT + ITL * 3 + late,
    ];
    assert_eq!(contents, due);
    let bytes: Vec<u8> = writes.into_iter().flat_map(|(_, bytes)| bytes).collect();
    let [sound, late] = [&sound, &bytes].map(|bytes| responses(bytes)[0].text());
    assert_eq!(sound, late);
}

#[test]
fn a_connection_ends_as_the_fault_says() {
    for (fault, close) in [
        ("reset-before-head", Close::Reset),
        ("reset-mid-chunk:at=2", Close::Reset),
        ("fin-before-head", Close::Fin),
        ("fin-after-event:at=1", Close::Fin),
        ("content-length-long", Close::Fin),
        ("fin-after-answer", Close::Fin),
    ] {
        for config in [instant, modelled] {
            let mut fed = Fed::new(&config(&[fault]));
            let token = fed.accept();
            fed.feed(token, &request(""));
            fed.run(Nanos::from_secs(1));
            let closes: Vec<_> = fed.closes.iter().map(|(_, _, how)| *how).collect();
            assert_eq!(closes, [close], "{fault}");
            assert_eq!(
                fed.take(token).is_empty(),
                fault.ends_with("before-head"),
                "{fault}"
            );
            assert_eq!(fed.server.open(), 0);
        }
    }
}

#[test]
fn a_reset_waits_for_what_comes_before_it() {
    let mut fed = Fed::new(&instant(&["reset-after-event:at=2"]));
    let token = fed.accept();
    fed.stuck = true;
    fed.feed(token, &request(""));
    assert!(
        fed.closes.is_empty(),
        "a reset would drop what the driver still holds"
    );
    fed.unstick();
    assert_eq!(fed.closes.len(), 1);
    assert!(fed.take(token).ends_with(b"}\n\n\r\n"));
}

#[test]
fn whoever_ends_its_side_is_not_held_for_ever() {
    for fault in ["stall-before-head", "stall-mid-event", "chunk-size-garbled"] {
        for config in [instant, modelled] {
            let mut fed = Fed::new(&config(&[fault]));
            let token = fed.accept();
            fed.feed(token, &request(""));
            fed.run(Nanos::from_secs(100));
            assert_eq!((fed.server.open(), fed.closes.len()), (1, 0), "{fault}");
            fed.fin(token);
            fed.run(Nanos::from_secs(101));
            assert_eq!((fed.server.open(), fed.closes.len()), (0, 1), "{fault}");
        }
    }
    // Also when its end came before the silence.
    let mut fed = Fed::new(&modelled(&["stall-after-event:at=3"]));
    let token = fed.accept();
    fed.feed(token, &request(""));
    fed.fin(token);
    fed.run(Nanos::from_secs(1));
    assert_eq!(fed.server.open(), 0);
}

#[test]
fn an_answer_that_goes_wrong_holds_up_those_behind_it() {
    let mut fed = Fed::new(&modelled(&["stall-mid-chunk:for=1s@1"]));
    let token = fed.accept();
    fed.feed(token, &[request(""), chat(r#","max_tokens":2"#)].concat());
    fed.run(Nanos::from_millis(900));
    assert!(!fed.take(token).ends_with(b"0\r\n\r\n"));
    fed.run(Nanos::from_secs(3));
    let rest = String::from_utf8(fed.take(token)).unwrap();
    assert_eq!(rest.matches("HTTP/1.1 200 OK").count(), 1);
    assert!(rest.contains("A quiet\""));
}

#[test]
fn connections_are_reset_by_rule() {
    let mut fed = Fed::new(&instant(&["reset-on-accept@2"]));
    let mut commands = Commands::default();
    let mut accept = || fed.server.accepted(&mut commands, 0, Nanos::ZERO);
    let accepted: Vec<_> = (0..3).map(|_| accept().is_some()).collect();
    assert_eq!(accepted, [true, false, true]);
    let served = fed.server.served();
    assert_eq!(served.faults.to_string(), "1 reset-on-accept");
    assert_eq!((served.connections, served.connections_refused), (2, 0));
}

#[test]
fn comments_go_on_until_the_peer_is_gone() {
    let mut fed = Fed::new(&modelled(&["comments:at=1,gap=5ms"]));
    let token = fed.accept();
    fed.feed(token, &request(""));
    fed.run(TTFT + Nanos::from_millis(50));
    let bytes = String::from_utf8(fed.take(token)).unwrap();
    assert_eq!(bytes.matches(": keep-alive").count(), 10);
    fed.reset(token);
    fed.run(Nanos::from_secs(1));
    assert_eq!(fed.server.open(), 0);
    let arrival = Arrival::reaped(fed.now);
    fed.server
        .received(&mut fed.commands, token, b"late", arrival);
    assert!(fed.take(token).is_empty());
}

#[test]
fn faults_change_while_the_server_runs() {
    let mut fed = Fed::with_flags(&["--mode=instant", "--fault=error-body"]);
    let token = fed.accept();
    let mut status = |bytes: &[u8]| {
        fed.feed(token, bytes);
        responses(&fed.take(token)).pop().unwrap()
    };
    assert!(status(&request("")).body.starts_with("{\"error\""));
    let change = |body: &str| post("/admin/config", "", body);
    let changed = status(&change(
        r#"{"fault": ["status-500:body=none@2", "drip@1%"]}"#,
    ));
    assert_eq!(changed.json()["fault"][1], "drip@1%");
    // The second request of this server.
    assert_eq!(status(&request("")).status, 500);
    for (body, told) in [
        (r#"{"fault": ["drop"]}"#, "did you mean drip?"),
        (
            r#"{"fault": ["nul@60%", "html@50%"]}"#,
            "110%: more than 100%",
        ),
    ] {
        let refused = status(&change(body));
        assert_eq!(refused.status, 400);
        assert!(refused.body.contains(told), "{}", refused.body);
    }
    status(&change(r#"{"fault": null}"#));
    assert_eq!(status(&request("")).text(), "A quiet river moves");
}
