//! `ridgeline bench`: a load, from its words to its report.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use ridgeline_engine::{Control, RunResult, soon};
use ridgeline_metrics::verdict::LimitedBy;
use ridgeline_report::records::{RecordWriter, Written};
use ridgeline_report::{
    Context, Environment, Report, ReportError, RunClock, WorkerFigures, console, write_json,
    write_whole,
};
use ridgeline_roofline::Profile;
use ridgeline_telemetry::{Watch, Watched};
use rtrb::RingBuffer;

use crate::complaint::Complaint;
use crate::config::{BenchConfig, RecordsKind};
use crate::progress::Progress;
use crate::secrets;
use crate::setup::{self, Setup};
use crate::topology::Topology;
use crate::{count, file, fleet, folder, headroom, search, signals, terminal};

/// The flags of a run.
#[derive(Args, Debug)]
pub(crate) struct BenchArgs {
    /// A YAML file with the same keys; flags win
    #[arg(long = "config", short = 'f', value_name = "FILE")]
    file: Option<PathBuf>,
    #[command(flatten)]
    config: BenchConfig,
    /// Ask for whole answers
    #[arg(long, help_heading = "Endpoint", overrides_with = "streaming")]
    no_streaming: bool,
    /// Print what the memory of the run is for
    #[arg(long, short = 'v', help_heading = "Output")]
    verbose: bool,
}

/// The flags laid over the file.
pub(crate) fn merged(
    flags: &BenchConfig,
    no_streaming: bool,
    path: Option<&Path>,
) -> Result<BenchConfig, Complaint> {
    let mut flags = flags.clone();
    if no_streaming {
        flags.streaming = Some(false);
    }
    let file = path.map_or_else(|| Ok(BenchConfig::default()), file::read)?;
    file::merge(&file, &flags)
}

/// Runs a load. The exit code.
pub(crate) fn command(args: &BenchArgs) -> Result<u8, Complaint> {
    let config = merged(&args.config, args.no_streaming, args.file.as_deref())?;
    if search::is_asked(&config) {
        return search::command(&config, args.verbose);
    }
    let quiet = config.quiet == Some(true);
    let setup = Setup::new(config)?;
    let folder = folder::make(
        setup.config.output_dir.as_deref(),
        &setup.endpoint.model,
        folder::RUN,
    )?;
    let path = folder.path.as_path();
    if !quiet {
        announce(&setup, args.verbose);
    }
    let Measured {
        report,
        profile,
        kept,
    } = measure(&setup, path, quiet)?;
    let colour = terminal::has_colour();
    if quiet {
        let headline = console::headline(&report, colour);
        terminal::print(&format!("{}\n{}\n", headline.trim_end(), path.display()))?;
    } else {
        terminal::print(&console::render(&report, terminal::width(), colour))?;
        if report.verdict.limited_by == LimitedBy::Client {
            terminal::note(search::advice(&report, profile.as_ref()).trim_end());
        }
    }
    if profile.is_none() && !quiet && io::stderr().is_terminal() {
        terminal::note(
            "note: how far is that from what this client can do here? `ridgeline roofline --quick` \
             measures it in two minutes, and later runs say so",
        );
    }
    kept?;
    Ok(report.exit_code())
}

/// Whether this machine alone drove the load.
fn is_here(report: &Report) -> bool {
    let here = fleet::host_name();
    let mut workers = report.harness.workers.iter();
    workers.all(|worker| worker.host.as_ref() == Some(&here))
}

/// A run that was measured.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) report: Report,
    /// What a client can do on this machine, where that is known.
    pub(crate) profile: Option<Profile>,
    /// Whether the report could be written: what was measured is shown even if it can't be kept.
    pub(crate) kept: Result<(), ReportError>,
}

/// Runs what was set up, and leaves everything but the page in `folder`.
pub(crate) fn measure(setup: &Setup, folder: &Path, quiet: bool) -> Result<Measured, Complaint> {
    write_config(&setup.config, folder)?;
    let ended = if setup.config.workers.is_some() {
        fleet::drive(setup, folder, quiet)?
    } else {
        drive(setup, folder, quiet)?
    };
    let mut report = report(setup, &ended, folder)?;
    let profile = headroom::own_profile();
    report.harness.headroom = profile
        .as_ref()
        .filter(|_| is_here(&report))
        .and_then(|own| headroom::of(&report, own));
    let kept = write_json(&report, folder);
    Ok(Measured {
        report,
        profile,
        kept,
    })
}

/// The file to repeat the run with. The folder is left out: repeating it must not replace it.
pub(crate) fn write_config(config: &BenchConfig, folder: &Path) -> Result<(), Complaint> {
    let config = BenchConfig {
        output_dir: None,
        quiet: None,
        ..config.clone()
    };
    write_whole(&folder.join("config.yaml"), file::text(&config)?.as_bytes())?;
    Ok(())
}

/// What is about to be done.
pub(crate) fn announce(setup: &Setup, verbose: bool) {
    for (name, words) in &setup.summary {
        terminal::note(&format!("{name:<8} {words}"));
    }
    if setup.config.workers.is_none()
        && let Some(words) = Topology::here().describe()
    {
        terminal::note(&format!("machine  {words}"));
    }
    if verbose {
        for line in &setup.memory {
            terminal::note(&format!(
                "memory   {:<20} {:>9}",
                line.what,
                setup::bytes(line.bytes)
            ));
        }
        let limits = &setup.plan.limits;
        let cut = setup::bytes(limits.carry_pool_bytes_max as u64);
        let document = setup::bytes(limits.body_bytes_max as u64);
        terminal::note("memory   on demand, at the most, and beside the sum:");
        terminal::note(&format!(
            "memory     {cut} a shard for events that reads cut"
        ));
        terminal::note(&format!(
            "memory     {document} for each answer that is one document"
        ));
        if setup.plan.save_text {
            terminal::note(&format!(
                "memory     {document} for the text of each answer until it is written"
            ));
        }
    }
    for note in &setup.notes {
        terminal::note(&format!("note: {note}"));
    }
}

/// A run that is over.
pub(crate) struct Ended {
    pub(crate) run: RunResult,
    /// What became of its records, if there are any.
    pub(crate) written: Option<Written>,
    pub(crate) tokens_note: Option<String>,
    /// Of a run of several workers; else empty.
    pub(crate) workers: Vec<WorkerFigures>,
    /// What drove the workers' sockets.
    pub(crate) driver: Option<String>,
    /// What was seen of this process and its machine, if it had shards.
    pub(crate) watched: Option<Watched>,
}

/// The run itself.
fn drive(setup: &Setup, folder: &Path, quiet: bool) -> Result<Ended, Complaint> {
    let plan = &setup.plan;
    let cannot = |what: &'static str| {
        move |error: io::Error| Complaint::new(format!("cannot {what}: {error}"))
    };
    let watch = setup.placement.helping(|| Watch::start(plan.shards));
    let watch = watch.map_err(cannot("start a thread"))?;
    let control = Arc::new(Control::new(plan.shards).with_edge(watch.edge()));
    let wanted = setup.config.records != Some(RecordsKind::None);
    let queues = if wanted { plan.shards } else { 0 };
    let (producers, consumers) = (0..queues)
        .map(|_| RingBuffer::new(plan.limits.records_queued_max))
        .unzip();
    let help = || -> Result<_, Complaint> {
        let writer = wanted
            .then(|| RecordWriter::start(folder, consumers, control.clone()))
            .transpose()?;
        signals::watch(control.clone()).map_err(cannot("wait for signals"))?;
        let progress = (!quiet)
            .then(|| Progress::start(plan, control.clone()))
            .transpose()
            .map_err(cannot("start a thread"))?;
        Ok((writer, progress))
    };
    let (writer, progress) = setup.placement.helping(help)?;
    let run = setup
        .backend
        .run(plan, &setup.requests, &control, producers, soon);
    let watched = watch.finish();
    drop(progress);
    // Also after a failed run: what came is kept.
    let written = writer.map(RecordWriter::finish);
    let mut run = run.map_err(|error| {
        Complaint::new(format!(
            "{error}; the run ended early, and its records are in {}",
            folder.display()
        ))
    })?;
    let tokens_note = count::count(setup, &mut run, written.as_ref(), &control, folder);
    Ok(Ended {
        run,
        written,
        watched: Some(watched),
        tokens_note,
        workers: Vec::new(),
        driver: None,
    })
}

fn report(setup: &Setup, ended: &Ended, folder: &Path) -> Result<Report, Complaint> {
    let run = &ended.run;
    let mut config = setup.config.clone();
    secrets::redact(&mut config.header);
    let clock = RunClock::of(run.started);
    let mut report = Report::build(
        run,
        &Context {
            plan: &setup.plan,
            config: serde_json::to_value(&config)?,
            url: setup.endpoint.url.clone(),
            endpoints: setup.endpoint.urls(),
            model: setup.endpoint.model.clone(),
            started_unix_ns: clock.start_realtime_ns,
            environment: Environment {
                clock: Some(clock),
                ..Environment::read(
                    ended
                        .driver
                        .as_deref()
                        .unwrap_or_else(|| setup.backend.name()),
                )
            },
            program: headroom::program(),
            written: ended.written.as_ref(),
            tokens_note: ended.tokens_note.clone(),
            shared_core: setup.placement.shared_core,
            workers: ended.workers.clone(),
            watched: ended.watched.as_ref(),
            limits: setup.verdict,
        },
    );
    report.folder = Some(folder.to_owned());
    Ok(report)
}
