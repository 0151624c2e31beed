//! Event streams: from body bytes to what choice 0 generated.

use ridgeline_clock::Arrival;

use super::body::Body;
use super::{ContentEvent, ErrorKind, Exchange, FinishReason, Observer, Saved, Usage};
use crate::carry::{Carry, CarryPool};
use crate::http1::ResponseDecoder;
use crate::openai::{self, Chunk, Match, Slot};
use crate::sse::{Event, EventName, SseError};

/// What an object generated for choice 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Generated {
    /// Text or a tool call, with or without reasoning.
    Output,
    /// Nothing but reasoning.
    ReasoningAlone,
}

impl Exchange {
    /// Body bytes of an event stream.
    #[inline]
    pub(super) fn stream<O: Observer>(
        &mut self,
        mut data: &[u8],
        carry: &mut Carry,
        pool: &mut CarryPool,
        arrival: Arrival,
        observer: &mut O,
    ) {
        while !data.is_empty() {
            let boundary = self.scanner.at_boundary();
            if boundary {
                // The loop that matters.
                while let Some(found) = self.template.matches(data) {
                    if found.bytes > self.event_bytes_max {
                        break;
                    }
                    data = &data[found.bytes..];
                    self.familiar(found, arrival, observer);
                }
                if data.is_empty() {
                    return;
                }
            }
            let before = data;
            match self.scanner.next(&mut data, carry, pool) {
                Ok(Some(event)) => {
                    let raw = &before[..before.len() - data.len()];
                    self.event(event, boundary.then_some(raw), arrival, observer);
                }
                Ok(None) => return,
                Err(error) => return self.sse_error(error),
            }
            let Body::Stream(_) = self.body else { return };
        }
    }

    /// The loop that matters: HTTP chunks that are each one event which differs from a parsed one
    /// in its text alone. What they have in common is counted once for all of them.
    #[inline]
    pub(super) fn familiar_chunks<O: Observer>(
        &mut self,
        http: &ResponseDecoder,
        input: &mut &[u8],
        arrival: Arrival,
        observer: &mut O,
    ) {
        if !self.scanner.at_boundary() {
            return;
        }
        #[cfg(ridgeline_planted = "scanner")]
        self.scan_again(http, input);
        let (template, saved) = (&self.template, &mut self.saved);
        let bytes_max = self.event_bytes_max;
        let mut count = 0;
        http.take_chunks(input, |data| match template.matches(data) {
            Some(found) if found.bytes == data.len() && found.bytes <= bytes_max => {
                count += 1;
                if let Some(saved) = saved {
                    save(saved, found);
                }
                true
            }
            _ => false,
        });
        if count > 0 {
            self.events += u64::from(count);
            self.uncounted = true;
            let output = self.template.slot() == Slot::Text;
            self.stamp(count, None, output, arrival);
            observer.contents(arrival, count);
        }
    }

    /// A slowdown for the gate to find (perf/METHOD.md): the first part of a run of chunks is scanned
    /// once more than is needed, as many percent of it as the gate says.
    #[cfg(ridgeline_planted = "scanner")]
    fn scan_again(&self, http: &ResponseDecoder, input: &[u8]) {
        use std::hint::black_box;
        static PERCENT: std::sync::LazyLock<usize> = std::sync::LazyLock::new(|| {
            let said = std::env::var("RIDGELINE_PLANT_PERCENT");
            said.map_or(0, |said| said.parse().unwrap_or(0))
        });
        let share = input.len() * PERCENT.min(100) / 100;
        let mut share = black_box(&input[..share]);
        http.take_chunks(
            &mut share,
            |data| matches!(self.template.matches(data), Some(found) if found.bytes == data.len()),
        );
        black_box(share);
    }

    /// An event that differs from a parsed one in its text alone.
    #[inline]
    fn familiar<O: Observer>(&mut self, found: Match<'_>, arrival: Arrival, observer: &mut O) {
        self.events += 1;
        self.uncounted = true;
        if let Some(saved) = &mut self.saved {
            save(saved, found);
        }
        self.content(None, found.slot == Slot::Text, arrival, observer);
    }

    #[cold]
    fn sse_error(&mut self, error: SseError) {
        self.lose(|| error.to_string());
    }

    /// An event; `raw` is all of its bytes, if they lie together.
    fn event<O: Observer>(
        &mut self,
        event: Event<'_>,
        raw: Option<&[u8]>,
        arrival: Arrival,
        observer: &mut O,
    ) {
        let data = event.data;
        if data.trim_ascii().is_empty() {
            return;
        }
        self.events += 1;
        if openai::is_done(data) {
            self.stream_done = true;
            self.body = Body::Drained;
            return;
        }
        if event.name == EventName::Error {
            return self.in_band(data);
        }
        match Chunk::parse(self.asked.endpoint, data) {
            Ok(chunk) if chunk.is_error() => self.in_band(data),
            Ok(chunk) => {
                self.chunk(&chunk, arrival, observer);
                if let (Some(raw), Some((slot, text))) = (raw, chunk.sole_string()) {
                    self.template.learn(raw, data, text, slot);
                }
            }
            Err(error) => {
                let number = self.events;
                self.latch(ErrorKind::Json, || {
                    let start = openai::excerpt(data);
                    format!("event {number} is not JSON: {error}; it is: {start}")
                });
                self.body = Body::Drained;
            }
        }
    }

    #[cold]
    pub(super) fn in_band(&mut self, data: &[u8]) {
        self.latch(ErrorKind::InBand, || {
            openai::error_message(data).unwrap_or_else(|| openai::excerpt(data))
        });
        self.body = Body::Drained;
    }

    /// What one object says: an event, or a whole body.
    pub(super) fn chunk<O: Observer>(
        &mut self,
        chunk: &Chunk<'_>,
        arrival: Arrival,
        observer: &mut O,
    ) {
        if let Some(saved) = &mut self.saved {
            // Also of an event that generates nothing: a tool call may begin without a word.
            chunk.save(&mut saved.text, &mut saved.reasoning, &mut saved.tool_calls);
        }
        let generated = if chunk.has_text() || chunk.has_tool_call() {
            Some(Generated::Output)
        } else {
            chunk.has_reasoning().then_some(Generated::ReasoningAlone)
        };
        let (reason, usage) = (chunk.finish_reason(), chunk.usage());
        self.said(reason, usage, generated, arrival, observer);
    }

    /// The same, without the text.
    pub(super) fn said<O: Observer>(
        &mut self,
        finish_reason: Option<FinishReason>,
        usage: Option<Usage>,
        generated: Option<Generated>,
        arrival: Arrival,
        observer: &mut O,
    ) {
        if finish_reason.is_some() {
            self.answer.finish_reason = finish_reason;
        }
        let mut tokens = None;
        if let Some(usage) = usage {
            self.answer.usage = Some(usage);
            if let Some(total) = usage.output_tokens {
                tokens = total
                    .checked_sub(self.counted_tokens)
                    .filter(|_| !self.uncounted);
                self.counted_tokens = total;
            }
        }
        if let Some(generated) = generated {
            self.uncounted |= tokens.is_none();
            self.content(tokens, generated == Generated::Output, arrival, observer);
        }
    }

    #[inline]
    fn content<O: Observer>(
        &mut self,
        tokens: Option<u32>,
        output: bool,
        arrival: Arrival,
        observer: &mut O,
    ) {
        self.stamp(1, tokens, output, arrival);
        observer.content(ContentEvent { arrival, tokens });
    }

    /// `count` content events came, the first of `tokens` tokens.
    #[inline]
    fn stamp(&mut self, count: u32, tokens: Option<u32>, output: bool, arrival: Arrival) {
        let answer = &mut self.answer;
        if answer.content_events == 0 {
            answer.first_token = Some(arrival.at);
            answer.first_event_tokens = tokens;
        }
        if output && answer.first_output.is_none() {
            answer.first_output = Some(arrival.at);
        }
        answer.last_token = Some(arrival.at);
        answer.content_events = answer.content_events.saturating_add(count);
    }
}

/// Keeps the text of an event that was not parsed.
fn save(saved: &mut Saved, found: Match<'_>) {
    match found.slot {
        Slot::Text => found.text.push_onto(&mut saved.text),
        Slot::Reasoning => found.text.push_onto(&mut saved.reasoning),
    }
}
