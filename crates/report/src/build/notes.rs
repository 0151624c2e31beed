//! What a reader should know and no reason of the verdict says, in plain words.

use ridgeline_clock::Nanos;
use ridgeline_metrics::verdict::LimitedBy;
use ridgeline_telemetry::MachineFigures;

use crate::console::text::percent;
use crate::{LoadKind, Report, ShardFigures};

/// Beyond these shares of the time something is worth a note.
const STEAL: f64 = 0.01;
const FOREIGN: f64 = 0.05;
const QUEUED: f64 = 0.02;
/// And beyond this share of segments that were sent again.
const RETRANSMITS: f64 = 0.001;
/// Little's law holds to within this, in a steady state.
const LITTLE: f64 = 0.1;
/// Fewer requests one after the other show mostly the start and the end of a run.
const TURNS_MIN: f64 = 10.0;

/// The notes of a report that is complete but for them.
pub(super) fn notes(report: &Report) -> Vec<String> {
    let mut notes: Vec<String> = falling_behind(report).into_iter().collect();
    notes.extend(unsteady(report));
    if let Some(machine) = &report.harness.machine {
        notes.extend(shared(machine));
        notes.extend(network(machine));
    }
    notes.extend(report.harness.shards.iter().flat_map(thread));
    notes
}

/// An open loop that the server does not keep up with.
fn falling_behind(report: &Report) -> Option<String> {
    let of_a_rate = report.load.kind == LoadKind::Open;
    let by_server = report.verdict.limited_by == LimitedBy::Server;
    let growth = report
        .load
        .latency_growth
        .filter(|growth| growth.ratio() > 1.5);
    let growth = growth.filter(|growth| of_a_rate && by_server && growth.explained > 0.5)?;
    let [first, last] = [growth.first_ns, growth.last_ns].map(|ns| Nanos::from_secs_f64(ns / 1e9));
    Some(format!(
        "latency grew from {first} to {last} over the run while the client had time to spare: the server \
         does not keep up with this rate, and a longer run would find longer times"
    ))
}

/// Little's law does not hold, in a run that is long beside its requests.
fn unsteady(report: &Report) -> Option<String> {
    let (law, load) = (report.load.littles_law?, &report.load);
    let apart = (law.ratio - 1.0).abs();
    let whole = load.failed + load.cancelled == 0;
    let long = float(load.completed) >= TURNS_MIN * law.in_flight.max(TURNS_MIN);
    (whole && long && apart > LITTLE).then(|| {
        format!(
            "{:.1} requests were in flight and not X R = {:.1} (Little's law): for much of the run the \
             load was not in a steady state, and a longer one would say more",
            law.in_flight,
            law.in_flight / law.ratio
        )
    })
}

/// What others took of the machine.
fn shared(machine: &MachineFigures) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(steal) = machine.steal_share.filter(|&steal| steal > STEAL) {
        notes.push(format!(
            "the hypervisor gave {} of this machine's time to others (steal)",
            percent(steal)
        ));
    }
    let foreign = machine
        .cores
        .iter()
        .filter(|core| core.has_shard && core.foreign_busy_share > FOREIGN);
    notes.extend(foreign.map(|core| {
        format!(
            "other programs and interrupts had core {}, where a shard ran, for {} of the time",
            core.core,
            percent(core.foreign_busy_share)
        )
    }));
    if let Some(throttled @ 1..) = machine.throttled_ns {
        notes.push(format!(
            "the CPU quota of the client's cgroup held it back for {} in {} periods",
            Nanos(throttled),
            machine.throttled_periods.unwrap_or_default()
        ));
    }
    let governor = machine.governor.as_ref();
    notes.extend(governor.filter(|name| *name != "performance").map(|name| {
        let name = crate::console::text::clean(name);
        format!("the cores of the shards run under the frequency governor {name}, not performance")
    }));
    notes
}

/// What the kernel's TCP dropped or sent again.
fn network(machine: &MachineFigures) -> Vec<String> {
    let mut notes = Vec::new();
    let dropped = [
        (
            machine.listen_drops,
            "connections for want of room in a listening socket",
        ),
        (
            machine.backlog_drops,
            "TCP segments for want of room in a socket's backlog",
        ),
        (
            machine.receive_drops,
            "TCP segments for want of room in a receive queue",
        ),
    ];
    for (count, what) in dropped {
        if let Some(count @ 1..) = count {
            notes.push(format!(
                "the kernel dropped {count} {what} (all programs together)"
            ));
        }
    }
    if let (Some(again), Some(sent)) = (machine.retransmits, machine.segments_sent)
        && float(again) > RETRANSMITS * float(sent)
    {
        notes.push(format!(
            "{again} of {sent} TCP segments were sent again (all programs together): the network lost or \
             delayed some"
        ));
    }
    notes
}

/// What held one shard's thread back.
fn thread(shard: &ShardFigures) -> Vec<String> {
    let Some(thread) = &shard.thread else {
        return Vec::new();
    };
    let place = shard
        .core
        .map_or_else(String::new, |core| format!(" on core {core}"));
    let mut notes = Vec::new();
    let span = float(thread.span_ns.max(1));
    if let Some(queued) = thread.queue_wait_ns
        && float(queued) / span > QUEUED
    {
        notes.push(format!(
            "the shard{place} was ready to run and waited for the CPU for {} of the time",
            percent(float(queued) / span)
        ));
    }
    if thread.faults_major > 0 {
        notes.push(format!(
            "the shard{place} waited {} times for memory from a disk (major page faults)",
            thread.faults_major
        ));
    }
    notes
}

#[expect(clippy::cast_precision_loss, reason = "shares need a few digits")]
fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use ridgeline_metrics::Growth;
    use ridgeline_telemetry::{CoreFigures, ThreadFigures};

    use super::*;
    use crate::samples::{self, Recipe};

    fn steady() -> Report {
        let mut report = samples::report(&Recipe::default());
        report.load.littles_law = None;
        report
    }

    #[test]
    fn a_quiet_machine_is_not_talked_about() {
        let mut report = steady();
        report.harness.machine = Some(MachineFigures {
            steal_share: Some(0.009),
            throttled_ns: Some(0),
            governor: Some("performance".to_owned()),
            segments_sent: Some(10_000),
            retransmits: Some(3),
            listen_drops: Some(0),
            ..MachineFigures::default()
        });
        report.harness.shards[0].thread = Some(ThreadFigures {
            span_ns: 1_000,
            queue_wait_ns: Some(19),
            ..ThreadFigures::default()
        });
        assert_eq!(notes(&report), Vec::<String>::new());
    }

    #[test]
    fn what_others_did_is_said() {
        let mut report = steady();
        let core = |core, has_shard| CoreFigures {
            core,
            has_shard,
            foreign_busy_share: 0.21,
            ..CoreFigures::default()
        };
        report.harness.machine = Some(MachineFigures {
            steal_share: Some(0.031),
            cores: vec![core(0, false), core(1, true)],
            throttled_ns: Some(71_000_000),
            throttled_periods: Some(4),
            governor: Some("powersave".to_owned()),
            segments_sent: Some(10_000),
            retransmits: Some(40),
            listen_drops: Some(7),
            backlog_drops: Some(1),
            receive_drops: None,
            ..MachineFigures::default()
        });
        report.harness.shards[0].thread = Some(ThreadFigures {
            span_ns: 1_000,
            queue_wait_ns: Some(300),
            faults_major: 2,
            ..ThreadFigures::default()
        });
        let found = notes(&report);
        let parts = [
            "3.10 % of this machine's time to others",
            "had core 1, where a shard ran, for 21.0 %",
            "held it back for 71.0 ms in 4 periods",
            "governor powersave",
            "dropped 7 connections",
            "dropped 1 TCP segments for want of room in a socket's backlog",
            "40 of 10000 TCP segments were sent again",
            "the shard on core 1 was ready to run and waited for the CPU for 30.0 %",
            "waited 2 times for memory",
        ];
        assert_eq!(found.len(), parts.len(), "{found:#?}");
        for (note, part) in found.iter().zip(parts) {
            assert!(note.contains(part), "{note}");
        }
    }

    #[test]
    fn a_server_that_falls_behind_is_named() {
        let mut report = samples::report(&Recipe {
            load: samples::open(100.0, None),
            ..Recipe::default()
        });
        report.load.littles_law = crate::LittlesLaw::of(20.0, 100.0, 1e8);
        report.load.latency_growth = Some(Growth {
            first_ns: 1e8,
            last_ns: 9e8,
            explained: 0.99,
        });
        report.verdict.limited_by = LimitedBy::Server;
        let found = notes(&report);
        assert_eq!(found.len(), 2, "{found:#?}");
        assert!(found[0].starts_with("latency grew from 100 ms to 900 ms over the run"));
        assert!(found[1].starts_with("20.0 requests were in flight and not X R = 10.0"));
        report.verdict.limited_by = LimitedBy::Client;
        assert_eq!(
            notes(&report).len(),
            1,
            "nothing is known of the server then"
        );
    }
}
