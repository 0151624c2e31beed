//! The stages of a schedule: each is judged like a run of its own.

use ridgeline_engine::{Load, Plan};
use ridgeline_metrics::verdict::{Evidence, VerdictLimits, judge};
use ridgeline_metrics::{Metric, StageTotals};

use super::float;
use crate::report::StageFigures;

/// Those that had requests; none where the schedule has a single one.
pub(super) fn stages(
    totals: &[StageTotals],
    plan: &Plan,
    run: &Evidence,
    limits: &VerdictLimits,
) -> Vec<StageFigures> {
    let Load::Open { schedule, .. } = &plan.load else {
        return Vec::new();
    };
    let asked = schedule.stages.iter().map(|stage| stage.rate_per_s);
    totals
        .iter()
        .zip(asked)
        .map(|(totals, rate_per_s)| stage(totals, rate_per_s, run, limits))
        .filter(|stage| stage.issued + stage.never_sent > 0)
        .collect()
}

fn stage(
    totals: &StageTotals,
    rate_per_s: f64,
    run: &Evidence,
    limits: &VerdictLimits,
) -> StageFigures {
    let evidence = Evidence::of_stage(totals, run, limits);
    let span = evidence.duration.as_secs_f64();
    let counts = totals.counts();
    StageFigures {
        requested_rate: rate_per_s,
        achieved_rate: (span > 0.0).then(|| float(totals.submitted()) / span),
        begin_ns: totals.from().0,
        duration_ns: evidence.duration.0,
        issued: counts.issued,
        completed: counts.completed,
        failed: counts.failed,
        cancelled: counts.cancelled,
        never_sent: totals.never_sent_count(),
        schedule_lag_ns: totals.summary(Metric::ScheduleLag),
        ttft_ns: totals.summary(Metric::Ttft),
        latency_ns: totals.summary(Metric::Latency),
        harness_delay_ns: totals.summary(Metric::HarnessDelay),
        latency_growth: evidence.latency_growth,
        verdict: judge(&evidence, limits),
    }
}

/// What messages call the stage at `place`.
pub(super) fn name(place: usize, stage: &StageFigures) -> String {
    format!("in stage {} ({}/s)", place + 1, stage.requested_rate)
}
