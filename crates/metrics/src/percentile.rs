use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A percentile strictly between 0 and 100, exact to a millionth: `p50`, `p99.9`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Percentile(u32);

/// `100 %` in the unit of [`Percentile`].
const WHOLE: u32 = 1_000_000;

impl Percentile {
    /// The 1st percentile.
    pub const P1: Self = Self(10_000);
    /// The 5th percentile.
    pub const P5: Self = Self(50_000);
    /// The 10th percentile.
    pub const P10: Self = Self(100_000);
    /// The 25th percentile.
    pub const P25: Self = Self(250_000);
    /// The median.
    pub const P50: Self = Self(500_000);
    /// The 75th percentile.
    pub const P75: Self = Self(750_000);
    /// The 90th percentile.
    pub const P90: Self = Self(900_000);
    /// The 95th percentile.
    pub const P95: Self = Self(950_000);
    /// The 99th percentile.
    pub const P99: Self = Self(990_000);
    /// The 99.9th percentile.
    pub const P99_9: Self = Self(999_000);

    /// The percentiles of a [`crate::Summary`], in its order.
    pub const SUMMARY: [Self; 10] = [
        Self::P1,
        Self::P5,
        Self::P10,
        Self::P25,
        Self::P50,
        Self::P75,
        Self::P90,
        Self::P95,
        Self::P99,
        Self::P99_9,
    ];

    /// As a fraction: 0.99 for the 99th.
    #[must_use]
    pub fn fraction(self) -> f64 {
        f64::from(self.0) / f64::from(WHOLE)
    }

    /// The nearest rank among `count` sorted samples, from 1: the smallest rank that at least this
    /// share of the samples does not exceed. Whole-number arithmetic: `p99` of 100 is 99.
    #[must_use]
    pub fn rank(self, count: u64) -> u64 {
        let rank = (u128::from(count) * u128::from(self.0)).div_ceil(u128::from(WHOLE));
        u64::try_from(rank).unwrap_or(count).max(1)
    }

    /// How many samples the percentile needs before it says something.
    ///
    /// MLPerf LoadGen's rule of early stopping (loadgen/early_stopping.cc) at its confidence of
    /// 99 %: the smallest count with which at most one sample beyond the true percentile would be
    /// seen in fewer than 1 of 100 runs. 64 for p90, 662 for p99, 6636 for p99.9; percentiles below
    /// the median need what their mirror image needs.
    #[must_use]
    pub fn sample_floor(self) -> u64 {
        const CHANCE: f64 = 0.01;
        let beyond = f64::from(self.0.min(WHOLE - self.0)) / f64::from(WHOLE);
        let within = 1.0 - beyond;
        let seen = |count: u64| {
            let n = count as f64;
            within.powf(n) + n * beyond * within.powf(n - 1.0)
        };
        let mut enough = 1_u64;
        while seen(enough) > CHANCE {
            enough *= 2;
        }
        let mut too_few = enough / 2;
        while enough - too_few > 1 {
            let middle = too_few + (enough - too_few) / 2;
            if seen(middle) > CHANCE {
                too_few = middle;
            } else {
                enough = middle;
            }
        }
        enough
    }
}

impl fmt::Display for Percentile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, fraction) = (self.0 / 10_000, self.0 % 10_000);
        if fraction == 0 {
            return write!(f, "p{whole}");
        }
        let digits = format!("{fraction:04}");
        write!(f, "p{whole}.{}", digits.trim_end_matches('0'))
    }
}

impl FromStr for Percentile {
    type Err = PercentileError;

    fn from_str(text: &str) -> Result<Self, PercentileError> {
        let parse = || -> Option<u32> {
            let number = text.strip_prefix('p')?;
            let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
            let digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
            if !(1..=2).contains(&whole.len()) || fraction.len() > 4 {
                return None;
            }
            (digits(whole) && digits(fraction)).then_some(())?;
            format!("{whole}{fraction:0<4}")
                .parse()
                .ok()
                .filter(|&parts| parts > 0)
        };
        parse()
            .map(Self)
            .ok_or_else(|| PercentileError(text.chars().take(40).collect()))
    }
}

impl TryFrom<String> for Percentile {
    type Error = PercentileError;

    fn try_from(text: String) -> Result<Self, PercentileError> {
        text.parse()
    }
}

impl From<Percentile> for String {
    fn from(percentile: Percentile) -> Self {
        percentile.to_string()
    }
}

/// A text that names no percentile.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a percentile; write one like `p90` or `p99.9`, above p0 and below p100")]
pub struct PercentileError(String);

/// How a percentile is read off a finite sample. Reports name theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Convention {
    /// The sample at rank `ceil(p * n)` (numpy `inverted_cdf`). Histograms use it.
    NearestRank,
    /// Between the two samples around `p * (n - 1)`, in proportion (numpy's default, `linear`;
    /// vllm bench, inference-perf and aiperf).
    Linear,
    /// The lower of those two samples (numpy `lower`; MLPerf endpoints).
    Lower,
}

impl Convention {
    /// The percentile of samples in ascending order; `None` when there are none.
    ///
    /// # Panics
    /// In debug builds, when `sorted` is not.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a position between 0 and the number of samples"
    )]
    pub fn of_sorted(self, sorted: &[u64], percentile: Percentile) -> Option<f64> {
        debug_assert!(sorted.is_sorted(), "percentiles need sorted samples");
        let last = sorted.len().checked_sub(1)?;
        let position = percentile.fraction() * last as f64;
        let below = position.floor() as usize;
        Some(match self {
            Self::NearestRank => {
                let rank = percentile.rank(sorted.len() as u64);
                sorted[usize::try_from(rank - 1).unwrap_or(last).min(last)] as f64
            }
            Self::Lower => sorted[below] as f64,
            Self::Linear => {
                let (low, high) = (sorted[below] as f64, sorted[(below + 1).min(last)] as f64);
                low + (high - low) * (position - below as f64)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floors_are_those_of_loadgen() {
        for (text, floor) in [
            ("p50", 11),
            ("p90", 64),
            ("p95", 130),
            ("p99", 662),
            ("p99.9", 6_636),
            ("p99.99", 66_381),
            ("p10", 64),
            ("p1", 662),
        ] {
            assert_eq!(
                text.parse::<Percentile>().unwrap().sample_floor(),
                floor,
                "{text}"
            );
        }
    }

    #[test]
    fn texts_and_percentiles_are_one_to_one() {
        for percentile in Percentile::SUMMARY {
            assert_eq!(percentile.to_string().parse(), Ok(percentile));
        }
        assert_eq!("p99.9".parse(), Ok(Percentile::P99_9));
        assert_eq!("p99.90".parse(), Ok(Percentile::P99_9));
        assert_eq!("p05".parse(), Ok(Percentile::P5));
        assert_eq!(Percentile::P99_9.to_string(), "p99.9");
        for text in [
            "",
            "p",
            "90",
            "p100",
            "p0",
            "p0.0",
            "p-1",
            "p9x",
            "p99.99999",
            "pé",
            "p+9",
        ] {
            assert!(text.parse::<Percentile>().is_err(), "{text}");
        }
    }

    #[test]
    fn ranks_are_exact() {
        assert_eq!(Percentile::P99.rank(100), 99);
        assert_eq!(Percentile::P99.rank(101), 100);
        assert_eq!(Percentile::P50.rank(1), 1);
        assert_eq!(Percentile::P1.rank(5), 1);
        assert_eq!(Percentile::P90.rank(10), 9);
    }

    #[test]
    fn conventions_differ_as_numpy_says() {
        let sorted = [10, 20, 30, 40];
        let of = |convention: Convention| convention.of_sorted(&sorted, Percentile::P90).unwrap();
        assert_eq!(of(Convention::NearestRank), 40.0);
        assert_eq!(of(Convention::Lower), 30.0);
        assert!((of(Convention::Linear) - 37.0).abs() < 1e-9);
        assert_eq!(Convention::Linear.of_sorted(&[], Percentile::P50), None);
        assert_eq!(
            Convention::Linear.of_sorted(&[7], Percentile::P99_9),
            Some(7.0)
        );
    }
}
