//! The text of every answer: a fixed list of words, one token each, over and over.
//!
//! The same for every request, so that whoever reads an answer can check it byte for byte against
//! [`text`]. No word needs an escape in JSON.

/// One token per word, with the space that joins it to the token before. Token 0 goes without.
const WORDS: [&str; 64] = [
    " A", " quiet", " river", " carries", " small", " boats", " past", " the", " mill", " and",
    " under", " seven", " stone", " bridges", " before", " noon", " while", " someone", " counts",
    " every", " oar", " stroke", " aloud", " so", " that", " nobody", " loses", " time", " or",
    " courage", " on", " this", " long", " bend", " where", " water", " turns", " green", " near",
    " old", " willow", " roots", " then", " slows", " again", " until", " evening", " lamps",
    " appear", " along", " both", " banks", " with", " voices", " calling", " home", " each",
    " tired", " crew", " at", " last", " light", " of", " day",
];

/// Token `index` of an answer, with the space that joins it to the one before.
#[must_use]
pub fn token(index: u32) -> &'static str {
    WORDS[index as usize % WORDS.len()]
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
}
