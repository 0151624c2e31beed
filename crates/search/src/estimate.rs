use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

use crate::float;

/// How sure intervals are: 95 of 100 hold the truth.
pub const CONFIDENCE: f64 = 0.95;

/// A figure and the interval that holds the true one, [`CONFIDENCE`] sure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// The figure.
    pub value: f64,
    /// The interval's lower end.
    pub low: f64,
    /// Its upper end.
    pub high: f64,
}

impl Estimate {
    /// The mean of `batches` with Student's interval; `None` below two of them.
    ///
    /// Each is the mean of a stretch that is long beside what ties requests to one another (batch
    /// means, sectioning: Asmussen and Glynn, *Stochastic Simulation*, IV.5). Requests that are in
    /// flight together share their luck; nothing is asked of them within a stretch.
    #[must_use]
    pub fn of_mean(batches: &[f64]) -> Option<Self> {
        if batches.len() < 2 || batches.iter().any(|batch| !batch.is_finite()) {
            return None;
        }
        let count = float(batches.len());
        let mean = batches.iter().sum::<f64>() / count;
        let squares: f64 = batches.iter().map(|batch| (batch - mean).powi(2)).sum();
        let half = student(count - 1.0, CONFIDENCE)? * (squares / (count - 1.0) / count).sqrt();
        Some(Self {
            value: mean,
            low: mean - half,
            high: mean + half,
        })
    }

    /// Half the interval's width, as a share of the figure; infinite where that is 0.
    #[must_use]
    pub fn relative_half_width(&self) -> f64 {
        if self.high == self.low {
            return 0.0;
        }
        (self.high - self.low) / 2.0 / self.value.abs()
    }
}

/// Beyond which value, on either side, Student's t with so many degrees of freedom lies in all but
/// `confidence` of the cases.
pub(crate) fn student(freedom: f64, confidence: f64) -> Option<f64> {
    let student = StudentsT::new(0.0, 1.0, freedom).ok()?;
    Some(student.inverse_cdf(0.5 + confidence / 2.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        // Mean 10, standard error 1, two degrees of freedom: t is 4.3027 (any table).
        let root = 3.0_f64.sqrt();
        let found = Estimate::of_mean(&[10.0 - root, 10.0, 10.0 + root]).unwrap();
        assert!((found.value - 10.0).abs() < 1e-12);
        assert!((found.high - 14.3027).abs() < 1e-3, "{found:?}");
        assert!((found.relative_half_width() - 0.43027).abs() < 1e-4);
    }

    #[test]
    fn what_never_varies_is_certain_and_one_value_says_nothing() {
        let found = Estimate::of_mean(&[5.0; 4]).unwrap();
        assert_eq!((found.low, found.high), (5.0, 5.0));
        assert_eq!(found.relative_half_width(), 0.0);
        assert_eq!(Estimate::of_mean(&[5.0]), None);
        assert_eq!(Estimate::of_mean(&[5.0, f64::NAN]), None);
        let around_nothing = Estimate::of_mean(&[-1.0, 1.0]).unwrap();
        assert_eq!(around_nothing.relative_half_width(), f64::INFINITY);
    }
}
