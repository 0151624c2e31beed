//! What the body of a response is, and how to tell where its head does not say.

use crate::http1::{ContentKind, Head};

/// Bytes that are kept of a body that answers nothing.
pub(super) const REFUSED_BYTES_MAX: usize = 4 << 10;

/// How the body is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Body {
    /// No head yet.
    None,
    /// Its first bytes will tell.
    Unknown(Lead),
    /// As events.
    Stream(Guess),
    /// Kept until it is complete, then parsed.
    Json,
    /// It answers nothing: the body of an error status, a web page. Its start is kept for the
    /// message.
    Refused,
    /// To its end, without a look at it: the stream is done, or failed.
    Drained,
    /// Not at all: a limit was passed.
    Lost,
}

/// How sure it is that a body is an event stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guess {
    /// The Content-Type says so.
    Sure,
    /// Its first byte could begin one. Without any event it was none.
    Unsure,
}

/// What precedes the first byte that tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lead {
    /// The line begins with a space or a tab: no field of an event stream does.
    indented: bool,
}

/// What the first byte told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guessed<'a> {
    /// An event stream, from here on.
    Stream(Guess, &'a [u8]),
    /// A JSON document, from here on.
    Json(&'a [u8]),
    /// Neither, from here on.
    Refused(&'a [u8]),
}

impl Body {
    pub(super) const fn of(head: Head) -> Self {
        match (head.status, head.content) {
            (200..=299, ContentKind::EventStream) => Self::Stream(Guess::Sure),
            (200..=299, ContentKind::Json) => Self::Json,
            (200..=299, ContentKind::Absent | ContentKind::Other) => {
                Self::Unknown(Lead { indented: false })
            }
            _ => Self::Refused,
        }
    }
}

impl Lead {
    /// Looks at body bytes up to the first that is not white space; `None`: there was none.
    ///
    /// The fields of an event stream (`data`, `event`, `id`, `retry`), a comment's colon and a
    /// byte order mark have no first byte in common with JSON documents. A plain request expects
    /// JSON, and takes whatever cannot be events for it. A streaming one expects events, takes an
    /// object for a JSON answer, and refuses what no field begins with.
    pub(super) fn take<'a>(&mut self, data: &'a [u8], streaming: bool) -> Option<Guessed<'a>> {
        for (at, &byte) in data.iter().enumerate() {
            let rest = &data[at..];
            let stream = |guess| Some(Guessed::Stream(guess, rest));
            match byte {
                b'\n' | b'\r' => self.indented = false,
                b' ' | b'\t' => self.indented = true,
                b'{' => return Some(Guessed::Json(rest)),
                b':' if !self.indented => return stream(Guess::Sure),
                b'd' | b'e' | b'i' | b'r' | 0xef if !self.indented => return stream(Guess::Unsure),
                _ if !streaming => return Some(Guessed::Json(rest)),
                b'a'..=b'z' if !self.indented => return stream(Guess::Unsure),
                _ => return Some(Guessed::Refused(rest)),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_byte_tells() {
        let take = |text: &'static str, streaming| {
            let whole = Lead::default().take(text.as_bytes(), streaming);
            // Byte by byte it tells the same.
            let mut lead = Lead::default();
            let alone = text
                .as_bytes()
                .chunks(1)
                .find_map(|byte| lead.take(byte, streaming));
            let kind = |guessed| match guessed {
                Some(Guessed::Stream(guess, _)) => Some((Some(guess), false)),
                Some(Guessed::Json(_)) => Some((None, true)),
                Some(Guessed::Refused(_)) => Some((None, false)),
                None => None,
            };
            assert_eq!(kind(whole), kind(alone), "{text:?}");
            kind(whole)
        };
        let (stream, json, refused) = (
            |guess| Some((Some(guess), false)),
            Some((None, true)),
            Some((None, false)),
        );
        for (text, streaming, plain) in [
            ("data: x", stream(Guess::Unsure), stream(Guess::Unsure)),
            ("\r\n\n: ping", stream(Guess::Sure), stream(Guess::Sure)),
            ("\u{feff}data", stream(Guess::Unsure), stream(Guess::Unsure)),
            (" \n {\"a\":1}", json, json),
            ("[1]", refused, json),
            ("<html>", refused, json),
            (" data: x", refused, json),
            ("colour: blue", stream(Guess::Unsure), json),
            ("null", stream(Guess::Unsure), json),
            ("Bad gateway", refused, json),
            (" \t\r\n", None, None),
            ("", None, None),
        ] {
            assert_eq!(take(text, true), streaming, "{text:?}");
            assert_eq!(take(text, false), plain, "{text:?}");
        }
    }
}
