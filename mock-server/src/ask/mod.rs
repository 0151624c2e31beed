//! What a request body asks for.
//!
//! A body is parsed once and without a copy: prompts are counted while they are skipped.
//! `prompt_tokens` is the number of words, that is of longest runs of bytes without ASCII white
//! space, in the texts of all messages (chat) or in the prompt (completions); a prompt given as
//! token ids has as many tokens as ids.
use std::borrow::Cow;
use std::fmt;
use std::rc::Rc;

use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, SeqAccess, Visitor};

use crate::answer::{Answer, Endpoint, Finish, Output};
use crate::config::{Limits, ServerConfig};
use crate::refusal::Refusal;

/// What a body asks for.
#[derive(Clone, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) model: Option<Cow<'a, str>>,
    pub(crate) answer: Answer,
    /// Hashes of the prompt's blocks, each with all before it.
    pub(crate) blocks: Rc<[u64]>,
    pub(crate) seed: Option<u64>,
}

/// Reads a request body.
pub(crate) fn parse<'a>(
    endpoint: Endpoint,
    body: &'a [u8],
    config: &ServerConfig,
) -> Result<Asked<'a>, Refusal> {
    let body: Body<'a> = serde_json::from_slice(body)
        .map_err(|error| Refusal::invalid(None, format!("The body can't be read: {error}")))?;
    let prompt_tokens = match endpoint {
        Endpoint::Chat => body
            .messages
            .as_ref()
            .and_then(Messages::tokens)
            .ok_or("messages"),
        Endpoint::Completions | Endpoint::Responses => body
            .prompt
            .as_ref()
            .and_then(Prompt::tokens)
            .ok_or("prompt"),
    };
    let prompt_tokens = prompt_tokens.map_err(|param| {
        let message = format!("'{param}' must be one, and not empty");
        Refusal::invalid(Some(param), message)
    })?;
    let (tokens, finish) = length(&body, config)?;
    let stream = body.stream.unwrap_or(false);
    if body.stream_options.is_some() && !stream {
        return Err(Refusal::invalid(
            Some("stream_options"),
            "'stream_options' may only be set together with 'stream': true",
        ));
    }
    if body.n.unwrap_or(1) != 1 {
        return Err(Refusal::invalid(
            Some("n"),
            "This server gives one choice: 'n' must be 1",
        ));
    }
    let model = body.model.map(|model| model.0);
    check_model(model.as_deref(), &config.limits)?;
    let (include_usage, continuous_usage) = body.stream_options.map_or((false, false), |options| {
        let on = |option: Option<bool>| option.unwrap_or(false);
        (
            on(options.include_usage),
            on(options.continuous_usage_stats),
        )
    });
    Ok(Asked {
        model,
        answer: Answer {
            endpoint,
            stream,
            include_usage,
            continuous_usage,
            prompt_tokens,
            cached_tokens: 0,
            logprobs: None,
            outputs: [Output::words(0, 0, tokens, finish)].into(),
        },
        blocks: Rc::default(),
        seed: body.seed,
    })
}

/// How many tokens the answer has, and why it ends there. `min_tokens` can't exceed the maximum,
/// and every answer reaches its maximum: that `ignore_eos` is accepted is all there is to it.
fn length(body: &Body<'_>, config: &ServerConfig) -> Result<(u32, Finish), Refusal> {
    let (param, asked) = match (body.max_completion_tokens, body.max_tokens) {
        (Some(asked), _) => ("max_completion_tokens", Some(asked)),
        (None, asked) => ("max_tokens", asked),
    };
    let tokens_max = config.limits.tokens_max;
    let (tokens, finish) = match asked {
        Some(0) => {
            return Err(Refusal::invalid(
                Some(param),
                format!("'{param}' must be at least 1"),
            ));
        }
        Some(asked) => (u32::try_from(asked).unwrap_or(u32::MAX), Finish::Length),
        None => (config.max_tokens_default, Finish::Stop),
    };
    let min_tokens = body.min_tokens.unwrap_or(0);
    if asked.is_some() && min_tokens > u64::from(tokens) {
        return Err(Refusal::invalid(
            Some("min_tokens"),
            format!("'min_tokens' ({min_tokens}) is more than '{param}' ({tokens})"),
        ));
    }
    let tokens = tokens.max(u32::try_from(min_tokens).unwrap_or(u32::MAX));
    if tokens > tokens_max {
        return Err(Refusal::invalid(
            Some(param),
            format!("An answer has at most {tokens_max} tokens here; {tokens} were asked for"),
        ));
    }
    Ok((tokens, finish))
}

fn check_model(model: Option<&str>, limits: &Limits) -> Result<(), Refusal> {
    let bytes_max = limits.model_bytes_max;
    if model.is_some_and(|model| model.len() > bytes_max) {
        let message = format!("The name of a model has at most {bytes_max} bytes here");
        return Err(Refusal::invalid(Some("model"), message));
    }
    Ok(())
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    model: Option<Text<'a>>,
    messages: Option<Messages>,
    prompt: Option<Prompt>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    min_tokens: Option<u64>,
    #[serde(rename = "ignore_eos")]
    _ignore_eos: Option<bool>,
    n: Option<u64>,
    seed: Option<u64>,
}

/// serde borrows a `Cow` only where the field itself is one, not inside an `Option`.
#[derive(Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

#[derive(Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
    continuous_usage_stats: Option<bool>,
}

/// Words of a text; of an array of parts, those of the parts that have a text.
#[derive(Clone, Copy, Default)]
struct Words(u64);

fn words(text: &str) -> u64 {
    let mut words = 0;
    let mut inside = false;
    for byte in text.bytes() {
        let space = byte.is_ascii_whitespace();
        words += u64::from(!space && !inside);
        inside = !space;
    }
    words
}

#[derive(Deserialize)]
struct Part {
    #[serde(default)]
    text: Words,
}

impl<'de> Deserialize<'de> for Words {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(WordsVisitor)
    }
}

struct WordsVisitor;

impl<'de> Visitor<'de> for WordsVisitor {
    type Value = Words;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text, an array of parts, or null")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Words, E> {
        Ok(Words(words(text)))
    }

    fn visit_unit<E: Error>(self) -> Result<Words, E> {
        Ok(Words(0))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut parts: A) -> Result<Words, A::Error> {
        let mut sum = 0;
        while let Some(part) = parts.next_element::<Part>()? {
            sum += part.text.0;
        }
        Ok(Words(sum))
    }
}

#[derive(Deserialize)]
struct Message {
    #[serde(rename = "role")]
    _role: IgnoredAny,
    #[serde(default)]
    content: Words,
}

#[derive(Default)]
struct Messages {
    count: u64,
    words: u64,
}

impl Messages {
    fn tokens(&self) -> Option<u32> {
        (self.count > 0).then(|| saturate(self.words))
    }
}

impl<'de> Deserialize<'de> for Messages {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(MessagesVisitor)
    }
}

struct MessagesVisitor;

impl<'de> Visitor<'de> for MessagesVisitor {
    type Value = Messages;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut messages: A) -> Result<Messages, A::Error> {
        let mut sum = Messages::default();
        while let Some(message) = messages.next_element::<Message>()? {
            sum.count += 1;
            sum.words += message.content.0;
        }
        Ok(sum)
    }
}

/// The prompt of a completion: a text, token ids, or an array of either.
#[derive(Default)]
struct Prompt {
    prompts: u64,
    ids: u64,
    words: u64,
}

impl Prompt {
    fn tokens(&self) -> Option<u32> {
        match (self.prompts, self.ids) {
            (1, 0) => Some(saturate(self.words)),
            (0, 1..) => Some(saturate(self.ids)),
            _ => None,
        }
    }
}

impl<'de> Deserialize<'de> for Prompt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PromptVisitor { nested: false })
    }
}

/// An element of an array of prompts.
struct Nested(Prompt);

impl<'de> Deserialize<'de> for Nested {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer
            .deserialize_any(PromptVisitor { nested: true })
            .map(Self)
    }
}

struct PromptVisitor {
    nested: bool,
}

impl<'de> Visitor<'de> for PromptVisitor {
    type Value = Prompt;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a text or token ids, or an array of them")
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Prompt, E> {
        Ok(Prompt {
            prompts: 1,
            ids: 0,
            words: words(text),
        })
    }

    fn visit_u64<E: Error>(self, id: u64) -> Result<Prompt, E> {
        if self.nested {
            Ok(Prompt {
                ids: 1,
                ..Prompt::default()
            })
        } else {
            Err(E::invalid_type(serde::de::Unexpected::Unsigned(id), &self))
        }
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut elements: A) -> Result<Prompt, A::Error> {
        let mut sum = Prompt::default();
        if self.nested {
            // Inside an array only token ids may be in an array again.
            while elements.next_element::<u64>()?.is_some() {
                sum.words += 1;
            }
            sum.prompts = 1;
            return Ok(sum);
        }
        while let Some(Nested(element)) = elements.next_element()? {
            sum.prompts += element.prompts;
            sum.ids += element.ids;
            sum.words += element.words;
        }
        Ok(sum)
    }
}

fn saturate(count: u64) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn chat(body: &str) -> Result<(Answer, Option<String>), String> {
        read(Endpoint::Chat, body)
    }

    fn read(endpoint: Endpoint, body: &str) -> Result<(Answer, Option<String>), String> {
        parse(endpoint, body.as_bytes(), &ServerConfig::default())
            .map(|asked| (asked.answer, asked.model.map(Cow::into_owned)))
            .map_err(|refusal| format!("{} {:?}", refusal.status, refusal.param))
    }

    #[test]
    fn defaults_are_64_tokens_not_streamed_and_no_usage_event() {
        let (ask, model) =
            chat(r#"{"messages":[{"role":"user","content":"Hello, world"}]}"#).unwrap();
        assert_eq!(
            ask,
            Answer {
                endpoint: Endpoint::Chat,
                stream: false,
                include_usage: false,
                continuous_usage: false,
                prompt_tokens: 2,
                cached_tokens: 0,
                logprobs: None,
                outputs: [Output::words(0, 0, 64, Finish::Stop)].into(),
            }
        );
        assert_eq!(model, None);
    }

    #[test]
    fn everything_a_load_client_sends_is_understood() {
        let body = r#"{"model":"a\u0062","stream":true,"stream_options":{"include_usage":true},
            "max_tokens":3,"max_completion_tokens":7,"min_tokens":7,"ignore_eos":true,"n":1,
            "temperature":0.0,"seed":null,"tools":[{"deep":[[[]]]}],
            "messages":[{"role":"system","content":"be  brief\n"},{"role":"assistant","content":null},
                {"content":[{"type":"text","text":"one two"},{"type":"image_url","image_url":{}}],"role":"user"}]}"#;
        let (ask, model) = chat(body).unwrap();
        assert_eq!(model.as_deref(), Some("ab"));
        assert!(ask.stream && ask.include_usage);
        assert_eq!(
            (ask.tokens(), ask.prompt_tokens, ask.output(0).finish),
            (7, 4, Finish::Length)
        );
    }

    #[test]
    fn a_prompt_is_a_text_or_token_ids_and_only_one() {
        let tokens = |prompt: &str| {
            read(Endpoint::Completions, &format!(r#"{{"prompt":{prompt}}}"#))
                .map(|(ask, _)| ask.prompt_tokens)
        };
        for (prompt, count) in [
            (r#""a b c""#, 3),
            (r#"["a b"]"#, 2),
            ("[5,6,7,8]", 4),
            ("[[5,6]]", 2),
            (r#""""#, 0),
        ] {
            assert_eq!(tokens(prompt), Ok(count), "{prompt}");
        }
        for prompt in [r#"["a","b"]"#, "[[1],[2]]", "[]", r#"["a",1]"#, "null"] {
            assert_eq!(
                tokens(prompt),
                Err(r#"400 Some("prompt")"#.to_owned()),
                "{prompt}"
            );
        }
        for prompt in ["7", "-1", "{}", r#"[["a"]]"#, "[[[1]]]", "true"] {
            assert_eq!(tokens(prompt), Err("400 None".to_owned()), "{prompt}");
        }
    }

    #[test]
    fn what_is_wrong_is_named() {
        let with = |fields: &str| {
            chat(&format!(
                r#"{{"messages":[{{"role":"user","content":"x"}}],{fields}}}"#
            ))
            .map(|(ask, _)| ask.tokens())
        };
        let long = format!(r#""model":"{}""#, "m".repeat(257));
        for (fields, param) in [
            (r#""n":2"#, Some("n")),
            (r#""max_tokens":0"#, Some("max_tokens")),
            (r#""max_tokens":5,"min_tokens":6"#, Some("min_tokens")),
            (r#""max_tokens":40000"#, Some("max_tokens")),
            (
                r#""max_completion_tokens":99999999999"#,
                Some("max_completion_tokens"),
            ),
            (r#""min_tokens":40000"#, Some("max_tokens")),
            (
                r#""stream_options":{"include_usage":true}"#,
                Some("stream_options"),
            ),
            (long.as_str(), Some("model")),
            (r#""max_tokens":-1"#, None),
            (r#""stream":"yes""#, None),
        ] {
            assert_eq!(with(fields), Err(format!("400 {param:?}")), "{fields}");
        }
        assert_eq!(with(r#""min_tokens":65"#), Ok(65));
        assert_eq!(
            chat("{}").map(|_| ()),
            Err(r#"400 Some("messages")"#.to_owned())
        );
        assert_eq!(
            chat(r#"{"messages":[]}"#).map(|_| ()),
            Err(r#"400 Some("messages")"#.to_owned())
        );
        for body in [
            "",
            "[",
            "nonsense",
            "[]",
            "\"x\"",
            r#"{"messages":[{}]}"#,
            "\u{0}",
            "{} x",
        ] {
            assert_eq!(chat(body).map(|_| ()), Err("400 None".to_owned()), "{body}");
        }
    }

    proptest! {
        #[test]
        fn words_are_what_splitting_at_white_space_gives(text in "[a-c \t\n\r]{0,40}") {
            prop_assert_eq!(words(&text), text.split_ascii_whitespace().count() as u64);
        }

        #[test]
        fn no_bytes_panic(body in proptest::collection::vec(any::<u8>(), 0..80)) {
            let _ = parse(Endpoint::Chat, &body, &ServerConfig::default());
            let _ = parse(Endpoint::Completions, &body, &ServerConfig::default());
        }
    }
}
