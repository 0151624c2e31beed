//! What a record says, borrowed: from the engine's record, or from the bytes of a spool.

use std::borrow::Cow;

use ridgeline_clock::Nanos;
use ridgeline_engine::{Outcome, Record};
use ridgeline_metrics::{Phase, Timeline, TokenSource, Uncounted};
use ridgeline_wire::openai::{ToolCalls, Usage};

use super::line;

#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry<'a> {
    pub(super) index: u64,
    pub(super) sample: u32,
    pub(super) phase: Phase,
    pub(super) shard: u32,
    pub(super) run_id: u32,
    pub(super) outcome: Outcome,
    pub(super) http_status: Option<u16>,
    pub(super) finish_reason: Option<&'a str>,
    pub(super) timeline: Timeline,
    pub(super) connected: Option<Nanos>,
    pub(super) secured: Option<Nanos>,
    pub(super) usage: Usage,
    pub(super) token_source: TokenSource,
    pub(super) input_counted: Option<u32>,
    pub(super) content_events: u32,
    pub(super) retries: u32,
    pub(super) harness_delay_max: Nanos,
    pub(super) stamp_width_max: Nanos,
    pub(super) message: Option<&'a str>,
    pub(super) saved: Option<Texts<'a>>,
    pub(super) events_at: Option<Cow<'a, [Nanos]>>,
    pub(super) uncounted: Option<Uncounted>,
}

/// What an answer said.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Texts<'a> {
    pub(super) text: &'a str,
    /// Empty when none came.
    pub(super) reasoning: &'a str,
    /// A JSON list; empty when none came.
    pub(super) tool_calls: Cow<'a, str>,
}

impl<'a> Entry<'a> {
    pub(super) fn of(record: &'a Record) -> Self {
        let details = record.details.as_deref();
        Self {
            index: record.index,
            sample: record.sample,
            phase: record.phase,
            shard: record.shard,
            run_id: record.run_id,
            outcome: record.outcome,
            http_status: record.http_status,
            finish_reason: record.finish_reason.as_ref().map(|reason| reason.as_str()),
            timeline: record.timeline,
            connected: record.connected,
            secured: record.secured,
            usage: record.usage,
            token_source: record.token_source,
            input_counted: record.input_counted,
            content_events: record.content_events,
            retries: record.retries,
            harness_delay_max: record.harness_delay_max,
            stamp_width_max: record.stamp_width_max,
            message: details.and_then(|details| details.message.as_deref()),
            saved: details
                .and_then(|details| details.saved.as_deref())
                .map(|saved| Texts {
                    text: &saved.text,
                    reasoning: &saved.reasoning,
                    tool_calls: list(&saved.tool_calls).into(),
                }),
            events_at: details
                .and_then(|details| details.events_at.as_deref())
                .map(Cow::Borrowed),
            uncounted: details.and_then(|details| details.uncounted),
        }
    }
}

fn list(calls: &ToolCalls) -> String {
    let mut out = Vec::new();
    for (_, call) in calls.iter() {
        out.extend_from_slice(if out.is_empty() { b"[{" } else { b",{" });
        for (key, text) in [
            ("\"id\":", &call.id),
            (",\"name\":", &call.name),
            (",\"arguments\":", &call.arguments),
        ] {
            out.extend_from_slice(key.as_bytes());
            line::quote(&mut out, text);
        }
        out.push(b'}');
    }
    if !out.is_empty() {
        out.push(b']');
    }
    // Made of strings alone.
    String::from_utf8(out).unwrap_or_default()
}
