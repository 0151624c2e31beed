//! Runs side by side: what changed, and whether that is certain.
//!
//! Each figure of a run comes with its doubt. A run is cut into [`BATCHES`] stretches of equal length; how
//! much the figure differs from stretch to stretch gives its standard error (sectioning: Asmussen and Glynn,
//! *Stochastic Simulation*, III.5). Requests that overlap are not independent, and this does not ask
//! them to be, as a test over single requests would. Where both sides have several runs each run is one stretch, so that what
//! the machine changes from run to run is in the doubt, too.
//!
//! Two sides are compared by the relative change of the figure, with Welch's interval. A change is *certain*
//! when the interval of all rows together ([`CONFIDENCE`], shared out by Bonferroni) does not hold zero, and
//! a *regression* when it is certain, for the worse, and at least the threshold.

mod figures;
mod interval;
mod render;
mod requests;
mod side;

#[cfg(test)]
mod tests;

use serde::Serialize;

pub use figures::Row;
pub use interval::Change;
pub use render::render;
pub use side::Side;

use crate::Report;

/// Name and version of the form of a comparison as JSON.
pub const SCHEMA: &str = "ridgeline.comparison/1";

/// How sure all verdicts of a comparison are together: one comparison of equals in a hundred calls
/// anything certain.
pub const CONFIDENCE: f64 = 0.99;

/// Stretches that a single run is cut into.
pub const BATCHES: usize = 20;

/// One side beside the baseline.
#[derive(Clone, Debug, Serialize)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The folders of the baseline.
    pub base: Vec<String>,
    /// The folders that are compared with it.
    pub new: Vec<String>,
    /// The verdicts of their runs, baseline first.
    pub verdicts: [Vec<String>; 2],
    /// The relative change below which nothing is called a regression.
    pub threshold: f64,
    /// Keys of the plans that differ, with both values: what was changed on purpose.
    pub differences: Vec<Difference>,
    /// What keeps the comparison from being as good as it looks.
    pub notes: Vec<String>,
    /// The figures.
    pub rows: Vec<Row>,
}

/// A key of the plan that two sides do not agree on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// The key, as in `config.yaml`.
    pub key: String,
    /// The baseline's value, as JSON; `-` where it has none.
    pub base: String,
    /// The other's.
    pub new: String,
}

impl Comparison {
    /// Compares `new` with `base`.
    #[must_use]
    pub fn of(base: &Side, new: &Side, threshold: f64) -> Self {
        let mut notes = notes(base, new);
        let unsound = [base, new].iter().any(|side| side.is_invalid());
        if unsound {
            notes.push(
                "a run is INVALID: its figures are not the endpoint's, so nothing is judged"
                    .to_owned(),
            );
        }
        Self {
            schema: SCHEMA,
            base: base.names(),
            new: new.names(),
            verdicts: [base.verdicts(), new.verdicts()],
            threshold,
            differences: differences(base.first(), new.first()),
            notes,
            rows: figures::rows(base, new, threshold, !unsound),
        }
    }

    /// Whether any figure became worse, certainly and by at least the threshold.
    #[must_use]
    pub fn is_regression(&self) -> bool {
        self.rows.iter().any(|row| row.change == Change::Worse)
    }
}

fn notes(base: &Side, new: &Side) -> Vec<String> {
    let mut notes = Vec::new();
    if !(base.is_repeated() && new.is_repeated()) {
        notes.push(
            "one run on a side: what changes from run to run is not in the intervals; name several, \
             A1,A2,A3 B1,B2,B3"
                .to_owned(),
        );
    }
    for side in [base, new] {
        for folder in side.without_records() {
            notes.push(format!(
                "{folder} has no records.jsonl: its latencies are shown and not tested"
            ));
        }
    }
    let machine = |side: &Side| {
        let machine = &side.first().environment;
        let known = |field: &Option<String>| field.clone().unwrap_or_else(|| "unknown".to_owned());
        (
            known(&machine.cpu_model),
            machine.cores,
            known(&machine.kernel),
        )
    };
    if machine(base) != machine(new) {
        let said = |side| {
            let (processor, cores, kernel) = machine(side);
            format!("{processor}, {} cores, Linux {kernel}", cores.unwrap_or(0))
        };
        notes.push(format!(
            "measured on machines that differ: {} and {}",
            said(base),
            said(new)
        ));
    }
    notes
}

/// What of the plan differs. Where results go says nothing about them.
fn differences(base: &Report, new: &Report) -> Vec<Difference> {
    const ELSEWHERE: [&str; 2] = ["output-dir", "quiet"];
    let (Some(a), Some(b)) = (base.plan.as_object(), new.plan.as_object()) else {
        return Vec::new();
    };
    let mut keys: Vec<&String> = a.keys().chain(b.keys()).collect();
    keys.sort_unstable();
    keys.dedup();
    let said = |value: Option<&serde_json::Value>| {
        value.map_or_else(|| "-".to_owned(), ToString::to_string)
    };
    keys.into_iter()
        .filter(|key| !ELSEWHERE.contains(&key.as_str()) && a.get(*key) != b.get(*key))
        .map(|key| Difference {
            key: key.clone(),
            base: said(a.get(key)),
            new: said(b.get(key)),
        })
        .collect()
}
