//! The roofline as a person reads it on a terminal: what matters first, then every row.

use ridgeline_clock::Nanos;
use ridgeline_report::console::text::{clean, columns, number, utc, wrap};

use crate::words::{known, known_cores};
use crate::{Roofline, Row, Section};

/// The table keeps to these widths, whatever the terminal has.
const WIDTH_MIN: usize = 80;
const WIDTH_MAX: usize = 160;
/// From here on the words have a column of their own.
const WORDS_BESIDE: usize = 120;

/// Columns of the labels at the left.
const LABEL: usize = 12;
/// Columns of the cells.
const FIGURE: usize = 14;
const RATIO: usize = 8;
const CELLS: usize = 2 * FIGURE + 2 * RATIO;

/// The page for a terminal of `width` columns (80 to 160 are used), with ANSI colours if `colour`. It
/// ends with a line feed.
#[must_use]
pub fn render(roofline: &Roofline, width: usize, colour: bool) -> String {
    let width = width.clamp(WIDTH_MIN, WIDTH_MAX);
    let mut table = Table {
        out: String::new(),
        width,
        name: if width < WORDS_BESIDE {
            width - CELLS
        } else {
            40
        },
        colour,
    };
    table.headline(roofline);
    for section in sections(roofline) {
        table.section(section, roofline);
    }
    table.note(
        "ratio: achieved of ceiling. CPU: CPU time of one, over the ceiling's: 1.00 is the limit, more is \
         dearer. Ceilings are measured in the same run.",
    );
    table.out
}

/// Those that have rows, in the order in which they ran.
fn sections(roofline: &Roofline) -> Vec<Section> {
    let has = |section: &Section| roofline.rows.iter().any(|row| row.section == *section);
    Section::ALL.into_iter().filter(has).collect()
}

struct Table {
    out: String,
    width: usize,
    /// Columns of the rows' names.
    name: usize,
    colour: bool,
}

impl Table {
    fn headline(&mut self, roofline: &Roofline) {
        let Roofline {
            environment,
            cores,
            headline,
            ..
        } = roofline;
        let shared = if cores.client == cores.server {
            format!("the client shares core {} with the server", cores.client)
        } else {
            format!("core {}, the server on core {}", cores.client, cores.server)
        };
        self.bold(&format!("One core of this machine, as a client ({shared})"));
        for (label, figure, why) in headline.lines() {
            self.field(label, &format!("{figure}: {}", clean(&why)));
        }
        if headline.is_empty() {
            self.field("", "no figure of a whole client was measured");
        }
        if let Some(ceiling) = headline.ceiling() {
            self.field("Ceiling", &ceiling);
        }
        if let Some(scale_out) = headline.scale_out() {
            self.field("Scale out", &scale_out);
        }
        let machine = format!(
            "{}, {} cores, Linux {}, {}; ridgeline {} {}; {} UTC, {}",
            known(environment.cpu_model.as_deref()),
            known_cores(environment.cores),
            known(environment.kernel.as_deref()),
            known(environment.congestion_control.as_deref()),
            roofline.ridgeline.version,
            known(roofline.ridgeline.revision.as_deref()),
            utc(roofline.started_unix_ns),
            Nanos(roofline.duration_ns),
        );
        self.field("Machine", &clean(&machine));
        for reservation in roofline.reservations() {
            self.field("Note", &reservation);
        }
    }

    fn section(&mut self, section: Section, roofline: &Roofline) {
        let rows: Vec<&Row> = roofline
            .rows
            .iter()
            .filter(|row| row.section == section)
            .collect();
        self.out.push('\n');
        let title = format!("{}: {}", section.name(), section.about());
        let against = ceilings(&rows);
        let title = match against.as_slice() {
            [] => title,
            some => format!("{title}, against {}", some.join(", ")),
        };
        for line in wrap(&clean(&title), self.width) {
            self.bold(&line);
        }
        self.heads();
        for (place, row) in rows.iter().enumerate() {
            // Rows in a row that are limited alike say it once: below the last of them, beside the first.
            let other = if self.width < WORDS_BESIDE {
                rows.get(place + 1)
            } else {
                place.checked_sub(1).and_then(|before| rows.get(before))
            };
            let told = other.is_some_and(|other| other.limited_by == row.limited_by);
            self.row(row, told);
        }
    }

    fn heads(&mut self) {
        let beside = if self.width < WORDS_BESIDE {
            ""
        } else {
            "  limited by"
        };
        let line = format!(
            "{:name$}{:>FIGURE$}{:>FIGURE$}{:>RATIO$}{:>RATIO$}{beside}",
            "  what",
            "achieved",
            "ceiling",
            "ratio",
            "CPU",
            name = self.name,
        );
        self.faint(&line);
    }

    /// `told`: its words stand with another row.
    fn row(&mut self, row: &Row, told: bool) {
        let cells = cells(row);
        let mut name = clean(&row.name);
        // Rows differ in the ends of their names: a long one is not cut, it has lines of its own.
        if columns(&name) > self.name - 3 {
            for line in wrap(&name, self.width - 2) {
                self.line(&format!("  {line}"));
            }
            name.clear();
        }
        let gap = " ".repeat(self.name - 2 - columns(&name));
        let mut line = format!("  {name}{gap}");
        for (cell, columns) in cells.iter().zip([FIGURE, FIGURE, RATIO, RATIO]) {
            line.push_str(&format!("{cell:>columns$}"));
        }
        let words = clean(&row.limited_by);
        if self.width < WORDS_BESIDE {
            self.line(&line);
            if !told && !words.is_empty() {
                let sign = if row.measured.is_some() {
                    "limited by "
                } else {
                    ""
                };
                for line in wrap(&format!("{sign}{words}"), self.width - 4) {
                    self.faint(&format!("    {line}"));
                }
            }
            return;
        }
        let room = self.width - self.name - CELLS - 2;
        let words = wrap(if told { "\"" } else { &words }, room);
        for (place, words) in words.iter().enumerate() {
            let start = if place == 0 {
                line.clone()
            } else {
                " ".repeat(self.name + CELLS)
            };
            self.line(&format!("{start}  {words}"));
        }
    }

    fn field(&mut self, label: &str, text: &str) {
        let mut start = format!("{label:LABEL$}");
        for line in wrap(text, self.width - LABEL) {
            self.line(&format!("{start}{line}"));
            start = " ".repeat(LABEL);
        }
    }

    fn note(&mut self, text: &str) {
        self.out.push('\n');
        for line in wrap(text, self.width) {
            self.faint(&line);
        }
    }

    fn bold(&mut self, text: &str) {
        self.painted("1", text);
    }

    fn faint(&mut self, text: &str) {
        self.painted("2", text);
    }

    fn painted(&mut self, code: &str, text: &str) {
        let text = text.trim_end();
        if self.colour && !text.is_empty() {
            self.line(&format!("\u{1b}[{code}m{text}\u{1b}[0m"));
        } else {
            self.line(text);
        }
    }

    fn line(&mut self, line: &str) {
        self.out.push_str(line.trim_end());
        self.out.push('\n');
    }
}

/// Achieved, ceiling, ratio, CPU ratio.
fn cells(row: &Row) -> [String; 4] {
    let none = || "-".to_owned();
    let Some(measured) = &row.measured else {
        return [none(), none(), none(), none()];
    };
    let ceiling = measured.ceiling.as_ref();
    [
        row.unit.show(measured.achieved),
        ceiling.map_or_else(none, |ceiling| row.unit.show(ceiling.value)),
        row.ratio().map_or_else(none, number),
        row.cpu_ratio().map_or_else(none, number),
    ]
}

/// The names of the rows' ceilings, each once.
fn ceilings(rows: &[&Row]) -> Vec<String> {
    let mut names = Vec::new();
    for row in rows {
        let ceiling = row.measured.as_ref().and_then(|m| m.ceiling.as_ref());
        if let Some(ceiling) = ceiling
            && !names.contains(&ceiling.name)
        {
            names.push(ceiling.name.clone());
        }
    }
    names
}

impl Roofline {
    /// What a reader must know before taking a figure for this machine's.
    #[must_use]
    pub fn reservations(&self) -> Vec<String> {
        let mut found = Vec::new();
        if self.interrupted {
            found.push("interrupted: what was measured until then".to_owned());
        }
        if !self.optimised {
            found.push("a debug build: none of its figures is a ceiling".to_owned());
        }
        if self.quick {
            found.push("--quick: fewer points and shorter runs".to_owned());
        }
        if self.cores.client == self.cores.server {
            found.push(
                "one core for both ends: what is measured over sockets is both of them together"
                    .to_owned(),
            );
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn a_narrow_table_says_what_limits_below_the_rows() {
        let text = render(&samples::roofline(), 80, false);
        assert_eq!(text, include_str!("../tests/golden/table-80.txt"));
    }

    #[test]
    fn a_wide_table_has_a_column_for_what_limits() {
        let text = render(&samples::roofline(), 200, false);
        assert_eq!(text, include_str!("../tests/golden/table-160.txt"));
    }

    #[test]
    fn every_table_fits_its_width() {
        let mut hostile = samples::roofline();
        hostile.rows[0].name = format!("a\u{1b}[2J\u{202e}漢字{}", "x".repeat(300));
        hostile.rows[0].limited_by = format!("{} y", "z".repeat(300));
        hostile.quick = true;
        hostile.interrupted = true;
        hostile.optimised = false;
        hostile.cores.client = hostile.cores.server;
        for width in [10, 80, 100, 119, 120, 160, 300] {
            for roofline in [&samples::roofline(), &hostile] {
                let text = render(roofline, width, false);
                for line in text.lines() {
                    assert!(columns(line) <= width.clamp(80, 160), "{width}: {line}");
                    assert!(!line.ends_with(' '), "{line:?}");
                }
                assert!(text.chars().all(|c| c == '\n' || !c.is_control()));
            }
            assert!(render(&samples::roofline(), width, true).contains("\u{1b}[1m"));
        }
    }

    #[test]
    fn a_run_without_rows_says_so() {
        let mut empty = samples::roofline();
        empty.rows.clear();
        empty.headline = crate::Headline::default();
        let text = render(&empty, 80, false);
        assert!(
            text.contains("no figure of a whole client was measured"),
            "{text}"
        );
    }
}
