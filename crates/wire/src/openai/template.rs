//! The exact fast path: an event that is known to differ from a parsed one only in its text.
//!
//! After a full parse of an event that holds one string of text or reasoning for choice 0 and
//! nothing else that counts, the bytes before and after the inside of that string are kept. A
//! later event that has the same bytes before and after a valid JSON string means the same but for
//! the string: the JSON around it is the same, and neither a line nor the document can end inside
//! a valid string. So nothing is parsed, and nothing is guessed.

use super::chunk::Slot;
use super::text::{Text, string_end};

/// The event that later ones are compared with. Its buffer grows to the longest event that it kept.
#[derive(Debug)]
pub struct Template {
    /// The bytes before the text, its opening quote among them; then those after it, its closing
    /// quote first. INVARIANT: `before <= before + after <= buffer.len()`.
    buffer: Vec<u8>,
    bytes_max: usize,
    /// 0: there is no template.
    before: usize,
    after: usize,
    slot: Slot,
}

/// An event that the template knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match<'a> {
    /// The text that it carries; not empty.
    pub text: Text<'a>,
    /// What the text is.
    pub slot: Slot,
    /// The bytes of the whole event, its blank line among them.
    pub bytes: usize,
}

impl Template {
    /// Keeps events whose bytes around the text are at most `bytes_max`.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        Self {
            buffer: Vec::new(),
            bytes_max,
            before: 0,
            after: 0,
            slot: Slot::Text,
        }
    }

    /// Forgets the event.
    pub fn reset(&mut self) {
        self.before = 0;
    }

    /// Takes an event. `event`: its bytes on the wire from the end of the event before it to its
    /// own end; `data`: what was parsed of it; `text`: the string in `data` that may vary.
    ///
    /// Kept only if the event is `data:`, an optional space and `data` on one line, then the end
    /// of that line and more lines up to the blank one, all ended by LF or CRLF. What else an
    /// event may be (a byte order mark, several data lines, lone CRs) is left to the full path.
    pub fn learn(&mut self, event: &[u8], data: &[u8], text: Text<'_>, slot: Slot) {
        self.before = 0;
        let Some(value) = event.strip_prefix(b"data:") else {
            return;
        };
        let start = event.len() - value.strip_prefix(b" ").unwrap_or(value).len();
        // The text lies in the data, which lies in the event.
        let inside = text
            .raw()
            .as_ptr()
            .addr()
            .wrapping_sub(data.as_ptr().addr());
        let (from, to) = (start + inside, start + inside + text.raw().len());
        let same_line = event.get(start..start + data.len()) == Some(data)
            && memchr::memchr2(b'\n', b'\r', data).is_none();
        let line_ends = matches!(event.get(start + data.len()..), Some([b'\n' | b'\r', ..]));
        let in_data = inside < data.len() && event.get(from..to) == Some(text.raw());
        if !same_line || !line_ends || !in_data || event.last() != Some(&b'\n') {
            return;
        }
        let (head, tail) = (&event[..from], &event[to..]);
        let bytes = head.len() + tail.len();
        if bytes > self.bytes_max {
            return;
        }
        self.buffer.clear();
        // Exactly: there is one for each of very many streams.
        self.buffer.reserve_exact(bytes);
        self.buffer.extend_from_slice(head);
        self.buffer.extend_from_slice(tail);
        (self.before, self.after, self.slot) = (head.len(), tail.len(), slot);
    }

    /// What the text of events that match is.
    #[must_use]
    pub const fn slot(&self) -> Slot {
        self.slot
    }

    /// The event at the head of `input`, if it is whole and the template knows it.
    ///
    /// `input` must begin where an event may begin: no line and no part of an event before it is
    /// open. An event without text is left to the full path.
    #[inline]
    #[must_use]
    pub fn matches<'a>(&self, input: &'a [u8]) -> Option<Match<'a>> {
        let (head, rest) = input.split_at_checked(self.before)?;
        if self.before == 0 || head != &self.buffer[..self.before] {
            return None;
        }
        let end = string_end(rest)?;
        let (text, tail) = rest.split_at_checked(end.len)?;
        let after = &self.buffer[self.before..self.before + self.after];
        if end.len == 0 || tail.get(..self.after)? != after {
            return None;
        }
        let bytes = self.before + end.len + self.after;
        Some(Match {
            text: Text::new(text, end.escaped),
            slot: self.slot,
            bytes,
        })
    }
}
