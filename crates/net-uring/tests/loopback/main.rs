//! The driver on loopback, against peers of the standard library and against itself.
//!
//! Every test is bounded: a wait that takes [`world::PATIENCE`] fails with what was seen so far.

#![expect(clippy::unwrap_used, reason = "a peer that fails is a failed test")]

mod ends; // how connections end, and why
mod limits; // few buffers, a small queue, many connections
mod streams; // bytes, in order and whole
mod times; // stamps, deadlines, wakers
mod world; // the sink that remembers, and peers
