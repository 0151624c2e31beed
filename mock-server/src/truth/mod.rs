//! The truth file: what the server did and when, for whoever wants to know how well a client measured it.
//!
//! JSON lines, written on a thread of their own that shards feed through bounded rings: a shard never waits
//! for it and allocates nothing for it. Times are ns after the server's start, on its `CLOCK_MONOTONIC`.
//!
//! The first line is the header:
//!
//! | member | meaning |
//! | --- | --- |
//! | `schema` | `ridgeline.truth/1`. Members may be added under the same version; none changes its meaning |
//! | `server` | `version` of the program |
//! | `clock` | `name`: `CLOCK_MONOTONIC`; `boot_id` and `time_namespace`: which one (see [`ridgeline_clock::Timebase`]), null where unknown; `start_monotonic_ns`: the server's start, from which the file counts; `start_realtime_ns`: the same on the wall clock, ns since 1970; `realtime_error_ns`: the largest error of that reading |
//! | `driver` | what drives the sockets |
//! | `rx_timestamps` | whether `arrival_ns` is the kernel's stamp; else it is `reaped_ns` |
//! | `write_columns` | the columns of `writes` |
//!
//! Then one line per request, when it has ended:
//!
//! | member | meaning |
//! | --- | --- |
//! | `request_id` | its `X-Request-Id`; null without one, and when it has more than 128 bytes |
//! | `shard`, `number` | the thread that answered it, and its number there, from 0 in the order of first writes |
//! | `connection`, `connection_use` | the slot of its connection, and which use of that slot |
//! | `arrival_ns`, `reaped_ns` | when its last byte arrived, and when the server took it from the kernel |
//! | `started_ns` | when it left the queue; null if it never did |
//! | `status` | of the answer; null when nothing of it was handed over |
//! | `dialect` | whose words it has; of a request that can't be answered, the server's |
//! | `fault` | the fault that was injected; null without |
//! | `output_tokens` | tokens of all writes |
//! | `ended` | `complete`: all of it was handed over; `peer`: the peer went away before; `closed`, `reset`: the fault ended the connection so, with the last write or before there was one; `stopped`: the server ended before |
//! | `writes` | a list for each write, in order: `submitted_ns`: the clock just before the system call; `due_ns`: when it should have been, the request's arrival for what waits for nothing; `bytes`; `tokens`; `content_events`: events with text, reasoning or a tool call of choice 0 that end in this write (1 for a whole answer) |
//!
//! The last line is there when the server ended by itself: `{"end":{"lines":…,"dropped":…,"unfinished":…}}`:
//! requests that have a line; requests that have none, because a queue was full or the file could not be
//! written; requests in flight at the end.

mod args;
mod assembler;
mod ending;
mod file;
mod header;
mod piece;
mod recorder;
#[cfg(test)]
mod tests;

pub use args::TruthArgs;
pub(crate) use ending::Ending;
pub(crate) use file::{TruthCounts, TruthFile};
pub(crate) use header::Header;
pub(crate) use recorder::{Begun, Ended, Entry, Recorder, Wrote};

/// Name and version of the format.
pub(crate) const SCHEMA: &str = "ridgeline.truth/1";
