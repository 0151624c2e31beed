//! What the machine has room for: ports, descriptors, and the embedded server's connections.

use std::ops::Range;

use ridgeline_engine::{Connections, Load, Plan};
use ridgeline_net::Peer;

use crate::backend::Backend;
use crate::complaint::Complaint;
use crate::config::BenchConfig;
use crate::endpoint::Endpoint;
use crate::machine;

/// How long Linux keeps the port of a connection that this side closed first.
const TIME_WAIT_S: f64 = 60.0;

/// What the machine has room for.
pub(crate) struct Room {
    /// Connections at one time by their ports, over all shards; none for a unix socket.
    ports: Option<u64>,
    /// Why so many.
    ports_of: String,
    /// Connections of one shard, or of all where they have the process's descriptors.
    descriptors: u64,
    pub(crate) backend: Backend,
    shards: u32,
    /// Connections that the embedded server takes.
    mock: Option<u32>,
}

impl Room {
    pub(crate) fn new(
        endpoint: &Endpoint,
        config: &BenchConfig,
        backend: Backend,
        shards: u32,
    ) -> Self {
        let (range, peers) = (machine::ports(), &endpoint.peers);
        let sources = config.source_addresses.len();
        // Other drivers bind a source before the destination is known: one range for all of them.
        let peers_counted = if backend != Backend::Uring && sources > 0 {
            1
        } else {
            peers.len()
        };
        let unix = peers.iter().any(|peer| matches!(peer, Peer::Unix(_)));
        let pairs = (sources.max(1) * peers_counted) as u64;
        Self {
            ports: (!unix).then_some(range * pairs),
            ports_of: match pairs {
                1 => String::new(),
                pairs => format!(" ({range} for each of {pairs} pairs of addresses)"),
            },
            descriptors: machine::descriptors(),
            backend,
            shards,
            mock: endpoint.connections_max(),
        }
    }

    /// Whether all shards take descriptors from one table.
    fn is_shared(&self) -> bool {
        self.backend != Backend::Uring
    }

    /// The budget of ports, after other words: `, 28232 local ports`.
    pub(crate) fn words(&self) -> String {
        let words = |ports| format!(", {ports} local ports{}", self.ports_of);
        self.ports.map_or_else(String::new, words)
    }

    /// Whether connections that are closed keep the ports longer than the load leaves them.
    pub(crate) fn note(&self, plan: &Plan) -> Option<String> {
        let Load::Open { schedule, .. } = &plan.load else {
            return None;
        };
        let rates = schedule.stages.iter().map(|stage| stage.rate_per_s);
        let rate = rates.fold(0.0, f64::max);
        let ports = self
            .ports
            .filter(|_| plan.connections == Connections::PerRequest)?;
        (rate * TIME_WAIT_S > ports as f64).then(|| {
            format!(
                "a connection per request at {rate}/s takes {:.0} local ports, as the system keeps those of \
                 closed connections for up to {TIME_WAIT_S:.0} s, and there are {ports}: name more \
                 --source-addresses, or expect requests to wait for ports",
                rate * TIME_WAIT_S
            )
        })
    }

    /// `wanted` requests in flight, or as many as there is room for.
    pub(crate) fn in_flight(&self, wanted: u32) -> u32 {
        let by_descriptors = if self.is_shared() {
            self.descriptors
        } else {
            self.descriptors * u64::from(self.shards)
        };
        // A shard has more connections than slots: see `Limits::connections`.
        let spare = 16 * u64::from(self.shards);
        let by_descriptors = by_descriptors.saturating_sub(spare) / 17 * 16;
        let room = self.ports.unwrap_or(u64::MAX).min(by_descriptors).max(1);
        let mock = self.mock.unwrap_or(u32::MAX);
        wanted
            .min(u32::try_from(room).unwrap_or(u32::MAX))
            .min(mock)
    }

    pub(crate) fn check(&self, plan: &Plan) -> Result<(), Complaint> {
        let sum = |shards: Range<u32>| -> u64 { shards.map(|k| u64::from(plan.slots_of(k))).sum() };
        let slots = sum(0..plan.shards);
        if slots < u64::from(plan.shards) {
            return Err(Complaint::new(format!(
                "{slots} requests in flight leave some of {} shards without any: raise \
                 --concurrency, or use fewer --shards or --cores",
                plan.shards
            )));
        }
        // The others have their own.
        let slots = sum(plan.own_shards.clone());
        if let Some(ports) = self.ports.filter(|&ports| slots > ports) {
            return Err(Complaint::new(format!(
                "{slots} requests in flight need as many local ports, and there are {ports}{}: \
                 name more --source-addresses (on loopback 127.0.0.2, 127.0.0.3, ...), widen \
                 net.ipv4.ip_local_port_range, or lower --concurrency",
                self.ports_of
            )));
        }
        let slots = sum(0..plan.shards);
        if let Some(mock) = self.mock.filter(|&mock| slots > u64::from(mock)) {
            return Err(Complaint::new(format!(
                "{slots} requests in flight need as many connections, and the embedded server takes \
                 {mock}: lower --concurrency, raise the hard limit on descriptors (ulimit -Hn), or measure \
                 a server of its own: ridgeline mock-server --connections-max N"
            )));
        }
        let of = |k| u64::from(plan.connections_of(k));
        let own = || plan.own_shards.clone();
        let needed = if self.is_shared() {
            own().map(of).sum()
        } else {
            own().map(of).max().unwrap_or(0)
        };
        if needed > self.descriptors {
            let (whose, more) = if self.is_shared() {
                (
                    "this process",
                    "use --driver uring (with this driver each connection is a descriptor of the process; \
                     rings have tables of their own), ",
                )
            } else {
                (
                    "each shard",
                    "leave --shards out (as many are started as are needed), ",
                )
            };
            return Err(Complaint::new(format!(
                "{whose} needs {needed} descriptors, and the limit leaves {} beside {} for other things: \
                 {more}raise the hard limit (ulimit -Hn), or lower --concurrency",
                self.descriptors,
                machine::DESCRIPTORS_SPARE
            )));
        }
        Ok(())
    }
}
