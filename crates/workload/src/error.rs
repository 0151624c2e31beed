//! What can be wrong with the words of a load: one message each, with cause and remedy.

use std::io;
use std::path::PathBuf;

/// An input that the user named cannot be used. Displays as one line: where, what, and what to do.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum WorkloadError {
    /// The file could not be opened or read.
    #[error("cannot read {}: {cause}", path.display())]
    Read {
        /// The file as the user named it.
        path: PathBuf,
        /// What the operating system said.
        cause: io::Error,
    },
    /// The file as a whole is not what it should be.
    #[error("{}: {problem}; {remedy}", path.display())]
    File {
        /// The file as the user named it.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
        /// What to do about it.
        remedy: &'static str,
    },
    /// One line of the file is not what it should be.
    #[error("{}, line {line}: {problem}", path.display())]
    Line {
        /// The file as the user named it.
        path: PathBuf,
        /// The line, counted from 1.
        line: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// The tokenizer cannot be loaded, or refused a text.
    #[error("tokenizer {name}: {problem}; {remedy}")]
    Tokenizer {
        /// The tokenizer as the user named it.
        name: String,
        /// What is wrong with it.
        problem: String,
        /// What to do about it.
        remedy: &'static str,
    },
    /// An option has a value that no request can be built from.
    #[error("{option}: {problem}")]
    Option {
        /// The option, named as its flag is.
        option: &'static str,
        /// What is wrong with its value.
        problem: String,
    },
    /// The sample has the form of a chat, and the endpoint takes a prompt.
    #[error(
        "a sample with `messages` has no single prompt for the completions endpoint; \
         use the chat endpoint, or a data set whose lines have `prompt`"
    )]
    MessagesOnly,
    /// No text of exactly the asked number of tokens was found.
    #[error(
        "tokenizer {tokenizer}: found no prompt of exactly {tokens} tokens; \
         choose another --isl, or a builtin tokenizer ({})",
        crate::tokenizer::BUILTIN_NAMES
    )]
    Inexact {
        /// The tokenizer that counted.
        tokenizer: String,
        /// The length that was asked for.
        tokens: u32,
    },
}
