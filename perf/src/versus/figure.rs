use std::fmt;

use serde::Serialize;

use crate::versus::arm::Sample;
use crate::versus::timing::Errors;

/// What of a sample is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Measure {
    /// CPU time of the process per request.
    CpuNsPerRequest,
    /// CPU time of the process per content event.
    CpuNsPerEvent,
    /// Requests per second of the program's own time.
    RequestsPerS,
    /// Content events per second of the program's own time.
    EventsPerS,
    /// CPU time of both processes per message.
    CpuNsPerMessage,
    /// Messages per second, from the first to the last that was received.
    MessagesPerS,
    /// Median lag behind the schedule.
    LagP50Ns,
    /// The 99th percentile of it.
    LagP99Ns,
    /// Largest resident set of the process.
    ResidentBytes,
    /// The median error of TTFT, by kernel stamps.
    TtftErrorP50Ns,
    /// The 99th percentile of it.
    TtftErrorP99Ns,
    /// The median error of a gap, by kernel stamps.
    GapErrorP50Ns,
    /// The 99th percentile of it.
    GapErrorP99Ns,
    /// The four by the program's own clock.
    TtftReadErrorP50Ns,
    /// See there.
    TtftReadErrorP99Ns,
    /// See there.
    GapReadErrorP50Ns,
    /// See there.
    GapReadErrorP99Ns,
}

impl Measure {
    /// The value for one sample, whose requests have `events` content events each.
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts and times far below 2^53"
    )]
    pub(crate) fn of(self, sample: &Sample, events: u64) -> f64 {
        let requests = sample.requests.max(1) as f64;
        let seconds = sample.elapsed_ns.max(1) as f64 / 1e9;
        let cpu = sample.cpu_ns as f64;
        let lag = |lag: Option<u64>| lag.map_or(f64::NAN, |lag| lag as f64);
        let stamped = |of: fn(&Errors) -> u64| lag(sample.timing.map(|t| of(&t.stamped)));
        let read = |of: fn(&Errors) -> u64| lag(sample.timing.map(|t| of(&t.read)));
        match self {
            Self::CpuNsPerRequest | Self::CpuNsPerMessage => cpu / requests,
            Self::CpuNsPerEvent => cpu / requests / events.max(1) as f64,
            Self::RequestsPerS | Self::MessagesPerS => requests / seconds,
            Self::EventsPerS => requests * events as f64 / seconds,
            Self::LagP50Ns => lag(sample.lag_p50_ns),
            Self::LagP99Ns => lag(sample.lag_p99_ns),
            Self::ResidentBytes => sample.resident_bytes_max as f64,
            Self::TtftErrorP50Ns => stamped(|errors| errors.ttft_p50_ns),
            Self::TtftErrorP99Ns => stamped(|errors| errors.ttft_p99_ns),
            Self::GapErrorP50Ns => stamped(|errors| errors.gap_p50_ns),
            Self::GapErrorP99Ns => stamped(|errors| errors.gap_p99_ns),
            Self::TtftReadErrorP50Ns => read(|errors| errors.ttft_p50_ns),
            Self::TtftReadErrorP99Ns => read(|errors| errors.ttft_p99_ns),
            Self::GapReadErrorP50Ns => read(|errors| errors.gap_p50_ns),
            Self::GapReadErrorP99Ns => read(|errors| errors.gap_p99_ns),
        }
    }
}

/// How the two arms are related.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Relation {
    /// B divided by A.
    Ratio,
    /// What B has more than A, for each of this many.
    Slope(f64),
}

impl Relation {
    fn of(self, a: f64, b: f64) -> f64 {
        match self {
            Self::Ratio => b / a,
            Self::Slope(count) => (b - a) / count,
        }
    }
}

/// What is promised of a relation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// At most this.
    AtMost(f64),
    /// At least this.
    AtLeast(f64),
    /// This far from 1 in either direction: two arms that are the same.
    Near(f64),
}

impl Bound {
    fn keeps(self, value: f64) -> bool {
        match self {
            Self::AtMost(limit) => value <= limit,
            Self::AtLeast(limit) => value >= limit,
            Self::Near(limit) => (value - 1.0).abs() <= limit,
        }
    }
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AtMost(limit) => write!(f, "<= {limit}"),
            Self::AtLeast(limit) => write!(f, ">= {limit}"),
            Self::Near(limit) => write!(f, "1 +- {limit}"),
        }
    }
}

/// What a comparison is asked to show.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question {
    pub(crate) measure: Measure,
    pub(crate) relation: Relation,
    pub(crate) bound: Option<Bound>,
}

/// One line of a comparison.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figure {
    /// What is compared.
    pub measure: Measure,
    /// The median of A.
    pub a: f64,
    /// The median of B.
    pub b: f64,
    /// How `b` and `a` are related.
    pub relation: Relation,
    /// The relation of the medians.
    pub value: f64,
    /// The relation within each round, of the means of its two runs of each arm.
    pub rounds: Vec<f64>,
    /// What is promised of `value`.
    pub bound: Option<Bound>,
    /// Whether it is kept; true where nothing is promised.
    pub kept: bool,
}

/// The four samples of a round, in the order they were taken: A B B A.
pub(crate) type Round = [Sample; 4];

impl Figure {
    pub(crate) fn of(question: Question, rounds: &[Round], events: u64) -> Self {
        let Question {
            measure,
            relation,
            bound,
        } = question;
        let values: Vec<[f64; 4]> = rounds
            .iter()
            .map(|round| round.each_ref().map(|sample| measure.of(sample, events)))
            .collect();
        let a = median(values.iter().flat_map(|[a, _, _, d]| [*a, *d]).collect());
        let b = median(values.iter().flat_map(|[_, b, c, _]| [*b, *c]).collect());
        let value = relation.of(a, b);
        Self {
            measure,
            a,
            b,
            relation,
            value,
            rounds: values
                .iter()
                .map(|[a, b, c, d]| relation.of((a + d) / 2.0, (b + c) / 2.0))
                .collect(),
            bound,
            kept: bound.is_none_or(|bound| bound.keeps(value)),
        }
    }
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        even if even.is_multiple_of(2) => f64::midpoint(values[middle - 1], values[middle]),
        _ => values[middle],
    }
}

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = serde_json::to_value(self.measure).map_err(|_| fmt::Error)?;
        let name = name.as_str().ok_or(fmt::Error)?.to_owned();
        let Self { a, b, value, .. } = self;
        write!(f, "{name:<24}{a:>14.1}{b:>14.1}{value:>10.3}   ")?;
        if let Some(bound) = self.bound {
            write!(
                f,
                "{bound:>10}  {}  ",
                if self.kept { "kept  " } else { "BROKEN" }
            )?;
        }
        f.write_str("rounds")?;
        self.rounds
            .iter()
            .try_for_each(|round| write!(f, " {round:.3}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(requests: u64, cpu_ns: u64, elapsed_ns: u64) -> Sample {
        Sample {
            requests,
            cpu_ns,
            elapsed_ns,
            ..Sample::default()
        }
    }

    fn question(measure: Measure, bound: Bound) -> Question {
        Question {
            measure,
            relation: Relation::Ratio,
            bound: Some(bound),
        }
    }

    #[test]
    fn a_round_is_a_b_b_a() {
        let second = 1_000_000_000;
        let rounds = [
            [
                sample(10, 100, second),
                sample(10, 120, second),
                sample(10, 140, second),
                sample(10, 100, second),
            ],
            [
                sample(10, 300, second),
                sample(20, 480, second),
                sample(20, 480, second),
                sample(10, 100, second),
            ],
        ];
        let cpu = Figure::of(
            question(Measure::CpuNsPerRequest, Bound::AtMost(1.8)),
            &rounds,
            5,
        );
        assert_eq!((cpu.a, cpu.b, cpu.value), (10.0, 19.0, 1.9));
        assert_eq!(cpu.rounds, [1.3, 1.2]);
        assert!(!cpu.kept);
        let rate = Figure::of(
            question(Measure::EventsPerS, Bound::AtLeast(1.5)),
            &rounds,
            5,
        );
        assert_eq!((rate.a, rate.b, rate.kept), (50.0, 75.0, true));
        assert_eq!(rate.rounds, [1.0, 2.0]);
        let line = cpu.to_string();
        assert!(
            line.contains("cpu_ns_per_request") && line.contains("BROKEN"),
            "{line}"
        );
    }

    #[test]
    fn a_slope_counts_what_is_more() {
        let with = |resident_bytes_max| Sample {
            resident_bytes_max,
            ..Sample::default()
        };
        let rounds = [[with(1000), with(9000), with(9000), with(1000)]];
        let question = Question {
            measure: Measure::ResidentBytes,
            relation: Relation::Slope(4.0),
            bound: Some(Bound::AtMost(2000.0)),
        };
        let figure = Figure::of(question, &rounds, 0);
        assert_eq!((figure.value, figure.kept), (2000.0, true));
        assert_eq!(figure.rounds, [2000.0]);
    }

    #[test]
    fn what_was_not_measured_keeps_no_promise() {
        let rounds = [[(); 4].map(|()| Sample::default())];
        for bound in [Bound::AtMost(2.0), Bound::AtLeast(0.5), Bound::Near(0.03)] {
            for measure in [Measure::LagP50Ns, Measure::LagP99Ns] {
                assert!(!Figure::of(question(measure, bound), &rounds, 1).kept);
            }
        }
        assert!(
            Figure::of(question(Measure::LagP50Ns, Bound::AtMost(2.0)), &[], 1)
                .value
                .is_nan()
        );
    }

    #[test]
    fn bounds_are_inclusive() {
        assert!(Bound::AtMost(1.18).keeps(1.18) && !Bound::AtMost(1.18).keeps(1.19));
        assert!(Bound::AtLeast(0.85).keeps(0.85) && !Bound::AtLeast(0.85).keeps(0.84));
        assert!(Bound::Near(0.03).keeps(0.98) && !Bound::Near(0.03).keeps(1.04));
    }
}
