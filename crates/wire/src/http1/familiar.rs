use memchr::memchr;

use super::head;
use super::response::Fields;
use crate::digits::{DIGITS_MAX, leading_number};
use crate::pace::Pace;

/// The exact fast path for heads: one that is known to differ from a parsed one only where that
/// makes no difference, or in its length.
///
/// The bytes of a head that was parsed are kept, and the places of values that may differ: the
/// digits of its Content-Length, and Date and X-Request-Id. A later head with the same bytes around
/// as valid values means the same but for the length: where its lines end and which fields they
/// are is the same. Anything else is parsed.
#[derive(Debug)]
pub struct FamiliarHead {
    /// Allocated once.
    buffer: Box<[u8]>,
    /// Bytes of the head in the buffer; 0: there is none.
    len: usize,
    /// The first `hole_count` of them, in order. INVARIANT: they lie within `len`, apart.
    holes: [Hole; HOLES_MAX],
    hole_count: usize,
    fields: Fields,
    pace: Pace,
}

/// The value of a field that may differ.
#[derive(Clone, Copy, Debug, Default)]
struct Hole {
    from: usize,
    to: usize,
    is_length: bool,
}

const HOLES_MAX: usize = 4;

/// Fields whose values differ from answer to answer and say nothing about how to read it. They may
/// do so at the same length only: then it is not asked where they end.
const VARYING: [&[u8]; 2] = [b"date", b"x-request-id"];

impl FamiliarHead {
    /// Keeps heads of at most `bytes_max` bytes.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self {
            buffer: vec![0; bytes_max].into_boxed_slice(),
            len: 0,
            holes: [Hole::default(); HOLES_MAX],
            hole_count: 0,
            fields: Fields::default(),
            pace: Pace::default(),
        }
    }

    /// Takes a whole head, from its status line to its blank line, and what was parsed of it.
    pub(super) fn learn(&mut self, head: &[u8], fields: Fields) {
        if !self.pace.miss() {
            return;
        }
        self.len = 0;
        let Some(room) = self.buffer.get_mut(..head.len()) else {
            return;
        };
        room.copy_from_slice(head);
        if self.find_holes(head).is_some() {
            (self.len, self.fields) = (head.len(), fields);
        }
    }

    /// `None` when the head is not to be kept.
    fn find_holes(&mut self, head: &[u8]) -> Option<()> {
        self.hole_count = 0;
        let (mut at, mut lengths) = (0, 0);
        for line in head.split_inclusive(|&byte| byte == b'\n') {
            let start = at;
            at += line.len();
            if let Some(b' ' | b'\t') = line.first() {
                // A value goes on here, which may be any of them.
                return None;
            }
            let line = head::without_line_end(line);
            let Some(colon) = memchr(b':', line) else {
                continue;
            };
            let (name, value) = (&line[..colon], head::trim(&line[colon + 1..]));
            let is_length = name.eq_ignore_ascii_case(b"content-length");
            if is_length {
                lengths += 1;
                if lengths > 1 || value.len() > DIGITS_MAX || head::decimal(value).is_none() {
                    return None;
                }
            } else if value.is_empty() || !VARYING.iter().any(|of| name.eq_ignore_ascii_case(of)) {
                continue;
            }
            let value_field = &line[colon + 1..];
            let blank = value_field.iter().take_while(|byte| b" \t".contains(byte));
            let from = start + colon + 1 + blank.count();
            if let Some(hole) = self.holes.get_mut(self.hole_count) {
                *hole = Hole {
                    from,
                    to: from + value.len(),
                    is_length,
                };
                self.hole_count += 1;
            }
        }
        Some(())
    }

    /// What the head at the start of `input` says, and its bytes, if it is whole and familiar.
    #[inline]
    pub(super) fn matches(&mut self, input: &[u8]) -> Option<(Fields, usize)> {
        if self.len == 0 {
            return None;
        }
        let mut fields = self.fields;
        let (mut rest, mut from) = (input, 0);
        for hole in &self.holes[..self.hole_count] {
            rest = rest.strip_prefix(&self.buffer[from..hole.from])?;
            from = hole.to;
            let (value, tail) = if hole.is_length {
                let (digits, bytes) = leading_number(rest)?;
                fields = fields.with_length(bytes);
                rest.split_at_checked(digits)?
            } else {
                rest.split_at_checked(hole.to - hole.from)?
            };
            if !hole.is_length && !head::is_text(value) {
                return None;
            }
            rest = tail;
        }
        rest = rest.strip_prefix(&self.buffer[from..self.len])?;
        self.pace.hit();
        Some((fields, input.len() - rest.len()))
    }
}
