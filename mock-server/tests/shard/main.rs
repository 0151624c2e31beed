//! The server's shard without a kernel: fed by hand, and on the virtual network.
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod admin;
mod answers;
mod api;
mod dialects;
mod drain;
mod faults;
mod fed;
mod gauges;
mod limits;
mod pace;
mod replay;
mod times;
