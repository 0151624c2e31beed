//! Bytes with holes: what a dialect says, compiled once for a model.
//!
//! A template is text in which `$name` is a hole, and `$$` a dollar sign. It is compiled into literal bytes and the holes
//! between them; rendering copies the one and asks for the other, and allocates nothing.

/// What is not the same in all events of a voice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hole {
    /// The answer's id, without a prefix.
    Id,
    /// Seconds since 1970.
    Created,
    /// The number of the event in its stream, from 0.
    Serial,
    /// The choice.
    Index,
    /// A piece of text, reasoning or arguments: the inside of a JSON string.
    Text,
    /// The number of a tool call.
    Call,
    /// Its id, and its function's name: the inside of a JSON string.
    CallId,
    CallName,
    /// Why the choice ends, as a JSON string; or null.
    Finish,
    /// The stop string that ended it, as a JSON string; or null.
    Stop,
    /// `,"usage":{..}`, or what the dialect says where there is none.
    UsageField,
    /// The usage object; or null.
    Usage,
    /// Numbers of a usage object.
    Prompt,
    Completion,
    Total,
    Cached,
    Reasoning,
    /// `,"prompt_tokens_details":{..}`, unless nothing was cached.
    CachedField,
    /// `,"completion_tokens_details":{..}`, unless nothing was reasoning.
    ReasoningField,
    /// The log probabilities of the piece's tokens; or null.
    Logprobs,
    /// All choices of a whole answer.
    Choices,
    /// The text of a whole answer: a JSON string; or null where there are only tool calls.
    Content,
    /// The same, but never null: the inside of a JSON string.
    WholeText,
    /// The reasoning of a whole answer in its field, if there is any.
    WholeReasoning,
    /// The tool calls of a whole answer in their field, if there are any.
    WholeCalls,
    /// Responses API: the number of the output item, and all items.
    OutputIndex,
    Output,
}

impl Hole {
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "id" => Self::Id,
            "created" => Self::Created,
            "serial" => Self::Serial,
            "index" => Self::Index,
            "text" => Self::Text,
            "call" => Self::Call,
            "call_id" => Self::CallId,
            "call_name" => Self::CallName,
            "finish" => Self::Finish,
            "stop" => Self::Stop,
            "usage_field" => Self::UsageField,
            "usage" => Self::Usage,
            "prompt" => Self::Prompt,
            "completion" => Self::Completion,
            "total" => Self::Total,
            "cached" => Self::Cached,
            "reasoning" => Self::Reasoning,
            "cached_field" => Self::CachedField,
            "reasoning_field" => Self::ReasoningField,
            "logprobs" => Self::Logprobs,
            "choices" => Self::Choices,
            "content" => Self::Content,
            "whole_text" => Self::WholeText,
            "whole_reasoning" => Self::WholeReasoning,
            "whole_calls" => Self::WholeCalls,
            "output_index" => Self::OutputIndex,
            "output" => Self::Output,
            _ => return None,
        })
    }
}

/// Literal bytes, and the holes between them.
#[derive(Clone, Debug, Default)]
pub(super) struct Template {
    bytes: Box<[u8]>,
    /// Each hole, and how many of the bytes come before it. INVARIANT: ascending, no more than
    /// `bytes.len()`.
    holes: Box<[(usize, Hole)]>,
}

impl Template {
    /// Compiles `text`.
    ///
    /// # Panics
    /// When a `$` is not followed by the name of a hole: dialects are constants, and a test
    /// compiles them all.
    pub(super) fn new(text: &str) -> Self {
        let mut bytes = Vec::with_capacity(text.len());
        let mut holes = Vec::new();
        let mut rest = text;
        while let Some((literal, after)) = rest.split_once('$') {
            bytes.extend_from_slice(literal.as_bytes());
            if let Some(after) = after.strip_prefix('$') {
                bytes.push(b'$');
                rest = after;
                continue;
            }
            let end = after
                .find(|c: char| c != '_' && !c.is_ascii_lowercase())
                .unwrap_or(after.len());
            let (name, after) = after.split_at(end);
            let hole = Hole::named(name).unwrap_or_else(|| panic!("no hole is named ${name}"));
            holes.push((bytes.len(), hole));
            rest = after;
        }
        bytes.extend_from_slice(rest.as_bytes());
        Self {
            bytes: bytes.into(),
            holes: holes.into(),
        }
    }

    /// Appends the literal bytes, and what `fill` appends for each hole.
    #[inline]
    pub(super) fn render(&self, out: &mut Vec<u8>, mut fill: impl FnMut(&mut Vec<u8>, Hole)) {
        let mut start = 0;
        for &(end, hole) in &self.holes {
            out.extend_from_slice(&self.bytes[start..end]);
            fill(out, hole);
            start = end;
        }
        out.extend_from_slice(&self.bytes[start..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_filled_in_order_and_literals_stay() {
        for (text, want) in [
            ("", ""),
            ("plain", "plain"),
            ("$$id $$$id", "$id $<Id>"),
            ("$id", "<Id>"),
            (
                "a$id,\"$call_id\"$usage_field}",
                "a<Id>,\"<CallId>\"<UsageField>}",
            ),
        ] {
            let mut out = Vec::new();
            Template::new(text).render(&mut out, |out, hole| {
                out.extend_from_slice(format!("<{hole:?}>").as_bytes());
            });
            assert_eq!(String::from_utf8(out).unwrap(), want);
        }
    }

    #[test]
    #[should_panic(expected = "no hole is named $nothing")]
    fn an_unknown_hole_is_told() {
        Template::new("{$nothing}");
    }
}
