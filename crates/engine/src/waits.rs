use ridgeline_clock::Nanos;
use ridgeline_schedule::Source;

use crate::timers::Timers;

/// What a request's connection is used for afterwards.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Connections {
    /// For other requests, as long as the endpoint keeps it.
    #[default]
    Reuse,
    /// For nothing: each request has a connection of its own.
    PerRequest,
    /// For requests of the same session that the same shard sends. Those without a session have connections
    /// of their own.
    PerSession,
}

/// How long a request waits for what, beside the time that it may take as a whole, and which requests are
/// given up on purpose. `None`: no such limit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Waits {
    /// For a connection, from the beginning of setting it up.
    pub connect: Option<Nanos>,
    /// For the first content event, from submission.
    pub first_token: Option<Nanos>,
    /// For the next content event of a stream, and for its end, from the one before.
    pub event: Option<Nanos>,
    /// Requests that are cancelled.
    pub cancel: Option<Cancel>,
}

impl Waits {
    /// Bytes of memory that they take for each request in flight.
    #[must_use]
    pub fn slot_bytes(&self) -> usize {
        Timers::slot_bytes(self)
    }
}

/// Which requests are cancelled, and when.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cancel {
    /// Their share of the measured requests, 0 to 1.
    pub share: f64,
    /// Which ones: a request with the same index is cancelled in every run with the same seed.
    pub seed: u64,
    /// When.
    pub after: CancelAfter,
}

/// When a request is cancelled, if it is not over by then.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CancelAfter {
    /// So long after its submission.
    Span(Nanos),
    /// When so many content events have come.
    Events(u32),
}

/// Keeps these numbers apart from those that the schedule draws from the same seed.
const STREAMS: u64 = 0x6361_6e63_656c;

impl Cancel {
    /// Whether request `index` is one of them.
    #[must_use]
    pub fn has(&self, index: u64) -> bool {
        Source::new(self.seed ^ STREAMS, index).unit() <= self.share
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cancelled(share: f64, seed: u64) -> Vec<u64> {
        let cancel = Cancel {
            share,
            seed,
            after: CancelAfter::Events(1),
        };
        (0..10_000).filter(|&index| cancel.has(index)).collect()
    }

    #[test]
    fn a_share_of_requests_is_cancelled_the_same_ones_by_seed() {
        assert_eq!(cancelled(0.0, 1).len(), 0);
        assert_eq!(cancelled(1.0, 1).len(), 10_000);
        // Four standard deviations of a binomial count.
        let some = cancelled(0.1, 42);
        assert!(some.len().abs_diff(1_000) < 120, "{}", some.len());
        assert_eq!(some, cancelled(0.1, 42));
        assert_ne!(some, cancelled(0.1, 43));
    }
}
