//! Time, as every other crate sees it: [`Nanos`] on one monotonic clock.
//!
//! What this is: the unit ([`Nanos`]), the stamp of received bytes ([`Arrival`]), the trait
//! [`Clock`] with the machine's clock ([`MonotonicClock`]) and a virtual one ([`SimClock`]), and
//! [`realtime_bracket`] and [`StampMap`], which relate the kernel's wall-clock stamps to it, and [`Timebase`], by which
//! two processes know whether they share it.
//!
//! [`parse_duration`] reads a span as people write it.
//!
//! What this is not: a timer, a calendar or a formatter. Nothing outside this crate reads a clock
//! (clippy's `disallowed_methods` sees to it), so that everything above runs on virtual time.
//!
//! ```
//! use ridgeline_clock::{Clock, Nanos, SimClock};
//! let clock = SimClock::new(Nanos::from_millis(5));
//! clock.advance_to(Nanos::from_millis(7));
//! assert_eq!(clock.now() - Nanos::from_millis(5), Nanos::from_millis(2));
//! ```
#![forbid(unsafe_code)]

mod machine;
mod nanos;
mod parse;
mod sim;
mod stamps;
mod timebase;

pub use machine::{Bracket, MonotonicClock, realtime_bracket, thread_cpu_time};
pub use nanos::{Arrival, Nanos};
pub use parse::{DurationError, parse_duration};
pub use sim::SimClock;
pub use stamps::{StampMap, stamped};
pub use timebase::{Timebase, monotonic_is_shifted};

/// A source of the current time.
pub trait Clock {
    /// The current time. Never earlier than an earlier answer of the same clock.
    fn now(&self) -> Nanos;
}
