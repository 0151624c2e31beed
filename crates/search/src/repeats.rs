use crate::Estimate;

/// Fewer runs than these have no interval worth the name: with two it is thirteen standard errors wide.
const RUNS_MIN: usize = 3;

/// Repetitions of one run, and when they are enough.
///
/// Runs are independent as the requests of one are not: the interval of a figure over runs also holds what
/// the machine changes from run to run.
#[derive(Clone, Debug)]
pub struct Repeats {
    runs_max: u32,
    precision: Option<f64>,
    /// A row for each run, with the same figures in all.
    figures: Vec<Vec<f64>>,
}

impl Repeats {
    /// At most `runs_max` runs; fewer, but at least three, when half of the interval of every figure is
    /// within `precision` of it.
    #[must_use]
    pub fn new(runs_max: u32, precision: Option<f64>) -> Self {
        Self {
            runs_max: runs_max.max(1),
            precision,
            figures: Vec::new(),
        }
    }

    /// A run that showed these figures. All runs tell the same ones in the same order.
    pub fn tell(&mut self, figures: Vec<f64>) {
        self.figures.push(figures);
    }

    /// Whether there are enough runs.
    #[must_use]
    pub fn is_done(&self) -> bool {
        let runs = self.figures.len();
        runs >= usize::try_from(self.runs_max).unwrap_or(usize::MAX)
            || runs >= RUNS_MIN && self.has_converged()
    }

    /// Whether every figure is as certain as was asked; never, when nothing was.
    #[must_use]
    pub fn has_converged(&self) -> bool {
        let Some(precision) = self.precision else {
            return false;
        };
        let figures = self.figures.first().map_or(0, Vec::len);
        let certain = |place: usize| {
            self.estimate(place)
                .is_some_and(|found| found.relative_half_width() <= precision)
        };
        self.figures.len() >= RUNS_MIN && (0..figures).all(certain)
    }

    /// A figure over the runs; `None` below two of them.
    #[must_use]
    pub fn estimate(&self, place: usize) -> Option<Estimate> {
        let of_run = |run: &Vec<f64>| run.get(place).copied().unwrap_or(f64::NAN);
        Estimate::of_mean(&self.figures.iter().map(of_run).collect::<Vec<f64>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_agree_end_early_and_others_go_on_to_the_end() {
        let mut agreeing = Repeats::new(10, Some(0.02));
        for run in 0..3 {
            assert!(!agreeing.is_done(), "{run}");
            agreeing.tell(vec![100.0 + f64::from(run) * 0.1, 20.0]);
        }
        assert!(agreeing.is_done() && agreeing.has_converged());
        let mut wild = Repeats::new(4, Some(0.02));
        for run in 0..4 {
            assert!(!wild.is_done(), "{run}");
            wild.tell(vec![100.0, 20.0 + f64::from(run)]);
        }
        assert!(wild.is_done() && !wild.has_converged());
        let found = wild.estimate(1).unwrap();
        assert!(found.low < 20.0 && found.high > 23.0, "{found:?}");
        assert_eq!(wild.estimate(2), None);
    }

    #[test]
    fn without_a_precision_all_runs_are_made() {
        let mut all = Repeats::new(5, None);
        for _ in 0..4 {
            all.tell(vec![1.0]);
        }
        assert!(!all.is_done());
        all.tell(vec![1.0]);
        assert!(all.is_done() && !all.has_converged());
    }
}
