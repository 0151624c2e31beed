use crate::estimate::{CONFIDENCE, student};
use crate::{Estimate, float};

/// Of so many that were judged by a service level, so many missed it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Those that missed it.
    pub missed: u64,
    /// All of them.
    pub judged: u64,
}

impl Tally {
    /// One that missed it, or did not.
    #[must_use]
    pub fn one(missed: bool) -> Self {
        Self {
            missed: u64::from(missed),
            judged: 1,
        }
    }

    /// Both together.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self {
            missed: self.missed + other.missed,
            judged: self.judged + other.judged,
        }
    }

    /// The share that misses, from the tallies of the stretches of a window; `None` when nothing was
    /// judged.
    ///
    /// A percentile is within its limit exactly when the share beyond the limit is small enough: `p90`
    /// holds when at most a tenth misses. A share is a mean, so that its interval comes from the stretches
    /// (a ratio of sums, with the spread of the stretches about it), and a stretch need not be long
    /// enough to have a percentile of its own. It is never taken to be narrower than if all had been
    /// independent (Wilson's interval): stretches without any miss are not certain.
    #[must_use]
    pub fn share(stretches: &[Self]) -> Option<Estimate> {
        let all = stretches.iter().copied().fold(Self::default(), Self::plus);
        if all.judged == 0 {
            return None;
        }
        let (missed, judged) = (number(all.missed), number(all.judged));
        let share = missed / judged;
        let (mut low, mut high) = wilson(missed, judged);
        let count = float(stretches.len());
        if let Some(t) = student(count - 1.0, CONFIDENCE).filter(|_| count > 1.0) {
            let off = |tally: &Self| number(tally.missed) - share * number(tally.judged);
            let squares: f64 = stretches.iter().map(|tally| off(tally).powi(2)).sum();
            let half = t * (count / (count - 1.0) * squares).sqrt() / judged;
            (low, high) = (low.min(share - half), high.max(share + half));
        }
        Some(Estimate {
            value: share,
            low: low.max(0.0),
            high: high.min(1.0),
        })
    }
}

/// Wilson's interval of a share (Wilson 1927), [`CONFIDENCE`] sure.
fn wilson(missed: f64, judged: f64) -> (f64, f64) {
    // Of the normal distribution: Student's with no end of freedom.
    const Z: f64 = 1.959_964;
    let share = missed / judged;
    let scale = 1.0 + Z * Z / judged;
    let middle = (share + Z * Z / (2.0 * judged)) / scale;
    let half =
        Z / scale * (share * (1.0 - share) / judged + Z * Z / (4.0 * judged * judged)).sqrt();
    (middle - half, middle + half)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counts of requests and tokens, far below 2^53"
)]
fn number(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally(missed: u64, judged: u64) -> Tally {
        Tally { missed, judged }
    }

    #[test]
    fn wilson_is_that_of_the_books() {
        // 1 of 10: 0.0179 to 0.4042 (Brown, Cai and DasGupta 2001 give the formula; any calculator).
        let (low, high) = wilson(1.0, 10.0);
        assert!(
            (low - 0.0179).abs() < 1e-4 && (high - 0.4042).abs() < 1e-4,
            "{low} {high}"
        );
    }

    #[test]
    fn no_miss_at_all_is_not_certain() {
        let share = Tally::share(&[tally(0, 10); 20]).unwrap();
        assert_eq!((share.value, share.low), (0.0, 0.0));
        assert!((0.015..0.025).contains(&share.high), "{share:?}");
        assert_eq!(Tally::share(&[tally(0, 0)]), None);
        assert_eq!(Tally::share(&[]), None);
    }

    #[test]
    fn misses_that_come_together_are_doubted_more() {
        let spread = Tally::share(&[tally(1, 10); 20]).unwrap();
        let mut clustered = [tally(0, 10); 20];
        clustered[..2].fill(tally(10, 10));
        let clustered = Tally::share(&clustered).unwrap();
        assert_eq!(spread.value, clustered.value);
        assert!(
            clustered.high > spread.high + 0.05,
            "{spread:?} {clustered:?}"
        );
    }
}
