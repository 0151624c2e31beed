//! What was seen of each shard's thread, beside what the shard says itself.

use ridgeline_clock::Nanos;
use ridgeline_engine::ShardReport;
use ridgeline_metrics::verdict::StallCause;
use ridgeline_telemetry::{Cause, Stall, Watched};

use super::shard;
use crate::report::{ShardFigures, StallFigures};

/// The figures of shard `k` of a run that began at `started`.
pub(super) fn watched(
    k: u32,
    report: &ShardReport,
    started: Nanos,
    watched: Option<&Watched>,
) -> ShardFigures {
    let stall = stall(k, report, watched).map(|stall| StallFigures {
        end_ns: (report.pace.stall_ended - started).0,
        length_ns: report.pace.stall_max.0,
        cause: stall.cause,
        words: stall.to_string(),
    });
    ShardFigures {
        thread: watched.and_then(|watched| watched.thread(k)),
        stall,
        ..shard(report)
    }
}

/// Why its longest stall was so long, for the verdict.
pub(super) fn stall_cause(
    k: u32,
    report: &ShardReport,
    watched: Option<&Watched>,
) -> Option<StallCause> {
    let stall = stall(k, report, watched).filter(|stall| stall.cause != Cause::Unknown)?;
    Some(StallCause {
        words: stall.to_string(),
        remedy: stall.cause.remedy(),
    })
}

fn stall(k: u32, report: &ShardReport, watched: Option<&Watched>) -> Option<Stall> {
    let (end, length) = (report.pace.stall_ended, report.pace.stall_max);
    Some(watched?.stall(k, end, length))
}
