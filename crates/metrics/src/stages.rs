use ridgeline_clock::{Arrival, Nanos};
use serde::{Deserialize, Serialize};

use crate::{Counts, Distribution, Fate, Finished, Metric, Summary, Trend};

const PLACES: usize = 6;

/// Where a metric's distribution lies, of those that a stage has.
const fn place(metric: Metric) -> Option<usize> {
    Some(match metric {
        Metric::ScheduleLag => 0,
        Metric::Ttft => 1,
        Metric::Latency => 2,
        Metric::HarnessDelay => 3,
        Metric::StampWidth => 4,
        Metric::Send => 5,
        _ => return None,
    })
}

/// What one stage of a schedule came to: of the requests that were due in it, whenever they ended, and of the
/// reads while it lasted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StageTotals {
    /// From the start of the measured phase.
    #[serde(with = "crate::ns")]
    from: Nanos,
    /// Likewise; [`Nanos::MAX`] of a stage without end.
    #[serde(with = "crate::ns")]
    until: Nanos,
    counts: Counts,
    submitted: u64,
    never_sent: u64,
    cap_waited: u64,
    unsent_failures: u64,
    /// Indexed by [`place`].
    distributions: [Distribution; PLACES],
    latency_trend: Trend,
}

impl StageTotals {
    /// Stages that follow one another and end at `ends`; none where that is a single one, which the run's
    /// own figures are of.
    pub(crate) fn of(ends: &[Nanos]) -> Vec<Self> {
        if ends.len() < 2 {
            return Vec::new();
        }
        let begins = [Nanos::ZERO].into_iter().chain(ends.iter().copied());
        begins
            .zip(ends)
            .map(|(from, &until)| Self::between(from, until))
            .collect()
    }

    fn between(from: Nanos, until: Nanos) -> Self {
        Self {
            from,
            until,
            counts: Counts::default(),
            submitted: 0,
            never_sent: 0,
            cap_waited: 0,
            unsent_failures: 0,
            distributions: std::array::from_fn(|_| Distribution::new()),
            latency_trend: Trend::default(),
        }
    }

    /// The stage of `stages` that `at`, from the start of the measured phase, falls into. The last one has
    /// what comes after its end.
    pub(crate) fn at(stages: &mut [Self], at: Nanos) -> Option<&mut Self> {
        let last = stages.len().checked_sub(1)?;
        let place = stages.partition_point(|stage| stage.until <= at);
        stages.get_mut(place.min(last))
    }

    pub(crate) fn bytes(&self) -> usize {
        let distributions: usize = self.distributions.iter().map(Distribution::bytes).sum();
        distributions + size_of::<Self>()
    }

    // What the collector tells.

    pub(crate) fn read(&mut self, arrival: Arrival, content_events: u32) {
        let times = u64::from(content_events);
        if let Some(delays) = self.at_mut(Metric::HarnessDelay) {
            delays.record_n(arrival.harness_delay(), times);
        }
        if let Some(widths) = self.at_mut(Metric::StampWidth) {
            widths.record_width(arrival, times);
        }
    }

    /// A request that was due in it, at `scheduled` from the start of the measured phase, ended. It began at
    /// `start`.
    pub(crate) fn finished(&mut self, finished: &Finished<'_>, start: Nanos) {
        let Finished {
            timeline,
            cap_wait,
            streamed,
            ..
        } = finished;
        self.counts.issued += 1;
        self.counts.retried += u64::from(finished.retries);
        self.cap_waited += u64::from(*cap_wait > Nanos::ZERO);
        self.sample(
            Metric::ScheduleLag,
            Some(timeline.schedule_lag() - *cap_wait),
        );
        self.sample(Metric::Send, finished.send);
        let in_time = timeline
            .submitted
            .is_some_and(|at| at - start <= self.until);
        self.submitted += u64::from(in_time);
        match finished.fate {
            Fate::Ok => {
                self.counts.completed += 1;
                let latency = timeline.latency(*streamed);
                self.sample(Metric::Latency, latency);
                self.sample(Metric::Ttft, timeline.ttft().filter(|_| *streamed));
                if let Some(latency) = latency {
                    self.latency_trend.add(timeline.scheduled - start, latency);
                }
            }
            Fate::Failed(_) => {
                self.counts.failed += 1;
                self.unsent_failures += u64::from(timeline.submitted.is_none());
            }
            Fate::Cancelled => self.counts.cancelled += 1,
            Fate::GivenUp => {
                self.counts.cancelled += 1;
                self.counts.given_up += 1;
            }
        }
    }

    pub(crate) fn never_sent(&mut self) {
        self.never_sent += 1;
    }

    fn sample(&mut self, metric: Metric, span: Option<Nanos>) {
        if let (Some(found), Some(span)) = (self.at_mut(metric), span) {
            found.record(span);
        }
    }

    fn at_mut(&mut self, metric: Metric) -> Option<&mut Distribution> {
        Some(&mut self.distributions[place(metric)?])
    }

    /// Adds what another shard measured of the same stage.
    pub(crate) fn merge(&mut self, other: &Self) {
        self.counts.merge(&other.counts);
        self.submitted += other.submitted;
        self.never_sent += other.never_sent;
        self.cap_waited += other.cap_waited;
        self.unsent_failures += other.unsent_failures;
        for (own, other) in self.distributions.iter_mut().zip(&other.distributions) {
            own.merge(other);
        }
        self.latency_trend.merge(&other.latency_trend);
    }

    // What it knows.

    /// When it began, from the start of the measured phase.
    #[must_use]
    pub fn from(&self) -> Nanos {
        self.from
    }

    /// When it ended, of a run that measured for `duration`.
    #[must_use]
    pub fn until(&self, duration: Nanos) -> Nanos {
        self.until.min(duration).max(self.from)
    }

    /// Its requests by how they ended.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Those of them that were handed over before it ended.
    #[must_use]
    pub fn submitted(&self) -> u64 {
        self.submitted
    }

    /// Requests due in it that were not sent before the end of the run.
    #[must_use]
    pub fn never_sent_count(&self) -> u64 {
        self.never_sent
    }

    /// Its requests that waited under a rate's cap.
    #[must_use]
    pub fn cap_waited(&self) -> u64 {
        self.cap_waited
    }

    /// Its requests that failed before a byte of them was handed over.
    #[must_use]
    pub fn unsent_failures(&self) -> u64 {
        self.unsent_failures
    }

    /// Its samples of schedule lag, TTFT, latency, send, harness delay or stamp width; `None` of any other
    /// metric.
    #[must_use]
    pub fn distribution(&self, metric: Metric) -> Option<&Distribution> {
        Some(&self.distributions[place(metric)?])
    }

    /// The same in numbers; `None` without samples.
    #[must_use]
    pub fn summary(&self, metric: Metric) -> Option<Summary> {
        self.distribution(metric)?.summary()
    }

    /// How latency went from its first request to its last.
    #[must_use]
    pub fn latency_trend(&self) -> &Trend {
        &self.latency_trend
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Collector, GapLog, GapPool, Phase, Timeline};

    const START: Nanos = Nanos::from_secs(5);
    const MS: Nanos = Nanos::from_millis(1);

    fn collector() -> Collector {
        let mut collector = Collector::new(&[]).in_stages(&[MS * 10, MS * 30, Nanos::MAX]);
        collector.begin(START, 0);
        collector
    }

    /// A request due at `due` ms and sent `lag` ms later.
    fn request(collector: &mut Collector, due: u64, lag: u64, fate: Fate) {
        let scheduled = START + MS * due;
        let submitted = scheduled + MS * lag;
        let timeline = Timeline {
            scheduled,
            started: submitted,
            submitted: Some(submitted),
            first_token: Some(submitted + MS),
            last_token: Some(submitted + MS * 2),
            done: Some(submitted + MS * 2),
            ..Timeline::default()
        };
        let finished = Finished {
            timeline,
            ..Finished::new(Phase::Measured, fate, true)
        };
        collector.issued(Phase::Measured);
        collector.finished(&finished, &mut GapLog::new(), &mut GapPool::new(1));
    }

    #[test]
    fn requests_belong_to_the_stage_in_which_they_were_due() {
        let mut collector = collector();
        for (due, lag, fate) in [
            (0, 0, Fate::Ok),
            (9, 2, Fate::Ok),
            (10, 1, Fate::Failed("timeout")),
            (29, 0, Fate::Cancelled),
            (30, 3, Fate::Ok),
            (900, 0, Fate::Ok),
        ] {
            request(&mut collector, due, lag, fate);
        }
        collector.never_sent(START + MS * 30);
        let at = START + MS * 12;
        let arrival = Arrival {
            at,
            not_before: at - MS,
            reaped: at + MS,
        };
        collector.read(arrival, 3);
        let [first, second, third] = collector.stages() else {
            panic!("three stages");
        };
        let counts = |stage: &StageTotals| {
            let Counts {
                issued,
                completed,
                failed,
                cancelled,
                ..
            } = stage.counts();
            [issued, completed, failed, cancelled]
        };
        assert_eq!(counts(first), [2, 2, 0, 0]);
        assert_eq!(counts(second), [2, 0, 1, 1]);
        assert_eq!(counts(third), [2, 2, 0, 0]);
        // One was due in the first and sent in the second.
        assert_eq!(
            [first, second, third].map(StageTotals::submitted),
            [1, 2, 2]
        );
        assert_eq!(third.never_sent_count(), 1);
        let max = |stage: &StageTotals, metric| stage.summary(metric).map(|found| found.max);
        assert_eq!(max(first, Metric::ScheduleLag), Some(2_000_000));
        assert_eq!(max(second, Metric::Latency), None);
        assert_eq!(max(third, Metric::Latency), Some(2_000_000));
        assert_eq!(max(second, Metric::HarnessDelay), Some(1_000_000));
        assert_eq!(max(first, Metric::HarnessDelay), None);
        assert_eq!(first.summary(Metric::PoolWait), None);
        assert_eq!(
            (third.from(), third.until(Nanos::from_secs(1))),
            (MS * 30, Nanos::from_secs(1))
        );
    }

    #[test]
    fn shards_merge_to_what_one_would_have() {
        let (mut one, mut odd, mut even) = (collector(), collector(), collector());
        for due in 0..60 {
            request(&mut one, due, due % 4, Fate::Ok);
            let shard = if due % 2 == 0 { &mut even } else { &mut odd };
            request(shard, due, due % 4, Fate::Ok);
        }
        odd.merge(&even);
        assert_eq!(odd.stages(), one.stages());
    }

    #[test]
    fn one_stage_is_the_run() {
        assert!(StageTotals::of(&[]).is_empty() && StageTotals::of(&[Nanos::MAX]).is_empty());
        assert!(Collector::new(&[]).in_stages(&[MS]).stages().is_empty());
        let plain = Collector::new(&[]).bytes_allocated();
        let staged = collector().bytes_allocated();
        assert!(staged > plain + 3 * PLACES * 100_000, "{plain} {staged}");
    }
}
