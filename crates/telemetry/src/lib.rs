//! The client watches itself: what the kernel says of its own threads and its machine while it
//! measures.
//!
//! What this is: [`Watch`], a thread that reads `/proc` and the cgroup's files ten times a second, away
//! from the shards' cores, and what a shard calls at the edges of its measured phase; [`Watched`],
//! what was found: [`ThreadFigures`] of each shard, [`MachineFigures`], and the [`Cause`] of a stall.
//! [`proc`] has the parsers: pure functions over text, to which anything strange is an absence.
//!
//! What this is not: a reader of anything between the edges of a phase on a shard's own thread, a
//! judge (the report words what it finds), or an error where a file is missing.
//!
//! ```
//! use ridgeline_clock::Nanos;
//! use ridgeline_telemetry::Watch;
//! let watch = Watch::start(1)?;
//! let edge = watch.edge();
//! edge(0); // the first shard, on its own thread: its measured phase begins
//! edge(0); // and is over
//! let watched = watch.finish();
//! assert!(watched.thread(0).is_some());
//! assert!(watched.thread(1).is_none());
//! # Ok::<(), std::io::Error>(())
//! ```
#![forbid(unsafe_code)]

mod figures;
mod files;
pub mod proc;
mod series;
mod stall;
mod watch;

pub use figures::{CoreFigures, MachineFigures, ThreadFigures};
pub use stall::{Cause, Stall};
pub use watch::{Watch, Watched};
