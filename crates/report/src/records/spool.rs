//! The compact form of records: what the writing thread falls back to when it can't keep up.
//!
//! Little-endian throughout. The file begins with a head of 32 bytes: [`MAGIC`], the run's start
//! (u64 ns on the monotonic clock), how many bytes of `records.jsonl` come before these records (u64),
//! and the number of the worker (u64). Then entries, each the u32 length of what follows and:
//!
//! | bytes | what |
//! |---|---|
//! | 21 × 8 | index, scheduled, started, harness_delay_max, stamp_width_max, connected, secured, connect, tls, submitted, first_byte, first_token, first_output, last_token, done, input, output, reasoning and cached tokens, http_status, input tokens by a tokenizer; of the last 16 `u64::MAX` means absent |
//! | 5 × 4 | sample, shard, run_id, content_events, retries |
//! | 4 × 1 | phase, outcome, token_source, and which of the following there are ([`MESSAGE`], [`SAVED`], [`EVENTS`], [`UNCOUNTED`]) |
//! | text | finish_reason, empty when there is none |
//! | text | the error's message |
//! | 3 texts | text, reasoning, tool calls as a JSON list |
//! | u32, n × 8 | arrivals of the content events |
//! | u32, 3 × 1 | of an answer whose tokens are to be counted: its events in the window, whether it was streamed, ended in the window and met the other SLOs |
//!
//! A text is its u32 length and that many bytes of UTF-8.

use std::borrow::Cow;
use std::io::{self, Read};

use ridgeline_clock::Nanos;
use ridgeline_engine::Outcome;
use ridgeline_metrics::{Phase, Timeline, TokenSource, Uncounted};
use ridgeline_wire::exchange::ErrorKind;
use ridgeline_wire::openai::Usage;

use super::entry::{Entry, Texts};
use super::line::Origin;

/// Name and version of the format.
pub(super) const MAGIC: &[u8; 8] = b"RIDGSPL4";

/// Bytes of the head.
pub(super) const HEAD_BYTES: usize = 32;

/// An entry of more bytes is not written, and a length beyond it is damage.
pub(super) const ENTRY_BYTES_MAX: usize = 1 << 30;

const MESSAGE: u8 = 1;
const SAVED: u8 = 2;
const EVENTS: u8 = 4;
const UNCOUNTED: u8 = 8;
const ABSENT: u64 = u64::MAX;

/// What the head of a spool says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Where its records come from.
    pub(super) origin: Origin,
    /// Bytes of `records.jsonl` before the lines that are to be made of the spool.
    pub(super) lines_bytes: u64,
}

impl Head {
    pub(super) fn to_bytes(self) -> [u8; HEAD_BYTES] {
        let mut bytes = [0; HEAD_BYTES];
        bytes[..8].copy_from_slice(MAGIC);
        bytes[8..16].copy_from_slice(&self.origin.start.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.lines_bytes.to_le_bytes());
        bytes[24..].copy_from_slice(&u64::from(self.origin.worker).to_le_bytes());
        bytes
    }

    pub(super) fn from_bytes(bytes: &[u8; HEAD_BYTES]) -> Option<Self> {
        let mut take = Take(bytes.strip_prefix(MAGIC)?);
        let (start, lines_bytes) = (Nanos(take.u64()?), take.u64()?);
        let worker = u32::try_from(take.u64()?).ok()?;
        Some(Self {
            origin: Origin { start, worker },
            lines_bytes,
        })
    }
}

/// Appends an entry.
///
/// # Errors
/// When it is beyond [`ENTRY_BYTES_MAX`]: nothing is appended then, and its size told.
pub(super) fn write(out: &mut Vec<u8>, entry: &Entry<'_>) -> Result<(), usize> {
    let bytes = texts_bytes(entry);
    if bytes > ENTRY_BYTES_MAX / 2 {
        return Err(bytes);
    }
    let at = out.len();
    out.extend_from_slice(&[0; 4]);
    let mut put = Put(out);
    numbers(&mut put, entry);
    let flag = |there: bool, flag: u8| if there { flag } else { 0 };
    put.u8(match entry.phase {
        Phase::Warmup => 0,
        Phase::Measured => 1,
    });
    put.u8(match entry.outcome {
        Outcome::Ok => 0,
        Outcome::Cancelled => 1,
        Outcome::Error(kind) => 2 + kind as u8,
    });
    put.u8(match entry.token_source {
        TokenSource::None => 0,
        TokenSource::Usage => 1,
        TokenSource::Tokenizer => 2,
        TokenSource::Events => 3,
    });
    put.u8(flag(entry.message.is_some(), MESSAGE)
        | flag(entry.saved.is_some(), SAVED)
        | flag(entry.events_at.is_some(), EVENTS)
        | flag(entry.uncounted.is_some(), UNCOUNTED));
    put.text(entry.finish_reason.unwrap_or_default());
    if let Some(message) = entry.message {
        put.text(message);
    }
    if let Some(saved) = &entry.saved {
        put.text(saved.text);
        put.text(saved.reasoning);
        put.text(&saved.tool_calls);
    }
    if let Some(events_at) = &entry.events_at {
        put.length(events_at.len());
        events_at.iter().for_each(|at| put.u64(at.0));
    }
    if let Some(uncounted) = entry.uncounted {
        put.uncounted(uncounted);
    }
    let length = length_u32(out.len() - at - 4);
    out[at..at + 4].copy_from_slice(&length.to_le_bytes());
    Ok(())
}

fn texts_bytes(entry: &Entry<'_>) -> usize {
    let saved = entry.saved.as_ref().map_or(0, |saved| {
        saved.text.len() + saved.reasoning.len() + saved.tool_calls.len()
    });
    let events = entry.events_at.as_ref().map_or(0, |at| at.len() * 8);
    saved + events + entry.message.map_or(0, str::len)
}

fn numbers(put: &mut Put<'_>, entry: &Entry<'_>) {
    let Timeline {
        scheduled,
        started,
        connect,
        tls,
        submitted,
        first_byte,
        first_token,
        first_output,
        last_token,
        done,
    } = entry.timeline;
    put.u64(entry.index);
    for span in [
        scheduled,
        started,
        entry.harness_delay_max,
        entry.stamp_width_max,
    ] {
        put.u64(span.0);
    }
    for stamp in [
        entry.connected,
        entry.secured,
        connect,
        tls,
        submitted,
        first_byte,
        first_token,
        first_output,
        last_token,
        done,
    ] {
        put.u64(stamp.map_or(ABSENT, |at| at.0));
    }
    let usage = &entry.usage;
    for count in [
        usage.input_tokens,
        usage.output_tokens,
        usage.reasoning_tokens,
        usage.cached_tokens,
        entry.http_status.map(u32::from),
        entry.input_counted,
    ] {
        put.u64(count.map_or(ABSENT, u64::from));
    }
    for number in [
        entry.sample,
        entry.shard,
        entry.run_id,
        entry.content_events,
        entry.retries,
    ] {
        put.u32(number);
    }
}

/// What a spool holds next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// A whole entry.
    Entry,
    /// The start of one: the run was killed, or the file is damaged.
    Cut,
    /// Nothing.
    End,
}

/// The bytes of the next entry into `entry`.
pub(super) fn read(input: &mut impl Read, entry: &mut Vec<u8>) -> io::Result<Next> {
    entry.clear();
    match input.by_ref().take(4).read_to_end(entry)? {
        0 => return Ok(Next::End),
        4 => {}
        _ => return Ok(Next::Cut),
    }
    let length = Take(entry).u32().map_or(0, |length| length as usize);
    if length > ENTRY_BYTES_MAX {
        return Ok(Next::Cut);
    }
    entry.clear();
    // Grows as bytes come: a damaged length takes no memory.
    let read = input.by_ref().take(length as u64).read_to_end(entry)?;
    Ok(if read == length {
        Next::Entry
    } else {
        Next::Cut
    })
}

/// What the bytes of an entry say; `None` when they are damaged.
pub(super) fn decode(bytes: &[u8]) -> Option<Entry<'_>> {
    let mut take = Take(bytes);
    let index = take.u64()?;
    let (scheduled, started) = (Nanos(take.u64()?), Nanos(take.u64()?));
    let (harness_delay_max, stamp_width_max) = (Nanos(take.u64()?), Nanos(take.u64()?));
    let (connected, secured) = (take.stamp()?, take.stamp()?);
    let timeline = take.timeline(scheduled, started)?;
    let usage = Usage {
        input_tokens: take.count()?,
        output_tokens: take.count()?,
        reasoning_tokens: take.count()?,
        cached_tokens: take.count()?,
    };
    let http_status = take.count()?.and_then(|status| u16::try_from(status).ok());
    let input_counted = take.count()?;
    let (sample, shard, run_id) = (take.u32()?, take.u32()?, take.u32()?);
    let (content_events, retries) = (take.u32()?, take.u32()?);
    let phase = match take.u8()? {
        0 => Phase::Warmup,
        _ => Phase::Measured,
    };
    let outcome = match take.u8()? {
        0 => Outcome::Ok,
        1 => Outcome::Cancelled,
        kind => Outcome::Error(*ErrorKind::ALL.get(usize::from(kind - 2))?),
    };
    let token_source = match take.u8()? {
        0 => TokenSource::None,
        1 => TokenSource::Usage,
        2 => TokenSource::Tokenizer,
        _ => TokenSource::Events,
    };
    let flags = take.u8()?;
    let finish_reason = Some(take.text()?).filter(|reason| !reason.is_empty());
    let message = take.flagged(flags & MESSAGE, Take::text)?;
    let saved = take.flagged(flags & SAVED, Take::texts)?;
    let events_at = take.flagged(flags & EVENTS, Take::stamps)?;
    let uncounted = take.flagged(flags & UNCOUNTED, Take::uncounted)?;
    take.0.is_empty().then_some(Entry {
        index,
        sample,
        phase,
        shard,
        run_id,
        outcome,
        http_status,
        finish_reason,
        timeline,
        connected,
        secured,
        usage,
        token_source,
        input_counted,
        content_events,
        retries,
        harness_delay_max,
        stamp_width_max,
        message,
        saved,
        events_at: events_at.map(Cow::Owned),
        uncounted,
    })
}

fn length_u32(length: usize) -> u32 {
    u32::try_from(length).expect("an entry is bounded")
}

struct Put<'a>(&'a mut Vec<u8>);

impl Put<'_> {
    fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    fn length(&mut self, length: usize) {
        self.u32(length_u32(length));
    }

    fn text(&mut self, text: &str) {
        self.length(text.len());
        self.0.extend_from_slice(text.as_bytes());
    }

    fn uncounted(&mut self, about: Uncounted) {
        self.u32(about.events_in_window);
        for yes in [about.streamed, about.done_in_window, about.slos_met] {
            self.u8(u8::from(yes));
        }
    }
}

struct Take<'a>(&'a [u8]);

impl<'a> Take<'a> {
    fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn u8(&mut self) -> Option<u8> {
        self.bytes(1).map(|bytes| bytes[0])
    }

    fn u32(&mut self) -> Option<u32> {
        self.bytes(4)?.try_into().ok().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.bytes(8)?.try_into().ok().map(u64::from_le_bytes)
    }

    fn optional(&mut self) -> Option<Option<u64>> {
        Some(Some(self.u64()?).filter(|&value| value != ABSENT))
    }

    fn stamp(&mut self) -> Option<Option<Nanos>> {
        Some(self.optional()?.map(Nanos))
    }

    fn count(&mut self) -> Option<Option<u32>> {
        Some(self.optional()?.and_then(|count| u32::try_from(count).ok()))
    }

    fn text(&mut self) -> Option<&'a str> {
        let length = self.u32()?;
        std::str::from_utf8(self.bytes(length as usize)?).ok()
    }

    fn timeline(&mut self, scheduled: Nanos, started: Nanos) -> Option<Timeline> {
        Some(Timeline {
            scheduled,
            started,
            connect: self.stamp()?,
            tls: self.stamp()?,
            submitted: self.stamp()?,
            first_byte: self.stamp()?,
            first_token: self.stamp()?,
            first_output: self.stamp()?,
            last_token: self.stamp()?,
            done: self.stamp()?,
        })
    }

    /// What `read` takes if `flag` is set; `None` when that is damaged.
    fn flagged<T>(&mut self, flag: u8, read: fn(&mut Self) -> Option<T>) -> Option<Option<T>> {
        if flag == 0 {
            return Some(None);
        }
        read(self).map(Some)
    }

    fn texts(&mut self) -> Option<Texts<'a>> {
        Some(Texts {
            text: self.text()?,
            reasoning: self.text()?,
            tool_calls: Cow::Borrowed(self.text()?),
        })
    }

    fn uncounted(&mut self) -> Option<Uncounted> {
        Some(Uncounted {
            events_in_window: self.u32()?,
            streamed: self.u8()? != 0,
            done_in_window: self.u8()? != 0,
            slos_met: self.u8()? != 0,
        })
    }

    fn stamps(&mut self) -> Option<Vec<Nanos>> {
        let count = self.u32()? as usize;
        let mut stamps = Self(self.bytes(count.checked_mul(8)?)?);
        (0..count).map(|_| stamps.u64().map(Nanos)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn an_entry_comes_back_as_it_went() {
        for index in 0..3 {
            let record = samples::any(index);
            let mut entry = Entry::of(&record);
            entry.finish_reason = (index == 1).then_some(samples::HOSTILE);
            let mut out = Vec::new();
            write(&mut out, &entry).unwrap();
            let (mut input, mut bytes) = (out.as_slice(), Vec::new());
            assert_eq!(read(&mut input, &mut bytes).unwrap(), Next::Entry);
            assert_eq!(decode(&bytes), Some(entry));
            assert_eq!(read(&mut input, &mut bytes).unwrap(), Next::End);
        }
    }

    #[test]
    fn every_cut_is_the_end_and_never_an_entry() {
        let mut out = Vec::new();
        write(&mut out, &Entry::of(&samples::hostile(1))).unwrap();
        for end in 1..out.len() {
            let mut bytes = Vec::new();
            let next = read(&mut &out[..end], &mut bytes).unwrap();
            assert_eq!(next, Next::Cut, "cut at {end}");
        }
        let entry = &out[4..];
        for end in 0..entry.len() {
            assert_eq!(decode(&entry[..end]), None, "cut at {end}");
        }
    }

    #[test]
    fn damage_takes_no_memory_and_no_panic() {
        let mut out = Vec::new();
        write(&mut out, &Entry::of(&samples::hostile(1))).unwrap();
        let mut bytes = Vec::new();
        assert_eq!(
            read(&mut [0xff; 64].as_slice(), &mut bytes).unwrap(),
            Next::Cut
        );
        for place in 4..out.len() {
            let mut damaged = out[4..].to_vec();
            damaged[place - 4] = 0xff;
            let _ = decode(&damaged);
        }
    }

    #[test]
    fn a_head_comes_back_and_another_version_does_not() {
        let head = Head {
            origin: samples::ORIGIN,
            lines_bytes: 9,
        };
        let mut bytes = head.to_bytes();
        assert_eq!(Head::from_bytes(&bytes), Some(head));
        bytes[7] = b'1';
        assert_eq!(Head::from_bytes(&bytes), None);
    }
}
