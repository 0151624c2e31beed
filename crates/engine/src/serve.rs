use std::sync::Arc;

use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use ridgeline_net::{Driver, DriverError};

use crate::EngineError;
use crate::control::Control;
use crate::feed::Feed;
use crate::plan::Plan;
use crate::requests::Requests;
use crate::run::{RunResult, ShardOutput, finish, merge, on_threads, settle};
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
    let mut works = Vec::new();
    for (k, feed) in plan.own_shards.clone().zip(feeds) {
        let shard = Shard::new(k, plan.clone(), requests.clone(), control.clone(), None)?;
        let make_driver = &make_driver;
        let told = feed.told().clone();
        works.push((k, move || {
            let output = serve_shard(shard, k, plan, feed, control, make_driver);
            // Its rings are gone now: who waits for more hears of it.
            told.ring();
            output
        }));
    }
    Ok(merge(on_threads(works)?, plan, Nanos::MAX, control))
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
    let (core, driver) = settle(plan, k, control, make_driver);
    let mut driver = driver?;
    feed.bell().wakes_by(driver.waker());
    control.at_edge(k);
    let started = MonotonicClock.now();
    shard.begin_fed(started, feed);
    let output = finish(&mut driver, shard, core, control, [started, started]);
    control.at_edge(k);
    output
}
