use crate::{float, mser5};

/// Batches that a window is cut into at the most.
const BATCHES: usize = 10;

/// A request of a closed loop that succeeded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Finished {
    /// When it was handed over.
    pub submitted_s: f64,
    /// When its answer ended.
    pub done_s: f64,
}

/// What a window of a closed loop showed, without its beginning and its end.
///
/// The first round (as many answers as there are requests in flight) saw a server that was empty, and
/// what ends after the last start saw one that empties: both are left out, as is what [`mser5`] finds to
/// be no part of the steady state.
#[derive(Clone, Debug, PartialEq)]
pub struct ClosedWindow {
    /// Requests in flight that were asked for.
    pub level: u32,
    /// Requests in flight, in the mean of time.
    pub in_flight: f64,
    /// Answers that were counted.
    pub requests: u64,
    /// Answers left out at the beginning.
    pub left_out: u64,
    /// The span in which they were counted.
    pub span_s: f64,
    /// Mean response times of batches that follow one another, each of at least one round: the requests
    /// of a round share their luck.
    pub responses_s: Vec<f64>,
}

impl ClosedWindow {
    /// From the successes of a window, in any order. `in_flight` is measured, not asked for;
    /// `last_issue_s` is when the last request was started. `None` when less than a round is left.
    #[must_use]
    pub fn new(
        level: u32,
        in_flight: f64,
        last_issue_s: f64,
        requests: &[Finished],
    ) -> Option<Self> {
        let mut all = requests.to_vec();
        all.sort_by(|a, b| a.done_s.total_cmp(&b.done_s));
        // An end that falls on the last start is what made room for it.
        all.retain(|request| request.done_s <= last_issue_s);
        let round = usize::try_from(level).unwrap_or(usize::MAX).max(1);
        let response = |request: &Finished| request.done_s - request.submitted_s;
        let beginning = {
            let after_round = all.get(round..)?;
            let series: Vec<f64> = after_round.iter().map(response).collect();
            let steady = mser5(&series).filter(|steady| steady.is_reached);
            round + steady.map_or(0, |steady| steady.left_out)
        };
        let since_s = all.get(beginning - 1)?.done_s;
        let counted = all.get(beginning..)?;
        let span_s = counted.last()?.done_s - since_s;
        if counted.len() < round || span_s <= 0.0 {
            return None;
        }
        let size = round.max(counted.len().div_ceil(BATCHES));
        let batches = (counted.len() / size).max(1);
        // The last batch takes what does not make another.
        let batch = |place: usize| {
            let end = if place + 1 == batches {
                counted.len()
            } else {
                (place + 1) * size
            };
            let batch = &counted[place * size..end];
            batch.iter().map(response).sum::<f64>() / float(batch.len())
        };
        Some(Self {
            level,
            in_flight,
            requests: counted.len() as u64,
            left_out: beginning as u64,
            span_s,
            responses_s: (0..batches).map(batch).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `level` requests in lockstep, 0.5 s a round.
    fn lockstep(level: u32, rounds: u32) -> Vec<Finished> {
        let request = |n: u32| {
            let begun = f64::from(n / level) * 0.5;
            Finished {
                submitted_s: begun,
                done_s: begun + 0.5,
            }
        };
        (0..level * rounds).map(request).collect()
    }

    #[test]
    fn rounds_are_counted_exactly() {
        let shown = ClosedWindow::new(8, 8.0, 3.5, &lockstep(8, 8)).unwrap();
        // The first round and the one after the last start are out.
        assert_eq!((shown.requests, shown.left_out), (48, 8));
        assert_eq!((shown.span_s, shown.responses_s.len()), (3.0, 6));
        assert!(shown.responses_s.iter().all(|batch| *batch == 0.5));
        let mut shuffled = lockstep(8, 8);
        shuffled.reverse();
        assert_eq!(ClosedWindow::new(8, 8.0, 3.5, &shuffled), Some(shown));
    }

    #[test]
    fn one_in_flight_is_batched_too() {
        let shown = ClosedWindow::new(1, 1.0, 11.5, &lockstep(1, 24)).unwrap();
        // 22 by threes, the last takes four.
        assert_eq!((shown.requests, shown.responses_s.len()), (22, 7));
    }

    #[test]
    fn too_little_says_nothing() {
        assert_eq!(ClosedWindow::new(8, 8.0, 0.5, &lockstep(8, 2)), None);
        assert_eq!(ClosedWindow::new(8, 8.0, 0.0, &lockstep(8, 8)), None);
        assert_eq!(ClosedWindow::new(8, 0.0, 0.0, &[]), None);
        assert_eq!(ClosedWindow::new(0, 0.0, 1.0, &[]), None);
    }
}
