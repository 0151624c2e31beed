//! Whole responses made from a seed, sound and damaged: with and without the fast path, in one read
//! and in many, the outcome is the same; and whatever the bytes are, nothing panics, nothing hangs
//! and nothing grows beyond its limit.
//!
//! `RIDGELINE_MUTATE_SECS` lets the mutation go on for that many seconds.

#[path = "../../../tests/replay/mod.rs"]
mod replay;

use ridgeline_clock::{Arrival, Clock, MonotonicClock, Nanos};
use ridgeline_wire::carry::{Carry, CarryPool};
use ridgeline_wire::exchange::{
    Answer, Asked, ContentEvent, Exchange, ExchangeLimits, Observer, Progress, Saved, Shared,
};
use ridgeline_wire::http1::ResponseDecoder;
use ridgeline_wire::openai::{Chunk, EndpointType};
use ridgeline_wire::sse::Scanner;

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as usize % n.max(1)
    }

    fn one<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }
}

/// What came of a response, told apart from how it was read.
#[derive(Debug, PartialEq)]
struct Outcome {
    answer: Answer,
    saved: Box<Saved>,
    events: Vec<ContentEvent>,
    progress: Progress,
}

struct Seen(Vec<ContentEvent>);

impl Observer for Seen {
    fn content(&mut self, event: ContentEvent) {
        self.0.push(event);
    }
}

const POOL_BYTES: usize = 1 << 20;
const EVENT_BYTES: usize = 64 << 10;

/// Reads `bytes` in pieces of the lengths that `cut` gives. Every read has the same time, so that
/// outcomes compare.
fn play(
    asked: Asked,
    template_bytes_max: usize,
    bytes: &[u8],
    mut cut: impl FnMut() -> usize,
) -> Outcome {
    let (mut carry, mut shared) = (Carry::new(32), Shared::new(POOL_BYTES, template_bytes_max));
    let mut http = ResponseDecoder::new(16 << 10);
    let limits = ExchangeLimits {
        event_bytes_max: EVENT_BYTES,
        template_bytes_max,
        body_bytes_max: EVENT_BYTES,
    };
    let mut exchange = Exchange::new(&limits);
    exchange.begin(asked);
    http.start();
    let arrival = Arrival::reaped(Nanos(7));
    let (mut progress, mut rest, mut seen) = (Progress::More, bytes, Seen(Vec::new()));
    while progress == Progress::More && !rest.is_empty() {
        let (read, later) = rest.split_at(cut().clamp(1, rest.len()));
        progress = exchange.received(&mut http, &mut carry, &mut shared, read, arrival, &mut seen);
        rest = later;
    }
    if progress == Progress::More {
        exchange.ended(&mut http, &mut carry, &mut shared, true, arrival, &mut seen);
    } else if !rest.is_empty() {
        // Bytes that a longer read would have shown to be left over.
        progress = Progress::Done { reusable: false };
    }
    assert!(carry.is_empty());
    assert!(shared.pool.held_bytes() <= POOL_BYTES);
    let answer = exchange.answer().clone();
    assert_eq!(answer.content_events as usize, seen.0.len());
    assert!(answer.received_bytes <= bytes.len() as u64);
    assert!(answer.done.is_some());
    assert!(
        answer
            .failure
            .as_ref()
            .is_none_or(|failure| failure.message.len() < 2_000)
    );
    let saved = exchange.take_saved().expect("text was to be saved");
    Outcome {
        answer,
        saved,
        events: seen.0,
        progress,
    }
}

/// The same but for what depends on the reads: how many bytes were taken before it was over, and
/// the words of a failure about a body of which only the start was kept.
fn comparable(mut outcome: Outcome) -> Outcome {
    outcome.answer.received_bytes = 0;
    outcome
}

fn asked(random: &mut Random) -> Asked {
    let endpoint = random.one(&[
        EndpointType::Chat,
        EndpointType::Chat,
        EndpointType::Completions,
    ]);
    Asked {
        endpoint,
        streaming: random.below(8) != 0,
        save_text: true,
    }
}

/// A stream as servers send them: most events differ from the one before in their text alone.
fn stream(random: &mut Random, endpoint: EndpointType) -> Vec<u8> {
    let eol = random.one(&["\n", "\n", "\n", "\r\n", "\r"]);
    let chat = endpoint == EndpointType::Chat;
    let mut events = String::new();
    let mut shape = random.below(6);
    for number in 0..random.below(12) {
        if random.below(6) == 0 {
            shape = random.below(9);
        }
        let text = text(random);
        let body = if chat {
            format!("\"delta\":{{\"content\":\"{text}\"}}")
        } else {
            format!("\"text\":\"{text}\"")
        };
        let data = data(random, shape, number, &body, &text);
        let before = random.one(&[
            "",
            "",
            "",
            "",
            ": ping\n\n",
            "id: 1\n",
            "event: message\n",
            "event: x\n",
            "retry: 3\n\n",
        ]);
        events += &before.replace('\n', eol);
        events += &format!(
            "data: {data}{}{eol}{eol}",
            random
                .one(&["", "", "", "", "\nid: 7", "\ndata: "])
                .replace('\n', eol)
        );
    }
    if random.below(4) != 0 {
        let reason = if chat {
            "\"delta\":{}"
        } else {
            "\"text\":\"\""
        };
        events +=
            &format!("data: {{\"choices\":[{{{reason},\"finish_reason\":\"stop\"}}]}}{eol}{eol}");
    }
    if random.below(4) != 0 {
        events += &format!("data: [DONE]{eol}{eol}");
    }
    events.into_bytes()
}

/// The data of one event; `body` says `text` as the endpoint's choices do.
fn data(random: &mut Random, shape: usize, number: usize, body: &str, text: &str) -> String {
    match shape {
        0..=3 => {
            format!("{{\"id\":\"x\",\"choices\":[{{\"index\":0,{body},\"finish_reason\":null}}]}}")
        }
        4 => format!(
            "{{\"choices\":[{{\"delta\":{{\"reasoning_content\":\"{text}\",\"content\":null}}}}]}}"
        ),
        5 => {
            format!(
                "{{\"choices\":[{{{body}}}],\"usage\":{{\"completion_tokens\":{}}}}}",
                number / 2
            )
        }
        6 => format!("{{\"choices\":[{{\"index\":1,{body}}},{{{body}}},{{{body}}}]}}"),
        7 => format!(
            "{{\"choices\":[{{\"delta\":{{\"tool_calls\":[{{\"index\":{},\"function\":{{\"arguments\":\"{text}\"}}}}]}}}}]}}",
            number % 3
        ),
        _ => random
            .one(&[
                "{\"choices\":[],\"usage\":{\"completion_tokens\":3}}",
                "[]",
                "{\"error\":null}",
                " ",
            ])
            .to_owned(),
    }
}

fn text(random: &mut Random) -> String {
    let pieces = [
        "a",
        " tok",
        "é",
        "日本語",
        "\\n",
        "\\\"",
        "\\ud83d\\ude00",
        "data: ",
        "}}]}",
        "[DONE]",
    ];
    (0..random.below(4)).map(|_| random.one(&pieces)).collect()
}

fn response(random: &mut Random, body: &[u8]) -> Vec<u8> {
    let kind = random.one(&[
        "Content-Type: text/event-stream\r\n",
        "Content-Type: text/event-stream\r\n",
        "",
        "Content-Type: text/plain\r\n",
    ]);
    let mut bytes = format!("HTTP/1.1 200 OK\r\n{kind}").into_bytes();
    if random.below(3) == 0 {
        bytes.extend(format!("Content-Length: {}\r\n\r\n", body.len()).bytes());
        bytes.extend_from_slice(body);
        return bytes;
    }
    bytes.extend_from_slice(b"Transfer-Encoding: chunked\r\n\r\n");
    let whole_events = random.below(2) == 0;
    let mut rest = body;
    while !rest.is_empty() {
        let end = rest
            .windows(2)
            .position(|pair| pair == b"\n\n")
            .map_or(rest.len(), |at| at + 2);
        let len = if whole_events {
            end
        } else {
            (1 + random.below(200)).min(rest.len())
        };
        bytes.extend(format!("{len:x}\r\n").bytes());
        bytes.extend_from_slice(&rest[..len]);
        bytes.extend_from_slice(b"\r\n");
        rest = &rest[len..];
    }
    bytes.extend_from_slice(b"0\r\n\r\n");
    bytes
}

/// A few bytes changed, lost, put in, or taken from elsewhere in the same bytes.
fn mutate(random: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..1 + random.below(4) {
        if bytes.is_empty() {
            return;
        }
        let at = random.below(bytes.len());
        match random.below(6) {
            0 => bytes[at] = u8::try_from(random.below(256)).unwrap_or(0),
            1 => bytes[at] = random.one(b"\"\\{}[]:,\r\n \x00\x7f\xff0123456789abcdefnulE-+."),
            2 => bytes.insert(at, random.one(b"\"\\{}[]:,\r\n \x00\xc3\x1f0")),
            3 => drop(bytes.remove(at)),
            4 => bytes.truncate(at),
            _ => {
                let end = (at + random.below(60)).min(bytes.len());
                let piece = bytes[at..end].to_vec();
                let place = random.below(bytes.len());
                bytes.splice(place..place, piece);
            }
        }
    }
}

/// One read without the fast path is the reference; others must tell the same.
fn check(random: &mut Random, bytes: &[u8]) {
    let asked = asked(random);
    let reference = comparable(play(asked, 0, bytes, || usize::MAX));
    let fast = comparable(play(asked, 1024, bytes, || usize::MAX));
    assert_eq!(fast, reference, "{:?}", String::from_utf8_lossy(bytes));
    let most = random.one(&[1, 3, 17, 100, 1000]);
    let cut = comparable(play(asked, 1024, bytes, || 1 + random.below(most)));
    assert_eq!(
        cut,
        reference,
        "in pieces of {most}: {:?}",
        String::from_utf8_lossy(bytes)
    );
}

#[test]
fn the_fast_path_and_the_reads_change_nothing() {
    for seed in 1..4_000 {
        let mut random = Random(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(seed));
        let endpoint = random.one(&[EndpointType::Chat, EndpointType::Completions]);
        let body = stream(&mut random, endpoint);
        let bytes = response(&mut random, &body);
        check(&mut random, &bytes);
    }
}

#[test]
fn mutated_streams_and_cases_change_nothing_either() {
    let secs = std::env::var("RIDGELINE_MUTATE_SECS")
        .ok()
        .and_then(|secs| secs.parse().ok());
    let end = MonotonicClock.now() + Nanos::from_secs(secs.unwrap_or(0));
    let cases: Vec<Vec<u8>> = replay::cases().iter().map(first_response).collect();
    // A number of rounds at least, so that what is tested does not depend on the machine.
    let mut seed = 0;
    while seed < 4_000 || MonotonicClock.now() < end {
        seed += 1;
        let mut random = Random(0xd134_2543_de82_ef95_u64.wrapping_mul(seed));
        let mut bytes = if random.below(2) == 0 {
            let endpoint = random.one(&[EndpointType::Chat, EndpointType::Completions]);
            let body = stream(&mut random, endpoint);
            response(&mut random, &body)
        } else {
            cases[random.below(cases.len())].clone()
        };
        mutate(&mut random, &mut bytes);
        check(&mut random, &bytes);
        // Without a response around it: every damage reaches the scanner and the parser.
        let (mut scanner, mut carry) = (Scanner::new(1 << 16), Carry::new(32));
        let (mut pool, mut rest) = (CarryPool::new(POOL_BYTES), bytes.as_slice());
        while let Ok(Some(event)) = scanner.next(&mut rest, &mut carry, &mut pool) {
            let _ = Chunk::parse(EndpointType::Chat, event.data);
        }
        let _ = Chunk::parse(EndpointType::Chat, &bytes);
    }
}

/// The bytes of a case's first script, as far as they are few.
fn first_response(case: &replay::Case) -> Vec<u8> {
    let sent = case.scripts[0].iter().map_while(|op| match op {
        replay::Op::Send { bytes, .. } => Some(bytes.as_slice()),
        replay::Op::Sleep { .. } => Some(&[]),
        _ => None,
    });
    let mut bytes = sent.collect::<Vec<_>>().concat();
    bytes.truncate(20_000);
    bytes
}
