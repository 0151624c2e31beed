use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;

use ridgeline_clock::Nanos;
use ridgeline_metrics::{Collector, Slo};
use ridgeline_net::Peer;
use ridgeline_schedule::{ScheduleSpec, StopRule};
use ridgeline_tls::Client;
use ridgeline_wire::openai::EndpointType;
use ridgeline_workload::Order;

use crate::limits::Limits;
use crate::list::List;
use crate::spread::Spread;
use crate::streams::Http2;
use crate::waits::{Connections, Waits};

/// The shape of the load: what makes a request start.
#[derive(Clone, Debug, PartialEq)]
pub enum Load {
    /// A request starts when the previous one of its slot is done.
    Closed {
        /// Requests in flight, over all shards.
        concurrency: u32,
    },
    /// A request starts when the schedule says so, whatever came of the earlier ones.
    Open {
        /// The global schedule.
        schedule: ScheduleSpec,
        /// At most this many in flight over all shards; what is due beyond it waits.
        concurrency_cap: Option<u32>,
    },
    /// Everything is due at the start.
    Offline {
        /// Requests in flight, over all shards.
        concurrency: u32,
    },
}

impl Load {
    /// Whether arrivals come by a schedule of times.
    #[must_use]
    pub const fn is_timed(&self) -> bool {
        matches!(self, Self::Open { .. })
    }

    /// When the stages of its schedule end, from the start of the measured phase, of a run that issues for
    /// `duration` at the most; empty without a schedule.
    #[must_use]
    pub fn stage_ends(&self, duration: Option<Nanos>) -> Vec<Nanos> {
        let Self::Open { schedule, .. } = self else {
            return Vec::new();
        };
        let whole = duration.unwrap_or(Nanos::MAX);
        let mut begun = Nanos::ZERO;
        let mut ends = Vec::new();
        for stage in &schedule.stages {
            if begun >= whole {
                break;
            }
            let span = stage.duration.unwrap_or(Nanos::MAX);
            begun = Nanos(begun.0.saturating_add(span.0)).min(whole);
            ends.push(begun);
        }
        ends
    }

    /// The requests in flight that the load asks for, over all shards; none for an open loop.
    #[must_use]
    pub const fn concurrency(&self) -> Option<u32> {
        match self {
            Self::Closed { concurrency } | Self::Offline { concurrency } => Some(*concurrency),
            Self::Open { .. } => None,
        }
    }
}

/// Where requests go, and from where.
#[derive(Clone, Debug)]
pub struct Target {
    /// The addresses of the endpoint, used in turn by new connections. At least one; those of several
    /// endpoints one after the other.
    pub peers: Vec<Peer>,
    /// Local addresses to connect from, used in turn by new connections. Empty: the kernel's
    /// choice.
    pub sources: Vec<IpAddr>,
    /// What connections are secured by; `None`: they are in the clear. Of several endpoints: [`Spread::tls`].
    pub tls: Option<Arc<Client>>,
    /// The endpoints, where there are several; else all addresses are those of one.
    pub spread: Option<Spread>,
    /// Whether and how HTTP/2 is spoken: by prior knowledge in the clear, and behind TLS as the server chooses.
    /// `None`: HTTP/1.1.
    pub http2: Option<Http2>,
}

impl Target {
    /// How many endpoints there are.
    #[must_use]
    pub fn endpoints(&self) -> usize {
        self.spread
            .as_ref()
            .map_or(1, |spread| spread.endpoints.len())
    }

    /// What connections to an endpoint are secured by, if they are.
    pub(crate) fn tls_of(&self, endpoint: u16) -> Option<&Arc<Client>> {
        match &self.spread {
            None => self.tls.as_ref(),
            Some(spread) => spread.tls.get(usize::from(endpoint))?.as_ref(),
        }
    }

    fn clients(&self) -> impl Iterator<Item = &Arc<Client>> {
        let each = match &self.spread {
            None => std::slice::from_ref(&self.tls),
            Some(spread) => spread.tls.as_slice(),
        };
        each.iter().flatten()
    }

    /// Whether connections to an endpoint go through TLS.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.clients().next().is_some()
    }

    /// Where that is so: whether the certificates are checked.
    #[must_use]
    pub fn is_checked(&self) -> Option<bool> {
        self.is_secure()
            .then(|| self.clients().all(|client| client.is_checked()))
    }
}

/// The validated, immutable description of a run. Times are spans.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Where requests go.
    pub target: Target,
    /// What an answer looks like.
    pub endpoint: EndpointType,
    /// Whether streamed answers are asked for.
    pub streaming: bool,
    /// What makes a request start.
    pub load: Load,
    /// When no more are started. At least one of its rules is set.
    pub stop: StopRule,
    /// The global index of the first request: 0, unless the run goes on where an earlier one of the same
    /// prompts ended. No two requests of such runs have the same name, and none repeats a prompt before
    /// all have been sent.
    pub first_index: u64,
    /// Requests issued, and drained, before the measured phase, over all shards.
    pub warmup_requests: u64,
    /// The deadline of a whole request, from its first action.
    pub timeout: Nanos,
    /// Limits on the parts of a request, and requests that are given up on purpose.
    pub waits: Waits,
    /// What becomes of a connection when its request is over.
    pub connections: Connections,
    /// How long requests in flight may go on after the last issue; then they are cancelled.
    pub drain_timeout: Nanos,
    /// The order in which samples are taken.
    pub order: Order,
    /// Service levels that goodput judges requests by.
    pub slos: Vec<Slo>,
    /// Whether the text of answers is kept in the records.
    pub save_text: bool,
    /// Whether output tokens that the server does not count are to be counted from the records
    /// after the run; needs `save_text`.
    pub count_later: bool,
    /// Whether the arrival of every content event is kept in the records.
    pub save_events: bool,
    /// Whether the kernel's receive stamps are used.
    pub rx_timestamps: bool,
    /// Shards of the whole run: threads, each with a driver of its own. What each of them does follows
    /// from this number and its own place alone, wherever the others are.
    pub shards: u32,
    /// Those of them that run in this process; the others run in other ones.
    pub own_shards: Range<u32>,
    /// The core of each shard of this process; `None` leaves them unpinned.
    pub cores: Option<Vec<usize>>,
    /// A share of the name of every request (`X-Request-Id`), the same for the whole run.
    pub run_id: u32,
    /// Every bound of the run.
    pub limits: Limits,
}

impl Plan {
    /// An empty collector for one shard of it, or for all of them.
    #[must_use]
    pub fn collector(&self) -> Collector {
        let stage_ends = self.load.stage_ends(self.stop.duration);
        let collector = Collector::new(&self.slos).in_stages(&stage_ends);
        match self.target.endpoints() {
            1 => collector,
            several => collector.with_endpoints(several),
        }
    }

    /// How many shards run in this process.
    #[must_use]
    pub fn own_count(&self) -> u32 {
        self.own_shards.end.saturating_sub(self.own_shards.start)
    }

    /// Shard `k`'s share of `total` things dealt out in turn to all shards.
    #[must_use]
    pub fn share(&self, total: u64, k: u32) -> u64 {
        let shards = u64::from(self.shards);
        total / shards + u64::from(u64::from(k) < total % shards)
    }

    /// Connections that shard `k` has room for. Of several endpoints, those that rest at one are of no use to
    /// the others, as those of a session are.
    #[must_use]
    pub fn connections_of(&self, k: u32) -> u32 {
        let slots = self.slots_of(k);
        let apart = self.target.endpoints() > 1 || self.connections == Connections::PerSession;
        let more = if apart { slots } else { 0 };
        self.limits.connections(slots).saturating_add(more)
    }

    /// Bytes of memory that shard `k` takes to tell several endpoints apart.
    #[must_use]
    pub fn spread_bytes(&self, k: u32) -> u64 {
        let lists = self.target.endpoints().saturating_sub(1) * List::LINK_BYTES;
        lists as u64 * u64::from(self.connections_of(k))
    }

    /// The slots of shard `k`: requests it may have in flight.
    #[must_use]
    pub fn slots_of(&self, k: u32) -> u32 {
        let total = match &self.load {
            Load::Closed { concurrency } | Load::Offline { concurrency } => *concurrency,
            Load::Open {
                concurrency_cap, ..
            } => concurrency_cap.unwrap_or(self.limits.slots),
        };
        u32::try_from(self.share(u64::from(total), k)).unwrap_or(u32::MAX)
    }
}
