//! A record as one line of JSON, written by hand: a run may end hundreds of thousands a second.

use ridgeline_clock::Nanos;
use ridgeline_engine::{Outcome, RequestId};
use ridgeline_metrics::{Phase, TokenSource};

use super::entry::{Entry, Texts};

/// What an answer is told by whose tokens are to be counted; no text can hold it, for quotes in a text
/// are escaped.
pub(super) const UNCOUNTED: &str = ",\"uncounted\":";

/// Where the lines of a file come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Origin {
    /// What stamps count from.
    pub(super) start: Nanos,
    /// The number of the process among the workers of the run.
    pub(super) worker: u32,
}

/// Appends the line of `entry`, line feed included.
pub(super) fn write(out: &mut Vec<u8>, entry: &Entry<'_>, origin: Origin) {
    let start = origin.start;
    let mut line = Line {
        out,
        digits: itoa::Buffer::new(),
    };
    line.text("{\"index\":").number(entry.index);
    line.text(",\"sample\":").number(entry.sample);
    line.text(match entry.phase {
        Phase::Warmup => ",\"phase\":\"warmup\"",
        Phase::Measured => ",\"phase\":\"measured\"",
    });
    line.text(",\"shard\":").number(entry.shard);
    line.text(",\"worker\":").number(origin.worker);
    line.text(",\"request_id\":\"");
    line.bytes(RequestId::new(entry.run_id, entry.index).as_bytes());
    line.text("\"");
    outcome(&mut line, entry);
    tokens(&mut line, entry);
    line.text(",\"retries\":").number(entry.retries);
    stamps(&mut line, entry, start);
    line.text(",\"harness_delay_max_ns\":")
        .number(entry.harness_delay_max.0);
    line.text(",\"stamp_width_max_ns\":")
        .number(entry.stamp_width_max.0);
    if let Some(saved) = &entry.saved {
        texts(&mut line, saved);
    }
    if let Some(events_at) = &entry.events_at {
        line.text(",\"event_ns\":[");
        for (place, &at) in events_at.iter().enumerate() {
            line.text(if place == 0 { "" } else { "," })
                .number((at - start).0);
        }
        line.text("]");
    }
    if let Some(about) = &entry.uncounted {
        // Last, so that a line says at its end whether it is to be counted: see `count`.
        line.text(UNCOUNTED);
        serde_json::to_writer(&mut *line.out, about).expect("numbers, and memory takes them");
    }
    line.text("}\n");
}

fn outcome(line: &mut Line<'_>, entry: &Entry<'_>) {
    let status = entry.http_status.map(u64::from);
    match entry.outcome {
        Outcome::Ok => line.text(",\"outcome\":\"ok\",\"error\":null"),
        Outcome::Cancelled => line.text(",\"outcome\":\"cancelled\",\"error\":null"),
        Outcome::Error(kind) => {
            line.text(",\"outcome\":\"error\",\"error\":{\"kind\":\"");
            line.text(kind.as_str()).text("\",\"message\":");
            quote(line.out, entry.message.unwrap_or(kind.as_str()));
            line.optional(",\"http_status\":", status).text("}")
        }
    };
    line.optional(",\"http_status\":", status);
    line.text(",\"finish_reason\":");
    match entry.finish_reason {
        Some(reason) => quote(line.out, reason),
        None => {
            line.text("null");
        }
    }
}

fn tokens(line: &mut Line<'_>, entry: &Entry<'_>) {
    let usage = &entry.usage;
    line.text(",\"content_events\":")
        .number(entry.content_events);
    line.optional(",\"input_tokens\":", usage.input_tokens.map(u64::from));
    line.optional(",\"output_tokens\":", usage.output_tokens.map(u64::from));
    line.optional(
        ",\"reasoning_tokens\":",
        usage.reasoning_tokens.map(u64::from),
    );
    line.optional(",\"cached_tokens\":", usage.cached_tokens.map(u64::from));
    line.text(token_source(entry.token_source));
    if entry.input_counted.is_some() {
        let counted = entry.input_counted.map(u64::from);
        line.optional(",\"counted_input_tokens\":", counted);
    }
}

/// The member that says where the count of output tokens is from.
pub(super) const fn token_source(source: TokenSource) -> &'static str {
    match source {
        TokenSource::Usage => ",\"token_source\":\"usage\"",
        TokenSource::Tokenizer => ",\"token_source\":\"tokenizer\"",
        TokenSource::Events => ",\"token_source\":\"events\"",
        TokenSource::None => ",\"token_source\":null",
    }
}

fn stamps(line: &mut Line<'_>, entry: &Entry<'_>, start: Nanos) {
    let timeline = &entry.timeline;
    let stamp = |at: Option<Nanos>| at.map(|at| (at - start).0);
    line.optional(",\"scheduled_ns\":", stamp(Some(timeline.scheduled)));
    line.optional(",\"started_ns\":", stamp(Some(timeline.started)));
    line.optional(",\"connected_ns\":", stamp(entry.connected));
    if entry.secured.is_some() {
        line.optional(",\"secured_ns\":", stamp(entry.secured));
    }
    line.optional(",\"submitted_ns\":", stamp(timeline.submitted));
    line.optional(",\"first_byte_ns\":", stamp(timeline.first_byte));
    line.optional(",\"first_token_ns\":", stamp(timeline.first_token));
    line.optional(",\"first_output_ns\":", stamp(timeline.first_output));
    line.optional(",\"last_token_ns\":", stamp(timeline.last_token));
    line.optional(",\"done_ns\":", stamp(timeline.done));
}

fn texts(line: &mut Line<'_>, saved: &Texts<'_>) {
    line.text(",\"text\":");
    quote(line.out, saved.text);
    line.text(",\"reasoning\":");
    if saved.reasoning.is_empty() {
        line.text("null");
    } else {
        quote(line.out, saved.reasoning);
    }
    line.text(",\"tool_calls\":");
    line.text(if saved.tool_calls.is_empty() {
        "null"
    } else {
        &saved.tool_calls
    });
}

/// Appends `text` as a JSON string.
pub(super) fn quote(out: &mut Vec<u8>, text: &str) {
    serde_json::to_writer(out, text).expect("a text has a JSON form, and memory takes it");
}

/// A line being written.
struct Line<'a> {
    out: &'a mut Vec<u8>,
    digits: itoa::Buffer,
}

impl Line<'_> {
    fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.out.extend_from_slice(bytes);
        self
    }

    fn text(&mut self, text: &str) -> &mut Self {
        self.bytes(text.as_bytes())
    }

    fn number(&mut self, number: impl itoa::Integer) -> &mut Self {
        self.out
            .extend_from_slice(self.digits.format(number).as_bytes());
        self
    }

    fn optional(&mut self, key: &str, number: Option<u64>) -> &mut Self {
        self.text(key);
        match number {
            Some(number) => self.number(number),
            None => self.text("null"),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::super::samples;
    use super::*;

    fn line_of(record: &ridgeline_engine::Record) -> Value {
        let mut out = Vec::new();
        write(&mut out, &Entry::of(record), samples::ORIGIN);
        assert_eq!(out.pop(), Some(b'\n'));
        assert!(!out.contains(&b'\n'), "one record, one line");
        serde_json::from_slice(&out).unwrap()
    }

    #[test]
    fn a_success_has_the_fields_of_the_contract() {
        let line = line_of(&samples::success(7));
        let expected = json!({
            "index": 7, "sample": 3, "phase": "measured", "shard": 1, "worker": 5,
            "request_id": "rl-0000002a-0000000000000007",
            "outcome": "ok", "error": null, "http_status": 200, "finish_reason": null,
            "content_events": 5, "input_tokens": 128, "output_tokens": 5,
            "reasoning_tokens": null, "cached_tokens": null, "token_source": "usage",
            "retries": 0, "scheduled_ns": 100, "started_ns": 110, "connected_ns": null,
            "submitted_ns": 120, "first_byte_ns": 150, "first_token_ns": 160,
            "first_output_ns": 160, "last_token_ns": 190, "done_ns": 200,
            "harness_delay_max_ns": 11, "stamp_width_max_ns": 13
        });
        assert_eq!(line, expected, "and no text without --save-text");
    }

    #[test]
    fn a_failure_says_what_happened_in_any_characters() {
        let line = line_of(&samples::hostile(8));
        let error = &line["error"];
        assert_eq!(error["kind"], "http_status");
        assert_eq!(error["message"], samples::HOSTILE);
        assert_eq!(error["http_status"], 503);
        assert_eq!(line["text"], samples::HOSTILE);
        assert_eq!(line["reasoning"], samples::HOSTILE);
        assert_eq!(line["phase"], "warmup");
        assert_eq!(line["submitted_ns"], Value::Null);
        assert_eq!(line["connected_ns"], 115);
        assert_eq!(line["secured_ns"], 118);
        assert_eq!(line["event_ns"], json!([160, 190]));
        assert_eq!(line["counted_input_tokens"], 7);
        assert_eq!(line["uncounted"]["events_in_window"], 3);
    }

    #[test]
    fn what_was_saved_and_did_not_come_is_empty_or_null() {
        let line = line_of(&samples::cancelled(9));
        assert_eq!(line["outcome"], "cancelled");
        assert_eq!(line["error"], Value::Null);
        assert_eq!(line["text"], "");
        assert_eq!(line["reasoning"], Value::Null);
        assert_eq!(line["tool_calls"], Value::Null);
        assert_eq!(line["event_ns"], json!([]));
    }
}
