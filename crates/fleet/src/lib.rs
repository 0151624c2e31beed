//! Several processes, one load: how the coordinator of a run and its workers agree on what each of them
//! sends and when, and how their numbers come together.
//!
//! What this is: [`Coordinator`] and [`Worker`], the two ends of the protocol, as state machines that are
//! told the time and the messages and answer with messages; what those say ([`message`]); how far two
//! clocks are apart ([`ClockOffset`]); and a worker's numbers on their way ([`Share`]).
//!
//! What this is not: a thread, a socket or a clock. Whoever owns those moves the messages, so that the
//! same code runs over any transport, and in tests over a virtual network in virtual time.
//!
//! A run in messages, from the coordinator (`>`) and from each worker (`<`):
//!
//! ```text
//! > hello   < hello           versions, host, clock; or `refused`, and why
//! > ping    < pong            many times: the shortest round trip tells the clocks' offset
//! > plan, files   < ready     the worker has built its share of the run, and its shards wait
//! > start                     at a time on the worker's own clock; once more after a warm-up
//! > ping    < pong, snapshot  signs of life, and live counts
//! > stop, cancel              the user's wish
//!           < finished        everything measured; `failed` or `leaving` when it is not as planned
//! > fetch   < part            the lines of its records, if they are gathered
//! > release                   the worker is free for the next run
//! ```
//!
//! ```
//! use ridgeline_fleet::message::{self, MessageError, ToWorker};
//!
//! let ping = ToWorker::Ping { sequence: 7, sent_ns: 1_000 };
//! let bytes = message::encode(&ping);
//! assert_eq!(message::decode::<ToWorker>(&bytes)?, ping);
//!
//! // A program of another version is told apart before anything else is read.
//! let mut other = bytes;
//! other[4] ^= 0xff;
//! assert!(matches!(message::decode::<ToWorker>(&other), Err(MessageError::Version { .. })));
//! # Ok::<(), MessageError>(())
//! ```
#![forbid(unsafe_code)]

mod brief;
mod coordinator;
mod ends;
mod limits;
mod member;
pub mod message;
mod offset;
mod share;
mod worker;

pub use brief::{Brief, Event, PlanFile};
pub use coordinator::Coordinator;
pub use ends::{Ending, FleetError, MemberEnd};
pub use limits::FleetLimits;
pub use member::Seat;
pub use offset::ClockOffset;
pub use share::Share;
pub use worker::{Host, Order, Worker};
