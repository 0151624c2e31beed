//! What bounds it, and what happens there.

use std::num::NonZeroU32;

use ridgeline_clock::Nanos;
use ridgeline_mock_server::{Limits, Mode, PaceConfig, ServerConfig, text};
use ridgeline_net::{Close, Sink};

use crate::fed::{Fed, chat, post, responses};

fn with(change: impl Fn(&mut Limits)) -> ServerConfig {
    let mut config = ServerConfig::default();
    change(&mut config.limits);
    config
}

#[test]
fn a_body_beyond_the_limit_gets_413_and_time_to_read_it() {
    let config = with(|limits| limits.body_bytes_max = 100);
    let long = post("/v1/completions", "X-Request-Id: r\r\n", &"x".repeat(101));
    let chunked = [
        &b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n"[..],
        &[b'x'; 101],
    ]
    .concat();
    for request in [long, chunked] {
        let mut fed = Fed::new(&config);
        let token = fed.accept();
        fed.feed(token, &request);
        let responses = responses(&fed.take(token));
        assert_eq!((responses.len(), responses[0].status), (1, 413));
        assert!(responses[0].head.contains("\r\nconnection: close"));
        assert_eq!(fed.closes, [(Nanos::ZERO, token, Close::Half)]);
        // What still comes is not read; the peer's FIN ends it.
        fed.feed(token, &chat(""));
        assert!(fed.sent.is_empty());
        fed.fin(token);
        assert_eq!(fed.closes[1].2, Close::Fin);
        assert_eq!(fed.server.open(), 0);
    }
    // A peer that does not end is reset in the end.
    let mut fed = Fed::new(&config);
    let token = fed.accept();
    fed.feed(token, &post("/v1/completions", "", &"x".repeat(101)));
    fed.run(Nanos::from_secs(1));
    assert_eq!(fed.server.open(), 1);
    fed.run(Nanos::from_secs(3));
    assert_eq!(fed.closes[1], (Nanos::from_secs(2), token, Close::Reset));
    assert_eq!(fed.server.open(), 0);
}

#[test]
fn a_body_at_the_limit_is_read() {
    let body = r#"{"prompt":"x"}"#;
    let mut fed = Fed::new(&with(|limits| limits.body_bytes_max = body.len() as u64));
    let token = fed.accept();
    fed.feed(token, &post("/v1/completions", "", body));
    fed.run(Nanos::from_secs(1));
    assert_eq!(responses(&fed.take(token))[0].status, 200);
}

#[test]
fn malformed_and_oversize_heads_are_answered_and_end_the_connection() {
    let long = format!(
        "GET /health HTTP/1.1\r\nHost: x\r\nX: {}\r\n\r\n",
        "x".repeat(600)
    );
    for (request, status) in [
        ("nonsense\r\n\r\n", 400),
        ("GET /health HTTP/1.1\r\n\r\n", 400),
        (
            "GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
            400,
        ),
        ("GET /health HTTP/2.0\r\nHost: x\r\n\r\n", 505),
        (long.as_str(), 431),
    ] {
        let mut fed = Fed::new(&with(|limits| limits.head_bytes_max = 512));
        let token = fed.accept();
        fed.feed(token, request.as_bytes());
        let responses = responses(&fed.take(token));
        assert_eq!(
            (responses.len(), responses[0].status),
            (1, status),
            "{request}"
        );
        let error = &responses[0].json()["error"];
        assert_eq!(error["type"], "invalid_request_error");
        assert_eq!(fed.closes[0].2, Close::Half);
        assert_eq!(
            (
                fed.server.served().requests,
                fed.server.served().requests_refused
            ),
            (1, 1)
        );
    }
}

#[test]
fn a_malformed_request_is_answered_after_those_before_it() {
    let mut fed = Fed::new(&ServerConfig::default());
    let token = fed.accept();
    fed.feed(
        token,
        &[&chat(r#","stream":true,"max_tokens":3"#), &b"\0"[..]].concat(),
    );
    fed.run(Nanos::from_secs(1));
    let responses = responses(&fed.take(token));
    assert_eq!(
        responses.iter().map(|r| r.status).collect::<Vec<_>>(),
        [200, 400]
    );
    assert_eq!(responses[0].text(), text(3));
}

#[test]
fn too_many_pipelined_requests_end_the_connection_after_the_answers() {
    let mut fed = Fed::new(&with(|limits| limits.pipelined_max = 3));
    let token = fed.accept();
    for _ in 0..5 {
        fed.feed(token, &chat(""));
    }
    fed.run(Nanos::from_secs(1));
    let responses = responses(&fed.take(token));
    assert_eq!(responses.len(), 3);
    assert!(responses[2].head.contains("\r\nconnection: close"));
    assert_eq!(fed.closes[0].2, Close::Half);
    assert_eq!(fed.server.served().requests, 3);
}

#[test]
fn connections_beyond_the_limit_are_refused_and_slots_are_used_again() {
    let mut fed = Fed::new(&with(|limits| limits.connections_max = 2));
    let (a, b) = (fed.accept(), fed.accept());
    assert_eq!(fed.server.accepted(&mut fed.commands, 0, fed.now), None);
    fed.feed(a, &chat(r#","stream":true"#));
    fed.reset(a);
    let c = fed.accept();
    assert_eq!(c.index, a.index);
    assert_ne!(c.generation, a.generation);
    // What was meant for the connection before does not reach this one.
    fed.sent.clear();
    fed.feed(a, &chat(""));
    fed.fin(a);
    fed.run(Nanos::from_secs(1));
    assert_eq!((fed.sent.len(), fed.closes.len()), (0, 0));
    fed.feed(b, &chat(""));
    fed.feed(c, &chat(""));
    fed.run(Nanos::from_secs(2));
    assert_eq!(fed.sent.len(), 2);
    let served = fed.server.served();
    assert_eq!(
        (
            served.connections,
            served.connections_refused,
            served.answers_cut
        ),
        (3, 1, 1)
    );
}

#[test]
fn a_peer_that_goes_away_in_the_middle_frees_its_slot_and_its_deadline() {
    let mut fed = Fed::new(&ServerConfig::default());
    let token = fed.accept();
    fed.feed(token, &chat(r#","stream":true"#));
    fed.run(Nanos::from_millis(40));
    assert!(fed.server.step(fed.now, &mut fed.commands) < Nanos::MAX);
    fed.reset(token);
    assert_eq!(fed.server.open(), 0);
    assert_eq!(fed.server.step(fed.now, &mut fed.commands), Nanos::MAX);
    assert_eq!(fed.server.served().answers_cut, 1);
}

#[test]
fn a_peer_that_ends_its_side_still_gets_its_answer() {
    let mut fed = Fed::new(&ServerConfig::default());
    let token = fed.accept();
    fed.feed(token, &chat(r#","stream":true,"max_tokens":3"#));
    fed.fin(token);
    assert!(fed.closes.is_empty());
    fed.run(Nanos::from_secs(1));
    assert_eq!(responses(&fed.take(token))[0].text(), text(3));
    assert_eq!((fed.closes[0].2, fed.server.open()), (Close::Fin, 0));
    // Idle, or in the middle of a request: there is nothing to wait for.
    for start in [
        "",
        "POST /v1/comp",
        "POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n{",
    ] {
        let token = fed.accept();
        if !start.is_empty() {
            fed.feed(token, start.as_bytes());
        }
        fed.fin(token);
        assert_eq!(fed.server.open(), 0);
    }
}

#[test]
fn a_reader_that_does_not_read_is_owed_a_bounded_number_of_sends() {
    let config = with(|limits| limits.sends_queued_max = 4);
    let mut fed = Fed::new(&config);
    let (slow, quick) = (fed.accept(), fed.accept());
    fed.stuck = true;
    fed.feed(slow, &chat(r#","stream":true,"max_tokens":500"#));
    fed.run(Nanos::from_secs(1));
    assert_eq!(fed.unfinished.len(), 4);
    assert_eq!(fed.server.step(fed.now, &mut fed.commands), Nanos::MAX);
    // Nobody else is held up.
    let held = std::mem::take(&mut fed.unfinished);
    fed.stuck = false;
    fed.feed(quick, &chat(r#","max_tokens":2"#));
    fed.run(Nanos::from_secs(2));
    assert_eq!(responses(&fed.take(quick))[0].text(), text(2));
    // When it reads again it gets what became due meanwhile, in large writes, and then is on time.
    fed.unfinished = held;
    fed.unstick();
    let largest = fed
        .sent
        .iter()
        .map(|(_, _, bytes)| bytes.len())
        .max()
        .unwrap();
    let limit = config.limits.write_bytes_max;
    assert!(largest >= limit && largest < limit + 1_024, "{largest}");
    fed.run(Nanos::from_secs(9));
    assert_eq!(responses(&fed.take(slow))[0].text(), text(500));
}

#[test]
fn the_bytes_of_a_reader_that_does_not_read_are_bounded_too() {
    let mode = Mode::Model(PaceConfig::fixed(Nanos::ZERO, Nanos::ZERO));
    let config = ServerConfig {
        mode,
        ..with(|limits| limits.queued_bytes_max = 10_000)
    };
    let mut fed = Fed::new(&config);
    let token = fed.accept();
    fed.stuck = true;
    for _ in 0..20 {
        fed.feed(token, &chat(r#","stream":true,"max_tokens":500"#));
    }
    let queued: usize = fed.unfinished.iter().map(|(_, head, _)| head.len()).sum();
    assert!(
        queued < 10_000 + config.limits.write_bytes_max + 1_024,
        "{queued}"
    );
    fed.unstick();
    fed.run(fed.now + Nanos::from_secs(9));
    assert_eq!(responses(&fed.take(token)).len(), 20);
}

#[test]
fn prebuilt_answers_stop_at_the_same_limit() {
    let events_per_write = NonZeroU32::new(1);
    let config = ServerConfig {
        mode: Mode::Instant { events_per_write },
        ..with(|limits| limits.sends_queued_max = 8)
    };
    let mut fed = Fed::new(&config);
    let token = fed.accept();
    fed.stuck = true;
    for _ in 0..3 {
        fed.feed(token, &chat(r#","stream":true,"max_tokens":50"#));
    }
    assert_eq!(fed.unfinished.len(), 8);
    fed.unstick();
    let responses = responses(&fed.take(token));
    assert_eq!(responses.len(), 3);
    assert!(responses.iter().all(|response| response.text() == text(50)));
}
