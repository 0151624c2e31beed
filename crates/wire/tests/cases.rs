//! The black-box cases, played straight into the decoders on virtual time: each write is a read.

mod player;
#[path = "../../../tests/replay/mod.rs"]
mod replay;

use player::{Cut, play};
use replay::{Case, Op, cases};

#[test]
fn every_case_gives_the_record_that_it_expects() {
    let mut complaints = Vec::new();
    for case in cases() {
        let played = play(&case, Cut::Writes);
        let found = case.complaints(&played.records);
        complaints.extend(
            found
                .into_iter()
                .map(|complaint| format!("{}: {complaint}", case.name)),
        );
        if case
            .connections
            .is_some_and(|want| want != played.connections)
        {
            complaints.push(format!("{}: {} connections", case.name, played.connections));
        }
    }
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}

/// Bytes that one script sends.
fn sent_bytes(case: &Case) -> usize {
    let sent = |op: &Op| {
        if let Op::Send { bytes, .. } = op {
            bytes.len()
        } else {
            0
        }
    };
    case.scripts.iter().flatten().map(sent).sum()
}

/// The cases whose bytes are few enough to be cut everywhere.
fn small_cases() -> impl Iterator<Item = Case> {
    cases().into_iter().filter(|case| sent_bytes(case) < 20_000)
}

#[test]
fn cut_into_single_bytes_every_case_gives_the_same_record() {
    for case in cases()
        .into_iter()
        .filter(|case| sent_bytes(case) < 2_000_000)
    {
        let whole = play(&case, Cut::Writes);
        let cut = play(&case, Cut::Bytes);
        assert_eq!(cut.records, whole.records, "{}", case.name);
    }
}

#[test]
fn cut_in_two_anywhere_every_small_case_gives_the_same_record() {
    for case in small_cases() {
        let whole = play(&case, Cut::Writes);
        for at in 0..sent_bytes(&case) {
            let cut = play(&case, Cut::At(at));
            assert_eq!(cut.records, whole.records, "{} cut at {at}", case.name);
        }
    }
}

#[test]
fn cut_in_two_at_some_places_every_large_case_gives_the_same_record() {
    for case in cases()
        .into_iter()
        .filter(|case| sent_bytes(case) >= 20_000)
    {
        let whole = play(&case, Cut::Writes);
        let bytes = sent_bytes(&case);
        // A prime number of places, so that they fall everywhere in lines of equal length.
        for at in (0..bytes).step_by(bytes / 61 + 1) {
            let cut = play(&case, Cut::At(at));
            assert_eq!(cut.records, whole.records, "{} cut at {at}", case.name);
        }
    }
}

/// Reads that hold several writes: everything that is sent at once comes at once.
#[test]
fn joined_reads_say_the_same() {
    for case in cases() {
        let (whole, joined) = (play(&case, Cut::Writes), play(&case, Cut::Joined));
        let fields = |played: &player::Played| -> Vec<String> {
            played
                .records
                .iter()
                .map(|record| record.fields.to_string())
                .collect()
        };
        assert_eq!(fields(&joined), fields(&whole), "{}", case.name);
    }
}
