//! Slowdown under load.

use std::num::NonZeroU32;

/// By how much times grow with the sequences that run at once, as llm-d-inference-sim defines it:
/// `factor(n) = 1 + (F - 1) (n - 1) / (M - 1)`, `F` being the factor when all `M` places are taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct LoadFactor {
    /// `(F - 1) / (M - 1)`.
    slope: f64,
}

impl LoadFactor {
    /// `full` is `F`. Without a number of places, or with only one, the factor is 1.
    pub(crate) fn new(full: f64, places: Option<NonZeroU32>) -> Self {
        let steps = places.map_or(0, |places| places.get() - 1);
        let slope = match steps {
            0 => 0.0,
            steps => (full - 1.0) / f64::from(steps),
        };
        Self { slope }
    }

    /// Whether times are the same under any load.
    pub(crate) fn is_one(self) -> bool {
        self.slope == 0.0
    }

    /// The factor while `running` sequences run.
    #[inline]
    pub(crate) fn at(self, running: u32) -> f64 {
        1.0 + self.slope * f64::from(running.saturating_sub(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_factor_grows_evenly_from_one_to_its_full_value() {
        let factor = LoadFactor::new(3.0, NonZeroU32::new(5));
        let factors = [0, 1, 2, 3, 4, 5].map(|running| factor.at(running));
        assert_eq!(factors, [1.0, 1.0, 1.5, 2.0, 2.5, 3.0]);
        assert!(!factor.is_one());
    }

    #[test]
    fn one_place_or_no_limit_means_no_slowdown() {
        for factor in [
            LoadFactor::new(3.0, None),
            LoadFactor::new(3.0, NonZeroU32::new(1)),
            LoadFactor::new(1.0, NonZeroU32::new(5)),
        ] {
            assert!(factor.is_one());
            assert_eq!(factor.at(1_000), 1.0);
        }
    }
}
