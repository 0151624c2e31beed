//! Log probabilities of the tokens of a piece of text. They are made up, but well formed: one entry
//! per token, tokens that join to the text, and alternatives that look like parts of an event.

use super::letters::Letters;

/// The tokens of one piece, and what was asked about them.
#[derive(Clone, Copy, Debug)]
pub(super) struct Logprobs<'a> {
    pub(super) text: &'a str,
    /// How many tokens the text has.
    pub(super) tokens: u32,
    /// Alternatives of each token.
    pub(super) top: u32,
    /// Characters of the choice before this piece.
    pub(super) offset: u32,
}

/// What is said of token after token, over and over: each way in which servers write numbers.
const VALUES: [&str; 4] = ["-0.1", "-1e-05", "-2.5", "-0.25"];

/// The alternatives, over and over.
const OTHERS: [&str; 3] = ["\"content\":\"x\"", " data", "[DONE]"];

impl<'a> Logprobs<'a> {
    /// The object of a chat choice: `content` is a list, not the text.
    pub(super) fn chat(&self, out: &mut Vec<u8>, letters: Letters) {
        out.extend_from_slice(b"{\"content\":");
        self.list(out, letters);
        out.push(b'}');
    }

    /// The list of a delta of the Responses API.
    pub(super) fn list(&self, out: &mut Vec<u8>, letters: Letters) {
        out.push(b'[');
        for (index, token) in self.tokens().enumerate() {
            let comma: &[u8] = if index == 0 { b"{" } else { b",{" };
            out.extend_from_slice(comma);
            entry(out, letters, token, VALUES[index % VALUES.len()]);
            out.extend_from_slice(b",\"top_logprobs\":[");
            for (rank, (token, value)) in self.ranked(token, index).enumerate() {
                let comma: &[u8] = if rank == 0 { b"{" } else { b",{" };
                out.extend_from_slice(comma);
                entry(out, letters, token, value);
                out.push(b'}');
            }
            out.extend_from_slice(b"]}");
        }
        out.push(b']');
    }

    /// The object of a choice of `/v1/completions`: a list for each property.
    pub(super) fn completions(&self, out: &mut Vec<u8>, letters: Letters) {
        self.column(out, b"{\"tokens\":[", |out, _, token| {
            string(out, letters, token);
        });
        self.column(out, b"],\"token_logprobs\":[", |out, index, _| {
            out.extend_from_slice(VALUES[index % VALUES.len()].as_bytes());
        });
        self.column(out, b"],\"top_logprobs\":[", |out, index, token| {
            out.push(b'{');
            for (rank, (token, value)) in self.ranked(token, index).enumerate() {
                if rank > 0 {
                    out.push(b',');
                }
                string(out, letters, token);
                out.push(b':');
                out.extend_from_slice(value.as_bytes());
            }
            out.push(b'}');
        });
        let mut offset = self.offset as usize;
        self.column(out, b"],\"text_offset\":[", |out, _, token| {
            out.extend_from_slice(itoa::Buffer::new().format(offset).as_bytes());
            offset += token.chars().count();
        });
        out.extend_from_slice(b"]}");
    }

    fn column(
        &self,
        out: &mut Vec<u8>,
        open: &[u8],
        mut one: impl FnMut(&mut Vec<u8>, usize, &str),
    ) {
        out.extend_from_slice(open);
        for (index, token) in self.tokens().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            one(out, index, token);
        }
    }

    /// The text in `tokens` pieces: its words with the space before them where there are as many,
    /// else pieces of about the same number of characters.
    fn tokens(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let count = self.tokens as usize;
        let words = 1 + self.text.bytes().skip(1).filter(|b| *b == b' ').count();
        let by_words = words == count;
        let characters = self.text.chars().count();
        let mut rest = self.text;
        (0..count).map(move |index| {
            let end = if by_words {
                rest.bytes()
                    .skip(1)
                    .position(|b| b == b' ')
                    .map(|at| at + 1)
            } else {
                let take = characters * (index + 1) / count - characters * index / count;
                rest.char_indices().nth(take).map(|(at, _)| at)
            };
            let (token, after) = rest.split_at(end.unwrap_or(rest.len()));
            rest = after;
            token
        })
    }

    /// The token itself, and then others, less likely each.
    fn ranked<'t>(
        &self,
        token: &'t str,
        index: usize,
    ) -> impl Iterator<Item = (&'t str, &'static str)> {
        const LESS: [&str; 5] = ["-3.5", "-4.0", "-5.25", "-7.5", "-9.0"];
        (0..self.top as usize).map(move |rank| match rank.checked_sub(1) {
            None => (token, VALUES[index % VALUES.len()]),
            Some(other) => (OTHERS[other % OTHERS.len()], LESS[other % LESS.len()]),
        })
    }
}

/// The inside of one entry, up to its alternatives.
fn entry(out: &mut Vec<u8>, letters: Letters, token: &str, value: &str) {
    out.extend_from_slice(b"\"token\":");
    string(out, letters, token);
    out.extend_from_slice(b",\"logprob\":");
    out.extend_from_slice(value.as_bytes());
    out.extend_from_slice(b",\"bytes\":[");
    for (index, byte) in token.bytes().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(itoa::Buffer::new().format(byte).as_bytes());
    }
    out.push(b']');
}

fn string(out: &mut Vec<u8>, letters: Letters, text: &str) {
    out.push(b'"');
    letters.put(out, text);
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Value, json};

    fn chat(logprobs: &Logprobs<'_>) -> Value {
        let mut out = Vec::new();
        logprobs.chat(&mut out, Letters::Plain);
        serde_json::from_slice(&out).unwrap()
    }

    fn completions(logprobs: &Logprobs<'_>) -> Value {
        let mut out = Vec::new();
        logprobs.completions(&mut out, Letters::Escaped);
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn each_token_has_its_entry() {
        let logprobs = Logprobs {
            text: " a quiet",
            tokens: 2,
            top: 2,
            offset: 7,
        };
        let value = chat(&logprobs);
        let entries = value["content"].as_array().unwrap();
        let tokens: Vec<_> = entries.iter().map(|entry| &entry["token"]).collect();
        assert_eq!(tokens, [" a", " quiet"]);
        assert_eq!(entries[0]["bytes"], json!([32, 97]));
        assert_eq!(entries[0]["top_logprobs"][0]["token"], " a");
        assert_eq!(entries[1]["top_logprobs"][1]["token"], "\"content\":\"x\"");
        let value = completions(&logprobs);
        assert_eq!(value["tokens"], json!([" a", " quiet"]));
        assert_eq!(value["text_offset"], json!([7, 9]));
        assert_eq!(value["token_logprobs"].as_array().unwrap().len(), 2);
        assert_eq!(value["top_logprobs"][0].as_object().unwrap().len(), 2);
    }

    proptest! {
        #[test]
        fn there_are_as_many_tokens_as_told_and_they_join(
            text in any::<String>(), tokens in 1..20_u32, top in 0..4_u32,
        ) {
            let logprobs = Logprobs { text: &text, tokens, top, offset: 0 };
            let value = chat(&logprobs);
            let entries = value["content"].as_array().unwrap();
            prop_assert_eq!(entries.len(), tokens as usize);
            let joined: String =
                entries.iter().map(|entry| entry["token"].as_str().unwrap()).collect();
            prop_assert_eq!(&joined, &text);
            let value = completions(&logprobs);
            prop_assert_eq!(value["tokens"].as_array().unwrap().len(), tokens as usize);
        }
    }
}
