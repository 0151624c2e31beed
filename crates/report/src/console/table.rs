//! The table of latencies.

use std::collections::BTreeSet;

use ridgeline_metrics::{Metric, Percentile, Summary};

use super::text::count;
use crate::Report;

const HEADS: [&str; 7] = ["avg", "min", "max", "p99", "p90", "p50", "std"];

/// Stands before a percentile with too few samples behind it.
pub(super) const MARK: char = '~';

/// The table in lines: a header and a row for each metric. The second value is a note on the marked
/// percentiles, if there are any.
pub(super) fn lines(report: &Report, width: usize) -> (Vec<String>, Option<String>) {
    let column = ((width.saturating_sub(24)) / HEADS.len()).clamp(8, 11);
    let label = width.saturating_sub(column * HEADS.len() + 3).clamp(21, 30);
    let mut lines = vec![line("Metric", "", &HEADS, label, column)];
    let mut marked = BTreeSet::new();
    for metric in report.shown() {
        let name = name(metric, report);
        lines.push(match report.summary(metric) {
            Some(summary) => {
                marked.extend(below(summary));
                let (unit, cells) = row(summary);
                line(name, unit, &cells, label, column)
            }
            None => line(name, "", &["N/A"; HEADS.len()], label, column),
        });
    }
    let floors: Vec<String> = marked
        .into_iter()
        .map(|percentile| format!("{percentile} needs {}", count(percentile.sample_floor())))
        .collect();
    let note = format!("{MARK} too few samples: {}", floors.join(", "));
    (lines, (!floors.is_empty()).then_some(note))
}

fn line(
    name: &str,
    unit: &str,
    cells: &[impl AsRef<str>; HEADS.len()],
    label: usize,
    column: usize,
) -> String {
    let mut line = format!("{name:label$} {unit:2}");
    for cell in cells {
        let cell = cell.as_ref();
        line.push_str(&" ".repeat(column.saturating_sub(cell.len())));
        line.push_str(cell);
    }
    line
}

/// The unit of a row, and its cells.
fn row(summary: &Summary) -> (&'static str, [String; HEADS.len()]) {
    // The unit of the median; of the mean where most are nothing. No cell is wider than seven.
    let typical = if summary.p50 > 0 {
        float(summary.p50)
    } else {
        summary.mean
    };
    let most = float(summary.max);
    let (unit, scale) = match typical {
        t if t >= 1e9 || most >= 1e12 => ("s", 1e9),
        t if t >= 1e6 || most >= 1e9 => ("ms", 1e6),
        _ => ("us", 1e3),
    };
    let cell = |ns: f64| {
        let value = ns / scale;
        match value {
            v if v >= 9_999.95 => format!("{v:.0}"),
            v if v >= 999.995 => format!("{v:.1}"),
            v => format!("{v:.2}"),
        }
    };
    let below = below(summary);
    let percentile = |percentile: Percentile, ns: u64| {
        let cell = cell(float(ns));
        if below.contains(&percentile) {
            format!("{MARK}{cell}")
        } else {
            cell
        }
    };
    let cells = [
        cell(summary.mean),
        cell(float(summary.min)),
        cell(float(summary.max)),
        percentile(Percentile::P99, summary.p99),
        percentile(Percentile::P90, summary.p90),
        percentile(Percentile::P50, summary.p50),
        cell(summary.std),
    ];
    (unit, cells)
}

/// The printed percentiles with too few samples behind them.
fn below(summary: &Summary) -> Vec<Percentile> {
    crate::build::PRINTED
        .into_iter()
        .filter(|percentile| summary.count < percentile.sample_floor())
        .collect()
}

fn name(metric: Metric, report: &Report) -> &'static str {
    let per_event = report
        .tokens
        .per_event
        .is_some_and(|per| !(0.99..=1.01).contains(&per));
    match metric {
        // Gaps between events that are not a token each, and nobody says how many each carries.
        Metric::Itl if per_event && report.target.streaming && report.icl_ns == report.itl_ns => {
            "ITL (per event)"
        }
        Metric::Ttft => "TTFT",
        Metric::TtftFromSchedule => "TTFT from schedule",
        Metric::Ttfo => "TTFO",
        Metric::Latency => "Latency",
        Metric::LatencyFromSchedule => "Latency from schedule",
        Metric::Itl => "ITL (per token)",
        Metric::Icl => "ICL (per event)",
        Metric::Tpot => "TPOT",
        Metric::Connect => "Connect",
        Metric::Tls => "TLS handshake",
        Metric::ScheduleLag => "Schedule lag",
        Metric::PoolWait => "Wait for connection",
        Metric::CapWait => "Wait under cap",
        Metric::HarnessDelay => "Harness delay",
        Metric::StampWidth => "Stamp width",
        Metric::Send => "Send",
    }
}

#[expect(clippy::cast_precision_loss, reason = "a few digits are printed")]
fn float(ns: u64) -> f64 {
    ns as f64
}
