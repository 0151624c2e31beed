//! The scanner against tables, against itself under every split, and against an oracle that reads
//! the standard's rules off a whole buffer.

use proptest::prelude::*;

use super::EventName::{Error, Message, Other};
use super::*;
use crate::mutate;

/// What a stream makes the scanner say, splits forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    events: Vec<(EventName, Vec<u8>)>,
    /// Nothing pending at the end of the stream.
    boundary: bool,
    failed: bool,
}

impl Seen {
    fn pairs(&self) -> Vec<(EventName, &[u8])> {
        self.events
            .iter()
            .map(|(name, data)| (*name, data.as_slice()))
            .collect()
    }
}

const EVENT_BYTES_MAX: usize = 24;

fn scan(reads: &[&[u8]]) -> Seen {
    scan_with(&mut Scanner::new(EVENT_BYTES_MAX), reads)
}

fn scan_with(scanner: &mut Scanner, reads: &[&[u8]]) -> Seen {
    let (mut carry, mut pool) = (Carry::new(8), CarryPool::new(2048));
    let mut seen = Seen::default();
    for read in reads {
        let mut input = *read;
        loop {
            let before = input.len();
            match scanner.next(&mut input, &mut carry, &mut pool) {
                Ok(Some(event)) => {
                    assert!(!event.data.is_empty() && input.len() < before);
                    seen.events.push((event.name, event.data.to_vec()));
                }
                Ok(None) => break assert!(input.is_empty()),
                Err(error) => {
                    let again = scanner.next(&mut &b"data: x\n\n"[..], &mut carry, &mut pool);
                    assert_eq!(again, Err(error));
                    seen.failed = true;
                    return seen;
                }
            }
        }
        assert!(carry.len() <= EVENT_BYTES_MAX.max(8) && pool.held_bytes() <= 2048);
    }
    seen.boundary = scanner.at_boundary();
    seen
}

/// WHATWG HTML 9.2.6 on a whole buffer, with the limit as this scanner defines it.
fn oracle(stream: &[u8]) -> Seen {
    let mut seen = Seen::default();
    let body = stream.strip_prefix(b"\xef\xbb\xbf").unwrap_or(stream);
    let mark_pending = b"\xef\xbb\xbf".starts_with(stream) && stream.len() < 3;
    // Every line with its end replaced by one LF; a last part without one is a line in progress.
    let text: Vec<u8> = body
        .iter()
        .enumerate()
        .filter(|&(at, &byte)| byte != b'\n' || at == 0 || body[at - 1] != b'\r')
        .map(|(_, &byte)| if byte == b'\r' { b'\n' } else { byte })
        .collect();
    let lines: Vec<&[u8]> = text.split_inclusive(|&byte| byte == b'\n').collect();
    let (mut data, mut has_data, mut name) = (Vec::new(), false, Message);
    let mut in_line = false;
    for line in lines {
        let ended = line.ends_with(b"\n");
        let line = line.strip_suffix(b"\n").unwrap_or(line);
        in_line = !ended;
        if line.is_empty() {
            if !data.is_empty() {
                seen.events.push((name, std::mem::take(&mut data)));
            }
            (has_data, name) = (false, Message);
            continue;
        }
        let colon = line.iter().position(|&byte| byte == b':');
        let (field, value) = match colon {
            Some(colon) => (&line[..colon], Some(&line[colon + 1..])),
            None => (line, None),
        };
        let value_len = value.map_or(0, <[u8]>::len);
        let value = value.unwrap_or(b"");
        let value = value.strip_prefix(b" ").unwrap_or(value);
        // In a line in progress the name is known with its colon, the value with its first byte.
        let known = ended || colon.is_some();
        match field {
            b"data" if known && (ended || value_len > 0) => {
                if has_data {
                    data.push(b'\n');
                }
                has_data = true;
                data.extend_from_slice(value);
                seen.failed = data.len() > EVENT_BYTES_MAX;
            }
            b"data" => {}
            b"event" if known => {
                seen.failed = value.len() > EVENT_BYTES_MAX;
                if ended {
                    name = match value {
                        b"" | b"message" => Message,
                        b"error" => Error,
                        _ => Other,
                    };
                }
            }
            _ => seen.failed = line.len() > EVENT_BYTES_MAX,
        }
        if seen.failed {
            return seen;
        }
    }
    seen.boundary = !(stream.is_empty()
        || mark_pending
        || in_line
        || has_data
        || name != Message
        || stream.ends_with(b"\r"));
    seen
}

/// An event's name and data.
type Pair = (EventName, &'static [u8]);

const TABLES: &[(&[u8], &[Pair])] = &[
    (
        b"data: a\n\ndata: b\n\n",
        &[(Message, b"a"), (Message, b"b")],
    ),
    (
        b"data: a\r\n\r\ndata: b\r\n\r\n",
        &[(Message, b"a"), (Message, b"b")],
    ),
    (
        b"data: a\r\rdata: b\r\r",
        &[(Message, b"a"), (Message, b"b")],
    ),
    (
        b"data: a\r\n\ndata: b\n\r\ndata: c\n\rdata: d\r\r\ndata: e\r\n\r",
        &[
            (Message, b"a"),
            (Message, b"b"),
            (Message, b"c"),
            (Message, b"d"),
            (Message, b"e"),
        ],
    ),
    (
        b"\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n",
        &[(Message, b"a")],
    ),
    (b"\xef\xbbdata: a\n\ndata: b\n\n", &[(Message, b"b")]),
    (b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n", &[]),
    (b": ping\n\n:\n\n:data: x\n\n", &[]),
    (b": ping\ndata: a\n: pong\n\n", &[(Message, b"a")]),
    (b"data:a\ndata: b\ndata:  c\n\n", &[(Message, b"a\nb\n c")]),
    (b"data\n\ndata:\n\ndata: \n\n", &[]),
    (b"data\ndata\n\n", &[(Message, b"\n")]),
    (b"data\ndata: a\ndata:\n\n", &[(Message, b"\na\n")]),
    (
        b"id: 1\nretry: 5\ndata: a\nid\ncolour: blue\n\n",
        &[(Message, b"a")],
    ),
    (
        b"datum: a\n\ndat: a\n\nData: a\n\n data: a\n\ndata : a\n\n",
        &[],
    ),
    (b"data: a:b: c\n\n", &[(Message, b"a:b: c")]),
    (
        b"event: error\ndata: a\n\ndata: b\n\n",
        &[(Error, b"a"), (Message, b"b")],
    ),
    (b"data: a\nevent:error\n\n", &[(Error, b"a")]),
    (b"event: error\n\ndata: a\n\n", &[(Message, b"a")]),
    (b"event: error\ndata:\n\ndata: a\n\n", &[(Message, b"a")]),
    (b"event: error\nevent\ndata: a\n\n", &[(Message, b"a")]),
    (
        b"event: message\ndata: a\n\nevent: Error\ndata: b\n\n",
        &[(Message, b"a"), (Other, b"b")],
    ),
    (
        b"event: errors\ndata: a\n\nevent:  error\ndata: b\n\n",
        &[(Other, b"a"), (Other, b"b")],
    ),
    (
        b"event: messages\ndata: a\n\nevents: error\ndata: b\n\n",
        &[(Other, b"a"), (Message, b"b")],
    ),
    (
        b"data: a\n\n\n\n\n\r\r\ndata: b\n\n",
        &[(Message, b"a"), (Message, b"b")],
    ),
    (b"data: a\n\ndata: unterminated\n", &[(Message, b"a")]),
    (b"data: a\0b\xff\n\n", &[(Message, b"a\0b\xff")]),
    (b"\ndata: a\n\n", &[(Message, b"a")]),
    (b"\rdata: a\r\n\r\n", &[(Message, b"a")]),
];

#[test]
fn tables_in_one_read_and_by_the_oracle() {
    for &(stream, expected) in TABLES {
        let seen = scan(&[stream]);
        assert_eq!(seen.pairs(), expected, "{}", stream.escape_ascii());
        assert_eq!(seen, oracle(stream), "{}", stream.escape_ascii());
    }
}

#[test]
fn every_split_means_the_same() {
    for &(stream, _) in TABLES {
        let whole = scan(&[stream]);
        for first in 0..=stream.len() {
            let (head, rest) = stream.split_at(first);
            assert_eq!(
                scan(&[head, rest]),
                whole,
                "{} at {first}",
                stream.escape_ascii()
            );
            for second in 0..=rest.len() {
                let (second, third) = rest.split_at(second);
                assert_eq!(
                    scan(&[head, second, third]),
                    whole,
                    "{}",
                    stream.escape_ascii()
                );
            }
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(scan(&bytes), whole, "{} by bytes", stream.escape_ascii());
    }
}

/// An event arrives with its blank line, and not a byte later; so does the boundary.
#[test]
fn every_prefix_means_what_the_oracle_says() {
    for &(stream, _) in TABLES {
        for len in 0..=stream.len() {
            let prefix = &stream[..len];
            assert_eq!(scan(&[prefix]), oracle(prefix), "{}", prefix.escape_ascii());
            let bytes: Vec<&[u8]> = prefix.chunks(1).collect();
            assert_eq!(scan(&bytes), oracle(prefix), "{}", prefix.escape_ascii());
        }
    }
}

#[test]
fn an_event_in_one_read_is_lent_and_copies_nothing() {
    let (mut carry, mut pool) = (Carry::new(8), CarryPool::new(0));
    let mut scanner = Scanner::new(1000);
    let stream =
        b"\xef\xbb\xbf:c\nevent: error\nid: 1\ndata: first\nretry: 1\r\n\r\ndata: second\n\n";
    let mut input = &stream[..];
    let mut count = 0;
    while let Some(event) = scanner.next(&mut input, &mut carry, &mut pool).unwrap() {
        let (lent, whole) = (event.data.as_ptr_range(), stream.as_ptr_range());
        assert!(whole.start <= lent.start && lent.end <= whole.end);
        count += 1;
    }
    assert_eq!((count, pool.copies()), (2, 0));
}

#[test]
fn a_split_event_is_copied_once() {
    let (mut carry, mut pool) = (Carry::new(64), CarryPool::new(0));
    let mut scanner = Scanner::new(1000);
    for read in [&b"data: abc"[..], b"def", b"ghi\n", b"\n"] {
        let mut input = read;
        while scanner
            .next(&mut input, &mut carry, &mut pool)
            .unwrap()
            .is_some()
        {}
    }
    assert_eq!((pool.copies(), pool.copied_bytes()), (3, 9));
}

#[test]
fn limits_hold_whole_and_split() {
    let line = |name: &str, len: usize| format!("{name}{}\n\n", "x".repeat(len)).into_bytes();
    for (prefix, len, failed) in [
        ("data: ", 24, false),
        ("data: ", 25, true),
        ("data: 123\ndata:", 20, false),
        ("data: 123\ndata:", 21, true),
        (":", 23, false),
        (":", 24, true),
        ("datu", 20, false),
        ("datu", 21, true),
        ("event: ", 24, false),
        ("event: ", 25, true),
        ("data: a\nid", 30, true),
    ] {
        let stream = line(prefix, len);
        assert_eq!(oracle(&stream).failed, failed, "{prefix} {len}");
        for size in [1, 2, 5, 20, 1000] {
            let reads: Vec<&[u8]> = stream.chunks(size).collect();
            assert_eq!(scan(&reads), oracle(&stream), "{prefix} {len} by {size}");
        }
        let unended = &stream[..stream.len() - 2];
        assert_eq!(
            scan(&[unended]).failed,
            failed,
            "known before the line ends"
        );
    }
}

#[test]
fn a_huge_event_is_given_up_and_not_collected() {
    let (mut carry, mut pool) = (Carry::new(64), CarryPool::new(1 << 20));
    let mut scanner = Scanner::new(10_000);
    let mut result = Ok(None);
    let mut input = &b"data: "[..];
    for _ in 0..100 {
        result = scanner
            .next(&mut input, &mut carry, &mut pool)
            .map(|event| event.map(drop));
        input = &[b'x'; 1000];
    }
    assert_eq!(result, Err(SseError::Oversize));
    assert!(pool.held_bytes() <= 1024 + 2048 + 4096 + 8192 + 16384);
}

#[test]
fn no_carry_memory_is_an_error_of_its_own() {
    let (mut carry, mut pool) = (Carry::new(4), CarryPool::new(0));
    let mut scanner = Scanner::new(1000);
    let mut input = &b"data: 12345"[..];
    let result = scanner.next(&mut input, &mut carry, &mut pool);
    assert_eq!(result, Err(SseError::CarryFull(CarryFull)));
}

#[test]
fn a_reset_begins_a_new_stream() {
    let mut scanner = Scanner::new(EVENT_BYTES_MAX);
    for &(stream, expected) in TABLES {
        scanner.reset();
        assert!(!scanner.at_boundary());
        assert_eq!(scan_with(&mut scanner, &[stream]).pairs(), expected);
    }
}

const PIECES: [&[u8]; 28] = [
    b"data: a",
    b"data:b",
    b"data",
    b"data:",
    b"data: ",
    b"data: 0123456789012345",
    b"event: error",
    b"event: message",
    b"event",
    b"event: x",
    b"id: 1",
    b": c",
    b":",
    b"datum: x",
    b"d",
    b"da",
    b" ",
    b"x",
    b"\xef\xbb\xbf",
    b"\xef\xbb",
    b"\n",
    b"\n\n",
    b"\r",
    b"\r\r",
    b"\r\n",
    b"\r\n\r\n",
    b"\n\r\n",
    b"\0",
];

fn check(stream: &[u8], rng: &mut mutate::Rng) {
    let whole = scan(&[stream]);
    assert_eq!(whole, oracle(stream), "{}", stream.escape_ascii());
    let reads = mutate::reads(rng, stream);
    assert_eq!(
        scan(&reads),
        whole,
        "{} as {reads:?}",
        stream.escape_ascii()
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn random_streams_in_random_reads_match_the_oracle(
        pieces in prop::collection::vec(prop::sample::select(&PIECES[..]), 0..24),
        seed in any::<u64>(),
    ) {
        check(&pieces.concat(), &mut mutate::Rng::new(seed));
    }
}

#[test]
fn mutated_streams_match_the_oracle() {
    let corpus: Vec<&[u8]> = TABLES.iter().map(|&(stream, _)| stream).collect();
    mutate::rounds(200_000, |seed, rng| {
        let stream = mutate::mutated(rng, &corpus, &PIECES);
        if std::panic::catch_unwind(|| check(&stream, &mut rng.clone())).is_err() {
            panic!("seed {seed}: {}", stream.escape_ascii());
        }
    });
}
