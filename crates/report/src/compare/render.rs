use std::fmt::Write as _;

use super::figures::{Row, Unit};
use super::interval::Change;
use super::{CONFIDENCE, Comparison};
use crate::console::text::{clean, number, percent, shorten, span};

/// A comparison for a person.
#[must_use]
pub fn render(comparison: &Comparison) -> String {
    let mut out = String::new();
    heading(&mut out, comparison);
    let worse: Vec<&str> = comparison
        .rows
        .iter()
        .filter(|row| row.change == Change::Worse)
        .map(|row| row.name.as_str())
        .collect();
    line(
        &mut out,
        &format!(
            "\n{:24}{:>12}{:>12}{:>10}   {:21}",
            "", "base", "new", "change", "interval"
        ),
    );
    for row in &comparison.rows {
        line(&mut out, &cells(row));
    }
    line(
        &mut out,
        &format!(
            "\nThe intervals hold the true changes, all of them together, in {} of comparisons.",
            percent(CONFIDENCE)
        ),
    );
    let threshold = percent(comparison.threshold);
    let conclusion = if worse.is_empty() {
        format!("No regression: nothing became worse, certainly and by {threshold} or more.")
    } else {
        format!("REGRESSION by {threshold} or more: {}", worse.join(", "))
    };
    line(&mut out, &conclusion);
    out
}

fn heading(out: &mut String, comparison: &Comparison) {
    let names = ["base", "new"]
        .iter()
        .zip([&comparison.base, &comparison.new]);
    for ((name, folders), verdicts) in names.zip(&comparison.verdicts) {
        let verdicts: Vec<String> = verdicts.iter().map(|v| v.to_uppercase()).collect();
        let folders = clean(&folders.join(", "));
        line(out, &format!("{name:6}{folders}   {}", verdicts.join(", ")));
    }
    for difference in &comparison.differences {
        let [base, new] = [&difference.base, &difference.new].map(|v| shorten(&clean(v), 40));
        line(
            out,
            &format!("differs: {}: {base} -> {new}", clean(&difference.key)),
        );
    }
    for note in &comparison.notes {
        line(out, &format!("note: {}", clean(note)));
    }
}

fn cells(row: &Row) -> String {
    let value = |value: Option<f64>| {
        value.map_or_else(
            || "-".to_owned(),
            |value| match row.unit {
                Unit::PerS => number(value),
                Unit::Ns => span(value),
                Unit::Share => percent(value),
            },
        )
    };
    let change = row.relative.map_or_else(|| "-".to_owned(), signed);
    let interval = row.interval.map_or_else(String::new, |[low, high]| {
        format!("{} to {}", signed(low), signed(high))
    });
    let word = match row.change {
        Change::Same => "same",
        Change::Better => "better",
        Change::Worse => "WORSE",
        Change::Open => "open",
        Change::Untested => "",
    };
    let unit = if row.unit == Unit::PerS && !row.name.ends_with("/s") {
        " (per s)"
    } else {
        ""
    };
    let name = format!("{}{unit}", row.name);
    let (base, new) = (value(row.base), value(row.new));
    format!("{name:24}{base:>12}{new:>12}{change:>10}   {interval:21} {word}")
}

/// A relative change: `+3.2 %`.
fn signed(change: f64) -> String {
    format!("{:+.1} %", change * 100.0)
}

fn line(out: &mut String, text: &str) {
    // Writing to a string does not fail.
    let _ = writeln!(out, "{}", text.trim_end());
}
