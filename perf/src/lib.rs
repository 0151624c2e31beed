//! The physical ceilings: what the kernel and the memory allow on this machine, and no more.
//!
//! What this is: the least program for each thing that Ridgeline does, so that its own figures can
//! be divided by something. [`client`] and [`server`] move requests and streams through a raw
//! io_uring without parsing them, [`sleeper`] meets deadlines, [`pair`] compares kernel stamps with
//! the writer's clock, [`pass`] scans and copies a stream in memory. Each is also a program, and
//! [`ceiling`] has the flags of those that other programs start. A [`pipe`] of messages between two
//! processes is compared with libzmq, where that is built in (feature `libzmq`).
//! [`versus`] runs two clients in turns against one server and compares their CPU time.
//!
//! What this is not: a load generator or a server for anything else. The client knows how long an
//! answer is because it has asked before; the server answers everything alike.
//!
//! ```
//! use ridgeline_clock::Nanos;
//! use ridgeline_perf::pass::{Kind, measure, stream_of};
//! let (stream, events) = stream_of(1 << 20);
//! let speed = measure(Kind::FindEvents, &stream, events, Nanos::ZERO);
//! assert!(speed.events_per_s > 0.0);
//! ```
#![expect(unsafe_code, reason = "the ring is driven without any layer between")]

mod buffers;
mod request;
mod stamp;

pub mod ceiling;
pub mod child;
pub mod client;
#[cfg(feature = "libzmq")]
pub mod libzmq;
pub mod machine;
pub mod pair;
pub mod pass;
pub mod payload;
pub mod pipe;
pub mod program;
pub mod ring;
pub mod server;
pub mod sleeper;
pub mod spread;
pub mod versus;
