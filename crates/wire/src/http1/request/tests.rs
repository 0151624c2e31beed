//! The decoder against tables, against itself under every split, and against an oracle that sees
//! the whole stream at once.

mod oracle;

use proptest::prelude::*;

use super::*;
use crate::http1::oracle::text;
use crate::mutate;

/// One request with all that matters of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Request {
    method: String,
    target: String,
    fields: Vec<(String, String)>,
    content_length: Option<u64>,
    keep_alive: bool,
    http10: bool,
    expect_continue: bool,
    body: Vec<u8>,
    complete: bool,
}

/// Everything that a stream makes the decoder say, splits forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Seen {
    requests: Vec<Request>,
    end: End,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum End {
    /// More bytes are needed. `idle`: none of a request had come.
    #[default]
    More,
    Idle,
    /// The last request closes; this many bytes are not read.
    Closed(usize),
    /// The status to answer.
    Refused(u16),
}

const HEAD_BYTES_MAX: usize = 300;
const BODY_BYTES_MAX: u64 = 20;

fn decode(reads: &[&[u8]]) -> Seen {
    let mut decoder = RequestDecoder::new(HEAD_BYTES_MAX, BODY_BYTES_MAX);
    let (mut carry, mut pool) = (Carry::new(32), CarryPool::new(2048));
    let mut seen = Seen::default();
    for (index, read) in reads.iter().enumerate() {
        let mut input = *read;
        loop {
            let before = input.len();
            match decoder.next(&mut input, &mut carry, &mut pool) {
                Ok(Some(RequestPart::Head(head))) => {
                    assert!(input.len() < before);
                    seen.requests.push(owned(&head));
                }
                Ok(Some(RequestPart::Data(data))) => {
                    assert!(!data.is_empty() && input.len() < before);
                    let (lent, whole) = (data.as_ptr_range(), read.as_ptr_range());
                    assert!(
                        whole.start <= lent.start && lent.end <= whole.end,
                        "lent, not copied"
                    );
                    seen.requests
                        .last_mut()
                        .unwrap()
                        .body
                        .extend_from_slice(data);
                }
                Ok(Some(RequestPart::End)) => seen.requests.last_mut().unwrap().complete = true,
                Ok(None) if seen.requests.last().is_some_and(closed) => {
                    let left = input.len() + reads[index + 1..].concat().len();
                    seen.end = End::Closed(left);
                    assert!(decoder.idle());
                    return seen;
                }
                Ok(None) => break assert!(input.is_empty()),
                Err(error) => {
                    seen.end = End::Refused(error.status);
                    let again = decoder.next(&mut input, &mut carry, &mut pool).map(|_| ());
                    assert!(again == Err(error) && !decoder.idle());
                    return seen;
                }
            }
        }
        assert!(carry.len() <= HEAD_BYTES_MAX && pool.held_bytes() <= 2048);
    }
    seen.end = if decoder.idle() { End::Idle } else { End::More };
    seen
}

fn closed(request: &Request) -> bool {
    request.complete && !request.keep_alive
}

fn owned(head: &RequestHead<'_>) -> Request {
    let fields: Vec<_> = head
        .fields()
        .map(|(name, value)| (text(name).to_lowercase(), text(value)))
        .collect();
    for (name, _) in &fields {
        let first = fields
            .iter()
            .find(|field| field.0 == *name)
            .map(|field| &field.1);
        let upper = name.to_ascii_uppercase();
        assert_eq!(head.field(upper.as_bytes()).map(text).as_ref(), first);
    }
    assert_eq!(head.field(b"x-absent"), None);
    Request {
        method: text(head.method),
        target: text(head.target),
        fields,
        content_length: head.content_length,
        keep_alive: head.keep_alive,
        http10: head.http10,
        expect_continue: head.expect_continue,
        ..Request::default()
    }
}

/// How much of a body beyond its limit was handed out before depends on the reads.
fn comparable(mut seen: Seen) -> Seen {
    if seen.end == End::Refused(413)
        && let Some(last) = seen.requests.last_mut()
        && !last.complete
    {
        last.body.clear();
    }
    seen
}

const STREAMS: [&[u8]; 44] = [
    b"POST /v1/chat/completions HTTP/1.1\r\nHost: h:1\r\nContent-Length: 2\r\n\r\n{}",
    b"GET / HTTP/1.1\r\nHost:\r\n\r\nGET /b?c HTTP/1.1\nhost: x\n\nPOST /c HTTP/1.1\r\nHOST: y\r\n\r\n",
    b"\r\n\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n\r\n\r\n\r\n\r\n",
    b"\r\n\r\n\r\n\r\n\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3;x=\"y;\"\r\nabc\r\n0\r\nT: a\r\n\r\nGET",
    b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n15\r\n0123456789abcdef01234\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n14\r\n0123456789abcdef0123\r\n0\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n",
    b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 21\r\n\r\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 20\r\nX-Id: \t7 \r\n\r\n0123456789abcdef0123",
    b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\nx",
    b"POST / HTTP/1.1\r\nHost: h\r\nExpect: 100-continue\r\n\r\n",
    b"POST / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\nx",
    b"POST / HTTP/1.1\r\nHost: h\r\nExpect: tea\r\n\r\n",
    b"GET / HTTP/1.0\r\n\r\nGET / HTTP/1.0\r\n\r\n",
    b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\nGET / HTTP/1.0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: h\r\nConnection: close\r\n\r\nrest",
    b"GET / HTTP/1.1\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n",
    b"GET / HTTP/2.0\r\nHost: a\r\n\r\n",
    b"GET / HTTP/1\r\n",
    b"GET / HTTPS/1.1\r\n",
    b"GET /\r\n",
    b"GET  / HTTP/1.1\r\n",
    b"GET /a b HTTP/1.1\r\n",
    b"GET /\xe9 HTTP/1.1\r\n",
    b"GET\t/ HTTP/1.1\r\n",
    b"GET\r\n",
    b" GET / HTTP/1.1\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEF / HTTP/1.9\r\nHost: h\r\n\r\n",
    b"ABCDEFGHIJKLMNOPQRSTUVWXYZABCDEFG / HTTP/1.1\r\nHost: h\r\n\r\n",
    b"GET / HTTP/1.1\rHost: h\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: h\r\n folded\r\n\r\n",
    b"GET / HTTP/1.1\r\n Host: h\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost : h\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost: h\0\r\n\r\n",
    b"GET / HTTP/1.1\r\nHost\r\n\r\n",
    b"POST http://h/v1 HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\nX-Mock-Fault: a:b\r\nX-Mock-Fault: c\r\n\r\nabc",
];

#[test]
fn what_some_streams_mean() {
    for (stream, requests, end) in [
        (0, 1, End::Idle),
        (1, 3, End::Idle),
        (2, 1, End::Idle),
        (3, 0, End::Refused(400)),
        (4, 1, End::More),
        (5, 1, End::Refused(413)),
        (6, 1, End::Idle),
        (7, 0, End::Refused(501)),
        (8, 0, End::Refused(400)),
        (10, 0, End::Refused(400)),
        (13, 0, End::Refused(413)),
        (18, 0, End::Refused(417)),
        (19, 1, End::Closed(18)),
        (20, 2, End::Closed(0)),
        (21, 1, End::Closed(4)),
        (22, 0, End::Refused(400)),
        (24, 0, End::Refused(505)),
        (34, 0, End::Refused(400)),
        (35, 1, End::Idle),
        (36, 0, End::Refused(400)),
        (38, 0, End::Refused(400)),
    ] {
        let stream = STREAMS[stream];
        let seen = decode(&[stream]);
        assert_eq!(
            (seen.requests.len(), seen.end),
            (requests, end),
            "{}",
            stream.escape_ascii()
        );
    }
    let last = decode(&[STREAMS[43]]).requests.remove(0);
    assert_eq!(
        (last.method.as_str(), last.target.as_str()),
        ("POST", "http://h/v1")
    );
    assert_eq!(
        last.fields[2],
        ("x-mock-fault".to_owned(), "a:b".to_owned())
    );
    assert_eq!(last.body, b"abc");
    assert!(decode(&[STREAMS[15]]).requests[0].expect_continue);
}

#[test]
fn every_split_and_prefix_means_what_the_oracle_says() {
    for stream in STREAMS {
        let whole = comparable(decode(&[stream]));
        for len in 0..=stream.len() {
            let (head, rest) = stream.split_at(len);
            assert_eq!(
                comparable(decode(&[head])),
                comparable(oracle::decode(head)),
                "{}",
                head.escape_ascii()
            );
            assert_eq!(
                comparable(decode(&[head, rest])),
                whole,
                "{} at {len}",
                stream.escape_ascii()
            );
            let (second, third) = rest.split_at(rest.len() / 2);
            assert_eq!(comparable(decode(&[head, second, third])), whole, "{len}");
        }
        let bytes: Vec<&[u8]> = stream.chunks(1).collect();
        assert_eq!(
            comparable(decode(&bytes)),
            whole,
            "{} by bytes",
            stream.escape_ascii()
        );
    }
}

#[test]
fn heads_beyond_their_limit_are_refused() {
    let head = |target: usize, value: usize| {
        let (target, value) = ("a".repeat(target), "v".repeat(value));
        format!("GET /{target} HTTP/1.1\r\nHost: h\r\nX: {value}\r\n\r\n").into_bytes()
    };
    let fixed = head(0, 0).len();
    for (stream, end) in [
        (head(100, HEAD_BYTES_MAX - fixed - 100), End::Idle),
        (head(100, HEAD_BYTES_MAX - fixed - 99), End::Refused(431)),
        (head(HEAD_BYTES_MAX, 0), End::Refused(414)),
        (b"GET /".repeat(1000), End::Refused(414)),
        (
            [b"GET / HTTP/1.1\r\n".to_vec(), b"A: b\r\n".repeat(1000)].concat(),
            End::Refused(431),
        ),
    ] {
        assert_eq!(oracle::decode(&stream).end, end);
        for size in [1, 3, 10, 100, 10_000] {
            let reads: Vec<&[u8]> = stream.chunks(size).collect();
            assert_eq!(decode(&reads).end, end, "{size}");
        }
    }
}

#[test]
fn a_head_in_one_read_is_lent_and_copies_nothing() {
    let (mut carry, mut pool) = (Carry::new(8), CarryPool::new(0));
    let mut decoder = RequestDecoder::new(HEAD_BYTES_MAX, BODY_BYTES_MAX);
    let stream = STREAMS[0];
    let mut input = stream;
    let Some(RequestPart::Head(head)) = decoder.next(&mut input, &mut carry, &mut pool).unwrap()
    else {
        panic!("a head");
    };
    assert!(stream.as_ptr_range().contains(&head.target.as_ptr()));
    assert_eq!(pool.copies(), 0);
}

const TOKENS: [&[u8]; 24] = [
    b"\r\n",
    b"\n",
    b"\r",
    b" ",
    b"\t",
    b":",
    b"0",
    b";",
    b"\0",
    b"GET / HTTP/1.1\r\n",
    b"POST /x HTTP/1.0\r\n",
    b"Host: h\r\n",
    b"Content-Length: 5\r\n",
    b"Content-Length: 0\r\n",
    b"Transfer-Encoding: chunked\r\n",
    b"Transfer-Encoding: gzip\r\n",
    b"Connection: close\r\n",
    b"Connection: keep-alive\r\n",
    b"Expect: 100-continue\r\n",
    b"X-Id: 0123456789\r\n",
    b"5\r\nhello\r\n",
    b"0\r\n\r\n",
    b"hello",
    b" fold\r\n",
];

fn check(stream: &[u8], rng: &mut mutate::Rng) {
    let whole = comparable(decode(&[stream]));
    assert_eq!(
        whole,
        comparable(oracle::decode(stream)),
        "{}",
        stream.escape_ascii()
    );
    let reads = mutate::reads(rng, stream);
    assert_eq!(
        comparable(decode(&reads)),
        whole,
        "{} as {reads:?}",
        stream.escape_ascii()
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn random_requests_in_random_reads_match_the_oracle(
        pieces in prop::collection::vec(prop::sample::select(&TOKENS[9..]), 0..12),
        seed in any::<u64>(),
    ) {
        let stream = [&b"POST / HTTP/1.1\r\nHost: h\r\n"[..], &pieces.concat()].concat();
        check(&stream, &mut mutate::Rng::new(seed));
    }
}

#[test]
fn mutated_requests_match_the_oracle() {
    mutate::rounds(100_000, |seed, rng| {
        let stream = mutate::mutated(rng, &STREAMS, &TOKENS);
        if std::panic::catch_unwind(|| check(&stream, &mut rng.clone())).is_err() {
            panic!("seed {seed}: {}", stream.escape_ascii());
        }
    });
}
