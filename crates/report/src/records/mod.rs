//! One record per request: from the shards' queues to `records.jsonl`.
//!
//! A thread takes records from the queues and writes them as JSON lines while it keeps up. As soon
//! as a queue is more than half full it writes a compact form to `records.spool` instead, and turns
//! that into lines when the run is over. After a kill [`recover`] does the same for what is there.
//! Records stand in the order in which the thread took them: that of completion within a shard. Where
//! several workers make a run, each does this for its own; [`Gathering`] makes one file of theirs.
//!
//! Three members are there only where they say something: `counted_input_tokens`, of a prompt whose
//! tokens a tokenizer counted and the server did not; `counted_output_tokens`, the same of an answer,
//! put in by [`count`] after the run; and until then, or when that was not possible, `uncounted`, what
//! it needs to know.

mod count;
mod entry;
mod gather;
mod line;
mod lines;
mod recover;
#[cfg(test)]
mod samples;
mod spool;
mod times;
mod writer;

use std::io;
use std::path::PathBuf;

pub use count::{Counted, count};
pub use gather::{Elsewhere, Gathering};
pub(crate) use lines::{LineError, Lines};
pub use recover::{Recovered, recover};
pub use times::{RequestTimes, times};
pub use writer::{RecordWriter, Written};

/// The file of JSON lines in a result folder.
pub const JSONL: &str = "records.jsonl";
/// The compact file that is there only while lines are still to be made of it.
pub const SPOOL: &str = "records.spool";

/// What keeps records from being written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordsError {
    /// A file can't be made, read or written.
    #[error("cannot {verb} {}: {source}", path.display())]
    File {
        /// What was tried.
        verb: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// Another process writes the file.
    #[error("{} is being written by a run that is not over", path.display())]
    Busy {
        /// The file.
        path: PathBuf,
    },
    /// The file is no spool, or one of another version.
    #[error("{} is not a spool of records that this version can read", path.display())]
    NotASpool {
        /// The file.
        path: PathBuf,
    },
    /// One record is beyond what can be written.
    #[error("a record of {bytes} bytes is too large to be written")]
    Oversize {
        /// Its size.
        bytes: usize,
    },
    /// Records are still in the spool.
    #[error("some records are still in {SPOOL}")]
    Unconverted,
    /// A worker's records are not all here, or not all written there.
    #[error("the records of worker {worker} are not whole: {why}")]
    Worker {
        /// The worker.
        worker: String,
        /// Why, in words.
        why: String,
    },
    /// The user had it ended.
    #[error("interrupted")]
    GivenUp,
    /// The writing thread can't be started, or stopped by itself.
    #[error("the thread that writes records failed: {0}")]
    Thread(io::Error),
}

impl RecordsError {
    fn file(verb: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { verb, path, source }
    }
}
