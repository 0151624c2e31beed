//! How far a roofline is, while it goes on.

use std::io::{self, IsTerminal};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use ridgeline_roofline::{Row, Told};

use crate::terminal;

/// Seldom: what is drawn takes its time from what is measured.
const DRAW_EVERY: Duration = Duration::from_secs(1);

/// Shows it on stderr: a bar to whoever looks at a terminal, lines to whoever reads a log.
#[derive(Debug)]
pub(crate) struct Measuring {
    bar: Option<ProgressBar>,
    section: &'static str,
}

impl Measuring {
    pub(crate) fn start() -> Self {
        Self {
            bar: io::stderr().is_terminal().then(bar),
            section: "",
        }
    }

    pub(crate) fn hear(&mut self, told: &Told<'_>) {
        match told {
            Told::Begun { section, place, of } => {
                self.section = section.name();
                match &self.bar {
                    Some(bar) => {
                        bar.set_length(u64::try_from(*of).unwrap_or(u64::MAX));
                        bar.set_position(u64::try_from(*place).unwrap_or(0));
                        bar.set_message(format!("{}: {}", section.name(), section.about()));
                    }
                    None => terminal::note(&format!(
                        "[{}/{of}] {}: {}",
                        place + 1,
                        section.name(),
                        section.about()
                    )),
                }
            }
            Told::Row(row) => match &self.bar {
                Some(bar) => bar.set_message(format!("{}: {}", self.section, words(row))),
                None => terminal::note(&format!("      {}", words(row))),
            },
        }
    }

    pub(crate) fn end(self) {
        if let Some(bar) = self.bar {
            bar.finish_and_clear();
        }
    }
}

fn words(row: &Row) -> String {
    match &row.measured {
        Some(measured) => format!("{}: {}", row.name, row.unit.show(measured.achieved)),
        None => format!("{}: {}", row.name, row.limited_by),
    }
}

fn bar() -> ProgressBar {
    let bar = ProgressBar::with_draw_target(Some(1), ProgressDrawTarget::stderr());
    let style = ProgressStyle::with_template("{elapsed_precise} {bar:16} {pos}/{len}  {wide_msg}");
    bar.set_style(
        style
            .unwrap_or_else(|_| ProgressStyle::default_bar())
            .progress_chars("=> "),
    );
    bar.enable_steady_tick(DRAW_EVERY);
    bar
}

#[cfg(test)]
mod tests {
    use ridgeline_roofline::{Measured, Section, Unit};

    use super::*;

    #[test]
    fn a_row_is_told_with_its_figure_or_why_there_is_none() {
        let row = Row::new(Section::Client, "64 connections", Unit::RequestsPerS);
        let measured = row.clone().measured(Measured {
            achieved: 165_000.0,
            cpu_ns: None,
            ceiling: None,
        });
        assert_eq!(words(&measured), "64 connections: 165k req/s");
        let lost = row.limited_by("not measured: no server");
        assert_eq!(words(&lost), "64 connections: not measured: no server");
    }
}
