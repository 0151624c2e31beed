//! The names of faults: each with what it does, where it applies, and which keys it takes.
use std::fmt;

use crate::answer::{Answer, Finish, Output};

/// What goes wrong with an answer. It is also the label under which a fault is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// An error response with this status.
    Status(u16),
    /// One of the failures of llm-d-inference-sim, by its name there.
    Failure(Failure),
    /// The answer breaks off at a place.
    Break(How, Place),
    /// The connection is reset when it is accepted, before any request.
    ResetOnAccept,
    /// A few bytes at a time.
    Drip,
    /// Comments for ever, instead of the rest of the stream.
    Comments,
    /// A `Content-Length` that is not the body's.
    Length(Length),
    /// A chunk size that is none: more than 64 bits, or not a number.
    ChunkSize(Spelling),
    /// Not HTTP at all.
    NotHttp,
    /// `HTTP/1.1 OK`, without a status.
    HeadGarbled,
    /// A header field without a colon.
    FieldGarbled,
    /// An HTTP version that does not exist.
    VersionUnknown,
    /// `Content-Encoding: br`.
    ContentCoding,
    /// `Transfer-Encoding: br, chunked`.
    TransferCoding,
    /// A header block that is far too large.
    HeadOversize,
    /// An event, or a whole body, that is far too large.
    EventOversize,
    /// Bytes after the end of the response.
    ExtraBytes,
    /// A web page with status 200.
    Html,
    /// A whole answer to a request for a stream.
    JsonReply,
    /// A stream to a request for a whole answer.
    StreamReply,
    /// No `[DONE]`.
    NoDone,
    /// No event with a `finish_reason`.
    NoFinish,
    /// Neither of them, and no usage: the stream just stops, with its framing complete.
    NoEnd,
    /// No usage, though it was asked for.
    NoUsage,
    /// The last content event lacks the blank line that ends it, and nothing follows.
    EventUnterminated,
    /// An error object, as an event among the others or as a whole answer, with status 200.
    ErrorEvent,
    /// A JSON error as the whole body, with status 200.
    ErrorBody,
    /// An event that is no JSON.
    JsonInvalid,
    /// A byte inside a text that is no UTF-8.
    Utf8Invalid,
    /// A NUL inside a text.
    Nul,
    /// Status 200 and a body of no bytes.
    EmptyBody,
    /// A complete stream without content and without usage.
    NoContent,
    /// A complete answer of zero tokens.
    ZeroTokens,
}

/// How an answer breaks off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum How {
    /// RST.
    Reset,
    /// FIN.
    Fin,
    /// Silence, for a time or for ever.
    Stall,
}

/// Where an answer breaks off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Place {
    /// Before any byte.
    BeforeHead,
    /// In the middle of the head.
    InHead,
    /// After the head, before the body.
    AfterHead,
    /// In the middle of an event, in whole HTTP chunks.
    MidEvent,
    /// In the middle of an HTTP chunk.
    MidChunk,
    /// After a content event.
    AfterEvent,
    /// Before the last bytes of the framing: the last chunk, or the body's last byte.
    BeforeEnd,
    /// After the complete answer.
    AfterAnswer,
}

/// What is wrong with a `Content-Length`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Length {
    /// More than the body has; then FIN.
    Long,
    /// Less than the body has.
    Short,
    /// `-5`.
    Negative,
    /// Two of them, which differ.
    Two,
    /// Not a number.
    Garbled,
}

/// What is wrong with a chunk size.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Spelling {
    /// More than 64 bits.
    Overflow,
    /// Not hexadecimal digits.
    Garbled,
}

/// The failures of llm-d-inference-sim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Failure {
    /// 429.
    RateLimit,
    /// 401.
    InvalidApiKey,
    /// 400.
    ContextLength,
    /// 503.
    ServerError,
    /// 400.
    InvalidRequest,
    /// 404.
    ModelNotFound,
}

impl Failure {
    /// All of them: what `--failure-injection-rate` draws from where `--failure-types` is absent.
    pub(crate) const ALL: [Self; 6] = [
        Self::RateLimit,
        Self::InvalidApiKey,
        Self::ContextLength,
        Self::ServerError,
        Self::InvalidRequest,
        Self::ModelNotFound,
    ];

    /// The status that stands for it.
    pub(crate) fn status(self) -> u16 {
        match self {
            Self::RateLimit => 429,
            Self::InvalidApiKey => 401,
            Self::ContextLength | Self::InvalidRequest => 400,
            Self::ServerError => 503,
            Self::ModelNotFound => 404,
        }
    }
}

/// A setting of a fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Key {
    /// Content events before the fault.
    At,
    /// How long a stall lasts.
    For,
    /// From one piece to the next.
    Gap,
    /// A number of bytes.
    Bytes,
    /// Whose words an error has.
    Form,
    /// What the body of an error response is.
    Body,
    /// `Retry-After`, seconds.
    RetryAfter,
}

impl Key {
    /// All keys, with their names.
    pub(crate) const NAMES: [(Self, &'static str); 7] = [
        (Self::At, "at"),
        (Self::For, "for"),
        (Self::Gap, "gap"),
        (Self::Bytes, "bytes"),
        (Self::Form, "form"),
        (Self::Body, "body"),
        (Self::RetryAfter, "retry-after"),
    ];
}

/// Which requests a fault is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Every request.
    Any,
    /// Requests for a stream.
    Streams,
    /// Requests for a whole answer.
    Wholes,
    /// Connections, not requests.
    Connections,
}

/// One name of the catalogue.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) kind: Kind,
    pub(crate) name: &'static str,
    pub(crate) scope: Scope,
    pub(crate) keys: &'static [Key],
}

const fn entry(kind: Kind, name: &'static str, scope: Scope, keys: &'static [Key]) -> Entry {
    Entry {
        kind,
        name,
        scope,
        keys,
    }
}

/// The keys of every status.
const STATUS_KEYS: &[Key] = &[Key::Form, Key::Body, Key::RetryAfter];
const NONE: &[Key] = &[];
const AT: &[Key] = &[Key::At];
const FOR: &[Key] = &[Key::For];
const AT_FOR: &[Key] = &[Key::At, Key::For];
const BYTES: &[Key] = &[Key::Bytes];

/// Statuses that a fault can have: the final ones that are no success.
const STATUSES: std::ops::RangeInclusive<u16> = 300..=599;

use Failure as F;
use How::{Fin, Reset, Stall};
use Kind as K;
use Place as P;
use Scope::{Any, Connections, Streams, Wholes};

/// Every fault but `status-NNN`.
pub(crate) const CATALOGUE: &[Entry] = &[
    entry(K::Failure(F::RateLimit), "rate_limit", Any, STATUS_KEYS),
    entry(
        K::Failure(F::InvalidApiKey),
        "invalid_api_key",
        Any,
        STATUS_KEYS,
    ),
    entry(
        K::Failure(F::ContextLength),
        "context_length",
        Any,
        STATUS_KEYS,
    ),
    entry(K::Failure(F::ServerError), "server_error", Any, STATUS_KEYS),
    entry(
        K::Failure(F::InvalidRequest),
        "invalid_request",
        Any,
        STATUS_KEYS,
    ),
    entry(
        K::Failure(F::ModelNotFound),
        "model_not_found",
        Any,
        STATUS_KEYS,
    ),
    entry(K::ResetOnAccept, "reset-on-accept", Connections, NONE),
    entry(
        K::Break(Reset, P::BeforeHead),
        "reset-before-head",
        Any,
        NONE,
    ),
    entry(K::Break(Reset, P::InHead), "reset-in-head", Any, NONE),
    entry(K::Break(Reset, P::AfterHead), "reset-after-head", Any, NONE),
    entry(K::Break(Reset, P::MidEvent), "reset-mid-event", Any, AT),
    entry(K::Break(Reset, P::MidChunk), "reset-mid-chunk", Any, AT),
    entry(
        K::Break(Reset, P::AfterEvent),
        "reset-after-event",
        Streams,
        AT,
    ),
    entry(K::Break(Reset, P::BeforeEnd), "reset-before-end", Any, NONE),
    entry(
        K::Break(Reset, P::AfterAnswer),
        "reset-after-answer",
        Any,
        NONE,
    ),
    entry(K::Break(Fin, P::BeforeHead), "fin-before-head", Any, NONE),
    entry(K::Break(Fin, P::InHead), "fin-in-head", Any, NONE),
    entry(K::Break(Fin, P::AfterHead), "fin-after-head", Any, NONE),
    entry(K::Break(Fin, P::MidEvent), "fin-mid-event", Any, AT),
    entry(K::Break(Fin, P::MidChunk), "fin-mid-chunk", Any, AT),
    entry(K::Break(Fin, P::AfterEvent), "fin-after-event", Streams, AT),
    entry(K::Break(Fin, P::BeforeEnd), "fin-before-end", Any, NONE),
    entry(K::Break(Fin, P::AfterAnswer), "fin-after-answer", Any, NONE),
    entry(
        K::Break(Stall, P::BeforeHead),
        "stall-before-head",
        Any,
        FOR,
    ),
    entry(K::Break(Stall, P::InHead), "stall-in-head", Any, FOR),
    entry(K::Break(Stall, P::AfterHead), "stall-after-head", Any, FOR),
    entry(K::Break(Stall, P::MidEvent), "stall-mid-event", Any, AT_FOR),
    entry(K::Break(Stall, P::MidChunk), "stall-mid-chunk", Any, AT_FOR),
    entry(
        K::Break(Stall, P::AfterEvent),
        "stall-after-event",
        Streams,
        AT_FOR,
    ),
    entry(K::Break(Stall, P::BeforeEnd), "stall-before-end", Any, FOR),
    entry(K::Drip, "drip", Any, &[Key::Gap, Key::Bytes]),
    entry(K::Comments, "comments", Streams, &[Key::At, Key::Gap]),
    entry(K::Length(Length::Long), "content-length-long", Any, BYTES),
    entry(K::Length(Length::Short), "content-length-short", Any, BYTES),
    entry(
        K::Length(Length::Negative),
        "content-length-negative",
        Any,
        NONE,
    ),
    entry(K::Length(Length::Two), "content-length-two", Any, NONE),
    entry(
        K::Length(Length::Garbled),
        "content-length-garbled",
        Any,
        NONE,
    ),
    entry(
        K::ChunkSize(Spelling::Overflow),
        "chunk-size-overflow",
        Any,
        AT,
    ),
    entry(
        K::ChunkSize(Spelling::Garbled),
        "chunk-size-garbled",
        Any,
        AT,
    ),
    entry(K::NotHttp, "not-http", Any, NONE),
    entry(K::HeadGarbled, "head-garbled", Any, NONE),
    entry(K::FieldGarbled, "field-garbled", Any, NONE),
    entry(K::VersionUnknown, "version-unknown", Any, NONE),
    entry(K::ContentCoding, "content-coding-unknown", Any, NONE),
    entry(K::TransferCoding, "transfer-coding-unknown", Any, NONE),
    entry(K::HeadOversize, "head-oversize", Any, BYTES),
    entry(
        K::EventOversize,
        "event-oversize",
        Any,
        &[Key::At, Key::Bytes],
    ),
    entry(K::ExtraBytes, "extra-bytes", Any, BYTES),
    entry(K::Html, "html", Any, NONE),
    entry(K::JsonReply, "json-reply", Streams, NONE),
    entry(K::StreamReply, "stream-reply", Wholes, NONE),
    entry(K::NoDone, "no-done", Streams, NONE),
    entry(K::NoFinish, "no-finish", Streams, NONE),
    entry(K::NoEnd, "no-end", Streams, NONE),
    entry(K::NoUsage, "no-usage", Streams, NONE),
    entry(K::EventUnterminated, "event-unterminated", Streams, NONE),
    entry(K::ErrorEvent, "error-event", Any, &[Key::At, Key::Form]),
    entry(K::ErrorBody, "error-body", Any, &[Key::Form]),
    entry(K::JsonInvalid, "json-invalid", Any, AT),
    entry(K::Utf8Invalid, "utf8-invalid", Any, AT),
    entry(K::Nul, "nul", Any, AT),
    entry(K::EmptyBody, "empty-body", Any, NONE),
    entry(K::NoContent, "no-content", Streams, NONE),
    entry(K::ZeroTokens, "zero-tokens", Any, NONE),
];

impl Kind {
    /// The fault of this name, with its keys.
    pub(crate) fn of(name: &str) -> Option<(Self, &'static [Key])> {
        if let Some(digits) = name.strip_prefix("status-") {
            let status = digits.parse().ok().filter(|_| digits.len() == 3)?;
            return STATUSES
                .contains(&status)
                .then_some((Self::Status(status), STATUS_KEYS));
        }
        let entry = CATALOGUE.iter().find(|entry| entry.name == name)?;
        Some((entry.kind, entry.keys))
    }

    /// Whether the answer is a stream, where one was asked for or was not.
    pub(crate) fn stream(self, asked: bool) -> bool {
        match self {
            Self::JsonReply => false,
            Self::StreamReply => true,
            _ => asked,
        }
    }

    /// What is answered in place of `answer`.
    pub(crate) fn reshape(self, answer: &Answer) -> Answer {
        let mut answer = answer.clone();
        answer.stream = self.stream(answer.stream);
        if self == Self::StreamReply {
            // Whole answers have their usage unasked.
            answer.include_usage = true;
        }
        if matches!(self, Self::NoContent | Self::ZeroTokens) {
            let nothing = |_: &Output| Output::words(0, 0, 0, Finish::Stop);
            answer.outputs = answer.outputs.iter().map(nothing).collect();
        }
        answer
    }

    /// Whether an answer has to be generated for it.
    pub(crate) fn needs_answer(self) -> bool {
        !matches!(
            self,
            Self::Status(_)
                | Self::Failure(_)
                | Self::Break(Reset | Fin, P::BeforeHead | P::InHead)
                | Self::NotHttp
                | Self::Html
                | Self::ErrorBody
                | Self::EmptyBody
        )
    }

    /// The status of the response.
    pub(crate) fn status(self) -> u16 {
        match self {
            Self::Status(status) => status,
            Self::Failure(failure) => failure.status(),
            _ => 200,
        }
    }

    fn entry(self) -> Option<&'static Entry> {
        CATALOGUE.iter().find(|entry| entry.kind == self)
    }

    /// Which requests it is for.
    pub(crate) fn scope(self) -> Scope {
        self.entry().map_or(Any, |entry| entry.scope)
    }

    /// Whether a request for a stream, or for a whole answer, can get it.
    pub(crate) fn applies(self, stream: bool) -> bool {
        match self.scope() {
            Any => true,
            Streams => stream,
            Wholes => !stream,
            Connections => false,
        }
    }
}

/// The name that users give it.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self, self.entry()) {
            (Self::Status(status), _) => write!(f, "status-{status}"),
            (_, entry) => f.write_str(entry.map_or("unnamed", |entry| entry.name)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn every_name_leads_to_its_fault_and_back() {
        for entry in CATALOGUE {
            assert_eq!(Kind::of(entry.name), Some((entry.kind, entry.keys)));
            assert_eq!(entry.kind.to_string(), entry.name);
        }
        let names: BTreeSet<_> = CATALOGUE.iter().map(|entry| entry.name).collect();
        let kinds: BTreeSet<_> = CATALOGUE.iter().map(|entry| entry.kind).collect();
        assert_eq!(
            (names.len(), kinds.len()),
            (CATALOGUE.len(), CATALOGUE.len())
        );
    }

    #[test]
    fn any_final_status_but_success_is_a_fault() {
        for status in STATUSES {
            let name = format!("status-{status}");
            let (kind, _) = Kind::of(&name).unwrap();
            assert_eq!((kind, kind.to_string()), (Kind::Status(status), name));
        }
        for name in [
            "status-200",
            "status-100",
            "status-600",
            "status-",
            "status-0429",
            "status-+42",
        ] {
            assert_eq!(Kind::of(name), None, "{name}");
        }
    }
}
