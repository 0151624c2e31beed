//! Everything that real servers do wrong, on demand.
//!
//! A [`FaultRule`] says which fault, and for which requests; a request's own header fields
//! `X-Mock-Fault` and `X-Return-Error` come before it. An answer with a fault is materialised as an
//! [`Outline`], changed by [`apply`], and played as a [`Script`]: the hot path knows nothing of
//! it.
//!
//! What no server can do to its clients, and what is therefore not here: refuse a connection while
//! it listens (a full backlog makes Linux drop the SYN: the client waits, and nothing says for how
//! long), fail a name look-up, or fail TLS without having it.

mod apply;
mod catalogue;
mod choose;
mod counts;
mod flags;
mod grammar;
mod head;
mod outline;
mod phrases;

pub use choose::Faults;
pub use counts::FaultCounts;
pub use flags::{FailureType, FaultArgs, Share};
pub use grammar::{FaultError, FaultRule};

pub(crate) use apply::apply;
pub(crate) use catalogue::Kind;
pub(crate) use choose::Chooser;
pub(crate) use grammar::{Fault, Wish};
pub(crate) use outline::{Cue, Ending, Event, Framing, Outline, Part, Script};
