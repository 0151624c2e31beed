//! The bytes of answers: HTTP heads, event streams and JSON bodies, as vLLM words them.
//!
//! Everything is appended to a buffer that the caller reuses; nothing here allocates but the
//! construction of a [`Voice`].
use std::io::Write;

use crate::ask::{Ask, Endpoint};
use crate::id::Id;
use crate::refusal::reason;
use crate::words::token;

/// What a response says about its connection and its request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply {
    /// `X-Request-Id` of the request; empty: none.
    pub(crate) request_id: Id,
    /// The connection stays open after this response.
    pub(crate) keep_alive: bool,
    /// The peer speaks HTTP/1.1: it takes chunks, and keeping alive is the default.
    pub(crate) chunks: bool,
}

/// How a response's body is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// `content-length`.
    Length(usize),
    /// One HTTP chunk per event.
    Chunked,
    /// Until the connection ends (HTTP/1.0).
    Close,
}

/// The status line and the header fields, up to the blank line.
pub(crate) fn head(
    out: &mut Vec<u8>,
    (status, allow): (u16, Option<&str>),
    framing: Framing,
    reply: &Reply,
) {
    if status == 200 {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\nserver: ridgeline-mock-server\r\n");
    } else {
        out.extend_from_slice(b"HTTP/1.1 ");
        number(out, u64::from(status));
        put(
            out,
            &[
                b" ",
                reason(status).as_bytes(),
                b"\r\nserver: ridgeline-mock-server\r\n",
            ],
        );
    }
    if let Some(allow) = allow {
        put(out, &[b"allow: ", allow.as_bytes(), b"\r\n"]);
    }
    match framing {
        Framing::Length(0) => out.extend_from_slice(b"content-length: 0\r\n"),
        Framing::Length(length) => {
            out.extend_from_slice(b"content-type: application/json\r\ncontent-length: ");
            number(out, length as u64);
            out.extend_from_slice(b"\r\n");
        }
        Framing::Chunked => out.extend_from_slice(
            b"content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n",
        ),
        Framing::Close => {
            out.extend_from_slice(b"content-type: text/event-stream; charset=utf-8\r\n");
        }
    }
    if !reply.request_id.is_empty() {
        put(
            out,
            &[b"x-request-id: ", reply.request_id.as_bytes(), b"\r\n"],
        );
    }
    match (reply.keep_alive, reply.chunks) {
        (true, true) => {}
        (true, false) => out.extend_from_slice(b"connection: keep-alive\r\n"),
        (false, _) => out.extend_from_slice(b"connection: close\r\n"),
    }
    out.extend_from_slice(b"\r\n");
}

/// What is the same in all events of one answer, and differs from answer to answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    /// The `id`, without its prefix.
    pub(crate) id: Id,
    /// Seconds since 1970.
    pub(crate) created: u64,
}

/// How one endpoint words its answers in the name of one model.
#[derive(Debug)]
pub(crate) struct Voice {
    endpoint: Endpoint,
    /// Different from that of every other voice of the same composer.
    pub(crate) number: u64,
    /// From after `created` to the `[` of `choices`.
    model: Vec<u8>,
}

impl Voice {
    pub(crate) fn new(endpoint: Endpoint, model: &str, number: u64) -> Self {
        let mut bytes = b",\"model\":".to_vec();
        serde_json::to_writer(&mut bytes, model).expect("a string always serialises");
        bytes.extend_from_slice(b",\"choices\":[");
        Self {
            endpoint,
            number,
            model: bytes,
        }
    }

    /// What comes before the first token: for chat the event that names the role, for completions
    /// none. Returns whether there is one.
    pub(crate) fn opening(&self, out: &mut Vec<u8>, chunked: bool, stamp: &Stamp) -> bool {
        let chat = self.endpoint == Endpoint::Chat;
        if chat {
            let role = br#"{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]"#;
            self.event(out, chunked, stamp, [role, b"", b""]);
        }
        chat
    }

    /// The event of token `index`.
    pub(crate) fn token(&self, out: &mut Vec<u8>, chunked: bool, stamp: &Stamp, index: u32) {
        let (open, close): (&[u8], &[u8]) = match self.endpoint {
            Endpoint::Chat => (
                br#"{"index":0,"delta":{"content":""#,
                br#""},"logprobs":null,"finish_reason":null}]"#,
            ),
            Endpoint::Completions => (
                br#"{"index":0,"text":""#,
                br#"","logprobs":null,"finish_reason":null}]"#,
            ),
        };
        self.event(out, chunked, stamp, [open, token(index).as_bytes(), close]);
    }

    /// What comes after the last token: why it ends, the usage if asked for, and the stream's end.
    /// `ended` is told the length of `out` after each event.
    pub(crate) fn closing(
        &self,
        out: &mut Vec<u8>,
        chunked: bool,
        stamp: &Stamp,
        ask: &Ask,
        mut ended: impl FnMut(usize),
    ) {
        let open: &[u8] = match self.endpoint {
            Endpoint::Chat => br#"{"index":0,"delta":{},"logprobs":null,"finish_reason":""#,
            Endpoint::Completions => br#"{"index":0,"text":"","logprobs":null,"finish_reason":""#,
        };
        let finish = ask.finish.as_str().as_bytes();
        self.event(
            out,
            chunked,
            stamp,
            [open, finish, br#"","stop_reason":null}]"#],
        );
        ended(out.len());
        if ask.include_usage {
            let mut buffer = [0; USAGE_BYTES_MAX];
            self.event(out, chunked, stamp, [b"]", usage(&mut buffer, ask), b""]);
            ended(out.len());
        }
        if chunked {
            out.extend_from_slice(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n");
        } else {
            out.extend_from_slice(b"data: [DONE]\n\n");
        }
        ended(out.len());
    }

    /// One event. `inside` goes between the `[` of `choices` and the last `}`.
    fn event(&self, out: &mut Vec<u8>, chunked: bool, stamp: &Stamp, inside: [&[u8]; 3]) {
        let (open, object): (&[u8], &[u8]) = match self.endpoint {
            Endpoint::Chat => (
                br#"data: {"id":"chatcmpl-"#,
                br#"","object":"chat.completion.chunk","created":"#,
            ),
            Endpoint::Completions => (
                br#"data: {"id":"cmpl-"#,
                br#"","object":"text_completion","created":"#,
            ),
        };
        let mut digits = itoa::Buffer::new();
        let created = digits.format(stamp.created).as_bytes();
        let [a, b, c] = inside;
        let parts = [
            open,
            stamp.id.as_bytes(),
            object,
            created,
            &self.model,
            a,
            b,
            c,
            b"}\n\n",
        ];
        if chunked {
            hexadecimal(out, parts.iter().map(|part| part.len()).sum());
            out.extend_from_slice(b"\r\n");
        }
        put(out, &parts);
        if chunked {
            out.extend_from_slice(b"\r\n");
        }
    }

    /// The body of an answer that is not streamed.
    pub(crate) fn whole(&self, out: &mut Vec<u8>, stamp: &Stamp, ask: &Ask) {
        let (open, object, text): (&[u8], &[u8], &[u8]) = match self.endpoint {
            Endpoint::Chat => (
                br#"{"id":"chatcmpl-"#,
                br#"","object":"chat.completion","created":"#,
                br#"{"index":0,"message":{"role":"assistant","content":""#,
            ),
            Endpoint::Completions => (
                br#"{"id":"cmpl-"#,
                br#"","object":"text_completion","created":"#,
                br#"{"index":0,"text":""#,
            ),
        };
        put(out, &[open, stamp.id.as_bytes(), object]);
        number(out, stamp.created);
        put(out, &[&self.model, text]);
        for index in 0..ask.tokens {
            out.extend_from_slice(token(index).as_bytes());
        }
        let close: &[u8] = match self.endpoint {
            Endpoint::Chat => br#""},"logprobs":null,"finish_reason":""#,
            Endpoint::Completions => br#"","logprobs":null,"finish_reason":""#,
        };
        put(
            out,
            &[
                close,
                ask.finish.as_str().as_bytes(),
                br#"","stop_reason":null}]"#,
            ],
        );
        let mut buffer = [0; USAGE_BYTES_MAX];
        put(out, &[usage(&mut buffer, ask), b"}"]);
    }
}

/// 70 bytes of names, and three numbers of at most 10 digits.
const USAGE_BYTES_MAX: usize = 104;

fn usage<'a>(buffer: &'a mut [u8; USAGE_BYTES_MAX], ask: &Ask) -> &'a [u8] {
    let mut rest = &mut buffer[..];
    let total = u64::from(ask.prompt_tokens) + u64::from(ask.tokens);
    write!(
        rest,
        r#","usage":{{"prompt_tokens":{},"completion_tokens":{},"total_tokens":{total}}}"#,
        ask.prompt_tokens, ask.tokens,
    )
    .expect("the buffer fits the longest numbers");
    let unused = rest.len();
    &buffer[..USAGE_BYTES_MAX - unused]
}

fn put(out: &mut Vec<u8>, parts: &[&[u8]]) {
    for part in parts {
        out.extend_from_slice(part);
    }
}

fn number(out: &mut Vec<u8>, number: u64) {
    out.extend_from_slice(itoa::Buffer::new().format(number).as_bytes());
}

fn hexadecimal(out: &mut Vec<u8>, number: usize) {
    let digits = (usize::BITS - number.leading_zeros()).div_ceil(4).max(1);
    for place in (0..digits).rev() {
        out.push(b"0123456789abcdef"[number >> (4 * place) & 15]);
    }
}

/// A whole event stream, its body only. `ended` is told the length of `out` after each event.
pub(crate) fn stream(
    out: &mut Vec<u8>,
    voice: &Voice,
    chunked: bool,
    stamp: &Stamp,
    ask: &Ask,
    mut ended: impl FnMut(usize),
) {
    if voice.opening(out, chunked, stamp) {
        ended(out.len());
    }
    for index in 0..ask.tokens {
        voice.token(out, chunked, stamp, index);
        ended(out.len());
    }
    voice.closing(out, chunked, stamp, ask, ended);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ask::Finish;
    use serde_json::{Value, json};

    fn ask(endpoint: Endpoint) -> Ask {
        Ask {
            endpoint,
            stream: true,
            include_usage: true,
            tokens: 3,
            prompt_tokens: u32::MAX,
            finish: Finish::Length,
        }
    }

    fn stamp() -> Stamp {
        Stamp {
            id: Id::new(b"7").unwrap(),
            created: 1_700_000_000,
        }
    }

    fn events(endpoint: Endpoint) -> Vec<Value> {
        let mut out = Vec::new();
        stream(
            &mut out,
            &Voice::new(endpoint, "m\"1", 0),
            false,
            &stamp(),
            &ask(endpoint),
            drop,
        );
        let text = String::from_utf8(out).unwrap();
        let mut events: Vec<_> = text.split_terminator("\n\n").collect();
        assert_eq!(events.pop(), Some("data: [DONE]"));
        events
            .into_iter()
            .map(|event| serde_json::from_str(event.strip_prefix("data: ").unwrap()).unwrap())
            .collect()
    }

    #[test]
    fn a_chat_stream_has_role_tokens_finish_and_usage() {
        let events = events(Endpoint::Chat);
        let choice = |delta, finish: Value| json!([{"index": 0, "delta": delta, "logprobs": null, "finish_reason": finish}]);
        let mut last = choice(json!({}), json!("length"));
        last[0]["stop_reason"] = Value::Null;
        let choices = [
            choice(json!({"role": "assistant", "content": ""}), Value::Null),
            choice(json!({"content": "A"}), Value::Null),
            choice(json!({"content": " quiet"}), Value::Null),
            choice(json!({"content": " river"}), Value::Null),
            last,
            json!([]),
        ];
        assert_eq!(events.len(), choices.len());
        for (event, choices) in events.iter().zip(choices) {
            assert_eq!(event["id"], "chatcmpl-7");
            assert_eq!(event["object"], "chat.completion.chunk");
            assert_eq!(event["created"], 1_700_000_000);
            assert_eq!(event["model"], "m\"1");
            assert_eq!(event["choices"], choices);
        }
        assert_eq!(
            events[5]["usage"],
            json!({"prompt_tokens": u32::MAX, "completion_tokens": 3, "total_tokens": 4_294_967_298_u64})
        );
    }

    #[test]
    fn a_completions_stream_has_texts() {
        let events = events(Endpoint::Completions);
        let texts: Vec<_> = events
            .iter()
            .filter_map(|event| event["choices"][0]["text"].as_str())
            .collect();
        assert_eq!(texts, ["A", " quiet", " river", ""]);
        assert_eq!(events[0]["id"], "cmpl-7");
        assert_eq!(events[0]["object"], "text_completion");
        assert_eq!(events[3]["choices"][0]["finish_reason"], "length");
        assert_eq!(events[4]["usage"]["completion_tokens"], 3);
    }

    #[test]
    fn chunks_add_nothing_but_their_sizes() {
        for endpoint in [Endpoint::Chat, Endpoint::Completions] {
            let voice = Voice::new(endpoint, "m", 0);
            let (mut plain, mut chunked) = (Vec::new(), Vec::new());
            stream(&mut plain, &voice, false, &stamp(), &ask(endpoint), drop);
            stream(&mut chunked, &voice, true, &stamp(), &ask(endpoint), drop);
            let mut joined = String::new();
            let mut rest = std::str::from_utf8(&chunked).unwrap();
            loop {
                let (size, after) = rest.split_once("\r\n").unwrap();
                let size = usize::from_str_radix(size, 16).unwrap();
                let (data, after) = after.split_at(size);
                assert_eq!(data.matches("data: ").count(), usize::from(size > 0));
                joined.push_str(data);
                rest = after.strip_prefix("\r\n").unwrap();
                if size == 0 {
                    break;
                }
            }
            assert_eq!(rest, "");
            assert_eq!(joined.as_bytes(), plain);
        }
    }

    #[test]
    fn a_whole_answer_is_the_joined_stream() {
        for endpoint in [Endpoint::Chat, Endpoint::Completions] {
            let mut out = Vec::new();
            Voice::new(endpoint, "m", 0).whole(&mut out, &stamp(), &ask(endpoint));
            let body: Value = serde_json::from_slice(&out).unwrap();
            let choice = &body["choices"][0];
            let text = if endpoint == Endpoint::Chat {
                assert_eq!(choice["message"]["role"], "assistant");
                &choice["message"]["content"]
            } else {
                &choice["text"]
            };
            assert_eq!(text, "A quiet river");
            assert_eq!(choice["finish_reason"], "length");
            assert_eq!(body["usage"]["total_tokens"], 4_294_967_298_u64);
        }
    }

    #[test]
    fn sizes_are_hexadecimal() {
        for number in [0, 1, 15, 16, 255, 256, 0xdead] {
            let mut out = Vec::new();
            hexadecimal(&mut out, number);
            assert_eq!(out, format!("{number:x}").into_bytes());
        }
    }

    #[test]
    fn a_head_says_what_its_response_is() {
        let reply = Reply {
            request_id: Id::new(b"r1").unwrap(),
            keep_alive: false,
            chunks: true,
        };
        let mut out = Vec::new();
        head(&mut out, (405, Some("POST")), Framing::Length(7), &reply);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "HTTP/1.1 405 Method Not Allowed\r\nserver: ridgeline-mock-server\r\nallow: POST\r\n\
             content-type: application/json\r\ncontent-length: 7\r\nx-request-id: r1\r\n\
             connection: close\r\n\r\n"
        );
    }
}
