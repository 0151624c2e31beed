//! Percentiles of a sample.

use std::fmt;

use serde::Serialize;

/// How a sample of times is spread. Percentiles are nearest-rank: each is a value that occurred.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Spread {
    /// Samples.
    pub count: usize,
    /// The smallest.
    pub min_ns: i64,
    /// The median.
    pub p50_ns: i64,
    /// The 90th percentile.
    pub p90_ns: i64,
    /// The 99th percentile.
    pub p99_ns: i64,
    /// The 99.9th percentile.
    pub p99_9_ns: i64,
    /// The largest.
    pub max_ns: i64,
}

impl Spread {
    /// Of these samples, in any order; all zero for none.
    #[must_use]
    pub fn of(mut samples: Vec<i64>) -> Self {
        samples.sort_unstable();
        let (Some(&min_ns), Some(&max_ns)) = (samples.first(), samples.last()) else {
            return Self::default();
        };
        let rank = |per_mille: usize| samples[(samples.len() * per_mille).div_ceil(1000) - 1];
        Self {
            count: samples.len(),
            min_ns,
            p50_ns: rank(500),
            p90_ns: rank(900),
            p99_ns: rank(990),
            p99_9_ns: rank(999),
            max_ns,
        }
    }
}

impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            count,
            min_ns,
            p50_ns,
            p99_ns,
            max_ns,
            ..
        } = self;
        write!(
            f,
            "n {count}  min {min_ns}  p50 {p50_ns}  p99 {p99_ns}  max {max_ns} ns"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_rank() {
        let spread = Spread::of((1..=1000).rev().collect());
        assert_eq!(
            (spread.count, spread.min_ns, spread.max_ns),
            (1000, 1, 1000)
        );
        assert_eq!((spread.p50_ns, spread.p90_ns), (500, 900));
        assert_eq!((spread.p99_ns, spread.p99_9_ns), (990, 999));
        let one = Spread::of(vec![-7]);
        assert_eq!(
            (one.min_ns, one.p50_ns, one.p99_9_ns, one.max_ns),
            (-7, -7, -7, -7)
        );
        assert_eq!(Spread::of(Vec::new()), Spread::default());
    }
}
