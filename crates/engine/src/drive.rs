use ridgeline_clock::{Clock, Nanos};
use ridgeline_net::{Driver, DriverError};

use crate::gather::Gather;
use crate::shard::Shard;

/// How one shard spent a phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Pace {
    /// Turns of the driver.
    pub turns: u64,
    /// Time spent waiting in the kernel for something to happen.
    pub waited: Nanos,
    /// The longest stretch between two waits: nothing was sent or reaped meanwhile.
    pub stall_max: Nanos,
    /// When that was over.
    pub stall_ended: Nanos,
    /// The longest that waits were lengthened by, so that more came in one turn.
    pub gather_max: Nanos,
}

/// Runs a shard on a driver until its phase is done. A runtime that owns its loop is owned by its driver, and is
/// run from turn to turn.
///
/// # Errors
/// When the driver can't go on.
pub fn drive<D: Driver, C: Clock>(
    driver: &mut D,
    shard: &mut Shard,
    clock: &C,
) -> Result<Pace, DriverError> {
    let mut pace = Pace::default();
    let mut reaped = clock.now();
    let mut gather = Gather::new(reaped);
    driver.gather(Nanos::ZERO);
    loop {
        let now = clock.now();
        let deadline = shard.step(now, driver.commands());
        if shard.is_done() {
            pace.gather_max = gather.span_max();
            return Ok(pace);
        }
        let turn = driver.turn(deadline, shard)?;
        pace.turns += 1;
        pace.waited += turn.waited;
        let stretch = (turn.reaped - reaped) - turn.waited;
        if stretch > pace.stall_max {
            (pace.stall_max, pace.stall_ended) = (stretch, reaped + stretch);
        }
        reaped = turn.reaped;
        if let Some(span) = gather.after(&turn, || shard.stamped_gap()) {
            driver.gather(span);
        }
    }
}
