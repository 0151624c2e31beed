use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;
use std::sync::Arc;

use ridgeline_workload::{Builtin, Tokenizer, WorkloadError};

use crate::answer::Tokens;

/// What counts as a token.
#[derive(Clone)]
pub struct Vocabulary(Kind);

#[derive(Clone)]
enum Kind {
    /// Longest runs of bytes without ASCII white space.
    Words,
    Tokenizer(Arc<Tokenizer>),
}

impl Vocabulary {
    /// Longest runs of bytes without ASCII white space. Costs next to nothing.
    #[must_use]
    pub fn words() -> Self {
        Self(Kind::Words)
    }

    /// `words`; or a tokenizer: `o200k_base`, `cl100k_base`, a `tokenizer.json`, or the directory of
    /// one.
    ///
    /// # Errors
    /// When the file is missing or is no tokenizer.
    pub fn open(name: &str) -> Result<Self, WorkloadError> {
        if name == "words" {
            return Ok(Self::words());
        }
        Ok(Self(Kind::Tokenizer(Arc::new(Tokenizer::open(name)?))))
    }

    /// What [`Vocabulary::open`] was told.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.0 {
            Kind::Words => "words".to_owned(),
            Kind::Tokenizer(tokenizer) => tokenizer.name(),
        }
    }

    /// Builds what the first use would build: 100 ms that no request should wait for.
    pub(crate) fn warm(&self) {
        self.encode("warm", &mut Vec::new());
    }

    /// Appends the token ids of `text`.
    pub(crate) fn encode(&self, text: &str, ids: &mut Vec<u32>) {
        match &self.0 {
            Kind::Words => ids.extend(text.split_ascii_whitespace().map(word)),
            Kind::Tokenizer(tokenizer) => match tokenizer.encode(text) {
                Ok(encoded) => ids.extend(encoded),
                // What the vocabulary has no token for is one unknown token a word.
                Err(_) => ids.extend(text.split_ascii_whitespace().map(|_| 0)),
            },
        }
    }

    /// The number of tokens of `text`.
    pub(crate) fn count(&self, text: &str) -> u32 {
        let mut ids = Vec::new();
        self.encode(text, &mut ids);
        u32::try_from(ids.len()).unwrap_or(u32::MAX)
    }

    /// The text of one token, as far as it is text.
    pub(crate) fn piece(&self, id: u32) -> String {
        match &self.0 {
            Kind::Words => String::new(),
            Kind::Tokenizer(tokenizer) => tokenizer.decode(&[id]).unwrap_or_default(),
        }
    }

    /// The text of token ids; nothing where they are none of this vocabulary.
    pub(crate) fn decode(&self, ids: &[u32]) -> String {
        match &self.0 {
            Kind::Words => String::new(),
            Kind::Tokenizer(tokenizer) => tokenizer.decode(ids).unwrap_or_default(),
        }
    }

    /// Takes `text` apart into its tokens.
    pub(crate) fn take_apart(&self, text: &str) -> Tokens {
        let ends = match &self.0 {
            Kind::Words => word_ends(text),
            Kind::Tokenizer(tokenizer) => {
                let mut ids = Vec::new();
                self.encode(text, &mut ids);
                token_ends(tokenizer, text, &ids).unwrap_or_else(|| even_ends(text, ids.len()))
            }
        };
        Tokens {
            text: if ends.is_empty() { "" } else { text }.into(),
            ends: ends.into(),
        }
    }
}

impl Default for Vocabulary {
    /// `o200k_base`.
    fn default() -> Self {
        Self(Kind::Tokenizer(Arc::new(Builtin::O200k.into())))
    }
}

impl fmt::Debug for Vocabulary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Vocabulary").field(&self.name()).finish()
    }
}

impl PartialEq for Vocabulary {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

/// `--tokenizer`.
pub(crate) fn vocabulary(name: &str) -> Result<Vocabulary, String> {
    let is_name = ["words", "o200k_base", "cl100k_base"].contains(&name);
    if !is_name && !Path::new(name).exists() {
        return Err(
            "expected words, o200k_base, cl100k_base or the path of a tokenizer.json".to_owned(),
        );
    }
    Vocabulary::open(name).map_err(|error| error.to_string())
}

fn word(word: &str) -> u32 {
    let mut hasher = DefaultHasher::new();
    word.hash(&mut hasher);
    // Any 32 of its bits are as good as any other; these fit.
    u32::try_from(hasher.finish() >> 32).unwrap_or(0)
}

fn place(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
}

/// Each word ends where the next begins to have white space before it; the last, where the text
/// does.
fn word_ends(text: &str) -> Vec<u32> {
    let mut ends: Vec<_> = text
        .split_ascii_whitespace()
        .map(|word| place(word.as_ptr().addr() - text.as_ptr().addr() + word.len()))
        .collect();
    if let Some(last) = ends.last_mut() {
        *last = place(text.len());
    }
    ends
}

/// `None` when the tokens do not join to the text.
fn token_ends(tokenizer: &Tokenizer, text: &str, ids: &[u32]) -> Option<Vec<u32>> {
    let mut ends = Vec::with_capacity(ids.len());
    let (mut first, mut end) = (0, 0);
    for last in 0..ids.len() {
        // A token may be part of a character: those of one character are decoded together.
        if let Ok(piece) = tokenizer.decode(&ids[first..=last])
            && text[end..].starts_with(&piece)
        {
            end += piece.len();
            first = last + 1;
        }
        ends.push(place(end));
    }
    (end == text.len()).then_some(ends)
}

/// `count` tokens of about the same size.
fn even_ends(text: &str, count: usize) -> Vec<u32> {
    (1..=count)
        .map(|index| {
            let mut end = text.len() * index / count;
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            place(end)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn check(vocabulary: &Vocabulary, text: &str) {
        let tokens = vocabulary.take_apart(text);
        assert_eq!(tokens.ends.len(), vocabulary.count(text) as usize);
        assert!(tokens.ends.is_sorted());
        assert_eq!(
            tokens.ends.last().map_or(0, |end| *end as usize),
            tokens.text.len()
        );
        for end in &tokens.ends {
            assert!(text.is_char_boundary(*end as usize));
        }
    }

    #[test]
    fn names_are_told_apart() {
        for name in ["words", "o200k_base", "cl100k_base"] {
            assert_eq!(vocabulary(name).unwrap().name(), name);
        }
        assert!(vocabulary("no such file").unwrap_err().contains("words"));
        assert_eq!(Vocabulary::default().name(), "o200k_base");
        assert_ne!(Vocabulary::default(), Vocabulary::words());
    }

    #[test]
    fn a_text_is_taken_apart_at_its_tokens() {
        let tokens = Vocabulary::default().take_apart("A quiet river");
        assert_eq!(&*tokens.ends, [1, 7, 13]);
        let tokens = Vocabulary::words().take_apart(" one  two ");
        assert_eq!(&*tokens.ends, [4, 10]);
        // Characters of several tokens: their bytes come with the last.
        let tokens = Vocabulary::default().take_apart("\u{1f9a3}\u{13080}");
        assert!(tokens.ends.len() > 2);
        check(&Vocabulary::default(), "\u{1f9a3}\u{13080}");
    }

    proptest! {
        #[test]
        fn ends_are_ascending_and_as_many_as_tokens(text in "[a-z äß漢😀\n]{0,40}") {
            for name in ["words", "o200k_base"] {
                check(&Vocabulary::open(name).unwrap(), &text);
            }
            prop_assert!(even_ends(&text, 5).is_sorted());
        }
    }
}
