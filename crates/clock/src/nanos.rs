use std::fmt;
use std::ops::{Add, AddAssign, Div, Mul, Sub};
use std::time::Duration;

/// Nanoseconds: an instant on the run's monotonic clock, or the span between two of them.
///
/// Subtraction saturates at zero: stamps of different sources (kernel, schedule, reaping) may
/// disagree by less than their error, and a span is never negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Nanos(pub u64);

impl Nanos {
    /// The start of the clock, or an empty span.
    pub const ZERO: Self = Self(0);
    /// Later than every instant: as a deadline it means "none".
    pub const MAX: Self = Self(u64::MAX);

    /// A span of whole microseconds.
    #[must_use]
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros.saturating_mul(1_000))
    }

    /// A span of whole milliseconds.
    #[must_use]
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis.saturating_mul(1_000_000))
    }

    /// A span of whole seconds.
    #[must_use]
    pub const fn from_secs(secs: u64) -> Self {
        Self(secs.saturating_mul(1_000_000_000))
    }

    /// A span of `secs` seconds, rounded to the nearest nanosecond. Negative and NaN give zero.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "float to integer casts saturate, and NaN becomes zero"
    )]
    pub fn from_secs_f64(secs: f64) -> Self {
        Self((secs * 1e9).round() as u64)
    }

    /// The span in seconds.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "2^53 ns are 104 days; a display needs less"
    )]
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// The larger step of two: `self + span`, stopping at [`Nanos::MAX`].
    #[must_use]
    pub const fn saturating_add(self, span: Self) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, span: Self) -> Self {
        self.saturating_add(span)
    }
}

impl AddAssign for Nanos {
    fn add_assign(&mut self, span: Self) {
        *self = *self + span;
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }
}

impl Mul<u64> for Nanos {
    type Output = Self;
    fn mul(self, times: u64) -> Self {
        Self(self.0.saturating_mul(times))
    }
}

impl Div<u64> for Nanos {
    type Output = Self;
    fn div(self, parts: u64) -> Self {
        Self(self.0 / parts)
    }
}

impl From<Nanos> for Duration {
    fn from(span: Nanos) -> Self {
        Self::from_nanos(span.0)
    }
}

impl From<Duration> for Nanos {
    fn from(span: Duration) -> Self {
        Self(u64::try_from(span.as_nanos()).unwrap_or(u64::MAX))
    }
}

/// As a person reads it: three significant digits and the unit that fits, `12.3 ms`.
impl fmt::Display for Nanos {
    #[expect(clippy::cast_precision_loss, reason = "three digits are printed")]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (value, unit) = match self.0 {
            0 => return f.write_str("0 s"),
            1..1_000 => (self.0 as f64, "ns"),
            1_000..1_000_000 => (self.0 as f64 / 1e3, "us"),
            1_000_000..1_000_000_000 => (self.0 as f64 / 1e6, "ms"),
            _ => (self.0 as f64 / 1e9, "s"),
        };
        let decimals = match value {
            v if v >= 99.95 => 0,
            v if v >= 9.995 => 1,
            _ => 2,
        };
        let decimals = if unit == "ns" { 0 } else { decimals };
        write!(f, "{value:.decimals$} {unit}")
    }
}

/// When received bytes came.
///
/// `not_before <= at <= reaped`. A kernel stamp covers a whole read, whose last segment set it:
/// earlier bytes of that read came between `not_before` and `at`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// The kernel's receive stamp, or the time of reaping where there is none.
    pub at: Nanos,
    /// The earliest time at which any of the bytes can have come: the stamp before this one on
    /// the same stream. Equal to `at` where no kernel stamp is used.
    pub not_before: Nanos,
    /// When the program took the bytes from the driver.
    pub reaped: Nanos,
}

impl Arrival {
    /// Bytes stamped by reaping alone.
    #[must_use]
    pub const fn reaped(at: Nanos) -> Self {
        Self {
            at,
            not_before: at,
            reaped: at,
        }
    }

    /// How long the bytes lay in the machine before the program saw them.
    #[must_use]
    pub fn harness_delay(self) -> Nanos {
        self.reaped - self.at
    }

    /// How much earlier than `at` some of the bytes may have come.
    #[must_use]
    pub fn width(self) -> Nanos {
        self.at - self.not_before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_person_reads_three_digits_and_a_unit() {
        for (ns, text) in [
            (0, "0 s"),
            (7, "7 ns"),
            (999, "999 ns"),
            (1_500, "1.50 us"),
            (99_960, "100 us"),
            (12_345_678, "12.3 ms"),
            (999_000_000, "999 ms"),
            (61_000_000_000, "61.0 s"),
        ] {
            assert_eq!(Nanos(ns).to_string(), text);
        }
    }

    #[test]
    fn spans_are_never_negative() {
        assert_eq!(Nanos(3) - Nanos(5), Nanos::ZERO);
        assert_eq!(Nanos::MAX + Nanos(1), Nanos::MAX);
        assert_eq!(Nanos::from_secs_f64(-1.0), Nanos::ZERO);
        assert_eq!(Nanos::from_secs_f64(1.5), Nanos::from_millis(1_500));
    }
}
