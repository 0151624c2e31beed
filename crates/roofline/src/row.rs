//! One figure beside its limit.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Section;

/// One figure of one component, and the limit it stands beside.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Row {
    /// The component.
    pub section: Section,
    /// Under which conditions, as a person reads it: `64 connections, 128 B prompt`.
    pub name: String,
    /// The same conditions as numbers, by axis: `connections` 64, `prompt_bytes` 128.
    pub at: BTreeMap<String, f64>,
    /// What is counted.
    pub unit: Unit,
    /// What was found; none when it was not measured, and then `limited_by` says why.
    pub measured: Option<Measured>,
    /// What stops it from being more, in words.
    pub limited_by: String,
}

/// A figure.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Measured {
    /// In the row's unit.
    pub achieved: f64,
    /// CPU time of one of what is counted, where that has a meaning.
    pub cpu_ns: Option<f64>,
    /// The limit, measured in the same run.
    pub ceiling: Option<Ceiling>,
}

/// What nothing on this machine goes beyond.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Ceiling {
    /// The program or pass that was measured.
    pub name: String,
    /// In the row's unit.
    pub value: f64,
    /// CPU time of one of what is counted.
    pub cpu_ns: Option<f64>,
}

/// What a figure counts.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Requests answered a second.
    RequestsPerS,
    /// Events of streams a second.
    EventsPerS,
    /// Bytes a second.
    BytesPerS,
    /// Messages between threads or processes a second.
    MessagesPerS,
    /// Records a second.
    RecordsPerS,
    /// Streams open at a time.
    Streams,
    /// Resident memory of one of what is held, bytes: less is better.
    BytesEach,
    /// Time behind a schedule, nanoseconds: less is better.
    LagNs,
}

impl Unit {
    /// Whether a smaller figure is the better one.
    #[must_use]
    pub fn less_is_better(self) -> bool {
        matches!(self, Self::BytesEach | Self::LagNs)
    }
}

impl Row {
    /// A row that was not measured yet.
    #[must_use]
    pub fn new(section: Section, name: impl Into<String>, unit: Unit) -> Self {
        Self {
            section,
            name: name.into(),
            at: BTreeMap::new(),
            unit,
            measured: None,
            limited_by: String::new(),
        }
    }

    /// With its place on an axis. Axes have their unit last: `prompt_bytes`.
    #[must_use]
    pub fn at(mut self, axis: &str, value: f64) -> Self {
        self.at.insert(axis.to_owned(), value);
        self
    }

    /// With what was found.
    #[must_use]
    pub fn measured(mut self, measured: Measured) -> Self {
        self.measured = Some(measured);
        self
    }

    /// With what stops it, or why it was not measured.
    #[must_use]
    pub fn limited_by(mut self, words: impl Into<String>) -> Self {
        self.limited_by = words.into();
        self
    }

    /// Itself; without its figures, and saying so, when one of them is no finite number: files could not
    /// hold it.
    pub(crate) fn checked(mut self) -> Self {
        let finite = |value: Option<f64>| value.is_none_or(f64::is_finite);
        let whole = self.measured.as_ref().is_none_or(|measured| {
            let ceiling = measured.ceiling.as_ref();
            finite(Some(measured.achieved))
                && finite(measured.cpu_ns)
                && finite(ceiling.map(|ceiling| ceiling.value))
                && finite(ceiling.and_then(|ceiling| ceiling.cpu_ns))
        });
        if !whole {
            self.measured = None;
            self.limited_by = "not measured: a figure came out as no number".to_owned();
        }
        self
    }

    /// Achieved over ceiling; none without both, or of a ceiling of zero.
    #[must_use]
    pub fn ratio(&self) -> Option<f64> {
        let measured = self.measured.as_ref()?;
        let ceiling = measured.ceiling.as_ref()?.value;
        (ceiling > 0.0).then(|| measured.achieved / ceiling)
    }

    /// CPU time of one over that at the ceiling: 1 is the limit, more is dearer.
    #[must_use]
    pub fn cpu_ratio(&self) -> Option<f64> {
        let measured = self.measured.as_ref()?;
        let ceiling = measured.ceiling.as_ref()?.cpu_ns?;
        let own = measured.cpu_ns?;
        (ceiling > 0.0).then(|| own / ceiling)
    }
}
