mod endpoints;
mod notes;
mod stages;
mod watched;

use std::collections::BTreeMap;

use ridgeline_clock::Nanos;
use ridgeline_engine::{Http2Counts, Load, Plan, RunResult, ShardReport};
use ridgeline_metrics::verdict::{
    self, BelowFloor, Ending, Evidence, Exhausted, LimitedBy, Resource, ShardLoad, Status, Verdict,
    VerdictLimits, judge,
};
use ridgeline_metrics::{Arrived, Collector, Metric, Percentile, Phase, Throughput, Volume};
use ridgeline_schedule::{Pattern, ScheduleSpec, Stage};
use ridgeline_telemetry::Watched;
use ridgeline_wire::openai::EndpointType;

use crate::records::Written;
use crate::report::{
    Harness, Http2Figures, LittlesLaw, LoadFigures, LoadKind, Program, RecordFigures, SCHEMA,
    ShardFigures, TargetFigures, TokenFigures, WorkerFigures, WorkerStatus,
};
use crate::{Environment, Report};

/// What a report needs to know beside the numbers of the run.
#[derive(Clone, Debug)]
pub struct Context<'a> {
    /// What was run.
    pub plan: &'a Plan,
    /// The effective configuration, secrets taken out.
    pub config: serde_json::Value,
    /// The URL that requests went to.
    pub url: String,
    /// Where there are several endpoints, each one's URL, in their order; else empty.
    pub endpoints: Vec<String>,
    /// The model.
    pub model: String,
    /// The machine; its `driver` is the one that was used.
    pub environment: Environment,
    /// The program that measures.
    pub program: Program,
    /// When the run began: wall-clock ns since 1970.
    pub started_unix_ns: u64,
    /// What became of the records; `None` when none were asked for.
    pub written: Option<&'a Written>,
    /// Why a count of tokens that was asked for is missing or incomplete.
    pub tokens_note: Option<String>,
    /// Whether a shard ran on the core of the embedded server.
    pub shared_core: bool,
    /// The workers, of a run of several; else empty.
    pub workers: Vec<WorkerFigures>,
    /// What was seen of the client's threads and its machine; `None` when nobody looked.
    pub watched: Option<&'a Watched>,
    /// The limits of the verdict.
    pub limits: VerdictLimits,
}

/// The percentiles in the console's table.
pub(crate) const PRINTED: [Percentile; 3] = [Percentile::P50, Percentile::P90, Percentile::P99];

impl Report {
    /// The report of a run, with its verdict.
    #[must_use]
    pub fn build(run: &RunResult, context: &Context<'_>) -> Self {
        let collector = &run.collector;
        let summary = |metric| collector.distribution(metric).summary();
        let unjudged = Verdict {
            status: Status::Valid,
            limited_by: LimitedBy::None,
            reasons: Vec::new(),
        };
        let mut report = Self {
            schema: SCHEMA.to_owned(),
            ridgeline: context.program.clone(),
            environment: context.environment.clone(),
            plan: context.config.clone(),
            target: target(context),
            started_unix_ns: context.started_unix_ns,
            interrupted: run.interrupted,
            exit_code: 0,
            percentiles: "nearest_rank".to_owned(),
            verdict: unjudged,
            stages: Vec::new(),
            load: load(run, context.plan),
            throughput: throughput(run),
            latency_ns: summary(Metric::Latency),
            latency_from_schedule_ns: summary(Metric::LatencyFromSchedule),
            ttft_ns: summary(Metric::Ttft),
            ttft_from_schedule_ns: summary(Metric::TtftFromSchedule),
            ttfo_ns: summary(Metric::Ttfo),
            tpot_ns: summary(Metric::Tpot),
            itl_ns: summary(Metric::Itl),
            icl_ns: summary(Metric::Icl),
            connect_ns: summary(Metric::Connect),
            tls_ns: summary(Metric::Tls),
            tokens: tokens(collector, context),
            errors: collector.errors().to_map(),
            error_examples: examples(context.written),
            finish_reasons: collector.finish_reasons().to_map(),
            endpoints: endpoints::endpoints(collector, &context.endpoints),
            goodput: collector.goodput(),
            harness: harness(run, context),
            folder: None,
        };
        let evidence = evidence(run, context, &report.shown());
        report.verdict = judge(&evidence, &context.limits);
        report.stages =
            stages::stages(collector.stages(), context.plan, &evidence, &context.limits);
        for (place, stage) in report.stages.iter().enumerate() {
            report
                .verdict
                .heed(&stages::name(place, stage), &stage.verdict);
        }
        report.harness.notes = notes::notes(&report);
        report.exit_code = Ending::new(
            run.interrupted,
            &evidence,
            &context.limits,
            &report.verdict,
            report.goodput.as_ref(),
        )
        .exit_code();
        report
    }
}

fn target(context: &Context<'_>) -> TargetFigures {
    TargetFigures {
        url: context.url.clone(),
        model: context.model.clone(),
        endpoint_type: match context.plan.endpoint {
            EndpointType::Chat => "chat",
            EndpointType::Completions => "completions",
        }
        .to_owned(),
        streaming: context.plan.streaming,
        certificate_checked: context.plan.target.is_checked(),
    }
}

/// The length of the measured window. A counted run without any success has none of its own: it is
/// taken to end with its last response.
fn duration(run: &RunResult) -> Nanos {
    let last = run.last_done.max(run.last_issue) - run.measured;
    run.collector.duration().unwrap_or(last)
}

fn throughput(run: &RunResult) -> Throughput {
    let nothing = || Throughput::new(&Volume::default(), Nanos(1));
    let found = run.collector.throughput().or_else(nothing);
    found.expect("the rates of nothing over some time")
}

fn load(run: &RunResult, plan: &Plan) -> LoadFigures {
    let collector = &run.collector;
    let counts = collector.counts(Phase::Measured);
    let summary = |metric| collector.distribution(metric).summary();
    let window = window(run, plan).as_secs_f64();
    let rate = |count: u64| (window > 0.0).then(|| float(count) / window);
    let (kind, schedule, concurrency) = match &plan.load {
        Load::Closed { concurrency } => (LoadKind::Closed, None, Some(*concurrency)),
        Load::Offline { concurrency } => (LoadKind::Offline, None, Some(*concurrency)),
        Load::Open {
            schedule,
            concurrency_cap,
        } => (LoadKind::Open, Some(schedule), *concurrency_cap),
    };
    LoadFigures {
        kind,
        arrival_pattern: schedule.map(|schedule| pattern(schedule).to_owned()),
        requested_rate: schedule.and_then(|schedule| requested_rate(schedule, plan)),
        scheduled_rate: schedule.and_then(|_| rate(counts.issued + run.never_sent)),
        achieved_rate: rate(run.submitted_in_window),
        issued: counts.issued,
        completed: counts.completed,
        failed: counts.failed,
        cancelled: counts.cancelled,
        given_up: counts.given_up,
        never_sent: run.never_sent,
        retried: counts.retried,
        concurrency: concurrency.map(u64::from),
        effective_concurrency: collector.effective_concurrency(),
        peak_concurrency: collector.peak_concurrency(),
        duration_ns: duration(run).0,
        schedule_lag_ns: summary(Metric::ScheduleLag),
        pool_wait_ns: summary(Metric::PoolWait),
        cap_wait_ns: summary(Metric::CapWait),
        warmup: collector.counts(Phase::Warmup),
        littles_law: summary(Metric::Latency).and_then(|latency| {
            let requests_per_s = throughput(run).requests_per_s;
            LittlesLaw::of(
                collector.effective_concurrency(),
                requests_per_s,
                latency.mean,
            )
        }),
        latency_growth: collector.latency_trend().growth(),
    }
}

/// The span that the scheduled and the achieved rate are taken over: the schedule's, unless the run
/// has none or was interrupted before its end.
fn window(run: &RunResult, plan: &Plan) -> Nanos {
    let Load::Open { schedule, .. } = &plan.load else {
        return duration(run);
    };
    if run.window_end == Nanos::MAX {
        return duration(run);
    }
    let window = run.window_end - run.measured;
    if run.interrupted {
        return window.min(duration(run));
    }
    // It ends one mean gap after the last arrival of a counted run. Equal gaps begin with an
    // arrival, so that this one belongs to the last; random ones begin with a gap.
    let counted = plan.stop.duration.is_none_or(|all| window < all);
    match schedule.stages.last() {
        Some(stage) if counted && stage.pattern != Pattern::Constant => {
            window - Nanos::from_secs_f64(1.0 / stage.rate_per_s)
        }
        _ => window,
    }
}

fn pattern(schedule: &ScheduleSpec) -> &'static str {
    let name = |stage: &Stage| match stage.pattern {
        Pattern::Constant => "constant",
        Pattern::Poisson => "poisson",
        Pattern::Gamma { .. } => "gamma",
    };
    let mut names = schedule.stages.iter().map(name);
    let first = names.next().unwrap_or("poisson");
    if names.all(|name| name == first) {
        first
    } else {
        "mixed"
    }
}

/// The mean rate of the stages up to the end of the run; `None` when that has no length.
fn requested_rate(schedule: &ScheduleSpec, plan: &Plan) -> Option<f64> {
    if let [stage] = schedule.stages.as_slice() {
        return Some(stage.rate_per_s);
    }
    let mut time_left = plan.stop.duration.map_or(f64::INFINITY, Nanos::as_secs_f64);
    let mut requests_left = plan.stop.requests_max.map_or(f64::INFINITY, float);
    let (mut time, mut requests) = (0.0, 0.0);
    for stage in &schedule.stages {
        let span = stage.duration.map_or(f64::INFINITY, Nanos::as_secs_f64);
        let span = span.min(time_left).min(requests_left / stage.rate_per_s);
        let count = span * stage.rate_per_s;
        (time, requests) = (time + span, requests + count);
        (time_left, requests_left) = (time_left - span, requests_left - count);
    }
    (time > 0.0 && time.is_finite()).then(|| requests / time)
}

fn tokens(collector: &Collector, context: &Context<'_>) -> TokenFigures {
    let tokens = collector.tokens();
    let content_events = collector.content_events();
    let counted = tokens.source.events == 0 && content_events > 0;
    TokenFigures {
        input: tokens.input,
        input_counted: tokens.input_counted,
        output: tokens.output,
        source: tokens.source,
        content_events,
        per_event: counted.then(|| float(tokens.output) / float(content_events)),
        note: context.tokens_note.clone(),
    }
}

fn examples(written: Option<&Written>) -> BTreeMap<String, String> {
    let examples = written.map(|written| &written.error_examples);
    examples
        .into_iter()
        .flatten()
        .map(|(kind, message)| (kind.to_string(), message.clone()))
        .collect()
}

fn harness(run: &RunResult, context: &Context<'_>) -> Harness {
    let collector = &run.collector;
    let counts = collector.counts(Phase::Measured);
    let sum = |of: fn(&ShardReport) -> u64| run.shards.iter().map(of).sum::<u64>();
    let cpu = sum(|shard| shard.cpu.0);
    let events = collector.content_events();
    Harness {
        driver: context.environment.driver.clone(),
        rx_timestamps: context.plan.rx_timestamps,
        shared_core: context.shared_core,
        shards: (0..)
            .zip(&run.shards)
            .map(|(k, report)| watched::watched(k, report, run.started, context.watched))
            .collect(),
        workers: context.workers.clone(),
        harness_delay_ns: collector.distribution(Metric::HarnessDelay).summary(),
        stamp_width_ns: collector.distribution(Metric::StampWidth).summary(),
        send_ns: collector.distribution(Metric::Send).summary(),
        http2: http2(run),
        carry_copies: sum(|shard| shard.carry_copies),
        gaps_committed_early: collector.gaps_committed_early(),
        records_dropped: records_dropped(run, context),
        records: context.written.map(|written| RecordFigures {
            written: written.records,
            spooled: written.spooled,
            unconverted: written.unconverted,
            error: written.error.as_ref().map(ToString::to_string),
        }),
        cpu_ns_per_request: ratio(cpu, counts.completed + counts.failed + counts.cancelled),
        cpu_ns_per_event: ratio(cpu, events),
        events_per_read: ratio(events, sum(|shard| shard.reads)),
        headroom: None,
        machine: context.watched.and_then(Watched::machine).cloned(),
        notes: Vec::new(),
    }
}

/// What connections of HTTP/2 counted, where there were any.
fn http2(run: &RunResult) -> Option<Http2Figures> {
    let mut counts = Http2Counts::default();
    run.shards
        .iter()
        .for_each(|shard| counts.merge(&shard.http2));
    (counts.connections > 0).then_some(Http2Figures {
        connections: counts.connections,
        streams: counts.streams,
        unprocessed: counts.unprocessed,
        send_stalls: counts.send_stalls,
        receive_stalls: counts.receive_stalls,
    })
}

fn shard(shard: &ShardReport) -> ShardFigures {
    let counters = &shard.counters;
    ShardFigures {
        worker: shard.worker,
        core: shard.core,
        busy_fraction: shard.busy_fraction,
        cpu_ns: shard.cpu.0,
        stall_max_ns: shard.pace.stall_max.0,
        gather_max_ns: shard.pace.gather_max.0,
        turns: shard.pace.turns,
        completions: counters.completions,
        reads: shard.reads,
        events_per_read: ratio(shard.content_events, shard.reads),
        connections_opened: shard.connections_opened,
        received_bytes: counters.received_bytes,
        sent_bytes: counters.sent_bytes,
        carry_copies: shard.carry_copies,
        out_of_buffers: counters.out_of_buffers,
        completions_overflowed: counters.completions_overflowed,
        stamps_discarded: counters.stamps_discarded,
        stamp_error_max_ns: counters.stamp_error_max.0,
        thread: None,
        stall: None,
    }
}

fn records_dropped(run: &RunResult, context: &Context<'_>) -> u64 {
    run.records_dropped + context.written.map_or(0, |written| written.lost)
}

fn evidence(run: &RunResult, context: &Context<'_>, shown: &[Metric]) -> Evidence {
    let (plan, collector) = (context.plan, &run.collector);
    let load = match &plan.load {
        Load::Closed { .. } => verdict::Load::Closed,
        Load::Offline { .. } => verdict::Load::Offline,
        Load::Open {
            concurrency_cap, ..
        } => verdict::Load::Timed {
            cap: concurrency_cap.map(u64::from),
        },
    };
    let known = Evidence::new(collector, load, plan.streaming, &context.limits);
    Evidence {
        duration: duration(run),
        // The collector of a counted run has no window: what is late would be in it for ever.
        arrived: Arrived {
            scheduled: known.counts.issued + run.never_sent,
            submitted: run.submitted_in_window,
            never_sent: run.never_sent,
        },
        shards: (0..)
            .zip(&run.shards)
            .map(|(k, shard)| ShardLoad {
                core: shard.core.and_then(|core| u32::try_from(core).ok()),
                busy_fraction: busy_fraction(shard, &run.shards, &context.workers),
                longest_stall: shard.pace.stall_max,
                stall_cause: watched::stall_cause(k, shard, context.watched),
            })
            .collect(),
        exhausted: exhausted(run),
        window_stalls: http2(run).map_or(0, |http2| http2.receive_stalls),
        shared_core: context.shared_core,
        workers_short: context.workers.iter().filter_map(short).collect(),
        records_dropped: records_dropped(run, context),
        below_floor: below_floor(collector, plan, shown),
        ..known
    }
}

/// What kept a worker from doing its share to the end, if anything did.
fn short(worker: &WorkerFigures) -> Option<String> {
    let name = match &worker.host {
        Some(host) => format!("the worker {} on {host}", worker.name),
        None => format!("the worker {}", worker.name),
    };
    let at = Nanos(worker.ended_ns);
    let why = worker.why.as_deref().unwrap_or("it did not say why");
    match worker.status {
        WorkerStatus::Finished => None,
        WorkerStatus::Left => Some(format!("{name} left before the end, after {at}: {why}")),
        WorkerStatus::Lost => Some(format!(
            "{name} was lost after {at}: {why}; the {} requests that it had started by its last word, {} \
             of them answered, are missing here",
            worker.issued, worker.completed
        )),
    }
}

/// How busy a shard is, or its core where several are pinned to it: none of them then is ever busier
/// than its share. Cores of different hosts are different ones.
fn busy_fraction(shard: &ShardReport, shards: &[ShardReport], workers: &[WorkerFigures]) -> f64 {
    if shard.core.is_none() {
        return shard.busy_fraction;
    }
    let host = |shard: &ShardReport| workers.get(shard.worker as usize).map(|w| &w.host);
    let place = |shard: &ShardReport| (shard.core, host(shard));
    let together = shards.iter().filter(|other| place(other) == place(shard));
    let sum: f64 = together.map(|shard| shard.busy_fraction).sum();
    sum.min(1.0)
}

fn exhausted(run: &RunResult) -> Vec<Exhausted> {
    // Receives that found no buffer are armed again in the same turn and lose nothing: they are
    // counted, and their delay is in harness_delay (ARCHITECTURE.md, decision 12).
    [
        (Resource::Ports, u64::from(run.exhausted.ports)),
        (Resource::Descriptors, u64::from(run.exhausted.descriptors)),
        (Resource::Pool, u64::from(run.exhausted.slots)),
        (Resource::Buffers, u64::from(run.exhausted.buffers)),
    ]
    .into_iter()
    .filter(|(_, times)| *times > 0)
    .map(|(resource, times)| Exhausted { resource, times })
    .collect()
}

/// The percentiles of the endpoint's figures that are printed on too few samples. Those of the
/// client's own are marked in the table and not judged: a run may well need only few connections.
fn below_floor(collector: &Collector, plan: &Plan, shown: &[Metric]) -> Vec<BelowFloor> {
    let judged: Vec<Metric> = shown
        .iter()
        .copied()
        .filter(|metric| Metric::JUDGED.contains(metric))
        .collect();
    let mut found = BelowFloor::find(collector, &judged, &PRINTED);
    for slo in &plan.slos {
        if let Some(percentile) = slo.percentile {
            let below = BelowFloor::find(collector, &[slo.metric], &[percentile]);
            found.extend(below);
        }
    }
    let mut seen = Vec::new();
    found.retain(|below| {
        let new = !seen.contains(below);
        seen.extend(new.then_some(*below));
        new
    });
    found
}

fn ratio(of: u64, by: u64) -> Option<f64> {
    (by > 0).then(|| float(of) / float(by))
}

#[expect(
    clippy::cast_precision_loss,
    reason = "rates and ratios need a few digits"
)]
fn float(count: u64) -> f64 {
    count as f64
}

#[cfg(test)]
mod tests;
