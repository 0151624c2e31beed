//! The decoder against tables, against itself under every split, and against an oracle that sees
//! the whole stream at once.

mod oracle;

use proptest::prelude::*;

use super::ContentKind::{Absent, EventStream, Json, Other};
use super::*;
use crate::mutate;

/// Everything that a stream of one response makes the decoder say, splits forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    head: Option<Head>,
    body: Vec<u8>,
    end: End,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum End {
    /// More bytes are needed.
    #[default]
    More,
    /// All but these bytes were read.
    Done {
        left: usize,
        reusable: bool,
    },
    Error(HttpError),
}

const HEAD_BYTES_MAX: usize = 400;

fn decode(reads: &[&[u8]]) -> Seen {
    let mut decoder = ResponseDecoder::new(HEAD_BYTES_MAX);
    decoder.start();
    decode_with(&mut decoder, reads)
}

fn decode_with(decoder: &mut ResponseDecoder, reads: &[&[u8]]) -> Seen {
    decode_by(decoder, reads, ResponseDecoder::next)
}

/// The same by another way to the next part.
fn decode_by<N>(decoder: &mut ResponseDecoder, reads: &[&[u8]], mut next: N) -> Seen
where
    N: for<'a> FnMut(
        &mut ResponseDecoder,
        &mut &'a [u8],
        &mut Carry,
        &mut CarryPool,
    ) -> Result<Option<Part<'a>>, HttpError>,
{
    let (mut carry, mut pool) = (Carry::new(32), CarryPool::new(2048));
    let mut seen = Seen::default();
    for (index, read) in reads.iter().enumerate() {
        let mut input = *read;
        loop {
            let before = input.len();
            match next(decoder, &mut input, &mut carry, &mut pool) {
                Ok(Some(Part::Head(head))) => {
                    assert!(input.len() < before && carry.is_empty() && seen.head.is_none());
                    seen.head = Some(head);
                }
                Ok(Some(Part::Data(data))) => {
                    assert!(!data.is_empty() && input.len() < before && seen.head.is_some());
                    let (lent, whole) = (data.as_ptr_range(), read.as_ptr_range());
                    assert!(
                        whole.start <= lent.start && lent.end <= whole.end,
                        "lent, not copied"
                    );
                    seen.body.extend_from_slice(data);
                }
                Ok(Some(Part::End)) => {
                    let left = input.len() + reads[index + 1..].concat().len();
                    seen.end = End::Done {
                        left,
                        reusable: decoder.reusable(),
                    };
                    assert_eq!(next(decoder, &mut input, &mut carry, &mut pool), Ok(None));
                    return seen;
                }
                Ok(None) => break assert!(input.is_empty()),
                Err(error) => {
                    seen.end = End::Error(error);
                    assert_eq!(next(decoder, &mut input, &mut carry, &mut pool), Err(error));
                    assert!(!decoder.reusable());
                    return seen;
                }
            }
        }
        assert!(pool.held_bytes() <= 2048 && carry.len() <= HEAD_BYTES_MAX);
    }
    seen
}

/// The kind, without the words.
fn kind(seen: &Seen) -> Option<(bool, Option<u16>)> {
    match seen.end {
        End::Error(error) => Some((error.kind == HttpErrorKind::Oversize, error.status)),
        _ => None,
    }
}

fn done(status: u16, content: ContentKind, body: &[u8], left: usize, reusable: bool) -> Seen {
    let head = Some(Head { status, content });
    Seen {
        head,
        body: body.to_vec(),
        end: End::Done { left, reusable },
    }
}

/// Whole responses and what they mean. The first byte after each belongs to the next.
fn complete() -> Vec<(&'static [u8], Seen)> {
    vec![
        (
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Type: application/json\r\n\r\n{}",
            done(200, Json, b"{}", 0, true),
        ),
        (
            b"HTTP/1.1 200 OK\r\ncontent-type:text/event-stream\r\nTRANSFER-ENCODING: \t chunked \t\r\n\
              X-Folded: one\r\n two\r\n\tthree\r\nX-Empty:\r\n\r\n3\r\nabc\r\n002;a=\"b;c\"\r\nde\r\n0\r\n\r\n",
            done(200, EventStream, b"abcde", 0, true),
        ),
        (
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early\r\nLink: x\r\nContent-Length: 9\r\n\r\n\
              HTTP/1.1 200\r\nContent-Length: 1\r\n\r\nxHTTP",
            done(200, Absent, b"x", 4, true),
        ),
        (
            b"HTTP/1.1 429 Too Many\r\nContent-Length: 0\r\nContent-Type: text/html;a=b\r\n\r\n",
            done(429, Other, b"", 0, true),
        ),
        (b"HTTP/1.1 204 None\r\nContent-Length: 5\r\n\r\n", done(204, Absent, b"", 0, true)),
        (b"HTTP/1.1 304 \r\nTransfer-Encoding: chunked\r\n\r\n", done(304, Absent, b"", 0, true)),
        (
            b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\nx",
            done(200, Absent, b"x", 0, false),
        ),
        (
            b"HTTP/1.0 200 OK\r\nConnection: Keep-Alive\r\nContent-Length: 1\r\n\r\nx",
            done(200, Absent, b"x", 0, true),
        ),
        (
            b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n\r\n",
            done(200, Absent, b"x", 0, false),
        ),
        (
            b"HTTP/1.9 200 OK\r\nConnection: x,\tCLOSE\r\nContent-Length: 1, 1\r\nContent-Length: 1\r\n\r\nx",
            done(200, Absent, b"x", 0, false),
        ),
        (
            b"HTTP/1.1 200 OK\nTransfer-Encoding:\n chunked\nContent-Length: nonsense\n\n1;x\r\ny\r\n0\r\nA: b\n\n",
            done(200, Absent, b"y", 0, true),
        ),
        (
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0000000000000000000a \t;q\r\n0123456789\r\n\
              B\r\n0123456789a\r\n000;end\r\nX-A: b\r\n c\r\nX-B:\r\n\r\nrest",
            done(200, Absent, b"01234567890123456789a", 4, true),
        ),
        (
            b"HTTP/1.1 200 OK\r\nContent-Type: application/problem+JSON ; x\r\nContent-Encoding: identity\r\n\
              content-length: 00003\r\n\r\nabc",
            done(200, Json, b"abc", 0, true),
        ),
        (
            b"HTTP/1.1 200 \xc3\xa9\t\r\nContent-Type: text/plain\r\ncontent-type: TEXT/EVENT-STREAM\r\n\
              X: \xff\r\nContent-Length: 0\r\n\r\n",
            done(200, EventStream, b"", 0, true),
        ),
    ]
}

/// Streams that are wrong, the number of bytes after which that is known, and the status known.
const WRONG: [(&[u8], usize, Option<u16>); 42] = [
    (b"SSH-2.0-OpenSSH_9.6\r\n", 1, None),
    (b"\r\nHTTP/1.1 200 OK\r\n", 1, None),
    (b"http/1.1 200 OK\r\n", 1, None),
    (b"HTTP/2.0 200 OK\r\n", 6, None),
    (b"HTTP/0.9 200 OK\r\n", 6, None),
    (b"HTTP/1.x 200 OK\r\n", 8, None),
    (b"HTTP/1.11 200 OK\r\n", 9, None),
    (b"HTTP/1.1  200 OK\r\n", 10, None),
    (b"HTTP/1.1 099 OK\r\n", 10, None),
    (b"HTTP/1.1 20 OK\r\n", 12, None),
    (b"HTTP/1.1 2000 OK\r\n", 13, None),
    (b"HTTP/1.1 200\tOK\r\n", 13, None),
    (b"HTTP/1.1 200 O\0K\r\n", 15, None),
    (b"HTTP/1.1 200 O\rK\r\n", 16, None),
    (b"HTTP/1.1 200\r\r\n", 14, None),
    (b"HTTP/1.1 101 Up\r\n\r\n", 17, Some(101)),
    (b"HTTP/1.1 100 C\r\n\r\nHTTQ", 22, None),
    (b"HTTP/1.1 100 C\r\nA b: c\r\n", 18, None),
    (b"HTTP/1.1 200 OK\r\n A: b\r\n\r\n", 18, Some(200)),
    (b"HTTP/1.1 200 OK\r\nA : b\r\n\r\n", 19, Some(200)),
    (b"HTTP/1.1 200 OK\r\n: b\r\n\r\n", 18, Some(200)),
    (b"HTTP/1.1 200 OK\r\nA\r\n\r\n", 19, Some(200)),
    (b"HTTP/1.1 200 OK\r\nA(b: c\r\n\r\n", 19, Some(200)),
    (b"HTTP/1.1 200 OK\r\nA: \x01\r\n\r\n", 21, Some(200)),
    (
        b"HTTP/1.1 200 OK\r\nA: 12345678\x7f0123456\r\n\r\n",
        29,
        Some(200),
    ),
    (b"HTTP/1.1 200 OK\r\nA: b\rc\r\n\r\n", 23, Some(200)),
    (b"HTTP/1.1 200 OK\r\nA: b\r\n c\0\r\n\r\n", 26, Some(200)),
    (b"HTTP/1.1 200 OK\r\nA: b\r\n\rX", 25, Some(200)),
    (
        b"HTTP/1.1 200 OK\r\nContent-Length: -5\r\n\r\n",
        39,
        Some(200),
    ),
    (
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n 0\r\n\r\n",
        42,
        Some(200),
    ),
    (
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\nContent-Length: 2\n\n",
        54,
        Some(200),
    ),
    (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
        53,
        Some(200),
    ),
    (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked, x\r\n\r\n",
        50,
        Some(200),
    ),
    (
        b"HTTP/1.1 503 No\r\nContent-Encoding: gzip\r\nContent-Length: 1\r\n\r\nx",
        62,
        Some(503),
    ),
    (
        b"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\nx",
        45,
        Some(200),
    ),
    (
        b"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n -1",
        45,
        Some(200),
    ),
    (
        b"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n1\n",
        46,
        Some(200),
    ),
    (
        b"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n1 2\r\n",
        47,
        Some(200),
    ),
    (
        b"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n1\r\nab",
        49,
        Some(200),
    ),
    (
        b"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n10000000000000000\r\n",
        61,
        Some(200),
    ),
    (
        b"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n1;\"\n\"\r\n",
        48,
        Some(200),
    ),
    (
        b"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n0\r\n b: c\r\n\r\n",
        48,
        Some(200),
    ),
];

#[test]
fn complete_responses_in_one_read() {
    for (stream, expected) in complete() {
        assert_eq!(decode(&[stream]), expected, "{}", stream.escape_ascii());
    }
}

#[test]
fn every_split_means_the_same() {
    for (stream, expected) in complete() {
        for first in 0..=stream.len() {
            let (head, rest) = stream.split_at(first);
            assert_eq!(
                decode(&[head, rest]),
                expected,
                "{} at {first}",
                stream.escape_ascii()
            );
            let (second, third) = rest.split_at(rest.len() / 2);
            assert_eq!(decode(&[head, second, third]), expected, "{first}");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(
            decode(&bytes),
            expected,
            "{} by bytes",
            stream.escape_ascii()
        );
    }
}

#[test]
fn wrong_streams_fail_at_their_first_wrong_byte() {
    for (stream, bytes, status) in WRONG {
        let whole = decode(&[stream]);
        assert_eq!(
            kind(&whole),
            Some((false, status)),
            "{}",
            stream.escape_ascii()
        );
        let known = decode(&[&stream[..bytes]]);
        assert_eq!(
            kind(&known),
            Some((false, status)),
            "{}",
            stream.escape_ascii()
        );
        let unknown = decode(&[&stream[..bytes - 1]]);
        assert_eq!(unknown.end, End::More, "{}", stream.escape_ascii());
        for first in 0..=stream.len() {
            let seen = decode(&[&stream[..first], &stream[first..]]);
            assert_eq!(seen, whole, "{} at {first}", stream.escape_ascii());
        }
        let singles: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(
            decode(&singles),
            whole,
            "{} by bytes",
            stream.escape_ascii()
        );
    }
}

#[test]
fn a_head_beyond_its_limit_is_oversize_and_not_collected() {
    let pad = |len: usize| {
        let mut head = b"HTTP/1.1 200 OK\r\nX: ".to_vec();
        head.resize(len - 4, b'x');
        head.extend_from_slice(b"\r\n\r\n");
        head
    };
    let (fits, beyond) = (pad(HEAD_BYTES_MAX), pad(HEAD_BYTES_MAX + 1));
    let many = [b"HTTP/1.1 200 OK\r\n".as_slice(), &b"A: b\r\n".repeat(90)].concat();
    let interim = b"HTTP/1.1 102 Wait\r\n\r\n".repeat(30);
    for size in [1, 2, 3, 7, 64, 10_000] {
        let reads: Vec<&[u8]> = fits.chunks(size).collect();
        assert_eq!(decode(&reads).end, End::More, "close-delimited");
        assert_eq!(
            decode(&reads).head,
            Some(Head {
                status: 200,
                content: Absent
            })
        );
        for stream in [&beyond, &many, &interim] {
            let reads: Vec<&[u8]> = stream.chunks(size).collect();
            assert_eq!(kind(&decode(&reads)), Some((true, None)), "{size}");
        }
    }
}

#[test]
fn many_fields_and_many_interim_responses() {
    let fields = "X-Many: 0123456789\r\n".repeat(140);
    let stream = format!("HTTP/1.1 200 OK\r\n{fields}Content-Length: 0\r\n\r\n");
    let mut decoder = ResponseDecoder::new(256 << 10);
    decoder.start();
    let seen = decode_with(&mut decoder, &[stream.as_bytes()]);
    assert_eq!(seen, done(200, Absent, b"", 0, true));
    for (count, expected) in [(64, None), (65, Some((false, None)))] {
        let stream = b"HTTP/1.1 102 Wait\r\n\r\n".repeat(count);
        decoder.start();
        assert_eq!(kind(&decode_with(&mut decoder, &[&stream])), expected);
    }
}

#[test]
fn chunk_lines_and_trailers_are_bounded() {
    let head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n".as_slice();
    let zeros = [head, &b"0".repeat(16 << 10), b"\r\n"].concat();
    let extension = [head, b"1;", &b"x".repeat(16 << 10)].concat();
    let trailer = |len: usize| [head, b"0\r\nA: ", &b"x".repeat(len - 7), b"\r\n\r\n"].concat();
    for size in [1, 100, 100_000] {
        for stream in [&zeros, &extension, &trailer(HEAD_BYTES_MAX + 1)] {
            let reads: Vec<&[u8]> = stream.chunks(size).collect();
            assert_eq!(kind(&decode(&reads)), Some((true, Some(200))), "{size}");
        }
        let fits = trailer(HEAD_BYTES_MAX);
        let reads: Vec<&[u8]> = fits.chunks(size).collect();
        assert_eq!(decode(&reads), done(200, Absent, b"", 0, true), "{size}");
    }
}

#[test]
fn a_line_without_carry_memory_is_oversize() {
    let mut decoder = ResponseDecoder::new(HEAD_BYTES_MAX);
    decoder.start();
    let (mut carry, mut pool) = (Carry::new(16), CarryPool::new(0));
    let mut input = &b"HTTP/1.1 200 A long reason"[..];
    let error = decoder.next(&mut input, &mut carry, &mut pool).unwrap_err();
    assert_eq!(
        error,
        HttpError {
            kind: HttpErrorKind::Oversize,
            status: None
        }
    );
    assert_eq!(pool.refused(), 1);
}

#[test]
fn the_end_of_the_connection() {
    let close = b"HTTP/1.1 200 OK\r\n\r\nbody".as_slice();
    let length = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n".as_slice();
    let chunked =
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n".as_slice();
    for (stream, by_fin, by_rst) in [
        (&b""[..], Ended::BeforeFirstByte, Ended::BeforeFirstByte),
        (b"H", Ended::Truncated, Ended::Truncated),
        (
            b"HTTP/1.1 100 Continue\r\n\r\n",
            Ended::Truncated,
            Ended::Truncated,
        ),
        (close, Ended::Complete, Ended::Truncated),
        (length, Ended::Truncated, Ended::Truncated),
        (&[length, b"ab"].concat(), Ended::Complete, Ended::Complete),
        (chunked, Ended::Truncated, Ended::Truncated),
        (
            &[chunked, b"\r\n"].concat(),
            Ended::Complete,
            Ended::Complete,
        ),
        (b"SSH", Ended::Truncated, Ended::Truncated),
    ] {
        for (fin, expected) in [(true, by_fin), (false, by_rst)] {
            let mut decoder = ResponseDecoder::new(HEAD_BYTES_MAX);
            decoder.start();
            decode_with(&mut decoder, &[stream]);
            assert_eq!(
                decoder.finish(fin),
                expected,
                "{} {fin}",
                stream.escape_ascii()
            );
            assert!(!decoder.reusable());
        }
    }
    assert_eq!(
        ResponseDecoder::new(1).finish(true),
        Ended::Complete,
        "nothing was outstanding"
    );
}

#[test]
fn responses_follow_one_another() {
    let mut decoder = ResponseDecoder::new(HEAD_BYTES_MAX);
    for (stream, expected) in complete() {
        decoder.start();
        assert!(!decoder.reusable());
        assert_eq!(decode_with(&mut decoder, &[stream]), expected);
    }
}

/// Without the words of an error.
fn wordless(mut seen: Seen) -> Seen {
    if let End::Error(HttpError {
        kind: kind @ HttpErrorKind::Malformed(_),
        ..
    }) = &mut seen.end
    {
        *kind = HttpErrorKind::Malformed("");
    }
    seen
}

#[test]
fn the_oracle_knows_the_tables() {
    for (stream, expected) in complete() {
        assert_eq!(
            oracle::decode(stream),
            expected,
            "{}",
            stream.escape_ascii()
        );
    }
    for (stream, bytes, status) in WRONG {
        assert_eq!(kind(&oracle::decode(stream)), Some((false, status)));
        assert_eq!(
            kind(&oracle::decode(&stream[..bytes])),
            Some((false, status))
        );
        assert_eq!(oracle::decode(&stream[..bytes - 1]).end, End::More);
    }
}

const STATUS_LINES: [&str; 12] = [
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.1 200 OK\r\n",
    "HTTP/1.1 200\n",
    "HTTP/1.0 200 OK\r\n",
    "HTTP/1.1 204 No Content\r\n",
    "HTTP/1.1 304 \r\n",
    "HTTP/1.1 500 A long reason\r\n",
    "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\n",
    "HTTP/1.1 103 Early\r\nLink: </a>\r\n\r\nHTTP/1.0 404 no\n",
    "HTTP/2 200\r\n",
    "HTTP/1.1 20\r\n",
];

const FIELD_LINES: [&str; 32] = [
    "Content-Length: 5\r\n",
    "Content-Length: 5\r\n",
    "content-length:5 , 5\n",
    "Content-Length: 12\r\n",
    "Content-Length: x\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: chunked\r\n",
    "Transfer-Encoding: chunked\r\n",
    "transfer-encoding:\r\n\tChunked\r\n",
    "Transfer-Encoding: gzip\r\n",
    "Transfer-Encoding:\r\n",
    "Content-Type: text/event-stream; charset=utf-8\r\n",
    "Content-Type: application/json\r\n",
    "content-type: application/a+json\r\n",
    "Content-Type: text/html\n",
    "Connection: close\r\n",
    "Connection: keep-alive\r\n",
    "Connection: a, close ,b\r\n",
    "Content-Encoding: identity\r\n",
    "Content-Encoding: gzip\r\n",
    "Date: Tue, 13 Oct 2026 10:00:00 GMT\r\n",
    "Server: uvicorn\r\n",
    "X-Folded: a\r\n b\r\n\t\r\n",
    "X-Empty:\r\n",
    "X-Tab:\ta\tb\t\r\n",
    "X-High: \u{e9}\u{1f600}\r\n",
    "X-Long: 0123456789012345678901234567890123456789012345678901234567890123456789\r\n",
    "X-Long: 0123456789012345678901234567890123456789012345678901234567890123456789\r\n",
    " X-Space: a\r\n",
    "X-Space : a\r\n",
    "X-Control: a\u{1}b\r\n",
    "NoColon\r\n",
];

const BODIES: [&str; 16] = [
    "5\r\nhello\r\n0\r\n\r\n",
    "5\r\nhello\r\n0\r\n\r\nHTTP/1.1 200 OK\r\n",
    "00A ; a=b\r\n0123456789\r\n1\r\nx\r\n0;end\r\nX-T: a\r\n b\r\n\r\n",
    "2\r\n\r\n\r\n0\r\n\n",
    "a\r\n0123456789\r\nb\r\n0123456789a\r\n",
    "5;\"q;\\\"\"\r\nhello\r\n0\r\nNo colon\r\n\r\n",
    "FFFFFFFFFFFFFFFF\r\nhello",
    "FFFFFFFFFFFFFFFFF\r\nhello",
    "5\r\nhello!\r\n0\r\n\r\n",
    "5\nhello\r\n0\r\n\r\n",
    "hello",
    "hello, world",
    "hell",
    "",
    "data: {}\n\n",
    "\r\n",
];

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn random_responses_in_random_reads_match_the_oracle(
        status in prop::sample::select(&STATUS_LINES[..]),
        fields in prop::collection::vec(prop::sample::select(&FIELD_LINES[..]), 0..6),
        body in prop::sample::select(&BODIES[..]),
        cut in any::<prop::sample::Index>(),
        cut_it in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let stream = format!("{status}{}\r\n{body}", fields.concat()).into_bytes();
        let len = if cut_it { cut.index(stream.len() + 1) } else { stream.len() };
        check(&stream[..len], &mut mutate::Rng::new(seed));
    }
}

fn check(stream: &[u8], rng: &mut mutate::Rng) {
    let whole = decode(&[stream]);
    let expected = oracle::decode(stream);
    assert_eq!(
        wordless(whole.clone()),
        expected,
        "{}",
        stream.escape_ascii()
    );
    let reads = mutate::reads(rng, stream);
    assert_eq!(
        decode(&reads),
        whole,
        "{} as {reads:?}",
        stream.escape_ascii()
    );
}

#[test]
fn mutated_responses_match_the_oracle() {
    let whole = complete();
    let corpus: Vec<&[u8]> = whole
        .iter()
        .map(|(stream, _)| *stream)
        .chain(WRONG.map(|(stream, ..)| stream))
        .collect();
    let mut tokens: Vec<&[u8]> = vec![b"\r\n", b"\n", b"\r", b" ", b"\t", b":", b"0", b";", b"\0"];
    tokens.extend(FIELD_LINES.iter().map(|line| line.as_bytes()));
    tokens.extend(STATUS_LINES.iter().map(|line| line.as_bytes()));
    mutate::rounds(100_000, |seed, rng| {
        let stream = mutate::mutated(rng, &corpus, &tokens);
        if std::panic::catch_unwind(|| check(&stream, &mut rng.clone())).is_err() {
            panic!("seed {seed}: {}", stream.escape_ascii());
        }
    });
}

/// What the decoder says of `reads` when it knows the head of `known`.
fn decode_knowing(known: &[u8], reads: &[&[u8]]) -> Seen {
    let mut familiar = FamiliarHead::new(HEAD_BYTES_MAX);
    let mut decoder = ResponseDecoder::new(HEAD_BYTES_MAX);
    let mut decode = |reads: &[&[u8]]| {
        decoder.start();
        decode_by(&mut decoder, reads, |decoder, input, carry, pool| {
            decoder.next_familiar(&mut familiar, input, carry, pool)
        })
    };
    decode(&[known]);
    decode(reads)
}

/// A head with values that may differ, for each of which there is another one.
fn with_values(length: &str, date: &str, id: &str) -> Vec<u8> {
    format!(
        "HTTP/1.1 200 OK\r\nDate: {date}\r\nContent-Length:\t{length} \r\nContent-Type: application/json\r\n\
         X-REQUEST-ID:{id}\r\n\r\n0123456789"
    )
    .into_bytes()
}

#[test]
fn familiar_heads_are_known_by_their_bytes() {
    let known = with_values("10", "Mon, 01 Jan 2024 00:00:00 GMT", "rl-1");
    let mut decoder = ResponseDecoder::new(HEAD_BYTES_MAX);
    let (mut carry, mut pool) = (Carry::new(32), CarryPool::new(2048));
    let mut familiar = FamiliarHead::new(HEAD_BYTES_MAX);
    decoder.start();
    let mut input = known.as_slice();
    let part = decoder.next_familiar(&mut familiar, &mut input, &mut carry, &mut pool);
    assert!(matches!(part, Ok(Some(Part::Head(_)))));
    for (length, date, id, is_known) in [
        ("10", "Mon, 01 Jan 2024 00:00:00 GMT", "rl-1", true),
        ("7", "Tue, 02 Jan 2024 11:22:33 GMT", "rl-2", true),
        ("0009", "Mon, 01 Jan 2024 00:00:00 GMT", "::,;", true),
        (
            "9999999999999999999",
            "Mon, 01 Jan 2024 00:00:00 GMT",
            "rl-1",
            true,
        ),
        (
            "10000000000000000000",
            "Mon, 01 Jan 2024 00:00:00 GMT",
            "rl-1",
            false,
        ),
        ("", "Mon, 01 Jan 2024 00:00:00 GMT", "rl-1", false),
        ("-1", "Mon, 01 Jan 2024 00:00:00 GMT", "rl-1", false),
        ("1,1", "Mon, 01 Jan 2024 00:00:00 GMT", "rl-1", false),
        ("10", "Mon, 1 Jan 2024 00:00:00 GMT", "rl-1", false),
        ("10", "Mon, 01 Jan 2024 00:00:00 GMT", "rl-12", false),
        ("10", "Mon, 01 Jan 2024 00:00:0\r\nA:b", "rl-1", false),
        ("10", "Mon, 01 Jan 2024 00:00:00\0GMT", "rl-1", false),
    ] {
        let head = with_values(length, date, id);
        assert_eq!(
            familiar.matches(&head).is_some(),
            is_known,
            "{length} {date} {id}"
        );
        assert_eq!(decode_knowing(&known, &[&head]), decode(&[&head]));
        let shorter = &head[..head.len() - 11];
        assert!(
            familiar.matches(shorter).is_none(),
            "the blank line is not whole"
        );
    }
    assert!(familiar.matches(complete()[0].0).is_none());
}

#[test]
fn a_familiar_head_says_what_the_parser_says_at_every_split() {
    let mut heads: Vec<Vec<u8>> = complete().iter().map(|(bytes, _)| bytes.to_vec()).collect();
    heads.extend(WRONG.iter().map(|(bytes, ..)| bytes.to_vec()));
    heads.push(with_values("10", "Mon, 01 Jan 2024 00:00:00 GMT", "rl-1"));
    heads.push(with_values("9", "Tue, 02 Jan 2024 00:00:00 GMT", "rl-2"));
    for known in &heads {
        for bytes in heads.iter().chain([known]) {
            assert_eq!(decode_knowing(known, &[bytes]), decode(&[bytes]));
        }
        for at in 0..=known.len() {
            let reads = [&known[..at], &known[at..]];
            assert_eq!(
                decode_knowing(known, &reads),
                decode(&reads),
                "split at {at}"
            );
        }
    }
}

#[test]
fn mutated_familiar_heads_say_what_the_parser_says() {
    let first = with_values("10", "Mon, 01 Jan 2024 00:00:00 GMT", "rl-1");
    let second = with_values("8", "Tue, 02 Jan 2024 00:00:00 GMT", "rl-2");
    let whole: Vec<&[u8]> = complete().iter().map(|(bytes, _)| *bytes).collect();
    let tokens: [&[u8]; 9] = [
        b"\r\n",
        b"\n",
        b" ",
        b"Content-Length: 3\r\n",
        b"Date: x\r\n",
        b"7",
        b"\t",
        b":",
        b"\0",
    ];
    mutate::rounds(3_000, |seed, rng| {
        let mut corpus: Vec<&[u8]> = vec![&first, &second];
        if rng.below(3) == 0 {
            corpus.extend(&whole);
        }
        let known = if rng.below(2) == 0 {
            rng.choose(&corpus).to_vec()
        } else {
            mutate::mutated(rng, &corpus, &tokens)
        };
        let bytes = mutate::mutated(rng, &[&known, &first], &tokens);
        let reads = if rng.below(2) == 0 {
            vec![bytes.as_slice()]
        } else {
            mutate::reads(rng, &bytes)
        };
        let (seen, want) = (decode_knowing(&known, &reads), decode(&reads));
        assert_eq!(
            seen,
            want,
            "seed {seed}: {} after {}",
            bytes.escape_ascii(),
            known.escape_ascii()
        );
    });
}
