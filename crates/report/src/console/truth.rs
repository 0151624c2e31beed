//! The page of a join with the truth: what was matched, the table of differences, the faults.

use super::text::{clean, count};
use super::{Page, Style, WIDTH_MAX, WIDTH_MIN};
use crate::truth::{Clock, ClockKind, Joined, Spread};

const HEADS: [&str; 6] = ["count", "min", "p50", "p99", "max", "mean"];
const COLUMN: usize = 9;
const NAME: usize = 21;

/// The console's page of a join: `width` columns (80 to 120 are used), with ANSI colours if `colour`.
#[must_use]
pub fn truth(joined: &Joined, width: usize, colour: bool) -> String {
    let mut page = Page {
        out: String::new(),
        width: width.clamp(WIDTH_MIN, WIDTH_MAX),
        colour,
    };
    sides(&mut page, joined);
    page.out.push('\n');
    table(&mut page, joined);
    page.out.push('\n');
    faults(&mut page, joined);
    for note in &joined.notes {
        page.item(Style::Caution, "!", &clean(note));
    }
    page.out
}

fn sides(page: &mut Page, joined: &Joined) {
    let origin = &joined.truth;
    let stamps = if origin.rx_timestamps {
        "requests stamped by the kernel"
    } else {
        "requests stamped when reaped"
    };
    let told = |count_of: Option<u64>| count_of.map_or_else(|| "unknown".to_owned(), count);
    let text = format!(
        "{}: mock server {} on {}, {stamps}; {} lines, {} dropped",
        clean(&origin.file),
        clean(&origin.server_version),
        clean(&origin.driver),
        count(origin.lines),
        told(origin.dropped)
    );
    page.field("Truth", &text);
    let text = match &joined.clock {
        None => "not known to be comparable".to_owned(),
        Some(Clock {
            kind: ClockKind::Monotonic,
            ..
        }) => "one for both sides, CLOCK_MONOTONIC".to_owned(),
        Some(clock) => format!(
            "two wall clocks, each read to within {} ns together; how far they are apart is in the \
             times one way",
            count(clock.error_ns)
        ),
    };
    page.field("Clock", &text);
    let requests = &joined.requests;
    let mut text = format!(
        "{} matched, {} compared; {} only in the records, {} only in the truth",
        count(requests.matched),
        count(requests.compared),
        count(requests.only_in_records),
        count(requests.only_in_truth + requests.without_id)
    );
    if requests.without_id > 0 {
        text.push_str(&format!(" ({} without an id)", count(requests.without_id)));
    }
    page.field("Requests", &text);
}

fn table(page: &mut Page, joined: &Joined) {
    let head = line("Client less server", "", &HEADS.map(str::to_owned));
    let head = Style::Faint.paint(&head, page.colour);
    page.line(&head);
    for (name, spread) in [
        ("TTFT", joined.ttft_error_ns),
        ("Gap between events", joined.gap_error_ns),
        ("TTFT, read alone", joined.ttft_alone_error_ns),
        ("Gap, both read alone", joined.gap_alone_error_ns),
        ("Latency", joined.latency_error_ns),
        ("Request, one way", joined.request_one_way_ns),
        ("First token, one way", joined.first_token_one_way_ns),
        ("Server's lateness", joined.write_lateness_ns),
    ] {
        page.line(&row(name, spread.as_ref()));
    }
}

fn row(name: &str, spread: Option<&Spread>) -> String {
    let Some(spread) = spread else {
        let mut cells = [(); HEADS.len()].map(|()| "N/A".to_owned());
        "0".clone_into(&mut cells[0]);
        return line(name, "", &cells);
    };
    let largest = spread
        .min
        .unsigned_abs()
        .max(spread.p99.unsigned_abs())
        .max(spread.p50.unsigned_abs());
    let (unit, scale) = match largest {
        10_000_000_000.. => ("s", 1e9),
        10_000_000.. => ("ms", 1e6),
        _ => ("us", 1e3),
    };
    let cell = |ns: f64| {
        let value = ns / scale;
        match value.abs() {
            v if v >= 9_999.95 => format!("{value:.0}"),
            v if v >= 999.995 => format!("{value:.1}"),
            _ => format!("{value:.2}"),
        }
    };
    let cells = [
        count(spread.count),
        cell(float(spread.min)),
        cell(float(spread.p50)),
        cell(float(spread.p99)),
        cell(float(spread.max)),
        cell(spread.mean),
    ];
    line(name, unit, &cells)
}

fn line(name: &str, unit: &str, cells: &[String; HEADS.len()]) -> String {
    let mut line = format!("{name:NAME$} {unit:2}");
    for cell in cells {
        line.push_str(&format!(" {cell:>COLUMN$}"));
    }
    line
}

fn faults(page: &mut Page, joined: &Joined) {
    let mut label = "Recorded";
    for (fault, recorded) in &joined.faults {
        let kinds: Vec<String> = recorded
            .iter()
            .map(|(kind, requests)| format!("{} {}", clean(kind), count(*requests)))
            .collect();
        let injected = if fault == "none" {
            "no fault".to_owned()
        } else {
            clean(fault)
        };
        page.field(label, &format!("{injected}: {}", kinds.join(", ")));
        label = "";
    }
}

#[expect(clippy::cast_precision_loss, reason = "a few digits are printed")]
fn float(ns: i64) -> f64 {
    ns as f64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::truth::{JOINED_SCHEMA, Matching, Origin};

    fn joined() -> Joined {
        let row = |kinds: &[(&str, u64)]| {
            let kinds = kinds.iter().map(|&(kind, n)| (kind.to_owned(), n));
            kinds.collect::<BTreeMap<_, _>>()
        };
        Joined {
            schema: JOINED_SCHEMA.to_owned(),
            truth: Origin {
                file: "truth.jsonl".to_owned(),
                server_version: "0.1.0".to_owned(),
                driver: "io_uring".to_owned(),
                rx_timestamps: true,
                lines: 1_003,
                dropped: Some(0),
                unfinished: Some(0),
            },
            clock: Some(Clock {
                kind: ClockKind::Monotonic,
                offset_ns: 0,
                error_ns: 0,
            }),
            requests: Matching {
                records: 1_000,
                matched: 1_000,
                without_id: 3,
                compared: 990,
                ..Matching::default()
            },
            ttft_error_ns: Spread::of(&mut [21_250, 20_000]),
            gap_error_ns: Spread::of(&mut [-12_345_678, 31_000_000]),
            ttft_alone_error_ns: None,
            gap_alone_error_ns: Spread::of(&mut [7]),
            latency_error_ns: None,
            request_one_way_ns: Spread::of(&mut [999, 8_000]),
            first_token_one_way_ns: Spread::of(&mut [10_000_000_000]),
            write_lateness_ns: Spread::of(&mut [0]),
            faults: BTreeMap::from([
                ("none".to_owned(), row(&[("ok", 990)])),
                (
                    "reset-mid".to_owned(),
                    row(&[("reset", 3), ("truncated", 7)]),
                ),
            ]),
            notes: vec!["something is missing".to_owned()],
        }
    }

    const PAGE: &str = "\
Truth       truth.jsonl: mock server 0.1.0 on io_uring, requests stamped by the
            kernel; 1,003 lines, 0 dropped
Clock       one for both sides, CLOCK_MONOTONIC
Requests    1,000 matched, 990 compared; 0 only in the records, 3 only in the
            truth (3 without an id)

Client less server           count       min       p50       p99       max      mean
TTFT                  us         2     20.00     20.00     21.25     21.25     20.62
Gap between events    ms         2    -12.35    -12.35     31.00     31.00      9.33
TTFT, read alone                 0       N/A       N/A       N/A       N/A       N/A
Gap, both read alone  us         1      0.01      0.01      0.01      0.01      0.01
Latency                          0       N/A       N/A       N/A       N/A       N/A
Request, one way      us         2      1.00      1.00      8.00      8.00      4.50
First token, one way  s          1     10.00     10.00     10.00     10.00     10.00
Server's lateness     us         1      0.00      0.00      0.00      0.00      0.00

Recorded    no fault: ok 990
            reset-mid: reset 3, truncated 7
  ! something is missing
";

    #[test]
    fn the_page_says_what_was_found() {
        assert_eq!(truth(&joined(), 80, false), PAGE);
    }

    #[test]
    fn two_machines_and_none_are_told_apart() {
        let mut joined = joined();
        joined.clock = None;
        joined.truth.dropped = None;
        let page = truth(&joined, 80, false);
        assert!(
            page.contains("unknown dropped") && page.contains("not known to be"),
            "{page}"
        );
        joined.clock = Some(Clock {
            kind: ClockKind::Realtime,
            offset_ns: 5,
            error_ns: 1_050,
        });
        let page = truth(&joined, 80, false);
        assert!(
            page.contains("two wall clocks") && page.contains("1,050 ns"),
            "{page}"
        );
    }
}
