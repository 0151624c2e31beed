//! Bodies that are not streams, and what is found at the end of any.

use std::borrow::Cow;

use ridgeline_clock::Arrival;

use super::body::{self, Body, Guess, Guessed};
use super::events::Generated;
use super::{ErrorKind, Exchange, Observer, Shared};
use crate::carry::{Carry, CarryPool};
use crate::openai::{self, Chunk, FamiliarBody};

impl Exchange {
    /// Body bytes of anything but an event stream. What it returns is to be kept unless the body
    /// ends with it.
    pub(super) fn other_data<'a, O: Observer>(
        &mut self,
        mut data: &'a [u8],
        carry: &mut Carry,
        pool: &mut CarryPool,
        arrival: Arrival,
        observer: &mut O,
    ) -> &'a [u8] {
        if let Body::Unknown(guess) = &mut self.body {
            match guess.take(data, self.asked.streaming) {
                None => return &[],
                Some(Guessed::Stream(guess, rest)) => {
                    self.body = Body::Stream(guess);
                    self.answer.streamed = true;
                    self.stream(rest, carry, pool, arrival, observer);
                    return &[];
                }
                Some(Guessed::Json(rest)) => (self.body, data) = (Body::Json, rest),
                Some(Guessed::Refused(rest)) => {
                    (self.body, data) = (Body::Refused, rest);
                    self.not_an_answer();
                }
            }
        }
        match self.body {
            Body::Json | Body::Refused => data,
            _ => &[],
        }
    }

    /// Copies a piece of a JSON body, or of an error's.
    pub(super) fn keep(&mut self, piece: &[u8], carry: &mut Carry, pool: &mut CarryPool) {
        if piece.is_empty() {
            return;
        }
        if let Body::Refused = self.body {
            // The start is enough to say what was wrong.
            let room = body::REFUSED_BYTES_MAX.saturating_sub(carry.len());
            let start = piece.get(..room).unwrap_or(piece);
            if carry.push(pool, start).is_err() {
                self.body = Body::Drained;
            }
            return;
        }
        if piece.len() > self.body_bytes_max.saturating_sub(carry.len()) {
            self.lose(|| "the JSON body is beyond its limit");
        } else if carry.push(pool, piece).is_err() {
            self.lose(|| "no carry memory is left for the JSON body");
        }
    }

    /// A limit was passed: the rest of the response is not read.
    #[cold]
    pub(super) fn lose<M: Into<Cow<'static, str>>>(&mut self, message: impl FnOnce() -> M) {
        self.latch(ErrorKind::Oversize, message);
        self.body = Body::Lost;
    }

    /// The response is complete by its framing; `piece` is the end of a body that is kept.
    pub(super) fn complete<O: Observer>(
        &mut self,
        piece: &[u8],
        carry: &mut Carry,
        shared: &mut Shared,
        arrival: Arrival,
        observer: &mut O,
    ) {
        let Shared {
            pool,
            body: familiar,
            ..
        } = shared;
        let whole = if carry.is_empty() {
            piece
        } else {
            self.keep(piece, carry, pool);
            carry.as_slice()
        };
        match self.body {
            Body::Refused => self.explain(whole),
            Body::Json => self.json_body(whole, familiar, arrival, observer),
            Body::Stream(Guess::Unsure) if self.events == 0 => self.not_an_answer(),
            Body::Unknown(_) if !self.asked.streaming => {
                self.json_body(&[], familiar, arrival, observer);
            }
            _ => {}
        }
        if self.answer.failure.is_some() {
            return;
        }
        let said_end = self.stream_done || self.answer.finish_reason.is_some();
        let output_tokens = self
            .answer
            .usage
            .and_then(|usage| usage.output_tokens)
            .unwrap_or(0);
        if matches!(self.body, Body::None | Body::Unknown(_)) {
            self.latch(ErrorKind::Truncated, || "the response has no body");
        } else if self.answer.streamed && !said_end {
            self.latch(
                ErrorKind::Truncated,
                || "the stream ended without [DONE] and without a finish_reason",
            );
        } else if self.answer.content_events == 0 && output_tokens == 0 {
            self.latch(
                ErrorKind::Empty,
                || "the answer is complete, but nothing was generated",
            );
        }
    }

    /// The body is neither JSON nor events.
    #[cold]
    fn not_an_answer(&mut self) {
        if self.asked.streaming {
            self.latch(ErrorKind::SseProtocol, || "the body is not an event stream");
        } else {
            self.latch(ErrorKind::Json, || "the body is not JSON");
        }
    }

    /// The start of a body that answers nothing may say what was wrong.
    #[cold]
    pub(super) fn explain(&mut self, start: &[u8]) {
        let said = openai::error_message(start).unwrap_or_else(|| openai::excerpt(start));
        if let (Some(failure), false) = (&mut self.answer.failure, said.is_empty()) {
            failure.message = format!("{}: {said}", failure.message).into();
        }
    }

    fn json_body<O: Observer>(
        &mut self,
        body: &[u8],
        familiar: &mut FamiliarBody,
        arrival: Arrival,
        observer: &mut O,
    ) {
        let endpoint = self.asked.endpoint;
        if let Some(said) = familiar.matches(endpoint, body) {
            if let Some(saved) = &mut self.saved {
                said.text.push_onto(&mut saved.text);
            }
            let generated = (!said.text.is_empty()).then_some(Generated::Output);
            return self.said(said.finish_reason, said.usage, generated, arrival, observer);
        }
        if body.is_empty() && self.asked.streaming {
            return self.latch(ErrorKind::Truncated, || "the response has no body");
        }
        match Chunk::parse(endpoint, body) {
            Ok(chunk) if chunk.is_error() => self.in_band(body),
            Ok(chunk) => {
                self.chunk(&chunk, arrival, observer);
                familiar.learn(endpoint, body, &chunk);
            }
            Err(error) => self.latch(ErrorKind::Json, || {
                let start = openai::excerpt(body);
                format!("the body is not JSON: {error}; it is: {start}")
            }),
        }
    }
}
