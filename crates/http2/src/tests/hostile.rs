//! A server may say anything: every stream ends once, in words, and nothing panics.

use proptest::prelude::*;

use super::splits::{Recording, play, record};
use super::{Log, listen};
use crate::Connection;

/// The connection is cut; every stream must have come to an end.
fn finish(mut client: Connection, mut log: Log) -> Result<(), TestCaseError> {
    client.ended(false);
    loop {
        listen(&mut client, &mut log);
        if !client.take_output(&mut Vec::new()) {
            break;
        }
    }
    prop_assert!(client.how_it_ended().is_some());
    prop_assert_eq!(client.active(), 0);
    prop_assert_eq!(log.len() as u64, client.counters().streams);
    for told in log.values() {
        prop_assert!(told.is_whole != told.abort.is_some(), "{:?}", told);
    }
    Ok(())
}

/// One frame of any kind, more often one of a stream that is there.
fn frame() -> impl Strategy<Value = Vec<u8>> {
    let stream = prop_oneof![4 => 0_u32..8, 1 => any::<u32>()];
    let payload = prop::collection::vec(any::<u8>(), 0..40);
    (0_u8..12, any::<u8>(), stream, payload).prop_map(|(kind, flags, stream, payload)| {
        let mut bytes = vec![0, 0, u8::try_from(payload.len()).unwrap(), kind, flags];
        bytes.extend(stream.to_be_bytes());
        bytes.extend(payload);
        bytes
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn damaged_conversations_end_in_words(
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in any::<prop::sample::Index>(),
        read in 1_usize..64,
    ) {
        let Recording { mut bytes, asked_at, .. } = record();
        for (at, byte) in edits {
            let at = at.index(bytes.len());
            bytes[at] = byte;
        }
        bytes.truncate(bytes.len() - cut.index(bytes.len()) / 4);
        let ends: Vec<usize> = (0..bytes.len()).step_by(read).collect();
        let (client, log) = play(&bytes, asked_at, &ends);
        finish(client, log)?;
    }

    #[test]
    fn frames_of_any_kind_end_in_words(frames in prop::collection::vec(frame(), 1..20)) {
        let Recording { mut bytes, asked_at, .. } = record();
        bytes.truncate(asked_at);
        bytes.extend(frames.concat());
        let (client, log) = play(&bytes, asked_at, &[]);
        finish(client, log)?;
    }

    #[test]
    fn bytes_of_any_kind_end_in_words(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let (client, log) = play(&bytes, 0, &[]);
        finish(client, log)?;
    }
}
