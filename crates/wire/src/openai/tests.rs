//! The parser and the fast path against the naive rules of `oracle`.

use proptest::prelude::*;

use super::oracle::{self, Said};
use super::{Chunk, EndpointType, FamiliarBody, FinishReason, Slot, Template, ToolCalls};

/// Documents that look like answers, from a seed: known keys in any order and number, values of
/// the expected kind or of any other, white space and escapes where JSON allows them.
struct Writer {
    state: u64,
    out: Vec<u8>,
}

impl Writer {
    fn new(seed: u64) -> Self {
        Self {
            state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            out: Vec::new(),
        }
    }

    fn below(&mut self, n: usize) -> usize {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        (self.state >> 33) as usize % n
    }

    fn one(&mut self, of: &[&str]) {
        let index = self.below(of.len());
        self.push(of[index]);
    }

    fn push(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn space(&mut self) {
        if self.below(12) == 0 {
            self.one(&[" ", "\n", "\t", "\r", "  "]);
        }
    }

    fn key(&mut self, key: &str) {
        self.push("\"");
        for character in key.chars() {
            if self.below(60) == 0 {
                self.push(&format!("\\u{:04x}", u32::from(character)));
            } else {
                self.push(character.encode_utf8(&mut [0; 4]));
            }
        }
        self.push("\"");
        self.space();
        self.push(":");
        self.space();
    }

    fn string(&mut self) {
        self.push("\"");
        for _ in 0..self.below(5) {
            self.one(&[
                "a",
                "tok ",
                "é",
                "日本",
                "😀",
                "\\n",
                "\\\"",
                "\\\\",
                "\\/",
                "\\u00e9",
                "\\ud83d\\ude00",
                "data: [DONE]",
                "a long piece of plain text, more than eight bytes",
                "}]}",
                "\u{7f}",
                "",
            ]);
        }
        self.push("\"");
    }

    fn any(&mut self, depth: usize) {
        match self.below(if depth > 3 { 4 } else { 7 }) {
            0 => self.one(&["null", "true", "false"]),
            1 => self.one(&[
                "0",
                "1",
                "-0",
                "12.5",
                "-1e-05",
                "4294967296",
                "1e2",
                "18446744073709551616",
            ]),
            2 | 3 => self.string(),
            4 => self.list(3, |w| w.any(depth + 1)),
            5 => self.object(&["a", "error", "choices", "content", "usage"], 3, |w, _| {
                w.any(depth + 1)
            }),
            _ => self.push("{}"),
        }
    }

    fn list(&mut self, most: usize, mut element: impl FnMut(&mut Self)) {
        self.push("[");
        for i in 0..self.below(most + 1) {
            if i > 0 {
                self.push(",");
            }
            self.space();
            element(self);
            self.space();
        }
        self.push("]");
    }

    /// Some of the members, seldom one twice; seldom another value in place of the object.
    fn object(&mut self, keys: &[&str], most: usize, mut value: impl FnMut(&mut Self, &str)) {
        if self.below(25) == 0 {
            return self.one(&["null", "[]", "\"x\"", "3", "{}"]);
        }
        self.push("{");
        self.space();
        for i in 0..self.below(most + 1) {
            if i > 0 {
                self.push(",");
                self.space();
            }
            let index = self.below(keys.len());
            self.key(keys[index]);
            if self.below(12) == 0 {
                self.any(2);
            } else {
                value(self, keys[index]);
            }
            self.space();
        }
        self.push("}");
    }

    fn document(&mut self) {
        let keys = [
            "id", "choices", "choices", "choices", "usage", "object", "error", "created",
        ];
        self.object(&keys, 5, |w, key| match key {
            "choices" => w.list(3, Self::choice),
            "usage" => w.usage(),
            "object" => w.one(&[
                "\"chat.completion.chunk\"",
                "\"error\"",
                "\"err\\u006fr\"",
                "null",
            ]),
            "error" => w.one(&[
                "null",
                "null",
                "null",
                "false",
                "{\"message\":\"m\"}",
                "\"\"",
                "nul",
            ]),
            "created" => w.push("1700000000"),
            _ => w.string(),
        });
    }

    fn choice(&mut self) {
        let keys = [
            "index",
            "delta",
            "delta",
            "delta",
            "message",
            "text",
            "finish_reason",
            "logprobs",
        ];
        self.object(&keys, 5, |w, key| match key {
            "index" => w.one(&["0", "0", "0", "1", "null", "-0", "0.0", "00"]),
            "delta" | "message" => w.part(),
            "finish_reason" => w.one(&[
                "null",
                "\"stop\"",
                "\"\"",
                "\"l\\u0065ngth\"",
                "\"eos\"",
                "1",
            ]),
            "logprobs" => w.any(0),
            _ => w.string(),
        });
    }

    fn part(&mut self) {
        let keys = [
            "role",
            "content",
            "content",
            "content",
            "reasoning_content",
            "reasoning",
            "tool_calls",
            "function_call",
            "refusal",
        ];
        self.object(&keys, 4, |w, key| match key {
            "content" if w.below(5) == 0 => w.list(3, |w| {
                w.object(&["type", "text", "text", "x"], 3, |w, key| match key {
                    "type" => w.one(&[
                        "\"text\"",
                        "\"text\"",
                        "\"t\\u0065xt\"",
                        "\"image_url\"",
                        "null",
                    ]),
                    _ => w.string(),
                });
            }),
            "tool_calls" => w.list(3, |w| {
                w.object(
                    &["index", "id", "type", "function", "function"],
                    5,
                    |w, key| match key {
                        "index" => w.one(&["0", "1", "2", "null", "7", "-1"]),
                        "function" => w.object(&["name", "arguments"], 3, |w, _| w.string()),
                        _ => w.string(),
                    },
                );
            }),
            "function_call" => w.object(&["name", "arguments"], 3, |w, _| w.string()),
            _ => w.string(),
        });
    }

    fn usage(&mut self) {
        let keys = [
            "prompt_tokens",
            "completion_tokens",
            "total_tokens",
            "prompt_tokens_details",
            "completion_tokens_details",
        ];
        self.object(&keys, 6, |w, key| match key {
            "prompt_tokens_details" | "completion_tokens_details" => {
                w.object(
                    &["cached_tokens", "reasoning_tokens", "audio_tokens"],
                    3,
                    |w, _| w.number(),
                );
            }
            _ => w.number(),
        });
    }

    fn number(&mut self) {
        self.one(&[
            "0",
            "1",
            "17",
            "4294967295",
            "4294967296",
            "-1",
            "1.0",
            "1e3",
            "null",
            "01",
        ]);
    }

    /// A whole body as servers write it, seldom with a member that they do not write.
    fn answer(&mut self) {
        self.push("{\"id\":");
        self.string();
        self.seldom(&[",\"object\":\"error\"", ",\"error\":1", ",\"id\":\"2\""]);
        self.push(",\"created\":");
        self.count();
        self.push(",\"choices\":[{");
        self.seldom(&["\"index\":0,", "\"index\":1,"]);
        self.seldom(&["\"delta\":null,", "\"delta\":{},", "\"text\":\"t\","]);
        self.push("\"message\":{\"role\":\"assistant\",\"content\":");
        self.string();
        self.seldom(&[",\"tool_calls\":[]", ",\"tool_calls\":[{}]"]);
        self.seldom(&[
            ",\"content\":\"c\"",
            ",\"reasoning\":null",
            ",\"reasoning\":\"r\"",
        ]);
        self.push("},\"text\":");
        self.string();
        self.push(",\"finish_reason\":");
        self.one(&["\"stop\"", "\"length\"", "\"eos\"", "\"\"", "null"]);
        self.push("}");
        self.seldom(&[
            ",{\"index\":1,\"message\":{\"content\":\"b\"}}",
            ",{\"message\":{\"content\":\"b\"}}",
        ]);
        self.push("],\"usage\":{\"prompt_tokens\":");
        self.count();
        self.push(",\"completion_tokens\":");
        self.count();
        self.seldom(&[
            ",\"completion_tokens_details\":{\"reasoning_tokens\":3}",
            ",\"prompt_tokens\":1",
        ]);
        self.push("}");
        self.seldom(&[",\"usage\":null", ",\"service_tier\":null", " "]);
        self.push("}");
    }

    fn seldom(&mut self, of: &[&str]) {
        if self.below(8) == 0 {
            self.one(of);
        }
    }

    /// Mostly a whole number.
    fn count(&mut self) {
        if self.below(12) == 0 {
            self.number();
        } else {
            self.one(&["0", "3", "42", "4294967295", "1700000000", "999999999999"]);
        }
    }

    /// `document` with other values of the same kind in place of some.
    fn with_other_values(&mut self, document: &[u8]) -> Vec<u8> {
        self.out.clear();
        let mut at = 0;
        while let Some(&byte) = document.get(at) {
            let rest = &document[at..];
            let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let len = match byte {
                b'"' => string_len(rest),
                _ => digits.max(1),
            };
            let is_key = rest.get(len) == Some(&b':');
            match byte {
                b'"' if !is_key && self.below(2) == 0 => self.string(),
                b'0'..=b'9' if self.below(2) == 0 => self.count(),
                _ => self.out.extend_from_slice(&rest[..len]),
            }
            at += len;
        }
        std::mem::take(&mut self.out)
    }

    /// A few bytes changed, lost, doubled or put in.
    fn mutate(&mut self) {
        for _ in 0..self.below(4) {
            if self.out.is_empty() {
                return;
            }
            let at = self.below(self.out.len());
            let bytes =
                b"\"\\{}[],:0123456789eE+-.untrfalse \n\r\t\x00\x1f\x7f\x80\xc3\xa9\xed\xff";
            let byte = bytes[self.below(bytes.len())];
            match self.below(4) {
                0 => self.out[at] = byte,
                1 => self.out.insert(at, byte),
                2 => drop(self.out.remove(at)),
                _ => self.out.truncate(at),
            }
        }
    }
}

/// Bytes of the string that `bytes` begins with, its quotes among them.
fn string_len(bytes: &[u8]) -> usize {
    let mut len = 1;
    while let Some(&byte) = bytes.get(len) {
        len += if byte == b'\\' { 2 } else { 1 };
        if byte == b'"' {
            break;
        }
    }
    len.min(bytes.len())
}

fn chat_or_not(seed: u64) -> EndpointType {
    if seed.is_multiple_of(3) {
        EndpointType::Completions
    } else {
        EndpointType::Chat
    }
}

/// What the parser reads, in the terms of the oracle.
fn read(endpoint: EndpointType, data: &[u8]) -> Option<Said> {
    let chunk = Chunk::parse(endpoint, data).ok()?;
    let mut said = Said {
        has_tool_call: chunk.has_tool_call(),
        finish_reason: chunk
            .finish_reason()
            .map(|reason| reason.as_str().to_owned()),
        usage: chunk.usage(),
        error: chunk.is_error(),
        ..Said::default()
    };
    let mut calls = ToolCalls::default();
    chunk.save(&mut said.text, &mut said.reasoning, &mut calls);
    assert_eq!(chunk.has_text(), !said.text.is_empty());
    assert_eq!(chunk.has_reasoning(), !said.reasoning.is_empty());
    said.tool_calls = calls
        .iter()
        .map(|(index, c)| (index, [&c.id, &c.name, &c.arguments].map(String::clone)))
        .collect();
    Some(said)
}

fn agree(endpoint: EndpointType, data: &[u8]) {
    assert_eq!(
        read(endpoint, data),
        oracle::read(endpoint, data),
        "{endpoint:?} {}",
        String::from_utf8_lossy(data)
    );
}

/// Events as lines end them, from raw bytes: the data of each, and where it ends.
fn events(raw: &[u8]) -> Vec<(Vec<u8>, usize)> {
    let (mut events, mut data, mut at) = (Vec::new(), Vec::new(), 0);
    while let Some(end) = raw[at..]
        .iter()
        .position(|byte| matches!(byte, b'\n' | b'\r'))
    {
        let line = &raw[at..at + end];
        at += end + 1;
        if raw[at - 1] == b'\r' && raw.get(at) == Some(&b'\n') {
            at += 1;
        }
        if let Some(value) = line.strip_prefix(b"data:") {
            data.extend_from_slice(value.strip_prefix(b" ").unwrap_or(value));
            data.push(b'\n');
        } else if line.is_empty() && !data.is_empty() {
            data.pop();
            events.push((std::mem::take(&mut data), at));
        }
    }
    events
}

fn learn(template: &mut Template, endpoint: EndpointType, event: &[u8]) -> bool {
    let Some((data, end)) = events(event).into_iter().next() else {
        return false;
    };
    let Ok(chunk) = Chunk::parse(endpoint, &data) else {
        return false;
    };
    let Some((slot, text)) = chunk.sole_string() else {
        return false;
    };
    template.learn(&event[..end], &data, text, slot);
    template.matches(event).is_some()
}

#[test]
fn answers_of_real_servers_mean_what_the_oracle_says() {
    for data in [
        r#"{"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"Hi"},"logprobs":null,"finish_reason":null}]}"#,
        r#"{"choices":[{"index":1,"delta":{"content":"no"}},{"index":0,"delta":{"content":"yes"}},{"delta":{"content":"!"}}]}"#,
        r#"{"choices":[{"delta":{"content":"a"},"delta":{"content":"b"}}]}"#,
        r#"{"choices":[{"delta":{"content":"a"}}],"choices":null}"#,
        r#"{"choices":[{"delta":null,"message":{"content":"m"},"text":"t"}]}"#,
        r#"{"choices":[{"delta":{"reasoning_content":"","reasoning":"r"}}]}"#,
        r#"{"choices":[{"delta":{"reasoning_content":"c","reasoning":"r"}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":[{"id":"a"},{"index":0,"id":"b","function":{"arguments":"x"}}]}}]}"#,
        r#"{"choices":[{"delta":{"tool_calls":null,"function_call":{"name":"f","arguments":"{}"}}}]}"#,
        r#"{"usage":{"prompt_tokens":1,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":3},"completion_tokens_details":{"reasoning_tokens":4}}}"#,
        r#"{"usage":{}}"#,
        r#"{"error":null}"#,
        r#"{"error":{"message":"x"}}"#,
        r#"{"object":"error","message":"x"}"#,
        "[]",
        "42",
        "\"text\"",
        "",
        "{",
    ] {
        for endpoint in [EndpointType::Chat, EndpointType::Completions] {
            agree(endpoint, data.as_bytes());
        }
    }
}

#[test]
fn a_template_is_learnt_from_every_line_end_that_is_not_a_lone_cr() {
    let json = r#"{"choices":[{"index":0,"delta":{"content":"TEXT"}}]}"#;
    for (event, fast) in [
        ("data: J\n\n", true),
        ("data:J\n\n", true),
        ("data: J\r\n\r\n", true),
        ("data: J\n\r\n", true),
        ("data: J\nid: 1\nretry: 5\n\n", true),
        ("data: J\r\r", false),
        ("id: 1\ndata: J\n\n", false),
        ("\u{feff}data: J\n\n", false),
        ("data: J\n", false),
    ] {
        let event = event.replace('J', json);
        let mut template = Template::new(1024);
        assert_eq!(
            learn(&mut template, EndpointType::Chat, event.as_bytes()),
            fast,
            "{event:?}"
        );
        let other = event.replace("TEXT", "\\u00e9 é");
        let found = template.matches(other.as_bytes());
        assert_eq!(
            found.map(|found| found.text.decode()),
            fast.then(|| "é é".to_owned())
        );
        let empty = event.replace("TEXT", "");
        assert_eq!(template.matches(empty.as_bytes()), None);
    }
}

#[test]
fn only_an_event_with_one_string_and_nothing_else_is_a_template() {
    let slot = |endpoint, data: &str| {
        let chunk = Chunk::parse(endpoint, data.as_bytes()).unwrap();
        chunk
            .sole_string()
            .map(|(slot, text)| (slot, text.decode()))
    };
    let chat = |part: &str| {
        let data = format!("{{\"choices\":[{{\"delta\":{{{part}}}}}],\"usage\":null}}");
        slot(EndpointType::Chat, &data)
    };
    assert_eq!(chat(r#""content":"a""#), Some((Slot::Text, "a".into())));
    assert_eq!(
        chat(r#""content":null,"reasoning":"a""#),
        Some((Slot::Reasoning, "a".into()))
    );
    assert_eq!(
        chat(r#""content":"","reasoning_content":"a""#),
        Some((Slot::Reasoning, "a".into()))
    );
    assert_eq!(chat(r#""content":"a","reasoning":"b""#), None);
    assert_eq!(chat(r#""content":"""#), None);
    assert_eq!(chat(r#""content":[{"type":"text","text":"a"}]"#), None);
    assert_eq!(chat(r#""content":"a","tool_calls":[{"id":"x"}]"#), None);
    for data in [
        r#"{"choices":[{"text":"a","finish_reason":"stop"}]}"#,
        r#"{"choices":[{"text":"a"}],"usage":{"completion_tokens":1}}"#,
        r#"{"choices":[{"text":"a"},{"text":"b"}]}"#,
        r#"{"choices":[{"index":1,"text":"a"}]}"#,
        r#"{"choices":[{"text":"a"}],"error":{}}"#,
    ] {
        assert_eq!(slot(EndpointType::Completions, data), None, "{data}");
    }
}

#[test]
fn a_template_that_does_not_fit_is_not_kept() {
    let event = b"data: {\"choices\":[{\"delta\":{\"content\":\"abc\"}}]}\n\n";
    let around = event.len() - 3;
    assert!(learn(&mut Template::new(around), EndpointType::Chat, event));
    assert!(!learn(
        &mut Template::new(around - 1),
        EndpointType::Chat,
        event
    ));
    assert!(!learn(&mut Template::new(0), EndpointType::Chat, event));
    let mut template = Template::new(around);
    assert!(learn(&mut template, EndpointType::Chat, event));
    template.reset();
    assert_eq!(template.matches(event), None);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_096))]

    #[test]
    fn documents_mean_what_the_oracle_says(seed: u64) {
        let mut writer = Writer::new(seed);
        writer.document();
        agree(chat_or_not(seed), &writer.out);
    }

}

/// By rounds or by seconds, as the other decoders' mutations are.
#[test]
fn mutated_documents_are_judged_as_the_oracle_does() {
    crate::mutate::rounds(4_096, |seed, _| {
        // Seeds in a row would begin alike.
        let seed = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let mut writer = Writer::new(seed);
        writer.document();
        writer.mutate();
        agree(chat_or_not(seed), &writer.out);
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1_024))]

    /// Whatever the template takes, the oracle reads the same in it; and it takes an event that
    /// differs in a valid string alone.
    #[test]
    fn a_match_is_exact(seed: u64, mutations in 0..3_u8) {
        let endpoint = chat_or_not(seed);
        let mut writer = Writer::new(seed);
        let mut template = Template::new(1024);
        let ends = [("\n", "\n"), ("\r\n", "\r\n"), ("\n", "\r\n"), ("\nid: 1\n", "\n")];
        let (line, blank) = ends[writer.below(ends.len())];
        let event = loop {
            writer.out.clear();
            writer.document();
            let event = [b"data: ", &*writer.out, line.as_bytes(), blank.as_bytes()].concat();
            if learn(&mut template, endpoint, &event) {
                break event;
            }
        };
        let found = template.matches(&event).unwrap();
        let start = found.text.raw().as_ptr().addr() - event.as_ptr().addr();
        let (before, after) = (&event[..start], &event[start + found.text.raw().len()..]);
        writer.out.clear();
        writer.string();
        let string = writer.out[1..writer.out.len() - 1].to_vec();
        writer.out = [before, &string, after, b"data: {}\n\n"].concat();
        if mutations == 0 {
            let found = template.matches(&writer.out);
            prop_assert_eq!(found.map(|found| found.text.raw()), Some(string.as_slice()).filter(|s| !s.is_empty()));
        }
        for _ in 0..mutations {
            writer.mutate();
        }
        if let Some(found) = template.matches(&writer.out) {
            let (data, end) = events(&writer.out).into_iter().next().expect("an event");
            prop_assert_eq!(end, found.bytes);
            let mut want = Said::default();
            let text = found.text.decode();
            match found.slot {
                Slot::Text => want.text = text,
                Slot::Reasoning => want.reasoning = text,
            }
            // A list of tool calls that say nothing may stand beside the text.
            let got = oracle::read(endpoint, &data).expect("JSON");
            want.tool_calls = got.tool_calls.clone();
            prop_assert_eq!(got, want);
        }
    }
}

#[test]
fn reasons_of_a_chunk_are_the_last_that_is_not_empty() {
    let data =
        br#"{"choices":[{"finish_reason":"stop"},{"finish_reason":""},{"finish_reason":null}]}"#;
    let chunk = Chunk::parse(EndpointType::Chat, data).unwrap();
    assert_eq!(chunk.finish_reason(), Some(FinishReason::Stop));
}

/// A body that was parsed in full is kept, if the parser accepts it. Whether it is familiar then.
fn keep_body(familiar: &mut FamiliarBody, endpoint: EndpointType, body: &[u8]) -> bool {
    match Chunk::parse(endpoint, body) {
        Ok(chunk) if !chunk.is_error() => familiar.learn(endpoint, body, &chunk),
        _ => {}
    }
    familiar.matches(endpoint, body).is_some()
}

/// What a familiar body says, in the terms of the oracle.
fn familiar_said(familiar: &mut FamiliarBody, endpoint: EndpointType, body: &[u8]) -> Option<Said> {
    let said = familiar.matches(endpoint, body)?;
    Some(Said {
        text: said.text.decode(),
        finish_reason: said.finish_reason.map(|reason| reason.as_str().to_owned()),
        usage: said.usage,
        ..Said::default()
    })
}

const BODY: &str = r#"{"id":"a-1","created":17,"model":"m","choices":[{"index":0,"message":{"role":"assistant","content":"Hi","tool_calls":[]},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":2,"total_tokens":3,"prompt_tokens_details":{"cached_tokens":0}}}"#;

#[test]
fn bodies_that_differ_in_known_values_are_familiar() {
    let (body, chat) = (BODY, EndpointType::Chat);
    for (from, to, is_familiar) in [
        ("Hi", "", true),
        (
            "Hi",
            "\\u00e9 \\\"é\\\" and a longer text, of several words",
            true,
        ),
        ("a-1", "", true),
        ("stop", "length", true),
        (
            "stop",
            "a word that the API does not have, and that is too long",
            true,
        ),
        ("stop", "", false),
        (":17", ":0", true),
        (":17", ":007", false),
        (":17", ":-1", false),
        (":17", ":1.5", false),
        (":17", ":9999999999999999999", true),
        (":17", ":99999999999999999999", false),
        (":2,", ":4294967295,", true),
        (":2,", ":4294967296,", true),
        (":2,", ":,", false),
        (":0}", ":5}", true),
        ("\"m\"", "\"n\"", false),
        ("\"Hi\"", "null", false),
        ("\"Hi\"", "\"Hi", false),
        ("[]", "[{}]", false),
        ("Hi", "\u{1}", false),
        ("Hi", "\\x", false),
        ("}}}", "}}} ", false),
        ("}}}", "}}", false),
    ] {
        let mut familiar = FamiliarBody::new(1024);
        assert!(keep_body(&mut familiar, chat, body.as_bytes()));
        let other = body.replacen(from, to, 1);
        let said = familiar_said(&mut familiar, chat, other.as_bytes());
        assert_eq!(said.is_some(), is_familiar, "{other}");
        if is_familiar {
            assert_eq!(said, oracle::read(chat, other.as_bytes()), "{other}");
        }
        assert_eq!(
            familiar.matches(EndpointType::Completions, body.as_bytes()),
            None
        );
    }
}

#[test]
fn bodies_in_which_a_value_may_count_or_not_are_not_kept() {
    let (body, chat) = (BODY, EndpointType::Chat);
    for (from, to) in [
        ("\"usage\":", "\"usage\":{},\"usage\":"),
        ("\"total_tokens\":3", "\"prompt_tokens\":3"),
        ("\"id\":", "\"id\":\"b\",\"id\":"),
        ("\"choices\":", "\"choices\":[],\"choices\":"),
        (
            "\"message\":",
            "\"message\":{\"content\":\"b\"},\"message\":",
        ),
        ("\"message\":", "\"delta\":{\"content\":\"b\"},\"message\":"),
        ("\"role\":\"assistant\"", "\"reasoning\":\"r\""),
        ("[]", "[{}]"),
        ("\"index\":0", "\"index\":1"),
    ] {
        let other = body.replacen(from, to, 1);
        assert!(
            !keep_body(&mut FamiliarBody::new(1024), chat, other.as_bytes()),
            "{other}"
        );
    }
    let around = body.len() - "a-117Histop1230".len();
    assert!(keep_body(
        &mut FamiliarBody::new(around),
        chat,
        body.as_bytes()
    ));
    assert!(!keep_body(
        &mut FamiliarBody::new(around - 1),
        chat,
        body.as_bytes()
    ));
}

/// Whatever is taken for familiar, the oracle reads the same in it.
#[test]
fn mutated_familiar_bodies_say_what_the_oracle_reads() {
    let (mut kept, mut others) = (0, 0);
    let rounds = 8_192;
    crate::mutate::rounds(rounds, |seed, _| {
        let endpoint = chat_or_not(seed);
        let mut writer = Writer::new(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        if writer.below(4) == 0 {
            writer.document();
        } else {
            writer.answer();
        }
        let body = std::mem::take(&mut writer.out);
        let mut familiar = FamiliarBody::new(1024);
        if !keep_body(&mut familiar, endpoint, &body) {
            return;
        }
        kept += 1;
        for mutated in [false, false, false, true, true, true] {
            writer.out = writer.with_other_values(&body);
            if mutated {
                writer.mutate();
            }
            let other = std::mem::take(&mut writer.out);
            if let Some(said) = familiar_said(&mut familiar, endpoint, &other) {
                let text = String::from_utf8_lossy(&other);
                assert_eq!(
                    Some(said),
                    oracle::read(endpoint, &other),
                    "seed {seed}: {text}"
                );
                others += u64::from(other != body);
            }
        }
    });
    // Else it would show nothing.
    assert!(
        kept > rounds / 20 && others > rounds / 20,
        "{kept} kept, {others} others"
    );
}
