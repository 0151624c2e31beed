use std::collections::BTreeMap;
use std::fs;

use proptest::prelude::*;
use ridgeline_clock::{Bracket, Nanos, Timebase};
use ridgeline_net::Token;
use serde_json::{Value, json};

use super::*;
use crate::fault::Kind;
use crate::wording::Dialect;

fn header() -> Header {
    Header {
        driver: "io_uring",
        rx_timestamps: true,
        timebase: Timebase {
            boot_id: Some("6f7b6f6e-0000-4000-8000-000000000001".to_owned()),
            time_namespace: Some("time:[4026531834]".to_owned()),
        },
        start: Nanos(5_000_000_000),
        realtime: Bracket {
            at: Nanos(5_000_000_000),
            offset: Nanos(1_790_000_000_000_000_000),
            error: Nanos(41),
        },
    }
}

fn at(ns: u64) -> Nanos {
    header().start + Nanos(ns)
}

fn begun(
    request_id: &[u8],
    (index, generation): (u32, u32),
    arrival: u64,
    reaped: u64,
) -> Begun<'_> {
    Begun {
        request_id,
        connection: Token { index, generation },
        arrival: at(arrival),
        reaped: at(reaped),
    }
}

fn wrote(row: [u64; 2], counts: [u32; 3]) -> Wrote {
    Wrote {
        at: at(row[0]),
        due: at(row[1]),
        bytes: counts[0],
        tokens: counts[1],
        content_events: counts[2],
    }
}

fn ended(started: u64, ending: Ending) -> Ended {
    Ended {
        started: Some(at(started)),
        status: Some(200),
        dialect: Dialect::Vllm,
        fault: None,
        ending,
    }
}

/// A file with a ring of `pieces`, what is told to its recorder, and what became of it: the counts, the
/// lines, and what was told meanwhile.
fn write(pieces: usize, tell: impl FnOnce(&mut Recorder)) -> (TruthCounts, Vec<Value>, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("truth.jsonl");
    let mut file = TruthFile::create(&path, &header()).unwrap();
    let mut recorder = file.recorder(pieces, 4);
    tell(&mut recorder);
    drop(recorder);
    let counts = file.write(Vec::new(), |_| ()).unwrap().join().unwrap();
    let text = fs::read_to_string(&path).unwrap();
    assert!(text.ends_with('\n'));
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    (counts, lines.collect(), text)
}

#[test]
fn names_may_be_long_and_places_are_used_again() {
    let name = "x".repeat(128);
    let (counts, lines, text) = write(64, |recorder| {
        let first = recorder.begin(&begun(name.as_bytes(), (0, 7), 2_000, 2_000));
        recorder.end(first, &ended(2_000, Ending::Closed));
        let second = recorder.begin(&begun(b"", (0, 8), 3_000, 3_000));
        let stopped = Ended {
            started: None,
            status: None,
            dialect: Dialect::Azure,
            ..ended(0, Ending::Stopped)
        };
        recorder.end(second, &stopped);
        recorder.begin(&begun(b"in flight", (9, 9), 4_000, 4_000));
    });
    let expected = TruthCounts {
        lines: 2,
        dropped: 0,
        unfinished: 1,
    };
    assert_eq!(counts, expected);
    assert_eq!(lines[1]["request_id"], name);
    assert_eq!(lines[1]["ended"], "closed");
    let expected = json!({
        "request_id": null,
        "shard": 0, "number": 1, "connection": 0, "connection_use": 8,
        "arrival_ns": 3000, "reaped_ns": 3000, "started_ns": null, "status": null,
        "dialect": "azure", "fault": null, "output_tokens": 0, "ended": "stopped", "writes": [],
    });
    assert_eq!(lines[2], expected);
    // Programs tell the end by how it begins.
    assert!(text.lines().last().unwrap().starts_with("{\"end\":{"));
}

/// The file that readers are tested with is what is written.
#[test]
fn the_golden_file_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("truth.jsonl");
    let mut file = TruthFile::create(&path, &header()).unwrap();
    let (mut first, mut second) = (file.recorder(64, 4), file.recorder(8, 4));

    let mut answered = first.begin(&begun(
        b"rl-0000002a-0000000000000000",
        (4, 1),
        1_000,
        1_250,
    ));
    first.write(&mut answered, &wrote([1_400, 1_300], [210, 0, 0]));
    let mut refused = first.begin(&begun(
        b"rl-0000002a-0000000000000001",
        (7, 3),
        2_000,
        2_100,
    ));
    first.write(&mut refused, &wrote([2_300, 2_000], [180, 0, 0]));
    let refusal = Ended {
        status: Some(503),
        fault: Some(Kind::Status(503)),
        ..ended(2_100, Ending::Complete)
    };
    first.end(refused, &refusal);
    first.write(&mut answered, &wrote([21_500, 21_000], [300, 1, 1]));
    first.write(&mut answered, &wrote([26_700, 26_000], [900, 3, 2]));
    first.write(&mut answered, &wrote([26_800, 26_000], [120, 0, 0]));
    first.end(answered, &ended(1_300, Ending::Complete));
    first.begin(&begun(b"in flight", (9, 9), 4_000, 4_000));

    let odd = second.begin(&begun(b"a \"quoted\\\" id", (0, 1), 5_000, 5_000));
    let gone = Ended {
        started: None,
        status: None,
        fault: Some(Kind::Drip),
        ..ended(0, Ending::Peer)
    };
    second.end(odd, &gone);
    let mut nameless = second.begin(&begun(b"", (0, 2), 6_000, 6_000));
    second.write(&mut nameless, &wrote([6_100, 6_000], [250, 0, 0]));
    second.end(nameless, &ended(6_000, Ending::Complete));
    second.begin(&begun(b"in flight", (0, 3), 7_000, 7_000));
    // The ring is full.
    second.begin(&begun(b"dropped", (0, 4), 8_000, 8_000));

    drop((first, second));
    file.write(Vec::new(), |_| ()).unwrap().join().unwrap();
    let golden = include_str!("../../../tests/golden/truth.jsonl");
    let golden = golden.replace("\"0.1.0\"", &format!("{:?}", env!("CARGO_PKG_VERSION")));
    assert_eq!(fs::read_to_string(&path).unwrap(), golden);
}

#[test]
fn a_full_ring_drops_whole_requests_and_never_mixes_them_up() {
    let (counts, lines, _) = write(6, |recorder| {
        let mut kept = recorder.begin(&begun(b"kept", (0, 1), 1, 1));
        recorder.write(&mut kept, &wrote([2, 2], [1, 1, 1]));
        let mut cut = recorder.begin(&begun(b"cut", (1, 1), 3, 3));
        recorder.end(kept, &ended(1, Ending::Complete));
        // The ring is full: neither its write nor a new request finds room.
        recorder.write(&mut cut, &wrote([4, 4], [1, 1, 1]));
        let late = recorder.begin(&begun(b"late", (2, 1), 5, 5));
        recorder.end(cut, &ended(3, Ending::Complete));
        recorder.end(late, &ended(5, Ending::Complete));
    });
    assert_eq!(
        counts,
        TruthCounts {
            lines: 1,
            dropped: 2,
            unfinished: 0
        }
    );
    assert_eq!(lines[1]["request_id"], "kept");
    assert_eq!(lines[2]["end"]["dropped"], 2);
}

#[test]
fn a_killed_server_leaves_whole_lines() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("truth.jsonl");
    let mut file = TruthFile::create(&path, &header()).unwrap();
    assert_eq!(
        fs::read_to_string(&path).unwrap().lines().count(),
        1,
        "the header is there at once"
    );
    let busy = TruthFile::create(&path, &header()).unwrap_err().to_string();
    assert!(busy.contains("another server"), "{busy}");
    let mut recorder = file.recorder(64, 4);
    for _ in 0..3 {
        let entry = recorder.begin(&begun(b"x", (0, 1), 1, 1));
        recorder.end(entry, &ended(1, Ending::Complete));
    }
    file.take_and_flush();
    drop(file);
    let text = fs::read_to_string(&path).unwrap();
    assert_eq!((text.lines().count(), text.ends_with("]}\n")), (4, true));
    // The next server begins anew.
    TruthFile::create(&path, &header()).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 1);
}

#[test]
fn a_full_disk_is_told_once_and_counted() {
    let full = std::path::Path::new("/dev/full");
    let refused = TruthFile::create(full, &header()).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::StorageFull);

    // It has room for the header only.
    let folder = tempfile::tempdir().unwrap();
    let mut file = TruthFile::create(&folder.path().join("t"), &header()).unwrap();
    file.redirect(full);
    let mut recorder = file.recorder(64, 4);
    let (tell, told) = std::sync::mpsc::channel();
    for flushes in 0..3 {
        for _ in 0..flushes {
            let entry = recorder.begin(&begun(b"x", (0, 1), 1, 1));
            recorder.end(entry, &ended(1, Ending::Complete));
        }
        file.take_and_flush_telling(|text| tell.send(text.to_owned()).unwrap());
    }
    drop(recorder);
    let again = tell.clone();
    let thread = file.write(Vec::new(), move |text| again.send(text.to_owned()).unwrap());
    let counts = thread.unwrap().join().unwrap();
    assert_eq!(
        counts,
        TruthCounts {
            lines: 0,
            dropped: 3,
            unfinished: 0
        }
    );
    drop(tell);
    let told: Vec<String> = told.iter().collect();
    assert_eq!(told.len(), 1, "{told:?}");
    assert!(told[0].starts_with("truth: cannot write") && told[0].ends_with("the server goes on"));
}

#[derive(Clone, Debug)]
enum Op {
    Begin(usize),
    Write(usize, u32),
    End(usize),
    Drain,
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        2 => (0..150_usize).prop_map(Op::Begin),
        4 => (0..6_usize, 0..9_u32).prop_map(|(open, tokens)| Op::Write(open, tokens)),
        2 => (0..6_usize).prop_map(Op::End),
        1 => Just(Op::Drain),
    ]
}

proptest! {
    #[test]
    fn lines_are_whole_or_counted(ops in proptest::collection::vec(op(), 0..120), pieces in 4..40_usize) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("truth.jsonl");
        let mut file = TruthFile::create(&path, &header()).unwrap();
        let mut recorder = file.recorder(pieces, 1);
        // Naive: everything that was told of each request.
        let mut open: Vec<(u64, Entry)> = Vec::new();
        let mut told: BTreeMap<u64, (String, Vec<u32>, bool)> = BTreeMap::new();
        let mut number = 0_u64;
        for op in &ops {
            match *op {
                Op::Begin(length) => {
                    let name = format!("{number:0length$}");
                    open.push((number, recorder.begin(&begun(name.as_bytes(), (0, 1), number, number))));
                    told.insert(number, (name, Vec::new(), false));
                    number += 1;
                }
                Op::Write(place, tokens) => {
                    if let Some((number, entry)) = open.get_mut(place) {
                        recorder.write(entry, &wrote([9, 9], [1, tokens, 1]));
                        told.get_mut(number).unwrap().1.push(tokens);
                    }
                }
                Op::End(place) if place < open.len() => {
                    let (number, entry) = open.remove(place);
                    recorder.end(entry, &ended(1, Ending::Complete));
                    told.get_mut(&number).unwrap().2 = true;
                }
                Op::End(_) => {}
                Op::Drain => file.take_and_flush(),
            }
        }
        drop(recorder);
        let counts = file.write(Vec::new(), |_| ()).unwrap().join().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let mut lines = 0;
        for line in text.lines().skip(1) {
            let line: Value = serde_json::from_str(line).unwrap();
            let Some(number) = line["number"].as_u64() else { continue };
            let (name, tokens, over) = told.remove(&number).unwrap();
            prop_assert!(over && line["request_id"] == json!(name));
            let found: Vec<_> = line["writes"].as_array().unwrap().iter().map(|row| row[3].clone()).collect();
            prop_assert_eq!(json!(found), json!(tokens));
            prop_assert_eq!(&line["output_tokens"], &json!(tokens.iter().sum::<u32>()));
            lines += 1;
        }
        prop_assert_eq!(counts.lines, lines);
        prop_assert_eq!(counts.lines + counts.dropped + counts.unfinished, number);
        // What is missing was dropped or is in flight.
        let over = told.values().filter(|told| told.2).count() as u64;
        prop_assert!(over <= counts.dropped && told.len() as u64 == counts.dropped + counts.unfinished);
    }
}
