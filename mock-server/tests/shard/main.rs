//! The server's shard without a kernel: fed by hand, and on the virtual network.
#![expect(clippy::unwrap_used, reason = "a failed step is a failed test")]

mod answers;
mod dialects;
mod fed;
mod limits;
mod times;
