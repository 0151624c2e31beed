//! The load engine: shards that start requests when the plan says so, read their answers, and
//! hand back numbers.
//!
//! What this is: [`Plan`] (what to do), [`Shard`] (one share of it, as a state machine that is
//! told the time and handed the bytes), [`drive`] (the loop that joins a shard to a driver),
//! [`run()`] (threads, pinning, merging), and [`feed()`] with [`serve()`], where requests come from
//! outside.
//!
//! What this is not: it names no backend and reads no clock on the data path (generic over
//! [`Driver`](ridgeline_net::Driver) and [`Clock`](ridgeline_clock::Clock)), and it prints and
//! writes nothing.
//!
//! ```
//! use ridgeline_engine::RequestId;
//! // Every request carries its name on the wire, so that a server's log can be joined with ours.
//! assert_eq!(RequestId::new(1, 42).to_string(), "rl-00000001-000000000000002a");
//! ```
#![forbid(unsafe_code)]

mod bell;
mod connection;
mod control;
mod drive;
mod fed;
mod feed;
mod finish;
mod gather;
mod idle;
mod limits;
mod list;
mod plan;
mod pool;
mod record;
mod requests;
mod run;
mod secure;
mod serve;
mod sessions;
mod shard;
mod sink;
mod slot;
mod source;
mod spread;
mod streams;
mod timers;
mod waits;
mod window;

pub use bell::Bell;
pub use control::{Control, LiveTotals};
pub use drive::{Pace, drive};
pub use feed::{Answered, Feed, Notice, Outlet, Query, Supply, feed};
pub use limits::{Limits, MemoryLine};
pub use plan::{Load, Plan, Target};
pub use record::{Details, Outcome, Record};
pub use requests::{RequestId, Requests, id_prefix};
pub use run::{RunResult, ShardReport, run, soon};
pub use serve::serve;
pub use shard::{Exhausted, Shard, ShardResult};
pub use spread::{Balance, Spread, WEIGHTS_MAX};
pub use streams::{Http2, Http2Counts};
pub use waits::{Cancel, CancelAfter, Connections, Waits};
pub use window::window;

/// What keeps a run from being made.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EngineError {
    /// The schedule of the plan makes no sense.
    #[error(transparent)]
    Schedule(#[from] ridgeline_schedule::ScheduleError),
    /// A driver could not be built or could not go on.
    #[error(transparent)]
    Driver(#[from] ridgeline_net::DriverError),
    /// A thread could not be started.
    #[error("cannot start a shard's thread: {0}")]
    Thread(std::io::Error),
    /// A core that the process may not use.
    #[error("core {0} is not one that this process may use: name others with --cores, or none")]
    Core(usize),
    /// A shard's thread ended by a fault of the program.
    #[error("a shard stopped by an internal fault; please report it")]
    Panicked,
}
