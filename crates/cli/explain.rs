//! The bytes of one answer, explained as they come.

use std::fmt::Write as _;

use ridgeline_clock::{Arrival, Nanos};
use ridgeline_wire::carry::Carry;
use ridgeline_wire::exchange::{Asked, Exchange, ExchangeLimits, Observer, Progress, Shared};
use ridgeline_wire::http1::{ContentKind, Part, ResponseDecoder};
use ridgeline_wire::openai::{Chunk, EndpointType, ToolCalls, Usage, is_done};
use ridgeline_wire::sse::{Event, EventName, Scanner};

/// Bytes of an answer that are explained; more of it only counts.
const EXPLAINED_BYTES_MAX: usize = 64 << 20;
const HEAD_BYTES_MAX: usize = 256 << 10;

/// Reads an answer twice: once as a run would, for the outcome, and once for the explanation.
pub(crate) struct Explainer {
    exchange: Exchange,
    judged: Reading,
    shown: Reading,
    scanner: Scanner,
    events_carry: Carry,
    endpoint: EndpointType,
    sent_at: Nanos,
    gaps: Gaps,
    raw_head: Vec<u8>,
    head_ended: bool,
    content: Option<ContentKind>,
    body: Vec<u8>,
    explained_bytes: usize,
    facts: Facts,
    done: Option<bool>,
}

/// HTTP decoding of one connection.
struct Reading {
    http: ResponseDecoder,
    carry: Carry,
    shared: Shared,
}

impl Reading {
    fn new() -> Self {
        let mut http = ResponseDecoder::new(HEAD_BYTES_MAX);
        http.start();
        Self {
            http,
            carry: Carry::new(512),
            // One answer: there is nothing to compare it with.
            shared: Shared::new(EXPLAINED_BYTES_MAX, 0),
        }
    }
}

/// What was noticed on the way.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) events: u32,
    pub(crate) reads_with_content: u32,
    pub(crate) done_seen: bool,
    pub(crate) crlf: bool,
    pub(crate) silent_first: bool,
    pub(crate) reasoning: bool,
}

/// Gaps between content events, as a run counts them.
#[derive(Debug, Default)]
struct Gaps {
    last: Option<Nanos>,
    sum: Nanos,
    count: u64,
    reads: u32,
    last_read: Option<Nanos>,
}

impl Observer for Gaps {
    fn content(&mut self, event: ridgeline_wire::exchange::ContentEvent) {
        let at = event.arrival.at;
        if let Some(last) = self.last.replace(at) {
            self.sum += at - last;
            self.count += 1;
        }
        if self.last_read.replace(event.arrival.reaped) != Some(event.arrival.reaped) {
            self.reads += 1;
        }
    }
}

impl Explainer {
    /// For an answer to a request that was sent at `sent_at`.
    pub(crate) fn new(endpoint: EndpointType, streaming: bool, sent_at: Nanos) -> Self {
        let limits = ExchangeLimits::default();
        let mut exchange = Exchange::new(&limits);
        exchange.begin(Asked {
            endpoint,
            streaming,
            save_text: true,
        });
        Self {
            exchange,
            judged: Reading::new(),
            shown: Reading::new(),
            scanner: Scanner::new(limits.event_bytes_max),
            events_carry: Carry::new(512),
            endpoint,
            sent_at,
            gaps: Gaps::default(),
            raw_head: Vec::new(),
            head_ended: false,
            content: None,
            body: Vec::new(),
            explained_bytes: 0,
            facts: Facts::default(),
            done: None,
        }
    }

    /// Whether the answer is over.
    pub(crate) fn is_over(&self) -> bool {
        self.done.is_some()
    }

    /// Bytes came: what they say, as lines.
    pub(crate) fn received(&mut self, bytes: &[u8], at: Nanos) -> String {
        let arrival = Arrival::reaped(at);
        let Reading {
            http,
            carry,
            shared,
        } = &mut self.judged;
        let progress = self
            .exchange
            .received(http, carry, shared, bytes, arrival, &mut self.gaps);
        let mut out = String::new();
        self.show(bytes, at, &mut out);
        if let Progress::Done { reusable } = progress {
            self.done = Some(reusable);
        }
        self.facts.reads_with_content = self.gaps.reads;
        out
    }

    /// The connection ended.
    pub(crate) fn ended(&mut self, fin: bool, at: Nanos) -> String {
        let Reading {
            http,
            carry,
            shared,
        } = &mut self.judged;
        let arrival = Arrival::reaped(at);
        self.exchange
            .ended(http, carry, shared, fin, arrival, &mut self.gaps);
        self.done = Some(false);
        let how = if fin { "closed (FIN)" } else { "reset (RST)" };
        format!("{}the connection was {how} by the server\n", self.stamp(at))
    }

    /// Something outside the answer ended it.
    pub(crate) fn failed(
        &mut self,
        kind: ridgeline_wire::exchange::ErrorKind,
        message: String,
        at: Nanos,
    ) {
        self.exchange.fail(kind, message, at);
        self.done = Some(false);
    }

    fn stamp(&self, at: Nanos) -> String {
        format!("{:>9}  ", (at - self.sent_at).to_string())
    }

    fn show(&mut self, bytes: &[u8], at: Nanos, out: &mut String) {
        self.show_head(bytes, at, out);
        self.explained_bytes += bytes.len();
        if self.explained_bytes > EXPLAINED_BYTES_MAX {
            return;
        }
        let mut input = bytes;
        loop {
            let Reading {
                http,
                carry,
                shared,
            } = &mut self.shown;
            // What is wrong with it is in the outcome.
            let Ok(Some(part)) = http.next(&mut input, carry, &mut shared.pool) else {
                return;
            };
            match part {
                Part::Head(head) => self.content = Some(head.content),
                Part::Data(data) => self.show_data(data, at, out),
                Part::End => {
                    self.show_body(at, out);
                    let reusable = if self.shown.http.reusable() && input.is_empty() {
                        "the connection stays open for the next request"
                    } else {
                        "the connection cannot carry another request"
                    };
                    let _ = writeln!(out, "{}end of the response; {reusable}", self.stamp(at));
                    return;
                }
            }
        }
    }

    fn show_head(&mut self, bytes: &[u8], at: Nanos, out: &mut String) {
        if self.head_ended {
            return;
        }
        self.raw_head.extend_from_slice(bytes);
        let end = self
            .raw_head
            .windows(4)
            .position(|four| four == b"\r\n\r\n");
        let end = end.or_else(|| self.raw_head.windows(2).position(|two| two == b"\n\n"));
        let too_long = self.raw_head.len() > HEAD_BYTES_MAX;
        if let Some(end) = end.or_else(|| too_long.then_some(0)) {
            self.head_ended = true;
            let _ = writeln!(out, "{}response head", self.stamp(at));
            for line in String::from_utf8_lossy(&self.raw_head[..end]).lines() {
                let _ = writeln!(out, "< {}", printable(line, 160));
            }
            let _ = writeln!(out, "<");
            self.raw_head = Vec::new();
        }
    }

    fn show_data(&mut self, data: &[u8], at: Nanos, out: &mut String) {
        let is_stream = self.exchange.answer().streamed;
        if !is_stream {
            self.body.extend_from_slice(data);
            return;
        }
        self.facts.crlf |= data.windows(2).any(|two| two == b"\r\n");
        let mut input = data;
        loop {
            let found = self.scanner.next(
                &mut input,
                &mut self.events_carry,
                &mut self.shown.shared.pool,
            );
            let Ok(Some(event)) = found else { return };
            self.facts.events += 1;
            let silent = self.facts.events == 1;
            let meaning = meaning(self.endpoint, event, &mut self.facts);
            if silent && meaning.starts_with("nothing") {
                self.facts.silent_first = true;
            }
            let stamp = format!("{:>9}  ", (at - self.sent_at).to_string());
            let _ = writeln!(out, "{stamp}event {:<4} {meaning}", self.facts.events);
        }
    }

    /// The body of a plain answer, once it is whole.
    fn show_body(&mut self, at: Nanos, out: &mut String) {
        if !self.body.is_empty() {
            let text = String::from_utf8_lossy(&self.body);
            let _ = writeln!(
                out,
                "{}body of {} bytes: {}",
                self.stamp(at),
                self.body.len(),
                printable(&text, 400)
            );
        }
    }

    /// The outcome, the times, and what to look at.
    pub(crate) fn summary(&mut self) -> String {
        let mut out = String::new();
        let answer = self.exchange.answer();
        let since = |at: Option<Nanos>| {
            at.map_or_else(|| "-".to_owned(), |at| (at - self.sent_at).to_string())
        };
        let outcome = match &answer.failure {
            None => "ok".to_owned(),
            Some(failure) => format!("error, {}: {}", failure.kind.as_str(), failure.message),
        };
        let mut row = |name: &str, value: &str| {
            let _ = writeln!(out, "{name:<14} {value}");
        };
        row("outcome", &outcome);
        row("first byte", &since(answer.first_byte));
        if answer.streamed {
            row("TTFT", &since(answer.first_token));
            if answer.first_output != answer.first_token {
                row("TTFO", &since(answer.first_output));
            }
            if self.gaps.count > 0 {
                let mean = self.gaps.sum / self.gaps.count;
                row(
                    "between events",
                    &format!("{mean} on average of {} gaps", self.gaps.count),
                );
            }
        }
        row(
            "latency",
            &since(
                answer
                    .last_token
                    .filter(|_| answer.streamed)
                    .or(answer.done),
            ),
        );
        if let Some(reason) = &answer.finish_reason {
            row("finish reason", reason.as_str());
        }
        row("tokens", &tokens(answer.usage, answer.content_events));
        let hints = hints(answer, &self.facts, self.done == Some(true));
        if let Some(saved) = self.exchange.take_saved() {
            let mut text = |name: &str, text: &str| {
                if !text.is_empty() {
                    let _ = writeln!(out, "{name:<14} {}", printable(text, 200));
                }
            };
            text("reasoning", &saved.reasoning);
            text("text", &saved.text);
        }
        for hint in hints {
            let _ = writeln!(out, "hint: {hint}");
        }
        out
    }

    /// Whether the request succeeded.
    pub(crate) fn succeeded(&self) -> bool {
        self.exchange.answer().failure.is_none()
    }
}

/// What one event says.
fn meaning(endpoint: EndpointType, event: Event<'_>, facts: &mut Facts) -> String {
    if is_done(event.data) {
        facts.done_seen = true;
        return "[DONE]".to_owned();
    }
    let shown = printable(&String::from_utf8_lossy(event.data), 50);
    let Ok(chunk) = Chunk::parse(endpoint, event.data) else {
        return format!("not JSON: {shown}");
    };
    if chunk.is_error() || event.name == EventName::Error {
        return format!("an error: {shown}");
    }
    let (mut text, mut reasoning, mut calls) = (String::new(), String::new(), ToolCalls::default());
    chunk.save(&mut text, &mut reasoning, &mut calls);
    let mut says = Vec::new();
    if chunk.has_reasoning() {
        facts.reasoning = true;
        says.push(format!("reasoning {}", quoted(&reasoning)));
    }
    if chunk.has_text() {
        says.push(format!("text {}", quoted(&text)));
    }
    if chunk.has_tool_call() {
        says.push("a part of a tool call".to_owned());
    }
    if let Some(reason) = chunk.finish_reason() {
        says.push(format!("finish_reason {}", reason.as_str()));
    }
    if let Some(usage) = chunk.usage() {
        says.push(format!("usage: {}", counts(usage)));
    }
    if says.is_empty() {
        return format!("nothing generated: {shown}");
    }
    says.join(", ")
}

fn counts(usage: Usage) -> String {
    let number = |tokens: Option<u32>| tokens.map_or_else(|| "?".to_owned(), |t| t.to_string());
    let mut text = format!(
        "{} tokens in, {} out",
        number(usage.input_tokens),
        number(usage.output_tokens)
    );
    if let Some(tokens) = usage.reasoning_tokens {
        let _ = write!(text, " ({tokens} of them reasoning)");
    }
    if let Some(tokens) = usage.cached_tokens {
        let _ = write!(text, ", {tokens} in from a cache");
    }
    text
}

fn tokens(usage: Option<Usage>, content_events: u32) -> String {
    let events = format!(
        "{content_events} content event{}",
        plural(u64::from(content_events))
    );
    match usage {
        Some(usage) => format!("{}; {events}", counts(usage)),
        None => format!("not told by the server; {events}"),
    }
}

const fn plural(count: u64) -> &'static str {
    if count == 1 { "" } else { "s" }
}

fn hints(answer: &ridgeline_wire::exchange::Answer, facts: &Facts, reusable: bool) -> Vec<String> {
    let mut hints = Vec::new();
    let events = answer.content_events;
    let output = answer.usage.and_then(|usage| usage.output_tokens);
    match answer.http_status {
        Some(401 | 403) => hints.push("the server wants a key: --api-key-env NAME".to_owned()),
        Some(404) => hints.push(
            "nothing is at this path, or the model has another name: check --url, \
             --endpoint-type, --endpoint and --model"
                .to_owned(),
        ),
        Some(400 | 422) => hints.push(
            "the server refuses the request's parameters; --osl sends min_tokens and ignore_eos, \
             which not every server knows: use --max-output-tokens instead"
                .to_owned(),
        ),
        _ => {}
    }
    if answer.failure.is_some() {
        return hints;
    }
    if answer.usage.is_none() {
        hints.push("the server sent no usage: tokens will be counted as content events".to_owned());
    }
    if answer.streamed {
        if !facts.done_seen {
            hints.push("the stream had no [DONE]; its finish_reason ended it".to_owned());
        }
        if let Some(tokens) = output.filter(|&tokens| tokens > events && events > 0) {
            hints.push(format!(
                "{:.2} tokens per event: ITL is spread over the tokens of an event, ICL is the gap \
                 between events",
                f64::from(tokens) / f64::from(events)
            ));
        }
        if facts.reads_with_content > 0 && events > facts.reads_with_content * 2 {
            hints.push(format!(
                "{events} content events came in {} reads: the server or a proxy collects them, so \
                 gaps between events say little",
                facts.reads_with_content
            ));
        }
        if facts.crlf {
            hints.push("lines of the stream end in CRLF, which costs some bytes".to_owned());
        }
        if facts.silent_first {
            hints.push(
                "the first event generates nothing; TTFT counts from the first that does"
                    .to_owned(),
            );
        }
        if facts.reasoning {
            hints.push("the answer reasons: TTFT counts reasoning, TTFO does not".to_owned());
        }
    }
    if !reusable {
        hints.push("the connection is not reused: each request pays for a new one".to_owned());
    }
    hints
}

fn quoted(text: &str) -> String {
    format!("{:?}", printable(text, 60))
}

/// At most `max` characters, control characters as their escapes: nothing of a server's reaches
/// the terminal as a command.
pub(crate) fn printable(text: &str, max: usize) -> String {
    let mut out = String::new();
    for (count, c) in text.chars().enumerate() {
        if count == max {
            out.push_str("...");
            break;
        }
        if c.is_control() {
            out.extend(c.escape_default());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";

    fn explain(pieces: &[&str]) -> (String, String, bool) {
        let mut explainer = Explainer::new(EndpointType::Chat, true, Nanos::from_millis(1));
        let mut lines = String::new();
        for (k, piece) in (2..).zip(pieces) {
            lines += &explainer.received(piece.as_bytes(), Nanos::from_millis(k));
        }
        if !explainer.is_over() {
            lines += &explainer.ended(true, Nanos::from_millis(99));
        }
        let summary = explainer.summary();
        (lines, summary, explainer.succeeded())
    }

    #[test]
    fn every_event_is_explained() {
        let (lines, summary, ok) = explain(&[
            HEAD,
            "Connection: close\r\n\r\ndata: {\"choices\":[{\"delta\":{\"role\":\"assistant\"}}]}\n\n",
            "data: {\"choices\":[{\"delta\":{\"content\":\"Hi\\u001b[2J\"}}]}\r\n\r\n",
            "data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n",
            "data: {\"choices\":[],\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":2}}\n\n",
            "data: [DONE]\n\n",
        ]);
        for part in [
            "< HTTP/1.1 200 OK\n< Content-Type: text/event-stream\n< Connection: close\n<\n",
            "2.00 ms  event 1    nothing generated",
            "3.00 ms  event 2    text \"Hi\\\\u{1b}[2J\"",
            "event 3    finish_reason stop",
            "event 4    usage: 3 tokens in, 2 out",
            "event 5    [DONE]",
            "closed (FIN)",
        ] {
            assert!(lines.contains(part), "{part}\n{lines}");
        }
        assert!(ok);
        for part in [
            "outcome        ok",
            "TTFT           3.00 ms",
            "latency        3.00 ms",
            "finish reason  stop",
            "3 tokens in, 2 out; 1 content event\n",
            "hint: 2.00 tokens per event",
            "hint: lines of the stream end in CRLF",
            "hint: the first event generates nothing",
            "hint: the connection is not reused",
        ] {
            assert!(summary.contains(part), "{part}\n{summary}");
        }
        assert!(!lines.contains('\x1b') && !summary.contains('\x1b'));
    }

    #[test]
    fn a_refusal_is_explained_with_a_hint() {
        let (lines, summary, ok) = explain(&[
            "HTTP/1.1 404 Not Found\r\nContent-Type: application/json\r\nContent-Length: 31\r\n\r\n",
            "{\"error\":{\"message\":\"no model\"}}",
        ]);
        assert!(
            !ok && lines.contains("body of 31 bytes: {\"error\""),
            "{lines}"
        );
        assert!(summary.contains("error, http_status: "), "{summary}");
        assert!(
            summary.contains("hint: nothing is at this path"),
            "{summary}"
        );
    }

    #[test]
    fn how_reads_cut_it_changes_nothing() {
        let stream = format!(
            "{HEAD}Content-Length: 66\r\n\r\ndata: {{\"choices\":[{{\"delta\":{{\"content\":\"Hi\"}}}}]}}\n\n\
             data: [DONE]\r\n\r\n\n\n"
        );
        let whole = explain(&[&stream]);
        for cut in 1..stream.len() {
            let (lines, _, ok) = explain(&[&stream[..cut], &stream[cut..]]);
            assert_eq!(ok, whole.2, "{cut}");
            let events = |text: &str| text.matches("event ").count();
            assert_eq!(events(&lines), events(&whole.0), "{cut}: {lines}");
            assert!(lines.contains("< Content-Length: 66"), "{cut}");
        }
    }
}
