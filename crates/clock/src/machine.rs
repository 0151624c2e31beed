use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::{Clock, Nanos};

/// The machine's `CLOCK_MONOTONIC`: the same zero for every thread and process of one boot.
#[derive(Clone, Copy, Debug, Default)]
pub struct MonotonicClock;

impl Clock for MonotonicClock {
    #[inline]
    fn now(&self) -> Nanos {
        nanos_of(clock_gettime(ClockId::Monotonic))
    }
}

/// CPU time (user and system) that the calling thread has used.
#[must_use]
pub fn thread_cpu_time() -> Nanos {
    nanos_of(clock_gettime(ClockId::ThreadCPUTime))
}

/// One reading of `CLOCK_REALTIME - CLOCK_MONOTONIC`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bracket {
    /// The monotonic time of the reading.
    pub at: Nanos,
    /// What to subtract from a wall-clock stamp (ns since 1970) to get monotonic time.
    pub offset: Nanos,
    /// The largest error of `offset`: half the time between the two monotonic reads.
    pub error: Nanos,
}

/// Reads the wall clock between two reads of the monotonic clock; the best of three tries, so that
/// an interrupt inside one of them does no harm.
#[must_use]
pub fn realtime_bracket() -> Bracket {
    let first = read_bracket();
    (0..2).map(|_| read_bracket()).fold(
        first,
        |best, next| {
            if next.error < best.error { next } else { best }
        },
    )
}

fn read_bracket() -> Bracket {
    let before = MonotonicClock.now();
    let wall = nanos_of(clock_gettime(ClockId::Realtime));
    let after = MonotonicClock.now();
    let at = before + (after - before) / 2;
    Bracket {
        at,
        offset: wall - at,
        error: (after - before) / 2 + Nanos(1),
    }
}

fn nanos_of(time: Timespec) -> Nanos {
    let secs = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    Nanos(secs * 1_000_000_000 + nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_machine_clock_never_goes_back() {
        let mut last = Nanos::ZERO;
        for _ in 0..1_000 {
            let now = MonotonicClock.now();
            assert!(now >= last);
            last = now;
        }
    }

    #[test]
    fn two_brackets_agree_within_their_errors() {
        let (a, b) = (realtime_bracket(), realtime_bracket());
        let apart = (a.offset - b.offset).max(b.offset - a.offset);
        // A clock being slewed drifts by at most 500 ppm between the two.
        assert!(
            apart <= a.error + b.error + (b.at - a.at) / 1_000 + Nanos(1),
            "{a:?} {b:?}"
        );
    }
}
