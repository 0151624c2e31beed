use std::fmt;

use serde::{Deserialize, Serialize};

/// What is pooled in a [`crate::Distribution`]. The names are those of a report, without `_ns`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Metric {
    /// [`crate::Timeline::latency`], of successes.
    Latency,
    /// [`crate::Timeline::latency_from_schedule`], of successes.
    LatencyFromSchedule,
    /// [`crate::Timeline::ttft`], of streamed successes.
    Ttft,
    /// [`crate::Timeline::ttft_from_schedule`], of streamed successes.
    TtftFromSchedule,
    /// [`crate::Timeline::ttfo`], of streamed successes.
    Ttfo,
    /// [`crate::Finished::tpot`], of streamed successes, to the nearest ns.
    Tpot,
    /// Inter-token latency: the gaps between content events, spread over the tokens of the event
    /// when the count is known, pooled over all tokens of streamed successes.
    ///
    /// aiperf and guidellm have a mean per request under this name; vllm bench has [`Metric::Icl`].
    Itl,
    /// Inter-chunk latency: the gaps between content events, pooled. As aiperf's
    /// `inter_chunk_latency` and what vllm bench calls ITL.
    Icl,
    /// How long a new connection took, of successes that needed one.
    Connect,
    /// How long the TLS handshake of a new connection took, of successes that needed one: from when the
    /// connection was up to the arrival of the server's last word. Resumed ones are shorter.
    Tls,
    /// [`crate::Timeline::schedule_lag`] without the wait under a concurrency cap, of every measured
    /// request, however it ended: it judges the client. Like inference-perf's `schedule_delay`.
    ScheduleLag,
    /// The wait for a free connection, of every measured request.
    PoolWait,
    /// The wait under a rate's concurrency cap, of every measured request.
    CapWait,
    /// From the clock reading just before a request's bytes were handed over to the driver's word that the
    /// kernel took them, of every measured request that was answered at the first attempt. Part of TTFT; an
    /// upper bound, since the word is heard when the shard looks next.
    Send,
    /// Per content event: taken from the driver - arrived.
    HarnessDelay,
    /// Per content event: how much earlier than its stamp it may have come, because the events of a
    /// read share one. That of the last event of a read is its own: zero.
    StampWidth,
}

impl Metric {
    /// All of them, in the order of a report.
    pub const ALL: [Self; 16] = [
        Self::Latency,
        Self::LatencyFromSchedule,
        Self::Ttft,
        Self::TtftFromSchedule,
        Self::Ttfo,
        Self::Tpot,
        Self::Itl,
        Self::Icl,
        Self::Connect,
        Self::Tls,
        Self::ScheduleLag,
        Self::PoolWait,
        Self::CapWait,
        Self::Send,
        Self::HarnessDelay,
        Self::StampWidth,
    ];

    /// Those an SLO may limit.
    pub const JUDGED: [Self; 8] = [
        Self::Latency,
        Self::LatencyFromSchedule,
        Self::Ttft,
        Self::TtftFromSchedule,
        Self::Ttfo,
        Self::Tpot,
        Self::Itl,
        Self::Icl,
    ];

    /// The name in reports and SLOs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Latency => "latency",
            Self::LatencyFromSchedule => "latency_from_schedule",
            Self::Ttft => "ttft",
            Self::TtftFromSchedule => "ttft_from_schedule",
            Self::Ttfo => "ttfo",
            Self::Tpot => "tpot",
            Self::Itl => "itl",
            Self::Icl => "icl",
            Self::Connect => "connect",
            Self::Tls => "tls",
            Self::ScheduleLag => "schedule_lag",
            Self::PoolWait => "pool_wait",
            Self::CapWait => "cap_wait",
            Self::Send => "send",
            Self::HarnessDelay => "harness_delay",
            Self::StampWidth => "stamp_width",
        }
    }

    /// The names that peers give to what an SLO may limit: aiperf, vllm bench, inference-perf.
    pub(crate) const PEER_NAMES: [(&'static str, Self); 10] = [
        ("e2el", Self::Latency),
        ("e2e", Self::Latency),
        ("e2e_latency", Self::Latency),
        ("request_latency", Self::Latency),
        ("time_to_first_token", Self::Ttft),
        ("time_to_first_output_token", Self::Ttfo),
        ("time_per_output_token", Self::Tpot),
        ("inter_token_latency", Self::Itl),
        ("inter_chunk_latency", Self::Icl),
        ("latency_e2e", Self::Latency),
    ];
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
