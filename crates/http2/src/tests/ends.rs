//! How connections end.

use bytes::Bytes;
use h2::Reason;

use super::{Log, Talk, listen, template};
use crate::{AbortKind, Connection, Limits, Refused};

/// A client that has heard settings, and asked three times.
fn asking() -> Connection {
    let mut client = Connection::new(&Limits::default());
    client.received(b"\0\0\0\x04\0\0\0\0\0");
    assert!(client.next().is_none());
    client.take_output(&mut Vec::new());
    for index in 0..3 {
        client
            .request(template().head(index, 0), Bytes::new())
            .unwrap();
    }
    client.take_output(&mut Vec::new());
    client
}

#[test]
fn streams_above_the_last_of_a_goaway_were_not_processed_and_the_others_go_on() {
    let mut client = asking();
    let mut log = Log::new();
    // Last stream 3, no error.
    client.received(b"\0\0\x08\x07\0\0\0\0\0\0\0\0\x03\0\0\0\0");
    listen(&mut client, &mut log);
    assert_eq!(log[&5].abort.as_ref().unwrap().0, AbortKind::Unprocessed);
    assert!(!log.contains_key(&1) && !log.contains_key(&3));
    assert_eq!(client.counters().unprocessed, 1);
    assert!(!client.is_open() && client.room() == 0);
    let refused = client.request(template().head(9, 0), Bytes::new());
    assert_eq!(refused, Err(Refused::Closing));
    // The two that are left are answered.
    for number in [1, 3] {
        client.received(&[0, 0, 1, 1, 5, 0, 0, 0, number, 0x88]);
    }
    listen(&mut client, &mut log);
    assert!(log[&1].is_whole && log[&3].is_whole);
    client.take_output(&mut Vec::new());
    assert!(client.how_it_ended().unwrap().is_clean);
}

#[test]
fn a_goaway_for_a_reason_says_which() {
    let mut client = asking();
    let mut log = Log::new();
    let mut frame = b"\0\0\x0e\x07\0\0\0\0\0\0\0\0\x01\0\0\0\x0b".to_vec();
    frame.extend(b"slower");
    client.received(&frame);
    client.ended(true);
    listen(&mut client, &mut log);
    assert_eq!(log[&1].abort.as_ref().unwrap().0, AbortKind::Lost);
    for number in [3, 5] {
        assert_eq!(
            log[&number].abort.as_ref().unwrap().0,
            AbortKind::Unprocessed
        );
    }
    client.take_output(&mut Vec::new());
    let ended = client.how_it_ended().unwrap();
    assert!(
        !ended.is_clean && ended.message.contains("slower"),
        "{ended:?}"
    );
}

#[test]
fn a_server_that_shuts_down_gracefully_answers_what_it_took() {
    let mut talk = Talk::usual();
    let stream = talk.ask("a");
    talk.run();
    talk.server.h2.graceful_shutdown();
    talk.run();
    assert!(!talk.client.is_open());
    talk.server.asked[0].answer("", "a");
    talk.run();
    assert!(talk.told(stream).is_whole);
    assert!(talk.client.how_it_ended().unwrap().is_clean);
}

#[test]
fn a_server_that_shuts_down_at_once_is_quoted() {
    let mut talk = Talk::usual();
    let stream = talk.ask("a");
    talk.run();
    talk.server.h2.abrupt_shutdown(Reason::INTERNAL_ERROR);
    talk.run();
    talk.client.ended(true);
    talk.run();
    assert_eq!(talk.abort(stream).0, AbortKind::Lost);
    let ended = talk.client.how_it_ended().unwrap();
    assert!(!ended.is_clean, "{ended:?}");
    assert!(ended.message.contains("internal"), "{ended:?}");
}

#[test]
fn a_connection_that_ends_inside_streams_says_how() {
    for (fin, words) in [(true, "closed"), (false, "reset")] {
        let mut client = asking();
        let mut log = Log::new();
        client.received(b"\0\0\x01\x01\x04\0\0\0\x01\x88\0\0\x02\0\0\0\0\0\x01ok");
        client.ended(fin);
        listen(&mut client, &mut log);
        assert_eq!(log[&1].body, b"ok", "what came is told");
        for number in [1, 3, 5] {
            let (kind, message) = log[&number].abort.clone().unwrap();
            assert_eq!(kind, AbortKind::Lost);
            assert!(message.contains(words), "{message}");
        }
        assert!(!client.how_it_ended().unwrap().is_clean);
        assert_eq!(client.active(), 0);
    }
}

#[test]
fn a_connection_that_rests_may_end() {
    let mut talk = Talk::usual();
    talk.client.ended(true);
    talk.run();
    assert!(talk.client.how_it_ended().unwrap().is_clean);
    assert!(!talk.client.is_open());
}

#[test]
fn the_client_says_that_it_goes_when_its_last_stream_is_over() {
    let mut talk = Talk::usual();
    let stream = talk.ask("a");
    talk.run();
    talk.client.close();
    talk.run();
    assert!(talk.client.how_it_ended().is_none());
    talk.server.asked[0].answer("", "a");
    talk.run();
    assert!(talk.told(stream).is_whole);
    assert!(talk.client.how_it_ended().unwrap().is_clean);
}

#[test]
fn a_server_of_http_1_is_known_by_its_answer() {
    let answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
    for reads in [1, answer.len()] {
        let mut client = Connection::new(&Limits::default());
        client.request(template().head(1, 0), Bytes::new()).unwrap();
        client.take_output(&mut Vec::new());
        let mut log = Log::new();
        for read in answer.chunks(reads) {
            client.received(read);
            listen(&mut client, &mut log);
        }
        client.ended(true);
        listen(&mut client, &mut log);
        client.take_output(&mut Vec::new());
        let (kind, message) = log[&1].abort.clone().unwrap();
        assert_eq!(kind, AbortKind::Protocol);
        assert!(message.contains("--http 1.1"), "{message}");
        assert!(!client.how_it_ended().unwrap().is_clean);
    }
}
