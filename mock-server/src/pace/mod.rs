//! The times of model mode, worked out without a clock.
//!
//! A [`Replica`] is told who arrives and who leaves, and when; it answers who runs and from when on,
//! and a [`Pace`] says how long it is from one event to the next. All times are absolute and follow
//! from one another, so that a late turn delays nothing but itself. Every request draws from random
//! numbers of its own: its times depend on its number (or on its seed), not on what runs beside it.

mod args;
mod blocks;
mod latency;
mod lateness;
mod load;
mod replica;
mod rounds;
mod startup;

use std::num::NonZeroU32;

use ridgeline_clock::Nanos;

pub use args::PaceArgs;
pub use blocks::KvCache;
pub use latency::{Latency, Law, Prefill, TOKENS_PER_EVENT_MAX, TokensPerEvent};
pub use lateness::{LateTally, Lateness};

pub(crate) use replica::{Admission, Pace, Replica, Started, Ticket, Want};
pub(crate) use rounds::{Next, Rounds};
pub(crate) use startup::Startup;

/// What decides the times of model mode. Each shard of a server is a replica of its own, with its own
/// places, queue and memory.
#[derive(Clone, Debug, PartialEq)]
pub struct PaceConfig {
    /// From the start of a request to its first token.
    pub prefill: Prefill,
    /// From one event to the next.
    pub gap: Latency,
    /// What an event brings.
    pub tokens_per_event: TokensPerEvent,
    /// How events go together in writes.
    pub packing: Packing,
    /// By how much both times grow when all of `sequences_max` places are taken: at least 1, and 1
    /// without such a maximum.
    pub factor_under_load: f64,
    /// Sequences that run at one time, one for each choice of a request; `None`: any number. The
    /// others wait for their turn.
    pub sequences_max: Option<NonZeroU32>,
    /// Requests that wait at one time; one more gets 429. `None`: any number.
    pub waiting_max: Option<u32>,
    /// KV memory; `None`: as much as is needed, and no prompt is found again.
    pub kv_cache: Option<KvCache>,
    /// The seed of all random times.
    pub seed: u64,
}

/// How the events of a modelled stream go together in writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packing {
    /// Events of a choice that leave together, when the last of them is due; `None`: all of an
    /// answer.
    pub events_per_write: Option<NonZeroU32>,
    /// Writes, one right after the other, into which what leaves together is cut. More than one
    /// keep events apart that are late together.
    pub writes_per_event: NonZeroU32,
}

impl Default for Packing {
    /// One event a write.
    fn default() -> Self {
        Self {
            events_per_write: Some(NonZeroU32::MIN),
            writes_per_event: NonZeroU32::MIN,
        }
    }
}

impl PaceConfig {
    /// Always the same times, for any number of requests: to the first token, and from one to the
    /// next.
    #[must_use]
    pub fn fixed(first: Nanos, gap: Nanos) -> Self {
        Self {
            prefill: Prefill::Whole(Latency::fixed(first)),
            gap: Latency::fixed(gap),
            tokens_per_event: TokensPerEvent::ONE,
            packing: Packing::default(),
            factor_under_load: 1.0,
            sequences_max: None,
            waiting_max: None,
            kv_cache: None,
            seed: 0,
        }
    }
}

impl Default for PaceConfig {
    /// 20 ms to the first token and 5 ms from one to the next.
    fn default() -> Self {
        Self::fixed(Nanos::from_millis(20), Nanos::from_millis(5))
    }
}

/// Times that can't be had.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum PaceError {
    /// The law does not reach the standard deviation.
    #[error("a {} span has a standard deviation of at most {max} of its mean", name(*law))]
    Deviation {
        /// The law.
        law: Law,
        /// The most it reaches, as a part of the mean.
        max: f64,
    },
    /// The mean number of tokens of an event is out of range.
    #[error("an event brings between 1 and {TOKENS_PER_EVENT_MAX} tokens")]
    TokensPerEvent,
}

fn name(law: Law) -> &'static str {
    match law {
        Law::Fixed => "fixed",
        Law::Normal => "normal",
        Law::Lognormal => "lognormal",
        Law::Gamma => "gamma",
    }
}
