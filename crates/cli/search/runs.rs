//! The runs of a series: one set-up, one folder, one run after the other.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ridgeline_engine::Plan;
use ridgeline_report::records::{self, RequestTimes};
use ridgeline_report::{Report, write_whole};
use ridgeline_roofline::Profile;

use super::asked::{self, Asked};
use super::document::{self, Document, PointDocument};
use super::figures::Figures;
use super::load::{self, Load};
use super::table;
use crate::bench::{self, Measured};
use crate::complaint::Complaint;
use crate::config::BenchConfig;
use crate::folder::{self, Folder};
use crate::setup::{IN_FLIGHT_MAX, Setup};
use crate::shape::{self, Shape};
use crate::{signals, terminal};

/// The files of a series, beside the folders of its runs.
const FILES: &[&str] = &[document::FILE, "config.yaml"];

/// A run that is over.
#[derive(Debug)]
pub(crate) struct Point {
    pub(crate) load: Load,
    /// Below the folder of the series.
    pub(crate) folder: String,
    pub(crate) report: Report,
    pub(crate) figures: Figures,
}

/// A series under way.
#[derive(Debug)]
pub(crate) struct Runs {
    setup: Setup,
    /// As it was asked for.
    config: BenchConfig,
    /// What the largest run came to: what is the same in all of them.
    noted: BenchConfig,
    plan: Arc<Plan>,
    folder: Folder,
    /// The global index of the next run's first request.
    next_index: u64,
    quiet: bool,
    pub(crate) points: Vec<Point>,
    pub(crate) profile: Option<Profile>,
    pub(crate) document: Document,
}

impl Runs {
    /// Sets up what all runs have in common, and prints what is to be done.
    pub(crate) fn start(
        config: &BenchConfig,
        asked: &Asked,
        verbose: bool,
    ) -> Result<Self, Complaint> {
        let quiet = config.quiet == Some(true);
        let mut setup = Setup::new(load::largest(config, asked))?;
        let model = &setup.endpoint.model;
        let folder = folder::make(config.output_dir.as_deref(), model, FILES)?;
        clear(&folder.path);
        let config = BenchConfig {
            model: Some(model.clone()),
            ..config.clone()
        };
        bench::write_config(&config, &folder.path)?;
        let document = Document::new(asked, &config);
        if !quiet {
            setup.summary.retain(|(name, _)| *name != "load");
            let words = document.asked.clone();
            setup.summary.insert(1, ("series", words));
            bench::announce(&setup, verbose);
            terminal::print(&table::head())?;
        }
        Ok(Self {
            noted: setup.config.clone(),
            plan: setup.plan.clone(),
            setup,
            config,
            folder,
            next_index: 0,
            quiet,
            points: Vec::new(),
            profile: None,
            document,
        })
    }

    /// The configuration of the series.
    pub(crate) fn config(&self) -> &BenchConfig {
        &self.config
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.quiet
    }

    pub(crate) fn path(&self) -> &Path {
        &self.folder.path
    }

    /// The slots that one run may have at the most.
    pub(crate) fn level_max(&self) -> u32 {
        load::level_max(&self.config)
    }

    /// Runs `load`, of `requests` where a search says how many. Its point, and the times of its
    /// requests; those are empty without records.
    pub(crate) fn run(
        &mut self,
        load: Load,
        requests: Option<u64>,
    ) -> Result<(&Point, Vec<RequestTimes>), Complaint> {
        let mut point = load.of(&self.config);
        if let Load::Closed(level) = load {
            point = load::in_rounds(point, &self.config, level);
        }
        point.request_count = requests.or(point.request_count);
        self.plan_for(load, &point)?;
        let name = format!("{:03}-{}", self.points.len() + 1, load.name());
        let path = self.folder.path.join(&name);
        let own = folder::make(Some(&path), "", folder::RUN)?;
        if !self.quiet {
            terminal::note(&format!("{name}: {}", self.setup.summary[1].1));
        }
        let Measured {
            report,
            profile,
            kept,
        } = bench::measure(&self.setup, &path, self.quiet)?;
        kept?;
        drop(own);
        let times = records::times(&path)?.unwrap_or_default();
        let figures = if asked::leaves_out(&self.config) && !times.is_empty() {
            Figures::steady(&report, &times)
        } else {
            Figures::whole(&report)
        };
        self.next_index = self.next_index.saturating_add(names_used(&report));
        self.profile = profile.or_else(|| self.profile.take());
        let point = Point {
            load,
            folder: name,
            report,
            figures,
        };
        let document = PointDocument::of(&point);
        if !self.quiet {
            terminal::print(&table::row(&document, terminal::has_colour()))?;
        }
        self.document.points.push(document);
        self.points.push(point);
        // Kept as it grows: what a kill leaves behind can be read.
        self.keep()?;
        Ok((&self.points[self.points.len() - 1], times))
    }

    /// Whether the user has ended the series.
    pub(crate) fn is_interrupted(&self) -> bool {
        signals::interrupted()
            || self
                .points
                .last()
                .is_some_and(|last| last.report.interrupted)
    }

    /// Writes what is known so far.
    pub(crate) fn keep(&self) -> Result<(), Complaint> {
        let mut text = serde_json::to_vec_pretty(&self.document)?;
        text.push(b'\n');
        write_whole(&self.folder.path.join(document::FILE), &text)?;
        Ok(())
    }

    /// Makes `point`, which asks for `load`, the plan of the set-up. What does not depend on the load stays.
    fn plan_for(&mut self, load: Load, point: &BenchConfig) -> Result<(), Complaint> {
        let mut config = load::undecided(&self.noted, point);
        // Random arrivals of one seed would make of several runs the same one again and again.
        let runs_before = self.points.len() as u64;
        config.seed = Some(shape::seed(&self.noted).wrapping_add(runs_before));
        let shape = Shape::new(&config, IN_FLIGHT_MAX)?;
        shape.note(&mut config);
        let shards = match load {
            // A shard without a slot would have nothing to do.
            Load::Closed(level) => self.plan.shards.min(level),
            Load::Open(_) | Load::Same => self.plan.shards,
        };
        let cores = self.plan.cores.as_ref();
        config.shards = Some(shards);
        let plan = Plan {
            load: shape.load.clone(),
            stop: shape.stop,
            first_index: self.next_index,
            warmup_requests: config.warmup_requests.unwrap_or(0),
            shards,
            own_shards: 0..shards,
            cores: cores.map(|cores| cores[..shards as usize].to_vec()),
            ..Plan::clone(&self.plan)
        };
        self.setup.summary[1] = ("load", shape.describe());
        self.setup.plan = Arc::new(plan);
        self.setup.config = config;
        Ok(())
    }
}

/// Names of requests that a run may have used: its shards take them in turn, and one may have gone further
/// than the others.
fn names_used(report: &Report) -> u64 {
    let load = &report.load;
    let shards = report.harness.shards.len() as u64;
    let issued = load.issued + load.never_sent;
    load.warmup.issued + issued.saturating_mul(shards.max(1))
}

/// Takes away the runs of an earlier series in `folder`, and nothing else.
fn clear(folder: &Path) {
    let is_run = |path: &PathBuf| {
        let name = path
            .file_name()
            .map(|name| name.to_string_lossy().into_owned());
        let number = name.as_deref().and_then(|name| name.split_once('-'));
        number.is_some_and(|(number, _)| number.len() == 3 && number.parse::<u16>().is_ok())
            && path.is_dir()
    };
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    for run in entries.map(|entry| entry.path()).filter(is_run) {
        for file in folder::RUN {
            let _ = fs::remove_file(run.join(file));
        }
        // One that holds anything else stays.
        let _ = fs::remove_dir(run);
    }
}
