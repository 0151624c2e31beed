use ridgeline_metrics::Percentile;
use serde::{Deserialize, Serialize};

/// How signed differences are distributed: exact, percentiles by nearest rank; ns.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Spread {
    /// Differences.
    pub count: u64,
    /// Those below zero.
    pub negative: u64,
    /// The smallest.
    pub min: i64,
    /// The median.
    pub p50: i64,
    /// The 99th percentile.
    pub p99: i64,
    /// The largest.
    pub max: i64,
    /// The mean.
    pub mean: f64,
    /// The median of their sizes, whatever their signs: the typical error.
    #[serde(default)]
    pub size_p50: u64,
    /// The 99th percentile of their sizes.
    #[serde(default)]
    pub size_p99: u64,
}

impl Spread {
    /// `None` without differences. They are put in order.
    #[must_use]
    pub fn of(differences: &mut [i64]) -> Option<Self> {
        differences.sort_unstable();
        let (&min, &max) = (differences.first()?, differences.last()?);
        let count = differences.len() as u64;
        let place = |percentile: Percentile| {
            let rank = usize::try_from(percentile.rank(count)).unwrap_or(1);
            rank - 1
        };
        let at = |percentile: Percentile| differences[place(percentile)];
        let mut sizes: Vec<u64> = differences.iter().map(|ns| ns.unsigned_abs()).collect();
        sizes.sort_unstable();
        let size = |percentile: Percentile| sizes[place(percentile)];
        let sum: i128 = differences.iter().copied().map(i128::from).sum();
        Some(Self {
            count,
            negative: differences.partition_point(|&difference| difference < 0) as u64,
            min,
            p50: at(Percentile::P50),
            p99: at(Percentile::P99),
            max,
            mean: mean(sum, count),
            size_p50: size(Percentile::P50),
            size_p99: size(Percentile::P99),
        })
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a mean has more digits than anyone reads"
)]
fn mean(sum: i128, count: u64) -> f64 {
    sum as f64 / count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_is_exact() {
        assert_eq!(Spread::of(&mut []), None);
        let mut differences: Vec<i64> = (-50..50).rev().collect();
        let expected = Spread {
            count: 100,
            negative: 50,
            min: -50,
            p50: -1,
            p99: 48,
            max: 49,
            mean: -0.5,
            size_p50: 25,
            size_p99: 49,
        };
        assert_eq!(Spread::of(&mut differences), Some(expected));
        let one = Spread::of(&mut [i64::MAX]).unwrap();
        assert_eq!((one.p50, one.p99, one.negative), (i64::MAX, i64::MAX, 0));
    }
}
