//! Dialects, and how they are chosen.

use ridgeline_clock::Nanos;
use ridgeline_mock_server::{Dialect, Mode, ServerConfig, text};
use ridgeline_net::Close;

use crate::fed::{Fed, post};

const BODY: &str = r#"{"prompt":"one two","max_tokens":3,"stream":true}"#;

fn asking(dialect: &str) -> Vec<u8> {
    post(
        "/v1/completions",
        &format!("X-Mock-Dialect: {dialect}\r\n"),
        BODY,
    )
}

/// Everything that is sent within an hour, as text.
fn said(fed: &mut Fed, request: &[u8]) -> String {
    let token = fed.accept();
    fed.feed(token, request);
    fed.run(fed.now + Nanos::from_secs(3_600));
    String::from_utf8(fed.take(token)).unwrap()
}

fn both(test: impl Fn(ServerConfig)) {
    let mode = Mode::Instant {
        events_per_write: None,
    };
    test(ServerConfig {
        mode,
        ..ServerConfig::default()
    });
    test(ServerConfig::default());
}

#[test]
fn a_request_names_its_dialect_and_the_server_has_one_for_the_rest() {
    both(|config| {
        let mut fed = Fed::new(&ServerConfig {
            dialect: Dialect::CrOnly,
            ..config
        });
        assert!(said(&mut fed, &post("/v1/completions", "", BODY)).contains("}\r\r"));
        assert!(said(&mut fed, &asking("no-space")).contains("data:{"));
        assert!(said(&mut fed, &asking("vllm")).contains("data: {"));
        // The same body again, on one connection, in one dialect after the other.
        let both = [asking("http10"), asking("vllm")].concat();
        let answered = said(&mut fed, &both);
        assert!(answered.starts_with("HTTP/1.0 200 OK\r\n"));
        assert_eq!(
            answered.matches("[DONE]").count(),
            1,
            "the connection ended with it"
        );
        let both = [asking("no-space"), asking("vllm")].concat();
        let answered = said(&mut fed, &both);
        assert_eq!(
            (
                answered.matches("data:[DONE]").count(),
                answered.matches("data: [DONE]").count()
            ),
            (1, 1)
        );
    });
}

#[test]
fn a_name_that_is_none_is_refused() {
    both(|config| {
        let mut fed = Fed::new(&config);
        let answered = said(&mut fed, &asking("klingon"));
        assert!(answered.starts_with("HTTP/1.1 400 "), "{answered}");
        assert!(answered.contains("X-Mock-Dialect"));
        assert_eq!(fed.server.served().requests_refused, 1);
    });
}

#[test]
fn a_buffered_stream_comes_in_one_piece_when_it_is_over() {
    both(|config| {
        let mut fed = Fed::new(&config);
        let token = fed.accept();
        fed.feed(token, &asking("buffered"));
        if let Mode::Model(_) = config.mode {
            // 20 ms to the first token, and twice 5 ms.
            fed.run(Nanos::from_millis(30) - Nanos(1));
            assert_eq!(fed.take(token), b"");
            fed.run(Nanos::from_millis(30));
        }
        assert_eq!(fed.sent.len(), 1);
        let answered = String::from_utf8(fed.take(token)).unwrap();
        let (head, body) = answered.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())));
        assert!(head.contains("text/event-stream"));
        assert!(body.ends_with("data: [DONE]\n\n"));
        assert!(fed.closes.is_empty());
    });
}

#[test]
fn what_comes_before_any_token_comes_with_the_head() {
    let mut fed = Fed::new(&ServerConfig::default());
    let token = fed.accept();
    fed.feed(token, &asking("openrouter"));
    let answered = String::from_utf8(fed.take(token)).unwrap();
    assert!(answered.contains(": OPENROUTER PROCESSING\n\n"));
    assert!(!answered.contains("data:"));
    fed.feed(token, &asking("azure"));
    fed.run(Nanos::from_secs(1));
    let answered = String::from_utf8(fed.take(token)).unwrap();
    assert!(answered.contains("prompt_filter_results"));
}

#[test]
fn a_dialect_that_closes_closes() {
    both(|config| {
        for dialect in ["connection-close", "close-delimited", "http10"] {
            let mut fed = Fed::new(&config);
            let answered = said(&mut fed, &asking(dialect));
            assert!(answered.contains("connection: close\r\n"), "{answered}");
            assert_eq!(fed.closes.last().map(|(_, _, how)| *how), Some(Close::Fin));
        }
    });
}

#[test]
fn replies_of_the_other_kind_are_whole() {
    both(|config| {
        let mut fed = Fed::new(&config);
        let answered = said(&mut fed, &asking("json-reply"));
        assert!(answered.contains("content-type: application/json\r\n"));
        assert!(answered.contains(&format!(r#""text":"{}""#, text(3))));
        let plain = post(
            "/v1/completions",
            "X-Mock-Dialect: sse-reply\r\n",
            r#"{"prompt":"x","max_tokens":3}"#,
        );
        let answered = said(&mut fed, &plain);
        assert!(answered.contains("content-type: text/event-stream"));
        assert!(answered.contains(r#""usage":{"prompt_tokens":1,"completion_tokens":3"#));
    });
}

#[test]
fn chunks_of_writes_hold_the_events_of_writes() {
    let mut fed = Fed::new(&ServerConfig {
        mode: Mode::Instant {
            events_per_write: std::num::NonZeroU32::new(2),
        },
        ..ServerConfig::default()
    });
    let token = fed.accept();
    fed.feed(token, &asking("shared-chunks"));
    // 3 tokens, the reason, [DONE].
    let events: Vec<usize> = fed
        .sent
        .iter()
        .map(|(_, _, bytes)| bytes.windows(6).filter(|six| six == b"data: ").count())
        .collect();
    assert_eq!(events, [2, 2, 1]);
    let answered = String::from_utf8(fed.take(token)).unwrap();
    let (_, body) = answered.split_once("\r\n\r\n").unwrap();
    // Three chunks, and the last.
    let ends = body.matches("\n\n\r\n").count();
    assert_eq!((ends, body.ends_with("\r\n0\r\n\r\n")), (3, true));
}
