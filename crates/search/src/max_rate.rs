use serde::Serialize;

use crate::{Ending, Estimate, OpenWindow, Outcome, Tally};

/// How the highest rate is searched for.
#[derive(Clone, Debug, PartialEq)]
pub struct MaxRateOptions {
    /// The first rate, requests per second.
    pub start_per_s: f64,
    /// No rate is below it: where requests hardly ever meet, fewer of them are no faster.
    pub rate_min_per_s: f64,
    /// No rate is above it.
    pub rate_max_per_s: f64,
    /// The answer and the lowest rate that failed lie within this share of one another.
    pub precision: f64,
    /// For each service level the share that may miss it: a tenth for `p90`.
    pub allowed: Vec<f64>,
    /// Requests of the first window of a rate at the least.
    pub requests_min: u64,
    /// Requests of all windows of the answer, and of the rate that failed above it, at the least: of n random
    /// arrivals a rate is known to within 1 / sqrt(n).
    pub requests_sure: u64,
    /// Length of the first window of a rate at the least: long beside a response time.
    pub window_min_s: f64,
    /// Windows of a rate at the most, each twice as long as the one before it.
    pub windows_max: u32,
}

impl MaxRateOptions {
    /// From `start_per_s` for service levels that may be missed by these shares: within 2.5 %, from at
    /// most four windows a rate, and from 1,600 random arrivals in the end.
    ///
    /// The first window has at least 200 requests, and so many that without any miss it would be certain
    /// of the strictest level (Wilson's interval of no miss among n ends at 3.84 / (n + 3.84)).
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a count of requests, which saturates"
    )]
    pub fn new(start_per_s: f64, allowed: Vec<f64>) -> Self {
        let strictest = allowed.iter().copied().fold(1.0, f64::min);
        let certain = (3.85 / strictest.max(1e-6)).ceil() as u64;
        Self {
            start_per_s,
            rate_min_per_s: start_per_s * DESCENT,
            rate_max_per_s: f64::INFINITY,
            precision: 0.025,
            allowed,
            requests_min: certain.max(200),
            requests_sure: 1_600,
            window_min_s: 0.0,
            windows_max: 4,
        }
    }
}

/// A window that is to be measured: an open loop.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe {
    /// Requests per second.
    pub rate_per_s: f64,
    /// Requests in all.
    pub requests: u64,
}

/// Where a rate stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It meets every service level, for certain.
    Passed,
    /// It misses one, or never becomes steady, for certain.
    Failed,
    /// The longest windows could not tell: no bound.
    Unresolved,
    /// The client limited it: no bound.
    Unsound,
}

/// A rate that was tried.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Probed {
    /// Requests per second.
    pub rate_per_s: f64,
    /// Where it stands.
    pub standing: Standing,
    /// Why it does not pass.
    pub why: Option<String>,
    /// Windows measured.
    pub windows: usize,
    /// For each service level the share that misses it.
    pub missed: Vec<Option<Estimate>>,
}

/// What a search for the highest rate found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MaxRateFinding {
    /// How it ended.
    pub ending: Ending,
    /// The highest rate that passed, requests per second.
    pub rate_per_s: Option<f64>,
    /// The lowest rate that failed.
    pub failed_per_s: Option<f64>,
    /// Why it is no more than that, unless it was found.
    pub why: Option<String>,
    /// All rates that were tried, in ascending order.
    pub probes: Vec<Probed>,
}

/// No search tries more rates.
const RATES_MAX: usize = 60;

/// The lowest rate that is tried where nothing is said, as a share of the first.
const DESCENT: f64 = 1.0 / 4096.0;

/// The highest rate of an open loop that meets every service level.
///
/// A level is judged by the share of requests that miss it ([`Tally::share`]). A rate *passes* when the whole
/// interval of every share is within what is allowed and nothing grows; it *fails* when the whole interval
/// of one share is beyond, or when response times and requests in flight grew in two windows that followed
/// one another; everything else is measured again, for twice as long. What stays undecided, and what the
/// client limited, is no bound: the search goes on beside it.
///
/// The bounds of the answer are measured for longer in the end, where too few random arrivals stand behind
/// them; if one does not hold then, the search goes on.
///
/// Rates double while they pass and halve while they do not; then the gap between the highest that passed
/// and the lowest above it that did not is halved (by its geometric mean).
#[derive(Clone, Debug)]
pub struct MaxRate {
    options: MaxRateOptions,
    /// In ascending order of the rate.
    tried: Vec<Tried>,
    is_aborted: bool,
}

#[derive(Clone, Debug)]
struct Tried {
    rate_per_s: f64,
    windows: Vec<OpenWindow>,
    /// Why windows did not show the server. The first may have been a moment's disturbance.
    unsound: Vec<String>,
}

impl MaxRate {
    /// A search that has measured nothing yet.
    #[must_use]
    pub fn new(options: MaxRateOptions) -> Self {
        Self {
            options,
            tried: Vec::new(),
            is_aborted: false,
        }
    }

    /// The window that is to be measured next; `None` when the search is over. Asked again it names the same
    /// one, until it is told what became of it.
    #[must_use]
    pub fn next(&self) -> Option<Probe> {
        if self.is_aborted {
            return None;
        }
        let is_open = |tried: &&Tried| tried.standing(&self.options).is_none();
        if let Some(tried) = self.tried.iter().find(is_open) {
            return Some(self.probe(tried.rate_per_s, tried.windows.len()));
        }
        match self.next_rate() {
            Some(rate) => Some(self.probe(rate, 0)),
            None => self.unsure(),
        }
    }

    /// What became of the window that [`next`](Self::next) named.
    pub fn tell(&mut self, outcome: Outcome<OpenWindow>) {
        let Some(probe) = self.next() else {
            return;
        };
        if matches!(outcome, Outcome::Aborted) {
            self.is_aborted = true;
            return;
        }
        let place = self
            .tried
            .partition_point(|tried| tried.rate_per_s < probe.rate_per_s);
        let is_known = self
            .tried
            .get(place)
            .is_some_and(|tried| tried.rate_per_s <= probe.rate_per_s);
        if !is_known {
            self.tried.insert(
                place,
                Tried {
                    rate_per_s: probe.rate_per_s,
                    windows: Vec::new(),
                    unsound: Vec::new(),
                },
            );
        }
        let tried = &mut self.tried[place];
        match outcome {
            Outcome::Sound(shown) => tried.windows.push(shown),
            Outcome::Unsound(why) => tried.unsound.push(why),
            Outcome::Aborted => {}
        }
    }

    /// What was found so far.
    #[must_use]
    pub fn finding(&self) -> MaxRateFinding {
        let (passed, ceiling) = self.bracket();
        let failed_per_s = self
            .of(Standing::Failed)
            .find(|rate| passed.is_none_or(|passed| *rate > passed));
        let why_at = |rate: f64| {
            let at = self.tried.iter().find(|tried| tried.rate_per_s >= rate)?;
            at.probed(&self.options).why
        };
        let (ending, why) = match (passed, failed_per_s) {
            _ if self.is_aborted => (Ending::Aborted, Some("it was ended early".to_owned())),
            (None, _) => (Ending::Nothing, ceiling.and_then(why_at)),
            (Some(_), None) => {
                let why = ceiling.and_then(why_at);
                let most = self.options.rate_max_per_s;
                let why =
                    why.unwrap_or_else(|| format!("{most}/s is the most that was to be tried"));
                (Ending::LowerBound, Some(why))
            }
            (Some(_), Some(_)) => (Ending::Found, None),
        };
        MaxRateFinding {
            ending,
            rate_per_s: passed,
            failed_per_s,
            why,
            probes: self
                .tried
                .iter()
                .map(|tried| tried.probed(&self.options))
                .collect(),
        }
    }

    /// A bound of what would be the answer that too few requests stand behind: it is measured for longer.
    fn unsure(&self) -> Option<Probe> {
        let (passed, above) = self.bracket();
        let failed = above.filter(|above| self.of(Standing::Failed).any(|rate| rate == *above));
        let bounds = [passed?, failed.unwrap_or(passed?)];
        let all = self
            .tried
            .iter()
            .filter(|tried| bounds.contains(&tried.rate_per_s));
        let mut unsure = all.filter(|tried| tried.requests() < self.options.requests_sure);
        let tried = unsure.next()?;
        let probe = self.probe(tried.rate_per_s, 0);
        let missing = self.options.requests_sure - tried.requests();
        Some(Probe {
            requests: probe.requests.max(missing),
            ..probe
        })
    }

    fn probe(&self, rate_per_s: f64, windows: usize) -> Probe {
        Probe {
            rate_per_s,
            requests: self.requests(rate_per_s, windows),
        }
    }

    fn requests(&self, rate_per_s: f64, windows: usize) -> u64 {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a count of requests, which saturates"
        )]
        let long = (rate_per_s * self.options.window_min_s).ceil() as u64;
        let doublings = u32::try_from(windows).unwrap_or(u32::MAX).min(20);
        self.options
            .requests_min
            .max(long)
            .saturating_mul(1 << doublings)
    }

    /// The rates of that standing, in ascending order.
    fn of(&self, standing: Standing) -> impl Iterator<Item = f64> + '_ {
        let is = move |tried: &&Tried| tried.standing(&self.options) == Some(standing);
        self.tried.iter().filter(is).map(|tried| tried.rate_per_s)
    }

    /// The highest rate that passed below every one that failed, and the lowest above it that did not
    /// pass.
    fn bracket(&self) -> (Option<f64>, Option<f64>) {
        let failed = self.of(Standing::Failed).next().unwrap_or(f64::INFINITY);
        let passed = self.of(Standing::Passed).take_while(|rate| *rate < failed);
        let passed = passed.last();
        let above = self
            .tried
            .iter()
            .map(|tried| tried.rate_per_s)
            .find(|rate| passed.is_none_or(|passed| *rate > passed));
        (passed, above)
    }

    fn next_rate(&self) -> Option<f64> {
        let options = &self.options;
        if self.tried.is_empty() {
            return Some(options.start_per_s.min(options.rate_max_per_s));
        }
        if self.tried.len() >= RATES_MAX {
            return None;
        }
        let wide = |low: f64, high: f64| high / low > 1.0 + options.precision;
        let middle = |low: f64, high: f64| (low * high).sqrt();
        let higher = |rate: f64| (rate < options.rate_max_per_s).then_some(rate);
        match self.bracket() {
            (None, lowest) => {
                let lower = lowest? / 2.0;
                (lower >= options.rate_min_per_s).then_some(lower)
            }
            (Some(passed), None) => {
                higher(passed).map(|rate| (rate * 2.0).min(options.rate_max_per_s))
            }
            (Some(passed), Some(above)) if wide(passed, above) => Some(middle(passed, above)),
            (Some(_), Some(above)) => self.beyond(above, wide, middle),
        }
    }

    /// Where what lies just above the highest rate that passed is no bound: a rate beyond it that may
    /// be one.
    fn beyond(
        &self,
        above: f64,
        wide: impl Fn(f64, f64) -> bool,
        middle: impl Fn(f64, f64) -> f64,
    ) -> Option<f64> {
        let from = self
            .tried
            .iter()
            .skip_while(|tried| tried.rate_per_s < above);
        let undecided: Vec<&Tried> = from
            .take_while(|tried| tried.standing(&self.options) != Some(Standing::Failed))
            .collect();
        let last = undecided.last()?;
        let failed = self.of(Standing::Failed).find(|rate| *rate > above);
        match failed {
            Some(failed) if wide(last.rate_per_s, failed) => Some(middle(last.rate_per_s, failed)),
            Some(_) => None,
            // Beyond what the client could do it can do no more.
            None if last.is_unsound() => None,
            None if last.rate_per_s >= self.options.rate_max_per_s => None,
            None => Some((last.rate_per_s * 1.5).min(self.options.rate_max_per_s)),
        }
    }
}

impl Tried {
    /// `None` while another window may tell more.
    fn standing(&self, options: &MaxRateOptions) -> Option<Standing> {
        if self.is_unsound() {
            return Some(Standing::Unsound);
        }
        let last = self.windows.last()?;
        let shares = self.shares(options.allowed.len());
        let beyond = |(share, allowed): (&Option<Estimate>, &f64)| {
            share.is_some_and(|share| share.low > *allowed)
        };
        let within = |(share, allowed): (&Option<Estimate>, &f64)| {
            share.is_some_and(|share| share.high <= *allowed)
        };
        let mut judged = shares.iter().zip(&options.allowed);
        let mut again = shares.iter().zip(&options.allowed);
        let enough = usize::try_from(options.windows_max.max(1)).unwrap_or(usize::MAX);
        if judged.any(beyond) || self.grew_twice() {
            Some(Standing::Failed)
        } else if again.all(within) && last.is_steady && !last.is_growing {
            Some(Standing::Passed)
        } else if self.windows.len() >= enough {
            Some(Standing::Unresolved)
        } else {
            None
        }
    }

    fn is_unsound(&self) -> bool {
        self.unsound.len() > 1
    }

    /// Requests of all windows, their beginnings included.
    fn requests(&self) -> u64 {
        let of = |window: &OpenWindow| window.requests + window.left_out;
        self.windows.iter().map(of).sum()
    }

    fn grew_twice(&self) -> bool {
        let mut last = self.windows.iter().rev().take(2);
        self.windows.len() >= 2 && last.all(|window| window.is_growing)
    }

    /// The shares that miss, over all windows.
    fn shares(&self, slos: usize) -> Vec<Option<Estimate>> {
        let share = |slo: usize| {
            let sections = self
                .windows
                .iter()
                .filter_map(|window| window.sections.get(slo));
            Tally::share(&sections.flatten().copied().collect::<Vec<Tally>>())
        };
        (0..slos).map(share).collect()
    }

    fn probed(&self, options: &MaxRateOptions) -> Probed {
        // A rate that is still being measured is not decided yet.
        let standing = self.standing(options).unwrap_or(Standing::Unresolved);
        let missed = self.shares(options.allowed.len());
        Probed {
            rate_per_s: self.rate_per_s,
            standing,
            why: self.why(standing, &missed, options),
            windows: self.windows.len(),
            missed,
        }
    }

    fn why(
        &self,
        standing: Standing,
        missed: &[Option<Estimate>],
        options: &MaxRateOptions,
    ) -> Option<String> {
        let misses = |share: &Estimate| share.high > 0.0;
        let worst = missed
            .iter()
            .zip(&options.allowed)
            .filter_map(|(share, allowed)| Some((share.filter(misses)?, *allowed)))
            .max_by(|a, b| (a.0.value / a.1).total_cmp(&(b.0.value / b.1)));
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let words = |(share, allowed): (Estimate, f64)| {
            format!(
                "{} miss an SLO that {} may, {} to {} for certain",
                percent(share.value),
                percent(allowed),
                percent(share.low),
                percent(share.high)
            )
        };
        match standing {
            Standing::Passed => None,
            Standing::Unsound => self.unsound.last().cloned(),
            Standing::Failed if self.grew_twice() => {
                Some("the backlog grows as long as it is measured".to_owned())
            }
            Standing::Failed => worst.map(words),
            Standing::Unresolved if self.windows.last().is_some_and(|last| last.is_growing) => {
                Some("the backlog grew in the longest window".to_owned())
            }
            Standing::Unresolved if self.windows.last().is_some_and(|last| !last.is_steady) => {
                Some("no window was long enough to become steady".to_owned())
            }
            Standing::Unresolved => worst.map(words),
        }
    }
}
