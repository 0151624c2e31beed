//! What series of runs is asked for, and what contradicts it.

use ridgeline_metrics::{Metric, Slo};

use super::spec::{Find, Sweep, Warmup};
use crate::complaint::Complaint;
use crate::config::{BenchConfig, RecordsKind};

/// A series of runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Asked {
    /// The load that was asked for, as often as `--repeat` says.
    Same,
    /// Each of these.
    Sweep(Sweep),
    /// The knee.
    Knee,
    /// The highest rate.
    MaxRate,
}

/// Whether one run alone is not what is asked for.
pub(crate) fn is_asked(config: &BenchConfig) -> bool {
    config.sweep.is_some()
        || config.find.is_some()
        || config.repeat.is_some()
        || config.warmup == Some(Warmup::Auto)
}

/// How sure, and how near, figures are to be where nothing is said.
const PRECISION: f64 = 0.05;

/// See `--precision`.
pub(crate) fn precision(config: &BenchConfig) -> f64 {
    config.precision.unwrap_or(PRECISION)
}

/// Whether figures leave out the beginning of a run. A search always does.
pub(crate) fn leaves_out(config: &BenchConfig) -> bool {
    config.find.is_some() || config.warmup.unwrap_or(Warmup::Auto) == Warmup::Auto
}

/// Whether judging a rate needs the arrivals of single events.
pub(crate) fn needs_events(config: &BenchConfig) -> bool {
    let of_gaps = |slo: Slo| matches!(slo.metric, Metric::Itl | Metric::Icl);
    config.find == Some(Find::MaxRate) && judged(config).any(of_gaps)
}

/// The service levels that a rate is judged by: those of the run, not those of single requests.
pub(crate) fn judged(config: &BenchConfig) -> impl Iterator<Item = Slo> + '_ {
    let slos = config.slo.iter().copied();
    slos.filter(|slo| slo.percentile.is_some())
}

impl Asked {
    pub(crate) fn new(config: &BenchConfig) -> Result<Self, Complaint> {
        check(config)?;
        Ok(match (&config.sweep, config.find) {
            (_, Some(Find::Knee)) => Self::Knee,
            (_, Some(Find::MaxRate)) => Self::MaxRate,
            (Some(sweep), None) => Self::Sweep(sweep.clone()),
            (None, None) => Self::Same,
        })
    }
}

/// What makes no sense together. Reads nothing.
pub(crate) fn check(config: &BenchConfig) -> Result<(), Complaint> {
    let rules = of_loads(config).into_iter().chain(of_counts(config));
    match rules.into_iter().find(|(broken, _)| *broken) {
        Some((_, message)) => Err(Complaint::new(message)),
        None => Ok(()),
    }
}

/// Something is wrong, and what.
type Rule = (bool, &'static str);

/// What is asked for beside the loads of a series.
fn of_loads(config: &BenchConfig) -> [Rule; 7] {
    let rate = config.request_rate.is_some();
    let stages = !config.stage.is_empty();
    let offline = config.offline == Some(true);
    let knee = config.find == Some(Find::Knee);
    let max_rate = config.find == Some(Find::MaxRate);
    let levels = matches!(config.sweep, Some(Sweep::Concurrency(_)));
    let rates = matches!(config.sweep, Some(Sweep::Rate(_)));
    [
        (
            config.sweep.is_some() && config.find.is_some(),
            "--sweep and --find contradict each other: a search chooses its loads itself; leave one of \
             them out",
        ),
        (
            is_asked(config) && config.workers.is_some(),
            "--workers and a series of runs contradict each other: a series drives its loads from this \
             process; leave --workers out, or run its points one by one",
        ),
        (
            (levels || knee) && (rate || stages || offline),
            "a closed loop is asked for by --sweep concurrency or --find knee, and another load beside \
             it: leave out --request-rate, --stage and --offline",
        ),
        (
            (rates || max_rate) && (stages || offline),
            "a rate is asked for by --sweep rate or --find max-rate, and another load beside it: leave \
             out --stage and --offline",
        ),
        (
            levels && config.concurrency.is_some(),
            "--concurrency and --sweep concurrency contradict each other: leave --concurrency out",
        ),
        (
            rates && rate,
            "--request-rate and --sweep rate contradict each other: leave --request-rate out",
        ),
        (
            max_rate && judged(config).next().is_none(),
            "--find max-rate needs a service level with a percentile: add one such as --slo \
             ttft:p90=500ms",
        ),
    ]
}

/// How many requests, and how often.
fn of_counts(config: &BenchConfig) -> [Rule; 11] {
    let levels = matches!(config.sweep, Some(Sweep::Concurrency(_)));
    let knee = config.find == Some(Find::Knee);
    let no_records = config.records == Some(RecordsKind::None);
    [
        (
            config.find.is_some() && (config.request_count.is_some() || config.duration.is_some()),
            "--find takes as many requests as it needs: leave out --request-count and --duration",
        ),
        (
            config.find.is_some() && no_records,
            "--find reads its windows from their records: leave out --records none",
        ),
        (
            config.warmup == Some(Warmup::Auto) && no_records,
            "--warmup auto finds the beginning of a run in its records: leave out --records none",
        ),
        (
            config.repeat == Some(0),
            "--repeat 0 would run nothing; it must be at least 1",
        ),
        (
            config.find.is_some() && config.repeat.is_some(),
            "--find repeats what it must by itself: leave --repeat out",
        ),
        (
            config.precision.is_some() && config.find.is_none() && config.repeat.is_none(),
            "--precision says when --repeat or --find has come near enough, and neither is there: add one \
             or leave it out",
        ),
        (
            config
                .precision
                .is_some_and(|share| !(share > 0.0 && share < 1.0)),
            "precision is a share of the figure, above 0 and below 1",
        ),
        (
            (config.rounds.is_some() || config.warmup_rounds.is_some()) && !(levels || knee),
            "--rounds and --warmup-rounds count requests by those in flight: they go with --sweep \
             concurrency or --find knee",
        ),
        (
            config.rounds.is_some() && config.request_count.is_some(),
            "--rounds and --request-count contradict each other: leave one of them out",
        ),
        (
            config.warmup_rounds.is_some() && config.warmup_requests.is_some(),
            "--warmup-rounds and --warmup-requests contradict each other: leave one of them out",
        ),
        (
            config.rounds == Some(0),
            "--rounds 0 would send nothing; it must be at least 1",
        ),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(yaml: &str) -> Result<Asked, String> {
        let config = crate::file::parse(yaml)?;
        Asked::new(&config).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_asked_for() {
        assert_eq!(asked("repeat: 3").unwrap(), Asked::Same);
        assert_eq!(asked("find: knee").unwrap(), Asked::Knee);
        let max_rate = "find: max-rate\nslo: ['ttft:p90=1s']\nrequest-rate: 5";
        assert_eq!(asked(max_rate).unwrap(), Asked::MaxRate);
        assert_eq!(
            asked("sweep: concurrency=1,2").unwrap(),
            Asked::Sweep(Sweep::Concurrency(vec![1, 2]))
        );
        let is = |yaml: &str| is_asked(&crate::file::parse(yaml).unwrap());
        assert!(is("warmup: auto") && is("repeat: 1"));
        assert!(!is("") && !is("warmup: fixed"));
    }

    #[test]
    fn contradictions_are_told() {
        for (yaml, part) in [
            ("find: knee\nsweep: rate=1", "--sweep and --find contradict"),
            ("find: knee\nworkers: 2", "leave --workers out"),
            ("find: knee\nrequest-rate: 5", "leave out --request-rate"),
            (
                "sweep: concurrency=1\noffline: true",
                "leave out --request-rate",
            ),
            ("sweep: rate=1\noffline: true", "leave out --stage"),
            (
                "sweep: concurrency=1\nconcurrency: 5",
                "leave --concurrency out",
            ),
            ("sweep: rate=1\nrequest-rate: 5", "leave --request-rate out"),
            ("find: max-rate", "needs a service level"),
            ("find: max-rate\nslo: ['ttft=1s']", "needs a service level"),
            ("find: knee\nduration: 5s", "as many requests as it needs"),
            ("find: knee\nrecords: none", "leave out --records none"),
            ("warmup: auto\nrecords: none", "leave out --records none"),
            ("repeat: 0", "at least 1"),
            ("find: knee\nrepeat: 2", "leave --repeat out"),
            ("precision: 0.1", "neither is there"),
            ("repeat: 3\nprecision: 1.5", "above 0 and below 1"),
            ("rounds: 10", "they go with --sweep"),
            (
                "sweep: concurrency=1\nrounds: 10\nrequest-count: 5",
                "leave one of them out",
            ),
            (
                "sweep: concurrency=1\nwarmup-rounds: 1\nwarmup-requests: 5",
                "leave one of them out",
            ),
            ("sweep: concurrency=1\nrounds: 0", "--rounds 0"),
        ] {
            let error = asked(yaml).unwrap_err();
            assert!(error.contains(part), "{yaml}: {error}");
        }
    }

    #[test]
    fn gaps_are_judged_from_single_events() {
        let needs = |yaml: &str| needs_events(&crate::file::parse(yaml).unwrap());
        assert!(needs("find: max-rate\nslo: ['itl:p99=50ms']"));
        assert!(!needs("find: max-rate\nslo: ['ttft:p99=50ms', 'itl=1s']"));
        assert!(!needs("slo: ['itl:p99=50ms']"));
    }
}
