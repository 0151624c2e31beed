//! Exchanges as they should be, and single ones that fail.

use bytes::Bytes;
use h2::Reason;
use http::{HeaderMap, Response};
use ridgeline_wire::http1::ContentKind;

use super::{Talk, Told};
use crate::{AbortKind, Limits, Refused};

fn whole(status: u16, content: ContentKind, body: &str) -> Told {
    Told {
        head: Some((status, content)),
        body: body.as_bytes().to_vec(),
        is_whole: true,
        abort: None,
    }
}

#[test]
fn a_request_and_its_answer_arrive_as_they_were_said() {
    let mut talk = Talk::usual();
    let stream = talk.ask("{\"a\":1}");
    talk.run();
    let asked = &mut talk.server.asked[0];
    assert!(asked.is_whole && asked.body == b"{\"a\":1}");
    let head = &asked.request;
    assert_eq!(
        head.uri().to_string(),
        "http://127.0.0.1:8000/v1/completions"
    );
    assert_eq!(head.headers()["authorization"], "Bearer sk-secret");
    assert_eq!(head.headers()["x-request-id"], "rl-0000000000000007");
    assert_eq!(head.headers()["content-length"], "7");
    asked.answer("application/json; charset=utf-8", "{}");
    talk.run();
    assert_eq!(talk.told(stream), &whole(200, ContentKind::Json, "{}"));
    assert_eq!(talk.client.active(), 0);
    assert_eq!(talk.client.counters().streams, 1);
    assert_eq!(talk.client.counters().receive_stalls, 0);
}

#[test]
fn streams_are_told_apart_however_they_are_interleaved() {
    let mut talk = Talk::usual();
    let streams = [talk.ask("a"), talk.ask("b"), talk.ask("c")];
    talk.run();
    let mut answers: Vec<_> = talk
        .server
        .asked
        .iter_mut()
        .map(|asked| asked.begin("text/event-stream"))
        .collect();
    for part in ["data: 1\n\n", "data: 2\n\n", "data: [DONE]\n\n"] {
        for answer in answers.iter_mut().rev() {
            answer
                .send_data(Bytes::from_static(part.as_bytes()), false)
                .unwrap();
        }
        talk.run();
    }
    for answer in &mut answers {
        answer.send_data(Bytes::new(), true).unwrap();
    }
    talk.run();
    let expected = "data: 1\n\ndata: 2\n\ndata: [DONE]\n\n";
    for stream in streams {
        assert_eq!(
            talk.told(stream),
            &whole(200, ContentKind::EventStream, expected)
        );
    }
    // Places are used again, numbers are not.
    let next = talk.ask("d");
    assert!(next.place < 3 && next.number == 7);
}

#[test]
fn interim_heads_are_passed_over_and_trailers_end_a_stream() {
    let mut talk = Talk::usual();
    let stream = talk.ask("");
    talk.run();
    let asked = &mut talk.server.asked[0];
    assert!(asked.is_whole, "no body ends with its head");
    let interim = Response::builder().status(103).body(()).unwrap();
    asked.reply.send_informational(interim).unwrap();
    talk.run();
    let mut answer = talk.server.asked[0].begin("");
    answer.send_data(Bytes::from_static(b"x"), false).unwrap();
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    answer.send_trailers(trailers).unwrap();
    talk.run();
    assert_eq!(talk.told(stream), &whole(200, ContentKind::Absent, "x"));
}

#[test]
fn an_answer_without_a_body_is_whole_with_its_head() {
    let mut talk = Talk::usual();
    let stream = talk.ask("a");
    talk.run();
    let response = Response::builder().status(204).body(()).unwrap();
    talk.server.asked[0]
        .reply
        .send_response(response, true)
        .unwrap();
    talk.run();
    assert_eq!(talk.told(stream), &whole(204, ContentKind::Absent, ""));
}

#[test]
fn a_refused_stream_was_not_processed_and_a_reset_one_may_have_been() {
    let mut talk = Talk::usual();
    let streams = [talk.ask("a"), talk.ask("b"), talk.ask("c"), talk.ask("d")];
    talk.run();
    let asked = &mut talk.server.asked;
    asked[0].reply.send_reset(Reason::REFUSED_STREAM);
    asked[1].reply.send_reset(Reason::INTERNAL_ERROR);
    asked[2].reply.send_reset(Reason::HTTP_1_1_REQUIRED);
    let mut answer = asked[3].begin("");
    answer.send_data(Bytes::from_static(b"x"), false).unwrap();
    talk.run();
    answer.send_reset(Reason::REFUSED_STREAM);
    talk.run();
    assert_eq!(talk.abort(streams[0]).0, AbortKind::Unprocessed);
    let (kind, message) = talk.abort(streams[1]);
    assert!(
        kind == AbortKind::Reset && message.contains("(code 2)"),
        "{message}"
    );
    let (kind, message) = talk.abort(streams[2]);
    assert!(
        kind == AbortKind::Reset && message.contains("--http 1.1"),
        "{message}"
    );
    assert_eq!(talk.abort(streams[3]).0, AbortKind::Reset, "it had begun");
    assert_eq!(talk.client.counters().unprocessed, 1);
    assert!(talk.client.is_open(), "the connection goes on");
}

#[test]
fn a_body_in_a_coding_that_was_not_asked_for_is_refused() {
    let mut talk = Talk::usual();
    let stream = talk.ask("a");
    talk.run();
    let response = Response::builder()
        .header("content-encoding", "identity, gzip")
        .body(())
        .unwrap();
    let mut answer = talk.server.asked[0]
        .reply
        .send_response(response, false)
        .unwrap();
    talk.run();
    assert_eq!(talk.abort(stream).0, AbortKind::Protocol);
    let reset = answer.poll_reset(&mut std::task::Context::from_waker(std::task::Waker::noop()));
    assert!(reset.is_ready(), "the server is told: {reset:?}");
}

#[test]
fn a_cancelled_stream_is_told_to_the_server_and_of_no_more() {
    let mut talk = Talk::usual();
    let streams = [talk.ask("a"), talk.ask("b")];
    talk.run();
    let mut answer = talk.server.asked[0].begin("text/event-stream");
    answer
        .send_data(Bytes::from_static(b"data: 1\n\n"), false)
        .unwrap();
    talk.run();
    // More is on its way when it is given up.
    answer
        .send_data(Bytes::from_static(b"data: 2\n\n"), false)
        .unwrap();
    let late = talk.server.hear(&[]);
    talk.client.cancel(streams[0]);
    talk.client.cancel(streams[0]);
    talk.client.received(&late);
    talk.run();
    let told = talk.told(streams[0]);
    assert!(told.body == b"data: 1\n\n" && !told.is_whole && told.abort.is_none());
    let mut cx = std::task::Context::from_waker(std::task::Waker::noop());
    assert!(matches!(
        answer.poll_reset(&mut cx),
        std::task::Poll::Ready(Ok(Reason::CANCEL))
    ));
    talk.server.asked[1].answer("", "b");
    talk.run();
    assert!(talk.told(streams[1]).is_whole);
    assert_eq!(talk.client.active(), 0);
}

#[test]
fn no_more_streams_are_begun_than_both_ends_allow() {
    let mut builder = h2::server::Builder::new();
    builder.max_concurrent_streams(2);
    let mut talk = Talk::new(&Limits::default(), &builder);
    assert_eq!(talk.client.room(), 2);
    talk.ask("a");
    talk.ask("b");
    assert_eq!(talk.client.room(), 0);
    let head = super::template().head(1, 0);
    let refused = talk.client.request(head, Bytes::new());
    assert_eq!(refused, Err(Refused::Full));
    talk.run();
    talk.server.asked[0].answer("", "a");
    talk.run();
    assert_eq!(talk.client.room(), 1);

    let own = Limits {
        streams_max: 3,
        ..Limits::default()
    };
    let talk = Talk::new(&own, &h2::server::Builder::new());
    assert_eq!(talk.client.room(), 3);
}

#[test]
fn only_one_request_is_sent_before_the_servers_settings_are_known() {
    let mut client = crate::Connection::new(&Limits::default());
    assert_eq!(client.room(), 1);
    client
        .request(super::template().head(1, 0), Bytes::new())
        .unwrap();
    assert_eq!(client.room(), 0);
    client.received(b"\0\0\0\x04\0\0\0\0\0");
    assert!(client.next().is_none());
    assert!(client.take_output(&mut Vec::new()));
    assert_eq!(client.room(), Limits::default().streams_max - 1);
}
