#![doc = include_str!("../../PROTOCOL.md")]
//!
//! # In Rust
//!
//! [`read_inward`] and [`read_outward`] take messages apart without copying; [`Batch`],
//! [`template_message`] and [`end_message`] put together what a client says, and [`Answers`],
//! [`error_message`] and [`ended_message`] what the worker does.

mod inward;
mod outward;
mod reader;
mod writer;

use std::borrow::Cow;
use std::fmt;

pub use inward::{
    Batch, BodyFrame, Inward, Piece, Queries, QueryFrame, TemplateFrame, Value, Values,
    end_message, read_inward, template_message,
};
pub use outward::{
    Answers, NoticeFrame, Outward, ResultFrame, Times, Totals, ended_message, error_message,
    read_outward,
};

/// The version of every message.
pub const VERSION: u64 = 2;

/// Holes of a template, and values for them: more than any body has use for.
pub const HOLES_MAX: u32 = 1 << 16;

/// Why something was not taken, for programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// No MessagePack, or not of the form that it should have.
    Malformed,
    /// Of another version.
    Version,
    /// Beyond a limit.
    Oversized,
    /// Its id is that of a query without a result.
    Duplicate,
    /// There is no such template, or it has more holes than values.
    Template,
    /// No path that can stand in a request, or one too many.
    Endpoint,
    /// Due too far ahead.
    Due,
}

impl Code {
    /// As messages name it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::Version => "version",
            Self::Oversized => "oversized",
            Self::Duplicate => "duplicate",
            Self::Template => "template",
            Self::Endpoint => "endpoint",
            Self::Due => "due",
        }
    }
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Something that was not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{code}: {text}")]
pub struct Trouble {
    /// Why, for programs.
    pub code: Code,
    /// Why, for people.
    pub text: Cow<'static, str>,
    /// The query that it is about; none: a whole message.
    pub id: Option<u64>,
}

impl Trouble {
    pub(crate) fn new(code: Code, text: impl Into<Cow<'static, str>>) -> Self {
        Self {
            code,
            text: text.into(),
            id: None,
        }
    }

    pub(crate) fn of(self, id: u64) -> Self {
        Self {
            id: Some(id),
            ..self
        }
    }
}
