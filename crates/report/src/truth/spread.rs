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
}

impl Spread {
    /// `None` without differences. They are put in order.
    #[must_use]
    pub fn of(differences: &mut [i64]) -> Option<Self> {
        differences.sort_unstable();
        let (&min, &max) = (differences.first()?, differences.last()?);
        let count = differences.len() as u64;
        let at = |percentile: Percentile| {
            let rank = usize::try_from(percentile.rank(count)).unwrap_or(1);
            differences[rank - 1]
        };
        let sum: i128 = differences.iter().copied().map(i128::from).sum();
        Some(Self {
            count,
            negative: differences.partition_point(|&difference| difference < 0) as u64,
            min,
            p50: at(Percentile::P50),
            p99: at(Percentile::P99),
            max,
            mean: mean(sum, count),
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
        };
        assert_eq!(Spread::of(&mut differences), Some(expected));
        let one = Spread::of(&mut [i64::MAX]).unwrap();
        assert_eq!((one.p50, one.p99, one.negative), (i64::MAX, i64::MAX, 0));
    }
}
