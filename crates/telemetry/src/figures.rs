use ridgeline_clock::Nanos;
use serde::{Deserialize, Serialize};

/// What the kernel says of one shard's thread, from the start of its measured phase to its end.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadFigures {
    /// The time between the two looks that the figures are of, ns.
    pub span_ns: u64,
    /// Time on the CPU, ns; `None`, like the next two, where the kernel keeps no such account.
    pub ran_ns: Option<u64>,
    /// Time in a run queue, runnable while something else ran, ns.
    pub queue_wait_ns: Option<u64>,
    /// Times it was put on the CPU.
    pub timeslices: Option<u64>,
    /// Context switches because it had nothing to do.
    pub switches_voluntary: Option<u64>,
    /// Context switches because something else was to run.
    pub switches_involuntary: Option<u64>,
    /// Page faults that needed no disk.
    pub faults_minor: u64,
    /// Page faults that did.
    pub faults_major: u64,
}

/// What the kernel says of the machine, from the start of the first shard's measured phase to the end of
/// the last. What a kernel does not tell is `None`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct MachineFigures {
    /// The time between the two looks that the figures are of, ns.
    pub span_ns: u64,
    /// The share of all cores' time that the hypervisor gave to others, 0 to 1.
    pub steal_share: Option<f64>,
    /// Each core that is online.
    pub cores: Vec<CoreFigures>,
    /// How long quotas of its cgroups held the client back, all cores together, ns; `None` without a
    /// quota.
    pub throttled_ns: Option<u64>,
    /// In how many periods of the quota.
    pub throttled_periods: Option<u64>,
    /// The frequency governor of the shards' cores, one name for each that differs; `None` where the
    /// kernel does not govern frequencies, as in most virtual machines.
    pub governor: Option<String>,
    /// TCP segments sent, by every program of the network namespace, like the next four.
    pub segments_sent: Option<u64>,
    /// TCP segments sent again.
    pub retransmits: Option<u64>,
    /// Connections that a listening socket had no room for.
    pub listen_drops: Option<u64>,
    /// Segments that a socket's backlog had no room for.
    pub backlog_drops: Option<u64>,
    /// Segments that a receive queue had no room for.
    pub receive_drops: Option<u64>,
}

/// How one core spent the time, shares of it, 0 to 1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CoreFigures {
    /// Its number.
    pub core: usize,
    /// Whether a shard ran on it.
    pub has_shard: bool,
    /// Something ran.
    pub busy_share: f64,
    /// Something ran that was no thread of this process: other programs, and interrupts.
    pub foreign_busy_share: f64,
    /// The hypervisor ran something else.
    pub steal_share: f64,
}

/// A share of a span, 0 to 1; 0 of no span.
pub(crate) fn share(of: Nanos, span: Nanos) -> f64 {
    if span == Nanos::ZERO {
        0.0
    } else {
        (of.as_secs_f64() / span.as_secs_f64()).min(1.0)
    }
}
