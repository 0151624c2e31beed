//! Which load to measure next: the knee of a closed loop, the highest rate that meets its service
//! levels, how often to repeat, and where the steady part of a run begins.
//!
//! What this is: state machines that are told what a window of load showed and answer with the next
//! window, or that they are done ([`Knee`], [`MaxRate`], [`Repeats`]); what they are told, made from
//! the requests of a run ([`ClosedWindow`], [`OpenWindow`]); and the statistics below both
//! ([`Estimate`], [`Tally`], [`mser5`], [`Trend`]).
//!
//! What this is not: a clock, a socket or a load. It draws nothing at random: the same tellings give the
//! same answers. Times are seconds after the start of a run.
//!
//! Four rules hold for every search. A window that was ended early or that its own client limited is no
//! bound. What an interval can't tell apart is measured for longer, up to a cap, and is *unresolved*
//! then, which is no bound either. What grows as long as it is measured has no steady state, and does
//! not meet a service level. The answer is always a level that was measured.
//!
//! ```
//! use ridgeline_search::{ClosedWindow, Ending, Finished, Knee, KneeOptions, Outcome};
//!
//! // A server of 12 places that takes 100 ms for each request, measured without any noise.
//! let serve = |level: u32, requests: u64| {
//!     let round = 0.1 * f64::from(level.max(12)) / 12.0;
//!     let finished = |n: u64| {
//!         let rounds = (n / u64::from(level)) as f64;
//!         Finished { submitted_s: rounds * round, done_s: (rounds + 1.0) * round }
//!     };
//!     let all: Vec<Finished> = (0..requests).map(finished).collect();
//!     let last_issue_s = all.last().map_or(0.0, |last| last.submitted_s);
//!     ClosedWindow::new(level, f64::from(level), last_issue_s, &all)
//! };
//! let mut knee = Knee::new(KneeOptions::up_to(1_024));
//! while let Some(window) = knee.next() {
//!     knee.tell(match serve(window.level, window.requests) {
//!         Some(shown) => Outcome::Sound(shown),
//!         None => Outcome::Aborted,
//!     });
//! }
//! let found = knee.finding();
//! assert_eq!((found.ending, found.knee), (Ending::Found, Some(12)));
//! ```
#![forbid(unsafe_code)]

mod closed;
mod estimate;
mod knee;
mod max_rate;
mod open;
mod outcome;
mod repeats;
mod steady;
mod tally;

pub use closed::{ClosedWindow, Finished};
pub use estimate::{CONFIDENCE, Estimate};
pub use knee::{Knee, KneeFinding, KneeOptions, Rung, RungState, Window};
pub use max_rate::{MaxRate, MaxRateFinding, MaxRateOptions, Probe, Probed, Standing};
pub use open::{Arrival, OpenWindow, SECTIONS};
pub use outcome::{Ending, Outcome};
pub use repeats::Repeats;
pub use steady::{Steady, Trend, mser5};
pub use tally::Tally;

/// A count as a number to reckon with.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of requests, far below 2^53"
)]
fn float(count: usize) -> f64 {
    count as f64
}
