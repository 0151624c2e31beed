//! HTTP around the bytes of answers.

use super::habits::{Cut, Http, Spelling, Transfer};
use super::json::{number, put};
use super::voice::Telling;
use crate::id::Id;
use crate::refusal::{Advice, reason};

/// What a response says about its connection and its request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reply {
    /// `X-Request-Id` of the request; empty: none.
    pub(crate) request_id: Id,
    /// The connection stays open after this response.
    pub(crate) keep_alive: bool,
    /// The peer speaks HTTP/1.1: it takes chunks, and keeping alive is the default.
    pub(crate) chunks: bool,
}

/// How a response's body is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// `content-length`.
    Length(usize),
    /// In HTTP chunks.
    Chunked,
    /// Until the connection ends.
    Close,
}

/// What a response's body is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// One JSON document, or nothing.
    Json,
    /// An event stream.
    Events,
    /// For Prometheus.
    Page,
}

impl Http {
    /// The framing of a stream to a peer that takes chunks, or does not; `None`: its length, which
    /// is known when all of it is.
    pub(crate) fn stream_framing(&self, chunks: bool) -> Option<Framing> {
        match self.transfer {
            Transfer::Length => None,
            Transfer::Chunked if chunks => Some(Framing::Chunked),
            Transfer::Chunked | Transfer::Close => Some(Framing::Close),
        }
    }

    /// Frames a body that is complete.
    pub(crate) fn complete(&self, body: &mut Vec<u8>, content: Content, chunks: bool) -> Framing {
        if content == Content::Json && self.whole_chunked && chunks {
            self.chunk(body, &mut Telling::default(), 0);
            self.end(body, Framing::Chunked);
            Framing::Chunked
        } else {
            Framing::Length(body.len())
        }
    }

    /// Whether what is no stream has the same bytes for a peer that takes no chunks.
    pub(crate) fn whole_is_plain(&self) -> bool {
        !self.whole_chunked
    }

    /// Whether the connection can stay open after an answer.
    pub(crate) fn keeps_alive(&self, stream: bool, chunks: bool) -> bool {
        let delimited = !stream || self.stream_framing(chunks) != Some(Framing::Close);
        delimited && !self.closes
    }

    /// Appends what `write` appends, one event or several, framed; nothing if that is nothing.
    pub(crate) fn event(
        &self,
        out: &mut Vec<u8>,
        framing: Framing,
        telling: &mut Telling,
        write: impl FnOnce(&mut Vec<u8>, &mut Telling),
    ) {
        let start = out.len();
        write(out, telling);
        if framing == Framing::Chunked && self.cut != Cut::Write {
            self.chunk(out, telling, start);
        }
    }

    /// Frames what a write has from `start` on, where the write decides that and not its events.
    pub(crate) fn write(
        &self,
        out: &mut Vec<u8>,
        framing: Framing,
        telling: &mut Telling,
        start: usize,
    ) {
        if framing == Framing::Chunked && self.cut == Cut::Write {
            self.chunk(out, telling, start);
        }
    }

    /// Appends what ends a body.
    pub(crate) fn end(&self, out: &mut Vec<u8>, framing: Framing) {
        if framing == Framing::Chunked {
            out.extend_from_slice(self.last_chunk.as_bytes());
        }
    }

    /// Puts the bytes from `start` on into chunks.
    fn chunk(&self, out: &mut Vec<u8>, telling: &mut Telling, start: usize) {
        let end = out.len();
        if start == end {
            return;
        }
        let mut spelling = || {
            let spelling = &self.spellings[telling.chunks as usize % self.spellings.len()];
            telling.chunks = telling.chunks.wrapping_add(1);
            spelling
        };
        if matches!(self.cut, Cut::Event | Cut::Write) {
            // The size is known when the event is there: the event moves back to let it in.
            size_line(out, spelling(), end - start);
            let line = out.len() - end;
            out[start..].rotate_right(line);
            out.extend_from_slice(b"\r\n");
            return;
        }
        let mut at = start;
        while at < end {
            let rest = &out[at..end];
            let size = match self.cut {
                Cut::Return => rest.iter().position(|byte| *byte == b'\r').map(|at| at + 1),
                Cut::Bytes(size) => Some(size),
                Cut::Event | Cut::Write => None,
            };
            let size = size.unwrap_or(rest.len()).clamp(1, rest.len());
            size_line(out, spelling(), size);
            out.extend_from_within(at..at + size);
            out.extend_from_slice(b"\r\n");
            at += size;
        }
        out.drain(start..end);
    }
}

/// Appends the first line of a chunk of `size` bytes.
fn size_line(out: &mut Vec<u8>, spelling: &Spelling, size: usize) {
    let digits = (usize::BITS - size.leading_zeros()).div_ceil(4) as usize;
    let alphabet = if spelling.upper {
        b"0123456789ABCDEF"
    } else {
        b"0123456789abcdef"
    };
    for place in (0..digits.max(spelling.digits_min)).rev() {
        out.push(alphabet[size >> (4 * place) & 15]);
    }
    put(out, &[spelling.extension.as_bytes(), b"\r\n"]);
}

/// The status line and the header fields, up to the blank line. Dialects differ in answers, which
/// have status 200, and in nothing else.
pub(crate) fn head(
    out: &mut Vec<u8>,
    http: &Http,
    (status, advice): (u16, Advice),
    (content, framing): (Content, Framing),
    reply: &Reply,
) {
    let version = match content {
        Content::Json | Content::Page => "HTTP/1.1",
        Content::Events => http.version,
    };
    if status == 200 {
        out.extend_from_slice(http.interim.as_bytes());
        put(out, &[version.as_bytes(), b" 200 OK\r\n"]);
    } else {
        put(out, &[version.as_bytes(), b" "]);
        number(out, u64::from(status));
        put(out, &[b" ", reason(status).as_bytes(), b"\r\n"]);
    }
    out.extend_from_slice(b"server: ridgeline-mock-server\r\n");
    if let Some(allow) = advice.allow {
        put(out, &[b"allow: ", allow.as_bytes(), b"\r\n"]);
    }
    if let Some(seconds) = advice.retry_after_s {
        out.extend_from_slice(b"retry-after: ");
        number(out, seconds);
        out.extend_from_slice(b"\r\n");
    }
    match content {
        Content::Json if framing == Framing::Length(0) => {}
        Content::Json => out.extend_from_slice(b"content-type: application/json\r\n"),
        Content::Page => {
            out.extend_from_slice(b"content-type: text/plain; version=0.0.4; charset=utf-8\r\n")
        }
        Content::Events => out.extend_from_slice(http.stream_fields.as_bytes()),
    }
    match framing {
        Framing::Length(length) => {
            out.extend_from_slice(b"content-length: ");
            number(out, length as u64);
            out.extend_from_slice(b"\r\n");
        }
        Framing::Chunked => out.extend_from_slice(http.chunked_fields.as_bytes()),
        Framing::Close => {}
    }
    if !reply.request_id.is_empty() {
        put(
            out,
            &[b"x-request-id: ", reply.request_id.as_bytes(), b"\r\n"],
        );
    }
    match (reply.keep_alive, reply.chunks) {
        (true, true) => {}
        (true, false) => out.extend_from_slice(b"connection: keep-alive\r\n"),
        (false, _) => out.extend_from_slice(b"connection: close\r\n"),
    }
    out.extend_from_slice(b"\r\n");
}

#[cfg(test)]
mod tests {
    use super::super::Dialect;
    use super::*;

    #[test]
    fn a_chunk_is_its_size_its_bytes_and_a_line_end() {
        let http = Dialect::Vllm.http();
        let mut telling = Telling::default();
        for size in [1, 15, 16, 255, 256, 0xdead_usize] {
            let bytes = vec![b'x'; size];
            let mut out = b"before".to_vec();
            http.event(&mut out, Framing::Chunked, &mut telling, |out, _| {
                out.extend_from_slice(&bytes);
            });
            let expected = [
                b"before",
                format!("{size:x}\r\n").as_bytes(),
                &bytes,
                b"\r\n",
            ]
            .concat();
            assert_eq!(out, expected);
        }
        let mut out = Vec::new();
        http.event(&mut out, Framing::Chunked, &mut telling, |_, _| {});
        http.event(&mut out, Framing::Close, &mut telling, |out, _| {
            out.push(b'x')
        });
        assert_eq!(out, b"x");
    }

    #[test]
    fn a_head_says_what_its_response_is() {
        let reply = Reply {
            request_id: Id::new(b"r1").unwrap(),
            keep_alive: false,
            chunks: true,
        };
        let mut out = Vec::new();
        let advice = Advice {
            allow: Some("POST"),
            retry_after_s: Some(3),
        };
        let form = (Content::Json, Framing::Length(7));
        head(
            &mut out,
            Dialect::Http10.http(),
            (405, advice),
            form,
            &reply,
        );
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "HTTP/1.1 405 Method Not Allowed\r\nserver: ridgeline-mock-server\r\nallow: POST\r\nretry-after: 3\r\n\
             content-type: application/json\r\ncontent-length: 7\r\nx-request-id: r1\r\n\
             connection: close\r\n\r\n"
        );
    }
}
