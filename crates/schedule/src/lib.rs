//! When requests start: arrival processes in stages, their division among shards, stop rules.
//!
//! What this is: one *global* schedule, fixed by a [`ScheduleSpec`] alone. [`Arrivals`] walks it;
//! [`Share`] walks it for shard k of K and yields every K-th arrival, so that request `i` is due at
//! the same nanosecond on any number of shards, processes and hosts. [`StopRule`] says when to stop
//! issuing. [`Source`] is where its random gaps come from, for others who need such gaps.
//!
//! What this is not: a timer or a pacer. It reads no clock and knows no completion; a closed loop
//! takes its due times from completions and uses only [`share_of`] and [`StopRule`] from here.
//!
//! The schedule is bit-exact across machines: the generator is pinned (PCG XSL-RR 128/64 MCG), one
//! software implementation of `log` and `pow` is used everywhere, the rest is IEEE 754 arithmetic
//! that Rust neither reorders nor fuses, and times are accumulated without drift.
//!
//! ```
//! use ridgeline_clock::Nanos;
//! use ridgeline_schedule::{Arrivals, Pattern, ScheduleSpec, Share, Stage};
//!
//! let spec = ScheduleSpec {
//!     stages: vec![Stage { rate_per_s: 4.0, pattern: Pattern::Constant, duration: None }],
//!     seed: 1,
//! };
//! let second_of_two = Share::new(Arrivals::new(&spec)?, 1, 2);
//! let due: Vec<_> = second_of_two.take(2).map(|due| (due.index, due.at)).collect();
//! assert_eq!(due, [(1, Nanos::from_millis(250)), (3, Nanos::from_millis(750))]);
//! # Ok::<(), ridgeline_schedule::ScheduleError>(())
//! ```
#![forbid(unsafe_code)]

mod arrivals;
mod random;
mod share;
mod spec;
mod stop;

pub use arrivals::{Arrivals, Due};
pub use random::{Gamma, Source};
pub use share::{Share, share_of};
pub use spec::{
    Pattern, RATE_PER_S_MAX, RATE_PER_S_MIN, SHAPE_MAX, SHAPE_MIN, ScheduleError, ScheduleSpec,
    Stage,
};
pub use stop::StopRule;
