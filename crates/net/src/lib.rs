//! The Driver seam: the byte streams of one core, as completions.
//!
//! What this is: the trait [`Driver`] that every backend implements, the trait [`Sink`] that the
//! layer above implements, the queue between them ([`Commands`]), a virtual network
//! (`sim`) that runs the real engine faster than real time from a seed, and the
//! `conformance` suite that every driver must pass.
//!
//! What this is not: HTTP, TLS, or messages between processes (that is a Transport). A driver
//! *lends* received bytes for the length of one callback and *owns* what it sends until it says
//! [`Sink::sent`].
//!
//! The order of one turn, the same for every driver:
//!
//! 1. commands queued since the last turn are applied (sockets opened, sends queued, closes);
//! 2. the clock is read once, and each send that is about to be handed over is told
//!    [`Sink::submitted`] with that reading;
//! 3. the kernel is entered, until a completion or the deadline;
//! 4. the clock is read once more (the time of reaping), and every completion becomes one callback.
//!
//! Callbacks get the [`Commands`] queue, never the driver: nothing re-enters it.
#![forbid(unsafe_code)]

pub mod conformance;
mod driver;
pub mod sim;

pub use driver::{
    Close, Closed, Command, Commands, Counters, Driver, DriverError, Peer, Sink, Token, Turn, Wake,
};
pub use ridgeline_clock::Arrival;
