//! What a roofline leaves behind: `roofline.json`.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use ridgeline_report::{Environment, Program, ReportError, write_whole};
use serde::{Deserialize, Serialize};

use crate::{Found, Headline, Row, SectionRun};

/// Name and version of the format of `roofline.json`. Fields may be added under the same version; none
/// changes its meaning.
pub const SCHEMA: &str = "ridgeline.roofline/1";

/// The document in the folder of a roofline.
pub const ROOFLINE: &str = "roofline.json";

/// The page in the same folder.
pub const PAGE: &str = "roofline.html";

/// A measured roofline: the contents of `roofline.json`.
///
/// Times of duration are ns. A row's figures are in its `unit`; those of a row that was not measured
/// are null, and its `limited_by` says why.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Roofline {
    /// [`SCHEMA`].
    pub schema: String,
    /// The program that measured, and was measured.
    pub ridgeline: Program,
    /// Whether it was built with all optimisation: otherwise no figure is a ceiling.
    pub optimised: bool,
    /// The machine's name.
    pub host: String,
    /// The machine.
    pub environment: Environment,
    /// Where on it.
    pub cores: Cores,
    /// When it began: wall-clock ns since 1970.
    pub started_unix_ns: u64,
    /// How long it took, ns.
    pub duration_ns: u64,
    /// Whether with fewer points and shorter runs.
    pub quick: bool,
    /// Whether the user ended it early.
    pub interrupted: bool,
    /// The most that was seen.
    pub headline: Headline,
    /// How each section fared, in the order in which they ran.
    pub sections: Vec<SectionRun>,
    /// The figures, in the order in which they were found.
    pub rows: Vec<Row>,
}

/// Where a roofline comes from: what stands in the document beside what was found.
#[derive(Clone, Debug)]
pub struct Origin {
    /// See [`Roofline::ridgeline`].
    pub program: Program,
    /// See [`Roofline::optimised`].
    pub optimised: bool,
    /// See [`Roofline::host`].
    pub host: String,
    /// See [`Roofline::environment`].
    pub environment: Environment,
    /// See [`Roofline::cores`].
    pub cores: Cores,
    /// See [`Roofline::started_unix_ns`].
    pub started_unix_ns: u64,
    /// See [`Roofline::quick`].
    pub quick: bool,
}

/// The cores of the two ends of a connection; one and the same when there was no other.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq, Serialize)]
pub struct Cores {
    /// That of servers.
    pub server: usize,
    /// That of clients, and of what has no server.
    pub client: usize,
}

impl Roofline {
    /// The document of what was found.
    #[must_use]
    pub fn new(found: Found, origin: Origin) -> Self {
        Self {
            schema: SCHEMA.to_owned(),
            ridgeline: origin.program,
            optimised: origin.optimised,
            host: origin.host,
            environment: origin.environment,
            cores: origin.cores,
            started_unix_ns: origin.started_unix_ns,
            duration_ns: found.duration_ns,
            quick: origin.quick,
            interrupted: found.interrupted,
            headline: Headline::of(&found.rows),
            sections: found.sections,
            rows: found.rows,
        }
    }

    /// Writes `roofline.json` into `folder`, whole or not at all.
    ///
    /// # Errors
    /// When it can't be written.
    pub fn write(&self, folder: &Path) -> Result<(), ReportError> {
        write_document(&folder.join(ROOFLINE), self)
    }

    /// Reads a document.
    ///
    /// # Errors
    /// When there is none at `path`, or it is of another version.
    pub fn read(path: &Path) -> Result<Self, DocumentError> {
        read_document(path, SCHEMA)
    }
}

/// What keeps a document from being read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DocumentError {
    /// The file can't be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The operating system's answer.
        source: io::Error,
    },
    /// The file is no document of this version.
    #[error("{} can't be understood: {problem}", path.display())]
    Form {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
}

pub(crate) fn write_document(path: &Path, document: &impl Serialize) -> Result<(), ReportError> {
    let mut text = serde_json::to_vec_pretty(document).map_err(|error| ReportError::Write {
        path: path.to_owned(),
        source: error.into(),
    })?;
    text.push(b'\n');
    write_whole(path, &text)
}

pub(crate) fn read_document<T: for<'a> Deserialize<'a>>(
    path: &Path,
    schema: &str,
) -> Result<T, DocumentError> {
    let form = |problem: String| DocumentError::Form {
        path: path.to_owned(),
        problem,
    };
    let bytes = fs::read(path).map_err(|source| DocumentError::Read {
        path: path.to_owned(),
        source,
    })?;
    let value: serde_json::Value =
        serde_json::from_slice(&bytes).map_err(|error| form(error.to_string()))?;
    match value.get("schema").and_then(serde_json::Value::as_str) {
        Some(found) if found == schema => {}
        Some(other) => return Err(form(format!("its schema is `{other}`, not `{schema}`"))),
        None => return Err(form("it names no schema".to_owned())),
    }
    serde_json::from_value(value).map_err(|error| form(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn a_document_is_read_as_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let roofline = samples::roofline();
        roofline.write(folder.path()).unwrap();
        let path = folder.path().join(ROOFLINE);
        assert_eq!(Roofline::read(&path).unwrap(), roofline);
        let value: serde_json::Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
        assert_eq!(value["schema"], SCHEMA);
        assert_eq!(value["rows"][0]["section"], "scanner");
        assert_eq!(value["rows"][0]["unit"], "bytes_per_s");
        assert_eq!(value["headline"]["paced"]["value"], 412_000.0);
        assert!(value["rows"][1]["measured"].is_null());
    }

    #[test]
    fn other_files_are_refused_with_a_reason() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("x.json");
        let refused = || Roofline::read(&path).unwrap_err().to_string();
        assert!(refused().contains("cannot read"), "{}", refused());
        for (text, part) in [
            ("{", "EOF"),
            ("{}", "it names no schema"),
            (
                r#"{"schema":"ridgeline.report/1"}"#,
                "not `ridgeline.roofline/1`",
            ),
            (r#"{"schema":"ridgeline.roofline/1"}"#, "missing field"),
        ] {
            fs::write(&path, text).unwrap();
            assert!(refused().contains(part), "{text}: {}", refused());
        }
    }
}
