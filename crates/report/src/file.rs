use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::Report;
use crate::report::SCHEMA;

/// The report in a result folder.
pub const REPORT: &str = "report.json";

/// What keeps a report from being written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A file can't be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// A file can't be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The file is no report of this version.
    #[error("{} is not a report that this version can read: {problem}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

/// Writes `report.json` into `folder`, whole or not at all.
///
/// # Errors
/// When it can't be written.
pub fn write_json(report: &Report, folder: &Path) -> Result<(), ReportError> {
    let path = folder.join(REPORT);
    let mut text = serde_json::to_vec_pretty(report).map_err(|error| ReportError::Write {
        path: path.clone(),
        source: error.into(),
    })?;
    text.push(b'\n');
    write_whole(&path, &text)
}

/// Writes a file whole or not at all: a reader sees the old one or the new one.
///
/// # Errors
/// When it can't be written; the old one stays.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), ReportError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".tmp");
    let unfinished = path.with_file_name(name);
    let written = File::create(&unfinished)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| fs::rename(&unfinished, path));
    written.map_err(|source| {
        let _ = fs::remove_file(&unfinished);
        ReportError::Write {
            path: path.to_owned(),
            source,
        }
    })
}

/// Reads `report.json` of a result folder.
///
/// # Errors
/// When there is none, or it is of another version.
pub fn read_json(folder: &Path) -> Result<Report, ReportError> {
    let path = folder.join(REPORT);
    let form = |problem: String| ReportError::Form {
        path: path.clone(),
        problem,
    };
    let bytes = fs::read(&path).map_err(|source| ReportError::Read {
        path: path.clone(),
        source,
    })?;
    let value: serde_json::Value =
        serde_json::from_slice(&bytes).map_err(|error| form(error.to_string()))?;
    match value.get("schema").and_then(serde_json::Value::as_str) {
        Some(SCHEMA) => {}
        Some(other) => return Err(form(format!("its schema is `{other}`, not `{SCHEMA}`"))),
        None => return Err(form("it names no schema".to_owned())),
    }
    let mut report: Report =
        serde_json::from_value(value).map_err(|error| form(error.to_string()))?;
    report.folder = Some(folder.to_owned());
    Ok(report)
}
