use std::rc::Rc;

use super::words;

/// A text of a known number of tokens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Text {
    source: Source,
    tokens: u32,
    /// Where the text ends, in bytes of the source from its first token on: the last tokens may say
    /// less than they are, or nothing.
    bytes: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Source {
    /// The fixed words, from this number on; the first goes without its space.
    Words(u32),
    Tokens(Rc<Tokens>),
}

/// A text that was taken apart into tokens.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Tokens {
    pub(crate) text: Box<str>,
    /// Where each token ends, or the last character that is whole by then.
    /// INVARIANT: ascending, character boundaries, the last is `text.len()`.
    pub(crate) ends: Box<[u32]>,
}

impl Text {
    /// `tokens` of the fixed words, from number `start` on.
    pub(crate) fn words(start: u32, tokens: u32) -> Self {
        Self {
            source: Source::Words(start),
            tokens,
            bytes: u64::MAX,
        }
    }

    /// The first `tokens` tokens.
    pub(crate) fn of(text: Rc<Tokens>, tokens: u32) -> Self {
        Self {
            tokens: tokens.min(u32::try_from(text.ends.len()).unwrap_or(u32::MAX)),
            source: Source::Tokens(text),
            bytes: u64::MAX,
        }
    }

    /// About the memory behind it.
    pub(super) fn bytes(&self) -> usize {
        match &self.source {
            Source::Words(_) => 0,
            Source::Tokens(tokens) => tokens.text.len() + size_of_val(&*tokens.ends),
        }
    }

    pub(crate) fn tokens(&self) -> u32 {
        self.tokens
    }

    /// What tokens `from..end` say, at least one of them and as many as can be had at once, and
    /// their number; or, if `from` is past the text, both counted from its end.
    pub(crate) fn slice(&self, from: u32, end: u32) -> Result<(&str, u32), (u32, u32)> {
        if from >= self.tokens {
            return Err((from - self.tokens, end - self.tokens));
        }
        let end = end.min(self.tokens).min(from + words::SLICE_MAX);
        let (text, start) = match &self.source {
            Source::Words(first) => {
                let text = words::slice(first.wrapping_add(from), end - from);
                // The space of the first token.
                if from == 0 {
                    (&text[1..], 0)
                } else {
                    (text, words::bytes(*first, from) - 1)
                }
            }
            Source::Tokens(tokens) => {
                let place = |index: u32| match index {
                    0 => 0,
                    _ => tokens.ends[index as usize - 1] as usize,
                };
                (&tokens.text[place(from)..place(end)], place(from) as u64)
            }
        };
        let left = usize::try_from(self.bytes.saturating_sub(start)).unwrap_or(usize::MAX);
        Ok((text.get(..left).unwrap_or(text), end - from))
    }

    /// The same, said only up to byte `bytes`.
    pub(crate) fn cut(self, tokens: u32, bytes: u64) -> Self {
        Self {
            tokens: tokens.min(self.tokens),
            bytes: bytes.min(self.bytes),
            ..self
        }
    }

    /// The first `tokens` tokens of it.
    pub(crate) fn truncated(self, tokens: u32) -> Self {
        self.cut(tokens, u64::MAX)
    }

    /// What each token says.
    pub(crate) fn tokens_one_by_one(&self) -> impl Iterator<Item = &str> {
        (0..self.tokens).filter_map(|index| Some(self.slice(index, index + 1).ok()?.0))
    }

    /// All of it, in pieces.
    pub(crate) fn pieces(&self) -> impl Iterator<Item = &str> {
        let mut from = 0;
        std::iter::from_fn(move || {
            let (text, tokens) = self.slice(from, self.tokens).ok()?;
            from += tokens;
            Some(text)
        })
    }
}
