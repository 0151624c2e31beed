use ridgeline_clock::Timebase;
use serde::{Deserialize, Serialize};

use super::Header;
use crate::RunClock;

/// How the stamps of the client and those of the server compare.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// By which clock.
    pub kind: ClockKind,
    /// The server's start less the run's, on that clock: what to add to a stamp of the truth file to
    /// get the run's time.
    pub offset_ns: i64,
    /// The largest error of the offset that is known: 0 on one clock, else that of reading the two wall
    /// clocks. How far those are apart is not known here, and not in it.
    pub error_ns: u64,
}

/// The clock that both sides have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ClockKind {
    /// One machine, one boot: `CLOCK_MONOTONIC` itself.
    Monotonic,
    /// Two machines, or two boots of one: the time of day.
    Realtime,
}

impl Clock {
    /// Of a run and the server it ran against.
    #[must_use]
    pub fn between(run: &RunClock, server: &Header) -> Self {
        let client = Timebase {
            boot_id: run.boot_id.clone(),
            time_namespace: run.time_namespace.clone(),
        };
        let server = &server.clock;
        let other = Timebase {
            boot_id: server.boot_id.clone(),
            time_namespace: server.time_namespace.clone(),
        };
        if client.is_that_of(&other) {
            return Self {
                kind: ClockKind::Monotonic,
                offset_ns: difference(server.start_monotonic_ns, run.start_monotonic_ns),
                error_ns: 0,
            };
        }
        Self {
            kind: ClockKind::Realtime,
            offset_ns: difference(server.start_realtime_ns, run.start_realtime_ns),
            error_ns: run
                .realtime_error_ns
                .saturating_add(server.realtime_error_ns),
        }
    }
}

/// `a - b`; at the ends of the range where it does not fit.
pub(super) fn difference(a: u64, b: u64) -> i64 {
    let size = i64::try_from(a.abs_diff(b)).unwrap_or(i64::MAX);
    if a >= b { size } else { -size }
}
