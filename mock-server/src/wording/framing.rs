use super::json::{number, put};
use crate::id::Id;
use crate::refusal::reason;

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
    /// One HTTP chunk per event.
    Chunked,
    /// Until the connection ends (HTTP/1.0).
    Close,
}

/// The status line and the header fields, up to the blank line.
pub(crate) fn head(
    out: &mut Vec<u8>,
    (status, allow): (u16, Option<&str>),
    framing: Framing,
    reply: &Reply,
) {
    if status == 200 {
        out.extend_from_slice(b"HTTP/1.1 200 OK\r\nserver: ridgeline-mock-server\r\n");
    } else {
        out.extend_from_slice(b"HTTP/1.1 ");
        number(out, u64::from(status));
        put(
            out,
            &[
                b" ",
                reason(status).as_bytes(),
                b"\r\nserver: ridgeline-mock-server\r\n",
            ],
        );
    }
    if let Some(allow) = allow {
        put(out, &[b"allow: ", allow.as_bytes(), b"\r\n"]);
    }
    match framing {
        Framing::Length(0) => out.extend_from_slice(b"content-length: 0\r\n"),
        Framing::Length(length) => {
            out.extend_from_slice(b"content-type: application/json\r\ncontent-length: ");
            number(out, length as u64);
            out.extend_from_slice(b"\r\n");
        }
        Framing::Chunked => out.extend_from_slice(
            b"content-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n",
        ),
        Framing::Close => {
            out.extend_from_slice(b"content-type: text/event-stream; charset=utf-8\r\n");
        }
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

/// Appends what `write` appends, framed as one event of a stream; nothing if that is nothing.
pub(crate) fn event(out: &mut Vec<u8>, framing: Framing, write: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    write(out);
    let size = out.len() - start;
    if size == 0 || framing != Framing::Chunked {
        return;
    }
    // The size is known when the event is there: the event moves back to let it in.
    let mut line = [0; SIZE_LINE_BYTES_MAX];
    let line = size_line(&mut line, size);
    out.extend_from_slice(line);
    out.copy_within(start..start + size, start + line.len());
    out[start..start + line.len()].copy_from_slice(line);
    out.extend_from_slice(b"\r\n");
}

/// Appends what ends a stream.
pub(crate) fn end(out: &mut Vec<u8>, framing: Framing) {
    if framing == Framing::Chunked {
        out.extend_from_slice(b"0\r\n\r\n");
    }
}

/// The digits of the largest size, and the line's end.
const SIZE_LINE_BYTES_MAX: usize = 2 * size_of::<usize>() + 2;

/// The first line of a chunk of `size` bytes.
fn size_line(buffer: &mut [u8; SIZE_LINE_BYTES_MAX], size: usize) -> &[u8] {
    let digits = (usize::BITS - size.leading_zeros()).div_ceil(4).max(1) as usize;
    for (place, digit) in buffer[..digits].iter_mut().rev().enumerate() {
        *digit = b"0123456789abcdef"[size >> (4 * place) & 15];
    }
    buffer[digits..digits + 2].copy_from_slice(b"\r\n");
    &buffer[..digits + 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_its_size_its_bytes_and_a_line_end() {
        for size in [1, 15, 16, 255, 256, 0xdead_usize] {
            let bytes = vec![b'x'; size];
            let mut out = b"before".to_vec();
            event(&mut out, Framing::Chunked, |out| {
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
        event(&mut out, Framing::Chunked, |_| {});
        event(&mut out, Framing::Close, |out| out.push(b'x'));
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
        head(&mut out, (405, Some("POST")), Framing::Length(7), &reply);
        assert_eq!(
            String::from_utf8(out).unwrap(),
            "HTTP/1.1 405 Method Not Allowed\r\nserver: ridgeline-mock-server\r\nallow: POST\r\n\
             content-type: application/json\r\ncontent-length: 7\r\nx-request-id: r1\r\n\
             connection: close\r\n\r\n"
        );
    }
}
