//! `search.json`: what a series of runs found, for programs.

use std::fmt::Display;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use ridgeline_metrics::verdict::{LimitedBy, Status};
use ridgeline_metrics::{Goodput, verdict::Reason};
use ridgeline_report::{LoadKind, Program};
use ridgeline_search::{Estimate, KneeFinding, MaxRateFinding};
use serde::{Deserialize, Serialize};

use super::asked::Asked;
use super::figures::Figures;
use super::runs::Point;
use super::table;
use crate::complaint::Complaint;
use crate::config::BenchConfig;
use crate::headroom;
use crate::secrets;

/// Its name in the folder of the series.
pub(crate) const FILE: &str = "search.json";

/// Name and version of its form. Fields may be added under the same version; none changes its meaning.
const SCHEMA: &str = "ridgeline.search/1";

#[derive(Clone, Debug, Serialize)]
pub(crate) struct Document {
    schema: &'static str,
    ridgeline: Program,
    /// `repeat`, `sweep`, `knee` or `max_rate`.
    kind: &'static str,
    /// What is done, in words.
    pub(crate) asked: String,
    /// The configuration of the series, secrets taken out.
    plan: BenchConfig,
    /// Whether the user ended it early.
    pub(crate) interrupted: bool,
    pub(crate) exit_code: u8,
    /// Every run, in its order.
    pub(crate) points: Vec<PointDocument>,
    /// Of loads that were repeated.
    pub(crate) repeats: Vec<RepeatsDocument>,
    pub(crate) knee: Option<KneeFinding>,
    pub(crate) max_rate: Option<MaxRateFinding>,
    /// What it came to, in words.
    pub(crate) conclusion: Option<String>,
    /// How far the client is from its own limits.
    pub(crate) advice: Option<String>,
}

impl Document {
    pub(crate) fn new(asked: &Asked, config: &BenchConfig) -> Self {
        let mut plan = config.clone();
        secrets::redact(&mut plan.header);
        let (kind, words) = match asked {
            Asked::Same => ("repeat", "the same load".to_owned()),
            Asked::Sweep(sweep) => ("sweep", format!("sweep of {sweep}")),
            Asked::Knee => ("knee", "search for the knee of a closed loop".to_owned()),
            Asked::MaxRate => {
                let slos = super::asked::judged(config).map(|slo| slo.to_string());
                let slos = slos.collect::<Vec<String>>().join(", ");
                (
                    "max_rate",
                    format!("search for the highest rate with {slos}"),
                )
            }
        };
        let times = match config.repeat {
            None | Some(1) => String::new(),
            Some(times) => format!(", {times} times"),
        };
        Self {
            schema: SCHEMA,
            ridgeline: headroom::program(),
            kind,
            asked: format!("{words}{times}"),
            plan,
            interrupted: false,
            exit_code: 0,
            points: Vec::new(),
            repeats: Vec::new(),
            knee: None,
            max_rate: None,
            conclusion: None,
            advice: None,
        }
    }
}

/// A run; the rest is in its own `report.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct PointDocument {
    /// Below the folder of this file.
    folder: String,
    /// Its load, in words.
    pub(crate) name: String,
    load: LoadKind,
    concurrency: Option<u64>,
    rate_per_s: Option<f64>,
    pub(crate) status: Status,
    pub(crate) limited_by: LimitedBy,
    reasons: Vec<Reason>,
    exit_code: u8,
    interrupted: bool,
    completed: u64,
    failed: u64,
    effective_concurrency: f64,
    #[serde(flatten)]
    pub(crate) figures: Figures,
    goodput: Option<Goodput>,
}

impl PointDocument {
    pub(crate) fn of(point: &Point) -> Self {
        let report = &point.report;
        Self {
            folder: point.folder.clone(),
            name: point.load.to_string(),
            load: report.load.kind,
            concurrency: report.load.concurrency,
            rate_per_s: report.load.requested_rate,
            status: report.verdict.status,
            limited_by: report.verdict.limited_by,
            reasons: report.verdict.reasons.clone(),
            exit_code: report.exit_code,
            interrupted: report.interrupted,
            completed: report.load.completed,
            failed: report.load.failed,
            effective_concurrency: report.load.effective_concurrency,
            figures: point.figures.clone(),
            goodput: report.goodput.clone(),
        }
    }
}

/// A load that was repeated: its figures over the runs, with the interval that holds the truth in 95 of
/// 100 cases; absent of a single run.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct RepeatsDocument {
    pub(crate) load: String,
    pub(crate) runs: usize,
    /// Whether the intervals came to be within the precision that was asked for.
    pub(crate) has_converged: bool,
    pub(crate) requests_per_s: Option<Estimate>,
    pub(crate) latency_p50_ns: Option<Estimate>,
    pub(crate) ttft_p50_ns: Option<Estimate>,
}

/// What is read back of a series.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Kept {
    schema: String,
    asked: String,
    pub(crate) points: Vec<PointDocument>,
    conclusion: Option<String>,
    advice: Option<String>,
}

impl Kept {
    /// The series in `folder`; `None` where there is none.
    pub(crate) fn read(folder: &Path) -> Result<Option<Self>, Complaint> {
        let path = folder.join(FILE);
        let wrong = |why: &dyn Display| Complaint::new(format!("{}: {why}", path.display()));
        let text = match fs::read(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(wrong(&error)),
        };
        let kept: Self = serde_json::from_slice(&text).map_err(|error| wrong(&error))?;
        if kept.schema != SCHEMA {
            return Err(wrong(&format!(
                "its schema is `{}`, not `{SCHEMA}`: use the version of ridgeline that wrote it",
                kept.schema
            )));
        }
        Ok(Some(kept))
    }

    /// The table, and what is below it.
    pub(crate) fn shown(&self, colour: bool) -> String {
        let mut text = format!("series   {}\n{}", self.asked, table::head());
        text.extend(self.points.iter().map(|point| table::row(point, colour)));
        text.extend(table::legend(&self.points));
        text.push('\n');
        match &self.conclusion {
            Some(conclusion) => text.push_str(conclusion),
            None => text.push_str("KILLED: the series was killed before its end\n"),
        }
        text.extend(self.advice.as_ref().map(|advice| format!("{advice}\n")));
        text
    }
}
