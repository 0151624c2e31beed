//! Synthetic prompts of an exact length under a tokenizer of which nothing is known but its counts.

use crate::draw::Draw;
use crate::error::WorkloadError;
use crate::synthetic::{LEAD, lead};
use crate::tokenizer::Tokenizer;
use crate::words::WORDS;

/// How many tokens each of a number of words adds to a text, counted by the tokenizer.
#[derive(Debug)]
pub(crate) struct Pieces<'a> {
    tokenizer: &'a Tokenizer,
    /// Sorted by tokens. INVARIANT: not empty, and each adds at least one token.
    pieces: Vec<Piece>,
    /// Words that add one token: they spell the lead. May be empty.
    singles: Vec<&'static str>,
    /// What is one token at the start of a text, where no space precedes it. May be empty.
    openers: Vec<&'static str>,
}

#[derive(Debug, Clone, Copy)]
struct Piece {
    tokens: u32,
    space: bool,
    text: &'static str,
}

/// For vocabularies in which no word is a single token. Some tokenize by character: there a space
/// is a token, so that these stand without one.
const LETTERS: [&str; 16] = [
    "a", "e", "i", "o", "u", "n", "s", "t", "r", "1", "2", "3", "4", ",", ".", "!",
];

/// How often another choice of words is tried, and how often one text is corrected. A tokenizer
/// that needs more merges across words, and is none that models use.
const ATTEMPTS: u64 = 16;
const CORRECTIONS: u32 = 16;

impl<'a> Pieces<'a> {
    pub(crate) fn measure(tokenizer: &'a Tokenizer) -> Result<Self, WorkloadError> {
        let alone = tokenizer.count(WORDS[0])?;
        let measured = |space: bool, text: &'static str| {
            let both = format!("{}{}{text}", WORDS[0], if space { " " } else { "" });
            let tokens = tokenizer.count(&both)?.saturating_sub(alone);
            Ok::<_, WorkloadError>(Piece {
                tokens,
                space,
                text,
            })
        };
        let words = WORDS.iter().map(|word| measured(true, word));
        let mut pieces = words.collect::<Result<Vec<_>, _>>()?;
        pieces.retain(|piece| piece.tokens > 0);
        let singles: Vec<_> = pieces
            .iter()
            .filter(|p| p.tokens == 1)
            .map(|p| p.text)
            .collect();
        if singles.is_empty() {
            for letter in LETTERS {
                pieces.push(measured(true, letter)?);
                pieces.push(measured(false, letter)?);
            }
            pieces.retain(|piece| piece.tokens > 0);
        }
        let mut openers = Vec::new();
        for text in WORDS.into_iter().chain(LETTERS) {
            if tokenizer.count(text)? == 1 {
                openers.push(text);
            }
        }
        pieces.sort_by_key(|piece| piece.tokens);
        if pieces.is_empty() {
            return Err(WorkloadError::Tokenizer {
                name: tokenizer.name(),
                problem: "it counts no token in any English word".to_owned(),
                remedy: "choose another tokenizer for synthetic prompts",
            });
        }
        Ok(Self {
            tokenizer,
            pieces,
            singles,
            openers,
        })
    }

    /// Words that add up to `tokens`, then counted as a whole and corrected at the end until the
    /// count is exact.
    pub(crate) fn compose(
        &self,
        seed: u64,
        index: u32,
        tokens: u32,
        draw: &mut Draw,
    ) -> Result<String, WorkloadError> {
        for attempt in 0..ATTEMPTS {
            let mut chosen = Vec::new();
            let mut missing = tokens;
            // The first word may count more than the same word after a space, too much for a short
            // prompt: then it starts with what is certain to be one token.
            if attempt < ATTEMPTS / 2 && !self.singles.is_empty() {
                let words = lead(seed, index, tokens, &self.singles);
                chosen.extend(words.iter().map(|text| Piece {
                    tokens: 1,
                    space: true,
                    text,
                }));
                missing -= tokens.min(LEAD);
            } else if !self.openers.is_empty() {
                let opener = draw.below(u32::try_from(self.openers.len()).unwrap_or(1));
                let text = self.openers[opener as usize];
                chosen.push(Piece {
                    tokens: 1,
                    space: true,
                    text,
                });
                missing -= 1;
            }
            for _ in 0..CORRECTIONS {
                self.extend(&mut chosen, missing, draw);
                let text = joined(&chosen);
                let counted = self.tokenizer.count(&text)?;
                if counted == tokens {
                    return Ok(text);
                }
                let mut excess = counted.saturating_sub(tokens);
                while excess > 0 && chosen.len() > 1 {
                    excess = excess.saturating_sub(chosen.pop().map_or(0, |piece| piece.tokens));
                }
                let counted = self.tokenizer.count(&joined(&chosen))?;
                missing = tokens.saturating_sub(counted);
            }
        }
        Err(WorkloadError::Inexact {
            tokenizer: self.tokenizer.name(),
            tokens,
        })
    }

    /// Adds random pieces until `missing` tokens are made up or no piece is short enough.
    fn extend(&self, chosen: &mut Vec<Piece>, mut missing: u32, draw: &mut Draw) {
        loop {
            let fitting = self.pieces.partition_point(|piece| piece.tokens <= missing);
            if missing == 0 || fitting == 0 {
                return;
            }
            let piece = self.pieces[draw.below(u32::try_from(fitting).unwrap_or(1)) as usize];
            missing -= piece.tokens;
            chosen.push(piece);
        }
    }
}

fn joined(pieces: &[Piece]) -> String {
    let mut text = String::new();
    for piece in pieces {
        if piece.space && !text.is_empty() {
            text.push(' ');
        }
        text.push_str(piece.text);
    }
    text
}
