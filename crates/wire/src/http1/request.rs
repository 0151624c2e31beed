use std::iter;

use memchr::memchr;
use thiserror::Error;

use super::HttpErrorKind;
use super::chunked::{Chunked, Piece};
use super::framing::{Coding, Framing, Length};
use super::head::{self, Guard};
use crate::carry::{Carry, CarryPool};

/// Longer methods are not known to any registry.
const METHOD_BYTES_MAX: usize = 32;

/// Empty lines before a request line. RFC 9112 2.2 asks for at least one; the number is a guess.
const BLANK_LINES_MAX: u8 = 4;

/// What comes next in a request.
#[derive(Clone, Copy, Debug)]
pub enum RequestPart<'e> {
    /// The head. It is lent from the input, or from the carry if a read cut it.
    Head(RequestHead<'e>),
    /// Bytes of the body without its framing, lent from the input and never empty.
    Data(&'e [u8]),
    /// The request is complete. The next one may follow in the same input.
    End,
}

/// The head of a request.
#[derive(Clone, Copy, Debug)]
pub struct RequestHead<'e> {
    /// The method, as sent.
    pub method: &'e [u8],
    /// The target, as sent: a path with its query, or an absolute URL.
    pub target: &'e [u8],
    /// The bytes of the body that were announced; `None` when the body is chunked.
    pub content_length: Option<u64>,
    /// Whether the connection stays open after the response. If not, no request after this one is
    /// read.
    pub keep_alive: bool,
    /// Whether the client speaks HTTP/1.0: it takes no chunks.
    pub http10: bool,
    /// Whether the client waits for `100 Continue` before it sends the body.
    pub expect_continue: bool,
    fields: &'e [u8],
}

impl<'e> RequestHead<'e> {
    /// All fields, name and value, in order. Names are as sent; compare without case.
    pub fn fields(&self) -> impl Iterator<Item = (&'e [u8], &'e [u8])> {
        let mut rest = self.fields;
        iter::from_fn(move || {
            let end = memchr(b'\n', rest)?;
            let (line, after) = rest.split_at(end + 1);
            rest = after;
            let line = head::without_line_end(line);
            let colon = memchr(b':', line)?;
            Some((&line[..colon], head::trim(&line[colon + 1..])))
        })
    }

    /// The value of the first field called `name`, whatever its case.
    #[must_use]
    pub fn field(&self, name: &[u8]) -> Option<&'e [u8]> {
        self.fields()
            .find(|(other, _)| other.len() == name.len() && other.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
    }
}

/// Why a request cannot be read. The connection is closed after the answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{status}: {reason}")]
pub struct RequestError {
    /// The status to answer.
    pub status: u16,
    /// What is wrong.
    pub reason: &'static str,
}

/// Decodes the requests of one connection, one after another.
///
/// ```
/// use ridgeline_wire::carry::{Carry, CarryPool};
/// use ridgeline_wire::http1::{RequestDecoder, RequestPart};
/// let (mut carry, mut pool) = (Carry::new(512), CarryPool::new(1 << 20));
/// let mut decoder = RequestDecoder::new(64 << 10, 1 << 20);
/// let mut input = &b"POST /v1/x HTTP/1.1\r\nHost: h\r\nX-Id: 7\r\nContent-Length: 2\r\n\r\n{}"[..];
/// while let Some(part) = decoder.next(&mut input, &mut carry, &mut pool)? {
///     match part {
///         RequestPart::Head(head) => {
///             assert_eq!(head.target, b"/v1/x");
///             assert_eq!(head.field(b"x-id"), Some(&b"7"[..]));
///         }
///         RequestPart::Data(data) => assert_eq!(data, b"{}"),
///         RequestPart::End => assert!(decoder.idle()),
///     }
/// }
/// # Ok::<(), ridgeline_wire::http1::RequestError>(())
/// ```
#[derive(Clone, Debug)]
pub struct RequestDecoder {
    state: State,
    head: HeadInProgress,
    /// The carry holds the head returned last.
    spent: bool,
    head_bytes_max: usize,
    body_bytes_max: u64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Head,
    Length(u64),
    /// A chunked body, with the bytes that it may still have.
    Chunked(Chunked, u64),
    /// The last request said that it is the last.
    Closed,
    Failed(RequestError),
}

/// What is known of the head in progress. Offsets are into the block: the input or, when a read cut
/// the head, the carry.
///
/// INVARIANT: `start <= method_end <= target_end <= fields_start <= scanned`, once the request line
/// is read.
#[derive(Clone, Copy, Debug, Default)]
struct HeadInProgress {
    start: usize,
    method_end: usize,
    target_end: usize,
    /// 0 until the request line is read.
    fields_start: usize,
    /// Whole lines up to here are read.
    scanned: usize,
    /// The check of the line after `scanned`, as far as it is in the carry.
    guard: Option<Guard>,
    blank_lines: u8,
    http10: bool,
    hosts: u8,
    expect: Expect,
    framing: Framing,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Expect {
    #[default]
    Nothing,
    Continue,
    Unknown,
}

impl RequestDecoder {
    /// A decoder for a new connection. A head, and a trailer section, may have `head_bytes_max`
    /// bytes; a body `body_bytes_max`.
    #[must_use]
    pub fn new(head_bytes_max: usize, body_bytes_max: u64) -> Self {
        Self {
            state: State::Head,
            head: HeadInProgress::default(),
            spent: false,
            head_bytes_max,
            body_bytes_max,
        }
    }

    /// The next part; `input` advances past what was read. `None`: the input is used up, or (with
    /// bytes left in it) the last request said that the connection closes. A head is valid until
    /// the next call.
    ///
    /// # Errors
    /// The first thing that is wrong; then the same again.
    #[inline]
    pub fn next<'e, 'i: 'e>(
        &mut self,
        input: &mut &'i [u8],
        carry: &'e mut Carry,
        pool: &mut CarryPool,
    ) -> Result<Option<RequestPart<'e>>, RequestError> {
        if self.spent {
            carry.clear(pool);
            self.spent = false;
        }
        match &mut self.state {
            State::Head => self.read_head(input, carry, pool).inspect_err(|&error| {
                self.state = State::Failed(error);
            }),
            State::Length(0) => Ok(self.end()),
            State::Length(_) if input.is_empty() => Ok(None),
            State::Length(left) => {
                let len = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
                let (data, rest) = input.split_at(len);
                *left -= len as u64;
                *input = rest;
                Ok(Some(RequestPart::Data(data)))
            }
            State::Chunked(..) => self.read_chunked(input).inspect_err(|&error| {
                self.state = State::Failed(error);
            }),
            State::Closed => Ok(None),
            State::Failed(error) => Err(*error),
        }
    }

    /// Whether no part of a request is pending: the client may close here.
    #[must_use]
    pub fn idle(&self) -> bool {
        match self.state {
            State::Head => self.head.scanned == self.head.start && self.head.guard.is_none(),
            State::Closed => true,
            _ => false,
        }
    }

    fn end<'e>(&mut self) -> Option<RequestPart<'e>> {
        let keep_alive = self.head.framing.persistent(self.head.http10);
        self.state = if keep_alive {
            State::Head
        } else {
            State::Closed
        };
        self.head = HeadInProgress::default();
        Some(RequestPart::End)
    }

    fn read_chunked<'i>(
        &mut self,
        input: &mut &'i [u8],
    ) -> Result<Option<RequestPart<'i>>, RequestError> {
        let State::Chunked(chunked, left) = &mut self.state else {
            return Ok(None);
        };
        match chunked.next(input) {
            Ok(Piece::Data(data)) => match left.checked_sub(data.len() as u64) {
                Some(less) => {
                    *left = less;
                    Ok(Some(RequestPart::Data(data)))
                }
                None => Err(RequestError {
                    status: 413,
                    reason: "a body beyond the limit",
                }),
            },
            Ok(Piece::More) => Ok(None),
            Ok(Piece::End) => Ok(self.end()),
            Err(HttpErrorKind::Malformed(reason)) => Err(bad(reason)),
            Err(HttpErrorKind::Oversize) => Err(RequestError {
                status: 431,
                reason: "a trailer or chunk line beyond the limit",
            }),
        }
    }

    /// Reads the head in the input if it is whole there, else by way of the carry.
    fn read_head<'e, 'i: 'e>(
        &mut self,
        input: &mut &'i [u8],
        carry: &'e mut Carry,
        pool: &mut CarryPool,
    ) -> Result<Option<RequestPart<'e>>, RequestError> {
        if self.head.scanned == 0 && self.head.guard.is_none() {
            let block = *input;
            if self
                .head
                .scan(&block[..block.len().min(self.head_bytes_max)])?
            {
                *input = &block[self.head.scanned..];
                return self.end_head(block).map(Some);
            }
            let (lines, rest) = block.split_at(self.head.scanned);
            *input = rest;
            carry.push(pool, lines).map_err(|_| self.oversize())?;
        }
        while !input.is_empty() {
            self.collect(input, carry, pool)?;
            if self.head.guard.is_none() && self.head.scan(carry.as_slice())? {
                self.spent = true;
                return self.end_head(carry.as_slice()).map(Some);
            }
        }
        Ok(None)
    }

    /// Moves bytes of one line to the carry, checked. The guard is gone when the line is whole.
    #[cold]
    fn collect(
        &mut self,
        input: &mut &[u8],
        carry: &mut Carry,
        pool: &mut CarryPool,
    ) -> Result<(), RequestError> {
        let in_request_line = self.head.fields_start == 0;
        let start = if in_request_line {
            Guard::Value
        } else {
            Guard::First
        };
        let mut guard = self.head.guard.unwrap_or(start);
        let end = memchr(b'\n', input);
        let len = end.map_or(input.len(), |end| end + 1);
        let allowed = len.min(self.head_bytes_max - carry.len());
        let (bytes, rest) = input.split_at(allowed);
        carry.push(pool, bytes).map_err(|_| self.oversize())?;
        if in_request_line && !may_begin_request_line(&carry.as_slice()[self.head.scanned..]) {
            return Err(NOT_REQUEST_LINE);
        }
        guard.read(bytes).map_err(bad)?;
        if allowed < len {
            return Err(self.oversize());
        }
        *input = rest;
        self.head.guard = end.is_none().then_some(guard);
        Ok(())
    }

    fn oversize(&self) -> RequestError {
        if self.head.fields_start == 0 {
            RequestError {
                status: 414,
                reason: "a request line beyond the limit",
            }
        } else {
            RequestError {
                status: 431,
                reason: "a head beyond the limit",
            }
        }
    }

    /// RFC 9112 3.2 and 6.3, RFC 9110 10.1.1: checks the head and sets up the body.
    fn end_head<'e>(&mut self, block: &'e [u8]) -> Result<RequestPart<'e>, RequestError> {
        let head = &self.head;
        let framing = &head.framing;
        if head.hosts > 1 || head.hosts == 0 && !head.http10 {
            return Err(bad("not exactly one Host"));
        }
        if head.expect == Expect::Unknown {
            return Err(RequestError {
                status: 417,
                reason: "an unknown expectation",
            });
        }
        let content_length = match (framing.coding, framing.length) {
            (Coding::Unknown { chunked_last: true }, _) => {
                return Err(RequestError {
                    status: 501,
                    reason: "an unknown transfer coding",
                });
            }
            (
                Coding::Empty
                | Coding::Unknown {
                    chunked_last: false,
                },
                _,
            ) => {
                return Err(bad("a transfer coding that does not end in chunked"));
            }
            (Coding::Chunked, _) if head.http10 => return Err(bad("chunks in HTTP/1.0")),
            (Coding::Chunked, Length::Absent) => None,
            // RFC 9112 6.3: may be an attempt to smuggle a request.
            (Coding::Chunked, _) => return Err(bad("Content-Length beside Transfer-Encoding")),
            (Coding::Absent, Length::Invalid) => return Err(bad("an invalid Content-Length")),
            (Coding::Absent, Length::Absent) => Some(0),
            (Coding::Absent, Length::Bytes(bytes)) if bytes > self.body_bytes_max => {
                return Err(RequestError {
                    status: 413,
                    reason: "a body beyond the limit",
                });
            }
            (Coding::Absent, Length::Bytes(bytes)) => Some(bytes),
        };
        self.state = match content_length {
            Some(bytes) => State::Length(bytes),
            None => State::Chunked(Chunked::new(self.head_bytes_max), self.body_bytes_max),
        };
        Ok(RequestPart::Head(RequestHead {
            method: &block[head.start..head.method_end],
            target: &block[head.method_end + 1..head.target_end],
            content_length,
            keep_alive: framing.persistent(head.http10),
            http10: head.http10,
            expect_continue: head.expect == Expect::Continue
                && !head.http10
                && content_length != Some(0),
            fields: &block[head.fields_start..head.scanned],
        }))
    }
}

impl HeadInProgress {
    /// Reads whole lines of `block` from `scanned` on. Whether the blank line was among them.
    fn scan(&mut self, block: &[u8]) -> Result<bool, RequestError> {
        while let Some(end) = memchr(b'\n', &block[self.scanned..]) {
            let start = self.scanned;
            self.scanned += end + 1;
            let line = head::without_line_end(&block[start..self.scanned]);
            match (self.fields_start, line) {
                (0, []) => {
                    self.blank_lines += 1;
                    if self.blank_lines > BLANK_LINES_MAX {
                        return Err(NOT_REQUEST_LINE);
                    }
                    self.start = self.scanned;
                }
                (0, _) => {
                    self.request_line(line)?;
                    self.fields_start = self.scanned;
                }
                (_, []) => return Ok(true),
                (_, _) => {
                    let (name, value) = head::field(line).map_err(bad)?;
                    self.field(name, value);
                }
            }
        }
        Ok(false)
    }

    /// RFC 9112 3: method, target, version, with one space between.
    fn request_line(&mut self, line: &[u8]) -> Result<(), RequestError> {
        if !may_begin_request_line(line) {
            return Err(NOT_REQUEST_LINE);
        }
        if !head::is_text(line) {
            return Err(bad(head::text_fault(line)));
        }
        let mut parts = line.split(|&byte| byte == b' ');
        let (Some(method), Some(target), Some(version), None) =
            (parts.next(), parts.next(), parts.next(), parts.next())
        else {
            return Err(NOT_REQUEST_LINE);
        };
        if target.is_empty() || !target.iter().all(u8::is_ascii_graphic) {
            return Err(bad("a target that is no URL"));
        }
        match version {
            [
                b'H',
                b'T',
                b'T',
                b'P',
                b'/',
                b'1',
                b'.',
                minor @ b'0'..=b'9',
            ] => {
                self.http10 = *minor == b'0';
            }
            [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => {
                return Err(RequestError {
                    status: 505,
                    reason: "not HTTP/1",
                });
            }
            _ => return Err(NOT_REQUEST_LINE),
        }
        self.method_end = self.start + method.len();
        self.target_end = self.method_end + 1 + target.len();
        Ok(())
    }

    fn field(&mut self, name: &[u8], value: &[u8]) {
        match name.len() {
            4 if name.eq_ignore_ascii_case(b"host") => self.hosts = self.hosts.saturating_add(1),
            6 if name.eq_ignore_ascii_case(b"expect") => {
                self.expect = match self.expect {
                    Expect::Nothing if value.eq_ignore_ascii_case(b"100-continue") => {
                        Expect::Continue
                    }
                    _ => Expect::Unknown,
                };
            }
            _ => self.framing.field(name, value),
        }
    }
}

const NOT_REQUEST_LINE: RequestError = bad("not an HTTP/1 request line");

const fn bad(reason: &'static str) -> RequestError {
    RequestError {
        status: 400,
        reason,
    }
}

/// Whether `start` begins like a request line: with a method, as far as it is there. An empty line
/// may come before.
fn may_begin_request_line(start: &[u8]) -> bool {
    if let [b'\r' | b'\n', ..] = start {
        return true;
    }
    let start = &start[..start.len().min(METHOD_BYTES_MAX + 1)];
    match start.iter().position(|&byte| !head::is_token_byte(byte)) {
        Some(end) => end > 0 && start[end] == b' ',
        None => start.len() <= METHOD_BYTES_MAX,
    }
}

#[cfg(test)]
mod tests;
