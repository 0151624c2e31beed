//! What a run leaves behind: records, `report.json` and the console's page.
//!
//! What this is: [`records`] (one line per request, written while the run goes on), [`Report`] (what
//! a run found, with its verdict, built from the engine's result) with the file it is kept in,
//! [`console::render`] (the same for a person), and [`truth`] (what was measured against what the mock
//! server did).
//!
//! What this is not: a terminal or a network. It reads a clock only to flush records in time, writes
//! files, and hands out text; printing is the caller's.
//!
//! ```
//! use ridgeline_report::{Environment, records};
//!
//! let machine = Environment::read("uring");
//! assert_eq!(machine.driver, "uring");
//!
//! // A folder without records has nothing to recover.
//! let folder = tempfile::tempdir()?;
//! assert_eq!(records::recover(folder.path())?, records::Recovered::default());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
#![forbid(unsafe_code)]

mod build;
pub mod compare;
pub mod console;
mod environment;
mod file;
pub mod records;
mod report;
#[cfg(test)]
mod samples;
pub mod truth;

pub use build::Context;
pub use environment::{Environment, RunClock};
pub use file::{REPORT, ReportError, read_json, write_json, write_whole};
pub use report::{
    EndpointFigures, Harness, Headroom, Http2Figures, LittlesLaw, LoadFigures, LoadKind, Program,
    RecordFigures, Report, SCHEMA, ShardFigures, StageFigures, StallFigures, TargetFigures,
    TokenFigures, WorkerFigures, WorkerRecords, WorkerStatus,
};
