use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread;

use ridgeline_clock::{Clock, MonotonicClock, Nanos, thread_cpu_time};
use ridgeline_metrics::{Collector, Phase};
use ridgeline_net::{Counters, Driver, DriverError};
use rtrb::Producer;

use crate::EngineError;
use crate::control::Control;
use crate::drive::{Pace, drive};
use crate::plan::Plan;
use crate::record::Record;
use crate::requests::Requests;
use crate::shard::{Exhausted, Shard, ShardResult};
use crate::streams::Http2Counts;
use crate::window::window;

/// How far ahead the common start of a phase lies, so that every shard is there in time.
const START_AHEAD: Nanos = Nanos::from_micros(200);

/// What one shard reports of itself.
#[derive(Clone, Copy, Debug)]
pub struct ShardReport {
    /// The worker that it was a shard of; 0 where there is only one process.
    pub worker: u32,
    /// The core it was pinned to.
    pub core: Option<usize>,
    /// Share of the measured phase that its thread was on the CPU, 0 to 1.
    pub busy_fraction: f64,
    /// CPU time of its thread in the measured phase.
    pub cpu: Nanos,
    /// How the measured phase was spent.
    pub pace: Pace,
    /// What its driver counted, over all phases.
    pub counters: Counters,
    /// Reads of its driver in the measured phase.
    pub reads: u64,
    /// Content events of its successes in the measured phase.
    pub content_events: u64,
    /// Connections it set up.
    pub connections_opened: u64,
    /// What those of HTTP/2 counted.
    pub http2: Http2Counts,
    /// Heads of cut events copied into a carry.
    pub carry_copies: u64,
}

/// Everything a run measured, over all shards.
#[derive(Debug)]
pub struct RunResult {
    /// When the first phase began: files count from here.
    pub started: Nanos,
    /// When the measured phase began.
    pub measured: Nanos,
    /// The end of the span in which submissions count for the achieved rate.
    pub window_end: Nanos,
    /// When the last request was issued.
    pub last_issue: Nanos,
    /// When the last response ended.
    pub last_done: Nanos,
    /// When the last shard was done.
    pub ended: Nanos,
    /// Merged numbers.
    pub collector: Collector,
    /// Requests due and never sent.
    pub never_sent: u64,
    /// Requests handed to the kernel before `window_end`.
    pub submitted_in_window: u64,
    /// Records that found their queue full.
    pub records_dropped: u64,
    /// What ran out.
    pub exhausted: Exhausted,
    /// Whether the run was asked to end early.
    pub interrupted: bool,
    /// Each shard's own account.
    pub shards: Vec<ShardReport>,
}

impl RunResult {
    /// Of a run that has begun and measured nothing yet.
    #[must_use]
    pub fn begun(plan: &Plan, started: Nanos, measured: Nanos, window: Nanos) -> Self {
        Self {
            started,
            measured,
            window_end: measured + window,
            last_issue: Nanos::ZERO,
            last_done: Nanos::ZERO,
            ended: Nanos::ZERO,
            collector: plan.collector(),
            never_sent: 0,
            submitted_in_window: 0,
            records_dropped: 0,
            exhausted: Exhausted::default(),
            interrupted: false,
            shards: Vec::new(),
        }
    }

    /// Adds what other shards of the same run measured: the counts are those of one process that had them
    /// all. Its stamps must be on the same clock.
    pub fn merge(&mut self, other: Self) {
        self.last_issue = self.last_issue.max(other.last_issue);
        self.last_done = self.last_done.max(other.last_done);
        self.ended = self.ended.max(other.ended);
        self.collector.merge(&other.collector);
        self.never_sent += other.never_sent;
        self.submitted_in_window += other.submitted_in_window;
        self.records_dropped += other.records_dropped;
        self.exhausted.merge(other.exhausted);
        self.interrupted |= other.interrupted;
        self.shards.extend(other.shards);
    }
}

/// When a phase begins where nobody else has a say: as soon as every shard can be there.
#[must_use]
pub fn soon(_: Phase) -> Nanos {
    MonotonicClock.now() + START_AHEAD
}

/// Meeting point of the shards between phases.
struct Gate<'a, S> {
    barrier: Barrier,
    start: AtomicU64,
    starts: &'a S,
}

impl<'a, S: Fn(Phase) -> Nanos> Gate<'a, S> {
    fn new(shards: u32, starts: &'a S) -> Self {
        Self {
            barrier: Barrier::new(shards as usize),
            start: AtomicU64::new(0),
            starts,
        }
    }

    /// Waits for all shards; they leave with one common start time.
    fn common_start(&self, phase: Phase) -> Nanos {
        if self.barrier.wait().is_leader() {
            self.start.store((self.starts)(phase).0, Ordering::Release);
        }
        self.barrier.wait();
        Nanos(self.start.load(Ordering::Acquire))
    }
}

/// What one shard's thread hands back.
pub(crate) struct ShardOutput {
    pub(crate) result: ShardResult,
    pub(crate) report: ShardReport,
    pub(crate) started: Nanos,
    pub(crate) measured: Nanos,
    pub(crate) ended: Nanos,
}

/// Runs this process's shards of the plan: one thread each, with the driver that `make_driver` builds on
/// it. `records`: one queue per such shard, or none. `starts` is asked when a phase begins, on this
/// machine's monotonic clock, once all of them are ready for it: [`soon`], or whoever coordinates
/// several processes. It may block; of a run that is cancelled meanwhile any time will do.
///
/// # Errors
/// When a driver can't be built or can't go on, or a thread can't be had.
pub fn run<D, F, S>(
    plan: &Arc<Plan>,
    requests: &Arc<Requests>,
    control: &Arc<Control>,
    records: Vec<Producer<Record>>,
    starts: S,
    make_driver: F,
) -> Result<RunResult, EngineError>
where
    D: Driver,
    F: Fn(&Plan, u32) -> Result<D, DriverError> + Sync,
    S: Fn(Phase) -> Nanos + Sync,
{
    let span = window(plan)?;
    let gate = Gate::new(plan.own_count(), &starts);
    let mut records: Vec<Option<Producer<Record>>> = records.into_iter().map(Some).collect();
    records.resize_with(plan.own_count() as usize, || None);
    let mut works = Vec::new();
    for (k, records) in plan.own_shards.clone().zip(records) {
        let shard = Shard::new(k, plan.clone(), requests.clone(), control.clone(), records)?;
        let (gate, make_driver) = (&gate, &make_driver);
        works.push((k, move || {
            run_shard(shard, k, plan, span, gate, control, make_driver)
        }));
    }
    Ok(merge(on_threads(works)?, plan, span, control))
}

/// Gives the work of each shard a thread of its own, and waits for all of them.
pub(crate) fn on_threads<W>(works: Vec<(u32, W)>) -> Result<Vec<ShardOutput>, EngineError>
where
    W: FnOnce() -> Result<ShardOutput, EngineError> + Send,
{
    thread::scope(|scope| {
        let mut threads = Vec::new();
        for (k, work) in works {
            let thread = thread::Builder::new().name(format!("shard-{k}"));
            let started = thread.spawn_scoped(scope, work);
            threads.push(started.map_err(EngineError::Thread)?);
        }
        let joined: Vec<_> = threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| EngineError::Panicked))
            .collect();
        joined
            .into_iter()
            .map(|joined| joined.and_then(|output| output))
            .collect()
    })
}

/// Settles shard `k`'s thread on its core, which is told, and makes its driver there.
pub(crate) fn settle<D, F>(
    plan: &Plan,
    k: u32,
    control: &Control,
    make_driver: &F,
) -> (Option<usize>, Result<D, EngineError>)
where
    F: Fn(&Plan, u32) -> Result<D, DriverError>,
{
    let place = k.saturating_sub(plan.own_shards.start) as usize;
    let core = plan
        .cores
        .as_ref()
        .and_then(|cores| cores.get(place).copied());
    // The kernel rounds a thread's waits up by 50 us unless told otherwise; a refusal only costs
    // that much lag, which the report shows.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let driver = core
        .map_or(Ok(()), pin)
        .and_then(|()| Ok(make_driver(plan, k)?))
        .inspect_err(|_| control.cancel());
    (core, driver)
}

fn run_shard<D, F, S>(
    mut shard: Shard,
    k: u32,
    plan: &Plan,
    span: Nanos,
    gate: &Gate<'_, S>,
    control: &Control,
    make_driver: &F,
) -> Result<ShardOutput, EngineError>
where
    D: Driver,
    F: Fn(&Plan, u32) -> Result<D, DriverError> + Sync,
    S: Fn(Phase) -> Nanos,
{
    // Every shard passes every gate, whatever happened to it: the others wait there.
    let (core, set_up) = settle(plan, k, control, make_driver);
    let warms_up = plan.warmup_requests > 0;
    let first = if warms_up {
        Phase::Warmup
    } else {
        Phase::Measured
    };
    if !warms_up {
        control.at_edge(k);
    }
    let started = gate.common_start(first);
    control.start(started);
    let warmed = set_up.and_then(|mut driver| {
        if warms_up {
            shard.begin_warmup(started)?;
            drive(&mut driver, &mut shard, &MonotonicClock).inspect_err(|_| control.cancel())?;
        }
        Ok(driver)
    });
    let measured = if warms_up {
        control.at_edge(k);
        gate.common_start(Phase::Measured)
    } else {
        started
    };
    let mut driver = warmed?;
    shard.begin_measured(measured, span)?;
    let output = finish(&mut driver, shard, core, control, [started, measured]);
    control.at_edge(k);
    output
}

/// Drives a shard to the end of its last phase, which began at `measured`, and accounts for it.
pub(crate) fn finish<D: Driver>(
    driver: &mut D,
    mut shard: Shard,
    core: Option<usize>,
    control: &Control,
    [started, measured]: [Nanos; 2],
) -> Result<ShardOutput, EngineError> {
    let reads_before = driver.counters().reads;
    let cpu_before = thread_cpu_time();
    let pace = drive(driver, &mut shard, &MonotonicClock).inspect_err(|_| control.cancel())?;
    let ended = MonotonicClock.now();
    let cpu = thread_cpu_time() - cpu_before;
    let counters = driver.counters();
    let result = shard.into_result();
    let report = ShardReport {
        worker: control.worker(),
        core,
        busy_fraction: busy_fraction(cpu, ended - measured),
        cpu,
        pace,
        counters,
        reads: counters.reads - reads_before,
        content_events: result.collector.content_events(),
        connections_opened: result.connections_opened,
        http2: result.http2,
        carry_copies: result.carry_copies,
    };
    Ok(ShardOutput {
        result,
        report,
        started,
        measured,
        ended,
    })
}

/// The share of `span` that a thread was on the CPU; 0 of a phase that ended before it began, as
/// when the warm-up was interrupted.
fn busy_fraction(cpu: Nanos, span: Nanos) -> f64 {
    if span == Nanos::ZERO {
        return 0.0;
    }
    (cpu.as_secs_f64() / span.as_secs_f64()).min(1.0)
}

/// Pins the calling thread to a core.
fn pin(id: usize) -> Result<(), EngineError> {
    // The library aborts on an id beyond the kernel's set, so only cores that exist reach it.
    let exists = core_affinity::get_core_ids().is_some_and(|ids| ids.iter().any(|c| c.id == id));
    if exists && core_affinity::set_for_current(core_affinity::CoreId { id }) {
        return Ok(());
    }
    Err(EngineError::Core(id))
}

pub(crate) fn merge(
    outputs: Vec<ShardOutput>,
    plan: &Plan,
    span: Nanos,
    control: &Control,
) -> RunResult {
    let first = outputs
        .first()
        .map_or((Nanos::ZERO, Nanos::ZERO), |o| (o.started, o.measured));
    let mut run = RunResult::begun(plan, first.0, first.1, span);
    run.interrupted = control.is_stopped();
    for output in outputs {
        let result = output.result;
        run.merge(RunResult {
            last_issue: result.last_issue,
            last_done: result.last_done,
            ended: output.ended,
            collector: result.collector,
            never_sent: result.never_sent,
            submitted_in_window: result.submitted_in_window,
            records_dropped: result.records_dropped,
            exhausted: result.exhausted,
            interrupted: false,
            shards: vec![output.report],
            started: output.started,
            measured: output.measured,
            window_end: run.window_end,
        });
    }
    run
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_phase_without_length_keeps_nobody_busy() {
        assert_eq!(busy_fraction(Nanos(500), Nanos::ZERO), 0.0);
        assert_eq!(busy_fraction(Nanos(500), Nanos(1_000)), 0.5);
        assert_eq!(busy_fraction(Nanos(1_001), Nanos(1_000)), 1.0);
    }
}
