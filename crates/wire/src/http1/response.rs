use memchr::memchr;

use super::chunked::{Chunked, Piece};
use super::familiar::FamiliarHead;
use super::framing::{Coding, Framing, Length};
use super::head::{self, Guard};
use super::{ContentKind, Head, HttpError, HttpErrorKind, Part};
use crate::carry::{Carry, CarryPool};

/// Interim responses (1xx) before the final one. A guess: servers send one or two.
const INTERIM_MAX: u8 = 64;

/// Decodes the responses of one connection, one after another.
///
/// ```
/// use ridgeline_wire::carry::{Carry, CarryPool};
/// use ridgeline_wire::http1::{Part, ResponseDecoder};
/// let (mut carry, mut pool) = (Carry::new(512), CarryPool::new(1 << 20));
/// let mut decoder = ResponseDecoder::new(256 << 10);
/// decoder.start();
/// let mut input = &b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"[..];
/// let mut body = Vec::new();
/// while let Some(part) = decoder.next(&mut input, &mut carry, &mut pool)? {
///     match part {
///         Part::Head(head) => assert_eq!(head.status, 200),
///         Part::Data(data) => body.extend_from_slice(data),
///         Part::End => break,
///     }
/// }
/// assert!(body == b"ok" && input.is_empty() && decoder.reusable());
/// # Ok::<(), ridgeline_wire::http1::HttpError>(())
/// ```
#[derive(Clone, Debug)]
pub struct ResponseDecoder {
    state: State,
    line: Line,
    head: Fields,
    /// Bytes of the heads since `start`, the kept line included.
    /// INVARIANT: `head_bytes <= head_bytes_max`.
    head_bytes: usize,
    head_bytes_max: usize,
    interim: u8,
    reusable: bool,
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// No response is expected: before `start`, and after the end.
    Idle,
    StatusLine,
    /// In the field lines; `first`: before the first of them.
    Fields {
        first: bool,
    },
    /// A body of known length, this many bytes to come.
    Length(u64),
    Chunked(Chunked),
    /// A body that the connection's end delimits.
    Close,
    Failed(HttpError),
}

/// What the carry holds while a head is read.
#[derive(Clone, Copy, Debug)]
enum Line {
    /// Nothing: the input is at the start of a line.
    Fresh,
    /// The first bytes of a line.
    Partial(Guard),
    /// A field line without its end. The next byte tells whether it is folded.
    Whole,
}

/// What is remembered of the head in progress, and its status afterwards.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Fields {
    /// 0 until the status line was read.
    status: u16,
    http10: bool,
    content: ContentKind,
    framing: Framing,
}

impl Fields {
    /// The same with a Content-Length of `bytes`.
    pub(super) const fn with_length(mut self, bytes: u64) -> Self {
        self.framing.length = Length::Bytes(bytes);
        self
    }
}

/// How a connection's end left its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// Nothing is missing: the body was delimited by the connection's end and that was a FIN, or
    /// no response was outstanding.
    Complete,
    /// No byte of the response had come.
    BeforeFirstByte,
    /// The response had begun and was not complete.
    Truncated,
}

impl ResponseDecoder {
    /// A decoder for a new connection. The heads of one response, interim ones included, may have
    /// `head_bytes_max` bytes together, and so may its trailer section.
    #[must_use]
    pub fn new(head_bytes_max: usize) -> Self {
        Self {
            state: State::Idle,
            line: Line::Fresh,
            head: Fields::default(),
            head_bytes: 0,
            head_bytes_max,
            interim: 0,
            reusable: false,
        }
    }

    /// Expects the response to a request that is sent now. The connection's carry must be empty.
    pub fn start(&mut self) {
        *self = Self {
            state: State::StatusLine,
            ..Self::new(self.head_bytes_max)
        };
    }

    /// The next part of the response; `input` advances past what was read. `None`: the input is
    /// used up, or (with bytes left in it) no response is outstanding.
    ///
    /// `carry` keeps an unfinished line of the head and is empty when [`Part::Head`] has been
    /// returned.
    ///
    /// # Errors
    /// The first thing that is wrong; then the same again.
    #[inline]
    pub fn next<'a>(
        &mut self,
        input: &mut &'a [u8],
        carry: &mut Carry,
        pool: &mut CarryPool,
    ) -> Result<Option<Part<'a>>, HttpError> {
        match &mut self.state {
            State::Chunked(chunked) => match chunked.next(input) {
                Ok(Piece::Data(data)) => Ok(Some(Part::Data(data))),
                Ok(Piece::More) => Ok(None),
                Ok(Piece::End) => Ok(self.end()),
                Err(kind) => Err(self.fail(kind)),
            },
            State::Close if !input.is_empty() => Ok(Some(Part::Data(std::mem::take(input)))),
            State::Length(left) if *left > 0 && !input.is_empty() => {
                let len = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
                let (data, rest) = input.split_at(len);
                *left -= len as u64;
                *input = rest;
                Ok(Some(Part::Data(data)))
            }
            State::Length(0) => Ok(self.end()),
            State::Length(_) | State::Close | State::Idle => Ok(None),
            State::StatusLine | State::Fields { .. } => self
                .read_head(input, carry, pool)
                .map_err(|kind| self.fail(kind)),
            State::Failed(error) => Err(*error),
        }
    }

    /// The same as [`ResponseDecoder::next`], but a head that `familiar` knows is not parsed, and one that
    /// is parsed becomes what it knows.
    ///
    /// # Errors
    /// Those of [`ResponseDecoder::next`].
    #[inline]
    pub fn next_familiar<'a>(
        &mut self,
        familiar: &mut FamiliarHead,
        input: &mut &'a [u8],
        carry: &mut Carry,
        pool: &mut CarryPool,
    ) -> Result<Option<Part<'a>>, HttpError> {
        if matches!(self.state, State::StatusLine) && self.head_bytes == 0 && carry.is_empty() {
            return self.first_head(familiar, input, carry, pool);
        }
        self.next(input, carry, pool)
    }

    /// The next part at the first byte of a response.
    #[inline(never)]
    fn first_head<'a>(
        &mut self,
        familiar: &mut FamiliarHead,
        input: &mut &'a [u8],
        carry: &mut Carry,
        pool: &mut CarryPool,
    ) -> Result<Option<Part<'a>>, HttpError> {
        if let Some((fields, bytes)) = familiar.matches(input)
            && bytes <= self.head_bytes_max
        {
            (self.head, self.head_bytes) = (fields, bytes);
            *input = &input[bytes..];
            let head = self.end_head().map_err(|kind| self.fail(kind))?;
            return Ok(head.map(Part::Head));
        }
        let before = *input;
        let part = self.next(input, carry, pool)?;
        // All of the head lies in this read, and nothing else does, if no interim response came first.
        if let (Some(Part::Head(_)), 0) = (part, self.interim) {
            familiar.learn(&before[..before.len() - input.len()], self.head);
        }
        Ok(part)
    }

    /// Takes HTTP chunks that lie whole at the head of `input`, as long as `take` wants their data:
    /// what [`ResponseDecoder::next`] would hand out as one [`Part::Data`] after another, without
    /// the way there and back. Does nothing where the body is not chunked.
    #[inline]
    pub fn take_chunks<'a>(&self, input: &mut &'a [u8], take: impl FnMut(&'a [u8]) -> bool) {
        if let State::Chunked(chunked) = &self.state {
            chunked.take_whole(input, take);
        }
    }

    /// The connection ended, by FIN or else by RST. No further response is expected on it.
    pub fn finish(&mut self, fin: bool) -> Ended {
        let ended = match &self.state {
            State::Idle | State::Length(0) => Ended::Complete,
            State::Close if fin => Ended::Complete,
            State::StatusLine if self.head_bytes == 0 => Ended::BeforeFirstByte,
            _ => Ended::Truncated,
        };
        self.state = State::Idle;
        self.reusable = false;
        ended
    }

    /// After [`Part::End`]: whether the connection can carry another request. Bytes left in the
    /// input make it useless too; the caller sees those.
    #[must_use]
    pub fn reusable(&self) -> bool {
        self.reusable
    }

    /// After [`Part::End`]: for how many seconds the server says that it keeps the connection when nothing
    /// goes over it (`Keep-Alive: timeout=5`), if it does.
    #[must_use]
    pub fn idle_s(&self) -> Option<u32> {
        self.head.framing.idle_s
    }

    fn end<'a>(&mut self) -> Option<Part<'a>> {
        self.state = State::Idle;
        self.reusable = self.head.framing.persistent(self.head.http10);
        Some(Part::End)
    }

    #[cold]
    fn fail(&mut self, kind: HttpErrorKind) -> HttpError {
        let in_head = matches!(self.state, State::StatusLine | State::Fields { .. });
        let status = match self.head.status {
            0 | 100 | 102..=199 => None,
            _ if in_head && kind == HttpErrorKind::Oversize => None,
            status => Some(status),
        };
        let error = HttpError { kind, status };
        self.state = State::Failed(error);
        error
    }

    /// Reads lines up to the end of the final head.
    #[inline(never)]
    fn read_head<'a>(
        &mut self,
        input: &mut &'a [u8],
        carry: &mut Carry,
        pool: &mut CarryPool,
    ) -> Result<Option<Part<'a>>, HttpErrorKind> {
        loop {
            let blank = if !matches!(self.line, Line::Fresh) {
                if !self.resume(input, carry, pool)? {
                    return Ok(None);
                }
                let blank = self.read_line(carry.as_slice())?;
                carry.clear(pool);
                self.line = Line::Fresh;
                blank
            } else if let Some(line) = self.whole_line(input)? {
                self.read_line(line)?
            } else if input.is_empty() {
                return Ok(None);
            } else {
                self.keep_line(input, carry, pool)?;
                continue;
            };
            if blank && let Some(head) = self.end_head()? {
                return Ok(Some(Part::Head(head)));
            }
        }
    }

    /// Takes the next line, without its end, if it is whole in `input` and not folded, or not known
    /// to be.
    #[inline]
    fn whole_line<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<&'a [u8]>, HttpErrorKind> {
        let Some(end) = memchr(b'\n', input) else {
            return Ok(None);
        };
        let len = end + 1;
        if len > self.head_bytes_max - self.head_bytes {
            return Ok(None);
        }
        let line = head::without_line_end(&input[..len]);
        if let State::Fields { .. } = self.state
            && !line.is_empty()
            && matches!(input.get(len), None | Some(b' ' | b'\t'))
        {
            return Ok(None);
        }
        self.head_bytes += len;
        *input = &input[len..];
        Ok(Some(line))
    }

    /// Begins to collect a line that is cut or may be folded.
    #[cold]
    fn keep_line(
        &mut self,
        input: &mut &[u8],
        carry: &mut Carry,
        pool: &mut CarryPool,
    ) -> Result<(), HttpErrorKind> {
        debug_assert!(carry.is_empty(), "one user of the carry at a time");
        self.line = Line::Partial(match self.state {
            State::Fields { first: true } => Guard::First,
            State::Fields { first: false } => Guard::Line,
            _ => Guard::Value,
        });
        self.collect(input, carry, pool).map(drop)
    }

    /// Continues a line that the carry holds. Whether it is a whole logical line now.
    #[cold]
    fn resume(
        &mut self,
        input: &mut &[u8],
        carry: &mut Carry,
        pool: &mut CarryPool,
    ) -> Result<bool, HttpErrorKind> {
        loop {
            let Some(&next) = input.first() else {
                return Ok(false);
            };
            match self.line {
                Line::Fresh => return Ok(true),
                // RFC 9112 5.2: the value goes on; the white space stays as its separator.
                Line::Whole if matches!(next, b' ' | b'\t') => {
                    self.line = Line::Partial(Guard::Line);
                }
                Line::Whole => return Ok(true),
                Line::Partial(_) => {}
            }
            if !self.collect(input, carry, pool)? {
                return Ok(false);
            }
            if matches!(self.state, State::StatusLine) || carry.is_empty() {
                return Ok(true);
            }
        }
    }

    /// Moves bytes of the line in progress to the carry, checked, without the line's end. Whether
    /// its end was among them.
    fn collect(
        &mut self,
        input: &mut &[u8],
        carry: &mut Carry,
        pool: &mut CarryPool,
    ) -> Result<bool, HttpErrorKind> {
        let Line::Partial(mut guard) = self.line else {
            return Ok(true);
        };
        let end = memchr(b'\n', input);
        let len = end.map_or(input.len(), |end| end + 1);
        let allowed = len.min(self.head_bytes_max - self.head_bytes);
        let (bytes, rest) = input.split_at(allowed);
        carry
            .push(pool, bytes)
            .map_err(|_| HttpErrorKind::Oversize)?;
        if matches!(self.state, State::StatusLine) && !head::may_begin_status_line(carry.as_slice())
        {
            return Err(HttpErrorKind::Malformed(head::NOT_STATUS_LINE));
        }
        guard.read(bytes).map_err(HttpErrorKind::Malformed)?;
        if allowed < len {
            return Err(HttpErrorKind::Oversize);
        }
        self.head_bytes += len;
        *input = rest;
        if end.is_some() {
            carry.truncate(head::without_line_end(carry.as_slice()).len());
            self.line = Line::Whole;
        } else {
            self.line = Line::Partial(guard);
        }
        Ok(end.is_some())
    }

    /// Reads a logical line. Whether it is the blank one.
    #[inline]
    fn read_line(&mut self, line: &[u8]) -> Result<bool, HttpErrorKind> {
        if let State::StatusLine = self.state {
            let parsed = head::status_line(line).map_err(HttpErrorKind::Malformed)?;
            self.head = Fields {
                status: parsed.status,
                http10: parsed.http10,
                ..Fields::default()
            };
            self.state = State::Fields { first: true };
            if parsed.status == 101 {
                return Err(HttpErrorKind::Malformed(
                    "a switch of protocols nobody asked for",
                ));
            }
            return Ok(false);
        }
        if line.is_empty() {
            return Ok(true);
        }
        let (name, value) = head::field(line).map_err(HttpErrorKind::Malformed)?;
        self.state = State::Fields { first: false };
        self.head.framing.field(name, value);
        if name.len() == 12 && name.eq_ignore_ascii_case(b"content-type") {
            self.head.content = ContentKind::of(value);
        }
        Ok(false)
    }

    /// Where the body ends, by RFC 9112 6.3. `None` after an interim response.
    fn end_head(&mut self) -> Result<Option<Head>, HttpErrorKind> {
        let Fields {
            status,
            content,
            framing,
            ..
        } = self.head;
        if status < 200 {
            self.interim += 1;
            if self.interim > INTERIM_MAX {
                return Err(HttpErrorKind::Malformed("too many interim responses"));
            }
            self.state = State::StatusLine;
            return Ok(None);
        }
        self.state = if matches!(status, 204 | 304) {
            State::Length(0)
        } else if framing.encoded {
            return Err(HttpErrorKind::Malformed(
                "a content coding that was not asked for",
            ));
        } else {
            match (framing.coding, framing.length) {
                (Coding::Empty | Coding::Unknown { .. }, _) => {
                    return Err(HttpErrorKind::Malformed(
                        "a transfer coding other than chunked",
                    ));
                }
                (Coding::Chunked, _) => State::Chunked(Chunked::new(self.head_bytes_max)),
                (Coding::Absent, Length::Bytes(bytes)) => State::Length(bytes),
                (Coding::Absent, Length::Absent) => State::Close,
                (Coding::Absent, Length::Invalid) => {
                    return Err(HttpErrorKind::Malformed("an invalid Content-Length"));
                }
            }
        };
        Ok(Some(Head { status, content }))
    }
}

#[cfg(test)]
mod tests;
