use ridgeline_clock::Nanos;
use ridgeline_engine::{Exhausted, Http2Counts, Pace, RunResult, ShardReport};
use ridgeline_metrics::Collector;
use ridgeline_net::Counters;
use serde::{Deserialize, Serialize};

/// What one worker measured, on its way: times are ns since the start of the run, which is the same
/// moment for all of them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Share {
    measured_ns: u64,
    last_issue_ns: Option<u64>,
    last_done_ns: Option<u64>,
    ended_ns: u64,
    collector: Collector,
    never_sent: u64,
    submitted_in_window: u64,
    records_dropped: u64,
    /// Ports, descriptors, slots, buffers.
    exhausted: [bool; 4],
    /// Whether it was asked to end early.
    pub interrupted: bool,
    shards: Vec<ShardShare>,
}

/// One shard's own account.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ShardShare {
    worker: u32,
    core: Option<u32>,
    busy_fraction: f64,
    cpu_ns: u64,
    turns: u64,
    waited_ns: u64,
    stall_max_ns: u64,
    gather_max_ns: u64,
    driver_turns: u64,
    completions: u64,
    reads_all: u64,
    received_bytes: u64,
    sent_bytes: u64,
    out_of_buffers: u64,
    completions_overflowed: u64,
    stamps_discarded: u64,
    stamp_error_max_ns: u64,
    reads: u64,
    content_events: u64,
    connections_opened: u64,
    /// Connections, streams, unprocessed ones, and waits for windows: theirs, ours.
    http2: [u64; 5],
    carry_copies: u64,
}

impl Share {
    /// Of a run in this process.
    #[must_use]
    pub fn of(run: RunResult) -> Self {
        let start = run.started;
        let since = |at: Nanos| (at - start).0;
        let some = |at: Nanos| (at > Nanos::ZERO).then(|| since(at));
        let mut collector = run.collector;
        collector.rebase(start, Nanos::ZERO);
        let exhausted = run.exhausted;
        Self {
            measured_ns: since(run.measured),
            last_issue_ns: some(run.last_issue),
            last_done_ns: some(run.last_done),
            ended_ns: since(run.ended),
            collector,
            never_sent: run.never_sent,
            submitted_in_window: run.submitted_in_window,
            records_dropped: run.records_dropped,
            exhausted: [
                exhausted.ports,
                exhausted.descriptors,
                exhausted.slots,
                exhausted.buffers,
            ],
            interrupted: run.interrupted,
            shards: run.shards.iter().map(ShardShare::of).collect(),
        }
    }

    /// Its numbers.
    #[must_use]
    pub const fn collector(&self) -> &Collector {
        &self.collector
    }

    /// What it is on a clock that said `started` at the start of the run. `window_end` is the whole run's.
    #[must_use]
    pub fn into_result(self, started: Nanos, window_end: Nanos) -> RunResult {
        let at = |ns: u64| started + Nanos(ns);
        let some = |ns: Option<u64>| ns.map_or(Nanos::ZERO, at);
        let mut collector = self.collector;
        collector.rebase(Nanos::ZERO, started);
        let [ports, descriptors, slots, buffers] = self.exhausted;
        RunResult {
            started,
            measured: at(self.measured_ns),
            window_end,
            last_issue: some(self.last_issue_ns),
            last_done: some(self.last_done_ns),
            ended: at(self.ended_ns),
            collector,
            never_sent: self.never_sent,
            submitted_in_window: self.submitted_in_window,
            records_dropped: self.records_dropped,
            exhausted: Exhausted {
                ports,
                descriptors,
                slots,
                buffers,
            },
            interrupted: self.interrupted,
            shards: self.shards.into_iter().map(ShardShare::report).collect(),
        }
    }
}

impl ShardShare {
    fn of(shard: &ShardReport) -> Self {
        let (pace, counters) = (&shard.pace, &shard.counters);
        Self {
            worker: shard.worker,
            core: shard.core.and_then(|core| u32::try_from(core).ok()),
            busy_fraction: shard.busy_fraction,
            cpu_ns: shard.cpu.0,
            turns: pace.turns,
            waited_ns: pace.waited.0,
            stall_max_ns: pace.stall_max.0,
            gather_max_ns: pace.gather_max.0,
            driver_turns: counters.turns,
            completions: counters.completions,
            reads_all: counters.reads,
            received_bytes: counters.received_bytes,
            sent_bytes: counters.sent_bytes,
            out_of_buffers: counters.out_of_buffers,
            completions_overflowed: counters.completions_overflowed,
            stamps_discarded: counters.stamps_discarded,
            stamp_error_max_ns: counters.stamp_error_max.0,
            reads: shard.reads,
            content_events: shard.content_events,
            connections_opened: shard.connections_opened,
            http2: [
                shard.http2.connections,
                shard.http2.streams,
                shard.http2.unprocessed,
                shard.http2.send_stalls,
                shard.http2.receive_stalls,
            ],
            carry_copies: shard.carry_copies,
        }
    }

    fn report(self) -> ShardReport {
        let [
            connections,
            streams,
            unprocessed,
            send_stalls,
            receive_stalls,
        ] = self.http2;
        ShardReport {
            worker: self.worker,
            core: self.core.map(|core| core as usize),
            busy_fraction: self.busy_fraction,
            cpu: Nanos(self.cpu_ns),
            pace: Pace {
                turns: self.turns,
                waited: Nanos(self.waited_ns),
                stall_max: Nanos(self.stall_max_ns),
                // Why it stood still only its own process could tell.
                stall_ended: Nanos::ZERO,
                gather_max: Nanos(self.gather_max_ns),
            },
            counters: Counters {
                turns: self.driver_turns,
                completions: self.completions,
                reads: self.reads_all,
                received_bytes: self.received_bytes,
                sent_bytes: self.sent_bytes,
                out_of_buffers: self.out_of_buffers,
                completions_overflowed: self.completions_overflowed,
                stamps_discarded: self.stamps_discarded,
                stamp_error_max: Nanos(self.stamp_error_max_ns),
            },
            reads: self.reads,
            content_events: self.content_events,
            connections_opened: self.connections_opened,
            http2: Http2Counts {
                connections,
                streams,
                unprocessed,
                send_stalls,
                receive_stalls,
            },
            carry_copies: self.carry_copies,
        }
    }
}
