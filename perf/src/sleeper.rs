//! The bare sleeper: how late deadlines are met when there is nothing else to do.

use std::io;

use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use serde::Serialize;

use crate::machine::{self, Cpu};
use crate::ring::{Limits, Queues, Ring};
use crate::spread::Spread;

/// A ring with no sockets, used for nothing but waiting.
pub(crate) const IDLE: Limits = Limits {
    entries: 8,
    files: 0,
    buffers: 1,
    buffer_bytes: 64,
};

/// What a sleeper is asked for.
#[derive(Clone, Copy, Debug)]
pub struct Rhythm {
    /// Deadlines per second.
    pub rate: f64,
    /// For how long.
    pub span: Nanos,
    /// How late the kernel may end a wait so as to batch it with another.
    pub slack: Nanos,
    /// How long before a deadline to stop sleeping and read the clock in a loop.
    pub spin: Nanos,
}

/// How late the deadlines were met.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Lag {
    /// Time of waking after each deadline.
    pub lag: Spread,
    /// Waits it took.
    pub waits: u64,
    /// CPU time used.
    pub cpu: Cpu,
}

/// Meets every deadline of a constant rate as a ring driver does: it waits in the ring until an
/// absolute time, then takes all deadlines that have passed.
///
/// # Errors
/// When the ring fails.
pub fn sleep_through(rhythm: Rhythm) -> io::Result<Lag> {
    machine::set_timer_slack(rhythm.slack)?;
    let mut ring = Ring::new(IDLE)?;
    let mut queues = ring.start()?;
    let cpu = machine::own_cpu()?;
    let start = MonotonicClock.now() + Nanos::from_millis(1);
    let count = due_before(rhythm.rate, rhythm.span);
    let mut lags = Vec::with_capacity(usize::try_from(count).map_err(io::Error::other)?);
    let mut waits = 0;
    let mut now = start;
    for index in 0..count {
        let due = start + due_at(rhythm.rate, index);
        while now < due {
            waits += 1;
            now = wait(&mut queues, due, rhythm.spin)?;
        }
        lags.push(i64::try_from((now - due).0).unwrap_or(i64::MAX));
    }
    Ok(Lag {
        lag: Spread::of(lags),
        waits,
        cpu: machine::own_cpu()?.since(cpu),
    })
}

/// Sleeps until `spin` before the deadline, reads the clock for the rest. Answers with the time.
#[inline]
pub(crate) fn wait(queues: &mut Queues<'_>, due: Nanos, spin: Nanos) -> io::Result<Nanos> {
    queues.wait(Some(due - spin))?;
    loop {
        let now = MonotonicClock.now();
        if now >= due || due - now > spin {
            return Ok(now);
        }
        std::hint::spin_loop();
    }
}

/// When deadline `index` is due: computed from the index, so that no error adds up.
#[expect(clippy::cast_precision_loss, reason = "an index far below 2^53")]
pub(crate) fn due_at(rate: f64, index: u64) -> Nanos {
    Nanos::from_secs_f64(index as f64 / rate)
}

/// How many deadlines lie in a span.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and NaN becomes 0"
)]
pub(crate) fn due_before(rate: f64, span: Nanos) -> u64 {
    (rate * span.as_secs_f64()).ceil() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deadlines_follow_from_their_index() {
        assert_eq!(due_at(1000.0, 3), Nanos::from_millis(3));
        assert_eq!(due_at(3.0, 3_000_000_003), Nanos::from_secs(1_000_000_001));
        assert_eq!(due_before(1000.0, Nanos::from_millis(20)), 20);
        assert_eq!(due_before(f64::NAN, Nanos::from_millis(20)), 0);
    }

    #[test]
    fn every_deadline_is_met_and_none_early() {
        for spin in [Nanos::ZERO, Nanos::from_micros(20)] {
            let rhythm = Rhythm {
                rate: 2000.0,
                span: Nanos::from_millis(50),
                slack: Nanos(1),
                spin,
            };
            let met = sleep_through(rhythm).unwrap();
            assert_eq!(met.lag.count, 100);
            assert!(met.lag.min_ns >= 0 && met.lag.p50_ns <= met.lag.max_ns);
            assert!(met.waits >= 1);
        }
    }
}
