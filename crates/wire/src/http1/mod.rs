//! HTTP/1.1 without sockets: responses for the client, requests for the mock server, and the
//! request bytes to send. RFC 9112 and RFC 9110.
//!
//! Both decoders are fed reads of any size and hand out parts. Body bytes are lent from the read;
//! only a head line that a read cuts is kept, in the connection's [`Carry`](crate::carry::Carry).
//! Nothing is parsed twice when more bytes arrive.
//!
//! Where the standards leave a choice: a lone LF ends a line of a head or of trailers (RFC 9112
//! 2.2), but not a chunk-size line. A folded field is read in a response (5.2) and refused in a
//! request. White space before a colon, a bare CR and other control bytes are malformed, at the
//! first such byte. A transfer coding other than one chunked, and a content coding other than
//! identity, are malformed: nothing else is asked for. Chunked wins over Content-Length in a
//! response (6.3); both in a request are refused.

mod chunked;
mod familiar;
mod framing;
mod head;
#[cfg(test)]
mod oracle;
mod request;
mod response;
mod template;

pub use familiar::FamiliarHead;
pub use request::{RequestDecoder, RequestError, RequestHead, RequestPart};
pub use response::{Ended, ResponseDecoder};
pub use template::{Method, RequestOptions, RequestTemplate, TemplateError};

use thiserror::Error;

/// What comes next in a response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part<'a> {
    /// The head of the final response; interim ones (1xx) are skipped.
    Head(Head),
    /// Bytes of the body without its framing, lent from the input and never empty.
    Data(&'a [u8]),
    /// The response is complete by its framing. A body that the connection's end delimits has no
    /// `End`: see [`ResponseDecoder::finish`].
    End,
}

/// The head of a response, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The status code, 200 to 999.
    pub status: u16,
    /// What the body is.
    pub content: ContentKind,
}

/// What the Content-Type says. When it is repeated, the last one counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ContentKind {
    /// No Content-Type, or an empty one.
    #[default]
    Absent,
    /// `text/event-stream`.
    EventStream,
    /// `application/json`, and any `application/*+json`.
    Json,
    /// Something else.
    Other,
}

impl ContentKind {
    /// What a Content-Type of `value` says. RFC 9110 8.3.1: type and subtype are case-insensitive,
    /// parameters do not matter here.
    #[must_use]
    pub fn of(value: &[u8]) -> Self {
        let media_type = value
            .split(|&byte| byte == b';')
            .next()
            .map_or(value, head::trim);
        let json_suffix = || {
            media_type.len() > 17
                && media_type[..12].eq_ignore_ascii_case(b"application/")
                && media_type[media_type.len() - 5..].eq_ignore_ascii_case(b"+json")
        };
        if media_type.is_empty() {
            Self::Absent
        } else if media_type.eq_ignore_ascii_case(b"text/event-stream") {
            Self::EventStream
        } else if media_type.eq_ignore_ascii_case(b"application/json") || json_suffix() {
            Self::Json
        } else {
            Self::Other
        }
    }
}

/// Why a response cannot be read further. The connection is of no use after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{kind}")]
pub struct HttpError {
    /// What is wrong.
    pub kind: HttpErrorKind,
    /// The status, if the final response's status line had been read. `None` when the head was
    /// oversize: then no head was received.
    pub status: Option<u16>,
}

/// What is wrong with the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum HttpErrorKind {
    /// Not HTTP, or HTTP whose framing or coding cannot be understood. The text says what.
    #[error("malformed HTTP: {0}")]
    Malformed(&'static str),
    /// A head, a chunk-size line or a trailer section beyond its limit, or a head line for which
    /// no carry memory was left.
    #[error("an HTTP head or line beyond its limit")]
    Oversize,
}
