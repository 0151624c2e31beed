use std::sync::Arc;
use std::thread;

use ridgeline_clock::{Clock, MonotonicClock, Nanos, thread_cpu_time};
use ridgeline_net::{Driver, DriverError};

use crate::EngineError;
use crate::control::Control;
use crate::drive::drive;
use crate::feed::Feed;
use crate::plan::Plan;
use crate::requests::Requests;
use crate::run::{RunResult, ShardOutput, ShardReport, busy_fraction, merge, pin};
use crate::shard::Shard;

/// Runs shards that are fed, one thread and one of `feeds` each, until the feeds are over. What is in
/// flight at most, the bounds, the timeout and the target are the plan's; when requests start and what
/// they say is the feeds'.
///
/// After [`Control::stop`] all that was taken is done until the time given there, and cancelled then;
/// after [`Control::cancel`] at once. Either way every query has its record.
///
/// # Errors
/// When a driver can't be built or can't go on, or a thread can't be had.
pub fn serve<D, F>(
    plan: &Arc<Plan>,
    requests: &Arc<Requests>,
    control: &Arc<Control>,
    feeds: Vec<Feed>,
    make_driver: F,
) -> Result<RunResult, EngineError>
where
    D: Driver,
    F: Fn(&Plan, u32) -> Result<D, DriverError> + Sync,
{
    control.start(MonotonicClock.now());
    let outputs = thread::scope(|scope| {
        let mut threads = Vec::new();
        for (k, feed) in plan.own_shards.clone().zip(feeds) {
            let shard = Shard::new(k, plan.clone(), requests.clone(), control.clone(), None)?;
            let make_driver = &make_driver;
            let told = feed.told().clone();
            let body = move || {
                let output = serve_shard(shard, k, plan, feed, control, make_driver);
                // Its rings are gone now: who waits for more hears of it.
                told.ring();
                output
            };
            let thread = thread::Builder::new().name(format!("shard-{k}"));
            threads.push(
                thread
                    .spawn_scoped(scope, body)
                    .map_err(EngineError::Thread)?,
            );
        }
        let joined: Vec<_> = threads
            .into_iter()
            .map(|thread| thread.join().map_err(|_| EngineError::Panicked))
            .collect();
        joined
            .into_iter()
            .map(|joined| joined.and_then(|output| output))
            .collect()
    });
    let outputs: Result<Vec<ShardOutput>, EngineError> = outputs;
    Ok(merge(outputs?, plan, Nanos::MAX, control))
}

fn serve_shard<D, F>(
    mut shard: Shard,
    k: u32,
    plan: &Plan,
    feed: Feed,
    control: &Control,
    make_driver: &F,
) -> Result<ShardOutput, EngineError>
where
    D: Driver,
    F: Fn(&Plan, u32) -> Result<D, DriverError>,
{
    let core = plan
        .cores
        .as_ref()
        .and_then(|cores| cores.get(k as usize).copied());
    // As for a run: see there.
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
    let mut driver = core
        .map_or(Ok(()), pin)
        .and_then(|()| Ok(make_driver(plan, k)?))
        .inspect_err(|_| control.cancel())?;
    feed.bell().wakes_by(driver.waker());
    let started = MonotonicClock.now();
    shard.begin_fed(started, feed);
    let cpu_before = thread_cpu_time();
    let pace = drive(&mut driver, &mut shard, &MonotonicClock).inspect_err(|_| control.cancel())?;
    let ended = MonotonicClock.now();
    let cpu = thread_cpu_time() - cpu_before;
    let counters = driver.counters();
    let result = shard.into_result();
    let report = ShardReport {
        worker: control.worker(),
        core,
        busy_fraction: busy_fraction(cpu, ended - started),
        cpu,
        pace,
        counters,
        reads: counters.reads,
        content_events: result.collector.content_events(),
        connections_opened: result.connections_opened,
        carry_copies: result.carry_copies,
    };
    Ok(ShardOutput {
        result,
        report,
        started,
        measured: started,
        ended,
    })
}
