//! Flow control is never silent, and rarely there.

use bytes::Bytes;

use super::{Talk, listen};
use crate::{AbortKind, Limits};

#[test]
fn a_body_that_waits_for_the_servers_window_is_counted() {
    let mut builder = h2::server::Builder::new();
    builder.initial_window_size(10);
    let mut talk = Talk::new(&Limits::default(), &builder);
    talk.ask("0123456789012345678901234567890123456789abcde");
    talk.run();
    let asked = &talk.server.asked[0];
    assert!(asked.is_whole && asked.body.len() == 45);
    // After each ten bytes.
    assert_eq!(talk.client.counters().send_stalls, 4);
    talk.ask("0123456789");
    talk.run();
    assert!(talk.server.asked[1].is_whole);
    assert_eq!(
        talk.client.counters().send_stalls,
        4,
        "what fits does not wait"
    );
}

#[test]
fn a_server_that_uses_up_a_window_is_counted() {
    let limits = Limits {
        stream_window_bytes: 1000,
        ..Limits::default()
    };
    let mut talk = Talk::new(&limits, &h2::server::Builder::new());
    let stream = talk.ask("a");
    talk.run();
    let mut answer = talk.server.asked[0].begin("");
    answer
        .send_data(Bytes::from(vec![b'x'; 5000]), true)
        .unwrap();
    talk.run();
    let told = talk.told(stream);
    assert!(told.is_whole && told.body.len() == 5000);
    // After each thousand but the last.
    assert_eq!(talk.client.counters().receive_stalls, 4);
}

#[test]
fn the_windows_of_the_default_limits_hold_back_nobody() {
    let mut talk = Talk::usual();
    let streams = [talk.ask("a"), talk.ask("b")];
    talk.run();
    for asked in &mut talk.server.asked {
        let mut answer = asked.begin("");
        answer
            .send_data(Bytes::from(vec![b'x'; 9 << 20]), true)
            .unwrap();
    }
    talk.run();
    for stream in streams {
        let told = talk.told(stream);
        assert!(told.is_whole && told.body.len() == 9 << 20);
    }
    assert_eq!(talk.client.counters().receive_stalls, 0);
}

#[test]
fn many_small_frames_in_one_read_are_no_attack() {
    let mut talk = Talk::usual();
    let stream = talk.ask("a");
    talk.run();
    let mut answer = talk.server.asked[0].begin("text/event-stream");
    for _ in 0..20_000 {
        answer.send_data(Bytes::from_static(b"x"), false).unwrap();
    }
    answer.send_data(Bytes::new(), true).unwrap();
    talk.run();
    let told = talk.told(stream);
    assert!(
        told.is_whole && told.body.len() == 20_000,
        "{:?}",
        told.abort
    );
}

#[test]
fn what_is_not_taken_stays_within_its_bound() {
    let limits = Limits {
        output_bytes_max: 2000,
        ..Limits::default()
    };
    let mut talk = Talk::new(&limits, &h2::server::Builder::new());
    let body: &'static str = "b".repeat(60_000).leak();
    talk.ask(body);
    // The server asks for signs of life, again and again, and nobody sends them.
    let ping = b"\0\0\x08\x06\0\0\0\0\0abcdefgh";
    for _ in 0..1000 {
        talk.client.received(ping);
        assert!(talk.client.next().is_none());
    }
    assert!(talk.client.held_bytes() > 10_000, "it reads no further");
    let mut out = Vec::new();
    let mut most = 0;
    while talk.client.take_output(&mut out) {
        most = most.max(out.len());
        talk.server.hear(&out);
        out.clear();
        assert!(talk.client.next().is_none());
    }
    assert!(most <= 2000, "{most}");
    assert_eq!(talk.client.held_bytes(), 0);
    assert!(talk.server.asked[0].is_whole && talk.server.asked[0].body.len() == 60_000);
    assert_eq!(
        talk.client.counters().send_stalls,
        0,
        "the server's window was large enough"
    );
}

#[test]
fn what_comes_while_nothing_is_taken_has_a_bound_too() {
    let limits = Limits {
        output_bytes_max: 1 << 10,
        input_bytes_max: 4 << 10,
        ..Limits::default()
    };
    let mut talk = Talk::new(&limits, &h2::server::Builder::new());
    let stream = talk.ask("b".repeat(60_000).leak());
    let ping = b"\0\0\x08\x06\0\0\0\0\0abcdefgh";
    for _ in 0..10_000 {
        talk.client.received(ping);
        listen(&mut talk.client, &mut talk.log);
        assert!(talk.client.held_bytes() <= (4 << 10) + ping.len());
    }
    let ended = talk.client.how_it_ended().unwrap();
    assert!(
        !ended.is_clean && ended.message.contains("reads nothing"),
        "{ended:?}"
    );
    assert_eq!(talk.abort(stream).0, AbortKind::Lost);
    assert_eq!(talk.client.active(), 0);
}
