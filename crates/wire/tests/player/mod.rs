//! Plays a case into `http1` and `exchange` on virtual time.

use ridgeline_clock::{Arrival, Nanos};
use ridgeline_wire::carry::Carry;
use ridgeline_wire::exchange::{
    Answer, Asked, ContentEvent, ErrorKind, Exchange, ExchangeLimits, Observer, Progress, Saved,
    Shared, ToolCall,
};
use ridgeline_wire::http1::ResponseDecoder;
use ridgeline_wire::openai::EndpointType;

use crate::replay::{Case, Json, Op, Record};

/// How the writes of a script become reads.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Cut {
    /// Each write is a read.
    Writes,
    /// Each byte is a read, at the time of its write.
    Bytes,
    /// The byte with this number, counted over all scripts, begins a read of its own.
    At(usize),
    /// Writes without a sleep between them are one read, at the time of the last.
    Joined,
}

/// What came of a case.
pub(crate) struct Played {
    pub(crate) records: Vec<Record>,
    pub(crate) connections: usize,
}

/// What the connection does next, and when.
enum Next {
    Read(Vec<u8>, Nanos),
    Closed {
        fin: bool,
        at: Nanos,
    },
    /// Nothing, until the deadline.
    Silence,
}

/// The server's side: scripts, and how far they are played.
struct Server<'a> {
    case: &'a Case,
    script: usize,
    /// The operations of the present script that are still to come.
    ops: std::vec::IntoIter<Op>,
    now: Nanos,
    cut: Cut,
    sent_bytes: usize,
    /// The rest of a write that was cut, and what else comes at the same time.
    pending: Vec<u8>,
    /// The pause after it.
    gap: Nanos,
}

impl Server<'_> {
    /// A request came, on the connection of the one before or on a new one.
    fn request(&mut self, same_connection: bool) {
        if same_connection && self.ops.as_slice().first() == Some(&Op::WaitRequest) {
            self.ops.next();
            return;
        }
        let scripts = &self.case.scripts;
        self.ops = scripts[self.script % scripts.len()].clone().into_iter();
        self.script += 1;
    }

    /// The connection is gone: the rest of a write that was cut goes nowhere.
    fn forget(&mut self) {
        if !std::mem::take(&mut self.pending).is_empty() {
            self.now += self.gap;
        }
    }

    fn next(&mut self) -> Next {
        if !self.pending.is_empty() {
            return self.read_pending();
        }
        while self.ops.as_slice().first() != Some(&Op::WaitRequest) {
            match self.ops.next() {
                Some(Op::Send { bytes, gap_ms }) => {
                    self.pending = bytes;
                    self.gap = Nanos::from_millis(gap_ms);
                    self.join();
                    return self.read_pending();
                }
                Some(Op::Sleep { ms }) => self.now += Nanos::from_millis(ms),
                Some(Op::Close { fin }) => return Next::Closed { fin, at: self.now },
                Some(Op::WaitRequest) | None => break,
            }
        }
        Next::Silence
    }

    /// Takes the writes that follow without a sleep, when they are to be joined.
    fn join(&mut self) {
        while let (Cut::Joined, Some(Op::Send { bytes, gap_ms })) =
            (self.cut, self.ops.as_slice().first())
        {
            self.pending.extend_from_slice(bytes);
            self.now += self.gap;
            self.gap = Nanos::from_millis(*gap_ms);
            self.ops.next();
        }
    }

    fn read_pending(&mut self) -> Next {
        let len = match self.cut {
            Cut::Bytes => 1,
            Cut::At(at) if at > self.sent_bytes => (at - self.sent_bytes).min(self.pending.len()),
            _ => self.pending.len(),
        };
        let rest = self.pending.split_off(len);
        let read = std::mem::replace(&mut self.pending, rest);
        self.sent_bytes += len;
        let at = self.now;
        if self.pending.is_empty() {
            self.now += self.gap;
        }
        Next::Read(read, at)
    }
}

#[derive(Default)]
struct Seen(Vec<ContentEvent>);

impl Observer for Seen {
    fn content(&mut self, event: ContentEvent) {
        self.0.push(event);
    }
}

/// Plays every request of the case.
pub(crate) fn play(case: &Case, cut: Cut) -> Played {
    let mut server = Server {
        case,
        script: 0,
        ops: Vec::new().into_iter(),
        now: Nanos::from_millis(10),
        cut,
        sent_bytes: 0,
        pending: Vec::new(),
        gap: Nanos::ZERO,
    };
    let mut client = Client {
        http: ResponseDecoder::new(256 << 10),
        carry: Carry::new(512),
        shared: Shared::new(64 << 20, 4 << 10),
        exchange: Exchange::new(&ExchangeLimits::default()),
        open: false,
    };
    let mut played = Played {
        records: Vec::new(),
        connections: 0,
    };
    for _ in 0..case.requests {
        played.connections += usize::from(!client.open);
        played.records.push(client.request(case, &mut server));
    }
    played
}

/// One connection at a time, and the exchange on it.
struct Client {
    http: ResponseDecoder,
    carry: Carry,
    shared: Shared,
    exchange: Exchange,
    open: bool,
}

impl Client {
    fn request(&mut self, case: &Case, server: &mut Server<'_>) -> Record {
        server.request(self.open);
        if !self.open {
            self.http = ResponseDecoder::new(256 << 10);
            server.forget();
        }
        let submitted = server.now;
        let endpoint = if case.chat {
            EndpointType::Chat
        } else {
            EndpointType::Completions
        };
        self.exchange.begin(Asked {
            endpoint,
            streaming: case.streaming,
            save_text: true,
        });
        self.http.start();
        let mut seen = Seen::default();
        self.open = self.answer(
            server,
            submitted + Nanos::from_millis(case.timeout_ms),
            &mut seen,
        );
        assert!(
            self.carry.is_empty(),
            "the carry is free when the outcome is final"
        );
        check_observed(self.exchange.answer(), &seen.0);
        let saved = self.exchange.take_saved().expect("text was to be saved");
        record(self.exchange.answer(), *saved, submitted)
    }

    /// Takes what comes until the outcome is final; whether the connection can be used again.
    fn answer(&mut self, server: &mut Server<'_>, deadline: Nanos, seen: &mut Seen) -> bool {
        let Self {
            http,
            carry,
            shared,
            exchange,
            ..
        } = self;
        loop {
            match server.next() {
                Next::Read(bytes, at) if at < deadline => {
                    let arrival = Arrival::reaped(at);
                    let progress = exchange.received(http, carry, shared, &bytes, arrival, seen);
                    if let Progress::Done { reusable } = progress {
                        // What was sent after the response would come next.
                        return reusable && server.pending.is_empty();
                    }
                }
                Next::Closed { fin, at } if at < deadline => {
                    exchange.ended(http, carry, shared, fin, Arrival::reaped(at), seen);
                    return false;
                }
                _ => {
                    exchange.fail(ErrorKind::Timeout, "no complete response in time", deadline);
                    carry.clear(&mut shared.pool);
                    return false;
                }
            }
        }
    }
}

/// The calls of the observer and the answer tell the same.
fn check_observed(answer: &Answer, seen: &[ContentEvent]) {
    assert_eq!(answer.content_events as usize, seen.len());
    assert_eq!(
        answer.first_token,
        seen.first().map(|event| event.arrival.at)
    );
    assert_eq!(answer.last_token, seen.last().map(|event| event.arrival.at));
    assert_eq!(
        answer.first_event_tokens,
        seen.first().and_then(|event| event.tokens)
    );
}

fn tool_calls(calls: Vec<ToolCall>) -> Json {
    if calls.is_empty() {
        return Json::Null;
    }
    let object = |call: ToolCall| {
        Json::object([
            ("id", Json::text(call.id)),
            ("name", Json::text(call.name)),
            ("arguments", Json::text(call.arguments)),
        ])
    };
    Json::List(calls.into_iter().map(object).collect())
}

fn record(answer: &Answer, saved: Saved, submitted: Nanos) -> Record {
    let text = |text: String| {
        if text.is_empty() {
            Json::Null
        } else {
            Json::text(text)
        }
    };
    let count = |count: Option<u32>| count.map_or(Json::Null, Json::number);
    let status = answer.http_status.map_or(Json::Null, Json::number);
    let error = answer.failure.as_ref().map(|failure| {
        Json::object([
            ("kind", Json::text(failure.kind.as_str())),
            ("message", Json::text(failure.message.clone())),
            ("http_status", status.clone()),
        ])
    });
    let usage = answer.usage.unwrap_or_default();
    let fields = Json::object([
        (
            "outcome",
            Json::text(if error.is_some() { "error" } else { "ok" }),
        ),
        ("error", error.unwrap_or(Json::Null)),
        ("http_status", status),
        ("text", Json::text(saved.text)),
        ("reasoning", text(saved.reasoning)),
        ("tool_calls", tool_calls(saved.tool_calls.into_vec())),
        (
            "finish_reason",
            answer
                .finish_reason
                .map_or(Json::Null, |reason| Json::text(reason.as_str())),
        ),
        ("content_events", Json::number(answer.content_events)),
        ("input_tokens", count(usage.input_tokens)),
        ("output_tokens", count(usage.output_tokens)),
        ("reasoning_tokens", count(usage.reasoning_tokens)),
        ("cached_tokens", count(usage.cached_tokens)),
    ]);
    let times = [
        answer.first_byte,
        answer.first_token,
        answer.first_output,
        answer.last_token,
        answer.done,
    ];
    let times_ns = times.map(|time| time.map(|time| time.0));
    Record {
        fields,
        submitted_ns: submitted.0,
        times_ns,
    }
}
