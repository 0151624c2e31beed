//! A driver out of a runtime that owns its loop: what those on monoio and on glommio have in common.
//!
//! What this is: [`Tasks`], the half of a [`Driver`](ridgeline_net::Driver) that no runtime needs to know. Each
//! connection has two tasks, one that reads and one that writes, which know nothing but their socket; they
//! leave what happened in a queue. Between two waits of the runtime the driver applies orders
//! ([`Tasks::begin`]) and empties the queue into the sink ([`Tasks::end`]). A runtime says how tasks are
//! spawned and sockets awaited ([`Runtime`], [`Socket`]), and its driver how a wait ends.
//!
//! What this is not: as cheap as a driver that owns its loop. Each read wakes a task that wakes the driver, and holds
//! a buffer of its own while it waits: [`TasksConfig::read_buffer_bytes`] for each connection that is open.
//!
//! Differences from the ring that show in a report, whatever the runtime:
//!
//! - reads carry the time of reaping: these runtimes hand out no control messages;
//! - sockets are descriptors of the process, so that all shards share one limit;
//! - a source address serves one range of ports, not one for each destination;
//! - that a peer which has sent FIN resets the connection is told with the next send.
//!
//! ```
//! use ridgeline_net_tasks::TasksConfig;
//! let config = TasksConfig { connections_max: 64, ..TasksConfig::default() };
//! assert_eq!(config.read_buffer_bytes, 16 << 10);
//! ```
#![forbid(unsafe_code)]

mod bell;
mod connection;
mod events;
mod link;
mod orders;
mod runtime;
mod sockets;
mod tasks;
mod tell;
mod work;

pub use bell::TasksWaker;
pub use events::Nudge;
pub use runtime::{Runtime, Socket};
pub use tasks::{Tasks, TasksConfig};
