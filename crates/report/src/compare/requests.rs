use std::borrow::Cow;
use std::path::Path;

use serde::Deserialize;

use crate::ReportError;
use crate::records::{LineError, Lines};

/// A request of the measured phase that succeeded, as far as figures come from it. Times are ns after the
/// run's start.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Request {
    pub(super) submitted_ns: u64,
    pub(super) done_ns: u64,
    /// Submission to the last token; of an answer that was not streamed, to its end.
    pub(super) latency_ns: f64,
    pub(super) ttft_ns: Option<f64>,
    /// From the first token to the last, over the tokens after the first.
    pub(super) tpot_ns: Option<f64>,
    pub(super) output_tokens: u64,
}

#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow)]
    phase: Cow<'a, str>,
    #[serde(borrow)]
    outcome: Cow<'a, str>,
    submitted_ns: Option<u64>,
    first_token_ns: Option<u64>,
    last_token_ns: Option<u64>,
    done_ns: Option<u64>,
    content_events: u64,
    output_tokens: Option<u64>,
    counted_output_tokens: Option<u64>,
}

/// The successes of a folder's `records.jsonl`, by the time of their submission; `None` when there is no such
/// file. A last line that a kill cut short is left out.
pub(super) fn read(folder: &Path, streaming: bool) -> Result<Option<Vec<Request>>, ReportError> {
    let wrong = |error: LineError| error.of(folder);
    let opened = Lines::open(folder).map_err(LineError::Read);
    let Some(mut lines) = opened.map_err(wrong)? else {
        return Ok(None);
    };
    let mut requests = Vec::new();
    while let Some(line) = lines.next::<Line<'_>>().map_err(wrong)? {
        requests.extend(request(&line, streaming));
    }
    requests.sort_by_key(|request| request.submitted_ns);
    Ok(Some(requests))
}

fn request(line: &Line<'_>, streaming: bool) -> Option<Request> {
    if line.phase != "measured" || line.outcome != "ok" {
        return None;
    }
    let (submitted_ns, done_ns) = (line.submitted_ns?, line.done_ns?);
    let end = if streaming {
        line.last_token_ns.unwrap_or(done_ns)
    } else {
        done_ns
    };
    let output_tokens = line
        .output_tokens
        .or(line.counted_output_tokens)
        .unwrap_or(line.content_events);
    let first = line.first_token_ns.filter(|_| streaming);
    let decode = first.zip(line.last_token_ns).filter(|_| output_tokens > 1);
    Some(Request {
        submitted_ns,
        done_ns,
        latency_ns: span(submitted_ns, end),
        ttft_ns: first.map(|first| span(submitted_ns, first)),
        tpot_ns: decode.map(|(first, last)| span(first, last) / span(1, output_tokens)),
        output_tokens,
    })
}

#[expect(
    clippy::cast_precision_loss,
    reason = "spans of a run, far below 2^53 ns"
)]
fn span(from: u64, to: u64) -> f64 {
    to.saturating_sub(from) as f64
}
