//! What a response's head means here, and what went wrong, in words.

use std::borrow::Cow;

use h2::{Error, Reason, RecvStream};
use http::Response;
use http::header::{CONTENT_ENCODING, CONTENT_TYPE};
use ridgeline_wire::http1::{ContentKind, Head};

use crate::pipe::Cut;

/// Bytes of a server's own words that are shown.
const WORDS_MAX: usize = 160;

/// What another protocol is answered with.
const FOREIGN: &str = "what the server says is not HTTP/2: if it speaks HTTP/1.1, use --http 1.1";

/// Why a stream has no more parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Abort {
    /// For counting, and for whether to try again.
    pub kind: AbortKind,
    /// The status, where the head of the final response is what is wrong.
    pub status: Option<u16>,
    /// Cause and, where there is one, remedy, for a person.
    pub message: Cow<'static, str>,
}

/// What kind of thing ended a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AbortKind {
    /// The server says that it did not begin with the request: it goes away, or refused the stream. To be
    /// sent again elsewhere; no fault of anybody (RFC 9113 8.7).
    Unprocessed,
    /// The server reset the stream.
    Reset,
    /// The connection ended first.
    Lost,
    /// The response, or something else on its connection, is not HTTP/2.
    Protocol,
}

impl Abort {
    fn new(kind: AbortKind, message: impl Into<Cow<'static, str>>) -> Self {
        Self {
            kind,
            status: None,
            message: message.into(),
        }
    }

    /// The connection is gone.
    pub(crate) fn lost(cut: Option<Cut>) -> Self {
        Self::new(
            AbortKind::Lost,
            match cut {
                Some(Cut::Reset) => "the connection was reset inside the stream",
                Some(Cut::Fin) => "the server closed the connection inside the stream",
                None => "the connection ended inside the stream",
            },
        )
    }

    /// Of stream `number`, by what h2 says. `has_begun`: whether the head of the response had come.
    pub(crate) fn of_stream(error: &Error, number: u32, around: Around, has_begun: bool) -> Self {
        let reason = error.reason();
        if around.is_foreign {
            return Self::new(AbortKind::Protocol, FOREIGN);
        }
        if around.last.is_some_and(|last| number > last) {
            return Self::new(
                AbortKind::Unprocessed,
                "the server goes away and did not begin with the request",
            );
        }
        if error.is_reset() && error.is_remote() {
            return match reason {
                Some(Reason::REFUSED_STREAM) if !has_begun => Self::new(
                    AbortKind::Unprocessed,
                    "the server refused the stream without beginning with the request",
                ),
                Some(Reason::HTTP_1_1_REQUIRED) => Self::new(
                    AbortKind::Reset,
                    "the server wants HTTP/1.1 for this request: use --http 1.1",
                ),
                _ => Self::new(
                    AbortKind::Reset,
                    format!("the server reset the stream: {}", words(reason)),
                ),
            };
        }
        if error.is_io() {
            return Self::lost(around.cut);
        }
        Self::new(AbortKind::Protocol, fault(error))
    }
}

/// What is known beside an error.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Around {
    /// The highest stream that a server which goes away may have begun with.
    pub(crate) last: Option<u32>,
    /// How the server's bytes ended, if they did.
    pub(crate) cut: Option<Cut>,
    /// Whether they did not begin as HTTP/2 does.
    pub(crate) is_foreign: bool,
}

/// How a connection ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ended {
    /// Whether nothing went wrong: one side went away, and no stream was lost by that.
    pub is_clean: bool,
    /// The cause, for a person.
    pub message: Cow<'static, str>,
}

impl Ended {
    pub(crate) fn new(result: Result<(), Error>, around: Around) -> Self {
        let (is_clean, message) = match result {
            _ if around.is_foreign => (false, Cow::from(FOREIGN)),
            Ok(()) => (true, Cow::from("the connection was closed")),
            Err(error) if error.is_io() => {
                let message = match around.cut {
                    Some(Cut::Fin) => "the server closed the connection inside a frame",
                    _ => "the connection was reset",
                };
                (false, message.into())
            }
            Err(error) if error.is_remote() => {
                let message = format!("the server ended the connection: {}", told(&error));
                (false, message.into())
            }
            Err(error) => (false, fault(&error)),
        };
        Self { is_clean, message }
    }

    /// The server sends, and what we must say to that it does not read.
    pub(crate) const fn flooded() -> Self {
        Self {
            is_clean: false,
            message: Cow::Borrowed("the server sends more and more, and reads nothing"),
        }
    }
}

/// A reason in the words of RFC 9113, and its number.
fn words(reason: Option<Reason>) -> String {
    reason.map_or_else(
        || "no reason given".to_owned(),
        |reason| format!("{reason} (code {})", u32::from(reason)),
    )
}

/// What we found wrong.
fn fault(error: &Error) -> Cow<'static, str> {
    match error.reason() {
        Some(Reason::PROTOCOL_ERROR) => {
            "the server breaks the rules of HTTP/2, or the head of its response is beyond its limit"
                .into()
        }
        Some(Reason::ENHANCE_YOUR_CALM) => {
            "the server sends too many frames that say nothing: streams reset or empty".into()
        }
        reason => format!("the server breaks the rules of HTTP/2: {}", words(reason)).into(),
    }
}

/// What the server said of the end, not at any length.
fn told(error: &Error) -> String {
    let text = error.to_string();
    let mut short: String = text.chars().take(WORDS_MAX).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// The head of a response, as far as it matters here.
///
/// # Errors
/// When its body is coded, which was not asked for.
pub(crate) fn head_of(response: &Response<RecvStream>) -> Result<Head, Abort> {
    let status = response.status().as_u16();
    let fields = response.headers();
    let codings = fields.get_all(CONTENT_ENCODING);
    let is_coded = codings
        .iter()
        .flat_map(|value| value.as_bytes().split(|&byte| byte == b','))
        .map(<[u8]>::trim_ascii)
        .any(|coding| !coding.is_empty() && !coding.eq_ignore_ascii_case(b"identity"));
    if is_coded && !matches!(status, 204 | 304) {
        return Err(Abort {
            status: Some(status),
            ..Abort::new(
                AbortKind::Protocol,
                "malformed HTTP: a content coding that was not asked for",
            )
        });
    }
    let kinds = fields.get_all(CONTENT_TYPE);
    let content = kinds.iter().next_back();
    Ok(Head {
        status,
        content: content.map_or(ContentKind::Absent, |value| {
            ContentKind::of(value.as_bytes())
        }),
    })
}
