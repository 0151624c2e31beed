//! Outcomes of whole responses, one table for each concern. What the black-box cases cover is in
//! `tests/cases.rs`.

use super::*;

const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n";

/// How the connection ends after the bytes of a response.
#[derive(Clone, Copy, PartialEq)]
enum End {
    Open,
    Fin,
    Rst,
}

#[derive(Debug, PartialEq)]
struct Outcome {
    answer: Answer,
    saved: Saved,
    tokens: Vec<Option<u32>>,
    progress: Progress,
}

impl Observer for Vec<Option<u32>> {
    fn content(&mut self, event: ContentEvent) {
        self.push(event.tokens);
    }
}

fn limits() -> ExchangeLimits {
    ExchangeLimits {
        event_bytes_max: 4096,
        template_bytes_max: 1024,
        body_bytes_max: 4096,
    }
}

/// Each element of `reads` is a read; the first at 1 ns, the next at 2 ns, ...
fn play(streaming: bool, reads: &[&[u8]], end: End) -> Outcome {
    play_with(&mut Shared::new(1 << 16, 1 << 10), streaming, reads, end)
}

/// The same after the answers that `shared` has seen.
fn play_with(shared: &mut Shared, streaming: bool, reads: &[&[u8]], end: End) -> Outcome {
    let mut carry = Carry::new(64);
    let mut http = ResponseDecoder::new(4096);
    let mut exchange = Exchange::new(&limits());
    let mut tokens = Vec::new();
    exchange.begin(Asked {
        endpoint: EndpointType::Chat,
        streaming,
        save_text: true,
    });
    http.start();
    let mut progress = Progress::More;
    for (number, bytes) in reads.iter().enumerate() {
        let arrival = Arrival::reaped(Nanos(number as u64 + 1));
        progress = exchange.received(&mut http, &mut carry, shared, bytes, arrival, &mut tokens);
        if progress != Progress::More {
            break;
        }
    }
    if progress == Progress::More && end != End::Open {
        let arrival = Arrival::reaped(Nanos(99));
        exchange.ended(
            &mut http,
            &mut carry,
            shared,
            end == End::Fin,
            arrival,
            &mut tokens,
        );
        assert!(carry.is_empty());
    }
    let saved = *exchange.take_saved().expect("saved");
    Outcome {
        answer: exchange.answer().clone(),
        saved,
        tokens,
        progress,
    }
}

fn stream(body: &str) -> Outcome {
    play(true, &[HEAD.as_bytes(), body.as_bytes()], End::Fin)
}

fn reply(streaming: bool, head: &str, body: &str) -> Outcome {
    let length = body.len();
    let head = format!("HTTP/1.1 {head}\r\nContent-Length: {length}\r\n\r\n");
    play(streaming, &[head.as_bytes(), body.as_bytes()], End::Open)
}

fn failure(outcome: &Outcome) -> (Option<ErrorKind>, String) {
    let failure = outcome.answer.failure.clone();
    (
        failure.as_ref().map(|f| f.kind),
        failure.map(|f| f.message.into_owned()).unwrap_or_default(),
    )
}

#[track_caller]
fn fails(outcome: &Outcome, kind: ErrorKind, message: &str) {
    assert_eq!(failure(outcome), (Some(kind), message.to_owned()));
}

const STOP: &str = "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n";

fn token(text: &str) -> String {
    format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}]}}\n\n")
}

fn counted(text: &str, total: &str) -> String {
    let usage = format!("{{\"prompt_tokens\":5,\"completion_tokens\":{total}}}");
    format!(
        "data: {{\"choices\":[{{\"delta\":{{\"content\":\"{text}\"}}}}],\"usage\":{usage}}}\n\n"
    )
}

#[test]
fn a_stream_without_end_is_not_saved_without_end() {
    let calls = |index: u32| {
        format!(
            "data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":{index},\
             \"function\":{{\"arguments\":\"{}\"}}}}]}}}}]}}\n\n",
            "a".repeat(90)
        )
    };
    for event in [
        &(|_| token(&"x".repeat(100))) as &dyn Fn(u32) -> String,
        &|_| token(&"x".repeat(100)).replace("content", "reasoning"),
        &calls,
    ] {
        let events: Vec<String> = (0..99).map(event).collect();
        let mut reads = vec![HEAD.as_bytes()];
        reads.extend(events.iter().map(String::as_bytes));
        let outcome = play(true, &reads, End::Open);
        fails(
            &outcome,
            ErrorKind::Oversize,
            "the text to be saved is beyond its limit",
        );
        assert_eq!(outcome.progress, Progress::Done { reusable: false });
        assert!(outcome.saved.bytes() <= 4096 + 200);
        assert!((15..=41).contains(&outcome.tokens.len()));
    }
}

#[test]
fn messages_say_what_was_wrong() {
    fails(
        &stream(&(token("a") + "data: {\"choices\":[{\"delta\":{\"content\":\"b}}]}\n\n")),
        ErrorKind::Json,
        "event 2 is not JSON: the JSON ends inside a string at byte 38; \
         it is: {\"choices\":[{\"delta\":{\"content\":\"b}}]}",
    );
    fails(
        &stream("data: {\"error\":{\"message\":\"engine is\\noverloaded\"}}\n\n"),
        ErrorKind::InBand,
        "engine is overloaded",
    );
    fails(
        &stream("event: error\ndata: no JSON\n\n"),
        ErrorKind::InBand,
        "no JSON",
    );
    fails(
        &reply(
            true,
            "429 Too Many Requests",
            "{\"error\":{\"message\":\"rate limit\"}}",
        ),
        ErrorKind::HttpStatus,
        "HTTP status 429: rate limit",
    );
    fails(
        &reply(true, "503 Service Unavailable", ""),
        ErrorKind::HttpStatus,
        "HTTP status 503",
    );
    fails(
        &reply(
            true,
            "200 OK\r\nContent-Type: text/html",
            "<html>\n<body>Sign in",
        ),
        ErrorKind::SseProtocol,
        "the body is not an event stream: <html> <body>Sign in",
    );
    fails(
        &reply(false, "200 OK\r\nContent-Type: text/html", "<html>"),
        ErrorKind::Json,
        "the body is not JSON: expected a value at byte 0; it is: <html>",
    );
    fails(
        &stream(STOP),
        ErrorKind::Empty,
        "the answer is complete, but nothing was generated",
    );
    fails(
        &stream(&token("a")),
        ErrorKind::Truncated,
        "the stream ended without [DONE] and without a finish_reason",
    );
    let long = "x".repeat(5_000);
    fails(
        &stream(&format!("data: {long}")),
        ErrorKind::Oversize,
        "an event or a line of the event stream beyond its limit",
    );
}

#[test]
fn an_end_of_the_connection_is_reset_or_truncated() {
    let cases: [(&[&[u8]], End, ErrorKind, &str); 5] = [
        (
            &[],
            End::Fin,
            ErrorKind::Reset,
            "the server closed the connection before any byte of the response",
        ),
        (
            &[],
            End::Rst,
            ErrorKind::Reset,
            "the connection was reset before any byte of the response",
        ),
        (
            &[b"HTTP/1.1 2"],
            End::Fin,
            ErrorKind::Truncated,
            "the server closed the connection inside the response's head",
        ),
        (
            &[HEAD.as_bytes()],
            End::Rst,
            ErrorKind::Truncated,
            "the connection was reset inside the response's body",
        ),
        (
            &[HEAD.as_bytes(), b"data: [DONE]\n\n"],
            End::Rst,
            ErrorKind::Truncated,
            "the connection was reset inside the response's body",
        ),
    ];
    for (reads, end, kind, message) in cases {
        let outcome = play(true, reads, end);
        fails(&outcome, kind, message);
        assert_eq!(
            outcome.answer.first_byte,
            (!reads.is_empty()).then_some(Nanos(1))
        );
        assert_eq!(outcome.answer.done, Some(Nanos(99)));
    }
}

#[test]
fn the_first_failure_stays() {
    let outcome = stream("data: {\n\ndata: {\"error\":1}\n\n");
    assert_eq!(failure(&outcome).0, Some(ErrorKind::Json));
    // Status, then a body that is cut.
    let head = b"HTTP/1.1 500 No\r\nContent-Length: 99\r\n\r\n{\"error\":\"cut";
    fails(
        &play(true, &[head], End::Rst),
        ErrorKind::HttpStatus,
        "HTTP status 500: {\"error\":\"cut",
    );
    // An error, then a deadline.
    let mut exchange = Exchange::new(&limits());
    exchange.begin(Asked {
        endpoint: EndpointType::Chat,
        streaming: true,
        save_text: false,
    });
    exchange.fail(ErrorKind::Connect, "refused", Nanos(3));
    exchange.fail(ErrorKind::Timeout, "late", Nanos(4));
    let answer = exchange.answer();
    assert_eq!(
        answer.failure.as_ref().map(|f| f.kind),
        Some(ErrorKind::Connect)
    );
    assert_eq!(answer.done, Some(Nanos(3)));
    assert!(exchange.take_saved().is_none());
}

#[test]
fn a_failure_inside_intact_framing_leaves_the_connection_reusable() {
    let done = |reusable| Progress::Done { reusable };
    let body = "data: {\"error\":\"x\"}\n\n";
    let head = "200 OK\r\nContent-Type: text/event-stream";
    assert_eq!(reply(true, head, body).progress, done(true));
    assert_eq!(reply(true, "500 No", "{}").progress, done(true));
    assert_eq!(reply(true, head, "data: {\n\n").progress, done(true));
    let extra = b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\nHTTP";
    assert_eq!(play(true, &[extra], End::Open).progress, done(false));
    let bad = b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n";
    assert_eq!(play(true, &[bad], End::Open).progress, done(false));
    let long = format!("data: {}", "x".repeat(5_000));
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", long.len());
    assert_eq!(
        play(true, &[head.as_bytes(), long.as_bytes()], End::Open).progress,
        done(false)
    );
}

#[test]
fn bodies_without_a_telling_type_are_told_by_their_first_byte() {
    let events = token("a") + STOP;
    let json = "{\"choices\":[{\"message\":{\"content\":\"a\"}}]}";
    for head in ["200 OK", "200 OK\r\nContent-Type: text/plain"] {
        for streaming in [true, false] {
            for (body, streamed) in [(events.as_str(), true), (json, false)] {
                let outcome = reply(streaming, head, body);
                assert_eq!(failure(&outcome).0, None, "{head} {streaming} {body}");
                assert_eq!(outcome.answer.streamed, streamed);
                assert_eq!(outcome.saved.text, "a");
                assert_eq!(outcome.answer.content_events, 1);
            }
        }
        assert_eq!(
            failure(&reply(true, head, "upstream gone")).0,
            Some(ErrorKind::SseProtocol)
        );
        assert_eq!(
            failure(&reply(false, head, "error: gone")).0,
            Some(ErrorKind::Json)
        );
        assert_eq!(
            failure(&reply(true, head, "")).0,
            Some(ErrorKind::Truncated)
        );
        assert_eq!(failure(&reply(false, head, "")).0, Some(ErrorKind::Json));
    }
    let declared = "200 OK\r\nContent-Type: application/json";
    assert_eq!(
        failure(&reply(true, declared, "")).0,
        Some(ErrorKind::Truncated)
    );
    assert_eq!(
        failure(&reply(true, declared, &events)).0,
        Some(ErrorKind::Json)
    );
}

#[test]
fn a_body_beyond_its_limit_is_oversize_and_one_at_the_limit_is_not() {
    let head = "200 OK\r\nContent-Type: application/json";
    let body = |bytes: usize| {
        let json = "{\"choices\":[{\"text\":\"\",\"message\":{\"content\":\"a\"}}]}";
        format!("{json}{}", " ".repeat(bytes - json.len()))
    };
    // In two reads, so that it has to be kept.
    let cut = |bytes: usize| {
        let head = format!("HTTP/1.1 {head}\r\nContent-Length: {bytes}\r\n\r\n");
        let body = body(bytes);
        let (first, second) = body.split_at(100);
        play(
            false,
            &[head.as_bytes(), first.as_bytes(), second.as_bytes()],
            End::Open,
        )
    };
    assert_eq!(failure(&cut(4096)).0, None);
    fails(
        &cut(4097),
        ErrorKind::Oversize,
        "the JSON body is beyond its limit",
    );
}

#[test]
fn running_usage_tells_the_tokens_of_each_event() {
    let body = counted("a", "1") + &counted("bc", "3") + &counted("d", "4") + STOP;
    let outcome = stream(&body);
    assert_eq!(outcome.tokens, [Some(1), Some(2), Some(1)]);
    assert_eq!(outcome.answer.first_event_tokens, Some(1));
    // Only the last event has usage: it is not the tokens of that event.
    let outcome = stream(&(token("a") + &counted("b", "7") + STOP));
    assert_eq!(outcome.tokens, [None, None]);
    assert_eq!(
        outcome.answer.usage.and_then(|usage| usage.output_tokens),
        Some(7)
    );
    // A plain answer is one event with all tokens.
    let json =
        "{\"choices\":[{\"message\":{\"content\":\"a\"}}],\"usage\":{\"completion_tokens\":9}}";
    let outcome = reply(false, "200 OK", json);
    assert_eq!(outcome.tokens, [Some(9)]);
}

#[test]
fn times_are_those_of_the_reads_that_completed_the_events() {
    let reasoning = "data: {\"choices\":[{\"delta\":{\"reasoning\":\"r\"}}]}\n\n";
    let (first, second) = reasoning.split_at(20);
    let (a, b) = (token("a"), token("b"));
    let reads = [
        "HTTP/1.1 100 Continue\r\n\r\n",
        HEAD,
        first,
        second,
        &a,
        &b,
        STOP,
    ];
    let reads = reads.map(str::as_bytes);
    let answer = play(true, &reads, End::Fin).answer;
    assert_eq!(answer.failure, None);
    assert_eq!(answer.first_byte, Some(Nanos(1)));
    assert_eq!(answer.first_token, Some(Nanos(4)));
    assert_eq!(answer.first_output, Some(Nanos(5)));
    assert_eq!(answer.last_token, Some(Nanos(6)));
    assert_eq!(answer.done, Some(Nanos(99)));
    let bytes: usize = reads.iter().map(|read| read.len()).sum();
    assert_eq!(answer.received_bytes, bytes as u64);
}

#[test]
fn a_tool_call_may_begin_without_a_word() {
    let call = |index, arguments| {
        let function = format!("{{\"arguments\":\"{arguments}\"}}");
        let calls = format!("[{{\"index\":{index},\"function\":{function}}}]");
        format!("data: {{\"choices\":[{{\"delta\":{{\"tool_calls\":{calls}}}}}]}}\n\n")
    };
    let outcome = stream(&(call(1, "") + &call(0, "x") + STOP));
    assert_eq!(outcome.answer.content_events, 1);
    let arguments = outcome
        .saved
        .tool_calls
        .into_vec()
        .into_iter()
        .map(|call| call.arguments);
    assert_eq!(arguments.collect::<Vec<_>>(), ["x", ""]);
}

#[test]
fn an_exchange_forgets_the_answer_before() {
    let (mut carry, mut shared) = (Carry::new(64), Shared::new(1 << 16, 1 << 10));
    let mut http = ResponseDecoder::new(4096);
    let mut exchange = Exchange::new(&limits());
    let mut answers = Vec::new();
    for _ in 0..2 {
        let body = token("a") + &token("b") + STOP;
        let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n", body.len());
        exchange.begin(Asked {
            endpoint: EndpointType::Chat,
            streaming: true,
            save_text: false,
        });
        http.start();
        let (arrival, bytes) = (Arrival::reaped(Nanos(1)), (head + &body).into_bytes());
        let progress =
            exchange.received(&mut http, &mut carry, &mut shared, &bytes, arrival, &mut ());
        assert_eq!(progress, Progress::Done { reusable: true });
        answers.push(exchange.answer().clone());
    }
    assert_eq!(answers[0].content_events, 2);
    assert_eq!(answers[0], answers[1]);
}

#[test]
fn an_answer_means_the_same_whatever_answers_came_before() {
    let plain = |text: &str, reason: &str, tokens: u32| {
        format!(
            "{{\"id\":\"{text}\",\"choices\":[{{\"message\":{{\"content\":\"{text}\"}},\
             \"finish_reason\":{reason}}}],\"usage\":{{\"completion_tokens\":{tokens}}}}}"
        )
    };
    let bodies = [
        plain("a", "\"stop\"", 1),
        plain("another \\u00e9 text", "\"length\"", 12),
        plain("", "\"stop\"", 0),
        plain("", "\"stop\"", 3),
        plain("a", "null", 1),
        plain("b", "\"stop\"", 1).replace("content", "reasoning"),
        plain("b", "\"stop\"", 1).replace("content", "error"),
        plain("b", "\"stop\"", 1).replace("}}", ""),
        "{\"error\":{\"message\":\"m\"}}".to_owned(),
        token("a") + STOP,
    ];
    let responses: Vec<String> = bodies
        .iter()
        .flat_map(|body| [(body, "200 OK"), (body, "500 No")])
        .map(|(body, status)| {
            let length = body.len();
            format!("HTTP/1.1 {status}\r\nContent-Length: {length}\r\n\r\n{body}")
        })
        .collect();
    let mut shared = Shared::new(1 << 16, 1 << 10);
    for before in &responses {
        for response in &responses {
            // Twice, so that the one before is what is compared with.
            for _ in 0..2 {
                let _ = play_with(&mut shared, false, &[before.as_bytes()], End::Open);
            }
            let (head, body) = response.split_at(response.len() - 9);
            for reads in [&[response.as_str()][..], &[head, body]] {
                let reads: Vec<&[u8]> = reads.iter().map(|read| read.as_bytes()).collect();
                let outcome = play_with(&mut shared, false, &reads, End::Open);
                assert_eq!(
                    outcome,
                    play(false, &reads, End::Open),
                    "{response} after {before}"
                );
            }
        }
    }
}
