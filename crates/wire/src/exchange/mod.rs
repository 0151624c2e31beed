//! One request's answer, from the parts of its response and their times to its outcome.
//!
//! [`Exchange`] is told what arrived and when; it holds no socket and reads no clock. One belongs
//! to each request in flight and is used again for the next: after [`Exchange::new`] it allocates
//! only to save text and to word a failure.
//!
//! ```
//! use ridgeline_clock::{Arrival, Nanos};
//! use ridgeline_wire::carry::Carry;
//! use ridgeline_wire::exchange::{Asked, Exchange, ExchangeLimits, Progress, Shared};
//! use ridgeline_wire::http1::ResponseDecoder;
//! use ridgeline_wire::openai::EndpointType;
//!
//! let (mut carry, mut shared) = (Carry::new(512), Shared::new(1 << 20, 4 << 10));
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
//!     progress = exchange.received(&mut http, &mut carry, &mut shared, bytes.as_bytes(), arrival, &mut ());
//! }
//! assert_eq!(progress, Progress::Done { reusable: true });
//! assert_eq!(exchange.answer().failure, None);
//! assert_eq!(exchange.answer().first_token, Some(Nanos::from_millis(9)));
//! assert_eq!(exchange.take_saved().map(|saved| saved.text).as_deref(), Some("Hi"));
//! ```

mod answer;
mod body;
mod events;
mod parts;
mod shared;
#[cfg(test)]
mod tests;
mod whole;

use std::borrow::Cow;
use std::mem;

use ridgeline_clock::{Arrival, Nanos};

pub use answer::{
    Answer, ContentEvent, ErrorKind, Failure, FinishReason, Observer, Saved, ToolCall, UnknownKind,
    Usage,
};

pub use shared::Shared;

use crate::carry::{Carry, CarryPool};
use crate::http1::{Ended, Head, HttpError, HttpErrorKind, Part, ResponseDecoder};
use crate::openai::{EndpointType, Template};
use crate::sse::Scanner;
use body::Body;

/// How much an exchange may keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExchangeLimits {
    /// Data of one event, bytes.
    pub event_bytes_max: usize,
    /// What one event has around its text, bytes; longer ones are parsed in full each time. The
    /// only buffer of an exchange, as long as the longest event that it kept.
    pub template_bytes_max: usize,
    /// A body that is one JSON document, bytes; and what is saved of a stream, give or take a read.
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
    /// request was sent. `carry` belongs to the connection and is empty when the answer is final;
    /// `shared` to the thread.
    pub fn received<O: Observer>(
        &mut self,
        http: &mut ResponseDecoder,
        carry: &mut Carry,
        shared: &mut Shared,
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
            if let Body::Stream(_) = self.body {
                self.familiar_chunks(http, &mut input, arrival, observer);
            }
            let Shared { pool, head, .. } = &mut *shared;
            match http.next_familiar(head, &mut input, carry, pool) {
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
                    self.complete(piece, carry, shared, arrival, observer);
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
        let progress = self.bound(progress);
        self.answer.received_bytes += (bytes.len() - input.len()) as u64;
        if let Progress::Done { .. } = progress {
            self.finish(carry, &mut shared.pool, arrival.at);
        }
        progress
    }

    /// A stream without end must not fill the memory with what is saved of it.
    fn bound(&mut self, progress: Progress) -> Progress {
        let saved = self.saved.as_ref().map_or(0, |saved| saved.bytes());
        if saved <= self.body_bytes_max || progress != Progress::More {
            return progress;
        }
        self.lose(|| "the text to be saved is beyond its limit");
        Progress::Done { reusable: false }
    }

    /// The connection ended, by FIN or else by RST. The outcome is final after this.
    pub fn ended<O: Observer>(
        &mut self,
        http: &mut ResponseDecoder,
        carry: &mut Carry,
        shared: &mut Shared,
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
                self.complete(&[], carry, shared, arrival, observer);
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
        self.finish(carry, &mut shared.pool, arrival.at);
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
}
