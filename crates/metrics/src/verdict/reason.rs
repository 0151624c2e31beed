use serde::{Deserialize, Serialize, Serializer};

use super::Status;

/// Which row of the table a reason comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    /// Timed load: fewer requests submitted in the window than the schedule produced.
    Rate,
    /// Timed load: the median schedule lag.
    LagMedian,
    /// Timed load: the share of requests that started late.
    LagShare,
    /// Timed load: the 99th percentile of the schedule lag.
    LagP99,
    /// Requests due that were not sent before the end.
    NeverSent,
    /// Closed loop: the effective concurrency.
    Concurrency,
    /// A rate with a cap: requests that waited under it.
    Capped,
    /// Streams: how late, or how vaguely, events were stamped.
    HarnessDelay,
    /// Handing requests to the kernel took long.
    Send,
    /// A shard had hardly any idle time.
    Busy,
    /// A shard stood still for long.
    Stall,
    /// Ports, descriptors, buffers or the pool ran out.
    Resources,
    /// Servers had to wait for a window of the client (HTTP/2).
    Windows,
    /// The client and the embedded server shared a core.
    SharedCore,
    /// Workers that did not do their share of the run to its end.
    Workers,
    /// The error rate.
    Errors,
    /// Requests cancelled by the drain deadline.
    Censored,
    /// Records that were dropped.
    Records,
    /// Too few samples, or too short a run.
    Samples,
}

impl Code {
    /// Whether it says that the client itself was at a limit, whatever the server did.
    pub(super) fn is_clients(self) -> bool {
        match self {
            Self::Concurrency
            | Self::HarnessDelay
            | Self::Send
            | Self::Busy
            | Self::Stall
            | Self::Resources
            | Self::Windows
            | Self::SharedCore
            | Self::Workers
            | Self::Records => true,
            Self::Rate
            | Self::LagMedian
            | Self::LagShare
            | Self::LagP99
            | Self::NeverSent
            | Self::Capped
            | Self::Errors
            | Self::Censored
            | Self::Samples => false,
        }
    }

    /// Whether one moment of the run is enough for it.
    pub(super) fn is_of_a_moment(self) -> bool {
        matches!(self, Self::HarnessDelay | Self::Send | Self::Stall)
    }

    /// Whether it says that the load was not reached, as it also is when the endpoint takes no
    /// connections.
    pub(super) fn is_of_the_load(self) -> bool {
        matches!(self, Self::Rate | Self::Concurrency)
    }

    /// Whether it says that the schedule was not followed.
    pub(super) fn is_schedules(self) -> bool {
        matches!(
            self,
            Self::Rate | Self::LagMedian | Self::LagShare | Self::LagP99 | Self::NeverSent
        )
    }
}

/// What the numbers of a reason are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// A number of things.
    Count,
    /// A share, 0 to 1.
    Share,
}

/// One limit that was passed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Reason {
    /// Which.
    pub code: Code,
    /// How bad it is.
    pub status: Status,
    /// What was found, in a sentence.
    pub message: String,
    /// The value found.
    #[serde(serialize_with = "whole_if_possible")]
    pub value: f64,
    /// The limit it passed.
    #[serde(serialize_with = "whole_if_possible")]
    pub limit: f64,
    /// The unit of both.
    pub unit: Unit,
    /// What to do about it, in a sentence.
    pub remedy: String,
}

/// Durations and counts are whole numbers in a report, not `5000000.0`.
#[expect(
    clippy::cast_possible_truncation,
    reason = "checked to be whole and small enough"
)]
fn whole_if_possible<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
    const EXACT_MAX: f64 = (1_u64 << 53) as f64;
    if value.fract() == 0.0 && value.abs() < EXACT_MAX {
        serializer.serialize_i64(*value as i64)
    } else {
        serializer.serialize_f64(*value)
    }
}
