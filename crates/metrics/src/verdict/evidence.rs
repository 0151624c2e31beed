use ridgeline_clock::Nanos;

use super::VerdictLimits;
use crate::{Arrived, Collector, Counts, Growth, Metric, Percentile, Phase, StageTotals};

/// A line that explains less of the latencies' variance is none: they vary for other reasons.
const GROWTH_EXPLAINED_MIN: f64 = 0.5;

/// Latency that grew by more than so many times the client's longest delay did not grow by that.
const GROWTH_OVER_DELAYS: f64 = 10.0;

/// What drives the load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// An open loop: a schedule says when requests start.
    Timed {
        /// The most that may be in flight at once, if that is limited.
        cap: Option<u64>,
    },
    /// A closed loop: a fixed number in flight.
    Closed,
    /// Everything due at the start; judged as a closed loop.
    Offline,
}

/// A resource of the client that can run out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    /// Local ports.
    Ports,
    /// File descriptors, of the process or of a ring's table.
    Descriptors,
    /// Receive buffers.
    Buffers,
    /// Connections of the pool, or memory for split events.
    Pool,
}

/// A resource that ran out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exhausted {
    /// Which.
    pub resource: Resource,
    /// How often.
    pub times: u64,
}

/// Why a shard stood still.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StallCause {
    /// In words, to go after a colon.
    pub words: String,
    /// What to do about it, if that is more than to keep other work away.
    pub remedy: Option<&'static str>,
}

/// How one shard fared.
#[derive(Clone, Debug, PartialEq)]
pub struct ShardLoad {
    /// The core it was pinned to, if any.
    pub core: Option<u32>,
    /// The share of the measured phase that it did not wait for the kernel, 0 to 1; of its core, where
    /// several are pinned to that.
    pub busy_fraction: f64,
    /// The longest it went without taking completions.
    pub longest_stall: Nanos,
    /// Why, where that is known.
    pub stall_cause: Option<StallCause>,
}

/// A percentile that is printed although too few samples stand behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BelowFloor {
    /// Of which metric.
    pub metric: Metric,
    /// Which percentile.
    pub percentile: Percentile,
    /// How many samples there are.
    pub samples: u64,
}

impl BelowFloor {
    /// The `printed` percentiles of `metrics` that have samples, but fewer than
    /// [`Percentile::sample_floor`].
    #[must_use]
    pub fn find(collector: &Collector, metrics: &[Metric], printed: &[Percentile]) -> Vec<Self> {
        let of_metric = |&metric: &Metric| {
            let samples = collector.distribution(metric).count();
            let below =
                move |percentile: &Percentile| (1..percentile.sample_floor()).contains(&samples);
            let found = printed.iter().copied().filter(below);
            found.map(move |percentile| Self {
                metric,
                percentile,
                samples,
            })
        };
        metrics.iter().flat_map(of_metric).collect()
    }
}

/// All that a verdict is made from.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// What drove the load.
    pub load: Load,
    /// Whether responses were streamed.
    pub streamed: bool,
    /// The length of the measured window.
    pub duration: Nanos,
    /// Requests of the measured phase by how they ended.
    pub counts: Counts,
    /// The schedule's arrivals in the window, and what became of them.
    pub arrived: Arrived,
    /// The median schedule lag.
    pub lag_median: Option<Nanos>,
    /// The 99th percentile of the schedule lag.
    pub lag_p99: Option<Nanos>,
    /// The share of requests whose schedule lag is beyond [`Evidence::late_beyond`].
    pub lag_late_share: f64,
    /// The median TTFT; of plain responses the median latency.
    pub response_median: Option<Nanos>,
    /// The median ITL; its mean where the median is 0 because events share reads.
    pub itl_typical: Option<Nanos>,
    /// The 99th percentile of the harness delay.
    pub harness_delay_p99: Option<Nanos>,
    /// The 99th percentile of the stamps' width.
    pub stamp_width_p99: Option<Nanos>,
    /// The 99th percentile of how long handing a request to the kernel took.
    pub send_p99: Option<Nanos>,
    /// How the latency went from the first request to the last.
    pub latency_growth: Option<Growth>,
    /// The concurrency that was asked for; 0 when none was.
    pub concurrency_asked: u64,
    /// The effective concurrency.
    pub concurrency_effective: f64,
    /// Requests that waited under a cap.
    pub cap_waited: u64,
    /// Requests that failed because the endpoint took no connection for them.
    pub unsent_failures: u64,
    /// How each shard fared. Told by the engine.
    pub shards: Vec<ShardLoad>,
    /// What ran out. Told by the engine.
    pub exhausted: Vec<Exhausted>,
    /// How often a server had to wait for a window of the client. Told by the engine.
    pub window_stalls: u64,
    /// Whether a shard ran on the core of the embedded server. Told by the engine.
    pub shared_core: bool,
    /// Workers that did not do their share to its end: what happened to each, in words. Told by their
    /// coordinator.
    pub workers_short: Vec<String>,
    /// Records that were dropped. Told by their writer.
    pub records_dropped: u64,
    /// Percentiles printed on too few samples. Told by the report.
    pub below_floor: Vec<BelowFloor>,
}

impl Evidence {
    /// What a merged collector knows; what it cannot know is empty and to be filled in.
    #[must_use]
    pub fn new(collector: &Collector, load: Load, streamed: bool, limits: &VerdictLimits) -> Self {
        let p99 = |metric| collector.percentile(metric, Percentile::P99);
        let median = |metric| collector.percentile(metric, Percentile::P50);
        let lag = collector.distribution(Metric::ScheduleLag);
        let itl = collector.distribution(Metric::Itl);
        let itl_typical = match itl.median() {
            Some(Nanos::ZERO) => itl.mean().map(|ns| Nanos::from_secs_f64(ns / 1e9)),
            median => median,
        };
        let response = if streamed {
            Metric::Ttft
        } else {
            Metric::Latency
        };
        let mut evidence = Self {
            load,
            streamed,
            duration: collector.duration().unwrap_or(Nanos::ZERO),
            counts: collector.counts(Phase::Measured),
            arrived: collector.arrived(),
            lag_median: lag.median(),
            lag_p99: lag.percentile(Percentile::P99),
            lag_late_share: 0.0,
            response_median: median(response),
            itl_typical,
            harness_delay_p99: p99(Metric::HarnessDelay),
            stamp_width_p99: p99(Metric::StampWidth),
            send_p99: p99(Metric::Send),
            // From stage to stage the load changes, and latency with it: each has a growth of its own.
            latency_growth: match collector.stages() {
                [] => collector.latency_trend().growth(),
                _ => None,
            },
            concurrency_asked: collector.target_concurrency(),
            concurrency_effective: collector.effective_concurrency(),
            cap_waited: collector.cap_waited(),
            unsent_failures: collector.unsent_failures(),
            shards: Vec::new(),
            exhausted: Vec::new(),
            window_stalls: 0,
            shared_core: false,
            workers_short: Vec::new(),
            records_dropped: 0,
            below_floor: Vec::new(),
        };
        evidence.lag_late_share = lag.share_above(evidence.late_beyond(limits));
        evidence
    }

    /// Of one stage of the schedule that `run` is of. Gaps, shards and what ran out are the run's alone: of
    /// them only the typical ITL is taken over, as what a delay is measured by.
    #[must_use]
    pub fn of_stage(stage: &StageTotals, run: &Self, limits: &VerdictLimits) -> Self {
        let of = |metric, percentile| stage.distribution(metric)?.percentile(percentile);
        let p99 = |metric| of(metric, Percentile::P99);
        let response = if run.streamed {
            Metric::Ttft
        } else {
            Metric::Latency
        };
        let counts = stage.counts();
        let mut evidence = Self {
            load: run.load,
            streamed: run.streamed,
            duration: stage.until(run.duration) - stage.from(),
            counts,
            arrived: Arrived {
                scheduled: counts.issued + stage.never_sent_count(),
                submitted: stage.submitted(),
                never_sent: stage.never_sent_count(),
            },
            lag_median: of(Metric::ScheduleLag, Percentile::P50),
            lag_p99: p99(Metric::ScheduleLag),
            lag_late_share: 0.0,
            response_median: of(response, Percentile::P50),
            itl_typical: run.itl_typical,
            harness_delay_p99: p99(Metric::HarnessDelay),
            stamp_width_p99: p99(Metric::StampWidth),
            send_p99: p99(Metric::Send),
            latency_growth: stage.latency_trend().growth(),
            concurrency_asked: 0,
            concurrency_effective: 0.0,
            cap_waited: stage.cap_waited(),
            unsent_failures: stage.unsent_failures(),
            shards: Vec::new(),
            exhausted: Vec::new(),
            window_stalls: 0,
            shared_core: false,
            workers_short: Vec::new(),
            records_dropped: 0,
            below_floor: Vec::new(),
        };
        let lag = stage.distribution(Metric::ScheduleLag);
        evidence.lag_late_share =
            lag.map_or(0.0, |lag| lag.share_above(evidence.late_beyond(limits)));
        evidence
    }

    /// Beyond which schedule lag a request counts as late.
    #[must_use]
    pub fn late_beyond(&self, limits: &VerdictLimits) -> Nanos {
        self.of_response(limits.lag_late_ttft_share)
            .max(Nanos(limits.lag_late_ns))
    }

    /// A share of the median TTFT.
    pub(super) fn of_response(&self, share: f64) -> Nanos {
        self.response_median
            .map_or(Nanos::ZERO, |median| portion(median, share))
    }

    /// The 99th percentile of the harness delay and of the stamps' width may not exceed this; `None`
    /// when there is nothing to compare with.
    pub(super) fn harness_delay_limit(&self, limits: &VerdictLimits) -> Option<Nanos> {
        // No gaps at all, every answer in one read: there is no ITL to spoil.
        let least = [self.response_median, self.itl_typical]
            .into_iter()
            .flatten()
            .filter(|&span| span > Nanos::ZERO)
            .min()?;
        Some(portion(least, limits.harness_delay_share))
    }

    /// The share of finished requests that failed; 0 when none finished.
    #[must_use]
    pub fn error_rate(&self) -> f64 {
        let finished = self.counts.completed + self.counts.failed;
        if finished == 0 {
            0.0
        } else {
            self.counts.failed as f64 / finished as f64
        }
    }

    /// Whether so many requests found no connection that what was not sent is the endpoint's doing.
    pub(super) fn is_refused(&self, limits: &VerdictLimits) -> bool {
        let finished = self.counts.completed + self.counts.failed;
        self.unsent_failures as f64 > limits.error_rate * finished as f64
    }

    /// Whether latency grew with every request, as where more are sent than can be served.
    #[must_use]
    pub fn is_falling_behind(&self, limits: &VerdictLimits) -> bool {
        self.latency_growth.is_some_and(|growth| {
            growth.ratio() > 1.0 + limits.latency_growth_share
                && growth.explained > GROWTH_EXPLAINED_MIN
        })
    }

    /// Whether latency grew by so much more than the client was ever late that this can't be the cause.
    pub(super) fn grew_beyond_delays(&self) -> bool {
        let stalls = self.shards.iter().map(|shard| shard.longest_stall);
        let p99s = [self.lag_p99, self.harness_delay_p99, self.send_p99];
        let delay = stalls.chain(p99s.into_iter().flatten()).max();
        let delay = delay.unwrap_or_default().0 as f64;
        self.latency_growth
            .is_some_and(|growth| growth.last_ns - growth.first_ns > GROWTH_OVER_DELAYS * delay)
    }

    /// Whether every shard had time to spare: what was read late then waited for a core that
    /// something else held.
    pub(super) fn is_idle(&self) -> bool {
        self.shards.iter().all(|shard| shard.busy_fraction < 0.5)
    }

    /// Whether the error rate is over `max_error_rate`.
    #[must_use]
    pub fn errors_over(&self, limits: &VerdictLimits) -> bool {
        limits
            .max_error_rate
            .is_some_and(|max| self.error_rate() > max)
    }

    /// Whether requests were finished and every one failed.
    #[must_use]
    pub fn all_failed(&self) -> bool {
        self.counts.failed > 0 && self.counts.completed == 0
    }

    /// How many requests the run was about: issued, or due and not issued.
    pub(super) fn requests(&self) -> u64 {
        self.counts.issued.max(self.arrived.scheduled)
    }

    /// Whether the run is too short to be judged for rate, lag and concurrency.
    #[must_use]
    pub fn is_short(&self, limits: &VerdictLimits) -> bool {
        self.duration.0 < limits.run_ns_min || self.requests() < limits.run_requests_min
    }
}

fn portion(span: Nanos, share: f64) -> Nanos {
    Nanos::from_secs_f64(span.as_secs_f64() * share)
}
