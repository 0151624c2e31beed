//! What is known of one request's answer.

use std::borrow::Cow;
use std::fmt;

use ridgeline_clock::{Arrival, Nanos};

use crate::openai::ToolCalls;
pub use crate::openai::{FinishReason, ToolCall, Usage};

/// The kinds of failure; [`ErrorKind::as_str`] gives their names in records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorKind {
    /// No connection could be made.
    Connect,
    /// No connection was made in time.
    ConnectTimeout,
    /// The TLS handshake or a TLS record failed.
    Tls,
    /// The host name has no address.
    Dns,
    /// The request could not be sent.
    Send,
    /// The connection ended before any byte of the response.
    Reset,
    /// The response ended before its framing or its stream said that it was complete.
    Truncated,
    /// The deadline of the request passed.
    Timeout,
    /// The status is outside 200..=299.
    HttpStatus,
    /// An error in place of an answer, inside a response of status 200.
    InBand,
    /// The bytes are not HTTP that can be understood.
    HttpProtocol,
    /// The body is not the event stream that it should be.
    SseProtocol,
    /// An event or a body that must be JSON is not.
    Json,
    /// A complete response that generated nothing.
    Empty,
    /// A head, a line, an event or a body beyond its limit.
    Oversize,
    /// The certificate of the server can't be trusted.
    Certificate,
    /// A TLS connection ended inside the response without saying so: anybody may have cut it.
    TlsTruncated,
    /// No content event came in the time for the first one.
    FirstTokenTimeout,
    /// After a content event nothing came in the time for the next one.
    EventTimeout,
}

impl ErrorKind {
    /// How many kinds there are.
    pub const COUNT: usize = Self::ALL.len();

    /// Every kind, in order of `kind as usize`.
    pub const ALL: [Self; 19] = [
        Self::Connect,
        Self::ConnectTimeout,
        Self::Tls,
        Self::Dns,
        Self::Send,
        Self::Reset,
        Self::Truncated,
        Self::Timeout,
        Self::HttpStatus,
        Self::InBand,
        Self::HttpProtocol,
        Self::SseProtocol,
        Self::Json,
        Self::Empty,
        Self::Oversize,
        Self::Certificate,
        Self::TlsTruncated,
        Self::FirstTokenTimeout,
        Self::EventTimeout,
    ];

    /// The name in records and reports.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Connect => "connect",
            Self::ConnectTimeout => "connect_timeout",
            Self::Tls => "tls",
            Self::Dns => "dns",
            Self::Send => "send",
            Self::Reset => "reset",
            Self::Truncated => "truncated",
            Self::Timeout => "timeout",
            Self::HttpStatus => "http_status",
            Self::InBand => "in_band",
            Self::HttpProtocol => "http_protocol",
            Self::SseProtocol => "sse_protocol",
            Self::Json => "json",
            Self::Empty => "empty",
            Self::Oversize => "oversize",
            Self::Certificate => "certificate",
            Self::TlsTruncated => "tls_truncated",
            Self::FirstTokenTimeout => "first_token_timeout",
            Self::EventTimeout => "event_timeout",
        }
    }
}

impl fmt::Display for ErrorKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// No [`ErrorKind`] has this name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no such kind of error")]
pub struct UnknownKind;

impl std::str::FromStr for ErrorKind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.as_str() == name)
            .ok_or(UnknownKind)
    }
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind, for counting.
    pub kind: ErrorKind,
    /// What was wrong, for a person. Never empty.
    pub message: Cow<'static, str>,
}

/// One event, or one whole plain answer, that generated something for choice 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContentEvent {
    /// When it came.
    pub arrival: Arrival,
    /// Its tokens, when the server's running usage tells: the difference to the usage before.
    /// `None` as soon as one content event came without usage.
    pub tokens: Option<u32>,
}

/// Told of content events as they come.
pub trait Observer {
    /// Called once for each content event of choice 0, in order.
    fn content(&mut self, event: ContentEvent);

    /// The same, at once, for `count` events that came in one read and do not tell their tokens.
    #[inline]
    fn contents(&mut self, arrival: Arrival, count: u32) {
        let event = ContentEvent {
            arrival,
            tokens: None,
        };
        (0..count).for_each(|_| self.content(event));
    }
}

/// Observes nothing.
impl Observer for () {
    #[inline]
    fn content(&mut self, _: ContentEvent) {}
}

/// What has come of an answer. A failed request keeps what had come before.
///
/// Times are of arrival ([`Arrival::at`]), on the clock of the arrivals.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// The status of the final response, once its head is read.
    pub http_status: Option<u16>,
    /// The first failure. `None` while nothing is wrong, and for a success.
    pub failure: Option<Failure>,
    /// The last `finish_reason` of choice 0.
    pub finish_reason: Option<FinishReason>,
    /// Events with text, reasoning or a tool call for choice 0; 1 for a plain answer with any.
    pub content_events: u32,
    /// The last usage, as a whole.
    pub usage: Option<Usage>,
    /// Tokens of the first content event, when a running usage (or the usage of a plain answer)
    /// tells.
    pub first_event_tokens: Option<u32>,
    /// Bytes of the response, its heads and framing included.
    pub received_bytes: u64,
    /// The body was read as an event stream.
    pub streamed: bool,
    /// The first byte of any response, interim ones included.
    pub first_byte: Option<Nanos>,
    /// The first content event.
    pub first_token: Option<Nanos>,
    /// The first content event with text or a tool call: reasoning excluded.
    pub first_output: Option<Nanos>,
    /// The last content event.
    pub last_token: Option<Nanos>,
    /// The end of the response, or of the wait for it.
    pub done: Option<Nanos>,
}

/// What an answer said, kept when [`super::Asked::save_text`] is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Saved {
    /// All text, decoded.
    pub text: String,
    /// All reasoning, decoded.
    pub reasoning: String,
    /// The tool calls, merged.
    pub tool_calls: ToolCalls,
}

impl Saved {
    /// Bytes that it takes, about.
    pub(super) const fn bytes(&self) -> usize {
        self.text.len() + self.reasoning.len() + self.tool_calls.bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_numbered_and_named_apart() {
        assert_eq!(ErrorKind::COUNT, 19);
        for (number, kind) in ErrorKind::ALL.into_iter().enumerate() {
            assert_eq!(kind as usize, number);
            assert_eq!(kind.as_str().parse(), Ok(kind));
        }
        assert_eq!("http".parse::<ErrorKind>(), Err(UnknownKind));
    }
}
