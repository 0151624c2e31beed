use serde::Serialize;
use statrs::distribution::{ContinuousCDF, StudentsT};

/// A figure and how far it can be trusted.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Estimate {
    pub(super) value: f64,
    /// Its standard error and the degrees of freedom behind that; `None`: not known.
    pub(super) doubt: Option<Doubt>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Doubt {
    pub(super) error: f64,
    pub(super) freedom: f64,
}

impl Estimate {
    /// A figure that is `value` for the whole and these for its stretches.
    pub(super) fn of(value: f64, batches: &[f64]) -> Self {
        Self {
            value,
            doubt: doubt(value, batches),
        }
    }

    pub(super) fn untested(value: f64) -> Self {
        Self { value, doubt: None }
    }
}

/// Spread about the figure of the whole, not about the stretches' mean: what the stretches are biased by
/// counts as doubt.
fn doubt(value: f64, batches: &[f64]) -> Option<Doubt> {
    if batches.len() < 2 || batches.iter().any(|batch| !batch.is_finite()) {
        return None;
    }
    let count = float(batches.len());
    let squares: f64 = batches.iter().map(|batch| (batch - value).powi(2)).sum();
    Some(Doubt {
        error: (squares / (count - 1.0) / count).sqrt(),
        freedom: count - 1.0,
    })
}

/// What became of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// The interval lies within the threshold on both sides of zero.
    Same,
    /// Certainly better, by at least the threshold.
    Better,
    /// Certainly worse, by at least the threshold: a regression.
    Worse,
    /// Nothing of these is certain.
    Open,
    /// Not tested: the doubt of a figure is not known, or a run is invalid.
    Untested,
}

/// The relative change from `base` to `new`, and its interval: that of the logarithm of the ratio, by the
/// delta method, with Welch's degrees of freedom. `miss` is the probability that it does not hold the truth.
pub(super) fn relative(base: &Estimate, new: &Estimate, miss: f64) -> (f64, Option<[f64; 2]>) {
    let change = new.value / base.value - 1.0;
    let (Some(a), Some(b)) = (base.doubt, new.doubt) else {
        return (change, None);
    };
    let variance = |doubt: Doubt, value: f64| (doubt.error / value).powi(2);
    let (va, vb) = (variance(a, base.value), variance(b, new.value));
    if va + vb == 0.0 {
        return (change, Some([change, change]));
    }
    let freedom = (va + vb).powi(2) / (va.powi(2) / a.freedom + vb.powi(2) / b.freedom);
    let Ok(student) = StudentsT::new(0.0, 1.0, freedom) else {
        return (change, None);
    };
    let half = student.inverse_cdf(1.0 - miss / 2.0) * (va + vb).sqrt();
    let middle = (1.0 + change).ln();
    let interval = [(middle - half).exp() - 1.0, (middle + half).exp() - 1.0];
    let sound = interval.iter().all(|end| end.is_finite());
    (change, sound.then_some(interval))
}

/// What an interval says, of a figure that is better when it is `higher` or lower.
pub(super) fn judge(change: f64, interval: [f64; 2], higher: bool, threshold: f64) -> Change {
    let [low, high] = interval;
    let certain = low > 0.0 || high < 0.0;
    if certain && change.abs() >= threshold {
        if (change > 0.0) == higher {
            Change::Better
        } else {
            Change::Worse
        }
    } else if low > -threshold && high < threshold {
        Change::Same
    } else {
        Change::Open
    }
}

#[expect(clippy::cast_precision_loss, reason = "a count of stretches")]
pub(super) fn float(count: usize) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_welchs() {
        // Stretches 9, 11 and 18, 22 about 10 and 20: standard errors 1 and 2 with one degree each, both 10 %.
        let (base, new) = (
            Estimate::of(10.0, &[9.0, 11.0]),
            Estimate::of(20.0, &[18.0, 22.0]),
        );
        assert_eq!(base.doubt.unwrap().error, 1.0);
        let (change, interval) = relative(&base, &new, 0.05);
        assert_eq!(change, 1.0);
        // t with 2 degrees at 97.5 %: 4.3027 (any table); ln 2 -+ 4.3027 * sqrt(0.02).
        let half = 4.3027 * 0.02_f64.sqrt();
        let [low, high] = interval.unwrap();
        assert!((low - (2.0 * (-half).exp() - 1.0)).abs() < 1e-4, "{low}");
        assert!((high - (2.0 * half.exp() - 1.0)).abs() < 1e-3, "{high}");
    }

    #[test]
    fn nothing_is_certain_without_doubt_known() {
        let known = Estimate::of(10.0, &[9.0, 11.0]);
        for unknown in [
            Estimate::untested(10.0),
            Estimate::of(10.0, &[10.0]),
            Estimate::of(10.0, &[f64::NAN, 1.0]),
        ] {
            assert_eq!(relative(&known, &unknown, 0.05).1, None);
        }
        assert_eq!(
            relative(&Estimate::of(0.0, &[0.0, 0.1]), &known, 0.05).1,
            None
        );
    }

    #[test]
    fn a_regression_is_certain_for_the_worse_and_large() {
        for (change, interval, higher, verdict) in [
            (0.10, [0.05, 0.15], false, Change::Worse),
            (0.10, [0.05, 0.15], true, Change::Better),
            (-0.10, [-0.15, -0.05], true, Change::Worse),
            (0.10, [-0.01, 0.2], false, Change::Open),
            (0.02, [0.01, 0.03], false, Change::Same),
            (0.04, [0.01, 0.07], false, Change::Open),
            (0.0, [0.0, 0.0], false, Change::Same),
        ] {
            assert_eq!(judge(change, interval, higher, 0.05), verdict, "{change}");
        }
    }
}
