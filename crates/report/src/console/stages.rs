use ridgeline_metrics::Summary;
use ridgeline_metrics::verdict::{LimitedBy, Status};

use super::text::{count, number, span};
use super::{LABEL, Page, Style};
use crate::StageFigures;

/// A row for each stage of a schedule that has several.
pub(super) fn stages(page: &mut Page, stages: &[StageFigures]) {
    let Some(first) = stages.first() else {
        return;
    };
    let time = if first.ttft_ns.is_some() {
        "TTFT p50"
    } else {
        "Time p50"
    };
    let head = ["Rate/s", "Sent/s", "OK", time, "p99", "Lag p99"].map(str::to_owned);
    let head = line("Stages", &head, "Verdict");
    page.line(&Style::Faint.paint(&head, page.colour));
    for (place, stage) in stages.iter().enumerate() {
        let style = match stage.verdict.status {
            Status::Valid => Style::Plain,
            Status::Degraded => Style::Caution,
            Status::Invalid => Style::Bad,
        };
        let row = line(&format!("  {}", place + 1), &cells(stage), &verdict(stage));
        page.line(&style.paint(&row, page.colour));
    }
    page.out.push('\n');
}

/// 80 columns at the most.
fn line(label: &str, cells: &[String; 6], verdict: &str) -> String {
    const WIDTHS: [usize; 6] = [8, 8, 8, 9, 9, 9];
    let mut line = format!("{label:LABEL$}");
    for (cell, width) in cells.iter().zip(WIDTHS) {
        line.push_str(&format!("{cell:>width$}"));
    }
    format!("{line} {verdict}")
}

fn cells(stage: &StageFigures) -> [String; 6] {
    let of = |summary: Option<&Summary>, of: fn(&Summary) -> u64| {
        summary.map_or_else(|| "N/A".to_owned(), |summary| time(of(summary)))
    };
    let response = stage.ttft_ns.as_ref().or(stage.latency_ns.as_ref());
    [
        number(stage.requested_rate),
        stage.achieved_rate.map_or_else(|| "N/A".to_owned(), number),
        count(stage.completed),
        of(response, |summary| summary.p50),
        of(response, |summary| summary.p99),
        of(stage.schedule_lag_ns.as_ref(), |summary| summary.p99),
    ]
}

#[expect(clippy::cast_precision_loss, reason = "a few digits are printed")]
fn time(ns: u64) -> String {
    span(ns as f64)
}

/// `degraded, client`.
fn verdict(stage: &StageFigures) -> String {
    let status = stage.verdict.status;
    match stage.verdict.limited_by {
        LimitedBy::Load | LimitedBy::None => status.to_string(),
        by => format!("{status}, {by}"),
    }
}
