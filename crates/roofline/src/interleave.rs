//! Runs of several arms in turns, so that what drifts falls on all of them alike.

use std::io;
use std::thread;

use ridgeline_clock::{Clock, MonotonicClock, Nanos, thread_cpu_time};
use ridgeline_perf::machine;

use crate::Context;

/// What one run of an arm took.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spent {
    /// Of what is counted: bytes, requests, messages.
    pub(crate) items: f64,
    pub(crate) wall: Nanos,
    pub(crate) cpu: Nanos,
}

/// What one item costs: medians over an arm's runs.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    pub(crate) wall_ns: f64,
    pub(crate) cpu_ns: f64,
}

impl Cost {
    /// Items a second of the arm's CPU time.
    pub(crate) fn per_cpu_s(self) -> f64 {
        1e9 / self.cpu_ns
    }

    /// Items a second.
    pub(crate) fn per_s(self) -> f64 {
        1e9 / self.wall_ns
    }

    /// The cost of `count` items.
    pub(crate) fn times(self, count: f64) -> Self {
        Self {
            wall_ns: self.wall_ns * count,
            cpu_ns: self.cpu_ns * count,
        }
    }
}

/// An arm: a run of it.
pub(crate) type Arm<'a> = &'a mut dyn FnMut() -> io::Result<Spent>;

/// Runs the arms in turns, A B C C B A, `rounds` times. One run of each before that does not count.
///
/// # Errors
/// Those of the arms.
pub(crate) fn interleaved<const N: usize>(
    rounds: u32,
    mut arms: [Arm<'_>; N],
) -> io::Result<[Cost; N]> {
    for arm in &mut arms {
        arm()?;
    }
    let mut runs: [Vec<Spent>; N] = std::array::from_fn(|_| Vec::new());
    for _ in 0..rounds {
        for place in (0..N).chain((0..N).rev()) {
            runs[place].push(arms[place]()?);
        }
    }
    Ok(runs.map(|runs| Cost {
        wall_ns: median(runs.iter().map(|run| per_item(run.wall, run.items))),
        cpu_ns: median(runs.iter().map(|run| per_item(run.cpu, run.items))),
    }))
}

#[expect(clippy::cast_precision_loss, reason = "spans far below 2^53 ns")]
fn per_item(span: Nanos, items: f64) -> f64 {
    // A span of 0 would be an infinite speed: the clock's step is the least that was seen.
    span.0.max(1) as f64 / items
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    if values.len().is_multiple_of(2) && middle > 0 {
        f64::midpoint(values[middle - 1], values[middle])
    } else {
        values.get(middle).copied().unwrap_or(f64::NAN)
    }
}

/// Times one piece of work of the calling thread.
pub(crate) fn timed(items: f64, work: impl FnOnce()) -> Spent {
    let (wall, cpu) = (MonotonicClock.now(), thread_cpu_time());
    work();
    Spent {
        items,
        cpu: thread_cpu_time() - cpu,
        wall: MonotonicClock.now() - wall,
    }
}

/// An arm of passes that are each too short to be timed: as many of them a run as fill `span`.
/// `items`: of one pass.
pub(crate) fn repeating(
    items: f64,
    span: Nanos,
    mut pass: impl FnMut(),
) -> impl FnMut() -> io::Result<Spent> {
    pass();
    let one = timed(1.0, &mut pass).wall.max(Nanos(1));
    let passes = span.0.div_ceil(one.0).max(1);
    move || {
        #[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
        let items = items * passes as f64;
        Ok(timed(items, || (0..passes).for_each(|_| pass())))
    }
}

/// Runs `work` on a thread of its own on the core of clients, so that the caller's other sections
/// and children keep theirs.
///
/// # Errors
/// When the core can't be had, and those of the work.
pub(crate) fn on_client_core<T: Send>(
    context: &Context,
    work: impl FnOnce() -> io::Result<T> + Send,
) -> io::Result<T> {
    let core = context.client_core;
    thread::scope(|scope| {
        let thread = scope.spawn(move || {
            machine::pin(core)?;
            work()
        });
        thread
            .join()
            .map_err(|_| io::Error::other("a pass did not find what is there"))?
    })
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    #[test]
    fn arms_take_turns_and_costs_are_medians() {
        let order = RefCell::new(String::new());
        let arm = |name: char, walls: Vec<u64>| {
            let (order, mut walls) = (&order, walls.into_iter());
            move || {
                order.borrow_mut().push(name);
                Ok(Spent {
                    items: 2.0,
                    wall: Nanos(walls.next().unwrap()),
                    cpu: Nanos(8),
                })
            }
        };
        // The first of each is the one that does not count.
        let costs = interleaved(
            2,
            [
                &mut arm('a', vec![999, 10, 20, 30, 1_000]),
                &mut arm('b', vec![999, 2, 2, 2, 2]),
            ],
        )
        .unwrap();
        assert_eq!(order.into_inner(), "ababbaabba");
        assert_eq!((costs[0].wall_ns, costs[1].wall_ns), (12.5, 1.0));
        assert_eq!(costs[0].per_cpu_s(), 2.5e8);
        assert_eq!(costs[1].times(3.0).wall_ns, 3.0);
    }

    #[test]
    fn an_arm_that_fails_ends_the_comparison() {
        let mut fails = || Err(io::Error::other("no"));
        assert!(interleaved(1, [&mut fails]).is_err());
    }

    #[test]
    fn a_run_has_as_many_passes_as_its_items_say() {
        let passes = RefCell::new(0.0);
        let mut arm = repeating(3.0, Nanos::from_micros(50), || *passes.borrow_mut() += 1.0);
        *passes.borrow_mut() = 0.0;
        let spent = arm().unwrap();
        assert_eq!(spent.items, 3.0 * *passes.borrow());
    }
}
