//! What is promised of components that have a section of their own; perf/SPEC.md has the same promises under the
//! same numbers.

use std::fmt;

use ridgeline_report::console::text::number as figure;

use crate::{Row, Section, Unit};

/// A promise, and what was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Checked {
    /// Its number in perf/SPEC.md.
    pub number: u32,
    /// What is promised.
    pub what: &'static str,
    /// At least this.
    pub bound: f64,
    /// What was found; none when the rows that tell it were not measured.
    pub found: Option<f64>,
}

impl Checked {
    /// Whether it holds. What was not measured does not.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.found.is_some_and(|found| found >= self.bound)
    }
}

impl fmt::Display for Checked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { number, what, .. } = self;
        let found = self.found.map_or_else(|| "not measured".to_owned(), figure);
        let bound = figure(self.bound);
        let verdict = if self.is_kept() { "kept" } else { "BROKEN" };
        write!(f, "{number:>3}  {what}: {found}, >= {bound}: {verdict}")
    }
}

/// Records between processes and between threads.
const IPC: &str = "ZeroMQ over ipc, records";
const IN_PROCESS: &str = "in-process ends, records";

/// The streams that the scanner's promises are about: one token an event in whole buffers.
const FAST: &str = "engine: 1 token, 64 KiB reads";
const FULL: &str = "full: 1 token, 64 KiB reads";

/// Every promise about a section that `rows` are of, by its number.
#[must_use]
pub fn check(rows: &[Row]) -> Vec<Checked> {
    let row = |section: Section, start: &str, unit: Unit| {
        rows.iter()
            .find(|row| row.section == section && row.unit == unit && row.name.starts_with(start))
    };
    let achieved = |row: Option<&Row>| Some(row?.measured.as_ref()?.achieved);
    let (fast, full) = (
        row(Section::Scanner, FAST, Unit::BytesPerS),
        row(Section::Scanner, FULL, Unit::BytesPerS),
    );
    let times_full = achieved(fast)
        .zip(achieved(full))
        .map(|(fast, full)| fast / full);
    let plain = row(Section::Engine, "not streamed", Unit::RequestsPerS);
    let streamed = row(Section::Engine, "streamed", Unit::EventsPerS);
    let ipc = row(Section::Transport, IPC, Unit::RecordsPerS);
    let in_process = row(Section::Transport, IN_PROCESS, Unit::RecordsPerS);
    let of = |section: Section, checked: Vec<Checked>| {
        let was_run = rows.iter().any(|row| row.section == section);
        checked.into_iter().filter(move |_| was_run)
    };
    let scanner = vec![
        Checked {
            number: 16,
            what: "chunks, lines and events read, over a memchr pass",
            bound: 0.25,
            found: fast.and_then(Row::ratio),
        },
        Checked {
            number: 17,
            what: "the same over the full parser",
            bound: 10.0,
            found: times_full,
        },
    ];
    let engine = vec![
        Checked {
            number: 18,
            what: "requests a second of the engine without a kernel",
            bound: 1.5e6,
            found: achieved(plain),
        },
        Checked {
            number: 19,
            what: "coalesced events a second of the engine without a kernel",
            bound: 2e7,
            found: achieved(streamed),
        },
    ];
    let transport = vec![
        Checked {
            number: 24,
            what: "records a second in messages over ipc",
            bound: 1e7,
            found: achieved(ipc),
        },
        Checked {
            number: 25,
            what: "records a second in messages between threads",
            bound: 2e7,
            found: achieved(in_process),
        },
    ];
    of(Section::Scanner, scanner)
        .chain(of(Section::Engine, engine))
        .chain(of(Section::Transport, transport))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Ceiling, Measured};

    fn row(section: Section, name: &str, unit: Unit, achieved: f64) -> Row {
        Row::new(section, name, unit).measured(Measured {
            achieved,
            cpu_ns: None,
            ceiling: Some(Ceiling {
                name: "a pass".to_owned(),
                value: 20e9,
                cpu_ns: None,
            }),
        })
    }

    #[test]
    fn what_is_at_its_bound_is_kept_and_what_was_not_measured_is_not() {
        let rows = [
            row(Section::Scanner, FAST, Unit::EventsPerS, 1.0),
            row(Section::Scanner, FAST, Unit::BytesPerS, 5e9),
            row(Section::Scanner, FULL, Unit::BytesPerS, 0.51e9),
            row(
                Section::Engine,
                "streamed, coalesced",
                Unit::EventsPerS,
                21e6,
            ),
        ];
        let checked = check(&rows);
        let kept: Vec<bool> = checked.iter().map(Checked::is_kept).collect();
        assert_eq!(kept, [true, false, false, true]);
        assert_eq!(
            checked[2].to_string(),
            " 18  requests a second of the engine without a kernel: not measured, >= 1,500,000: BROKEN"
        );
        assert!(checked[0].to_string().ends_with("0.25, >= 0.25: kept"));
        // Of a section that was not run nothing is said; of one that was, all of it.
        assert_eq!(check(&[]), []);
        let threads = format!("{IN_PROCESS} of 128 B by 256");
        let rows = [row(Section::Transport, &threads, Unit::RecordsPerS, 3e7)];
        let kept: Vec<bool> = check(&rows).iter().map(Checked::is_kept).collect();
        assert_eq!(kept, [false, true]);
    }

    #[test]
    fn the_rows_that_promises_are_about_have_these_names() {
        let stream = crate::streams::Kind::ALL[0].name();
        let reads = crate::streams::Reads::Buffers.name();
        assert_eq!(FAST, format!("engine: {stream}, {reads}"));
        assert_eq!(FULL, format!("full: {stream}, {reads}"));
    }
}
