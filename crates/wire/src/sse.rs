//! Server-sent events: bytes of an event stream to events. WHATWG HTML 9.2.5 and 9.2.6.
//!
//! Departures, on purpose: the stream is not decoded as UTF-8 (whoever reads the data does), `id`
//! and `retry` are ignored (nothing reconnects), and of the event's name only what matters here is
//! kept.

use memchr::memchr2;
use thiserror::Error;

use crate::carry::{Carry, CarryFull, CarryPool};

/// One event that has data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event<'e> {
    /// Its `event` field.
    pub name: EventName,
    /// Its data lines, joined by LF. Never empty: an event without data is no event.
    pub data: &'e [u8],
}

/// The name of an event, as far as it matters here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EventName {
    /// None given, or `message`.
    #[default]
    Message,
    /// `error`.
    Error,
    /// Something else.
    Other,
}

/// Why the stream cannot be read further.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum SseError {
    /// An event's data, or another line, beyond the limit.
    #[error("an event or a line of the event stream beyond its limit")]
    Oversize,
    /// No memory was left for an event that was read in parts.
    #[error(transparent)]
    CarryFull(#[from] CarryFull),
}

/// Finds the events of one stream at a time, read by read.
///
/// An event arrives with the line end of its blank line; a CR there is enough. Its data is lent
/// from the input when one read holds the whole event and it has one data line, else collected in
/// the carry.
#[derive(Clone, Debug)]
pub struct Scanner {
    event_bytes_max: usize,
    /// Nothing is pending; kept up to date by `scan`, because `next` asks each time.
    boundary: bool,
    /// The carry holds the data of the event returned last.
    spent: bool,
    /// Bytes of the byte order mark seen; all of them also when there is none.
    mark_bytes: u8,
    /// The last byte was a CR: an LF now belongs to it.
    after_cr: bool,
    /// The carry holds data of the event in progress.
    has_data: bool,
    line: Line,
    /// Bytes of the line in progress that are not kept.
    line_bytes: usize,
    name: EventName,
    /// The value of an `event` field in progress.
    name_value: NameValue,
}

/// Where in a line the input is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Line {
    Start,
    /// This many bytes of the field's name have been seen.
    Name(Field, u8),
    /// After the colon: one space is not part of the value.
    Space(Field),
    Value(Field),
    /// A comment or another field.
    Ignored,
    Failed(SseError),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Field {
    Data,
    Event,
}

impl Field {
    fn name(self) -> &'static [u8] {
        match self {
            Self::Data => b"data",
            Self::Event => b"event",
        }
    }
}

/// The first bytes of an `event` field's value: enough to tell the known names from others.
#[derive(Clone, Copy, Debug, Default)]
struct NameValue {
    bytes: [u8; 8],
    len: usize,
}

impl NameValue {
    fn push(&mut self, bytes: &[u8]) {
        for &byte in bytes.iter().take(self.bytes.len() - self.len) {
            self.bytes[self.len] = byte;
            self.len += 1;
        }
    }

    fn name(&self) -> EventName {
        match &self.bytes[..self.len] {
            b"" | b"message" => EventName::Message,
            b"error" => EventName::Error,
            _ => EventName::Other,
        }
    }
}

const MARK: [u8; 3] = [0xef, 0xbb, 0xbf];

impl Scanner {
    /// A scanner at the start of a stream. An event may have `event_bytes_max` bytes of data, and
    /// a line that is not data as many.
    #[must_use]
    pub fn new(event_bytes_max: usize) -> Self {
        Self {
            event_bytes_max,
            boundary: false,
            spent: false,
            mark_bytes: 0,
            after_cr: false,
            has_data: false,
            line: Line::Start,
            line_bytes: 0,
            name: EventName::Message,
            name_value: NameValue::default(),
        }
    }

    /// Starts with a new stream. The carry must be cleared too.
    pub fn reset(&mut self) {
        *self = Self::new(self.event_bytes_max);
    }

    /// Whether no part of an event is pending, and no CR whose LF may follow: then whole events at
    /// the head of the input may be taken past the scanner. Before the first byte of a stream it is
    /// false, since a byte order mark may come.
    #[inline]
    #[must_use]
    pub fn at_boundary(&self) -> bool {
        self.boundary
    }

    /// The next event; `input` advances past it. `None`: the input is used up. The data is valid
    /// until the next call.
    ///
    /// # Errors
    /// [`SseError`] when a limit is passed, without collecting what is beyond it; then the same
    /// again until [`Scanner::reset`].
    #[inline]
    pub fn next<'e, 'i: 'e>(
        &mut self,
        input: &mut &'i [u8],
        carry: &'e mut Carry,
        pool: &mut CarryPool,
    ) -> Result<Option<Event<'e>>, SseError> {
        if self.spent {
            carry.clear(pool);
            self.spent = false;
        }
        // What servers send: one data line and its blank line, whole in this read.
        if self.boundary
            && let Some(value) = input.strip_prefix(b"data:")
        {
            let value = value.strip_prefix(b" ").unwrap_or(value);
            if let Some(end @ 1..) = memchr2(b'\n', b'\r', value)
                && let [b'\n', b'\n', rest @ ..] | [b'\r', b'\n', b'\r', b'\n', rest @ ..] =
                    &value[end..]
                && end <= self.event_bytes_max
            {
                *input = rest;
                return Ok(Some(Event {
                    name: EventName::Message,
                    data: &value[..end],
                }));
            }
        }
        if input.is_empty() {
            return Ok(None);
        }
        self.scan(input, carry, pool).inspect_err(|&error| {
            self.boundary = false;
            self.line = Line::Failed(error);
        })
    }

    /// Everything, line by line. `lent` is the event's only data line so far, when it lies whole
    /// in this read.
    #[inline(never)]
    fn scan<'e, 'i: 'e>(
        &mut self,
        input: &mut &'i [u8],
        carry: &'e mut Carry,
        pool: &mut CarryPool,
    ) -> Result<Option<Event<'e>>, SseError> {
        let mut lent: Option<&'i [u8]> = None;
        while let Some((&byte, rest)) = input.split_first() {
            if self.mark_bytes < 3 || self.after_cr {
                if self.skip(byte) {
                    *input = rest;
                }
                continue;
            }
            match self.line {
                Line::Start if matches!(byte, b'\n' | b'\r') => {
                    self.end_line(input, 0);
                    let name = std::mem::take(&mut self.name);
                    let has_data = std::mem::take(&mut self.has_data);
                    self.boundary = !self.after_cr;
                    match lent.take() {
                        Some(data) if !data.is_empty() => return Ok(Some(Event { name, data })),
                        None if has_data && !carry.is_empty() => {
                            self.spent = true;
                            return Ok(Some(Event {
                                name,
                                data: carry.as_slice(),
                            }));
                        }
                        _ => {}
                    }
                }
                Line::Start => self.begin_line(byte),
                Line::Name(field, len) => match field.name().get(usize::from(len)) {
                    Some(&expected) if byte == expected => {
                        self.line = Line::Name(field, len + 1);
                        *input = rest;
                    }
                    None if byte == b':' => {
                        self.line = Line::Space(field);
                        *input = rest;
                    }
                    None if matches!(byte, b'\n' | b'\r') => self.line = Line::Space(field),
                    _ => {
                        self.line = Line::Ignored;
                        self.line_bytes = usize::from(len);
                    }
                },
                Line::Space(field) => {
                    if byte == b' ' {
                        *input = rest;
                    }
                    self.begin_value(field, input, &mut lent, carry, pool)?;
                }
                Line::Value(Field::Data) => {
                    let end = memchr2(b'\n', b'\r', input);
                    self.keep(&input[..end.unwrap_or(input.len())], carry, pool)?;
                    self.advance(input, end);
                }
                Line::Value(Field::Event) | Line::Ignored => self.pass(input)?,
                Line::Failed(error) => return Err(error),
            }
        }
        if let Some(data) = lent {
            self.has_data = true;
            self.keep(data, carry, pool)?;
        }
        self.boundary = self.line == Line::Start
            && !self.has_data
            && !self.after_cr
            && self.mark_bytes == 3
            && self.name == EventName::Message;
        Ok(None)
    }

    /// Whether `byte` belongs to the byte order mark at the start, or to the CR before it.
    #[cold]
    fn skip(&mut self, byte: u8) -> bool {
        if self.after_cr {
            self.after_cr = false;
            return byte == b'\n';
        }
        if byte == MARK[usize::from(self.mark_bytes)] {
            self.mark_bytes += 1;
            return true;
        }
        if self.mark_bytes > 0 {
            // The beginning of a mark, and no mark: a field of another name.
            self.line = Line::Ignored;
            self.line_bytes = usize::from(self.mark_bytes);
        }
        self.mark_bytes = 3;
        false
    }

    fn begin_line(&mut self, byte: u8) {
        self.line_bytes = 0;
        self.line = match byte {
            b'd' => Line::Name(Field::Data, 0),
            b'e' => Line::Name(Field::Event, 0),
            _ => Line::Ignored,
        };
    }

    /// After the name, the colon and the space: lends a data line that is whole and the only one,
    /// else collects.
    fn begin_value<'i>(
        &mut self,
        field: Field,
        input: &mut &'i [u8],
        lent: &mut Option<&'i [u8]>,
        carry: &mut Carry,
        pool: &mut CarryPool,
    ) -> Result<(), SseError> {
        self.line = Line::Value(field);
        if field == Field::Event {
            self.name_value = NameValue::default();
            return Ok(());
        }
        let end = memchr2(b'\n', b'\r', input);
        let value = &input[..end.unwrap_or(input.len())];
        if end.is_some() && lent.is_none() && !self.has_data {
            if value.len() > self.event_bytes_max {
                return Err(SseError::Oversize);
            }
            *lent = Some(value);
        } else {
            if let Some(first) = lent.take() {
                self.has_data = true;
                self.keep(first, carry, pool)?;
            }
            if self.has_data {
                self.keep(b"\n", carry, pool)?;
            }
            self.has_data = true;
            self.keep(value, carry, pool)?;
        }
        self.advance(input, end);
        Ok(())
    }

    fn keep(&self, bytes: &[u8], carry: &mut Carry, pool: &mut CarryPool) -> Result<(), SseError> {
        if bytes.len() > self.event_bytes_max.saturating_sub(carry.len()) {
            return Err(SseError::Oversize);
        }
        if !bytes.is_empty() {
            carry.push(pool, bytes)?;
        }
        Ok(())
    }

    /// Reads on in a line that is not kept.
    fn pass(&mut self, input: &mut &[u8]) -> Result<(), SseError> {
        let end = memchr2(b'\n', b'\r', input);
        let part = &input[..end.unwrap_or(input.len())];
        if part.len() > self.event_bytes_max.saturating_sub(self.line_bytes) {
            return Err(SseError::Oversize);
        }
        self.line_bytes += part.len();
        if self.line == Line::Value(Field::Event) {
            self.name_value.push(part);
            if end.is_some() {
                self.name = self.name_value.name();
            }
        }
        self.advance(input, end);
        Ok(())
    }

    /// To the end of the input, or past the line end at `end`.
    fn advance(&mut self, input: &mut &[u8], end: Option<usize>) {
        match end {
            Some(end) => self.end_line(input, end),
            None => *input = &[],
        }
    }

    /// Past the line end at `end`. An LF after a CR at the end of the input is still to come.
    fn end_line(&mut self, input: &mut &[u8], end: usize) {
        self.line = Line::Start;
        *input = match &input[end..] {
            [b'\r'] => {
                self.after_cr = true;
                &[]
            }
            [b'\r', b'\n', rest @ ..] | [_, rest @ ..] => rest,
            [] => &[],
        };
    }
}

#[cfg(test)]
mod tests;
