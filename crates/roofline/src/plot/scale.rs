//! From figures to places along an axis, with ticks.

use ridgeline_report::console::text::{number, span};

use crate::words::short;

/// What an axis shows: how its ticks are written.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Quantity {
    /// Counts and rates: `165k`.
    Count,
    /// Sizes: `1 KiB`.
    Bytes,
    /// Spans in ns: `62.3 us`.
    Span,
    /// Ratios: `0.94`.
    Ratio,
}

impl Quantity {
    /// A figure as a tick or a tooltip has it.
    pub(crate) fn show(self, value: f64) -> String {
        match self {
            // 1024 is itself, and not 1.02k.
            Self::Count if value < 10_000.0 && value.fract() == 0.0 => value.to_string(),
            Self::Count => trimmed(&short(value)),
            Self::Bytes => binary(value),
            Self::Span => trimmed(&span(value)),
            Self::Ratio => number(value),
        }
    }
}

/// `1.50M` as `1.5M`, `20.0k` as `20k`.
fn trimmed(text: &str) -> String {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.');
    let (digits, unit) = text.split_at(end.unwrap_or(text.len()));
    if !digits.contains('.') {
        return text.to_owned();
    }
    let digits = digits.trim_end_matches('0').trim_end_matches('.');
    format!("{digits}{unit}")
}

/// `32 B`, `1 KiB`, `1.5 MiB`.
fn binary(bytes: f64) -> String {
    let (value, unit) = match bytes {
        b if b >= 1024.0 * 1024.0 * 1024.0 => (b / (1024.0 * 1024.0 * 1024.0), "GiB"),
        b if b >= 1024.0 * 1024.0 => (b / (1024.0 * 1024.0), "MiB"),
        b if b >= 1024.0 => (b / 1024.0, "KiB"),
        b => (b, "B"),
    };
    let decimals = usize::from(value.fract() != 0.0);
    format!("{value:.decimals$} {unit}")
}

/// The figures that an axis spans, and how.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    low: f64,
    high: f64,
    log: bool,
}

/// Figures that are further apart than this share no linear axis.
const LINEAR_MAX: f64 = 25.0;

/// How many ticks a linear axis has, about.
const TICKS: f64 = 5.0;

impl Scale {
    /// For `values`, which may be empty: logarithmic when the largest is many times the smallest, else
    /// linear; then from zero, where `from_zero` asks for it.
    pub(crate) fn of(values: &[f64], from_zero: bool) -> Self {
        let low = values.iter().copied().fold(f64::INFINITY, f64::min);
        let high = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        if low > high {
            return Self::linear(0.0, 1.0);
        }
        if low > 0.0 && high / low > LINEAR_MAX {
            return Self {
                low,
                high,
                log: true,
            };
        }
        let low = if from_zero || low < 0.0 {
            low.min(0.0)
        } else {
            low
        };
        if from_zero {
            let step = step(high - low);
            return Self::linear(low, (high / step).ceil() * step);
        }
        Self::linear(low, high)
    }

    /// From `low` to `high`.
    pub(crate) fn linear(low: f64, high: f64) -> Self {
        Self {
            low,
            high,
            log: false,
        }
    }

    /// The same with its ends at round figures, for an axis that shows where figures lie between them.
    pub(crate) fn rounded(self) -> Self {
        if !self.log {
            return self;
        }
        let below = |value: f64| round_figures(value).rev().find(|round| *round <= value);
        let above = |value: f64| round_figures(value).find(|round| *round >= value);
        Self {
            low: below(self.low * (1.0 + 1e-9)).unwrap_or(self.low),
            high: above(self.high * (1.0 - 1e-9)).unwrap_or(self.high),
            log: true,
        }
    }

    /// Where `value` lies: 0 at the low end, 1 at the high end.
    pub(crate) fn place(self, value: f64) -> f64 {
        let (low, high, value) = if self.log {
            let tiny = f64::MIN_POSITIVE;
            (self.low.ln(), self.high.ln(), value.max(tiny).ln())
        } else {
            (self.low, self.high, value)
        };
        if high > low {
            ((value - low) / (high - low)).clamp(0.0, 1.0)
        } else {
            0.5
        }
    }

    /// Round figures along the axis.
    pub(crate) fn ticks(self) -> Vec<f64> {
        if self.log {
            return self.log_ticks();
        }
        let step = step(self.high - self.low);
        let first = (self.low / step).ceil();
        (0..20)
            .map(|k| (first + f64::from(k)) * step)
            .take_while(|tick| *tick <= self.high + step * 1e-6)
            .collect()
    }

    /// 1, 2 and 5 of each decade; the decades alone where there are many.
    fn log_ticks(self) -> Vec<f64> {
        let within =
            |tick: &f64| *tick >= self.low * (1.0 - 1e-9) && *tick <= self.high * (1.0 + 1e-9);
        let (first, last) = (decade(self.low), decade(self.high));
        let mantissas: &[f64] = if last - first > 2 {
            &[1.0]
        } else {
            &[1.0, 2.0, 5.0]
        };
        (first..=last)
            .flat_map(|decade| mantissas.iter().map(move |m| m * 10_f64.powi(decade)))
            .filter(within)
            .collect()
    }
}

/// 1, 2 and 5 of the decades around `value`.
fn round_figures(value: f64) -> std::vec::IntoIter<f64> {
    let decade = decade(value);
    let all: Vec<f64> = (decade - 1..=decade + 1)
        .flat_map(|decade| [1.0, 2.0, 5.0].map(|m| m * 10_f64.powi(decade)))
        .collect();
    all.into_iter()
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a finite float has few decades"
)]
fn decade(value: f64) -> i32 {
    value.max(f64::MIN_POSITIVE).log10().floor() as i32
}

/// The round distance of ticks that makes about five of `span`.
fn step(span: f64) -> f64 {
    if span <= 0.0 {
        return 1.0;
    }
    let raw = span / TICKS;
    let decade = 10_f64.powi(decade(raw));
    let mantissa = raw / decade;
    let round = match mantissa {
        m if m <= 1.0 => 1.0,
        m if m <= 2.0 => 2.0,
        m if m <= 5.0 => 5.0,
        _ => 10.0,
    };
    round * decade
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_figures_have_a_linear_axis_from_zero_with_round_ticks() {
        let scale = Scale::of(&[21_000.0, 165_000.0, 175_000.0], true);
        assert_eq!(scale, Scale::linear(0.0, 200_000.0));
        assert_eq!(
            scale.ticks(),
            [0.0, 50_000.0, 100_000.0, 150_000.0, 200_000.0]
        );
        assert_eq!(
            (scale.place(0.0), scale.place(50_000.0), scale.place(1e9)),
            (0.0, 0.25, 1.0)
        );
    }

    #[test]
    fn far_figures_have_a_logarithmic_axis() {
        let scale = Scale::of(&[410_000.0, 37.9e6], true).rounded();
        assert_eq!((scale.low, scale.high, scale.log), (200_000.0, 50e6, true));
        assert_eq!(
            scale.ticks(),
            [200e3, 500e3, 1e6, 2e6, 5e6, 10e6, 20e6, 50e6]
        );
        let half = (200_000.0_f64 * 50e6).sqrt();
        assert!((scale.place(half) - 0.5).abs() < 1e-9);
        assert_eq!(Scale::of(&[1.0, 1e6], true).ticks().len(), 7);
        // Round ends stay.
        let round = Scale::of(&[1.0, 1e3], true).rounded();
        assert_eq!((round.low, round.high), (1.0, 1e3));
    }

    #[test]
    fn strange_figures_have_an_axis_too() {
        for values in [&[][..], &[0.0], &[5.0, 5.0], &[-3.0, 4.0], &[0.0, 1e300]] {
            let scale = Scale::of(values, true).rounded();
            assert!(scale.ticks().len() <= 20);
            for value in [-1e9, 0.0, 5.0, 1e300] {
                assert!((0.0..=1.0).contains(&scale.place(value)), "{values:?}");
            }
        }
    }

    #[test]
    fn ticks_are_written_short() {
        for (quantity, value, text) in [
            (Quantity::Count, 150_000.0, "150k"),
            (Quantity::Count, 1.5e6, "1.5M"),
            (Quantity::Count, 20_000.0, "20k"),
            (Quantity::Count, 0.0, "0"),
            (Quantity::Count, 1_024.0, "1024"),
            (Quantity::Bytes, 32.0, "32 B"),
            (Quantity::Bytes, 131_072.0, "128 KiB"),
            (Quantity::Bytes, 1_572_864.0, "1.5 MiB"),
            (Quantity::Span, 50_000.0, "50 us"),
            (Quantity::Span, 1e6, "1 ms"),
            (Quantity::Ratio, 0.9412, "0.94"),
        ] {
            assert_eq!(quantity.show(value), text);
        }
    }
}
