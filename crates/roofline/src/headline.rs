//! The few figures that a person comes for, picked from the rows.

use ridgeline_report::console::text::{number, percent};
use serde::{Deserialize, Serialize};

use crate::words::{bytes, short, whole};
use crate::{Row, Section, Unit};

/// The share of a ceiling up to which a client is trusted: beyond it a burst finds no room.
pub const SAFE_SHARE: f64 = 0.7;

/// The axis that tells paced streams (1) from coalesced ones (the most).
pub const EVENTS_PER_WRITE: &str = "events_per_write";

/// From which share of its bare counterpart on a component is as fast as the kernel lets it be.
const AT_THE_KERNEL: f64 = 0.8;

/// The most that one core of this machine was seen to do, as a client.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub struct Headline {
    /// Requests/s that are not streamed.
    pub requests: Option<Peak>,
    /// Events/s, where a read brings many.
    pub coalesced: Option<Peak>,
    /// Events/s, where a read brings one, as real servers send.
    pub paced: Option<Peak>,
    /// Streams held open, at one event/s each.
    pub streams: Option<Peak>,
    /// Resident memory of each of them, bytes.
    pub stream_bytes: Option<f64>,
    /// The highest rate of requests/s that was sent on time.
    pub timely: Option<Peak>,
}

/// The best row of its kind.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct Peak {
    /// In the unit of the row.
    pub value: f64,
    /// CPU time of one of what is counted.
    pub cpu_ns: Option<f64>,
    /// The row's name.
    pub name: String,
    /// Achieved over the ceiling of the same run.
    pub ratio: Option<f64>,
    /// What that ceiling is.
    pub ceiling: Option<String>,
    /// The row's words.
    pub limited_by: String,
}

impl Headline {
    /// Picks from `rows`.
    #[must_use]
    pub fn of(rows: &[Row]) -> Self {
        let of = |section, unit| {
            rows.iter()
                .filter(move |row| row.section == section && row.unit == unit)
        };
        let per_write = |row: &&Row| row.at.get(EVENTS_PER_WRITE).copied();
        let sse = || of(Section::Sse, Unit::EventsPerS).filter(|row| row.measured.is_some());
        let most = sse().filter_map(|row| per_write(&row)).fold(1.0, f64::max);
        let bytes_each = of(Section::Streams, Unit::BytesEach);
        Self {
            requests: best(of(Section::Client, Unit::RequestsPerS)),
            coalesced: best(sse().filter(|row| most > 1.0 && per_write(row) == Some(most))),
            paced: best(sse().filter(|row| per_write(row) == Some(1.0))),
            streams: best(of(Section::Streams, Unit::Streams)),
            stream_bytes: bytes_each
                .filter_map(|row| Some(row.measured.as_ref()?.achieved))
                .next_back(),
            timely: best(of(Section::Schedule, Unit::RequestsPerS)),
        }
    }

    /// Whether nothing was measured that stands here.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What there is, as label, figure and what limits it.
    #[must_use]
    pub fn lines(&self) -> Vec<(&'static str, String, String)> {
        let mut lines = Vec::new();
        let mut line = |label, peak: &Option<Peak>, figure: &dyn Fn(&Peak) -> String| {
            if let Some(peak) = peak {
                lines.push((label, figure(peak), peak.why()));
            }
        };
        line("Requests", &self.requests, &|peak| {
            format!("{} requests/s", whole(peak.value))
        });
        line("Streams", &self.streams, &|peak| {
            let each = self
                .stream_bytes
                .map(|each| format!(", {} each", bytes(each)));
            format!(
                "{} open streams{}",
                whole(peak.value),
                each.unwrap_or_default()
            )
        });
        line("Coalesced", &self.coalesced, &|peak| {
            format!("{} events/s, many a read", whole(peak.value))
        });
        line("Paced", &self.paced, &|peak| {
            format!("{} events/s, one a read", whole(peak.value))
        });
        line("On time", &self.timely, &|peak| {
            format!("{} requests/s by a schedule", whole(peak.value))
        });
        lines
    }

    /// Which component is the ceiling, and of what.
    #[must_use]
    pub fn ceiling(&self) -> Option<String> {
        let of = [
            ("requests", &self.requests),
            ("paced events", &self.paced),
            ("coalesced events", &self.coalesced),
        ];
        let known = |(what, peak): (&'static str, &Option<Peak>)| {
            let peak = peak.as_ref()?;
            Some((what, peak.ratio?, peak.ceiling.clone()?))
        };
        let known: Vec<_> = of.into_iter().filter_map(known).collect();
        let (_, _, bare) = known.first()?;
        let (kernel, own): (Vec<_>, Vec<_>) = known
            .iter()
            .partition(|(_, ratio, _)| *ratio >= AT_THE_KERNEL);
        let list = |of: &[&(&str, f64, String)]| {
            let each = of
                .iter()
                .map(|(what, ratio, _)| format!("{what} {}", number(*ratio)));
            each.collect::<Vec<_>>().join(", ")
        };
        let kernel = (!kernel.is_empty()).then(|| {
            format!(
                "the kernel and the other end, not this program: it reaches nearly what {bare} \
                 does, which only sends and counts ({})",
                list(&kernel)
            )
        });
        let own = (!own.is_empty()).then(|| {
            let own = list(&own);
            format!("this program's own work on the client's core (of {bare}: {own})")
        });
        Some(
            [kernel, own]
                .into_iter()
                .flatten()
                .collect::<Vec<_>>()
                .join("; "),
        )
    }

    /// When one core is not enough.
    #[must_use]
    pub fn scale_out(&self) -> Option<String> {
        let parts: Vec<String> = [
            (&self.requests, "requests/s"),
            (&self.streams, "open streams"),
            (&self.paced, "paced events/s"),
            (&self.coalesced, "coalesced events/s"),
        ]
        .into_iter()
        .filter_map(|(peak, what)| {
            let value = peak.as_ref()?.value * SAFE_SHARE;
            Some(format!("{} {what}", short(value)))
        })
        .collect();
        (!parts.is_empty()).then(|| {
            format!(
                "take another core, or host, beyond any of {} a core ({} of what is above); \
                 `ridgeline roofline plan` reckons",
                parts.join(", "),
                percent(SAFE_SHARE)
            )
        })
    }
}

impl Peak {
    fn why(&self) -> String {
        match (self.ratio, &self.ceiling) {
            (Some(ratio), Some(ceiling)) => {
                format!("{} of {ceiling}; {}", number(ratio), self.limited_by)
            }
            _ => self.limited_by.clone(),
        }
    }
}

fn best<'a>(rows: impl Iterator<Item = &'a Row>) -> Option<Peak> {
    let known = rows.filter_map(|row| Some((row, row.measured.as_ref()?)));
    let (row, measured) = known.max_by(|(_, a), (_, b)| a.achieved.total_cmp(&b.achieved))?;
    Some(Peak {
        value: measured.achieved,
        cpu_ns: measured.cpu_ns,
        name: row.name.clone(),
        ratio: row.ratio(),
        ceiling: measured
            .ceiling
            .as_ref()
            .map(|ceiling| ceiling.name.clone()),
        limited_by: row.limited_by.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn the_best_row_of_each_kind_is_picked() {
        let headline = Headline::of(&samples::rows());
        let value = |peak: &Option<Peak>| peak.as_ref().map(|peak| peak.value);
        assert_eq!(value(&headline.requests), Some(165_000.0));
        assert_eq!(value(&headline.coalesced), Some(34.1e6));
        assert_eq!(value(&headline.paced), Some(412_000.0));
        assert_eq!(value(&headline.streams), Some(50_000.0));
        assert_eq!(headline.stream_bytes, Some(3_600.0));
        assert_eq!(value(&headline.timely), Some(118_000.0));
        assert!(Headline::of(&[]).is_empty());
        assert_eq!(
            (
                Headline::default().ceiling(),
                Headline::default().scale_out()
            ),
            (None, None)
        );
    }

    #[test]
    fn the_ceiling_and_the_time_to_scale_out_are_named() {
        let headline = Headline::of(&samples::rows());
        assert_eq!(
            headline.ceiling().unwrap(),
            "the kernel and the other end, not this program: it reaches nearly what bare client does, \
             which only sends and counts (requests 0.94, paced events 1.00, coalesced events 0.90)"
        );
        assert!(
            headline.scale_out().unwrap().starts_with(
                "take another core, or host, beyond any of 115k requests/s, 35.0k open streams, 288k \
                 paced events/s, 23.9M coalesced events/s a core (70.0 % of what is above)"
            ),
            "{headline:?}"
        );
    }

    #[test]
    fn streams_of_one_pace_have_one_figure() {
        let rows: Vec<Row> = samples::rows()
            .into_iter()
            .filter(|row| {
                row.at
                    .get(EVENTS_PER_WRITE)
                    .is_none_or(|events| *events == 1.0)
            })
            .collect();
        let headline = Headline::of(&rows);
        assert!(headline.paced.is_some() && headline.coalesced.is_none());
    }
}
