//! What depends on how many tokens an answer has: the server may leave that to be counted after the
//! run, and then these figures come last.

use ridgeline_clock::Nanos;
use serde::{Deserialize, Serialize};

use crate::goodput::Judge;
use crate::throughput::prorate;
use crate::{Distribution, Finished, TokenSource, TokensBySource};

/// What must be known of a request, beside its record, to count its output tokens after the run: see
/// [`Finished::count_later`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Uncounted {
    /// Whether the answer was a stream.
    pub streamed: bool,
    /// Content events that came before issuing ended.
    pub events_in_window: u32,
    /// Whether the answer ended before issuing did.
    pub done_in_window: bool,
    /// Whether it met every SLO but those of TPOT.
    pub slos_met: bool,
}

/// Figures of successes that depend on their output tokens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Outputs {
    pub(crate) requests: u64,
    pub(crate) tpot: Distribution,
    pub(crate) tokens: TokensBySource,
    /// Output tokens that came within the window.
    pub(crate) tokens_in_window: u64,
    /// Requests that met the limit of TPOT.
    pub(crate) tpot_met: u64,
    /// Requests that met every SLO, and those of them that ended within the window.
    pub(crate) good: u64,
    pub(crate) good_in_window: u64,
}

impl Outputs {
    pub(crate) fn add(&mut self, finished: &Finished<'_>, about: &Uncounted, judge: &Judge) {
        self.requests += 1;
        let tpot = finished.tpot();
        if let Some(tpot) = tpot {
            self.tpot.record(nearest(tpot));
        }
        let (tokens, source) = finished.output();
        let tokens = u64::from(tokens.unwrap_or(0));
        match source {
            TokenSource::Usage => self.tokens.usage += tokens,
            TokenSource::Tokenizer => self.tokens.tokenizer += tokens,
            TokenSource::Events | TokenSource::None => self.tokens.events += tokens,
        }
        let (part, whole) = share(about, finished.content_events);
        self.tokens_in_window += prorate(tokens, part, whole);
        let tpot_met = judge.meets_tpot(tpot);
        let good = tpot_met && about.slos_met && judge.has_limits();
        self.tpot_met += u64::from(tpot_met);
        self.good += u64::from(good);
        self.good_in_window += u64::from(good && about.done_in_window);
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        self.requests += other.requests;
        self.tpot.merge(&other.tpot);
        self.tokens.usage += other.tokens.usage;
        self.tokens.tokenizer += other.tokens.tokenizer;
        self.tokens.events += other.tokens.events;
        self.tokens_in_window += other.tokens_in_window;
        self.tpot_met += other.tpot_met;
        self.good += other.good;
        self.good_in_window += other.good_in_window;
    }

    pub(crate) fn bytes(&self) -> usize {
        self.tpot.bytes() + size_of::<Self>()
    }
}

/// Which part of an answer counts for the window, in events.
pub(crate) fn share(about: &Uncounted, content_events: u32) -> (u32, u32) {
    match content_events {
        _ if about.done_in_window => (1, 1),
        0 => (0, 1),
        events => (about.events_in_window.min(events), events),
    }
}

/// Successes counted anew, to take the place of what a [`Collector`](crate::Collector) took from
/// their events.
#[derive(Clone, Debug)]
pub struct Recount {
    pub(crate) judge: Judge,
    pub(crate) outputs: Outputs,
}

impl Recount {
    /// One success of the measured phase. Of `finished` only the first and the last token's time,
    /// the content events and the output tokens with their source count: without a number of tokens
    /// it goes by its events again.
    pub fn add(&mut self, finished: &Finished<'_>, about: &Uncounted) {
        let finished = Finished {
            streamed: about.streamed,
            ..*finished
        };
        self.outputs.add(&finished, about, &self.judge);
    }

    /// How many there are.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.outputs.requests
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "spans are not negative, and longer ones than u64 saturate"
)]
fn nearest(ns: f64) -> Nanos {
    Nanos((ns + 0.5) as u64)
}
