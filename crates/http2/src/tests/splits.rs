//! Bytes may be cut anywhere: what is told is the same.

use bytes::Bytes;
use proptest::prelude::*;

use super::{Log, Talk, listen, template};
use crate::{Connection, Limits};

/// What a server said, and when it was asked.
pub(super) struct Recording {
    pub(super) bytes: Vec<u8>,
    /// The requests were made after so many of them.
    pub(super) asked_at: usize,
    pub(super) log: Log,
}

pub(super) fn record() -> Recording {
    let mut talk = Talk::usual();
    let asked_at = talk.heard.len();
    for _ in 0..3 {
        talk.ask("ask");
    }
    talk.run();
    let asked = &mut talk.server.asked;
    asked[1].answer("application/json", "{\"error\":null}");
    let mut answer = asked[0].begin("text/event-stream");
    answer
        .send_data(Bytes::from_static(b"data: 1\n\nda"), false)
        .unwrap();
    talk.run();
    talk.server.asked[2]
        .reply
        .send_reset(h2::Reason::INTERNAL_ERROR);
    answer
        .send_data(Bytes::from_static(b"ta: 2\n\n"), true)
        .unwrap();
    talk.run();
    Recording {
        bytes: talk.heard,
        asked_at,
        log: talk.log,
    }
}

/// Plays `bytes` to a client that asks when it is time; `ends` are where reads end.
pub(super) fn play(bytes: &[u8], asked_at: usize, ends: &[usize]) -> (Connection, Log) {
    let mut client = Connection::new(&Limits::default());
    let mut log = Log::new();
    let mut ends: Vec<usize> = ends.to_vec();
    ends.extend([asked_at.min(bytes.len()), bytes.len()]);
    ends.sort_unstable();
    let mut from = 0;
    let mut has_asked = false;
    for to in ends {
        client.received(&bytes[from..to]);
        listen(&mut client, &mut log);
        client.take_output(&mut Vec::new());
        from = to;
        if to >= asked_at && !has_asked {
            has_asked = true;
            for _ in 0..3 {
                // A server that was made to say something else may have ended it all.
                let _ = client.request(template().head(7, 3), Bytes::from_static(b"ask"));
            }
            client.take_output(&mut Vec::new());
        }
    }
    listen(&mut client, &mut log);
    (client, log)
}

#[test]
fn every_split_in_two_and_every_byte_alone_tell_the_same() {
    let recording = record();
    let Recording {
        bytes,
        asked_at,
        log,
    } = &recording;
    assert!(log[&1].is_whole && log[&3].is_whole && log[&5].abort.is_some());
    for at in 0..=bytes.len() {
        assert_eq!(&play(bytes, *asked_at, &[at]).1, log, "cut at {at}");
    }
    let all: Vec<usize> = (0..bytes.len()).collect();
    assert_eq!(&play(bytes, *asked_at, &all).1, log);
}

proptest! {
    #[test]
    fn any_reads_tell_the_same(cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..40)) {
        let recording = record();
        let ends: Vec<usize> = cuts.iter().map(|cut| cut.index(recording.bytes.len())).collect();
        let (_, log) = play(&recording.bytes, recording.asked_at, &ends);
        prop_assert_eq!(log, recording.log);
    }
}
