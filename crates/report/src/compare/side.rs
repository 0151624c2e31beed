use std::path::{Path, PathBuf};

use ridgeline_metrics::verdict::Status;

use super::requests::{self, Request};
use crate::{Report, ReportError, read_json};

/// The runs of one side: one, or several of the same.
#[derive(Clone, Debug)]
pub struct Side {
    /// INVARIANT: not empty.
    pub(super) runs: Vec<Run>,
}

#[derive(Clone, Debug)]
pub(super) struct Run {
    pub(super) folder: PathBuf,
    pub(super) report: Report,
    /// The successes by the time of their submission; `None` without records.
    pub(super) requests: Option<Vec<Request>>,
}

impl Side {
    /// Reads the result folders `first` and `more`.
    ///
    /// # Errors
    /// When one has no report of this version, or records that can't be read.
    pub fn read(first: &Path, more: &[PathBuf]) -> Result<Self, ReportError> {
        let folders = std::iter::once(first).chain(more.iter().map(PathBuf::as_path));
        let runs = folders.map(Run::read).collect::<Result<_, _>>()?;
        Ok(Self { runs })
    }

    pub(super) fn first(&self) -> &Report {
        &self.runs[0].report
    }

    /// Whether what changes from run to run can be told.
    pub(super) fn is_repeated(&self) -> bool {
        self.runs.len() > 1
    }

    pub(super) fn is_invalid(&self) -> bool {
        let invalid = |run: &Run| run.report.verdict.status == Status::Invalid;
        self.runs.iter().any(invalid)
    }

    pub(super) fn names(&self) -> Vec<String> {
        let name = |run: &Run| run.folder.display().to_string();
        self.runs.iter().map(name).collect()
    }

    pub(super) fn verdicts(&self) -> Vec<String> {
        let verdict = |run: &Run| run.report.verdict.status.to_string();
        self.runs.iter().map(verdict).collect()
    }

    pub(super) fn without_records(&self) -> impl Iterator<Item = String> {
        let bare = self.runs.iter().filter(|run| run.requests.is_none());
        bare.map(|run| run.folder.display().to_string())
    }
}

impl Run {
    fn read(folder: &Path) -> Result<Self, ReportError> {
        let report = read_json(folder)?;
        let requests = requests::read(folder, report.target.streaming)?;
        Ok(Self {
            folder: folder.to_owned(),
            report,
            requests,
        })
    }
}
