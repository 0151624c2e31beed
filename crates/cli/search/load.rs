//! The load of one run of a series, and the configuration that asks for it alone.

use std::fmt;

use crate::config::BenchConfig;
use crate::machine;
use crate::search::asked::{self, Asked};
use crate::search::spec::Sweep;

/// The most that the search for a knee goes up to where nothing is said.
const LEVEL_MAX: u32 = 4_096;

/// What a run of a series is to do.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Load {
    /// What was asked for.
    Same,
    /// A closed loop of so many in flight.
    Closed(u32),
    /// An open loop of so many requests per second.
    Open(f64),
}

/// `concurrency 16`, `rate 12.5/s`.
impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Same => f.write_str("run"),
            Self::Closed(level) => write!(f, "concurrency {level}"),
            Self::Open(rate) => write!(f, "rate {}/s", short(*rate)),
        }
    }
}

impl Load {
    /// As a part of a folder's name.
    pub(crate) fn name(self) -> String {
        match self {
            Self::Same => "run".to_owned(),
            Self::Closed(level) => format!("concurrency-{level}"),
            Self::Open(rate) => format!("rate-{}", short(rate)),
        }
    }

    /// `config` for this load alone.
    pub(crate) fn of(self, config: &BenchConfig) -> BenchConfig {
        let mut config = alone(config);
        match self {
            Self::Same => {}
            Self::Closed(level) => {
                config.concurrency = Some(level);
                (
                    config.request_rate,
                    config.arrival_pattern,
                    config.burstiness,
                ) = (None, None, None);
            }
            Self::Open(rate) => config.request_rate = Some(rate),
        }
        config
    }
}

/// A rate with as many digits as tell rates of a search apart.
fn short(rate: f64) -> String {
    let decimals = match rate {
        r if r.fract() == 0.0 || r >= 1_000.0 => 0,
        r if r >= 100.0 => 1,
        r if r >= 10.0 => 2,
        _ => 3,
    };
    format!("{rate:.decimals$}")
}

/// `config` without what makes it a series.
fn alone(config: &BenchConfig) -> BenchConfig {
    BenchConfig {
        sweep: None,
        find: None,
        repeat: None,
        precision: None,
        warmup: None,
        rounds: None,
        warmup_rounds: None,
        ..config.clone()
    }
}

/// A run that needs as much as any of the series, for what is made once. It has as many requests as all
/// runs together, where that is known: as many prompts are made, so that none is sent twice.
pub(crate) fn largest(config: &BenchConfig, asked: &Asked) -> BenchConfig {
    let mut largest = match asked {
        Asked::Same => alone(config),
        Asked::Sweep(Sweep::Concurrency(levels)) => {
            let most = levels.iter().copied().max().unwrap_or(1);
            let point = times(Load::Closed(most).of(config), levels.len());
            let all = levels.iter().copied().fold(0, u32::saturating_add);
            in_rounds(point, config, all)
        }
        Asked::Sweep(Sweep::Rate(rates)) => {
            let most = rates.iter().copied().fold(0.0, f64::max);
            times(Load::Open(most).of(config), rates.len())
        }
        Asked::Knee => Load::Closed(level_max(config)).of(config),
        Asked::MaxRate => Load::Open(config.request_rate.unwrap_or(1.0)).of(config),
    };
    if let Some(repeat) = config.repeat {
        largest = times(largest, usize::try_from(repeat).unwrap_or(usize::MAX));
    }
    if asked::needs_events(config) {
        largest.save_events = Some(true);
    }
    largest
}

/// `config` with so many times the requests, where they are counted.
fn times(mut config: BenchConfig, times: usize) -> BenchConfig {
    let many = |count: u64| count.saturating_mul(times as u64);
    config.request_count = config.request_count.map(many);
    config.warmup_requests = config.warmup_requests.map(many);
    config
}

/// `point`, a run of `level` in flight, with as many rounds of requests as `config` asks for.
pub(crate) fn in_rounds(mut point: BenchConfig, config: &BenchConfig, level: u32) -> BenchConfig {
    let of = |rounds: Option<u32>| rounds.map(|rounds| u64::from(rounds) * u64::from(level));
    if let Some(requests) = of(config.rounds) {
        point.request_count = Some(requests);
    }
    if let Some(requests) = of(config.warmup_rounds) {
        point.warmup_requests = Some(requests);
    }
    point
}

/// The most that the search for a knee goes up to: what was named, else what the machine has room for
/// (a table of sockets, ports), within reason.
pub(crate) fn level_max(config: &BenchConfig) -> u32 {
    let room = machine::descriptors().min(machine::ports());
    // As many connections as slots, and a sixteenth more.
    let room = u32::try_from(room / 17 * 16).unwrap_or(u32::MAX);
    let room = room.saturating_sub(16).max(1);
    config.concurrency.unwrap_or_else(|| LEVEL_MAX.min(room))
}

/// The keys of `noted`, which says what a run of the series came to, that say what `point` asks for, as
/// `point` has them: they are decided anew.
pub(crate) fn undecided(noted: &BenchConfig, point: &BenchConfig) -> BenchConfig {
    BenchConfig {
        concurrency: point.concurrency,
        request_rate: point.request_rate,
        arrival_pattern: point.arrival_pattern,
        burstiness: point.burstiness,
        request_count: point.request_count,
        duration: point.duration,
        warmup_requests: point.warmup_requests,
        ..noted.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(yaml: &str) -> BenchConfig {
        crate::file::parse(yaml).unwrap()
    }

    #[test]
    fn a_point_is_a_run_of_its_own() {
        let sweep = config("sweep: concurrency=2,8\nrounds: 10\nwarmup-rounds: 2\nwarmup: auto");
        let asked = Asked::new(&sweep).unwrap();
        // Ten rounds of both levels: no prompt is sent twice.
        let expected = config("concurrency: 8\nrequest-count: 100\nwarmup-requests: 20");
        assert_eq!(largest(&sweep, &asked), expected);
        let counted = config("sweep: rate=5,20,80\nrequest-count: 100\nrepeat: 2");
        let all = largest(&counted, &Asked::new(&counted).unwrap());
        assert_eq!(
            (all.request_rate, all.request_count),
            (Some(80.0), Some(600))
        );
        let point = in_rounds(Load::Closed(2).of(&sweep), &sweep, 2);
        let expected = config("concurrency: 2\nrequest-count: 20\nwarmup-requests: 4");
        assert_eq!(point, expected);
        let rates = config("sweep: rate=5,20\narrival-pattern: constant\nduration: 3s");
        let expected = config("request-rate: 20\narrival-pattern: constant\nduration: 3s");
        assert_eq!(largest(&rates, &Asked::new(&rates).unwrap()), expected);
        // A closed loop that looks for the rate to begin with has no arrivals to space.
        let scout = Load::Closed(4).of(&expected);
        assert_eq!(scout.concurrency, Some(4));
        assert_eq!((scout.request_rate, scout.arrival_pattern), (None, None));
    }

    #[test]
    fn events_are_kept_where_gaps_are_judged() {
        let search = config("find: max-rate\nslo: ['itl:p99=50ms']");
        let run = largest(&search, &Asked::new(&search).unwrap());
        assert_eq!((run.save_events, run.request_rate), (Some(true), Some(1.0)));
    }

    #[test]
    fn loads_have_names() {
        assert_eq!(Load::Closed(16).to_string(), "concurrency 16");
        assert_eq!(Load::Open(12.3456).to_string(), "rate 12.35/s");
        assert_eq!(Load::Open(20.0).name(), "rate-20");
        assert_eq!(Load::Open(0.12345).name(), "rate-0.123");
        assert_eq!(Load::Same.name(), "run");
    }

    #[test]
    fn a_knee_is_looked_for_up_to_what_was_named_or_what_there_is_room_for() {
        assert_eq!(level_max(&config("concurrency: 50")), 50);
        assert!((1..=4_096).contains(&level_max(&config(""))));
    }
}
