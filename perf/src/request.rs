//! The end of a request, and nothing else of it.

use memchr::{memchr_iter, memmem};

/// What a piece of a request came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Progress {
    /// More is to come.
    Partial,
    /// The request is whole.
    Whole,
    /// Not a request that can be served here, or bytes after its end.
    Refused,
}

/// Finds the end of a request that comes in pieces: by the blank line and Content-Length, read
/// anew for every request. Nothing else of it is looked at.
#[derive(Clone, Debug, Default)]
pub(crate) struct Reader {
    /// The start of a head that came without its end.
    head: Vec<u8>,
    /// Bytes of the body still to come.
    body: u64,
}

const HEAD_BYTES_MAX: usize = 64 << 10;

impl Reader {
    #[inline]
    pub(crate) fn read(&mut self, bytes: &[u8]) -> Progress {
        if self.body > 0 {
            return self.read_body(bytes.len());
        }
        if self.head.is_empty() {
            return match self.read_head(bytes) {
                Some(progress) => progress,
                None => {
                    self.head.extend_from_slice(bytes);
                    Progress::Partial
                }
            };
        }
        let mut head = std::mem::take(&mut self.head);
        head.extend_from_slice(bytes);
        self.read_head(&head).unwrap_or_else(|| {
            if head.len() > HEAD_BYTES_MAX {
                return Progress::Refused;
            }
            self.head = head;
            Progress::Partial
        })
    }

    /// `None` when the head has no end yet.
    #[inline]
    fn read_head(&mut self, bytes: &[u8]) -> Option<Progress> {
        let end = memmem::find(bytes, b"\r\n\r\n")? + 4;
        let Some(length) = body_length(&bytes[..end]) else {
            return Some(Progress::Refused);
        };
        let rest = bytes.len() - end;
        self.body = length;
        Some(if length == 0 && rest == 0 {
            Progress::Whole
        } else {
            self.read_body(rest)
        })
    }

    #[inline]
    fn read_body(&mut self, length: usize) -> Progress {
        match self.body.checked_sub(length as u64) {
            Some(0) if length > 0 => {
                self.body = 0;
                Progress::Whole
            }
            Some(left) => {
                self.body = left;
                Progress::Partial
            }
            None => Progress::Refused,
        }
    }
}

/// The Content-Length of a head, 0 without one. `None` for a malformed one or a transfer coding.
#[inline]
fn body_length(head: &[u8]) -> Option<u64> {
    const NAME: &[u8] = b"content-length:";
    let mut length = 0;
    for at in memchr_iter(b'\n', head) {
        let line = &head[at + 1..];
        // Two names start so: content-* and transfer-encoding.
        match line.first() {
            Some(b'c' | b'C') if has_name(line, NAME) => {
                let end = memchr::memchr(b'\r', line)?;
                length = str::from_utf8(&line[NAME.len()..end])
                    .ok()?
                    .trim()
                    .parse()
                    .ok()?;
            }
            Some(b't' | b'T') if has_name(line, b"transfer-encoding:") => return None,
            _ => {}
        }
    }
    Some(length)
}

#[inline]
fn has_name(line: &[u8], name: &[u8]) -> bool {
    line.len() >= name.len() && line[..name.len()].eq_ignore_ascii_case(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    const POST: &[u8] = b"POST /x HTTP/1.1\r\nHost: a\r\nCONTENT-length: 5\r\nTea: x\r\n\r\nhello";
    const GET: &[u8] = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n";

    #[test]
    fn every_split_of_a_request_ends_with_its_last_byte() {
        for request in [POST, GET] {
            for at in 1..request.len() {
                let mut reader = Reader::default();
                assert_eq!(reader.read(&request[..at]), Progress::Partial, "at {at}");
                assert_eq!(reader.read(&request[at..]), Progress::Whole, "at {at}");
                assert_eq!(reader.read(GET), Progress::Whole, "the next one");
            }
            let mut reader = Reader::default();
            let (last, rest) = request.split_last().unwrap();
            assert!(rest.iter().all(|b| reader.read(&[*b]) == Progress::Partial));
            assert_eq!(reader.read(&[*last]), Progress::Whole);
        }
    }

    #[test]
    fn what_can_not_be_served_is_refused() {
        for bytes in [
            &b"POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n"[..],
            b"POST / HTTP/1.1\r\nContent-Length: five\r\n\r\nhello",
            b"POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello more",
            b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n",
        ] {
            assert_eq!(Reader::default().read(bytes), Progress::Refused);
        }
        let mut reader = Reader::default();
        let mut endless = std::iter::repeat_with(|| reader.read(&[b'a'; 4096])).take(100);
        assert!(endless.any(|progress| progress == Progress::Refused));
    }
}
