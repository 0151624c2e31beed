//! What is answered.

use std::num::NonZeroU32;

use ridgeline_clock::Nanos;
use ridgeline_mock_server::{Mode, ServerConfig, text};
use ridgeline_net::Close;
use serde_json::json;

use crate::fed::{Fed, Response, chat, post, responses};

fn instant() -> ServerConfig {
    ServerConfig {
        mode: Mode::Instant {
            events_per_write: None,
        },
        ..ServerConfig::default()
    }
}

fn modelled() -> ServerConfig {
    ServerConfig::default()
}

/// Both modes give the same answers, but for id and time.
fn both(test: impl Fn(ServerConfig)) {
    test(instant());
    test(modelled());
}

fn exchange(config: &ServerConfig, request: &[u8]) -> (Response, Fed) {
    let mut fed = Fed::new(config);
    let token = fed.accept();
    fed.feed(token, request);
    fed.run(Nanos::from_secs(3_600));
    let bytes = fed.take(token);
    let mut responses = responses(&bytes);
    assert_eq!(responses.len(), 1);
    (responses.remove(0), fed)
}

#[test]
fn a_stream_has_role_one_event_per_token_finish_and_done() {
    both(|config| {
        let (response, fed) = exchange(&config, &chat(r#","stream":true,"max_tokens":5"#));
        assert_eq!(response.status, 200);
        assert!(
            response
                .head
                .contains("\r\ncontent-type: text/event-stream; charset=utf-8\r\n")
        );
        assert_eq!(response.events().len(), 1 + 5 + 1 + 1);
        assert!(response.events()[0].contains(r#""role":"assistant""#));
        assert!(response.events()[6].contains(r#""finish_reason":"length""#));
        assert!(!response.body.contains("usage"));
        assert_eq!(response.text(), text(5));
        assert_eq!(fed.server.served().tokens, 5);
        assert_eq!(fed.server.open(), 1);
    });
}

#[test]
fn the_usage_event_comes_when_asked_for() {
    both(|config| {
        let fields = r#","stream":true,"max_tokens":5,"stream_options":{"include_usage":true}"#;
        let (response, _) = exchange(&config, &chat(fields));
        let events = response.events();
        let usage: serde_json::Value = serde_json::from_str(events[events.len() - 2]).unwrap();
        assert_eq!(usage["choices"], json!([]));
        assert_eq!(
            usage["usage"],
            json!({"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8})
        );
    });
}

#[test]
fn a_whole_answer_has_text_usage_and_the_asked_model() {
    both(|config| {
        let (response, _) = exchange(&config, &chat(r#","model":"a/b \"c\"""#));
        assert!(
            response
                .head
                .contains("\r\ncontent-type: application/json\r\n")
        );
        assert_eq!(response.text(), text(64));
        let body = response.json();
        assert_eq!(body["model"], "a/b \"c\"");
        assert_eq!(body["object"], "chat.completion");
        assert_eq!(body["created"], 1_700_000_000);
        assert_eq!(body["choices"][0]["finish_reason"], "stop");
        assert_eq!(
            body["usage"],
            json!({"prompt_tokens": 3, "completion_tokens": 64, "total_tokens": 67})
        );
    });
}

#[test]
fn completions_are_streamed_and_whole() {
    both(|config| {
        let body = r#"{"prompt":"one two","max_tokens":3,"stream":true}"#;
        let (response, _) = exchange(&config, &post("/v1/completions", "", body));
        let joined: String = response.events()[..3]
            .iter()
            .map(|event| serde_json::from_str::<serde_json::Value>(event).unwrap())
            .map(|event| event["choices"][0]["text"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(joined, text(3));
        let body = r#"{"prompt":[1,2,3],"max_tokens":2}"#;
        let (response, _) = exchange(&config, &post("/v1/completions", "", body));
        assert_eq!(response.json()["choices"][0]["text"], text(2));
        assert_eq!(response.json()["usage"]["prompt_tokens"], 3);
    });
}

#[test]
fn models_and_health() {
    let config = ServerConfig {
        model: "served".to_owned(),
        ..instant()
    };
    let (response, _) = exchange(&config, b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(response.json()["data"][0]["id"], "served");
    let (response, _) = exchange(&config, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!((response.status, response.body.as_str()), (200, ""));
    let (response, _) = exchange(&config, &chat(""));
    assert_eq!(response.json()["model"], "served");
}

#[test]
fn errors_are_objects_and_keep_the_connection() {
    both(|config| {
        for (request, status) in [
            (b"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(), 404),
            (
                b"DELETE /v1/models HTTP/1.1\r\nHost: x\r\n\r\n".to_vec(),
                405,
            ),
            (post("/health", "", "x"), 405),
            (post("/v1/chat/completions", "", "{"), 400),
            (post("/v1/chat/completions", "", ""), 400),
            (post("/v1/completions", "", r#"{"prompt":["a","b"]}"#), 400),
            (chat(r#","n":0"#), 400),
        ] {
            let (response, mut fed) = exchange(&config, &request);
            assert_eq!(response.status, status);
            let error = &response.json()["error"];
            assert_eq!(error["code"] == "method_not_supported", status == 405);
            assert_eq!(error["type"], "invalid_request_error");
            assert!(
                error["message"]
                    .as_str()
                    .is_some_and(|message| !message.is_empty())
            );
            assert!(!response.head.contains("connection:"));
            assert_eq!(response.head.contains("allow: "), status == 405);
            // The same connection goes on.
            let token = fed.server.open();
            assert_eq!((token, fed.closes.len()), (1, 0));
            assert_eq!(fed.server.served().requests_refused, 1);
            let again = fed.accept();
            fed.feed(again, &chat(""));
            fed.run(fed.now + Nanos::from_secs(9));
            assert_eq!(responses(&fed.take(again))[0].status, 200);
        }
    });
}

#[test]
fn a_request_may_come_in_any_two_pieces_and_byte_by_byte() {
    let mut request = chat(r#","stream":true,"max_tokens":2"#);
    request.extend(post(
        "/v1/completions",
        "X-Request-Id: r-2\r\n",
        r#"{"prompt":"x"}"#,
    ));
    request
        .extend(b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n");
    request.extend(b"5\r\n{\"pro\r\n9\r\nmpt\":\"x\"}\r\n0\r\n\r\n");
    request.extend(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
    let whole = feed_pieces(&[&request]);
    let statuses: Vec<_> = responses(&whole)
        .iter()
        .map(|response| response.status)
        .collect();
    assert_eq!(statuses, [200; 4]);
    for place in 1..request.len() {
        let (a, b) = request.split_at(place);
        assert_eq!(feed_pieces(&[a, b]), whole, "{place}");
    }
    let bytes: Vec<_> = request.chunks(1).collect();
    assert_eq!(feed_pieces(&bytes), whole);
}

fn feed_pieces(pieces: &[&[u8]]) -> Vec<u8> {
    let mut fed = Fed::new(&instant());
    let token = fed.accept();
    for piece in pieces {
        fed.feed(token, piece);
    }
    fed.take(token)
}

#[test]
fn pipelined_requests_are_answered_in_order() {
    both(|config| {
        let mut fed = Fed::new(&config);
        let token = fed.accept();
        let mut requests = Vec::new();
        for tokens in [9, 1, 5] {
            requests.extend(chat(&format!(r#","stream":true,"max_tokens":{tokens}"#)));
            requests.extend(chat(&format!(r#","max_tokens":{tokens}"#)));
            requests.extend(b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
        }
        fed.feed(token, &requests);
        fed.run(Nanos::from_secs(9));
        let responses = responses(&fed.take(token));
        assert_eq!(responses.len(), 9);
        for (three, tokens) in responses.chunks(3).zip([9, 1, 5]) {
            assert_eq!(three[0].text(), text(tokens));
            assert_eq!(three[1].text(), text(tokens));
            assert_eq!(three[2].body, "");
        }
        assert_eq!(fed.server.served().answers, 9);
    });
}

#[test]
fn the_request_id_is_echoed_and_is_the_id_of_a_modelled_answer() {
    let body = r#"{"prompt":"x"}"#;
    both(|config| {
        let request = post("/v1/completions", "X-Request-ID: abc-1\r\n", body);
        let (response, _) = exchange(&config, &request);
        assert!(response.head.contains("\r\nx-request-id: abc-1"));
        let id = response.json()["id"].as_str().unwrap().to_owned();
        assert_eq!(id == "cmpl-abc-1", config.mode != instant().mode);
        let request = post("/v1/completions", "X-Request-ID: a\"b\r\n", body);
        let (response, _) = exchange(&config, &request);
        assert!(response.head.contains("\r\nx-request-id: a\"b"));
        assert_eq!(response.json()["id"], "cmpl-0000000000000001");
        let long = format!("X-Request-ID: {}\r\n", "x".repeat(129));
        let (response, _) = exchange(&config, &post("/v1/completions", &long, body));
        assert!(!response.head.contains("x-request-id"));
    });
}

#[test]
fn close_and_http_1_0_end_the_connection_after_the_answer() {
    both(|config| {
        let body = r#"{"prompt":"x","max_tokens":2,"stream":true}"#;
        let request = post("/v1/completions", "Connection: close\r\n", body);
        let (response, fed) = exchange(&config, &request);
        assert!(response.head.contains("\r\nconnection: close"));
        assert_eq!((fed.closes[0].2, fed.server.open()), (Close::Fin, 0));

        let old = |fields: &str, body: &str| {
            let length = body.len();
            let head = format!("POST /v1/completions HTTP/1.0\r\nContent-Length: {length}\r\n");
            format!("{head}{fields}\r\n{body}").into_bytes()
        };
        // No chunks for HTTP/1.0: a stream ends with its connection, whatever was asked for.
        let (response, fed) = exchange(&config, &old("Connection: keep-alive\r\n", body));
        assert!(response.head.contains("\r\nconnection: close"));
        assert!(!response.head.contains("chunked"));
        assert_eq!(response.events().len(), 2 + 1 + 1);
        assert_eq!((fed.closes[0].2, fed.server.open()), (Close::Fin, 0));

        let whole = r#"{"prompt":"x","max_tokens":2}"#;
        let (response, fed) = exchange(&config, &old("Connection: keep-alive\r\n", whole));
        assert!(response.head.contains("\r\nconnection: keep-alive"));
        assert_eq!((fed.closes.len(), fed.server.open()), (0, 1));
        let (response, fed) = exchange(&config, &old("", whole));
        assert!(response.head.contains("\r\nconnection: close"));
        assert_eq!((fed.closes[0].2, fed.server.open()), (Close::Fin, 0));
    });
}

#[test]
fn what_follows_a_last_request_is_not_answered() {
    let mut requests = post(
        "/v1/completions",
        "Connection: close\r\n",
        r#"{"prompt":"x"}"#,
    );
    requests.extend(chat(""));
    let (_, fed) = exchange(&modelled(), &requests);
    assert_eq!(
        (fed.server.served().requests, fed.server.served().answers),
        (1, 1)
    );
}

#[test]
fn expect_is_answered_when_the_body_is_waited_for() {
    let body = r#"{"prompt":"x","max_tokens":1}"#;
    let request = post("/v1/completions", "Expect: 100-continue\r\n", body);
    let (head, rest) = request.split_at(request.len() - body.len());
    let mut fed = Fed::new(&instant());
    let token = fed.accept();
    // The body comes along: nobody waits.
    fed.feed(token, &request);
    assert_eq!(responses(&fed.take(token)).len(), 1);
    // It does not.
    fed.feed(token, head);
    assert_eq!(fed.take(token), b"HTTP/1.1 100 Continue\r\n\r\n");
    fed.feed(token, &rest[..4]);
    fed.feed(token, &rest[4..]);
    assert_eq!(responses(&fed.take(token))[0].status, 200);
    // A part of it comes along: the rest will too.
    fed.feed(token, &[head, &rest[..4]].concat());
    assert!(fed.take(token).is_empty());
    fed.feed(token, &rest[4..]);
    assert_eq!(responses(&fed.take(token)).len(), 1);
    // Not before the answer to an earlier request.
    let mut fed = Fed::new(&modelled());
    let token = fed.accept();
    fed.feed(token, &[&chat(""), head].concat());
    assert!(fed.take(token).is_empty());
    fed.run(Nanos::from_secs(1));
    let statuses: Vec<_> = responses(&fed.take(token))
        .iter()
        .map(|response| response.status)
        .collect();
    assert_eq!(statuses, [200, 100]);
}

#[test]
fn events_per_write_is_how_many_events_share_a_send() {
    let mode = Mode::Instant {
        events_per_write: NonZeroU32::new(2),
    };
    let mut fed = Fed::new(&ServerConfig { mode, ..instant() });
    let token = fed.accept();
    fed.feed(token, &chat(r#","stream":true,"max_tokens":5"#));
    let counts: Vec<_> = fed
        .sent
        .iter()
        .map(|(_, _, bytes)| String::from_utf8_lossy(bytes).matches("data: ").count())
        .collect();
    assert_eq!(counts, [2, 2, 2, 2]);
    assert_eq!(responses(&fed.take(token))[0].text(), text(5));
}

#[test]
fn a_repeated_body_is_known_and_a_changed_one_is_not_mistaken_for_it() {
    both(|config| {
        let mut fed = Fed::new(&config);
        let token = fed.accept();
        for tokens in [3, 3, 4, 3] {
            fed.feed(token, &chat(&format!(r#","max_tokens":{tokens}"#)));
            fed.run(fed.now + Nanos::from_secs(1));
            assert_eq!(responses(&fed.take(token))[0].text(), text(tokens));
        }
        // The same body means something else at another path.
        let body = r#"{"prompt":"x","messages":[{"role":"user","content":"x"}]}"#;
        for (path, object) in [
            ("/v1/completions", "text_completion"),
            ("/v1/chat/completions", "chat.completion"),
        ] {
            fed.feed(token, &post(path, "", body));
            fed.run(fed.now + Nanos::from_secs(1));
            assert_eq!(responses(&fed.take(token))[0].json()["object"], object);
        }
    });
}
