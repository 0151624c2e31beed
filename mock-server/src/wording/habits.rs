//! What a dialect is made of. Everything in it is data: see [`super::dialects`] for how to add one.

use super::letters::Letters;

/// The habits of a server, or of the way to it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Habits {
    /// The words of `/v1/chat/completions`.
    pub(super) chat: Words,
    /// The words of `/v1/completions`.
    pub(super) completions: Words,
    /// The object of `usage`.
    pub(super) usage: &'static str,
    /// What `$usage_field` says where there is no usage.
    pub(super) no_usage: NoUsage,
    /// Which event carries the usage of the whole answer.
    pub(super) usage_at: UsageAt,
    /// The usage comes whether it was asked for or not.
    pub(super) usage_unasked: bool,
    /// Every event carries the usage so far, whether it was asked for or not.
    pub(super) usage_always: bool,
    /// The event of the last token says why the choice ends; there is no other that does.
    pub(super) finish_with_last: bool,
    /// All tool calls are named before the arguments of the first.
    pub(super) calls_first: bool,
    /// What every choice ends with, whatever ended it.
    pub(super) finish_word: Option<&'static str>,
    /// Responses API: an answer that was cut at its maximum ends with `response.incomplete`.
    pub(super) incomplete: bool,
    pub(super) letters: Letters,
    pub(super) lines: Lines,
    pub(super) http: Http,
    /// Whether answers are streamed; `None`: as asked.
    pub(super) stream: Option<bool>,
}

/// What an endpoint says: templates (see [`super::template`]), and in `chunk` an `@` for the choice.
///
/// Where there is a list, each of its elements is an event of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words {
    /// Events that come with the head, before there is any token.
    pub(super) greeting: &'static [&'static str],
    /// Every event that has a choice.
    pub(super) chunk: &'static str,
    /// A choice begins.
    pub(super) open: &'static [&'static str],
    pub(super) reasoning: &'static [&'static str],
    pub(super) text: &'static [&'static str],
    /// A tool call begins.
    pub(super) call: &'static [&'static str],
    /// Its arguments go on.
    pub(super) arguments: &'static [&'static str],
    /// A choice ends.
    pub(super) finish: &'static [&'static str],
    /// The event of the usage.
    pub(super) usage_chunk: &'static str,
    /// An answer that is not streamed, one of its choices, and what the latter may hold.
    pub(super) whole: &'static str,
    pub(super) whole_choice: &'static str,
    pub(super) whole_reasoning: &'static str,
    pub(super) whole_call: &'static str,
}

/// What stands in the place of a usage that is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoUsage {
    /// Nothing.
    Omitted,
    /// `"usage":null`.
    Null,
    /// The same, in answers whose usage was asked for.
    NullIfAsked,
}

/// Which event carries the usage of the whole answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UsageAt {
    /// One of its own, the last.
    Own,
    /// The one that says why the choice ends.
    Finish,
    /// One of its own, before that one.
    BeforeFinish,
}

/// How events become lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lines {
    /// What comes with the head, before any event.
    pub(super) first: &'static str,
    /// The forms of an event, in turn.
    pub(super) blocks: &'static [Block],
    /// The data that ends the stream, if anything does.
    pub(super) done: Option<&'static str>,
    /// The data of events after that.
    pub(super) late: &'static [&'static str],
}

/// One event as lines.
#[derive(Clone, Copy, Debug)]
pub(super) struct Block {
    /// Lines before the data, and other blocks before this one. May have holes.
    pub(super) before: &'static str,
    /// The field's name, and what separates it from its value.
    pub(super) data: &'static str,
    /// The end of a line.
    pub(super) eol: &'static str,
    /// Lines after the data, the blank one among them. May have holes.
    pub(super) after: &'static str,
    /// The data has a line end after each of JSON's `{`, `[` and `,`.
    pub(super) breaks: bool,
}

/// How bytes become a response.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Http {
    /// Responses before the one that counts.
    pub(super) interim: &'static str,
    /// The HTTP version of a stream's status line.
    pub(super) version: &'static str,
    /// The field lines of an event stream, those of the framing apart.
    pub(super) stream_fields: &'static str,
    /// The field lines of a body in chunks.
    pub(super) chunked_fields: &'static str,
    /// How a stream is framed.
    pub(super) transfer: Transfer,
    /// An answer that is not streamed comes in chunks too.
    pub(super) whole_chunked: bool,
    /// The connection ends with the response.
    pub(super) closes: bool,
    /// Where chunks begin.
    pub(super) cut: Cut,
    /// How chunks spell their size, in turn.
    pub(super) spellings: &'static [Spelling],
    /// The last chunk, the trailers, and the blank line.
    pub(super) last_chunk: &'static str,
}

/// How a stream is framed for a peer that speaks HTTP/1.1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Transfer {
    Chunked,
    /// `content-length`: all of it is sent when its last token is due.
    Length,
    /// It ends with the connection.
    Close,
}

/// Where chunks begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cut {
    /// With each event.
    Event,
    /// With each write, however many events it has.
    Write,
    /// After this many bytes of an event, over and over.
    Bytes(usize),
    /// After each carriage return.
    Return,
}

/// How a chunk spells its size (RFC 9112, 7.1).
#[derive(Clone, Copy, Debug)]
pub(super) struct Spelling {
    /// Upper-case digits.
    pub(super) upper: bool,
    /// At least this many digits.
    pub(super) digits_min: usize,
    /// What comes between the digits and the line end.
    pub(super) extension: &'static str,
}
