//! Streams in memory, as servers write them: whole chunked HTTP/1.1 responses with
//! `chat.completion.chunk` events, from a seed, with the number of their events known.
//!
//! ```
//! use ridgeline_roofline::streams::{Kind, Reads, Stream};
//! let stream = Stream::new(Kind::FourTokens, 100, 1);
//! assert_eq!(stream.content_events, 100);
//! // The role, the finish reason, the usage and `[DONE]` are events too.
//! assert_eq!(stream.events, 104);
//! let reads = stream.reads(Reads::Buffers);
//! assert_eq!(reads.concat(), stream.bytes);
//! ```

use std::fmt::Write as _;

use rand_core::{Rng as _, SeedableRng as _};
use rand_pcg::Pcg64Mcg;

/// How a server writes its events.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Kind {
    /// Text, a token an event.
    OneToken,
    /// Text, four tokens an event, as with speculative decoding or a server that batches.
    FourTokens,
    /// Tool calls whose arguments come in pieces: what varies is not the content.
    ToolCalls,
    /// Text, a token an event, lines that end with CR LF.
    CrLf,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::OneToken,
        Self::FourTokens,
        Self::ToolCalls,
        Self::CrLf,
    ];

    /// As a person reads it: tokens of an event, or what else is special.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::OneToken => "1 token",
            Self::FourTokens => "4 tokens",
            Self::ToolCalls => "tool calls",
            Self::CrLf => "CRLF",
        }
    }

    /// Tokens of one content event.
    #[must_use]
    pub const fn tokens_per_event(self) -> u64 {
        match self {
            Self::OneToken | Self::ToolCalls | Self::CrLf => 1,
            Self::FourTokens => 4,
        }
    }

    const fn line_end(self) -> &'static str {
        match self {
            Self::CrLf => "\r\n",
            Self::OneToken | Self::FourTokens | Self::ToolCalls => "\n",
        }
    }
}

/// How the bytes of a stream come in.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Reads {
    /// Whole receive buffers of 64 KiB: many events a read, one of them cut at its end.
    Buffers,
    /// About 1,400 bytes, as segments of a network: a few events, the last of them cut.
    Segments,
    /// One event a read: a server that writes each event when it has it.
    Events,
}

impl Reads {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Buffers, Self::Segments, Self::Events];

    /// As a person reads it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Buffers => "64 KiB reads",
            Self::Segments => "1.4 KB reads",
            Self::Events => "1-event reads",
        }
    }
}

/// Bytes of a read that fills a receive buffer.
const BUFFER_BYTES: usize = 64 << 10;
/// Bytes of a read that a segment of a network fills, from and to.
const SEGMENT_BYTES: (usize, usize) = (1_300, 1_500);

/// Content events of one tool call.
const CALL_EVENTS: u64 = 32;

/// A whole response in memory.
#[derive(Clone, Debug)]
pub struct Stream {
    /// How it is written.
    pub kind: Kind,
    /// Head and body.
    pub bytes: Vec<u8>,
    /// Events with data, `[DONE]` among them.
    pub events: u64,
    /// Events that generate something.
    pub content_events: u64,
    /// Where each event's HTTP chunk ends; of the last one, the response.
    event_ends: Vec<usize>,
    seed: u64,
}

impl Stream {
    /// A stream of `content_events` content events. The same seed gives the same bytes.
    #[must_use]
    pub fn new(kind: Kind, content_events: u64, seed: u64) -> Self {
        let mut writer = Writer::new(kind, seed);
        let role = if kind == Kind::ToolCalls {
            r#"{"role":"assistant","content":null}"#
        } else {
            r#"{"role":"assistant","content":""}"#
        };
        writer.choice(role, "null");
        for number in 0..content_events {
            let delta = if kind == Kind::ToolCalls {
                writer.call(number, content_events)
            } else {
                writer.content()
            };
            writer.choice(&delta, "null");
        }
        let reason = if kind == Kind::ToolCalls {
            r#""tool_calls""#
        } else {
            r#""stop""#
        };
        writer.choice("{}", reason);
        writer.usage(content_events * kind.tokens_per_event());
        writer.event("[DONE]");
        writer.end(content_events, seed)
    }

    /// Cuts the stream into reads; together they are all of its bytes.
    #[must_use]
    pub fn reads(&self, reads: Reads) -> Vec<&[u8]> {
        match reads {
            Reads::Buffers => self.bytes.chunks(BUFFER_BYTES).collect(),
            Reads::Segments => self.segments(),
            Reads::Events => {
                let starts = std::iter::once(&0).chain(&self.event_ends);
                starts
                    .zip(&self.event_ends)
                    .map(|(&start, &end)| &self.bytes[start..end])
                    .collect()
            }
        }
    }

    fn segments(&self) -> Vec<&[u8]> {
        let mut dice = Pcg64Mcg::seed_from_u64(self.seed);
        let (least, most) = SEGMENT_BYTES;
        let mut rest = &self.bytes[..];
        let mut segments = Vec::with_capacity(rest.len() / least + 1);
        while !rest.is_empty() {
            let length = least + below(&mut dice, most - least + 1);
            let (segment, behind) = rest.split_at(length.min(rest.len()));
            segments.push(segment);
            rest = behind;
        }
        segments
    }
}

const HEAD: &str = "HTTP/1.1 200 OK\r\ndate: Tue, 14 Nov 2023 22:13:20 GMT\r\n\
                    server: uvicorn\r\ncache-control: no-cache\r\n\
                    content-type: text/event-stream; charset=utf-8\r\n\
                    transfer-encoding: chunked\r\n\r\n";

/// Pieces of text as a tokenizer cuts them, inside a JSON string.
const TOKENS: [&str; 24] = [
    " the",
    " sea",
    " keeps",
    " its",
    " own",
    " time",
    ",",
    " and",
    " tells",
    " no",
    "body",
    ".",
    r"\n\n",
    " Under",
    "neath",
    r#" \"deep"#,
    " currents",
    " étale",
    " 漢",
    " carry",
    " what",
    r" \u2014",
    " remains",
    " representation",
];

struct Writer {
    kind: Kind,
    dice: Pcg64Mcg,
    /// What every event begins with.
    begin: String,
    out: String,
    events: u64,
    event_ends: Vec<usize>,
}

impl Writer {
    fn new(kind: Kind, seed: u64) -> Self {
        let mut dice = Pcg64Mcg::seed_from_u64(seed);
        let id = (dice.next_u64(), dice.next_u64());
        let begin = format!(
            r#"{{"id":"chatcmpl-{:016x}{:016x}","object":"chat.completion.chunk","created":1700000000,"model":"meta-llama/Llama-3.1-8B-Instruct""#,
            id.0, id.1
        );
        Self {
            kind,
            dice,
            begin,
            out: HEAD.to_owned(),
            events: 0,
            event_ends: Vec::new(),
        }
    }

    fn token(&mut self) -> &'static str {
        TOKENS[below(&mut self.dice, TOKENS.len())]
    }

    fn content(&mut self) -> String {
        let mut delta = String::from(r#"{"content":""#);
        for _ in 0..self.kind.tokens_per_event() {
            delta.push_str(self.token());
        }
        delta.push_str(r#""}"#);
        delta
    }

    /// Piece `number` of the calls: the first of a call names it, the others bring its arguments.
    fn call(&mut self, number: u64, of: u64) -> String {
        let (index, place) = (number / CALL_EVENTS, number % CALL_EVENTS);
        if place == 0 {
            let id = self.dice.next_u64();
            return format!(
                r#"{{"tool_calls":[{{"index":{index},"id":"call_{id:016x}","type":"function","function":{{"name":"look_up","arguments":"{{\"query\": \""}}}}]}}"#
            );
        }
        let last = place == CALL_EVENTS - 1 || number + 1 == of;
        // A token that ends no string inside the arguments.
        let piece = if last {
            r#"\"}"#
        } else {
            TOKENS[below(&mut self.dice, 12)]
        };
        format!(r#"{{"tool_calls":[{{"index":{index},"function":{{"arguments":"{piece}"}}}}]}}"#)
    }

    fn choice(&mut self, delta: &str, finish: &str) {
        let begin = &self.begin;
        let data = format!(
            r#"{begin},"choices":[{{"index":0,"delta":{delta},"logprobs":null,"finish_reason":{finish}}}]}}"#
        );
        self.event(&data);
    }

    fn usage(&mut self, tokens: u64) {
        let (begin, total) = (&self.begin, tokens + 16);
        let data = format!(
            r#"{begin},"choices":[],"usage":{{"prompt_tokens":16,"total_tokens":{total},"completion_tokens":{tokens}}}}}"#
        );
        self.event(&data);
    }

    fn event(&mut self, data: &str) {
        let line_end = self.kind.line_end();
        let length = "data: ".len() + data.len() + 2 * line_end.len();
        write!(
            self.out,
            "{length:x}\r\ndata: {data}{line_end}{line_end}\r\n"
        )
        .expect("memory takes it");
        self.events += 1;
        self.event_ends.push(self.out.len());
    }

    fn end(mut self, content_events: u64, seed: u64) -> Stream {
        self.out.push_str("0\r\n\r\n");
        if let Some(last) = self.event_ends.last_mut() {
            *last = self.out.len();
        }
        Stream {
            kind: self.kind,
            bytes: self.out.into_bytes(),
            events: self.events,
            content_events,
            event_ends: self.event_ends,
            seed,
        }
    }
}

/// Uniform, `0..bound`, for bounds far below 2^32.
fn below(dice: &mut Pcg64Mcg, bound: usize) -> usize {
    let product = u128::from(dice.next_u64()) * bound as u128;
    usize::try_from(product >> 64).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::passes::reading::{Parsing, Reader};

    /// The body of a chunked response, byte by byte as RFC 9112 says.
    fn dechunked(mut body: &str) -> String {
        let mut out = String::new();
        loop {
            let (line, data) = body.split_once("\r\n").unwrap();
            let size = usize::from_str_radix(line, 16).unwrap();
            assert_eq!(&data[size..size + 2], "\r\n");
            if size == 0 {
                assert_eq!(data.len(), 2, "nothing after the last chunk");
                return out;
            }
            out.push_str(&data[..size]);
            body = &data[size + 2..];
        }
    }

    /// The data of every event, read as plainly as can be.
    fn events(stream: &Stream) -> Vec<String> {
        let text = str::from_utf8(&stream.bytes).unwrap();
        let (_, body) = text.split_once("\r\n\r\n").unwrap();
        dechunked(body)
            .replace("\r\n", "\n")
            .split_terminator("\n\n")
            .map(|event| event.strip_prefix("data: ").unwrap().to_owned())
            .collect()
    }

    fn says_something(event: &Value) -> bool {
        let delta = &event["choices"][0]["delta"];
        let content = delta["content"].as_str().unwrap_or_default();
        let call = &delta["tool_calls"][0]["function"]["arguments"];
        !content.is_empty() || !call.as_str().unwrap_or_default().is_empty()
    }

    #[test]
    fn the_counts_are_those_that_a_plain_reader_finds() {
        for (kind, count) in Kind::ALL
            .into_iter()
            .flat_map(|kind| [(kind, 0), (kind, 77)])
        {
            let stream = Stream::new(kind, count, 5);
            let found = events(&stream);
            assert_eq!(found.len() as u64, stream.events);
            assert_eq!(found.last().unwrap(), "[DONE]");
            let parsed: Vec<Value> = found[..found.len() - 1]
                .iter()
                .map(|event| serde_json::from_str(event).unwrap())
                .collect();
            let content = parsed.iter().filter(|event| says_something(event)).count();
            assert_eq!(content as u64, count, "{kind:?}");
            let usage = &parsed.last().unwrap()["usage"]["completion_tokens"];
            assert_eq!(usage.as_u64(), Some(count * kind.tokens_per_event()));
        }
    }

    #[test]
    fn the_arguments_of_each_call_are_json() {
        let stream = Stream::new(Kind::ToolCalls, 100, 9);
        let mut calls = vec![String::new(); 4];
        for event in &events(&stream)[..101] {
            let event: Value = serde_json::from_str(event).unwrap();
            let call = &event["choices"][0]["delta"]["tool_calls"][0];
            if let Some(index) = call["index"].as_u64() {
                let index = usize::try_from(index).unwrap();
                calls[index].push_str(call["function"]["arguments"].as_str().unwrap());
            }
        }
        for call in calls {
            let arguments: Value = serde_json::from_str(&call).unwrap();
            assert!(arguments["query"].is_string(), "{call}");
        }
    }

    #[test]
    fn reads_are_cut_as_they_say_and_lose_nothing() {
        let stream = Stream::new(Kind::CrLf, 500, 3);
        for reads in Reads::ALL {
            assert_eq!(stream.reads(reads).concat(), stream.bytes, "{reads:?}");
        }
        assert_eq!(stream.reads(Reads::Events).len() as u64, stream.events);
        let segments = stream.reads(Reads::Segments);
        let (_, whole) = segments.split_last().unwrap();
        assert!(
            whole
                .iter()
                .all(|read| (1_300..=1_500).contains(&read.len()))
        );
        let buffers = stream.reads(Reads::Buffers);
        assert!(buffers[0].len() == BUFFER_BYTES && buffers.len() > 1);
    }

    #[test]
    fn the_engines_reader_finds_the_same_in_every_way_of_reading() {
        for kind in Kind::ALL {
            let stream = Stream::new(kind, 400, 11);
            for (reads, parsing) in Reads::ALL
                .into_iter()
                .flat_map(|reads| [(reads, Parsing::Fast), (reads, Parsing::Full)])
            {
                let mut reader = Reader::new(parsing);
                // Twice: a reader is used again.
                for _ in 0..2 {
                    assert_eq!(reader.read(&stream.reads(reads)), stream.content_events);
                }
            }
        }
    }

    #[test]
    fn a_seed_gives_one_stream() {
        let stream = |seed| Stream::new(Kind::OneToken, 50, seed).bytes;
        assert_eq!(stream(1), stream(1));
        assert_ne!(stream(1), stream(2));
    }
}
