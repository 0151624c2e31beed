//! Figures as they stand in the table, on the page and in a plan.

use ridgeline_report::console::text::{count, span};

use crate::Unit;

/// Three digits and a prefix: `7.52`, `843`, `12.3k`, `1.05M`.
pub(crate) fn short(value: f64) -> String {
    let (digits, prefix) = scaled(value);
    format!("{digits}{prefix}")
}

/// `3.60 kB`.
pub(crate) fn bytes(value: f64) -> String {
    let (digits, prefix) = scaled(value);
    format!("{digits} {prefix}B")
}

/// What may not be known of a machine.
pub(crate) fn known(word: Option<&str>) -> &str {
    word.unwrap_or("unknown")
}

/// The same of its cores.
pub(crate) fn known_cores(number: Option<impl ToString>) -> String {
    number.map_or_else(|| "?".to_owned(), |number| number.to_string())
}

/// `50,000`.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a saturated count is as good as any beyond 10^19"
)]
pub(crate) fn whole(value: f64) -> String {
    count(value.round() as u64)
}

fn scaled(value: f64) -> (String, &'static str) {
    let (value, prefix) = match value {
        v if v >= 999.5e9 => (v / 1e12, "T"),
        v if v >= 999.5e6 => (v / 1e9, "G"),
        v if v >= 999.5e3 => (v / 1e6, "M"),
        v if v >= 999.5 => (v / 1e3, "k"),
        v => (v, ""),
    };
    let decimals = match value {
        v if v >= 99.95 || v == 0.0 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    (format!("{value:.decimals$}"), prefix)
}

impl Unit {
    /// What is counted, as an axis is titled: `requests/s`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::RequestsPerS => "requests/s",
            Self::EventsPerS => "events/s",
            Self::BytesPerS => "bytes/s",
            Self::MessagesPerS => "messages/s",
            Self::RecordsPerS => "records/s",
            Self::Streams => "open streams",
            Self::BytesEach => "bytes each",
            Self::LagNs => "lag",
        }
    }

    /// A figure with its unit, in at most thirteen columns: `165k req/s`, `11.5 GB/s`, `50,000`.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        match self {
            Self::RequestsPerS => format!("{} req/s", short(value)),
            Self::EventsPerS => format!("{} ev/s", short(value)),
            Self::MessagesPerS => format!("{} msg/s", short(value)),
            Self::RecordsPerS => format!("{} rec/s", short(value)),
            Self::BytesPerS => format!("{}/s", bytes(value)),
            Self::BytesEach => bytes(value),
            Self::Streams => whole(value),
            Self::LagNs => span(value),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_their_unit() {
        for (value, text) in [
            (0.0, "0"),
            (0.5, "0.50"),
            (999.4, "999"),
            (999.6, "1.00k"),
            (12_345.0, "12.3k"),
            (34.1e6, "34.1M"),
            (11.52e9, "11.5G"),
        ] {
            assert_eq!(short(value), text);
        }
        for (unit, value, text) in [
            (Unit::RequestsPerS, 165_400.0, "165k req/s"),
            (Unit::EventsPerS, 34.1e6, "34.1M ev/s"),
            (Unit::BytesPerS, 11.5e9, "11.5 GB/s"),
            (Unit::MessagesPerS, 2e6, "2.00M msg/s"),
            (Unit::RecordsPerS, 1e6, "1.00M rec/s"),
            (Unit::Streams, 50_000.0, "50,000"),
            (Unit::BytesEach, 3_600.0, "3.60 kB"),
            (Unit::LagNs, 62_300.0, "62.3 us"),
        ] {
            assert_eq!(unit.show(value), text);
        }
    }
}
