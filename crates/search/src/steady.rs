use crate::estimate::student;
use crate::float;

/// How many values are averaged before the rule looks at them.
const BATCH: usize = 5;

/// Fewer averages than these do not tell a beginning from chance.
const AVERAGES_MIN: usize = 20;

/// Where the steady part of a series begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Steady {
    /// So many values at the beginning are to be left out.
    pub left_out: usize,
    /// Whether what is left is steady: the beginning is over within the first half.
    pub is_reached: bool,
}

/// MSER-5: leaves out as much of the beginning as makes the rest's mean most certain.
///
/// Averages of five values each; of all beginnings the one whose removal makes the rest's variance over
/// its *squared* length least (White 1997, *An effective truncation heuristic for bias reduction in
/// simulation output*; with averages of five: White, Cobb and Spratt 2000; recommended for automation by
/// Hoad, Robinson and Davies 2010). A beginning that ends in the second half means that the series is
/// too short, or never steady: this rule alone does not tell which. A quarter of the averages, and at
/// least ten, are always left, because a few that happen to agree look steady.
///
/// `None` for a series that is too short to tell (under 100 values).
#[must_use]
pub fn mser5(series: &[f64]) -> Option<Steady> {
    let averages: Vec<f64> = series
        .chunks_exact(BATCH)
        .map(|five| five.iter().sum::<f64>() / float(BATCH))
        .collect();
    let count = averages.len();
    if count < AVERAGES_MIN {
        return None;
    }
    let left_min = (count / 4).max(AVERAGES_MIN / 2);
    // About the mean of all: the sums then do not lose digits to a large common part.
    let about = averages.iter().sum::<f64>() / float(count);
    // Below it, differences are those of rounding: the longest rest is the best then.
    let rounding = (about * 1e-9).powi(2);
    let (mut sum, mut squares) = (0.0, 0.0);
    let mut best = (f64::INFINITY, 0);
    for (place, average) in averages.iter().enumerate().rev() {
        sum += average - about;
        squares += (average - about).powi(2);
        let left = float(count - place);
        let rest = (squares - sum * sum / left).max(left * rounding);
        let error = rest / (left * left);
        if count - place >= left_min && error <= best.0 {
            best = (error, place);
        }
    }
    Some(Steady {
        left_out: best.1 * BATCH,
        is_reached: best.1 * 2 <= count,
    })
}

/// The straight line through values at equal distances (least squares).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trend {
    /// From the line's first point to its last, as a share of the mean; 0 where that is 0.
    pub growth: f64,
    /// The slope over its standard error; infinite on a perfect line.
    pub t: f64,
    freedom: f64,
}

impl Trend {
    /// `None` below four values, or where one is not finite.
    #[must_use]
    pub fn of(values: &[f64]) -> Option<Self> {
        if values.len() < 4 || values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        let count = float(values.len());
        let mean = values.iter().sum::<f64>() / count;
        let middle = (count - 1.0) / 2.0;
        let places = || values.iter().enumerate();
        let off = |place: usize| float(place) - middle;
        let spread: f64 = places().map(|(place, _)| off(place).powi(2)).sum();
        let slope: f64 = places()
            .map(|(place, value)| off(place) * (value - mean))
            .sum::<f64>()
            / spread;
        let rest: f64 = places()
            .map(|(place, value)| (value - mean - slope * off(place)).powi(2))
            .sum();
        let freedom = count - 2.0;
        let error = (rest / freedom / spread).sqrt();
        let t = if slope == 0.0 { 0.0 } else { slope / error };
        let growth = slope * (count - 1.0);
        Some(Self {
            growth: if mean == 0.0 { 0.0 } else { growth / mean },
            t,
            freedom,
        })
    }

    /// Whether it rises by at least `share` of its mean, and not by chance, `confidence` sure.
    #[must_use]
    pub fn rises(&self, share: f64, confidence: f64) -> bool {
        // One-sided: what falls is no growth.
        let beyond = student(self.freedom, 2.0 * confidence - 1.0);
        self.growth >= share && beyond.is_some_and(|beyond| self.t > beyond)
    }
}

#[cfg(test)]
mod tests {
    use ridgeline_schedule::Source;

    use super::*;

    /// Noise about 10, with a beginning that decays from `above` within about `span` values.
    fn decaying(seed: u64, count: usize, above: f64, span: f64) -> Vec<f64> {
        let mut noise = Source::new(seed, 0);
        let value =
            |place: usize| 10.0 + above * (-float(place) / span).exp() + 0.5 * noise.normal();
        (0..count).map(value).collect()
    }

    #[test]
    fn a_beginning_is_left_out_and_a_steady_series_is_not_cut() {
        for seed in 0..20 {
            let found = mser5(&decaying(seed, 1_000, 8.0, 40.0)).unwrap();
            // After 40 values it is down to e^-1 of 8; after 200 to the noise of the mean.
            assert!((60..=400).contains(&found.left_out), "{seed}: {found:?}");
            assert!(found.is_reached);
            let found = mser5(&decaying(seed, 1_000, 0.0, 1.0)).unwrap();
            assert!(
                found.left_out <= 500 && found.is_reached,
                "{seed}: {found:?}"
            );
        }
        let constant = mser5(&[3.3; 500]).unwrap();
        assert_eq!((constant.left_out, constant.is_reached), (0, true));
    }

    #[test]
    fn what_grows_to_the_end_is_never_steady() {
        let growing: Vec<f64> = (0..500).map(float).collect();
        assert!(!mser5(&growing).unwrap().is_reached);
        assert_eq!(mser5(&growing[..99]), None);
    }

    #[test]
    fn a_trend_is_told_from_noise() {
        let line: Vec<f64> = (0..20).map(|n| 10.0 + float(n)).collect();
        let trend = Trend::of(&line).unwrap();
        assert!((trend.growth - 19.0 / 19.5).abs() < 1e-12);
        assert!(trend.rises(0.5, 0.99) && !trend.rises(1.0, 0.99));
        let falling: Vec<f64> = line.iter().rev().copied().collect();
        assert!(!Trend::of(&falling).unwrap().rises(-2.0, 0.99));
        let flat = Trend::of(&[4.0; 20]).unwrap();
        assert!(!flat.rises(0.0, 0.99));
        let mut noise = Source::new(1, 1);
        let rises = (0..200).filter(|_| {
            let values: Vec<f64> = (0..20).map(|_| 10.0 + noise.normal()).collect();
            Trend::of(&values).unwrap().rises(0.0, 0.99)
        });
        // One in a hundred by definition.
        assert!(rises.count() <= 8);
        assert_eq!(Trend::of(&line[..3]), None);
        assert_eq!(Trend::of(&[1.0, 2.0, f64::NAN, 4.0]), None);
    }
}
