//! Samples in memory: what a data set comes to, whatever file it was read from.

use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;

use crate::error::WorkloadError;
use crate::tokenizer::Tokenizer;

/// The samples of one run, in file order.
#[derive(Debug, Clone, Default)]
pub struct Dataset {
    /// The file's name, `prompt` or `synthetic`: goes into the report.
    pub name: String,
    /// INVARIANT: 1 <= `samples.len()` <= `u32::MAX`; a file gives at most
    /// [`LoadOptions::samples_max`](crate::LoadOptions::samples_max).
    pub samples: Vec<Sample>,
    /// Entries of the file that hold nothing to ask (ShareGPT conversations without a question
    /// that is answered). Entries that are *wrong* are errors, never skipped.
    pub skipped: u64,
    /// What the user should know about how the file was read, one sentence each.
    pub notes: Vec<String>,
}

impl Dataset {
    /// The number of samples, as [`Order::sample_of`](crate::Order::sample_of) takes it.
    #[must_use]
    pub fn samples_count(&self) -> u32 {
        u32::try_from(self.samples.len()).expect("load bounds samples by a u32")
    }

    /// Fills in `input_tokens` of every sample, except where it is known (synthetic prompts).
    ///
    /// # Errors
    /// When the tokenizer cannot be built or refuses a text.
    pub fn count_input_tokens(&mut self, tokenizer: &Tokenizer) -> Result<(), WorkloadError> {
        for sample in self.samples.iter_mut().filter(|s| s.input_tokens.is_none()) {
            sample.input_tokens = Some(sample.count_tokens(tokenizer)?);
        }
        Ok(())
    }
}

/// One thing to ask: the part of a request that differs from request to request.
#[derive(Debug, Clone)]
pub struct Sample {
    /// What is asked.
    pub input: Input,
    /// Tokens of the input's text, without what the server's chat template adds. Known for
    /// synthetic prompts, and after [`Dataset::count_input_tokens`].
    pub input_tokens: Option<u32>,
    /// The length of the answer that this sample asks for.
    pub output: Option<OutputLength>,
    /// Other members that this sample puts into the body.
    pub extra: Fields,
    /// The session that it belongs to: a hash of its name, the same in every file.
    pub session: Option<u64>,
}

/// A hash of the name of a session that never changes (FNV-1a, 64 bits).
pub(crate) fn session(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

impl Sample {
    /// A sample that is one plain prompt.
    #[must_use]
    pub fn prompt(text: impl Into<Box<str>>) -> Self {
        Self {
            input: Input::Prompt {
                system: None,
                text: text.into(),
            },
            input_tokens: None,
            output: None,
            extra: Fields::default(),
            session: None,
        }
    }

    /// Tokens of the input's text: the sum over system text and prompt, or over the text of all
    /// messages. Roles and the chat template are the server's and are not counted.
    ///
    /// # Errors
    /// When the tokenizer cannot be built or refuses a text.
    pub fn count_tokens(&self, tokenizer: &Tokenizer) -> Result<u32, WorkloadError> {
        match &self.input {
            Input::Prompt { system, text } => {
                let system = system.as_deref().map_or(Ok(0), |s| tokenizer.count(s))?;
                Ok(system.saturating_add(tokenizer.count(text)?))
            }
            Input::Messages(raw) => {
                let mut sum = 0_u32;
                for text in message_texts(raw) {
                    sum = sum.saturating_add(tokenizer.count(&text)?);
                }
                Ok(sum)
            }
        }
    }
}

/// What a sample asks.
#[derive(Debug, Clone)]
pub enum Input {
    /// The JSON array of an OpenAI `messages` member, as it stands in the file.
    Messages(Box<RawValue>),
    /// One text, with an optional system text before it.
    Prompt {
        /// Becomes the `system` message of a chat; in a completion it precedes the prompt, with
        /// a blank line between.
        system: Option<Box<str>>,
        /// The user's text.
        text: Box<str>,
    },
}

/// How long an answer should be, in tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OutputLength {
    /// Only a limit: sends `max_tokens`; the model may stop earlier.
    AtMost(u32),
    /// Exactly so many: sends `max_tokens`, `min_tokens` and `ignore_eos`.
    Exact(u32),
}

/// Members of a JSON object in their order, values kept as they were written: a number that no
/// Rust type can hold passes through unchanged. When a name occurs twice the last one counts.
#[derive(Debug, Clone, Default)]
pub struct Fields(Vec<Field>);

type Field = (Box<str>, Box<RawValue>);

impl Fields {
    /// Parses one JSON object, such as the value of `--extra-body`.
    ///
    /// # Errors
    /// When `text` is not a JSON object.
    pub fn parse(text: &str) -> Result<Self, WorkloadError> {
        serde_json::from_str(text).map_err(|cause| WorkloadError::Option {
            option: "--extra-body",
            problem: format!("not a JSON object: {cause}"),
        })
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether a member of this name is there.
    #[must_use]
    pub fn contains(&self, name: &str) -> bool {
        self.iter().any(|(n, _)| n == name)
    }

    /// Name and value of each member, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &RawValue)> {
        self.0.iter().map(|(name, value)| (&**name, &**value))
    }

    /// Sets a member; one that was there before keeps its place.
    pub fn insert(&mut self, name: &str, value: Box<RawValue>) {
        match self.0.iter_mut().find(|(n, _)| &**n == name) {
            Some(field) => field.1 = value,
            None => self.0.push((name.into(), value)),
        }
    }
}

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Fields;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }
            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields = Fields::default();
                while let Some((name, value)) = map.next_entry::<String, Box<RawValue>>()? {
                    fields.insert(&name, value);
                }
                Ok(fields)
            }
        }
        deserializer.deserialize_map(Members)
    }
}

/// The text parts of a `messages` array: string contents, and `text` of content parts.
fn message_texts(messages: &RawValue) -> Vec<String> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Content {
        Text(String),
        Parts(Vec<Part>),
        Other(serde::de::IgnoredAny),
    }
    #[derive(Deserialize)]
    struct Part {
        #[serde(default)]
        text: Option<String>,
    }
    #[derive(Deserialize)]
    struct Message {
        #[serde(default)]
        content: Option<Content>,
    }
    let messages: Vec<Message> = serde_json::from_str(messages.get()).unwrap_or_default();
    let mut texts = Vec::new();
    for message in messages {
        match message.content {
            Some(Content::Text(text)) => texts.push(text),
            Some(Content::Parts(parts)) => texts.extend(parts.into_iter().filter_map(|p| p.text)),
            Some(Content::Other(_)) | None => {}
        }
    }
    texts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_stays_small() {
        assert!(size_of::<Sample>() <= 104, "{}", size_of::<Sample>());
    }

    #[test]
    fn a_session_has_one_hash_for_ever() {
        assert_eq!(session("a"), 0xaf63_dc4c_8601_ec8c);
        assert_ne!(session("a"), session("b"));
    }

    #[test]
    fn fields_keep_order_and_exact_numbers_and_the_last_of_equal_names() {
        let fields =
            Fields::parse(r#"{"z":1e999,"a":123456789012345678901234567890,"z":[ 1 ]}"#).unwrap();
        let seen: Vec<_> = fields.iter().map(|(n, v)| (n, v.get())).collect();
        assert_eq!(
            seen,
            [("z", "[ 1 ]"), ("a", "123456789012345678901234567890")]
        );
        assert!(Fields::parse("{}").unwrap().is_empty());
    }

    #[test]
    fn extra_body_that_is_not_an_object_is_one_clear_error() {
        for text in [
            "",
            "[]",
            "1",
            "{\"a\":}",
            "{\"a\":1} x",
            "\u{0}",
            &"[".repeat(200_000),
        ] {
            let message = Fields::parse(text).unwrap_err().to_string();
            assert!(
                message.starts_with("--extra-body: not a JSON object: "),
                "{message}"
            );
        }
    }

    #[test]
    fn texts_of_messages_are_contents_and_text_parts() {
        let raw = RawValue::from_string(
            r#"[{"role":"system","content":"a"},{"role":"user","content":[{"type":"text","text":"b"},
               {"type":"image_url","image_url":{"url":"x"}}]},{"role":"assistant","content":null},
               {"role":"assistant"},{"role":"user","content":7}]"#
                .to_owned(),
        );
        assert_eq!(message_texts(&raw.unwrap()), ["a", "b"]);
    }
}
