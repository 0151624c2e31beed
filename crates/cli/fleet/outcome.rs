use std::fs;
use std::path::Path;

use ridgeline_clock::Nanos;
use ridgeline_engine::{Control, LiveTotals, RunResult, window};
use ridgeline_fleet::message::RecordsTold;
use ridgeline_fleet::{Ending, MemberEnd, Seat};
use ridgeline_metrics::Phase;
use ridgeline_report::records::{Elsewhere, Written};
use ridgeline_report::{WorkerFigures, WorkerRecords, WorkerStatus};
use ridgeline_transport_zmq::Address;

use crate::bench::Ended;
use crate::complaint::Complaint;
use crate::count;
use crate::setup::Setup;

/// What came of a worker's records.
#[derive(Clone, Debug, Default)]
pub(super) struct Gathered {
    pub(super) whole: bool,
    pub(super) missing: Option<String>,
}

/// The workers' places in the run: shards in a row for each.
pub(super) fn seats(setup: &Setup, addresses: &[Address], folder: &Path, local: bool) -> Vec<Seat> {
    let workers = u32::try_from(addresses.len()).unwrap_or(u32::MAX).max(1);
    let each = setup.plan.shards / workers;
    let cores = setup.placement.cores.as_ref();
    let seat = |(worker, address): (u32, &Address)| {
        let first = worker * each;
        let own = |cores: &Vec<usize>| -> Option<Vec<u32>> {
            let own = cores.get(first as usize..(first + each) as usize)?;
            own.iter().map(|&core| u32::try_from(core).ok()).collect()
        };
        Seat {
            name: if local {
                format!("#{worker}")
            } else {
                address.to_string()
            },
            shards: first..first + each,
            cores: cores.filter(|_| local).and_then(own),
            folder: local.then(|| {
                let own = folder.join(format!("worker-{worker}"));
                let whole = std::path::absolute(&own).unwrap_or(own);
                whole.display().to_string()
            }),
        }
    };
    (0..).zip(addresses).map(seat).collect()
}

/// What a worker says of its records.
pub(super) fn elsewhere(worker: &str, told: &RecordsTold) -> Elsewhere {
    Elsewhere {
        worker: worker.to_owned(),
        records: told.written,
        spooled: told.spooled,
        unconverted: told.unconverted,
        lost: told.lost,
        uncounted: told.uncounted,
        error: told.error.clone(),
        error_examples: told.error_examples.clone(),
    }
}

/// Everything that a run of workers left behind.
pub(super) struct Outcome {
    pub(super) ends: Vec<MemberEnd>,
    pub(super) begun: Nanos,
    pub(super) measured: Nanos,
    /// Of the gathered records.
    pub(super) written: Option<Written>,
    pub(super) gathered: Vec<Gathered>,
    /// Whether the workers were processes of this machine, with folders in the run's.
    pub(super) local: bool,
}

impl Outcome {
    /// The numbers of all workers as those of one run.
    pub(super) fn into_ended(
        mut self,
        setup: &Setup,
        control: &Control,
        folder: &Path,
    ) -> Result<Ended, Complaint> {
        let plan = &setup.plan;
        let mut workers: Vec<WorkerFigures> = Vec::new();
        for (end, gathered) in self.ends.iter().zip(&self.gathered) {
            workers.push(figures(end, gathered, self.begun));
        }
        if self.local {
            for (place, _) in workers.iter().enumerate().filter(|(_, w)| is_gathered(w)) {
                // What was in it is in the run's own file.
                let _ = fs::remove_dir(folder.join(format!("worker-{place}")));
            }
        }
        let left = self.written.is_none();
        let told = self.ends.iter().filter_map(|end| {
            let finished = end.finished.as_ref()?;
            Some(elsewhere(&end.name, finished.records.as_ref()?))
        });
        if left {
            let mut written = Written::default();
            let mut any = false;
            for told in told {
                any = true;
                written.add(&told);
            }
            self.written = any.then_some(written);
        }
        let drivers = drivers(&workers);
        let mut run = RunResult::begun(plan, self.begun, self.measured, window(plan)?);
        let window_end = run.window_end;
        for finished in self.ends.into_iter().filter_map(|end| end.finished) {
            run.merge(finished.share.into_result(self.begun, window_end));
        }
        // A worker that left was interrupted; the run was not.
        run.interrupted = control.is_stopped();
        let tokens_note = if left && run.collector.uncounted() > 0 {
            Some(
                "the records were left with the workers, so that no tokenizer counted the answers: they \
                 go by their events (--worker-records gather)"
                    .to_owned(),
            )
        } else {
            count::count(setup, &mut run, self.written.as_ref(), control, folder)
        };
        Ok(Ended {
            run,
            written: self.written,
            tokens_note,
            workers,
            driver: drivers,
            watched: None,
        })
    }
}

fn is_gathered(worker: &WorkerFigures) -> bool {
    worker.records.as_ref().is_some_and(|r| r.gathered)
}

/// What drove the sockets, each driver once.
fn drivers(workers: &[WorkerFigures]) -> Option<String> {
    let mut names: Vec<&str> = Vec::new();
    for worker in workers.iter().filter(|worker| !worker.driver.is_empty()) {
        if !names.contains(&worker.driver.as_str()) {
            names.push(&worker.driver);
        }
    }
    (!names.is_empty()).then(|| names.join(" and "))
}

fn figures(end: &MemberEnd, gathered: &Gathered, begun: Nanos) -> WorkerFigures {
    let (status, why) = match &end.ending {
        Ending::Finished => (WorkerStatus::Finished, gathered.missing.clone()),
        Ending::Left { why } => (WorkerStatus::Left, Some(why.clone())),
        Ending::Lost { why } => (WorkerStatus::Lost, Some(why.clone())),
    };
    let totals = totals(end);
    let records = end.finished.as_ref().and_then(|f| f.records.as_ref());
    WorkerFigures {
        name: end.name.clone(),
        host: end.hello.as_ref().map(|hello| hello.host.clone()),
        pid: end.hello.as_ref().map(|hello| hello.pid),
        driver: end.driver.clone(),
        first_shard: end.shards.start,
        shards: end.shards.end.saturating_sub(end.shards.start),
        status,
        why,
        ended_ns: (end.ended - begun).0,
        same_clock: end.clock.is_some_and(|clock| clock.same_clock),
        clock_offset_ns: end.clock.map(|clock| clock.offset_ns),
        clock_error_ns: end.clock.map(|clock| clock.error_ns),
        clock_drift_ns: end.clock_drift_ns,
        issued: totals.issued,
        completed: totals.completed,
        failed: totals.failed,
        content_events: totals.content_events,
        records: records.map(|told| WorkerRecords {
            written: told.written,
            gathered: gathered.whole,
            folder: (!gathered.whole).then(|| told.folder.clone()),
        }),
    }
}

/// The counts of what a worker measured; of a lost one, as it last said.
fn totals(end: &MemberEnd) -> LiveTotals {
    let Some(finished) = &end.finished else {
        return end.totals;
    };
    let collector = finished.share.collector();
    let counts = collector.counts(Phase::Measured);
    LiveTotals {
        issued: counts.issued,
        completed: counts.completed,
        failed: counts.failed + counts.cancelled,
        content_events: collector.content_events(),
        in_flight: 0,
    }
}
