use ridgeline_clock::Nanos;
use serde::{Deserialize, Serialize};

use crate::outputs::Outputs;
use crate::{Metric, Slo};

/// What single requests are judged by: one limit for each metric that has an SLO.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Judge {
    slos: Vec<Slo>,
    limits: Vec<RequestLimit>,
    judged: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct RequestLimit {
    metric: Metric,
    #[serde(with = "crate::ns")]
    limit: Nanos,
    /// Not of TPOT: [`Outputs`] has it.
    met: u64,
}

/// Goodput: requests per second that succeeded and met every SLO; failures are misses, cancelled
/// requests are not judged.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Goodput {
    /// Good requests per second over the window of the throughput; `None` when that has no length.
    pub requests_per_s: Option<f64>,
    /// Good requests of the measured phase.
    pub good: u64,
    /// Requests of the measured phase that succeeded or failed.
    pub judged: u64,
    /// `good / judged`; `None` when nothing was judged.
    pub share: Option<f64>,
    /// Each SLO by itself.
    pub slos: Vec<Attainment>,
}

/// How one SLO fared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attainment {
    /// The SLO as it is written.
    pub slo: Slo,
    /// The limit, ns.
    pub limit_ns: u64,
    /// The share of judged requests within the limit for single requests of this metric; `None` when
    /// nothing was judged.
    pub share: Option<f64>,
    /// The percentile of the run, ns; `None` without one, or without samples.
    pub value_ns: Option<u64>,
    /// Whether the percentile is within the limit (without samples it is not); `None` without one.
    pub passed: Option<bool>,
}

impl Judge {
    pub(crate) fn new(slos: &[Slo]) -> Self {
        let mut limits: Vec<RequestLimit> = Vec::new();
        for metric in Metric::JUDGED {
            let of_metric = slos.iter().filter(|slo| slo.metric == metric);
            // The one without a percentile first, else the highest; of equals the strictest.
            let strictest = of_metric.min_by_key(|slo| {
                let rank = slo
                    .percentile
                    .map_or(0, |percentile| u64::MAX - percentile.rank(1 << 40));
                (rank, slo.limit)
            });
            limits.extend(strictest.map(|slo| RequestLimit {
                metric,
                limit: slo.limit,
                met: 0,
            }));
        }
        Self {
            slos: slos.to_vec(),
            limits,
            judged: 0,
        }
    }

    /// A success. `value_ns` has the request's figures; tells whether it met every limit but that of
    /// TPOT, which is for [`meets_tpot`](Self::meets_tpot).
    ///
    /// A request too short to have gaps meets their limits; one without a first token, a first output
    /// or a last token misses theirs.
    pub(crate) fn success(&mut self, value_ns: impl Fn(Metric) -> Option<f64>) -> bool {
        self.judged += u64::from(self.has_limits());
        let mut met_all = true;
        let others = self.limits.iter_mut().filter(|l| l.metric != Metric::Tpot);
        for limit in others {
            let absent = matches!(limit.metric, Metric::Itl | Metric::Icl);
            let met = value_ns(limit.metric).map_or(absent, |ns| ns <= limit.limit.0 as f64);
            limit.met += u64::from(met);
            met_all &= met;
        }
        met_all
    }

    /// Whether a success with this TPOT meets its limit, if it has one; an answer too short to have a
    /// TPOT does.
    pub(crate) fn meets_tpot(&self, tpot_ns: Option<f64>) -> bool {
        let mut of_tpot = self.limits.iter().filter(|l| l.metric == Metric::Tpot);
        of_tpot.all(|limit| tpot_ns.is_none_or(|ns| ns <= limit.limit.0 as f64))
    }

    pub(crate) fn has_limits(&self) -> bool {
        !self.limits.is_empty()
    }

    pub(crate) fn failure(&mut self) {
        self.judged += u64::from(self.has_limits());
    }

    pub(crate) fn merge(&mut self, other: &Self) {
        debug_assert_eq!(
            self.slos, other.slos,
            "shards of one run have the same SLOs"
        );
        self.judged += other.judged;
        for (limit, other) in self.limits.iter_mut().zip(&other.limits) {
            limit.met += other.met;
        }
    }

    /// `None` without SLOs.
    pub(crate) fn goodput(
        &self,
        outputs: &Outputs,
        requests_per_s: Option<f64>,
        percentile: impl Fn(&Slo) -> Option<Nanos>,
    ) -> Option<Goodput> {
        let share = |count: u64| (self.judged > 0).then(|| count as f64 / self.judged as f64);
        let attainment = |slo: &Slo| {
            let value = percentile(slo);
            let limit = self.limits.iter().find(|limit| limit.metric == slo.metric);
            let met = limit.map(|limit| match limit.metric {
                Metric::Tpot => outputs.tpot_met,
                _ => limit.met,
            });
            Attainment {
                slo: *slo,
                limit_ns: slo.limit.0,
                share: met.and_then(share),
                value_ns: value.map(|value| value.0),
                passed: slo
                    .percentile
                    .map(|_| value.is_some_and(|value| value <= slo.limit)),
            }
        };
        (!self.slos.is_empty()).then(|| Goodput {
            requests_per_s,
            good: outputs.good,
            judged: self.judged,
            share: share(outputs.good),
            slos: self.slos.iter().map(attainment).collect(),
        })
    }
}

impl Goodput {
    /// Whether some percentile SLO failed: exit code 5.
    #[must_use]
    pub fn failed(&self) -> bool {
        self.slos.iter().any(|slo| slo.passed == Some(false))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::outputs::Uncounted;
    use crate::{Fate, Finished, Phase, Timeline};

    fn judge(slos: &str) -> Judge {
        Judge::new(&Slo::parse_all(slos).unwrap())
    }

    fn limits(slos: &str) -> Vec<(Metric, u64)> {
        judge(slos)
            .limits
            .iter()
            .map(|limit| (limit.metric, limit.limit.0))
            .collect()
    }

    #[test]
    fn a_request_has_one_limit_for_each_metric() {
        assert_eq!(limits(""), []);
        assert_eq!(limits("ttft:p50=2ns,ttft:p99=9ns"), [(Metric::Ttft, 9)]);
        assert_eq!(limits("ttft:p99=9ns,ttft=5ns"), [(Metric::Ttft, 5)]);
        assert_eq!(
            limits("ttft=7ns,ttft=5ns,itl=1ns"),
            [(Metric::Ttft, 5), (Metric::Itl, 1)]
        );
    }

    #[test]
    fn a_request_is_good_when_it_meets_every_slo() {
        let mut judge = judge("ttft=100ns,tpot=10ns");
        let mut outputs = Outputs::default();
        let mut good = |ttft: Option<f64>, tpot: Option<u64>| {
            let about = Uncounted {
                streamed: true,
                events_in_window: 0,
                done_in_window: true,
                slos_met: judge.success(|metric| ttft.filter(|_| metric == Metric::Ttft)),
            };
            let finished = Finished {
                timeline: Timeline {
                    first_token: Some(Nanos(0)),
                    last_token: Some(Nanos(tpot.unwrap_or(0))),
                    ..Timeline::default()
                },
                output_tokens: Some(if tpot.is_some() { 2 } else { 1 }),
                ..Finished::new(Phase::Measured, Fate::Ok, true)
            };
            let before = outputs.good;
            outputs.add(&finished, &about, &judge);
            outputs.good > before
        };
        assert!(good(Some(100.0), Some(10)));
        assert!(!good(Some(100.0), Some(11)));
        assert!(!good(Some(101.0), Some(1)));
        assert!(good(Some(1.0), None), "one token has no TPOT");
        assert!(!good(None, None), "no first token came");
        judge.failure();
        let goodput = judge.goodput(&outputs, Some(2.0), |_| None).unwrap();
        assert_eq!(
            (goodput.good, goodput.judged, goodput.share),
            (2, 6, Some(2.0 / 6.0))
        );
        assert_eq!(goodput.slos[0].share, Some(3.0 / 6.0));
        assert_eq!(goodput.slos[1].share, Some(4.0 / 6.0));
        assert!(!goodput.failed(), "only percentiles fail a run");
    }

    #[test]
    fn percentiles_pass_at_their_limit_and_fail_beyond_or_without_samples() {
        let passed = |value: Option<u64>| {
            let goodput = judge("ttft:p90=100ns")
                .goodput(&Outputs::default(), None, |_| value.map(Nanos))
                .unwrap();
            assert_eq!(goodput.failed(), goodput.slos[0].passed == Some(false));
            goodput.slos[0].passed
        };
        assert_eq!(passed(Some(100)), Some(true));
        assert_eq!(passed(Some(101)), Some(false));
        assert_eq!(passed(None), Some(false));
        assert_eq!(judge("").goodput(&Outputs::default(), None, |_| None), None);
    }
}
