use std::borrow::Cow;

use ridgeline_clock::{Arrival, Nanos};
use serde::{Deserialize, Serialize};

use crate::concurrency::Concurrency;
use crate::endpoints::PerEndpoint;
use crate::gaps::Gaps;
use crate::goodput::Judge;
use crate::outputs::{Outputs, share};
use crate::throughput::{Window, prorate};
use crate::{
    Distribution, Fate, Finished, GapLog, GapPool, Goodput, Metric, Percentile, Phase, Recount,
    Slo, StageTotals, Stopped, Tally, Throughput, Trend, Uncounted, Volume,
};

/// Requests by how they ended. At every moment
/// `issued = completed + failed + cancelled + in flight`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Taken up by the client.
    pub issued: u64,
    /// Succeeded.
    pub completed: u64,
    /// Failed.
    pub failed: u64,
    /// Given up by the client.
    pub cancelled: u64,
    /// Those of them that were given up on purpose.
    #[serde(default)]
    pub given_up: u64,
    /// Second sends, after a reused idle connection was found closed.
    pub retried: u64,
}

/// The arrivals of a schedule in the measured window, and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Arrived {
    /// Arrivals that the schedule produced in the window.
    pub scheduled: u64,
    /// Requests submitted in the window.
    pub submitted: u64,
    /// Due, and not sent before the end of the run.
    pub never_sent: u64,
}

/// Tokens of successes of the measured phase.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tokens {
    /// Input tokens, where known.
    pub input: u64,
    /// Those of them that a tokenizer counted, not the server.
    pub input_counted: u64,
    /// Output tokens.
    pub output: u64,
    /// Output tokens by the source of their count.
    pub source: TokensBySource,
}

/// Output tokens by the source of their count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TokensBySource {
    /// Counted by the server.
    pub usage: u64,
    /// Counted by a tokenizer.
    pub tokenizer: u64,
    /// Content events, taken for tokens.
    pub events: u64,
}

/// What one shard measured: plain numbers, no atomics, no allocation after [`Collector::new`].
///
/// The shard calls [`begin`](Self::begin) when the warm-up has drained and [`stop`](Self::stop) when
/// it stops issuing; between and after them, for each request [`issued`](Self::issued),
/// [`content`](Self::content) and [`finished`](Self::finished). At the end the shards' collectors are
/// [merged](Self::merge).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Collector {
    warmup: Counts,
    measured: Counts,
    arrived: Arrived,
    /// Indexed by [`place`].
    distributions: [Distribution; PLACES],
    gaps: Gaps,
    cap_waited: u64,
    unsent_failures: u64,
    content_events: u64,
    bytes: u64,
    input_tokens: u64,
    input_counted: u64,
    /// Of requests whose output tokens are as well known as they will be.
    outputs: Outputs,
    /// How the latency of successes went with their scheduled time.
    latency_trend: Trend,
    /// Of those whose output tokens are counted after the run: by their events.
    uncounted: Option<Box<Outputs>>,
    errors: Tally,
    finish_reasons: Tally,
    judge: Judge,
    window: Window,
    /// Without what `outputs` has.
    volume: Volume,
    concurrency: Concurrency,
    /// Of a schedule of several stages; else empty.
    stages: Vec<StageTotals>,
    /// Of several endpoints what each did; else empty.
    #[serde(default)]
    endpoints: Vec<PerEndpoint>,
}

const PLACES: usize = 13;

/// Where a metric's distribution lies; ITL and ICL are made from the gaps, and TPOT is with the
/// outputs.
const fn place(metric: Metric) -> Option<usize> {
    Some(match metric {
        Metric::Latency => 0,
        Metric::LatencyFromSchedule => 1,
        Metric::Ttft => 2,
        Metric::TtftFromSchedule => 3,
        Metric::Ttfo => 4,
        Metric::Connect => 5,
        Metric::ScheduleLag => 6,
        Metric::PoolWait => 7,
        Metric::CapWait => 8,
        Metric::HarnessDelay => 9,
        Metric::StampWidth => 10,
        Metric::Send => 11,
        Metric::Tls => 12,
        Metric::Itl | Metric::Icl | Metric::Tpot => return None,
    })
}

impl Collector {
    /// An empty collector for a run with these SLOs, with all the memory it will use.
    #[must_use]
    pub fn new(slos: &[Slo]) -> Self {
        Self {
            warmup: Counts::default(),
            measured: Counts::default(),
            arrived: Arrived::default(),
            distributions: std::array::from_fn(|_| Distribution::new()),
            gaps: Gaps::default(),
            cap_waited: 0,
            unsent_failures: 0,
            content_events: 0,
            bytes: 0,
            input_tokens: 0,
            input_counted: 0,
            outputs: Outputs::default(),
            latency_trend: Trend::default(),
            uncounted: None,
            errors: Tally::default(),
            finish_reasons: Tally::default(),
            judge: Judge::new(slos),
            window: Window::default(),
            volume: Volume::default(),
            concurrency: Concurrency::default(),
            stages: Vec::new(),
            endpoints: Vec::new(),
        }
    }

    /// The same with figures of each stage of a schedule, which end at `ends` from the start of the measured
    /// phase; none where that is a single one.
    #[must_use]
    pub fn in_stages(mut self, ends: &[Nanos]) -> Self {
        self.stages = StageTotals::of(ends);
        self
    }

    /// The same with the memory to tell `count` endpoints apart.
    #[must_use]
    pub fn with_endpoints(mut self, count: usize) -> Self {
        self.endpoints.resize_with(count, PerEndpoint::default);
        self
    }

    /// The same with the memory for requests that are [counted later](Finished::count_later).
    #[must_use]
    pub fn counting_later(mut self) -> Self {
        self.uncounted.get_or_insert_default();
        self
    }

    /// Bytes of memory that a collector takes.
    #[must_use]
    pub fn bytes_allocated(&self) -> usize {
        let distributions: usize = self.distributions.iter().map(Distribution::bytes).sum();
        let uncounted = self.uncounted.as_ref().map_or(0, |outputs| outputs.bytes());
        let outputs = self.outputs.tpot.bytes() + uncounted;
        let stages: usize = self.stages.iter().map(StageTotals::bytes).sum();
        let endpoints: usize = self.endpoints.iter().map(PerEndpoint::bytes).sum();
        distributions + endpoints + outputs + stages + self.gaps.bytes() + size_of::<Self>()
    }

    // What the shard tells.

    /// Measuring starts: the warm-up is drained. `slots` is the shard's share of the concurrency that
    /// was asked for (0 when a rate is asked for), at most its requests.
    pub fn begin(&mut self, now: Nanos, slots: u64) {
        self.window.start = Some(now);
        self.concurrency.begin(now, slots);
    }

    /// Issuing stops: a stop rule fired or the run was interrupted. By the end of a duration every
    /// shard must stop, even one whose requests are all issued.
    pub fn stop(&mut self, now: Nanos, stopped: Stopped) {
        self.concurrency.stop(now, stopped == Stopped::Requests);
        if stopped != Stopped::Requests {
            self.window.end = Some(now);
        }
    }

    /// The schedule produced `arrivals` more in the measured window. Those that the shard had no time
    /// to take up are part of it.
    pub fn due(&mut self, arrivals: u64) {
        self.arrived.scheduled += arrivals;
    }

    /// A request was due at `scheduled` and will not be sent any more. It does not count as issued.
    pub fn never_sent(&mut self, scheduled: Nanos) {
        self.arrived.never_sent += 1;
        if let Some((stage, _)) = self.stage(scheduled) {
            stage.never_sent();
        }
    }

    /// The shard took up a request: from here on it is in flight until [`finished`](Self::finished).
    pub fn issued(&mut self, phase: Phase) {
        self.counts_mut(phase).issued += 1;
    }

    /// `occupied` slots hold a submitted request that is not reaped yet.
    #[inline]
    pub fn concurrency(&mut self, now: Nanos, occupied: u64) {
        self.concurrency.occupy(now, occupied);
    }

    /// A read brought `content_events` content events. Only to be told where the kernel stamps
    /// arrivals: without stamps the delay is unknown, not zero.
    #[inline]
    pub fn read(&mut self, arrival: Arrival, content_events: u32) {
        if self.window.start.is_some() {
            let times = u64::from(content_events);
            self.at(Metric::HarnessDelay)
                .record_n(arrival.harness_delay(), times);
            self.at(Metric::StampWidth).record_width(arrival, times);
            if let Some((stage, _)) = self.stage(arrival.at) {
                stage.read(arrival, content_events);
            }
        }
    }

    /// `count` content events of a stream came at `at`, their token counts unknown.
    #[inline]
    pub fn content(&mut self, log: &mut GapLog, pool: &mut GapPool, at: Nanos, count: u32) {
        log.events_at(&mut self.gaps, pool, at, count);
    }

    /// One content event of a stream came at `at` and said how many tokens it carries.
    #[inline]
    pub fn content_counted(
        &mut self,
        log: &mut GapLog,
        pool: &mut GapPool,
        at: Nanos,
        tokens: u32,
    ) {
        log.event_at(&mut self.gaps, pool, at, tokens);
    }

    /// A request ended. Its log is empty afterwards. Tells what a count of its tokens after the run
    /// must know, if it is measured and to be [counted later](Finished::count_later).
    pub fn finished(
        &mut self,
        finished: &Finished<'_>,
        log: &mut GapLog,
        pool: &mut GapPool,
    ) -> Option<Uncounted> {
        let counts = self.counts_mut(finished.phase);
        match finished.fate {
            Fate::Ok => counts.completed += 1,
            Fate::Failed(_) => counts.failed += 1,
            Fate::Cancelled => counts.cancelled += 1,
            Fate::GivenUp => {
                counts.cancelled += 1;
                counts.given_up += 1;
            }
        }
        counts.retried += u64::from(finished.retries);
        let mut uncounted = None;
        if finished.phase == Phase::Measured {
            self.client(finished);
            if let Some((stage, start)) = self.stage(finished.timeline.scheduled) {
                stage.finished(finished, start);
            }
            if let Some(endpoint) = self.endpoints.get_mut(usize::from(finished.endpoint)) {
                endpoint.finished(finished);
            }
            let mut about = Uncounted {
                streamed: finished.streamed,
                events_in_window: finished.events_in_window,
                done_in_window: self.is_done_in_window(finished),
                slos_met: false,
            };
            match finished.fate {
                Fate::Ok => self.success(finished, &mut about, log, pool),
                Fate::Failed(kind) => {
                    self.errors.add(kind);
                    self.judge.failure();
                    self.unsent_failures += u64::from(finished.timeline.submitted.is_none());
                }
                Fate::Cancelled | Fate::GivenUp => {}
            }
            uncounted = finished.count_later.then_some(about);
        }
        log.clear(pool);
        uncounted
    }

    fn is_done_in_window(&self, finished: &Finished<'_>) -> bool {
        let done = finished.timeline.done;
        done.is_some_and(|done| self.window.contains(done))
    }

    /// What the client itself did to a request, however it ended.
    fn client(&mut self, finished: &Finished<'_>) {
        let Finished {
            timeline,
            pool_wait,
            cap_wait,
            send,
            ..
        } = finished;
        // Waiting for the cap was asked for: it has a name of its own.
        self.at(Metric::ScheduleLag)
            .record(timeline.schedule_lag() - *cap_wait);
        self.at(Metric::PoolWait).record(*pool_wait);
        self.at(Metric::CapWait).record(*cap_wait);
        self.sample(Metric::Send, *send);
        self.cap_waited += u64::from(*cap_wait > Nanos::ZERO);
        let in_window = timeline
            .submitted
            .is_some_and(|at| self.window.contains(at));
        self.arrived.submitted += u64::from(in_window);
    }

    fn success(
        &mut self,
        finished: &Finished<'_>,
        about: &mut Uncounted,
        log: &mut GapLog,
        pool: &mut GapPool,
    ) {
        about.slos_met = self.judge.success(|metric| value_ns(finished, log, metric));
        let Finished {
            timeline, streamed, ..
        } = finished;
        let latency = timeline.latency(*streamed);
        self.sample(Metric::Latency, latency);
        if let (Some(latency), Some(start)) = (latency, self.window.start) {
            self.latency_trend.add(timeline.scheduled - start, latency);
        }
        self.sample(
            Metric::LatencyFromSchedule,
            timeline.latency_from_schedule(*streamed),
        );
        self.sample(Metric::Connect, timeline.connect);
        self.sample(Metric::Tls, timeline.tls);
        if *streamed {
            self.sample(Metric::Ttft, timeline.ttft());
            self.sample(Metric::TtftFromSchedule, timeline.ttft_from_schedule());
            self.sample(Metric::Ttfo, timeline.ttfo());
            log.commit(&mut self.gaps, pool);
        }
        if let Some(reason) = finished.finish_reason {
            self.finish_reasons.add(reason);
        }
        self.volume(finished, about);
        let outputs = if finished.count_later {
            self.uncounted.get_or_insert_default()
        } else {
            &mut self.outputs
        };
        outputs.add(finished, about, &self.judge);
    }

    fn volume(&mut self, finished: &Finished<'_>, about: &Uncounted) {
        let counted = finished
            .input_counted
            .filter(|_| finished.input_tokens.is_none());
        let input = u64::from(finished.input_tokens.or(counted).unwrap_or(0));
        self.input_tokens += input;
        self.input_counted += u64::from(counted.unwrap_or(0));
        self.content_events += u64::from(finished.content_events);
        self.bytes += finished.received_bytes;

        self.window.last_done = self.window.last_done.max(finished.timeline.done);
        let volume = &mut self.volume;
        if about.done_in_window {
            volume.requests += 1;
            volume.input_tokens += input;
        }
        let (part, whole) = share(about, finished.content_events);
        volume.bytes += prorate(finished.received_bytes, part, whole);
        volume.content_events += prorate(u64::from(finished.content_events), part, whole);
    }

    /// Moves its times from a clock that said `from` to one that said `to` at the same moment: what is
    /// merged must be on one clock.
    pub fn rebase(&mut self, from: Nanos, to: Nanos) {
        self.window.rebase(from, to);
        self.concurrency.rebase(from, to);
    }

    /// Adds what another shard measured.
    pub fn merge(&mut self, other: &Self) {
        self.warmup.merge(&other.warmup);
        self.measured.merge(&other.measured);
        self.arrived.merge(&other.arrived);
        for (own, other) in self.distributions.iter_mut().zip(&other.distributions) {
            own.merge(other);
        }
        self.gaps.merge(&other.gaps);
        self.cap_waited += other.cap_waited;
        self.unsent_failures += other.unsent_failures;
        self.content_events += other.content_events;
        self.bytes += other.bytes;
        self.input_tokens += other.input_tokens;
        self.input_counted += other.input_counted;
        self.outputs.merge(&other.outputs);
        self.latency_trend.merge(&other.latency_trend);
        if let Some(uncounted) = &other.uncounted {
            self.uncounted.get_or_insert_default().merge(uncounted);
        }
        self.errors.merge(&other.errors);
        self.finish_reasons.merge(&other.finish_reasons);
        self.judge.merge(&other.judge);
        self.window.merge(&other.window);
        self.volume.merge(&other.volume);
        self.concurrency.merge(&other.concurrency);
        for (own, other) in self.stages.iter_mut().zip(&other.stages) {
            own.merge(other);
        }
        let count = self.endpoints.len().max(other.endpoints.len());
        self.endpoints.resize_with(count, PerEndpoint::default);
        for (own, other) in self.endpoints.iter_mut().zip(&other.endpoints) {
            own.merge(other);
        }
    }

    /// What each endpoint did, where there are several; else nothing.
    #[must_use]
    pub fn endpoints(&self) -> &[PerEndpoint] {
        &self.endpoints
    }

    // A count after the run.

    /// Successes whose output tokens are to be counted after the run. Until then they go by their
    /// content events.
    #[must_use]
    pub fn uncounted(&self) -> u64 {
        self.uncounted
            .as_ref()
            .map_or(0, |outputs| outputs.requests)
    }

    /// Where those requests are counted anew.
    #[must_use]
    pub fn recount(&self) -> Recount {
        Recount {
            judge: self.judge.clone(),
            outputs: Outputs::default(),
        }
    }

    /// Puts the count in the place of what the events gave: tokens, their throughput, TPOT and
    /// goodput. It must have all of the requests: with some of them missing nothing changes, and the
    /// answer is no.
    pub fn counted(&mut self, recount: &Recount) -> bool {
        let complete = recount.requests() == self.uncounted();
        if complete {
            self.outputs.merge(&recount.outputs);
            self.uncounted = None;
        }
        complete
    }

    // What it knows.

    /// Whether `issued = completed + failed + cancelled + in_flight`, over all phases.
    #[must_use]
    pub fn conserved(&self, in_flight: u64) -> bool {
        let sum = |of: fn(&Counts) -> u64| of(&self.warmup) + of(&self.measured);
        sum(|counts| counts.issued)
            == sum(|counts| counts.completed + counts.failed + counts.cancelled) + in_flight
    }

    /// What each stage of the schedule came to, where it has several; else empty.
    #[must_use]
    pub fn stages(&self) -> &[StageTotals] {
        &self.stages
    }

    /// Requests of a phase by how they ended.
    #[must_use]
    pub fn counts(&self, phase: Phase) -> Counts {
        match phase {
            Phase::Warmup => self.warmup,
            Phase::Measured => self.measured,
        }
    }

    /// The schedule's arrivals in the window.
    #[must_use]
    pub fn arrived(&self) -> Arrived {
        self.arrived
    }

    /// A metric's samples, pooled over the measured phase.
    #[must_use]
    pub fn distribution(&self, metric: Metric) -> Cow<'_, Distribution> {
        if let Some(place) = place(metric) {
            return Cow::Borrowed(&self.distributions[place]);
        }
        if metric == Metric::Tpot {
            return match self.outputs() {
                Cow::Borrowed(outputs) => Cow::Borrowed(&outputs.tpot),
                Cow::Owned(outputs) => Cow::Owned(outputs.tpot),
            };
        }
        match self.gaps.all_single() {
            Some(gaps) => Cow::Borrowed(gaps),
            None if metric == Metric::Itl => Cow::Owned(self.gaps.itl()),
            None => Cow::Owned(self.gaps.icl()),
        }
    }

    /// Gaps that were pooled before their request was known to succeed, because the pool of the
    /// shard was empty. Those of requests that failed later are among the samples of ITL and ICL.
    #[must_use]
    pub fn gaps_committed_early(&self) -> u64 {
        self.gaps.committed_early
    }

    /// Failures of the measured phase by kind.
    #[must_use]
    pub fn errors(&self) -> &Tally {
        &self.errors
    }

    /// Finish reasons of the successes of the measured phase.
    #[must_use]
    pub fn finish_reasons(&self) -> &Tally {
        &self.finish_reasons
    }

    /// Tokens of the successes of the measured phase.
    #[must_use]
    pub fn tokens(&self) -> Tokens {
        let source = self.outputs().tokens;
        Tokens {
            input: self.input_tokens,
            input_counted: self.input_counted,
            output: source.usage + source.tokenizer + source.events,
            source,
        }
    }

    /// Content events of the successes of the measured phase.
    #[must_use]
    pub fn content_events(&self) -> u64 {
        self.content_events
    }

    /// Response bytes of the successes of the measured phase.
    #[must_use]
    pub fn received_bytes(&self) -> u64 {
        self.bytes
    }

    /// How the latency of successes went with their scheduled time.
    #[must_use]
    pub fn latency_trend(&self) -> &Trend {
        &self.latency_trend
    }

    /// Measured requests that waited under a rate's concurrency cap.
    #[must_use]
    pub fn cap_waited(&self) -> u64 {
        self.cap_waited
    }

    /// Measured requests that failed before a byte of them was handed over: the endpoint took no
    /// connection for them.
    #[must_use]
    pub fn unsent_failures(&self) -> u64 {
        self.unsent_failures
    }

    /// The length of the measured window: to the end of issuing, or with a request count to the last
    /// `done` of a success. `None` before there is one.
    #[must_use]
    pub fn duration(&self) -> Option<Nanos> {
        self.window.duration()
    }

    /// What successes brought within the window.
    #[must_use]
    pub fn volume_in_window(&self) -> Volume {
        self.volume.with(&self.outputs())
    }

    /// The rates over the window; `None` when it has no length.
    #[must_use]
    pub fn throughput(&self) -> Option<Throughput> {
        Throughput::new(&self.volume_in_window(), self.duration()?)
    }

    /// Goodput and how each SLO fared; `None` without SLOs.
    #[must_use]
    pub fn goodput(&self) -> Option<Goodput> {
        let outputs = self.outputs();
        let good = Volume {
            requests: outputs.good_in_window,
            ..Volume::default()
        };
        let rates = self
            .duration()
            .and_then(|duration| Throughput::new(&good, duration));
        self.judge
            .goodput(&outputs, rates.map(|rates| rates.requests_per_s), |slo| {
                self.distribution(slo.metric).percentile(slo.percentile?)
            })
    }

    /// Of all successes, however their tokens are counted.
    fn outputs(&self) -> Cow<'_, Outputs> {
        match &self.uncounted {
            Some(uncounted) if uncounted.requests > 0 => {
                let mut outputs = self.outputs.clone();
                outputs.merge(uncounted);
                Cow::Owned(outputs)
            }
            _ => Cow::Borrowed(&self.outputs),
        }
    }

    /// Slots occupied, submission to reaping, time-weighted, from first reaching the target until
    /// issuing stopped.
    #[must_use]
    pub fn effective_concurrency(&self) -> f64 {
        self.concurrency.effective()
    }

    /// The concurrency that was asked for.
    #[must_use]
    pub fn target_concurrency(&self) -> u64 {
        self.concurrency.target()
    }

    /// The most slots occupied while issuing; of several shards the sum of their peaks.
    #[must_use]
    pub fn peak_concurrency(&self) -> u64 {
        self.concurrency.peak()
    }

    /// A percentile of a metric.
    #[must_use]
    pub fn percentile(&self, metric: Metric, percentile: Percentile) -> Option<Nanos> {
        self.distribution(metric).percentile(percentile)
    }

    /// The stage at a moment, where there are several, and when measuring started.
    #[inline]
    fn stage(&mut self, at: Nanos) -> Option<(&mut StageTotals, Nanos)> {
        let start = self.window.start.filter(|_| !self.stages.is_empty())?;
        Some((StageTotals::at(&mut self.stages, at - start)?, start))
    }

    #[inline]
    fn at(&mut self, metric: Metric) -> &mut Distribution {
        &mut self.distributions[place(metric).expect("not made from gaps")]
    }

    #[inline]
    fn sample(&mut self, metric: Metric, span: Option<Nanos>) {
        if let Some(span) = span {
            self.at(metric).record(span);
        }
    }

    fn counts_mut(&mut self, phase: Phase) -> &mut Counts {
        match phase {
            Phase::Warmup => &mut self.warmup,
            Phase::Measured => &mut self.measured,
        }
    }
}

/// One request's figure of a metric that an SLO may limit, ns.
fn value_ns(finished: &Finished<'_>, log: &GapLog, metric: Metric) -> Option<f64> {
    let Finished {
        timeline, streamed, ..
    } = finished;
    let span = match metric {
        Metric::Latency => timeline.latency(*streamed),
        Metric::LatencyFromSchedule => timeline.latency_from_schedule(*streamed),
        _ if !streamed => None,
        Metric::Ttft => timeline.ttft(),
        Metric::TtftFromSchedule => timeline.ttft_from_schedule(),
        Metric::Ttfo => timeline.ttfo(),
        Metric::Itl => return log.itl_mean(),
        Metric::Icl => return log.icl_mean(),
        _ => None,
    };
    span.map(|span| span.0 as f64)
}

impl Counts {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.issued += other.issued;
        self.completed += other.completed;
        self.failed += other.failed;
        self.cancelled += other.cancelled;
        self.given_up += other.given_up;
        self.retried += other.retried;
    }
}

impl Arrived {
    fn merge(&mut self, other: &Self) {
        self.scheduled += other.scheduled;
        self.submitted += other.submitted;
        self.never_sent += other.never_sent;
    }
}
