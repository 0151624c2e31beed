//! The figures of one run of a series, without its beginning where that is asked for.

use ridgeline_clock::Nanos;
use ridgeline_metrics::{Convention, Percentile};
use ridgeline_report::records::RequestTimes;
use ridgeline_report::{LoadKind, Report};
use ridgeline_search::mser5;
use serde::{Deserialize, Serialize};

/// A closed loop has so many rounds at least before its first one is left out.
const ROUNDS_MIN: usize = 4;

/// What stands in a row of the table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Figures {
    pub(crate) requests_per_s: f64,
    pub(crate) output_tokens_per_s: f64,
    pub(crate) ttft_p50_ns: Option<u64>,
    pub(crate) ttft_p99_ns: Option<u64>,
    pub(crate) latency_p50_ns: Option<u64>,
    pub(crate) latency_p99_ns: Option<u64>,
    /// Successes at the beginning that are in none of them.
    pub(crate) left_out: u64,
    /// Whether the beginning was over within the first half; `None` where nobody looked, or too few
    /// requests succeeded to tell.
    pub(crate) is_steady: Option<bool>,
}

impl Figures {
    /// Those of the report: the whole run.
    pub(crate) fn whole(report: &Report) -> Self {
        let (ttft, latency) = (&report.ttft_ns, &report.latency_ns);
        Self {
            requests_per_s: report.throughput.requests_per_s,
            output_tokens_per_s: report.throughput.output_tokens_per_s,
            ttft_p50_ns: ttft.as_ref().map(|summary| summary.p50),
            ttft_p99_ns: ttft.as_ref().map(|summary| summary.p99),
            latency_p50_ns: latency.as_ref().map(|summary| summary.p50),
            latency_p99_ns: latency.as_ref().map(|summary| summary.p99),
            left_out: 0,
            is_steady: None,
        }
    }

    /// Those of the steady part; of the whole run where none can be told from the beginning.
    pub(crate) fn steady(report: &Report, times: &[RequestTimes]) -> Self {
        let whole = Self::whole(report);
        let streamed = report.target.streaming;
        let mut all: Vec<Success> = times
            .iter()
            .filter(|times| times.succeeded)
            .filter_map(|times| Success::of(times, streamed))
            .collect();
        all.sort_by_key(|success| success.submitted);
        let series: Vec<f64> = all.iter().map(|one| float(one.latency.0)).collect();
        let found = mser5(&series);
        let is_steady = found.map(|steady| steady.is_reached);
        let beginning = found
            .filter(|steady| steady.is_reached)
            .map_or(0, |steady| steady.left_out);
        let left_out = beginning.max(first_round(report, all.len()));
        let last_issue = times.iter().map(|times| times.timeline.started).max();
        let (Some(first), Some(end)) = (all.get(left_out), last_issue) else {
            return Self { is_steady, ..whole };
        };
        let begin = first.submitted;
        if left_out == 0 || is_steady == Some(false) || end <= begin {
            return Self { is_steady, ..whole };
        }
        let counted = all.iter().filter(|one| begin < one.done && one.done <= end);
        let (requests, tokens) = counted.fold((0_u64, 0_u64), |(requests, tokens), one| {
            (requests + 1, tokens + one.tokens)
        });
        let per_s = |count: u64| float(count) / (end - begin).as_secs_f64();
        let kept = &all[left_out..];
        let of = |span: &dyn Fn(&Success) -> Option<Nanos>, percentile| {
            let mut spans: Vec<u64> = kept.iter().filter_map(|one| Some(span(one)?.0)).collect();
            spans.sort_unstable();
            rank(&spans, percentile)
        };
        let (ttft, latency) = (|one: &Success| one.ttft, |one: &Success| Some(one.latency));
        Self {
            requests_per_s: per_s(requests),
            output_tokens_per_s: per_s(tokens),
            ttft_p50_ns: of(&ttft, Percentile::P50),
            ttft_p99_ns: of(&ttft, Percentile::P99),
            latency_p50_ns: of(&latency, Percentile::P50),
            latency_p99_ns: of(&latency, Percentile::P99),
            left_out: left_out as u64,
            is_steady,
        }
    }

    /// What repetitions are compared by: rates, and medians.
    pub(crate) fn compared(&self) -> Vec<f64> {
        let middle = |ns: Option<u64>| ns.map(float);
        let figures = [
            Some(self.requests_per_s),
            middle(self.latency_p50_ns),
            middle(self.ttft_p50_ns),
        ];
        figures.into_iter().flatten().collect()
    }
}

/// What the first requests of a closed loop saw is a server that was empty.
fn first_round(report: &Report, successes: usize) -> usize {
    let level = match report.load.kind {
        LoadKind::Closed => report.load.concurrency.unwrap_or(0),
        LoadKind::Open | LoadKind::Offline => 0,
    };
    let level = usize::try_from(level).unwrap_or(usize::MAX);
    if level.saturating_mul(ROUNDS_MIN) <= successes {
        level
    } else {
        0
    }
}

struct Success {
    submitted: Nanos,
    done: Nanos,
    latency: Nanos,
    ttft: Option<Nanos>,
    tokens: u64,
}

impl Success {
    fn of(times: &RequestTimes, streamed: bool) -> Option<Self> {
        let timeline = &times.timeline;
        Some(Self {
            submitted: timeline.submitted?,
            done: timeline.done?,
            latency: timeline.latency(streamed)?,
            ttft: timeline.ttft().filter(|_| streamed),
            tokens: u64::from(times.output_tokens.unwrap_or(times.content_events)),
        })
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the nearest rank is one of the samples"
)]
fn rank(sorted: &[u64], percentile: Percentile) -> Option<u64> {
    let found = Convention::NearestRank.of_sorted(sorted, percentile)?;
    Some(found as u64)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "spans and counts of a run, far below 2^53"
)]
pub(super) fn float(count: u64) -> f64 {
    count as f64
}
