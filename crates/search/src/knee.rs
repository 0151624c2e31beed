use std::collections::BTreeMap;

use serde::Serialize;

use crate::{ClosedWindow, Ending, Estimate, Outcome};

/// How a knee is searched for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct KneeOptions {
    /// The first level.
    pub level_min: u32,
    /// No level is above it.
    pub level_max: u32,
    /// How near the knee is to be: its measured neighbours are within this share of it.
    pub precision: f64,
    /// A rung is settled when half of the interval of its throughput is within this share.
    pub throughput_precision: f64,
    /// Windows of a rung at the most.
    pub windows_max: u32,
    /// Requests of a window, in rounds of its level.
    pub rounds: u32,
    /// Requests of a window at the least.
    pub requests_min: u64,
}

impl KneeOptions {
    /// From 1 up to `level_max`, within 5 %, with throughputs within 1 % from at most five windows of
    /// eight rounds each.
    #[must_use]
    pub fn up_to(level_max: u32) -> Self {
        Self {
            level_min: 1,
            level_max: level_max.max(1),
            precision: 0.05,
            throughput_precision: 0.01,
            windows_max: 5,
            rounds: 8,
            requests_min: 24,
        }
    }

    /// The same from one window a rung, and no nearer than the rungs of the ladder: what throughput there
    /// is at all.
    #[must_use]
    pub fn coarse(self) -> Self {
        Self {
            precision: 1.0,
            windows_max: 1,
            ..self
        }
    }
}

/// A window that is to be measured: a closed loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// Requests in flight.
    pub level: u32,
    /// Requests in all.
    pub requests: u64,
}

/// Little's law may be off by this share, and by half a round of a window, for its edges.
const LITTLE_OFF_MAX: f64 = 0.05;

/// Below this share of the asked requests in flight a window does not show its level.
const IN_FLIGHT_SHARE_MIN: f64 = 0.95;

/// The knee of a closed loop: the level beyond which more requests in flight buy more waiting than
/// throughput.
///
/// The rule is the one of Kleinrock (1979, *Power and deterministic rules of thumb for probabilistic
/// problems in computer communications*): the level with the greatest *power*, throughput over response
/// time. For a server of c places and one service time it is c: below it throughput is proportional to
/// the level at one response time, above it response time is proportional to the level at one throughput,
/// and power falls to both sides in proportion. It needs no share of a plateau to be chosen, and no
/// plateau to be seen.
///
/// The throughput of a rung is the requests in flight over their mean response time, which Little's law
/// says it is (N = X R), because a mean of response times does not depend on where a window cuts a round.
/// The law is checked against the answers that were counted: a rung on which both differ by more than
/// 5 % (and half a round of its windows) is unresolved.
///
/// Levels double until power has clearly fallen, or fallen twice; then the wider side of the greatest is
/// halved, until both neighbours are near enough.
#[derive(Clone, Debug)]
pub struct Knee {
    options: KneeOptions,
    rungs: BTreeMap<u32, Measured>,
    is_aborted: bool,
}

#[derive(Clone, Debug, Default)]
struct Measured {
    windows: Vec<ClosedWindow>,
    /// Why windows did not show the server. The first may have been a moment's disturbance.
    unsound: Vec<String>,
}

/// How far a rung is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RungState {
    /// Its interval is narrow enough, or as narrow as it gets.
    Settled,
    /// Its windows contradict Little's law, or say too little: no bound.
    Unresolved,
    /// The client limited it: no bound.
    Unsound,
}

/// One level of the ladder.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Rung {
    /// Requests in flight that were asked for.
    pub level: u32,
    /// How far it is known.
    pub state: RungState,
    /// Why it is no bound, if it is none.
    pub why: Option<String>,
    /// Windows measured.
    pub windows: usize,
    /// Requests in flight, in the mean of time.
    pub in_flight: f64,
    /// Requests per second, by Little's law.
    pub throughput_per_s: Option<Estimate>,
    /// Mean response time.
    pub response_s: Option<Estimate>,
    /// Throughput over response time.
    pub power: Option<Estimate>,
    /// Counted throughput times response time over requests in flight, less 1.
    pub little_off: Option<f64>,
}

/// What a search for a knee found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct KneeFinding {
    /// How it ended.
    pub ending: Ending,
    /// The level of greatest power.
    pub knee: Option<u32>,
    /// The nearest measured levels below and above it: the greatest power lies between them.
    pub between: Option<[u32; 2]>,
    /// The highest throughput of any rung, requests per second.
    pub throughput_max_per_s: Option<f64>,
    /// Why it is no more than that, unless it was found.
    pub why: Option<String>,
    /// All rungs, by level.
    pub rungs: Vec<Rung>,
}

impl Knee {
    /// A search that has measured nothing yet.
    #[must_use]
    pub fn new(options: KneeOptions) -> Self {
        Self {
            options,
            rungs: BTreeMap::new(),
            is_aborted: false,
        }
    }

    /// The window that is to be measured next; `None` when the search is over. Asked again it names the same
    /// one, until it is told what became of it.
    #[must_use]
    pub fn next(&self) -> Option<Window> {
        if self.is_aborted {
            return None;
        }
        let is_open = |(_, measured): &(&u32, &Measured)| measured.is_open(&self.options);
        let level = match self.rungs.iter().find(is_open) {
            Some((level, _)) => *level,
            None => self.next_level()?,
        };
        let rounds = u64::from(self.options.rounds.max(3)) * u64::from(level);
        Some(Window {
            level,
            requests: rounds.max(self.options.requests_min),
        })
    }

    /// What became of the window that [`next`](Self::next) named.
    pub fn tell(&mut self, outcome: Outcome<ClosedWindow>) {
        let Some(window) = self.next() else {
            return;
        };
        let measured = self.rungs.entry(window.level).or_default();
        match outcome {
            Outcome::Sound(shown) => {
                let share = shown.in_flight / f64::from(window.level);
                if share < IN_FLIGHT_SHARE_MIN {
                    measured.unsound.push(format!(
                        "{:.1} of {} requests were in flight",
                        shown.in_flight, window.level
                    ));
                } else {
                    measured.windows.push(shown);
                }
            }
            Outcome::Unsound(why) => measured.unsound.push(why),
            Outcome::Aborted => {
                self.is_aborted = true;
                if measured.windows.is_empty() {
                    self.rungs.remove(&window.level);
                }
            }
        }
    }

    /// What was found so far.
    #[must_use]
    pub fn finding(&self) -> KneeFinding {
        let rungs: Vec<Rung> = self
            .rungs
            .iter()
            .map(|(level, measured)| measured.rung(*level, &self.options))
            .collect();
        let best = best(&rungs);
        let top = rungs.iter().rev().find(|rung| rung.power.is_some());
        let is_top = best.zip(top).is_some_and(|(best, top)| best == top.level);
        let (ending, why) = match best {
            _ if self.is_aborted => (Ending::Aborted, Some("it was ended early".to_owned())),
            None => (Ending::Nothing, rungs.iter().find_map(|r| r.why.clone())),
            Some(_) if is_top => (Ending::LowerBound, Some(self.why_no_higher(&rungs))),
            Some(_) => (Ending::Found, None),
        };
        let throughputs = rungs.iter().filter(|rung| rung.power.is_some());
        KneeFinding {
            ending,
            knee: best,
            between: best.map(|best| self.neighbours(best).map(|level| level.unwrap_or(best))),
            throughput_max_per_s: throughputs
                .filter_map(|rung| Some(rung.throughput_per_s?.value))
                .reduce(f64::max),
            why,
            rungs,
        }
    }

    fn why_no_higher(&self, rungs: &[Rung]) -> String {
        match rungs.last() {
            Some(Rung {
                level,
                why: Some(why),
                ..
            }) => format!("{level} in flight could not be measured: {why}"),
            _ => format!(
                "power still grows at {}, the most that was to be tried",
                self.options.level_max
            ),
        }
    }

    fn next_level(&self) -> Option<u32> {
        let Some((&top, last)) = self.rungs.last_key_value() else {
            return Some(self.options.level_min.clamp(1, self.options.level_max));
        };
        let rungs: Vec<Rung> = self
            .rungs
            .iter()
            .map(|(level, measured)| measured.rung(*level, &self.options))
            .collect();
        let best = best(&rungs);
        if !has_fallen(&rungs, best) {
            let is_cut_off = last.is_unsound() || top >= self.options.level_max;
            // Two rungs that say nothing are followed by no third.
            let says = rungs.iter().rev().take(2).any(|rung| rung.power.is_some());
            if is_cut_off || !says {
                return None;
            }
            return Some(top.saturating_mul(2).min(self.options.level_max));
        }
        self.between(best?)
    }

    /// A level in the wider of the gaps beside `best`, while one of them is too wide.
    fn between(&self, best: u32) -> Option<u32> {
        let near = (f64::from(best) * self.options.precision).max(1.0);
        let [below, above] = self.neighbours(best);
        let wide = |gap: &(u32, u32)| f64::from(gap.1 - gap.0) > near;
        [
            below.map(|level| (level, best)),
            above.map(|level| (best, level)),
        ]
        .into_iter()
        .flatten()
        .filter(wide)
        .max_by_key(|(low, high)| high - low)
        .map(|(low, high)| low + (high - low) / 2)
    }

    /// The nearest levels that were tried.
    fn neighbours(&self, level: u32) -> [Option<u32>; 2] {
        let below = self.rungs.range(..level).next_back();
        let above = self.rungs.range(level + 1..).next();
        [below, above].map(|found| found.map(|(level, _)| *level))
    }
}

/// The least level of the greatest power.
fn best(rungs: &[Rung]) -> Option<u32> {
    let mut best: Option<(f64, u32)> = None;
    for rung in rungs {
        if let Some(power) = rung.power
            && best.is_none_or(|(greatest, _)| power.value > greatest)
        {
            best = Some((power.value, rung.level));
        }
    }
    best.map(|(_, level)| level)
}

/// Whether a rung above the best has certainly less power, or two have less.
fn has_fallen(rungs: &[Rung], best: Option<u32>) -> bool {
    let Some(best) = best else {
        return false;
    };
    let mut powers = rungs.iter().filter(|rung| rung.level >= best);
    let Some(greatest) = powers.next().and_then(|rung| rung.power) else {
        return false;
    };
    let above: Vec<Estimate> = powers.filter_map(|rung| rung.power).collect();
    above.len() >= 2 || above.iter().any(|power| power.high < greatest.low)
}

impl Measured {
    fn is_unsound(&self) -> bool {
        self.unsound.len() > 1
    }

    /// Whether another window may tell more.
    fn is_open(&self, options: &KneeOptions) -> bool {
        let enough = usize::try_from(options.windows_max.max(1)).unwrap_or(usize::MAX);
        if self.is_unsound() || self.windows.len() >= enough {
            return false;
        }
        if self.windows.is_empty() {
            return !self.unsound.is_empty();
        }
        let narrow = self
            .throughput()
            .is_some_and(|found| found.relative_half_width() <= options.throughput_precision);
        !narrow || self.contradicts_little()
    }

    fn rung(&self, level: u32, options: &KneeOptions) -> Rung {
        let little_off = self.little_off();
        let (throughput, response) = (self.throughput(), self.response());
        let unsound = self.unsound.last().filter(|_| self.is_unsound());
        let (state, why) = match unsound {
            Some(why) => (RungState::Unsound, Some(why.clone())),
            None if self.contradicts_little() => (
                RungState::Unresolved,
                Some(format!(
                    "Little's law is off by {:.1} %",
                    little_off.unwrap_or(0.0) * 100.0
                )),
            ),
            None if response.is_none() => (
                RungState::Unresolved,
                Some("too few requests came back".to_owned()),
            ),
            None => (RungState::Settled, None),
        };
        // A rung that is still being measured counts as what it is so far.
        let usable = state == RungState::Settled || self.is_open(options);
        Rung {
            level,
            state,
            why,
            windows: self.windows.len(),
            in_flight: self.in_flight(),
            throughput_per_s: throughput,
            response_s: response,
            power: self.power().filter(|_| usable),
            little_off,
        }
    }

    /// The mean of `of` over the windows, by their spans.
    fn mean(&self, of: impl Fn(&ClosedWindow) -> f64) -> f64 {
        let spans: f64 = self.windows.iter().map(|window| window.span_s).sum();
        let sum: f64 = self
            .windows
            .iter()
            .map(|window| of(window) * window.span_s)
            .sum();
        if spans > 0.0 { sum / spans } else { 0.0 }
    }

    fn in_flight(&self) -> f64 {
        self.mean(|window| window.in_flight)
    }

    fn response(&self) -> Option<Estimate> {
        let batches = self.windows.iter().flat_map(|window| &window.responses_s);
        Estimate::of_mean(&batches.copied().collect::<Vec<f64>>())
    }

    fn throughput(&self) -> Option<Estimate> {
        self.over_response(1)
    }

    fn power(&self) -> Option<Estimate> {
        self.over_response(2)
    }

    /// Requests in flight over a power of the response time.
    fn over_response(&self, exponent: i32) -> Option<Estimate> {
        let (response, in_flight) = (self.response()?, self.in_flight());
        let over = |response: f64| match response {
            r if r > 0.0 => in_flight / r.powi(exponent),
            _ => f64::INFINITY,
        };
        Some(Estimate {
            value: over(response.value),
            low: over(response.high),
            high: over(response.low),
        })
    }

    fn little_off(&self) -> Option<f64> {
        let counted = self.mean(|window| number(window.requests) / window.span_s);
        let in_flight = self.in_flight();
        (in_flight > 0.0).then_some(counted * self.response()?.value / in_flight - 1.0)
    }

    fn contradicts_little(&self) -> bool {
        let rounds =
            |window: &ClosedWindow| number(window.requests) / f64::from(window.level.max(1));
        let rounds: f64 = self.windows.iter().map(rounds).sum();
        let limit = LITTLE_OFF_MAX + 0.5 / rounds.max(1.0);
        self.little_off().is_some_and(|off| off.abs() > limit)
    }
}

#[expect(clippy::cast_precision_loss, reason = "a count of requests")]
fn number(count: u64) -> f64 {
    count as f64
}
