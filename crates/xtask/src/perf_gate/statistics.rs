//! What a handful of paired runs can tell: medians, and how far they may be from the truth.

use rand_core::Rng as _;
use rand_pcg::Pcg64Mcg;
use serde::Serialize;

/// Resamples of a bootstrap: enough that the ends of an interval differ by less than a tenth of its
/// width from one seed to another.
const RESAMPLES: usize = 2_000;

/// The share of the resamples that lies outside an interval, half of it on either side.
const OUTSIDE: f64 = 0.05;

/// Fixed, so that the same runs always get the same interval.
const SEED: u128 = 0x7269_6467_656c_696e_6567_6174_6500_0001;

/// The median of some ratios, with its 95 % confidence interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub(crate) struct Interval {
    /// The median of the ratios.
    pub(crate) median: f64,
    /// The lower end of the interval.
    pub(crate) low: f64,
    /// The upper end of the interval.
    pub(crate) high: f64,
}

impl Interval {
    /// Of ratios that were measured independently of one another, by the percentile bootstrap of
    /// their median (Efron 1979): an outlier moves neither the median nor, alone, the interval's ends.
    /// `None` without any ratio, or with one that is not a finite number.
    pub(crate) fn of(ratios: &[f64]) -> Option<Self> {
        if ratios.is_empty() || ratios.iter().any(|ratio| !ratio.is_finite()) {
            return None;
        }
        let mut random = Pcg64Mcg::new(SEED);
        let mut medians: Vec<f64> = (0..RESAMPLES)
            .map(|_| {
                let resample = (0..ratios.len()).map(|_| ratios[below(&mut random, ratios.len())]);
                quantile(resample.collect(), 0.5)
            })
            .collect();
        medians.sort_unstable_by(f64::total_cmp);
        Some(Self {
            median: quantile(ratios.to_vec(), 0.5),
            low: quantile(medians.clone(), OUTSIDE / 2.0),
            high: quantile(medians, 1.0 - OUTSIDE / 2.0),
        })
    }

    /// Whether all of it is at most `bound` away from 1.
    pub(crate) fn is_near_one(&self, bound: f64) -> bool {
        self.low >= 1.0 - bound && self.high <= 1.0 + bound
    }
}

/// A number below `count`, which is not 0. The bias of the multiplication (Lemire 2019) is below
/// 2^-32 for counts of rounds.
fn below(random: &mut Pcg64Mcg, count: usize) -> usize {
    let scaled = u128::from(random.next_u64()) * count as u128;
    usize::try_from(scaled >> 64).unwrap_or(0)
}

/// The value below which this share of the values lies, interpolated between neighbours (Hyndman and
/// Fan's type 7); NaN for no values.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a place within a short list"
)]
pub(crate) fn quantile(mut values: Vec<f64>, share: f64) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let Some(last) = values.len().checked_sub(1) else {
        return f64::NAN;
    };
    let place = share * last as f64;
    let (below, above) = (place.floor() as usize, place.ceil() as usize);
    let (low, high) = (values[below.min(last)], values[above.min(last)]);
    (high - low).mul_add(place - place.floor(), low)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Twelve uniform numbers, centred: close to a normal distribution of standard deviation 1.
    fn normal(random: &mut Pcg64Mcg) -> f64 {
        let uniform = |random: &mut Pcg64Mcg| f64::from(random.next_u32()) / f64::from(u32::MAX);
        (0..12).map(|_| uniform(random)).sum::<f64>() - 6.0
    }

    #[test]
    fn quantiles_interpolate_between_neighbours() {
        let values = vec![4.0, 1.0, 3.0, 2.0];
        assert!((quantile(values.clone(), 0.5) - 2.5).abs() < 1e-12);
        assert!((quantile(values.clone(), 0.25) - 1.75).abs() < 1e-12);
        assert!((quantile(values.clone(), 0.0) - 1.0).abs() < 1e-12);
        assert!((quantile(values, 1.0) - 4.0).abs() < 1e-12);
        assert!((quantile(vec![7.0], 0.9) - 7.0).abs() < 1e-12);
        assert!(quantile(Vec::new(), 0.5).is_nan());
    }

    #[test]
    fn an_interval_covers_the_true_median_about_as_often_as_it_says() {
        let mut random = Pcg64Mcg::new(7);
        let trials = 200;
        for (rounds, least) in [(7, 0.88), (15, 0.90), (40, 0.91)] {
            let covered = (0..trials).filter(|_| {
                let ratios: Vec<f64> = (0..rounds)
                    .map(|_| 0.02f64.mul_add(normal(&mut random), 1.15))
                    .collect();
                let interval = Interval::of(&ratios).unwrap();
                interval.low <= 1.15 && 1.15 <= interval.high
            });
            let share = f64::from(u32::try_from(covered.count()).unwrap()) / f64::from(trials);
            assert!(share >= least && share <= 1.0, "{rounds} rounds: {share}");
        }
    }

    #[test]
    fn an_interval_is_narrower_with_more_rounds_and_not_moved_by_one_outlier() {
        let mut random = Pcg64Mcg::new(11);
        let mut ratios: Vec<f64> = (0..60)
            .map(|_| 0.03f64.mul_add(normal(&mut random), 1.0))
            .collect();
        let (few, many) = (
            Interval::of(&ratios[..8]).unwrap(),
            Interval::of(&ratios).unwrap(),
        );
        assert!(many.high - many.low < few.high - few.low);
        // The standard error of a median is 1.2533 times that of the mean.
        let width = 2.0 * 1.96 * 1.2533 * 0.03 / 60f64.sqrt();
        let relation = (many.high - many.low) / width;
        assert!((0.6..1.6).contains(&relation), "{relation}");
        ratios[0] = 100.0;
        let shaken = Interval::of(&ratios).unwrap();
        assert!((shaken.high - many.high).abs() < 0.01, "{shaken:?}");
    }

    #[test]
    fn the_same_runs_get_the_same_interval_and_equal_runs_a_point() {
        let ratios = [1.01, 0.99, 1.02, 1.0, 0.98];
        assert_eq!(Interval::of(&ratios), Interval::of(&ratios));
        let point = Interval::of(&[1.5; 6]).unwrap();
        assert_eq!((point.low, point.median, point.high), (1.5, 1.5, 1.5));
        assert_eq!(Interval::of(&[]), None);
        assert_eq!(Interval::of(&[1.0, f64::NAN]), None);
        assert_eq!(Interval::of(&[f64::INFINITY]), None);
    }

    #[test]
    fn near_one_is_about_both_ends() {
        let interval = |low, high| Interval {
            median: 1.0,
            low,
            high,
        };
        assert!(interval(0.97, 1.03).is_near_one(0.03 + 1e-9));
        assert!(!interval(0.96, 1.0).is_near_one(0.03));
        assert!(!interval(1.0, 1.04).is_near_one(0.03));
    }
}
