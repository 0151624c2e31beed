//! What a client measured against what the server did: records joined with the truth file of
//! `ridgeline mock-server --truth FILE`, request by request.
//!
//! A *truth file* is JSON lines: a header (`schema`: [`SCHEMA`]), a line per request, and at the end,
//! if the server ended by itself, how many there were. The mock server's crate says what each member
//! means; `read` is strict about those that it knows, and passes over others.
//!
//! Of a request that the records and the file both have, and whose times mean something (measured,
//! successful, sent once), the join takes:
//!
//! - the error of TTFT and of latency: what the client says, less the time from the request's arrival at
//!   the server to its write of the first and the last content event. The two ways through the network
//!   and the kernel are in it, for they are in every client's figure;
//! - the error of every gap between content events (needs `event_ns`, so `--save-events`): the client's
//!   gap less that between the writes that completed the two events; 0 is the server's gap between
//!   events of one write. The ways cancel out: what is left is jitter;
//! - the two ways by themselves, where both clocks can be compared: see [`Clock`].
//!
//! Differences of stamps of one machine need no common clock; the two ways do.

mod clock;
mod join;
mod read;
mod records;
mod spread;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

pub use clock::{Clock, ClockKind};
pub use read::{End, Ended, Header, TrueRequest, TruthReader, Write};
pub use spread::Spread;

use crate::{Report, write_whole};

/// Name and version of the truth files that are read.
pub const SCHEMA: &str = "ridgeline.truth/1";

/// Name and version of the format of [`FILE`].
pub const JOINED_SCHEMA: &str = "ridgeline.truth_join/1";

/// The file in a result folder that a join is kept in.
pub const FILE: &str = "truth.json";

/// What keeps records and truth from being joined.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TruthError {
    /// A file can't be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The file is no truth file, or one of another version.
    #[error("{} is no truth file that this version can read: {problem}", path.display())]
    NotATruth {
        /// The file.
        path: PathBuf,
        /// How that shows.
        problem: String,
    },
    /// A line is not what it should be.
    #[error("{}, line {line}: {problem}", path.display())]
    Line {
        /// The file.
        path: PathBuf,
        /// From 1.
        line: u64,
        /// What is wrong with it.
        problem: String,
    },
    /// The folder has no records.
    #[error(
        "{} has no records to join: run `ridgeline bench` with --records jsonl", path.display()
    )]
    NoRecords {
        /// The folder.
        path: PathBuf,
    },
    /// The two are not of one run.
    #[error(
        "{} is the truth of another run: none of its {lines} requests is in the records, whose first \
         is `{record}`; the file's first is `{truth}`", path.display()
    )]
    Strangers {
        /// The truth file.
        path: PathBuf,
        /// Its requests.
        lines: u64,
        /// The id of a record.
        record: String,
        /// The id of a request in the file.
        truth: String,
    },
}

/// What a join found: the contents of [`FILE`]. Durations are ns; a spread is `None` without samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Joined {
    /// [`JOINED_SCHEMA`].
    pub schema: String,
    /// Where the truth is from.
    pub truth: Origin,
    /// How the stamps of both sides compare; `None` when the run does not tell its clock.
    pub clock: Option<Clock>,
    /// Which requests are on both sides.
    pub requests: Matching,
    /// Client's TTFT less the server's.
    pub ttft_error_ns: Option<Spread>,
    /// Client's gap between two content events less the server's; pooled.
    pub gap_error_ns: Option<Spread>,
    /// Client's TTFT less the server's, where the first event did not come in one read with others: such a read
    /// has the stamp of its last, and says so by its width.
    #[serde(default)]
    pub ttft_alone_error_ns: Option<Spread>,
    /// Client's gap less the server's between events each of which came in a read of its own.
    #[serde(default)]
    pub gap_alone_error_ns: Option<Spread>,
    /// Client's latency less the server's.
    pub latency_error_ns: Option<Spread>,
    /// From the client's stamp before its send to the request's arrival at the server.
    pub request_one_way_ns: Option<Spread>,
    /// From the server's write of the first content event to its arrival at the client.
    pub first_token_one_way_ns: Option<Spread>,
    /// How late the server's writes of tokens were: after their due time.
    pub write_lateness_ns: Option<Spread>,
    /// Requests by the fault that was injected (`none`: no fault), then by what the client recorded:
    /// `ok`, `cancelled`, the kind of an error, or `sent_again` for an attempt that the client repeated.
    pub faults: BTreeMap<String, BTreeMap<String, u64>>,
    /// What is missing, and why.
    pub notes: Vec<String>,
}

/// Where the truth is from.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Origin {
    /// The file, as it was named.
    pub file: String,
    /// The server's version.
    pub server_version: String,
    /// What drove its sockets.
    pub driver: String,
    /// Whether arrivals at the server are the kernel's stamps.
    pub rx_timestamps: bool,
    /// Requests in the file.
    pub lines: u64,
    /// Requests without a line, because the server's writer did not keep up or the file could not be
    /// written; `None` when the file has no end.
    pub dropped: Option<u64>,
    /// Requests in flight when the server ended; `None` when the file has no end.
    pub unfinished: Option<u64>,
}

/// Which requests are on both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Matching {
    /// Records, warm-up among them.
    pub records: u64,
    /// Records whose request is in the truth file.
    pub matched: u64,
    /// Records that are not.
    pub only_in_records: u64,
    /// Requests in the truth file with an id that no record has.
    pub only_in_truth: u64,
    /// Requests in the truth file without an id.
    pub without_id: u64,
    /// Matched records of requests that the client sent more than once: their times are left out.
    pub sent_again: u64,
    /// Matched records with more lines in the truth file than attempts: their times are left out.
    pub ambiguous: u64,
    /// Matched records whose times were compared.
    pub compared: u64,
    /// Those of them whose content events are not as many as the server's: their gaps and latency are
    /// left out.
    pub events_differ: u64,
    /// Those of them without the arrival of each event.
    pub without_event_ns: u64,
}

/// Joins the records of a result folder with the truth in `file`. `report`: that of the folder, where
/// there is one.
///
/// Records and differences are held in memory, some hundred bytes a request and up to 32 for each
/// event; the truth is read line by line.
///
/// # Errors
/// When one of the two can't be read, or both have no request in common.
pub fn join(folder: &Path, report: Option<&Report>, file: &Path) -> Result<Joined, TruthError> {
    let mut truth = TruthReader::open(file)?;
    let records = records::read(folder)?;
    let run = report.and_then(|report| report.environment.clock.as_ref());
    let clock = run.map(|run| Clock::between(run, truth.header()));
    let streamed = report.is_none_or(|report| report.target.streaming);
    let mut join = join::Join::new(records, clock, streamed);
    while let Some(request) = truth.next_request()? {
        join.add(&request);
    }
    join.finish(&truth)
}

/// Writes [`FILE`] into `folder`, whole or not at all.
///
/// # Errors
/// When it can't be written.
pub fn write(joined: &Joined, folder: &Path) -> Result<(), crate::ReportError> {
    let path = folder.join(FILE);
    let mut text =
        serde_json::to_vec_pretty(joined).map_err(|error| crate::ReportError::Write {
            path: path.clone(),
            source: error.into(),
        })?;
    text.push(b'\n');
    write_whole(&path, &text)
}
