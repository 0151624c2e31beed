//! From the words of a configuration to the shape of a load, and what contradicts what.

use ridgeline_clock::Nanos;
use ridgeline_engine::Load;
use ridgeline_schedule::{Arrivals, Pattern, ScheduleSpec, StopRule};

use crate::complaint::Complaint;
use crate::config::{ArrivalPattern, BenchConfig};
use crate::span::Span;

/// Requests in flight where none is asked for.
pub(crate) const CONCURRENCY: u32 = 16;
/// How long a run lasts where nothing else ends it.
const DURATION: Nanos = Nanos::from_secs(10);
const TIMEOUT: Nanos = Nanos::from_secs(600);
const DRAIN_TIMEOUT: Nanos = Nanos::from_secs(30);
const SEED: u64 = 42;
/// More stages than these are counted, not named.
const STAGES_NAMED: usize = 4;

/// When requests start, and when no more do.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Shape {
    pub(crate) load: Load,
    pub(crate) stop: StopRule,
    pub(crate) timeout: Nanos,
    pub(crate) drain_timeout: Nanos,
}

impl Shape {
    /// `in_flight_max`: what the machine has room for, where an offline load asks for no number.
    pub(crate) fn new(config: &BenchConfig, in_flight_max: u32) -> Result<Self, Complaint> {
        contradictions(config)?;
        let load = load(config, in_flight_max)?;
        Ok(Self {
            stop: stop(config)?,
            timeout: timeout(config)?,
            drain_timeout: config.drain_timeout.map_or(DRAIN_TIMEOUT, |span| span.0),
            load,
        })
    }

    /// Writes what was decided into `config`, so that it can be read there.
    pub(crate) fn note(&self, config: &mut BenchConfig) {
        config.concurrency = match &self.load {
            Load::Closed { concurrency } | Load::Offline { concurrency } => Some(*concurrency),
            Load::Open {
                concurrency_cap, ..
            } => *concurrency_cap,
        };
        if config.request_rate.is_some() || !config.stage.is_empty() {
            config.arrival_pattern = Some(pattern_of(config));
        }
        config.request_count = self.stop.requests_max;
        config.duration = self.stop.duration.map(Span);
        config.timeout = Some(Span(self.timeout));
        config.drain_timeout = Some(Span(self.drain_timeout));
        config.warmup_requests = Some(config.warmup_requests.unwrap_or(0));
        config.seed = Some(seed(config));
    }

    /// In words: `closed loop, 16 in flight, for 10 s`.
    pub(crate) fn describe(&self) -> String {
        let load = match &self.load {
            Load::Closed { concurrency } => format!("closed loop, {concurrency} in flight"),
            Load::Offline { concurrency } => format!("offline, at most {concurrency} in flight"),
            Load::Open {
                schedule,
                concurrency_cap,
            } => {
                let cap = concurrency_cap
                    .map_or_else(String::new, |cap| format!(", at most {cap} in flight"));
                format!("open loop, {}{cap}", rates(&schedule.stages))
            }
        };
        let stop = match (self.stop.requests_max, self.stop.duration) {
            (Some(count), Some(span)) => format!("{count} requests or {}", Span(span)),
            (Some(1), None) => "1 request".to_owned(),
            (Some(count), None) => format!("{count} requests"),
            (None, Some(span)) => format!("for {}", Span(span)),
            (None, None) => "without end".to_owned(),
        };
        format!("{load}, {stop}")
    }
}

/// In words: `poisson 10/s for 30s, then constant 50/s`.
fn rates(stages: &[ridgeline_schedule::Stage]) -> String {
    let words = |stage: &ridgeline_schedule::Stage| {
        let pattern = match stage.pattern {
            Pattern::Constant => "constant",
            Pattern::Poisson => "poisson",
            Pattern::Gamma { .. } => "gamma",
        };
        let span = stage
            .duration
            .map_or_else(String::new, |span| format!(" for {}", Span(span)));
        format!("{pattern} {}/s{span}", stage.rate_per_s)
    };
    let mut parts: Vec<String> = stages.iter().take(STAGES_NAMED).map(words).collect();
    if stages.len() > STAGES_NAMED {
        parts.push(format!("{} more stages", stages.len() - STAGES_NAMED));
    }
    parts.join(", then ")
}

/// The seed of everything.
pub(crate) fn seed(config: &BenchConfig) -> u64 {
    config.seed.unwrap_or(SEED)
}

fn is_rate(config: &BenchConfig) -> bool {
    config.request_rate.is_some() || !config.stage.is_empty()
}

fn contradictions(config: &BenchConfig) -> Result<(), Complaint> {
    let offline = config.offline == Some(true);
    let rate = config.request_rate.is_some();
    let stages = !config.stage.is_empty();
    let gamma = config.arrival_pattern == Some(ArrivalPattern::Gamma)
        || config
            .stage
            .iter()
            .any(|stage| stage.pattern == Some(ArrivalPattern::Gamma));
    let rules = [
        (
            offline && (rate || stages),
            "--offline and a rate contradict each other: offline, everything is due at the start; \
             leave one of them out",
        ),
        (
            rate && stages,
            "--request-rate and --stage contradict each other: a stage has its own rate; leave one \
             of them out",
        ),
        (
            !is_rate(config) && config.arrival_pattern.is_some(),
            "--arrival-pattern spaces the arrivals of a rate, and there is none: add --request-rate \
             or --stage, or leave it out",
        ),
        (
            !is_rate(config) && config.burstiness.is_some(),
            "--burstiness shapes the arrivals of a rate, and there is none: add --request-rate or \
             --stage, or leave it out",
        ),
        (
            config.burstiness.is_some()
                && !gamma
                && config
                    .arrival_pattern
                    .is_some_and(|p| p != ArrivalPattern::Gamma),
            "--burstiness is the shape of gamma arrivals: use --arrival-pattern gamma, or leave it \
             out",
        ),
        (
            gamma
                && config.burstiness.is_none()
                && config.stage.iter().all(|stage| stage.burstiness.is_none()),
            "gamma arrivals need their shape: add --burstiness (1 is Poisson, less is burstier)",
        ),
        (
            config.concurrency == Some(0),
            "--concurrency 0 would never send a request; it must be at least 1",
        ),
        (
            config.request_count == Some(0),
            "--request-count 0 would send no request; it must be at least 1",
        ),
        (
            config.duration == Some(Span(Nanos::ZERO)),
            "--duration 0 would send no request; give it a span such as 10s",
        ),
    ];
    match rules.into_iter().find(|(broken, _)| *broken) {
        Some((_, message)) => Err(Complaint::new(message)),
        None => Ok(()),
    }
}

fn load(config: &BenchConfig, in_flight_max: u32) -> Result<Load, Complaint> {
    if config.offline == Some(true) {
        // More than there are requests would never be in flight.
        let all = config
            .request_count
            .and_then(|count| u32::try_from(count).ok())
            .unwrap_or(u32::MAX);
        let concurrency = config.concurrency.unwrap_or_else(|| in_flight_max.min(all));
        return Ok(Load::Offline { concurrency });
    }
    if !is_rate(config) {
        let concurrency = config.concurrency.unwrap_or(CONCURRENCY);
        return Ok(Load::Closed { concurrency });
    }
    if let Some(rate) = config.request_rate
        && !(ridgeline_schedule::RATE_PER_S_MIN..=ridgeline_schedule::RATE_PER_S_MAX)
            .contains(&rate)
    {
        return Err(Complaint::new(format!(
            "--request-rate {rate} cannot be scheduled: a rate lies between {} and {:e} \
             requests/s; for requests as fast as they go use --offline",
            ridgeline_schedule::RATE_PER_S_MIN,
            ridgeline_schedule::RATE_PER_S_MAX,
        )));
    }
    let schedule = ScheduleSpec {
        stages: stages(config),
        seed: seed(config),
    };
    // Its own check, of everything.
    Arrivals::new(&schedule)?;
    Ok(Load::Open {
        schedule,
        concurrency_cap: config.concurrency,
    })
}

fn stages(config: &BenchConfig) -> Vec<ridgeline_schedule::Stage> {
    let pattern = |named: ArrivalPattern, shape: Option<f64>| match named {
        ArrivalPattern::Constant => Pattern::Constant,
        ArrivalPattern::Poisson => Pattern::Poisson,
        ArrivalPattern::Gamma => Pattern::Gamma {
            shape: shape.or(config.burstiness).unwrap_or(1.0),
        },
    };
    if let Some(rate_per_s) = config.request_rate {
        let pattern = pattern(pattern_of(config), None);
        return vec![ridgeline_schedule::Stage {
            rate_per_s,
            pattern,
            duration: None,
        }];
    }
    let stage = |stage: &crate::stage::Stage| ridgeline_schedule::Stage {
        rate_per_s: stage.rate,
        pattern: pattern(
            stage.pattern.unwrap_or_else(|| pattern_of(config)),
            stage.burstiness,
        ),
        duration: stage.duration.map(|span| span.0),
    };
    config.stage.iter().map(stage).collect()
}

fn pattern_of(config: &BenchConfig) -> ArrivalPattern {
    // A shape is asked for gamma arrivals only.
    let implied = match config.burstiness {
        Some(_) => ArrivalPattern::Gamma,
        None => ArrivalPattern::Poisson,
    };
    config.arrival_pattern.unwrap_or(implied)
}

/// The end by count, by time, or both. Stages that all have an end are an end, too.
fn stop(config: &BenchConfig) -> Result<StopRule, Complaint> {
    let requests_max = config.request_count;
    let mut duration = config.duration.map(|span| span.0);
    let ends: Option<Vec<Nanos>> = config
        .stage
        .iter()
        .map(|stage| stage.duration.map(|span| span.0))
        .collect();
    if let Some(ends) = ends.filter(|ends| !ends.is_empty()) {
        let sum = ends.into_iter().fold(Nanos::ZERO, |sum, span| sum + span);
        duration = Some(duration.map_or(sum, |duration| duration.min(sum)));
    }
    if requests_max.is_none() && duration.is_none() {
        duration = Some(DURATION);
    }
    if let (Some(count), Some(warmup)) = (requests_max, config.warmup_requests)
        && count.checked_add(warmup).is_none()
    {
        return Err(Complaint::new(
            "--request-count and --warmup-requests together are beyond any count",
        ));
    }
    Ok(StopRule {
        requests_max,
        duration,
    })
}

fn timeout(config: &BenchConfig) -> Result<Nanos, Complaint> {
    match config.timeout {
        Some(Span(Nanos::ZERO)) => Err(Complaint::new(
            "--timeout 0 would fail every request; give it a span such as 600s",
        )),
        Some(Span(span)) => Ok(span),
        None => Ok(TIMEOUT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(yaml: &str) -> Result<Shape, String> {
        let config = crate::file::parse(yaml)?;
        Shape::new(&config, 4096).map_err(|error| error.to_string())
    }

    #[test]
    fn the_defaults() {
        let shape = shape("").unwrap();
        assert_eq!(shape.load, Load::Closed { concurrency: 16 });
        assert_eq!(
            shape.stop,
            StopRule {
                requests_max: None,
                duration: Some(Nanos::from_secs(10))
            }
        );
        assert_eq!(
            (shape.timeout, shape.drain_timeout),
            (Nanos::from_secs(600), Nanos::from_secs(30))
        );
        assert_eq!(shape.describe(), "closed loop, 16 in flight, for 10s");
    }

    #[test]
    fn a_count_ends_a_run_without_a_duration() {
        let stop = |yaml: &str| shape(yaml).unwrap().stop;
        assert_eq!(stop("request-count: 5").duration, None);
        let both = stop("request-count: 5\nduration: 3s");
        assert_eq!(
            (both.requests_max, both.duration),
            (Some(5), Some(Nanos::from_secs(3)))
        );
        let stages = "stage: ['rate=1,duration=2s', 'rate=2,duration=3s']\n";
        assert_eq!(stop(stages).duration, Some(Nanos::from_secs(5)));
        assert_eq!(
            stop("stage: ['rate=1,duration=2s', 'rate=2']").duration,
            Some(DURATION)
        );
    }

    #[test]
    fn loads() {
        assert_eq!(
            shape("offline: true").unwrap().load,
            Load::Offline { concurrency: 4096 }
        );
        assert_eq!(
            shape("offline: true\nrequest-count: 9").unwrap().load,
            Load::Offline { concurrency: 9 }
        );
        let Load::Open {
            schedule,
            concurrency_cap,
        } = shape("request-rate: 5\nburstiness: 0.5\nconcurrency: 9")
            .unwrap()
            .load
        else {
            panic!("a rate is an open loop")
        };
        assert_eq!(concurrency_cap, Some(9));
        assert_eq!(schedule.stages[0].pattern, Pattern::Gamma { shape: 0.5 });
        assert_eq!(schedule.seed, 42);
        let described =
            shape("stage: ['rate=1,duration=2s,pattern=constant', 'rate=2.5']").unwrap();
        assert_eq!(
            described.describe(),
            "open loop, constant 1/s for 2s, then poisson 2.5/s, for 10s"
        );
    }

    #[test]
    fn contradictions_are_told() {
        for (yaml, part) in [
            (
                "offline: true\nrequest-rate: 5",
                "--offline and a rate contradict",
            ),
            (
                "request-rate: 5\nstage: [{rate: 1}]",
                "--request-rate and --stage contradict",
            ),
            (
                "arrival-pattern: poisson",
                "there is none: add --request-rate",
            ),
            ("burstiness: 2", "there is none: add --request-rate"),
            (
                "request-rate: 1\narrival-pattern: constant\nburstiness: 2",
                "shape of gamma",
            ),
            (
                "request-rate: 1\narrival-pattern: gamma",
                "need their shape",
            ),
            ("request-rate: 0", "--request-rate 0 cannot be scheduled"),
            ("request-rate: -1", "--request-rate -1 cannot be scheduled"),
            ("request-rate: .inf", "use --offline"),
            ("request-rate: 1\nburstiness: 0", "gamma shape of 0"),
            ("stage: [{rate: 0, duration: 1s}]", "stage 1: a rate of 0"),
            ("stage: [{rate: 1}, {rate: 2}]", "stage 1 has no duration"),
            ("concurrency: 0", "--concurrency 0"),
            ("request-count: 0", "--request-count 0"),
            ("duration: 0", "--duration 0"),
            ("timeout: 0", "--timeout 0"),
        ] {
            let error = shape(yaml).unwrap_err();
            assert!(error.contains(part), "{yaml}: {error}");
        }
    }

    #[test]
    fn what_was_decided_is_noted() {
        let mut config = crate::file::parse("request-rate: 5\nrequest-count: 3").unwrap();
        Shape::new(&config, 1).unwrap().note(&mut config);
        let noted = config.clone();
        assert_eq!(config.arrival_pattern, Some(ArrivalPattern::Poisson));
        assert_eq!((config.seed, config.duration), (Some(42), None));
        Shape::new(&config, 1).unwrap().note(&mut config);
        assert_eq!(config, noted);
    }
}
