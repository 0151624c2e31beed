use std::borrow::Cow;
use std::path::Path;

use ridgeline_clock::Nanos;
use ridgeline_metrics::Timeline;
use serde::Deserialize;

use super::lines::{LineError, Lines};
use crate::ReportError;

/// When the things of one measured request happened, read back from its record.
#[derive(Clone, Debug, PartialEq)]
pub struct RequestTimes {
    /// From the run's start on; the span of a connect is not in a record.
    pub timeline: Timeline,
    /// Whether it succeeded.
    pub succeeded: bool,
    /// Content events.
    pub content_events: u32,
    /// Output tokens, as the server or a tokenizer counted them.
    pub output_tokens: Option<u32>,
    /// When its content events came; empty unless they were saved.
    pub events_at: Vec<Nanos>,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    phase: Cow<'a, str>,
    #[serde(borrow)]
    outcome: Cow<'a, str>,
    scheduled_ns: Option<u64>,
    started_ns: Option<u64>,
    submitted_ns: Option<u64>,
    first_byte_ns: Option<u64>,
    first_token_ns: Option<u64>,
    first_output_ns: Option<u64>,
    last_token_ns: Option<u64>,
    done_ns: Option<u64>,
    content_events: u32,
    output_tokens: Option<u32>,
    counted_output_tokens: Option<u32>,
    #[serde(default)]
    event_ns: Vec<u64>,
}

/// The requests of the measured phase in a folder's `records.jsonl`, in its order; `None` when there is no such
/// file. A last line that a kill cut short is left out.
///
/// # Errors
/// When the file can't be read, or holds a line that is no record.
pub fn times(folder: &Path) -> Result<Option<Vec<RequestTimes>>, ReportError> {
    let wrong = |error: LineError| error.of(folder);
    let opened = Lines::open(folder).map_err(LineError::Read);
    let Some(mut lines) = opened.map_err(wrong)? else {
        return Ok(None);
    };
    let mut requests = Vec::new();
    while let Some(line) = lines.next::<Line<'_>>().map_err(wrong)? {
        if line.phase == "measured" {
            requests.push(request(line));
        }
    }
    Ok(Some(requests))
}

fn request(line: Line<'_>) -> RequestTimes {
    let at = |ns: Option<u64>| ns.map(Nanos);
    RequestTimes {
        timeline: Timeline {
            scheduled: Nanos(line.scheduled_ns.unwrap_or(0)),
            started: Nanos(line.started_ns.unwrap_or(0)),
            submitted: at(line.submitted_ns),
            connect: None,
            tls: None,
            first_byte: at(line.first_byte_ns),
            first_token: at(line.first_token_ns),
            first_output: at(line.first_output_ns),
            last_token: at(line.last_token_ns),
            done: at(line.done_ns),
        },
        succeeded: line.outcome == "ok",
        content_events: line.content_events,
        output_tokens: line.output_tokens.or(line.counted_output_tokens),
        events_at: line.event_ns.into_iter().map(Nanos).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::entry::Entry;
    use super::super::{JSONL, line, samples};
    use super::*;

    #[test]
    fn what_was_written_is_read_back() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(times(folder.path()).unwrap(), None);
        let mut out = Vec::new();
        for index in 0..6 {
            line::write(&mut out, &Entry::of(&samples::any(index)), samples::ORIGIN);
        }
        out.extend_from_slice(b"{\"index\":");
        fs::write(folder.path().join(JSONL), &out).unwrap();
        let read = times(folder.path()).unwrap().unwrap();
        // Of six two are warm-up, two succeeded and two were cancelled.
        let succeeded: Vec<bool> = read.iter().map(|one| one.succeeded).collect();
        assert_eq!(succeeded, [true, false, true, false]);
        let first = &read[0];
        assert_eq!(first.timeline.ttft(), Some(Nanos(40)));
        assert_eq!(first.timeline.latency(true), Some(Nanos(70)));
        assert_eq!((first.content_events, first.output_tokens), (5, Some(5)));
        assert!(first.events_at.is_empty());
    }

    #[test]
    fn a_line_that_is_none_is_told_with_its_number() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join(JSONL), "{}\n").unwrap();
        let error = times(folder.path()).unwrap_err().to_string();
        assert!(error.contains("line 1"), "{error}");
    }
}
