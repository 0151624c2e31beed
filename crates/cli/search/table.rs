//! The table of a series: a row for each run.

use ridgeline_metrics::verdict::{LimitedBy, Status};
use ridgeline_report::console::text::{number, span};

use super::document::PointDocument;
use super::figures::float;

/// Stands behind a rate whose run never became steady.
const UNSTEADY: char = '!';

/// The line above the rows.
pub(crate) fn head() -> String {
    line(&[
        "Load", "Verdict", "Limit", "Req/s", "Tokens/s", "TTFT p50", "p99", "Latency", "p99",
    ])
}

/// The row of a run.
pub(crate) fn row(point: &PointDocument, colour: bool) -> String {
    let figures = &point.figures;
    let limited = match point.limited_by {
        LimitedBy::None => "-".to_owned(),
        by => by.to_string(),
    };
    let time = |ns: Option<u64>| ns.map_or_else(|| "N/A".to_owned(), |ns| span(float(ns)));
    let mark = if figures.is_steady == Some(false) {
        UNSTEADY.to_string()
    } else {
        String::new()
    };
    let row = line(&[
        &point.name,
        &point.status.to_string(),
        &limited,
        &format!("{}{mark}", number(figures.requests_per_s)),
        &number(figures.output_tokens_per_s),
        &time(figures.ttft_p50_ns),
        &time(figures.ttft_p99_ns),
        &time(figures.latency_p50_ns),
        &time(figures.latency_p99_ns),
    ]);
    let paint = match point.status {
        _ if !colour => return row,
        Status::Valid => "32",
        Status::Degraded => "33",
        Status::Invalid => "31",
    };
    let word = point.status.to_string();
    row.replacen(&word, &format!("\x1b[{paint}m{word}\x1b[0m"), 1)
}

/// What marks in the rows mean, where there are any.
pub(crate) fn legend(points: &[PointDocument]) -> Option<String> {
    let unsteady = |point: &PointDocument| point.figures.is_steady == Some(false);
    points.iter().any(unsteady).then(|| {
        format!("{UNSTEADY} never steady: times change to the end of the run; the figures are of all of it\n")
    })
}

/// Columns, two of them to the left; 80 in all.
const WIDTHS: [usize; 9] = [16, 9, 6, 8, 9, 9, 8, 8, 7];

fn line(cells: &[&str; WIDTHS.len()]) -> String {
    let mut line = String::new();
    for (place, (cell, width)) in cells.iter().zip(WIDTHS).enumerate() {
        let fill = width.saturating_sub(cell.chars().count() + usize::from(place > 0));
        let fill = " ".repeat(fill);
        if place > 0 {
            line.push(' ');
        }
        if place < 3 {
            line.push_str(cell);
            line.push_str(&fill);
        } else {
            line.push_str(&fill);
            line.push_str(cell);
        }
    }
    line.truncate(line.trim_end().len());
    line.push('\n');
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_keeps_to_eighty_columns() {
        let head = head();
        assert!(head.trim_end().chars().count() <= 80, "{head}");
        assert!(head.starts_with("Load ") && head.ends_with("p99\n"));
    }
}
