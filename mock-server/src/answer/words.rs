//! The text of every answer: a fixed list of words, one token each, over and over.
//!
//! The same for every request, so that whoever reads an answer can check it byte for byte against
//! [`text`]. No word needs an escape in JSON.

use std::sync::OnceLock;

const COUNT: u32 = 64;

/// One token per word, with the space that joins it to the token before; token 0 goes without. With
/// and without, each is one token of `o200k_base` and of `cl100k_base`, whatever stands beside it.
const WORDS: [&str; COUNT as usize] = [
    " A", " quiet", " river", " moves", " small", " boats", " past", " the", " mill", " and",
    " under", " seven", " stone", " steps", " before", " night", " while", " someone", " counts",
    " every", " single", " stroke", " out", " so", " that", " all", " keep", " time", " or",
    " hope", " on", " this", " long", " path", " where", " water", " runs", " green", " near",
    " old", " tree", " roots", " then", " flows", " again", " until", " other", " lights",
    " appear", " along", " both", " banks", " with", " voices", " calling", " home", " each",
    " new", " crew", " at", " last", " light", " of", " day",
];

/// The most tokens that [`slice`] gives at once.
pub(super) const SLICE_MAX: u32 = 256;

/// The list, over and over, long enough for a slice from any word on.
struct Loop {
    text: String,
    /// Where each word begins; one more: where the last ends.
    starts: Vec<usize>,
}

fn words() -> &'static Loop {
    static LOOP: OnceLock<Loop> = OnceLock::new();
    LOOP.get_or_init(|| {
        let mut text = String::new();
        let mut starts = vec![0];
        for index in 0..COUNT + SLICE_MAX {
            text.push_str(WORDS[(index % COUNT) as usize]);
            starts.push(text.len());
        }
        Loop { text, starts }
    })
}

/// The words from number `start` on (whatever its size, they go round), `count` of them, at most
/// [`SLICE_MAX`], each with the space before it.
pub(super) fn slice(start: u32, count: u32) -> &'static str {
    let words = words();
    let start = (start % COUNT) as usize;
    &words.text[words.starts[start]..words.starts[start + count as usize]]
}

/// The bytes of `count` words from number `start` on.
pub(super) fn bytes(start: u32, count: u32) -> u64 {
    let words = words();
    let round = words.starts[COUNT as usize] as u64;
    let start = (start % COUNT) as usize;
    let rest = (count % COUNT) as usize;
    u64::from(count / COUNT) * round + (words.starts[start + rest] - words.starts[start]) as u64
}

/// Word number `index`, with the space before it.
pub(crate) fn word(index: u32) -> &'static str {
    WORDS[(index % COUNT) as usize]
}

/// Token `index` of an answer, with the space that joins it to the one before.
#[must_use]
pub fn token(index: u32) -> &'static str {
    word(index)
        .get(usize::from(index == 0)..)
        .unwrap_or_default()
}

/// The text of an answer of `tokens` tokens.
#[must_use]
pub fn text(tokens: u32) -> String {
    (0..tokens).map(token).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use ridgeline_workload::{Builtin, Tokenizer};

    #[test]
    fn tokens_join_to_the_text() {
        assert_eq!(text(0), "");
        assert_eq!(text(3), "A quiet river");
        assert_eq!(text(66).split(' ').count(), 66);
        assert!(text(66).ends_with(" day A quiet"));
    }

    #[test]
    fn no_word_needs_an_escape() {
        assert_eq!(
            serde_json::to_string(&text(64)).unwrap().len(),
            text(64).len() + 2
        );
    }

    #[test]
    fn every_word_is_one_token_whatever_stands_beside_it() {
        for builtin in [Builtin::O200k, Builtin::Cl100k] {
            let tokenizer = Tokenizer::from(builtin);
            for word in WORDS {
                assert_eq!(tokenizer.count(word).unwrap(), 1, "{word}");
                assert_eq!(tokenizer.count(word.trim()).unwrap(), 1, "{word}");
            }
            for tokens in [0, 1, 2, 63, 64, 65, 500] {
                assert_eq!(tokenizer.count(&text(tokens)).unwrap(), tokens);
            }
            for start in 0..COUNT {
                let said = slice(start, 70);
                assert_eq!(tokenizer.count(&said[1..]).unwrap(), 70, "{said}");
            }
        }
    }

    proptest! {
        #[test]
        fn a_slice_is_the_words_one_by_one(start: u32, count in 0..=SLICE_MAX) {
            let start_index = start % COUNT;
            let naive: String = (start_index..start_index + count)
                .map(|index| WORDS[(index % COUNT) as usize])
                .collect();
            prop_assert_eq!(slice(start, count), naive.as_str());
            prop_assert_eq!(bytes(start, count), naive.len() as u64);
        }
    }
}
