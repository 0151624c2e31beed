use crate::{Tally, Trend, float, mser5};

/// Stretches that an open-loop window is cut into at the most.
pub const SECTIONS: usize = 20;

/// And at the least.
const SECTIONS_MIN: usize = 5;

/// A stretch is so many mean response times long, unless there would be too few of them: what is in flight
/// at its edge belongs to two.
const SECTION_RESPONSES: f64 = 2.0;

/// Growth below this share of the mean, over the whole window, is not called growth.
const GROWTH_MIN: f64 = 0.1;

/// How sure growth must be, of response times and of requests in flight each.
const GROWTH_CONFIDENCE: f64 = 0.99;

/// No more than this share of a window is left out as its beginning.
const BEGINNING_SHARE_MAX: f64 = 0.5;

/// A request of an open loop, however it ended.
#[derive(Clone, Debug, PartialEq)]
pub struct Arrival {
    /// When it was due.
    pub scheduled_s: f64,
    /// When it was over: answered, failed or given up.
    pub ended_s: f64,
    /// From handing it over to the end of its answer; `None` unless it succeeded.
    pub response_s: Option<f64>,
    /// For each service level, in one order for all requests: what was judged of it, and what missed. A
    /// failure has missed.
    pub judged: Vec<Tally>,
}

/// What a window of an open loop showed, without its beginning.
#[derive(Clone, Debug, PartialEq)]
pub struct OpenWindow {
    /// For each service level the tallies of stretches of equally many requests, [`SECTIONS`] of them or,
    /// where the window is short beside a response time, fewer.
    pub sections: Vec<Vec<Tally>>,
    /// Whether response times and requests in flight both rose from its begin to its end: more came than
    /// was served. Both must (guidellm's rule): one alone also drifts by chance.
    pub is_growing: bool,
    /// Whether the beginning was over early enough to be told from the rest.
    pub is_steady: bool,
    /// Requests that were judged.
    pub requests: u64,
    /// Requests left out at the beginning.
    pub left_out: u64,
    /// Mean response time of the successes.
    pub response_s: Option<f64>,
}

impl OpenWindow {
    /// From all requests of a window, in any order. `None` when less than two are left for each
    /// of [`SECTIONS`] stretches.
    ///
    /// The first requests found the server empty: those of one mean response time are left out, and what
    /// [`mser5`] finds to be no part of the steady state. None is left out at the end: a window is over
    /// when all that came in it has been answered.
    #[must_use]
    pub fn new(arrivals: &[Arrival]) -> Option<Self> {
        let mut all: Vec<&Arrival> = arrivals.iter().collect();
        all.sort_by(|a, b| a.scheduled_s.total_cmp(&b.scheduled_s));
        let (left_out, is_steady) = beginning(&all);
        let judged = &all[left_out..];
        if judged.len() < 2 * SECTIONS {
            return None;
        }
        let count = sections(judged);
        let edge = |section: usize| section * judged.len() / count;
        let sections = || (0..count).map(|n| &judged[edge(n)..edge(n + 1)]);
        let slos = all.first()?.judged.len();
        let tallies = |slo: usize| -> Vec<Tally> {
            let of = |section: &[&Arrival]| {
                let tallies = section.iter().filter_map(|one| one.judged.get(slo));
                tallies.copied().fold(Tally::default(), Tally::plus)
            };
            sections().map(of).collect()
        };
        let responses: Vec<f64> = sections().filter_map(mean_response).collect();
        let in_flight: Vec<f64> = (1..=count)
            .map(|n| in_flight(&all, judged[edge(n) - 1].scheduled_s))
            .collect();
        let rises = |series: &[f64]| {
            Trend::of(series).is_some_and(|trend| trend.rises(GROWTH_MIN, GROWTH_CONFIDENCE))
        };
        Some(Self {
            sections: (0..slos).map(tallies).collect(),
            is_growing: rises(&responses) && rises(&in_flight),
            is_steady,
            requests: judged.len() as u64,
            left_out: left_out as u64,
            response_s: mean_response(judged),
        })
    }
}

/// How many stretches a window is cut into.
fn sections(judged: &[&Arrival]) -> usize {
    let ends = judged.first().zip(judged.last());
    let span_s = ends.map_or(0.0, |(first, last)| last.scheduled_s - first.scheduled_s);
    let section_s = mean_response(judged).unwrap_or(0.0) * SECTION_RESPONSES;
    let fits = |count: &usize| float(*count) * section_s <= span_s;
    let mut most_first = (SECTIONS_MIN..=SECTIONS).rev();
    most_first.find(fits).unwrap_or(SECTIONS_MIN)
}

/// How many to leave out, and whether the rest is steady.
fn beginning(all: &[&Arrival]) -> (usize, bool) {
    let Some(first) = all.first() else {
        return (0, false);
    };
    let filled_s = first.scheduled_s + mean_response(all).unwrap_or(0.0);
    let most = portion(all.len());
    let filling = all.iter().take_while(|one| one.scheduled_s < filled_s);
    let filling = filling.count().min(most);
    let rest: Vec<f64> = all[filling..]
        .iter()
        .filter_map(|one| one.response_s)
        .collect();
    match mser5(&rest) {
        Some(steady) if steady.is_reached => ((filling + steady.left_out).min(most), true),
        Some(_) => (filling, false),
        None => (filling, true),
    }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of a count"
)]
fn portion(count: usize) -> usize {
    (float(count) * BEGINNING_SHARE_MAX) as usize
}

fn mean_response(arrivals: &[&Arrival]) -> Option<f64> {
    let responses: Vec<f64> = arrivals.iter().filter_map(|one| one.response_s).collect();
    let count = float(responses.len());
    (count > 0.0).then(|| responses.iter().sum::<f64>() / count)
}

/// Requests that had come and were not over.
fn in_flight(all: &[&Arrival], at_s: f64) -> f64 {
    let is_in = |one: &&&Arrival| one.scheduled_s <= at_s && one.ended_s > at_s;
    float(all.iter().filter(is_in).count())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 a second, each taking `response_s(n)`; those over 1 s miss.
    fn arrivals(count: usize, response_s: impl Fn(f64) -> f64) -> Vec<Arrival> {
        let arrival = |place: usize| {
            let (at, response) = (float(place) / 10.0, response_s(float(place)));
            Arrival {
                scheduled_s: at,
                ended_s: at + response,
                response_s: Some(response),
                judged: vec![Tally::one(response > 1.0)],
            }
        };
        (0..count).map(arrival).collect()
    }

    #[test]
    fn an_even_window_is_steady_and_does_not_grow() {
        let shown = OpenWindow::new(&arrivals(400, |_| 0.5)).unwrap();
        assert_eq!((shown.left_out, shown.requests), (5, 395));
        assert!(shown.is_steady && !shown.is_growing);
        assert_eq!(shown.sections[0].len(), SECTIONS);
        let judged: u64 = shown.sections[0].iter().map(|tally| tally.judged).sum();
        assert_eq!(judged, 395);
        assert_eq!(shown.response_s, Some(0.5));
    }

    #[test]
    fn a_backlog_that_only_grows_is_seen_before_a_limit_is_passed() {
        // A twentieth more than is served: 40 s of it, and nobody has waited 1 s yet at first.
        let shown = OpenWindow::new(&arrivals(400, |n| 0.5 + 0.005 * n)).unwrap();
        assert!(shown.is_growing);
        let early = OpenWindow::new(&arrivals(90, |n| 0.5 + 0.005 * n)).unwrap();
        assert!(early.is_growing);
        assert!(early.sections[0].iter().all(|tally| tally.missed == 0));
    }

    #[test]
    fn failures_count_as_misses_and_too_few_requests_as_nothing() {
        let mut all = arrivals(100, |_| 0.5);
        for one in all.iter_mut().skip(50) {
            one.response_s = None;
            one.judged = vec![Tally::one(true)];
        }
        let shown = OpenWindow::new(&all).unwrap();
        let missed: u64 = shown.sections[0].iter().map(|tally| tally.missed).sum();
        assert_eq!(missed, 50);
        assert_eq!(OpenWindow::new(&all[..41]), None);
        assert_eq!(OpenWindow::new(&[]), None);
    }
}
