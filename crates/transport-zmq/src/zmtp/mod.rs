//! ZMTP 3.1, without IO: what one connection's bytes mean, and which bytes to answer.
//!
//! What this is: a [`Session`] is fed bytes as they come, however they are cut, and tells [`Events`].
//! Peers of version 3.0 are understood, too; earlier ones are refused by name. Every length is checked
//! against its limit before anything is kept.
//!
//! What this is not: sockets, queues or times.

pub mod command;
mod curve;
mod fault;
pub mod frame;
pub mod greeting;
mod session;

pub use fault::Fault;
pub use session::{Events, Met, Rules, Security, Session};
