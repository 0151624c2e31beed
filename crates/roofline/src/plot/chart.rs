//! Lines along an axis: every series that the rows of a section form.

use std::collections::BTreeMap;

use super::scale::{Quantity, Scale};
use super::svg::{Anchor, Svg};
use crate::{Row, Section, Unit};

/// Fewer places than these are no line.
const POINTS_MIN: usize = 3;
/// More lines than these can't be told apart.
const LINES_MAX: usize = 4;
/// With more places than these an axis has round ticks instead of the places themselves.
const PLACES_MAX: usize = 8;

const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 62.0;
const RIGHT: f64 = 20.0;
const BOTTOM: f64 = 42.0;
const LEGEND_LINE: f64 = 18.0;
/// The least distance of the middles of two ticks' words.
const TICK_APART: f64 = 40.0;

/// A picture and its title.
#[derive(Clone, Debug)]
pub(crate) struct Chart {
    pub(crate) section: Section,
    pub(crate) title: String,
    pub(crate) svg: String,
}

/// The pictures that `rows` give: of each section, unit and axis, where at least three rows lie along
/// the axis and are alike otherwise.
pub(crate) fn charts(rows: &[Row]) -> Vec<Chart> {
    let mut found = Vec::new();
    for section in Section::ALL {
        let own: Vec<&Row> = rows.iter().filter(|row| row.section == section).collect();
        let mut units: Vec<Unit> = Vec::new();
        for row in &own {
            if !units.contains(&row.unit) {
                units.push(row.unit);
            }
        }
        for unit in units {
            let of_unit: Vec<&Row> = own.iter().copied().filter(|r| r.unit == unit).collect();
            for axis in axes(&of_unit) {
                let groups = along(&axis, &of_unit);
                if !groups.is_empty() {
                    found.push(Chart {
                        section,
                        title: title(unit, &axis, &groups),
                        svg: draw(unit, &axis, &groups),
                    });
                }
            }
        }
    }
    found
}

/// The axes that rows have places on. A percentile tells lines apart and is none.
fn axes(rows: &[&Row]) -> Vec<String> {
    let mut axes: Vec<String> = Vec::new();
    for axis in rows.iter().flat_map(|row| row.at.keys()) {
        if axis != "percentile" && !axes.contains(axis) {
            axes.push(axis.clone());
        }
    }
    axes
}

/// Rows that differ in one axis only.
#[derive(Debug)]
struct Group<'a> {
    /// Their places on the other axes.
    rest: BTreeMap<&'a str, f64>,
    /// By their place.
    rows: Vec<(f64, &'a Row)>,
}

fn along<'a>(axis: &str, rows: &[&'a Row]) -> Vec<Group<'a>> {
    let mut groups: Vec<Group<'a>> = Vec::new();
    for &row in rows {
        let (Some(place), Some(_)) = (row.at.get(axis), &row.measured) else {
            continue;
        };
        let others = row.at.iter().filter(|(name, _)| *name != axis);
        let rest: BTreeMap<&str, f64> = others.map(|(name, at)| (name.as_str(), *at)).collect();
        match groups.iter_mut().find(|group| group.rest == rest) {
            Some(group) => group.rows.push((*place, row)),
            None => groups.push(Group {
                rest,
                rows: vec![(*place, row)],
            }),
        }
    }
    for group in &mut groups {
        group.rows.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        group.rows.dedup_by(|(a, _), (b, _)| a == b);
    }
    groups.retain(|group| group.rows.len() >= POINTS_MIN);
    groups.truncate(LINES_MAX);
    groups
}

fn axis_quantity(axis: &str) -> Quantity {
    match axis {
        axis if axis.ends_with("_bytes") => Quantity::Bytes,
        axis if axis.ends_with("_ns") => Quantity::Span,
        axis if axis.ends_with("share") || axis.ends_with("fraction") => Quantity::Ratio,
        _ => Quantity::Count,
    }
}

fn unit_quantity(unit: Unit) -> Quantity {
    match unit {
        Unit::BytesEach => Quantity::Bytes,
        Unit::LagNs => Quantity::Span,
        _ => Quantity::Count,
    }
}

/// `prompt_bytes` as `prompt`, `rate_per_s` as `rate, a second`.
fn axis_name(axis: &str) -> String {
    let name = axis
        .strip_suffix("_bytes")
        .or_else(|| axis.strip_suffix("_ns"))
        .unwrap_or(axis);
    match name.strip_suffix("_per_s") {
        Some(name) => format!("{}, a second", name.replace('_', " ")),
        None => name.replace('_', " "),
    }
}

fn place_name(axis: &str, at: f64) -> String {
    let figure = axis_quantity(axis).show(at);
    if axis == "percentile" {
        format!("p{figure}")
    } else {
        format!("{} {figure}", axis_name(axis))
    }
}

/// What differs among the groups names a line; what all have in common stands in the title.
fn differs(groups: &[Group<'_>], axis: &str) -> bool {
    let first = groups[0].rest.get(axis);
    groups.iter().any(|group| group.rest.get(axis) != first)
}

fn title(unit: Unit, axis: &str, groups: &[Group<'_>]) -> String {
    let mut title = format!("{} by {}", unit.name(), axis_name(axis));
    let rest = groups[0].rest.iter();
    let common: Vec<String> = rest
        .filter(|(name, _)| !differs(groups, name))
        .map(|(name, at)| place_name(name, *at))
        .collect();
    if !common.is_empty() {
        title.push_str(&format!(" ({})", common.join(", ")));
    }
    title
}

/// One line of the picture.
struct Line {
    name: String,
    class: String,
    points: Vec<(f64, f64)>,
}

fn lines(groups: &[Group<'_>]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for (colour, group) in groups.iter().enumerate() {
        let own: Vec<String> = group
            .rest
            .iter()
            .filter(|(name, _)| differs(groups, name))
            .map(|(name, at)| place_name(name, *at))
            .collect();
        let own = own.join(", ");
        let named = |who: &str| {
            let name = format!("{who} {own}");
            name.trim().to_owned()
        };
        let figures = group.rows.iter();
        let points = figures.filter_map(|(at, row)| Some((*at, row.measured.as_ref()?.achieved)));
        lines.push(Line {
            name: named("ridgeline"),
            class: format!("c{colour}"),
            points: points.collect(),
        });
        let ceilings = group.rows.iter().filter_map(|(at, row)| {
            let ceiling = row.measured.as_ref()?.ceiling.as_ref()?;
            Some((ceiling.name.as_str(), (*at, ceiling.value)))
        });
        let ceilings: Vec<(&str, (f64, f64))> = ceilings.collect();
        if let Some((name, _)) = ceilings.first() {
            lines.push(Line {
                name: named(name),
                class: format!("c{colour} bare"),
                points: ceilings.iter().map(|(_, point)| *point).collect(),
            });
        }
    }
    lines
}

fn draw(unit: Unit, axis: &str, groups: &[Group<'_>]) -> String {
    let lines = lines(groups);
    let of = |which: fn(&(f64, f64)) -> f64| -> Vec<f64> {
        let points = lines.iter().flat_map(|line| line.points.iter());
        points.map(which).collect()
    };
    let mut places = of(|point| point.0);
    places.sort_by(f64::total_cmp);
    places.dedup();
    let x = Scale::of(&places, false);
    let y = Scale::of(&of(|point| point.1), true).rounded();
    let legend = legend(&lines);
    let top = 10.0 + LEGEND_LINE * legend.last().map_or(0.0, |(_, row, _)| row + 1.0);
    let height = top + HEIGHT;
    let mut svg = Svg::new(WIDTH, height, &title(unit, axis, groups));
    for (left, row, line) in &legend {
        let middle = 10.0 + LEGEND_LINE * row;
        svg.line((*left, middle), (left + 20.0, middle), &line.class);
        let at = (left + 26.0, middle + 4.0);
        svg.text(at, Anchor::Start, "tick", &line.name);
    }
    let (floor, ceiling) = (height - BOTTOM, top + 4.0);
    let x_at = |value: f64| LEFT + 8.0 + x.place(value) * (WIDTH - LEFT - RIGHT - 16.0);
    let y_at = |value: f64| floor - y.place(value) * (floor - ceiling);
    for tick in y.ticks() {
        let at = y_at(tick);
        svg.line((LEFT, at), (WIDTH - RIGHT, at), "grid");
        let text = unit_quantity(unit).show(tick);
        svg.text((LEFT - 6.0, at + 4.0), Anchor::End, "tick", &text);
    }
    svg.line((LEFT, floor), (WIDTH - RIGHT, floor), "axis");
    let ticks = if places.len() <= PLACES_MAX {
        places
    } else {
        x.ticks()
    };
    let mut last = f64::NEG_INFINITY;
    for tick in ticks {
        let at = x_at(tick);
        svg.line((at, floor), (at, floor + 4.0), "axis");
        if at - last >= TICK_APART {
            let text = axis_quantity(axis).show(tick);
            svg.text((at, floor + 17.0), Anchor::Middle, "tick", &text);
            last = at;
        }
    }
    let middle = (LEFT + WIDTH - RIGHT) / 2.0;
    let below = (middle, height - 6.0);
    svg.text(below, Anchor::Middle, "tick", &axis_name(axis));
    for line in &lines {
        let points: Vec<(f64, f64)> = line.points.iter().map(|p| (x_at(p.0), y_at(p.1))).collect();
        svg.polyline(&points, &line.class);
        for (point, (place, value)) in points.iter().zip(&line.points) {
            let told = format!(
                "{}: {} at {}",
                line.name,
                unit.show(*value),
                place_name(axis, *place)
            );
            svg.point(*point, 3.0, &line.class, &told);
        }
    }
    svg.finish()
}

/// Where each line is named: from the left, on which row.
fn legend(lines: &[Line]) -> Vec<(f64, f64, &Line)> {
    let (mut left, mut row) = (LEFT, 0.0);
    let mut found = Vec::new();
    for line in lines {
        let chars = u32::try_from(line.name.chars().count()).unwrap_or(u32::MAX);
        let width = 44.0 + 6.6 * f64::from(chars);
        if left > LEFT && left + width > WIDTH {
            (left, row) = (LEFT, row + 1.0);
        }
        found.push((left, row, line));
        left += width;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plot::elements;
    use crate::samples;

    #[test]
    fn every_series_of_the_rows_is_drawn() {
        let charts = charts(&samples::rows());
        let titles: Vec<&str> = charts.iter().map(|chart| chart.title.as_str()).collect();
        assert_eq!(
            titles,
            [
                "requests/s by connections (prompt 128 B)",
                "events/s by events per write",
                "lag by rate, a second",
            ]
        );
        for chart in &charts {
            let names = elements(&chart.svg);
            let count = |of: &str| names.iter().filter(|name| *name == of).count();
            assert!(count("polyline") >= 2 && count("circle") >= 6, "{names:?}");
        }
        let lag = &charts[2].svg;
        for part in [
            "ridgeline p50",
            "ridgeline p99",
            "bare sleeper p99",
            "106k",
            "200 us",
        ] {
            assert!(lag.contains(part), "{part}: {lag}");
        }
        assert!(charts[0].svg.contains(">1024</text>"), "{}", charts[0].svg);
    }

    #[test]
    fn places_inside_the_picture_only() {
        for chart in charts(&samples::rows()) {
            let numbers = |attribute: &str| -> Vec<f64> {
                let before = format!(" {attribute}=\"");
                let parts = chart.svg.split(&before).skip(1);
                let values = parts.filter_map(|part| part.split('"').next()?.parse().ok());
                values.collect()
            };
            for x in numbers("cx").into_iter().chain(numbers("x1")) {
                assert!((0.0..=WIDTH).contains(&x), "{x}");
            }
            for y in numbers("cy") {
                assert!((0.0..=HEIGHT + 100.0).contains(&y), "{y}");
            }
        }
    }

    #[test]
    fn rows_without_figures_or_neighbours_give_no_picture() {
        let mut rows = samples::rows();
        rows.truncate(4);
        assert!(charts(&rows).is_empty());
        let mut rows = samples::rows();
        for row in &mut rows {
            row.measured = None;
        }
        assert!(charts(&rows).is_empty());
    }
}
