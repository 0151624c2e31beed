//! Every dialect says every answer in every endpoint, and two readers must hear what it is: the
//! project's own decoder, and a naive one that leans on `serde_json`.

mod golden;
mod naive;
mod responses;

use std::rc::Rc;

use clap::ValueEnum;
use ridgeline_clock::{Arrival, Nanos};
use ridgeline_wire::carry::Carry;
use ridgeline_wire::exchange::{Asked, Exchange, ExchangeLimits, Progress, Shared};
use ridgeline_wire::http1::ResponseDecoder;
use ridgeline_wire::openai::EndpointType;

use super::{Content, Dialect, Framing, Reply, Stamp, Telling, Voice, head};
use crate::answer::{Answer, Call, Endpoint, Finish, Output, Part, Step, Text, Tokens, Walk};
use crate::id::Id;
use crate::refusal::Advice;

/// A name that stands in JSON, and in templates, only with care.
const MODEL: &str = "m\"$id@1";

/// What a reader makes of a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Heard {
    text: String,
    reasoning: String,
    /// Id, name and arguments.
    calls: Vec<[String; 3]>,
    finish: Option<String>,
    prompt: Option<u32>,
    completion: Option<u32>,
    reasoning_tokens: Option<u32>,
    cached: Option<u32>,
    content_events: u32,
}

/// A text in tokens of `size` characters each.
fn tokens(text: &str, size: usize) -> Text {
    let ends: Vec<u32> = text
        .char_indices()
        .map(|(at, letter)| u32::try_from(at + letter.len_utf8()).unwrap())
        .enumerate()
        .filter(|(index, end)| (index + 1) % size == 0 || *end as usize == text.len())
        .map(|(_, end)| end)
        .collect();
    let count = u32::try_from(ends.len()).unwrap();
    let tokens = Tokens {
        text: text.into(),
        ends: ends.into(),
    };
    Text::of(Rc::new(tokens), count)
}

fn call(id: &str, name: &str, arguments: &str) -> Call {
    Call {
        id: id.into(),
        name: name.into(),
        name_tokens: 1,
        arguments: tokens(arguments, 4),
    }
}

fn plain(endpoint: Endpoint) -> Answer {
    Answer {
        endpoint,
        stream: true,
        include_usage: true,
        continuous_usage: false,
        prompt_tokens: 9,
        cached_tokens: 0,
        logprobs: None,
        outputs: [Output::words(0, 0, 5, Finish::Length)].into(),
    }
}

/// Text that looks like the protocol, and letters of every length.
const ODD: &str = "data: [DONE]\n\ndata: \"content\":\"x\\\" {\"error\":1}\u{1} naïve 日本 🚀 \"finish_reason\":\"length\"}]}";

/// Answers with every feature that `endpoint` has.
fn answers(endpoint: Endpoint) -> Vec<(&'static str, Answer)> {
    let base = plain(endpoint);
    let with = |output: Output| Answer {
        outputs: [output].into(),
        ..base.clone()
    };
    let mut answers = vec![
        ("plain", base.clone()),
        (
            "no usage",
            Answer {
                include_usage: false,
                ..base.clone()
            },
        ),
        (
            "usage so far",
            Answer {
                continuous_usage: true,
                cached_tokens: 4,
                ..base.clone()
            },
        ),
        (
            "logprobs",
            Answer {
                logprobs: Some(2),
                ..base.clone()
            },
        ),
        (
            "odd text",
            with(Output {
                text: tokens(ODD, 3),
                stop_reason: Some("\"}".into()),
                ..Output::words(0, 0, 0, Finish::Stop)
            }),
        ),
        (
            "two choices",
            Answer {
                outputs: [
                    Output::words(0, 0, 4, Finish::Stop),
                    Output::words(9, 0, 7, Finish::Length),
                ]
                .into(),
                ..base.clone()
            },
        ),
    ];
    if endpoint != Endpoint::Completions {
        answers.extend(of_more_than_text(&base));
    }
    answers
}

/// Reasoning, tool calls, and both with text and without.
fn of_more_than_text(base: &Answer) -> [(&'static str, Answer); 4] {
    let with = |output: Output| Answer {
        outputs: [output].into(),
        ..base.clone()
    };
    [
        (
            "reasoning",
            Answer {
                cached_tokens: 8,
                ..with(Output::words(0, 4, 3, Finish::Stop))
            },
        ),
        (
            "reasoning alone",
            with(Output::words(0, 4, 0, Finish::Length)),
        ),
        (
            "calls",
            with(Output {
                calls: [
                    call("call_a", "get_weather", "{\"city\":\"Oslo\"}"),
                    call("call_b", "get_time", "{\"zone\":\"UTC\"}"),
                ]
                .into(),
                ..Output::words(0, 2, 2, Finish::ToolCalls)
            }),
        ),
        (
            "calls alone",
            with(Output {
                calls: [call("call_c", "look", "{}")].into(),
                ..Output::words(0, 0, 0, Finish::ToolCalls)
            }),
        ),
    ]
}

fn stamp() -> Stamp {
    Stamp {
        id: Id::new(b"7").unwrap(),
        created: 1_700_000_000,
    }
}

/// A whole response, its head too, in the way the server puts it together: rounds of `tokens`
/// tokens, each a write.
fn response(dialect: Dialect, answer: &Answer, tokens: u32) -> Vec<u8> {
    let mut answer = answer.clone();
    dialect.bend(&mut answer);
    let voice = Voice::new(dialect, answer.endpoint, MODEL, 0);
    let http = voice.http();
    let reply = Reply {
        request_id: Id::EMPTY,
        keep_alive: http.keeps_alive(answer.stream, true),
        chunks: true,
    };
    let mut out = Vec::new();
    let Some(framing) = http.stream_framing(true).filter(|_| answer.stream) else {
        let mut body = Vec::new();
        let content = voice.complete(&mut body, &stamp(), &answer, |_| {});
        let framing = http.complete(&mut body, content, true);
        head(
            &mut out,
            http,
            (200, Advice::default()),
            (content, framing),
            &reply,
        );
        out.extend_from_slice(&body);
        return out;
    };
    head(
        &mut out,
        http,
        (200, Advice::default()),
        (Content::Events, framing),
        &reply,
    );
    let mut telling = Telling::default();
    let mut start = out.len();
    http.event(&mut out, framing, &mut telling, |out, telling| {
        voice.greeting(out, telling, &stamp(), &answer);
    });
    let mut walk = Walk::new();
    while !walk.is_over() {
        walk.advance(tokens);
        while let Some(step) = walk.step(&answer) {
            let before = out.len();
            http.event(&mut out, framing, &mut telling, |out, telling| {
                voice.event(out, telling, &stamp(), &answer, &step);
            });
            if let Step::Delta { .. } = step {
                assert!(
                    out.len() > before,
                    "{dialect:?}: an empty write for {step:?}"
                );
            }
        }
        http.write(&mut out, framing, &mut telling, start);
        start = out.len();
    }
    http.end(&mut out, framing);
    out
}

/// What readers should make of it.
fn expected(dialect: Dialect, answer: &Answer, tokens: u32) -> Heard {
    let mut answer = answer.clone();
    dialect.bend(&mut answer);
    let output = answer.output(0);
    let usage = answer.usage();
    let unasked = dialect == Dialect::Transformers || dialect == Dialect::UsageAlways;
    let told = !answer.stream || answer.include_usage || answer.continuous_usage || unasked;
    let has_text = dialect != Dialect::NoText;
    let mut heard = Heard {
        text: output.text.pieces().filter(|_| has_text).collect(),
        reasoning: output.reasoning.pieces().collect(),
        calls: output.calls.iter().map(contents).collect(),
        finish: match dialect {
            Dialect::Gemini => None,
            Dialect::AzureFiltered => Some("content_filter".to_owned()),
            _ => Some(output.finish.as_str().to_owned()),
        },
        prompt: told.then_some(usage.prompt),
        completion: told.then_some(usage.completion),
        reasoning_tokens: None,
        cached: None,
        content_events: 0,
    };
    if told {
        (heard.reasoning_tokens, heard.cached) = details(dialect, &answer);
    }
    // What is sent when it is complete is not said in rounds.
    let tokens = if dialect == Dialect::Buffered {
        1
    } else {
        tokens
    };
    heard.content_events = content_events(dialect, &answer, tokens);
    heard
}

fn contents(call: &Call) -> [String; 3] {
    let arguments = call.arguments.pieces().collect();
    [call.id.to_string(), call.name.to_string(), arguments]
}

/// Reasoning and cached tokens, as far as the dialect tells them.
fn details(dialect: Dialect, answer: &Answer) -> (Option<u32>, Option<u32>) {
    let usage = answer.usage();
    let (some_reasoning, some_cached) = (
        Some(usage.reasoning).filter(|count| *count > 0),
        Some(usage.cached).filter(|count| *count > 0),
    );
    match dialect {
        Dialect::Openai
        | Dialect::Azure
        | Dialect::AzureFiltered
        | Dialect::Openrouter
        | Dialect::Litellm
        | Dialect::Sglang
        | Dialect::WhiteSpace => (Some(usage.reasoning), Some(usage.cached)),
        Dialect::LlamaCpp => (None, Some(usage.cached)),
        Dialect::Tgi | Dialect::Ollama | Dialect::Nulls => (None, None),
        _ => (some_reasoning, some_cached),
    }
}

fn content_events(dialect: Dialect, answer: &Answer, tokens: u32) -> u32 {
    let has_text = dialect != Dialect::NoText;
    let counts = |step: &Step<'_>| match step {
        Step::Delta {
            choice: 0, part, ..
        } => match part {
            Part::Text(text) => has_text && !text.is_empty(),
            _ => part.is_content(),
        },
        _ => false,
    };
    let mut walk = Walk::new();
    let mut count = 0;
    while !walk.is_over() {
        walk.advance(tokens);
        while let Some(step) = walk.step(answer) {
            count += u32::from(counts(&step));
        }
    }
    // One document is one event.
    if answer.stream { count } else { count.min(1) }
}

/// What the project's own decoder makes of the bytes, `pieces` bytes at a time.
fn decoded(answer: &Answer, bytes: &[u8], pieces: usize) -> Heard {
    let endpoint = match answer.endpoint {
        Endpoint::Completions => EndpointType::Completions,
        _ => EndpointType::Chat,
    };
    let (mut carry, mut shared) = (Carry::new(512), Shared::new(1 << 20, 4 << 10));
    let mut http = ResponseDecoder::new(256 << 10);
    let mut exchange = Exchange::new(&ExchangeLimits::default());
    exchange.begin(Asked {
        endpoint,
        streaming: answer.stream,
        save_text: true,
    });
    http.start();
    let arrival = Arrival::reaped(Nanos::ZERO);
    let mut progress = Progress::More;
    for piece in bytes.chunks(pieces) {
        assert_eq!(progress, Progress::More, "bytes are left over");
        progress = exchange.received(&mut http, &mut carry, &mut shared, piece, arrival, &mut ());
    }
    if progress == Progress::More {
        exchange.ended(&mut http, &mut carry, &mut shared, true, arrival, &mut ());
    }
    let heard = exchange.answer();
    assert_eq!(heard.failure, None);
    let usage = heard.usage.unwrap_or_default();
    let (finish, content_events) = (heard.finish_reason, heard.content_events);
    let saved = exchange.take_saved().unwrap();
    Heard {
        text: saved.text.clone(),
        reasoning: saved.reasoning.clone(),
        calls: saved
            .tool_calls
            .iter()
            .map(|(_, call)| [call.id.clone(), call.name.clone(), call.arguments.clone()])
            .collect(),
        finish: finish.map(|finish| finish.as_str().to_owned()),
        prompt: usage.input_tokens,
        completion: usage.output_tokens,
        reasoning_tokens: usage.reasoning_tokens,
        cached: usage.cached_tokens,
        content_events,
    }
}

/// Says every answer in every dialect; `judge` is told which it is, its bytes and what they say.
fn each(endpoints: &[Endpoint], mut judge: impl FnMut(&str, &Answer, &[u8], &Heard)) {
    for &dialect in Dialect::value_variants() {
        for &endpoint in endpoints {
            for (name, answer) in answers(endpoint) {
                for stream in [true, false] {
                    let answer = Answer {
                        stream,
                        include_usage: answer.include_usage && stream,
                        continuous_usage: answer.continuous_usage && stream,
                        ..answer.clone()
                    };
                    for tokens in [1, 3, 1_000] {
                        let bytes = response(dialect, &answer, tokens);
                        let heard = expected(dialect, &answer, tokens);
                        let which =
                            format!("{dialect:?} {endpoint:?} {name} stream={stream} by {tokens}");
                        judge(&which, &answer, &bytes, &heard);
                    }
                }
            }
        }
    }
}

const CHUNKED: [Endpoint; 2] = [Endpoint::Chat, Endpoint::Completions];

#[test]
fn the_decoder_hears_what_was_said() {
    each(&CHUNKED, |which, answer, bytes, heard| {
        for pieces in [bytes.len(), 1, 17] {
            let decoded = decoded(answer, bytes, pieces);
            assert_eq!(&decoded, heard, "{which} in pieces of {pieces}");
        }
    });
}

#[test]
fn a_naive_reader_hears_what_was_said() {
    each(&CHUNKED, |which, answer, bytes, heard| {
        let naive = naive::heard(answer.endpoint, bytes);
        assert_eq!(&naive, heard, "{which}:\n{}", bytes.escape_ascii());
    });
}

#[test]
fn every_template_compiles_for_every_endpoint() {
    for &dialect in Dialect::value_variants() {
        for endpoint in [Endpoint::Chat, Endpoint::Completions, Endpoint::Responses] {
            let voice = Voice::new(dialect, endpoint, MODEL, 3);
            assert_eq!(voice.number, 3);
        }
        assert_eq!(
            Dialect::named(dialect.to_possible_value().unwrap().get_name().as_bytes()),
            Ok(dialect)
        );
    }
    assert!(Dialect::named(b"nobody").is_err());
    assert!(Dialect::named(b"\xff").is_err());
}

/// What a dialect is for is in its bytes, whatever readers make of it.
#[test]
fn dialects_have_the_habits_that_they_are_named_for() {
    let has = |dialect, pattern: &str| {
        let bytes = response(dialect, &plain(Endpoint::Chat), 2);
        let text = String::from_utf8_lossy(&bytes).into_owned();
        assert!(
            text.contains(pattern),
            "{dialect:?} lacks {pattern:?}:\n{text}"
        );
    };
    has(Dialect::Openai, r#""usage":null,"obfuscation""#);
    has(Dialect::Azure, "\"choices\":[],\"created\":0,\"id\":\"\"");
    has(Dialect::Openrouter, ": OPENROUTER PROCESSING\n\n");
    has(
        Dialect::Tgi,
        "\"content\":\" small\"},\"logprobs\":null,\"finish_reason\":\"length\"",
    );
    has(Dialect::SseStarlette, "}\r\n\r\n");
    has(Dialect::CrlfSplit, "\r\r\n1\r\n\n\r\n");
    has(Dialect::CrOnly, "}\r\r");
    has(Dialect::NoSpace, "data:{");
    has(Dialect::MultiLine, "data: {\ndata: \"id\"");
    has(Dialect::Bom, "\u{feff}");
    has(Dialect::Fields, "\nid: 1\nretry: 10\n\n");
    has(
        Dialect::UsageAlways,
        "\"completion_tokens\":2,\"total_tokens\":11",
    );
    has(Dialect::Escapes, r"m\u006fve");
    has(Dialect::ByteChunks, "1\r\nd\r\n1\r\na\r\n");
    has(Dialect::ChunkSpellings, "\r\n0000000E");
    has(Dialect::ChunkSpellings, ";sig=\"a;b\";n=1\r\n");
    has(Dialect::ChunkSpellings, "\r\n000;end\r\n\r\n");
    has(Dialect::Trailers, "0\r\nX-Cost: 0.0001\r\n");
    has(Dialect::Http10, "HTTP/1.0 200 OK\r\n");
    has(Dialect::Buffered, "content-length: 1");
    has(Dialect::ConnectionClose, "connection: close\r\n");
    has(
        Dialect::HeaderSpellings,
        "TRANSFER-ENCODING: \t chunked \t\r\n",
    );
    has(
        Dialect::Interim,
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103",
    );
    has(Dialect::JsonReply, "content-type: application/json");
}

/// Framing is of bytes: whatever they are, a reader gets them back.
#[test]
fn chunks_of_every_spelling_join_to_what_was_put_in() {
    for &dialect in Dialect::value_variants() {
        let http = dialect.http();
        let (mut out, mut told, mut telling) = (Vec::new(), Vec::new(), Telling::default());
        for size in [1_usize, 15, 16, 22, 23, 24, 255, 256, 4_097] {
            let bytes: Vec<u8> = (0..=250).cycle().take(size).collect();
            let start = out.len();
            http.event(&mut out, Framing::Chunked, &mut telling, |out, _| {
                out.extend_from_slice(&bytes);
            });
            http.event(&mut out, Framing::Chunked, &mut telling, |_, _| {});
            http.write(&mut out, Framing::Chunked, &mut telling, start);
            told.extend_from_slice(&bytes);
        }
        http.end(&mut out, Framing::Chunked);
        assert_eq!(naive::joined(&out), told, "{dialect:?}");
    }
}
