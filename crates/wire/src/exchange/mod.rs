//! One request's answer, from the parts of its response and their times to its outcome.
//!
//! [`Exchange`] is told what arrived and when; it holds no socket and reads no clock. One belongs
//! to each request in flight and is used again for the next: after [`Exchange::new`] it allocates
//! only to save text and to word a failure.
//!
//! ```
//! use ridgeline_clock::{Arrival, Nanos};
//! use ridgeline_wire::carry::{Carry, CarryPool};
//! use ridgeline_wire::exchange::{Asked, Exchange, ExchangeLimits, Progress};
//! use ridgeline_wire::http1::ResponseDecoder;
//! use ridgeline_wire::openai::EndpointType;
//!
//! let (mut carry, mut pool) = (Carry::new(512), CarryPool::new(1 << 20));
//! let mut http = ResponseDecoder::new(256 << 10);
//! let mut exchange = Exchange::new(&ExchangeLimits::default());
//! exchange.begin(Asked { endpoint: EndpointType::Chat, streaming: true, save_text: true });
//! http.start();
//! let mut progress = Progress::More;
//! for (at, bytes) in [
//!     (5, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 66\r\n\r\n"),
//!     (9, "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"}}]}\n\n"),
//!     (9, "data: [DONE]\r\n\r\n\n\n"),
//! ] {
//!     let arrival = Arrival::reaped(Nanos::from_millis(at));
//!     progress = exchange.received(&mut http, &mut carry, &mut pool, bytes.as_bytes(), arrival, &mut ());
//! }
//! assert_eq!(progress, Progress::Done { reusable: true });
//! assert_eq!(exchange.answer().failure, None);
//! assert_eq!(exchange.answer().first_token, Some(Nanos::from_millis(9)));
//! assert_eq!(exchange.take_saved().map(|saved| saved.text).as_deref(), Some("Hi"));
//! ```

mod answer;
mod body;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::mem;

use ridgeline_clock::{Arrival, Nanos};

pub use answer::{
    Answer, ContentEvent, ErrorKind, Failure, FinishReason, Observer, Saved, ToolCall, UnknownKind,
    Usage,
};

use crate::carry::{Carry, CarryPool};
use crate::http1::{Ended, Head, HttpError, HttpErrorKind, Part, ResponseDecoder};
use crate::openai::{self, Chunk, EndpointType, Match, Slot, Template};
use crate::sse::{Event, EventName, Scanner, SseError};
use body::{Body, Guess, Guessed};

/// How much an exchange may keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeLimits {
    /// Data of one event, bytes.
    pub event_bytes_max: usize,
    /// What one event has around its text, bytes; longer ones are parsed in full each time. The
    /// only buffer of an exchange, allocated once.
    pub template_bytes_max: usize,
    /// A body that is one JSON document, bytes.
    pub body_bytes_max: usize,
}

impl Default for ExchangeLimits {
    /// Events of 16 MiB, templates of 1 KiB, JSON bodies of 64 MiB.
    fn default() -> Self {
        Self {
            event_bytes_max: 16 << 20,
            template_bytes_max: 1 << 10,
            body_bytes_max: 64 << 20,
        }
    }
}

/// What was asked of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Which API.
    pub endpoint: EndpointType,
    /// Whether an event stream was asked for.
    pub streaming: bool,
    /// Whether to keep text, reasoning and tool calls.
    pub save_text: bool,
}

/// Whether the answer is final.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Progress {
    /// More bytes are to come.
    More,
    /// The outcome is final.
    Done {
        /// Whether the connection can carry another request; if not it must be closed.
        reusable: bool,
    },
}

/// The answer to one request, as it comes in.
#[derive(Debug)]
pub struct Exchange {
    asked: Asked,
    body_bytes_max: usize,
    event_bytes_max: usize,
    body: Body,
    scanner: Scanner,
    template: Template,
    /// The stream said that it ended.
    stream_done: bool,
    /// Events with data so far; the number of one in a message.
    events: u64,
    /// `completion_tokens` of the last usage.
    counted_tokens: u32,
    /// A content event came without usage, so that differences of usage no longer are its tokens.
    uncounted: bool,
    finished: bool,
    answer: Answer,
    saved: Option<Box<Saved>>,
}

impl Exchange {
    /// An exchange that waits for [`Exchange::begin`].
    #[must_use]
    pub fn new(limits: &ExchangeLimits) -> Self {
        Self {
            asked: Asked {
                endpoint: EndpointType::Chat,
                streaming: true,
                save_text: false,
            },
            body_bytes_max: limits.body_bytes_max,
            event_bytes_max: limits.event_bytes_max,
            body: Body::None,
            scanner: Scanner::new(limits.event_bytes_max),
            template: Template::new(limits.template_bytes_max),
            stream_done: false,
            events: 0,
            counted_tokens: 0,
            uncounted: false,
            finished: false,
            answer: Answer::default(),
            saved: None,
        }
    }

    /// A request is about to be sent. Forgets the answer before.
    pub fn begin(&mut self, asked: Asked) {
        self.asked = asked;
        self.body = Body::None;
        self.scanner.reset();
        self.template.reset();
        self.stream_done = false;
        self.events = 0;
        self.counted_tokens = 0;
        self.uncounted = false;
        self.finished = false;
        self.answer = Answer::default();
        self.saved = asked.save_text.then(Box::default);
    }

    /// Bytes came on the connection, whose `http` was told [`ResponseDecoder::start`] when the
    /// request was sent. `carry` belongs to the connection and is empty when the answer is final.
    pub fn received<O: Observer>(
        &mut self,
        http: &mut ResponseDecoder,
        carry: &mut Carry,
        pool: &mut CarryPool,
        bytes: &[u8],
        arrival: Arrival,
        observer: &mut O,
    ) -> Progress {
        if self.finished {
            return Progress::Done { reusable: false };
        }
        if self.answer.first_byte.is_none() && !bytes.is_empty() {
            self.answer.first_byte = Some(arrival.at);
        }
        let mut input = bytes;
        // The latest piece of a JSON body, copied only if another one or another read follows.
        let mut piece: &[u8] = &[];
        let progress = loop {
            match http.next(&mut input, carry, pool) {
                Ok(Some(Part::Data(data))) => {
                    if let Body::Stream(_) = self.body {
                        self.stream(data, carry, pool, arrival, observer);
                    } else {
                        self.keep(mem::take(&mut piece), carry, pool);
                        piece = self.other_data(data, carry, pool, arrival, observer);
                    }
                }
                Ok(None) => {
                    self.keep(piece, carry, pool);
                    break Progress::More;
                }
                Ok(Some(Part::Head(head))) => self.head(head),
                Ok(Some(Part::End)) => {
                    self.complete(piece, carry, pool, arrival, observer);
                    let reusable = http.reusable() && input.is_empty();
                    break Progress::Done { reusable };
                }
                Err(error) => {
                    self.http_error(error);
                    break Progress::Done { reusable: false };
                }
            }
            if let Body::Lost = self.body {
                break Progress::Done { reusable: false };
            }
        };
        self.answer.received_bytes += (bytes.len() - input.len()) as u64;
        if let Progress::Done { .. } = progress {
            self.finish(carry, pool, arrival.at);
        }
        progress
    }

    /// The connection ended, by FIN or else by RST. The outcome is final after this.
    pub fn ended<O: Observer>(
        &mut self,
        http: &mut ResponseDecoder,
        carry: &mut Carry,
        pool: &mut CarryPool,
        fin: bool,
        arrival: Arrival,
        observer: &mut O,
    ) {
        if self.finished {
            return;
        }
        let how = if fin {
            "the server closed the connection"
        } else {
            "the connection was reset"
        };
        match http.finish(fin) {
            Ended::Complete if self.answer.http_status.is_some() => {
                self.complete(&[], carry, pool, arrival, observer);
            }
            Ended::Complete | Ended::BeforeFirstByte => {
                self.latch(ErrorKind::Reset, || {
                    format!("{how} before any byte of the response")
                });
            }
            Ended::Truncated => {
                if let Body::Refused = self.body {
                    self.explain(carry.as_slice());
                }
                let part = if self.answer.http_status.is_some() {
                    "body"
                } else {
                    "head"
                };
                self.latch(ErrorKind::Truncated, || {
                    format!("{how} inside the response's {part}")
                });
            }
        }
        self.finish(carry, pool, arrival.at);
    }

    /// Something outside the response ended the request: a deadline, a failed connect or send.
    /// The first failure stays. The outcome is final after this; the connection's carry is to be
    /// cleared when the connection is closed.
    pub fn fail(&mut self, kind: ErrorKind, message: impl Into<Cow<'static, str>>, at: Nanos) {
        if self.finished {
            return;
        }
        self.latch(kind, || message);
        self.finished = true;
        self.answer.done = Some(at);
    }

    /// The answer so far.
    #[must_use]
    pub fn answer(&self) -> &Answer {
        &self.answer
    }

    /// What was saved, once; `None` unless [`Asked::save_text`] was set.
    pub fn take_saved(&mut self) -> Option<Box<Saved>> {
        self.saved.take()
    }

    fn finish(&mut self, carry: &mut Carry, pool: &mut CarryPool, at: Nanos) {
        carry.clear(pool);
        self.finished = true;
        self.answer.done = Some(at);
    }

    /// Keeps the first failure.
    #[cold]
    fn latch<M: Into<Cow<'static, str>>>(&mut self, kind: ErrorKind, message: impl FnOnce() -> M) {
        if self.answer.failure.is_none() {
            self.answer.failure = Some(Failure {
                kind,
                message: message().into(),
            });
        }
    }

    #[cold]
    fn http_error(&mut self, error: HttpError) {
        self.answer.http_status = self.answer.http_status.or(error.status);
        let kind = match error.kind {
            HttpErrorKind::Malformed(_) => ErrorKind::HttpProtocol,
            HttpErrorKind::Oversize => ErrorKind::Oversize,
        };
        self.latch(kind, || error.to_string());
    }

    fn head(&mut self, head: Head) {
        self.answer.http_status = Some(head.status);
        self.body = Body::of(head);
        self.answer.streamed = matches!(self.body, Body::Stream(_));
        if let Body::Refused = self.body {
            // Its body may say more: see `explain`.
            self.latch(ErrorKind::HttpStatus, || {
                format!("HTTP status {}", head.status)
            });
        }
    }

    /// Body bytes of anything but an event stream. What it returns is to be kept unless the body
    /// ends with it.
    fn other_data<'a, O: Observer>(
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
    fn keep(&mut self, piece: &[u8], carry: &mut Carry, pool: &mut CarryPool) {
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
    fn lose<M: Into<Cow<'static, str>>>(&mut self, message: impl FnOnce() -> M) {
        self.latch(ErrorKind::Oversize, message);
        self.body = Body::Lost;
    }

    /// Body bytes of an event stream.
    #[inline]
    fn stream<O: Observer>(
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

    /// An event that differs from a parsed one in its text alone.
    #[inline]
    fn familiar<O: Observer>(&mut self, found: Match<'_>, arrival: Arrival, observer: &mut O) {
        self.events += 1;
        self.uncounted = true;
        if let Some(saved) = &mut self.saved {
            match found.slot {
                Slot::Text => found.text.push_onto(&mut saved.text),
                Slot::Reasoning => found.text.push_onto(&mut saved.reasoning),
            }
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
    fn in_band(&mut self, data: &[u8]) {
        self.latch(ErrorKind::InBand, || {
            openai::error_message(data).unwrap_or_else(|| openai::excerpt(data))
        });
        self.body = Body::Drained;
    }

    /// What one object says: an event, or a whole body.
    fn chunk<O: Observer>(&mut self, chunk: &Chunk<'_>, arrival: Arrival, observer: &mut O) {
        self.answer.finish_reason = chunk.finish_reason().or(self.answer.finish_reason);
        let mut tokens = None;
        if let Some(usage) = chunk.usage() {
            self.answer.usage = Some(usage);
            if let Some(total) = usage.output_tokens {
                tokens = total
                    .checked_sub(self.counted_tokens)
                    .filter(|_| !self.uncounted);
                self.counted_tokens = total;
            }
        }
        if let Some(saved) = &mut self.saved {
            // Also of an event that generates nothing: a tool call may begin without a word.
            chunk.save(&mut saved.text, &mut saved.reasoning, &mut saved.tool_calls);
        }
        let output = chunk.has_text() || chunk.has_tool_call();
        if !output && !chunk.has_reasoning() {
            return;
        }
        self.uncounted |= tokens.is_none();
        self.content(tokens, output, arrival, observer);
    }

    #[inline]
    fn content<O: Observer>(
        &mut self,
        tokens: Option<u32>,
        output: bool,
        arrival: Arrival,
        observer: &mut O,
    ) {
        let answer = &mut self.answer;
        if answer.content_events == 0 {
            answer.first_token = Some(arrival.at);
            answer.first_event_tokens = tokens;
        }
        if output && answer.first_output.is_none() {
            answer.first_output = Some(arrival.at);
        }
        answer.last_token = Some(arrival.at);
        answer.content_events = answer.content_events.saturating_add(1);
        observer.content(ContentEvent { arrival, tokens });
    }

    /// The response is complete by its framing; `piece` is the end of a body that is kept.
    fn complete<O: Observer>(
        &mut self,
        piece: &[u8],
        carry: &mut Carry,
        pool: &mut CarryPool,
        arrival: Arrival,
        observer: &mut O,
    ) {
        let whole = if carry.is_empty() {
            piece
        } else {
            self.keep(piece, carry, pool);
            carry.as_slice()
        };
        match self.body {
            Body::Refused => self.explain(whole),
            Body::Json => self.json_body(whole, arrival, observer),
            Body::Stream(Guess::Unsure) if self.events == 0 => self.not_an_answer(),
            Body::Unknown(_) if !self.asked.streaming => self.json_body(&[], arrival, observer),
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
    fn explain(&mut self, start: &[u8]) {
        let said = openai::error_message(start).unwrap_or_else(|| openai::excerpt(start));
        if let (Some(failure), false) = (&mut self.answer.failure, said.is_empty()) {
            failure.message = format!("{}: {said}", failure.message).into();
        }
    }

    fn json_body<O: Observer>(&mut self, body: &[u8], arrival: Arrival, observer: &mut O) {
        if body.is_empty() && self.asked.streaming {
            return self.latch(ErrorKind::Truncated, || "the response has no body");
        }
        match Chunk::parse(self.asked.endpoint, body) {
            Ok(chunk) if chunk.is_error() => self.in_band(body),
            Ok(chunk) => self.chunk(&chunk, arrival, observer),
            Err(error) => self.latch(ErrorKind::Json, || {
                let start = openai::excerpt(body);
                format!("the body is not JSON: {error}; it is: {start}")
            }),
        }
    }
}
