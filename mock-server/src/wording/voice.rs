use super::dialect::Dialect;
use super::json::{escaped, number, put, string};
use crate::answer::{Answer, Endpoint, Finish, Part, Step, Usage};
use crate::id::Id;

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
    pub(crate) fn new(dialect: Dialect, endpoint: Endpoint, model: &str, number: u64) -> Self {
        let Dialect::Vllm = dialect;
        let mut bytes = b",\"model\":".to_vec();
        string(&mut bytes, model);
        bytes.extend_from_slice(b",\"choices\":[");
        Self {
            endpoint,
            number,
            model: bytes,
        }
    }

    /// Appends the event of one step, without HTTP framing; nothing, where the endpoint has no
    /// event for it.
    pub(crate) fn event(&self, out: &mut Vec<u8>, stamp: &Stamp, _: &Answer, step: &Step<'_>) {
        let chat = self.endpoint == Endpoint::Chat;
        match step {
            Step::Open { .. } if !chat => {}
            Step::Open { choice } => {
                self.open(out, stamp);
                index(out, *choice);
                out.extend_from_slice(br#","delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]"#);
                close(out, None);
            }
            Step::Delta {
                choice,
                part,
                usage,
                ..
            } => {
                self.open(out, stamp);
                index(out, *choice);
                if chat {
                    delta(out, part);
                } else {
                    out.extend_from_slice(br#","text":""#);
                    escaped(out, plain(part));
                    out.push(b'"');
                }
                out.extend_from_slice(br#","logprobs":null,"finish_reason":null}]"#);
                close(out, usage.as_ref());
            }
            Step::Finish {
                choice,
                reason,
                stop_reason,
                usage,
            } => {
                self.open(out, stamp);
                index(out, *choice);
                out.extend_from_slice(if chat {
                    br#","delta":{}"#
                } else {
                    br#","text":"""#
                });
                finish(out, *reason, *stop_reason);
                out.push(b']');
                close(out, usage.as_ref());
            }
            Step::Usage(usage) => {
                self.open(out, stamp);
                out.push(b']');
                close(out, Some(usage));
            }
            Step::Done => out.extend_from_slice(b"data: [DONE]\n\n"),
        }
    }

    /// An event up to the `[` of `choices`.
    fn open(&self, out: &mut Vec<u8>, stamp: &Stamp) {
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
        put(out, &[open, stamp.id.as_bytes(), object]);
        number(out, stamp.created);
        out.extend_from_slice(&self.model);
    }

    /// The body of an answer that is not streamed.
    pub(crate) fn whole(&self, out: &mut Vec<u8>, stamp: &Stamp, answer: &Answer) {
        let (open, object): (&[u8], &[u8]) = match self.endpoint {
            Endpoint::Chat => (
                br#"{"id":"chatcmpl-"#,
                br#"","object":"chat.completion","created":"#,
            ),
            Endpoint::Completions => (
                br#"{"id":"cmpl-"#,
                br#"","object":"text_completion","created":"#,
            ),
        };
        put(out, &[open, stamp.id.as_bytes(), object]);
        number(out, stamp.created);
        out.extend_from_slice(&self.model);
        for choice in 0..answer.choices() {
            if choice > 0 {
                out.push(b',');
            }
            index(out, choice);
            if self.endpoint == Endpoint::Chat {
                message(out, answer, choice);
            } else {
                out.extend_from_slice(br#","text":""#);
                for piece in answer.output(choice).text.pieces() {
                    escaped(out, piece);
                }
                out.push(b'"');
            }
            let output = answer.output(choice);
            finish(out, output.finish, output.stop_reason.as_deref());
        }
        out.push(b']');
        put_usage(out, &answer.usage());
        out.push(b'}');
    }
}

/// The beginning of a choice.
fn index(out: &mut Vec<u8>, choice: u32) {
    out.extend_from_slice(br#"{"index":"#);
    number(out, u64::from(choice));
}

/// The text of a part where there is nothing but text.
fn plain<'a>(part: &Part<'a>) -> &'a str {
    match part {
        Part::Reasoning(text) | Part::Text(text) => text,
        Part::Call { arguments, .. } => arguments,
    }
}

fn delta(out: &mut Vec<u8>, part: &Part<'_>) {
    match part {
        Part::Reasoning(text) => {
            out.extend_from_slice(br#","delta":{"reasoning_content":""#);
            escaped(out, text);
            out.extend_from_slice(br#""}"#);
        }
        Part::Text(text) => {
            out.extend_from_slice(br#","delta":{"content":""#);
            escaped(out, text);
            out.extend_from_slice(br#""}"#);
        }
        Part::Call {
            index,
            id,
            name,
            arguments,
        } => {
            out.extend_from_slice(br#","delta":{"tool_calls":[{"index":"#);
            number(out, u64::from(*index));
            if let (Some(id), Some(name)) = (id, name) {
                put(
                    out,
                    &[
                        br#","id":""#,
                        id.as_bytes(),
                        br#"","type":"function","function":{"name":"#,
                    ],
                );
                string(out, name);
                out.push(b',');
            } else {
                out.extend_from_slice(br#","function":{"#);
            }
            out.extend_from_slice(br#""arguments":""#);
            escaped(out, arguments);
            out.extend_from_slice(br#""}}]}"#);
        }
    }
}

/// The message of a whole chat answer.
fn message(out: &mut Vec<u8>, answer: &Answer, choice: u32) {
    let output = answer.output(choice);
    out.extend_from_slice(br#","message":{"role":"assistant","content":"#);
    if output.text.tokens() == 0 && !output.calls.is_empty() {
        out.extend_from_slice(b"null");
    } else {
        out.push(b'"');
        for piece in output.text.pieces() {
            escaped(out, piece);
        }
        out.push(b'"');
    }
    if output.reasoning.tokens() > 0 {
        out.extend_from_slice(br#","reasoning_content":""#);
        for piece in output.reasoning.pieces() {
            escaped(out, piece);
        }
        out.push(b'"');
    }
    for (index, call) in output.calls.iter().enumerate() {
        let open: &[u8] = if index == 0 {
            br#","tool_calls":[{"id":""#
        } else {
            br#",{"id":""#
        };
        put(
            out,
            &[
                open,
                call.id.as_bytes(),
                br#"","type":"function","function":{"name":"#,
            ],
        );
        string(out, &call.name);
        out.extend_from_slice(br#","arguments":""#);
        for piece in call.arguments.pieces() {
            escaped(out, piece);
        }
        out.extend_from_slice(br#""}}"#);
    }
    out.extend_from_slice(if output.calls.is_empty() { b"}" } else { b"]}" });
}

/// The end of a choice.
fn finish(out: &mut Vec<u8>, reason: Finish, stop_reason: Option<&str>) {
    put(
        out,
        &[
            br#","logprobs":null,"finish_reason":""#,
            reason.as_str().as_bytes(),
            br#"","stop_reason":"#,
        ],
    );
    match stop_reason {
        None => out.extend_from_slice(b"null"),
        Some(stop) => string(out, stop),
    }
    out.push(b'}');
}

/// The end of an event.
fn close(out: &mut Vec<u8>, usage: Option<&Usage>) {
    if let Some(usage) = usage {
        put_usage(out, usage);
    }
    out.extend_from_slice(b"}\n\n");
}

fn put_usage(out: &mut Vec<u8>, usage: &Usage) {
    out.extend_from_slice(br#","usage":{"prompt_tokens":"#);
    number(out, u64::from(usage.prompt));
    out.extend_from_slice(br#","completion_tokens":"#);
    number(out, u64::from(usage.completion));
    out.extend_from_slice(br#","total_tokens":"#);
    number(out, u64::from(usage.prompt) + u64::from(usage.completion));
    if usage.cached > 0 {
        out.extend_from_slice(br#","prompt_tokens_details":{"cached_tokens":"#);
        number(out, u64::from(usage.cached));
        out.push(b'}');
    }
    if usage.reasoning > 0 {
        out.extend_from_slice(br#","completion_tokens_details":{"reasoning_tokens":"#);
        number(out, u64::from(usage.reasoning));
        out.push(b'}');
    }
    out.push(b'}');
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::answer::{Output, Walk};
    use crate::wording::{Framing, end, event};
    use serde_json::{Value, json};

    fn answer(endpoint: Endpoint) -> Answer {
        Answer {
            endpoint,
            stream: true,
            include_usage: true,
            continuous_usage: false,
            prompt_tokens: u32::MAX,
            cached_tokens: 0,
            logprobs: None,
            outputs: [Output::words(0, 0, 3, Finish::Length)].into(),
        }
    }

    fn stamp() -> Stamp {
        Stamp {
            id: Id::new(b"7").unwrap(),
            created: 1_700_000_000,
        }
    }

    fn stream(voice: &Voice, framing: Framing, answer: &Answer) -> Vec<u8> {
        let mut out = Vec::new();
        let mut walk = Walk::new();
        while !walk.is_over() {
            walk.advance(1);
            while let Some(step) = walk.step(answer) {
                event(&mut out, framing, |out| {
                    voice.event(out, &stamp(), answer, &step);
                });
            }
        }
        end(&mut out, framing);
        out
    }

    fn events(endpoint: Endpoint) -> Vec<Value> {
        let voice = Voice::new(Dialect::Vllm, endpoint, "m\"1", 0);
        let out = stream(&voice, Framing::Close, &answer(endpoint));
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
            let voice = Voice::new(Dialect::Vllm, endpoint, "m", 0);
            let plain = stream(&voice, Framing::Close, &answer(endpoint));
            let chunked = stream(&voice, Framing::Chunked, &answer(endpoint));
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
            Voice::new(Dialect::Vllm, endpoint, "m", 0).whole(
                &mut out,
                &stamp(),
                &answer(endpoint),
            );
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
}
