//! Bars of ratios, each row beside its ceiling.

use ridgeline_report::console::text::{clean, number, shorten};

use super::svg::{Anchor, Svg};
use crate::{Row, Section};

/// Which ratio.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Bars {
    /// Achieved over ceiling: more is better.
    Throughput,
    /// CPU time of one over that at the ceiling: less is better.
    Cpu,
}

const WIDTH: f64 = 640.0;
const NAME: f64 = 300.0;
/// Right of the bars, for the figures.
const FIGURE: f64 = 44.0;
const BAR: f64 = 18.0;
const NAME_CHARS: usize = 46;

impl Bars {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Throughput => "Throughput, as a share of the ceiling (more is better)",
            Self::Cpu => "CPU time of one, over the ceiling's (1 is the least there is)",
        }
    }

    fn of(self, row: &Row) -> Option<f64> {
        match self {
            // How far behind time one is has a ratio and is no throughput.
            Self::Throughput => row.ratio().filter(|_| !row.unit.less_is_better()),
            Self::Cpu => row.cpu_ratio(),
        }
    }

    /// Longer bars are cut off here; their figures are not.
    fn most(self) -> f64 {
        match self {
            Self::Throughput => 1.25,
            Self::Cpu => 4.0,
        }
    }
}

/// The picture of all rows that have the ratio, by section; none when no row has.
pub(crate) fn bars(kind: Bars, rows: &[Row]) -> Option<String> {
    let known: Vec<(&Row, f64)> = rows
        .iter()
        .filter_map(|row| Some((row, kind.of(row)?)))
        .collect();
    let sections: Vec<Section> = Section::ALL
        .into_iter()
        .filter(|section| known.iter().any(|(row, _)| row.section == *section))
        .collect();
    if sections.is_empty() {
        return None;
    }
    let longest = known.iter().map(|(_, ratio)| *ratio).fold(1.0, f64::max);
    let most = (longest * 1.02).min(kind.most());
    let lines = known.len() + sections.len();
    let height = BAR * f64::from(u32::try_from(lines).unwrap_or(u32::MAX)) + 30.0;
    let mut svg = Svg::new(WIDTH, height, kind.title());
    let room = WIDTH - NAME - FIGURE;
    let at = |ratio: f64| NAME + room * (ratio / most).min(1.0);
    let mut y = 4.0;
    for section in sections {
        svg.text((0.0, y + 13.0), Anchor::Start, "head", section.name());
        y += BAR;
        for (row, ratio) in known.iter().filter(|(row, _)| row.section == section) {
            let name = shorten(&clean(&row.name), NAME_CHARS);
            svg.text((NAME - 8.0, y + 13.0), Anchor::End, "tick", &name);
            let told = format!("{}: {}; {}", row.name, number(*ratio), row.limited_by);
            let class = if *ratio > most { "bar cut" } else { "bar" };
            svg.rect(
                (NAME, y + 3.0),
                (at(*ratio) - NAME, BAR - 6.0),
                class,
                &told,
            );
            let figure = (WIDTH - 2.0, y + 13.0);
            svg.text(figure, Anchor::End, "figure", &number(*ratio));
            y += BAR;
        }
    }
    svg.line((at(1.0), 4.0), (at(1.0), y + 4.0), "limit");
    svg.text((at(1.0), y + 17.0), Anchor::Middle, "tick", "ceiling");
    Some(svg.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::elements;
    use crate::samples;

    #[test]
    fn every_row_with_a_ratio_has_a_bar() {
        let rows = samples::rows();
        let picture = bars(Bars::Throughput, &rows).unwrap();
        let names = elements(&picture);
        let with = rows
            .iter()
            .filter(|row| row.ratio().is_some() && !row.unit.less_is_better())
            .count();
        assert_eq!(names.iter().filter(|name| *name == "rect").count(), with);
        assert!(picture.contains(">0.94</text>") && picture.contains(">client</text>"));
        let picture = bars(Bars::Cpu, &rows).unwrap();
        // The scanner's 3.42 fits; nothing is cut.
        assert!(picture.contains(">3.42</text>") && !picture.contains("cut"));
        assert_eq!(bars(Bars::Cpu, &rows[1..2]), None);
    }
}
