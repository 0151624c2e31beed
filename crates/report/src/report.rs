use std::collections::BTreeMap;
use std::path::PathBuf;

use ridgeline_metrics::verdict::Verdict;
use ridgeline_metrics::{Counts, Goodput, Growth, Metric, Summary, Throughput, TokensBySource};
use ridgeline_telemetry::{Cause, MachineFigures, ThreadFigures};
use serde::{Deserialize, Serialize};

use crate::Environment;

/// Name and version of the format of `report.json`. Fields may be added under the same version;
/// none changes its meaning.
pub const SCHEMA: &str = "ridgeline.report/1";

/// All that a run found: the contents of `report.json`.
///
/// Durations are ns; percentiles are nearest-rank. A summary is `None` when it has no samples.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// The program that measured.
    pub ridgeline: Program,
    /// The machine it ran on.
    pub environment: Environment,
    /// The effective configuration, secrets taken out.
    pub plan: serde_json::Value,
    /// What was asked for, and where.
    pub target: TargetFigures,
    /// When the run began: wall-clock ns since 1970.
    pub started_unix_ns: u64,
    /// Whether the user ended the run early.
    pub interrupted: bool,
    /// The exit code of the run.
    pub exit_code: u8,
    /// How percentiles are read off: `nearest_rank`.
    pub percentiles: String,
    /// Whether the numbers can be trusted.
    pub verdict: Verdict,
    /// The stages of a schedule of several, those that had requests; else empty.
    #[serde(default)]
    pub stages: Vec<StageFigures>,
    /// The load: asked for and reached.
    pub load: LoadFigures,
    /// Rates of successes over the measured window; all 0 when there was none.
    pub throughput: Throughput,
    /// See [`Metric::Latency`].
    pub latency_ns: Option<Summary>,
    /// See [`Metric::LatencyFromSchedule`].
    pub latency_from_schedule_ns: Option<Summary>,
    /// See [`Metric::Ttft`].
    pub ttft_ns: Option<Summary>,
    /// See [`Metric::TtftFromSchedule`].
    pub ttft_from_schedule_ns: Option<Summary>,
    /// See [`Metric::Ttfo`].
    pub ttfo_ns: Option<Summary>,
    /// See [`Metric::Tpot`].
    pub tpot_ns: Option<Summary>,
    /// See [`Metric::Itl`].
    pub itl_ns: Option<Summary>,
    /// See [`Metric::Icl`].
    pub icl_ns: Option<Summary>,
    /// See [`Metric::Connect`].
    pub connect_ns: Option<Summary>,
    /// See [`Metric::Tls`].
    #[serde(default)]
    pub tls_ns: Option<Summary>,
    /// Tokens of the successes.
    pub tokens: TokenFigures,
    /// Failures of the measured phase by kind.
    pub errors: BTreeMap<String, u64>,
    /// The first message of each kind; empty without records.
    pub error_examples: BTreeMap<String, String>,
    /// Finish reasons of the successes.
    pub finish_reasons: BTreeMap<String, u64>,
    /// Of several endpoints what each did; else empty.
    #[serde(default)]
    pub endpoints: Vec<EndpointFigures>,
    /// Goodput; `None` without SLOs.
    pub goodput: Option<Goodput>,
    /// How the client fared.
    pub harness: Harness,
    /// The folder that the report is in, where known. Not part of the file.
    #[serde(skip)]
    pub folder: Option<PathBuf>,
}

/// What one of several endpoints did to the requests of the measured phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndpointFigures {
    /// The URL that requests went to.
    pub url: String,
    /// Requests that are over.
    pub requests: u64,
    /// Those that succeeded.
    pub completed: u64,
    /// Those that failed.
    pub failed: u64,
    /// Those that were given up.
    pub cancelled: u64,
    /// Second sends.
    pub retried: u64,
    /// Failures by kind.
    pub errors: BTreeMap<String, u64>,
    /// See [`Metric::Latency`].
    pub latency_ns: Option<Summary>,
    /// See [`Metric::Ttft`].
    pub ttft_ns: Option<Summary>,
}

/// A build of this program.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Program {
    /// Its version.
    pub version: String,
    /// The commit it was built from.
    pub revision: Option<String>,
}

/// What was asked for, and where.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TargetFigures {
    /// The URL that requests went to.
    pub url: String,
    /// The model.
    pub model: String,
    /// `chat` or `completions`.
    pub endpoint_type: String,
    /// Whether streamed answers were asked for.
    pub streaming: bool,
    /// Of an endpoint behind TLS: whether its certificate was checked; `None` of one in the clear.
    #[serde(default)]
    pub certificate_checked: Option<bool>,
}

/// What makes requests start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LoadKind {
    /// The end of an earlier one.
    Closed,
    /// A schedule.
    Open,
    /// The start of the run.
    Offline,
}

/// Little's law, N = X R: what is in flight is what is finished a second times what each takes. Where both
/// sides differ, the run was not in a steady state for most of its time (its start or end weighs, latency
/// grew), or requests failed, or something held them beside the server.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct LittlesLaw {
    /// N: requests in flight, time-weighted.
    pub in_flight: f64,
    /// X: successes a second.
    pub requests_per_s: f64,
    /// R: their mean latency, ns.
    pub latency_mean_ns: f64,
    /// N / (X R).
    pub ratio: f64,
}

impl LittlesLaw {
    /// Of a run with successes; `None` where a side is nothing.
    #[must_use]
    pub fn of(in_flight: f64, requests_per_s: f64, latency_mean_ns: f64) -> Option<Self> {
        let product = requests_per_s * latency_mean_ns / 1e9;
        (in_flight > 0.0 && product > 0.0).then(|| Self {
            in_flight,
            requests_per_s,
            latency_mean_ns,
            ratio: in_flight / product,
        })
    }
}

/// The load: asked for and reached. Rates are requests per second of the measured phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoadFigures {
    /// What makes requests start.
    pub kind: LoadKind,
    /// How the schedule's arrivals were spaced: `constant`, `poisson` or `gamma`; `mixed` when stages
    /// differ; `None` without a schedule.
    #[serde(default)]
    pub arrival_pattern: Option<String>,
    /// The rate asked for: of several stages the mean over the run; `None` without a schedule.
    pub requested_rate: Option<f64>,
    /// The rate that the schedule's random gaps came to; `None` without a schedule.
    pub scheduled_rate: Option<f64>,
    /// The rate at which requests were submitted; `None` when the window has no length.
    pub achieved_rate: Option<f64>,
    /// Requests started.
    pub issued: u64,
    /// Requests that succeeded.
    pub completed: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests given up: by the drain deadline, the user or the plan.
    pub cancelled: u64,
    /// Those of them that the plan had given up (`--cancel-rate`).
    #[serde(default)]
    pub given_up: u64,
    /// Requests due that were not sent before the end.
    pub never_sent: u64,
    /// Second sends, after a reused idle connection was found closed.
    pub retried: u64,
    /// The requests in flight that were asked for; of a schedule its cap, if it has one.
    pub concurrency: Option<u64>,
    /// Slots occupied, from submission to reaping, time-weighted.
    pub effective_concurrency: f64,
    /// The most slots occupied; of several shards the sum of their peaks.
    pub peak_concurrency: u64,
    /// The length of the measured window.
    pub duration_ns: u64,
    /// See [`Metric::ScheduleLag`].
    pub schedule_lag_ns: Option<Summary>,
    /// See [`Metric::PoolWait`].
    pub pool_wait_ns: Option<Summary>,
    /// See [`Metric::CapWait`].
    pub cap_wait_ns: Option<Summary>,
    /// Whether the load agrees with itself; `None` without successes.
    #[serde(default)]
    pub littles_law: Option<LittlesLaw>,
    /// How the latency of successes went from the first request to the last; `None` of too few.
    #[serde(default)]
    pub latency_growth: Option<Growth>,
    /// The warm-up, which is in none of the other figures.
    pub warmup: Counts,
}

/// A stage of a schedule: the requests that were due in it, whenever they ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StageFigures {
    /// The rate asked for, requests per second.
    pub requested_rate: f64,
    /// The rate at which its requests were submitted before it ended; `None` when it has no length.
    pub achieved_rate: Option<f64>,
    /// When it began, from the start of the measured phase.
    pub begin_ns: u64,
    /// Its length, as far as the run came.
    pub duration_ns: u64,
    /// Requests started.
    pub issued: u64,
    /// Requests that succeeded.
    pub completed: u64,
    /// Requests that failed.
    pub failed: u64,
    /// Requests given up: by the drain deadline or the user.
    pub cancelled: u64,
    /// Requests due that were not sent before the end of the run.
    pub never_sent: u64,
    /// See [`Metric::ScheduleLag`].
    pub schedule_lag_ns: Option<Summary>,
    /// See [`Metric::Ttft`].
    pub ttft_ns: Option<Summary>,
    /// See [`Metric::Latency`].
    pub latency_ns: Option<Summary>,
    /// See [`Metric::HarnessDelay`]: of reads while it lasted.
    pub harness_delay_ns: Option<Summary>,
    /// How the latency of its successes went from the first to the last; `None` of too few.
    pub latency_growth: Option<Growth>,
    /// Whether its numbers can be trusted. How busy the shards were, and what they ran out of, is judged for
    /// the run alone.
    pub verdict: Verdict,
}

/// Tokens of the successes of the measured phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TokenFigures {
    /// Input tokens, where known.
    pub input: u64,
    /// Those of them that a tokenizer counted, not the server.
    #[serde(default)]
    pub input_counted: u64,
    /// Output tokens.
    pub output: u64,
    /// Output tokens by the source of their count.
    pub source: TokensBySource,
    /// Content events: streamed events, or whole answers, that generated something.
    pub content_events: u64,
    /// Output tokens per content event; `None` unless the server or a tokenizer counted all tokens.
    pub per_event: Option<f64>,
    /// Why a count that was asked for is missing or incomplete.
    pub note: Option<String>,
}

/// How the client fared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Harness {
    /// What drove the sockets.
    pub driver: String,
    /// Whether the kernel's receive stamps were used.
    pub rx_timestamps: bool,
    /// Whether a shard ran on the core of the embedded server.
    pub shared_core: bool,
    /// Each shard.
    pub shards: Vec<ShardFigures>,
    /// Each worker, of a run of several; else empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub workers: Vec<WorkerFigures>,
    /// See [`Metric::HarnessDelay`].
    pub harness_delay_ns: Option<Summary>,
    /// See [`Metric::StampWidth`].
    pub stamp_width_ns: Option<Summary>,
    /// See [`Metric::Send`].
    #[serde(default)]
    pub send_ns: Option<Summary>,
    /// What connections of HTTP/2 counted, over all phases; `None` where there were none.
    #[serde(default)]
    pub http2: Option<Http2Figures>,
    /// Heads of cut events that were copied.
    pub carry_copies: u64,
    /// Gaps pooled before their request was known to succeed, for want of memory.
    pub gaps_committed_early: u64,
    /// Records that found their queue full, or could not be written.
    pub records_dropped: u64,
    /// The file of records; `None` when none was asked for.
    pub records: Option<RecordFigures>,
    /// CPU time of the shards per request that ended.
    pub cpu_ns_per_request: Option<f64>,
    /// CPU time of the shards per content event of a success.
    pub cpu_ns_per_event: Option<f64>,
    /// Content events of successes per read that brought bytes.
    pub events_per_read: Option<f64>,
    /// How near the run came to what a client can do on this machine; `None` where nobody has measured
    /// that.
    #[serde(default)]
    pub headroom: Option<Headroom>,
    /// What the kernel says of the machine; `None` when nobody looked.
    #[serde(default)]
    pub machine: Option<MachineFigures>,
    /// What a reader should know of how the client and the server fared, in plain words.
    #[serde(default)]
    pub notes: Vec<String>,
}

/// What connections of HTTP/2 counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Http2Figures {
    /// Connections that spoke it.
    pub connections: u64,
    /// Streams begun: requests, those that were sent again counted each time.
    pub streams: u64,
    /// Streams that the server did not begin with.
    pub unprocessed: u64,
    /// How often the rest of a request had to wait for a window of the server.
    pub send_stalls: u64,
    /// How often the server had to wait for a window of the client.
    pub receive_stalls: u64,
}

/// How near a run came to the ceilings of a client on its machine, as `ridgeline roofline` measured them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Headroom {
    /// The used share of the nearest ceiling; above 1 when the run went beyond it.
    pub share: f64,
    /// What that ceiling is of: `paced events/s`.
    pub of: String,
    /// The run's figure of it.
    pub value: f64,
    /// The ceiling, for as many cores as the run had.
    pub ceiling: f64,
    /// The program that it was measured of.
    pub profile: Program,
    /// When it was measured: wall-clock ns since 1970.
    pub measured_unix_ns: u64,
    /// How the ceiling was measured, where it may not be this run's: `on Linux 6.1`; empty when it is of
    /// the same program and kernel, from a whole roofline and of this month.
    pub reservations: Vec<String>,
}

/// One shard, in the measured phase unless it says otherwise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShardFigures {
    /// The worker that it was a shard of, by its place in `workers`; 0 where there are none.
    #[serde(default)]
    pub worker: u32,
    /// The core it was pinned to.
    pub core: Option<usize>,
    /// The share of the time that its thread was on the CPU, 0 to 1.
    pub busy_fraction: f64,
    /// CPU time.
    pub cpu_ns: u64,
    /// The longest stretch without taking completions.
    pub stall_max_ns: u64,
    /// The longest that its waits were lengthened by, so that more came at a time; 0: they were not.
    #[serde(default)]
    pub gather_max_ns: u64,
    /// Turns of its loop.
    pub turns: u64,
    /// Completions reaped, over all phases.
    pub completions: u64,
    /// Reads that brought bytes.
    pub reads: u64,
    /// Content events of successes per read.
    pub events_per_read: Option<f64>,
    /// Connections set up, over all phases.
    pub connections_opened: u64,
    /// Bytes received, over all phases.
    pub received_bytes: u64,
    /// Bytes sent, over all phases.
    pub sent_bytes: u64,
    /// Heads of cut events that were copied, over all phases.
    pub carry_copies: u64,
    /// Receives that found no buffer and were armed again, over all phases.
    pub out_of_buffers: u64,
    /// Completions that did not fit the queue at once, over all phases.
    pub completions_overflowed: u64,
    /// Reads without a usable kernel stamp although stamps were asked for, over all phases.
    pub stamps_discarded: u64,
    /// The largest error of the map from the kernel's stamps to the run's clock.
    pub stamp_error_max_ns: u64,
    /// What the kernel says of its thread; `None` when nobody looked.
    #[serde(default)]
    pub thread: Option<ThreadFigures>,
    /// The longest stretch without taking completions; `None` when nobody looked.
    #[serde(default)]
    pub stall: Option<StallFigures>,
}

/// The longest stretch in which a shard took no completions, and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StallFigures {
    /// When it ended, ns from the start of the run.
    pub end_ns: u64,
    /// How long it was.
    pub length_ns: u64,
    /// Why, by the kernel's accounts of the time around it.
    pub cause: Cause,
    /// The same in words.
    pub words: String,
}

/// How a worker's part in a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum WorkerStatus {
    /// As planned.
    Finished,
    /// Early and in order: its numbers are those up to then.
    Left,
    /// Its numbers are missing.
    Lost,
}

/// One worker of a run of several.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerFigures {
    /// Its address.
    pub name: String,
    /// Its host's name, where it said it.
    pub host: Option<String>,
    /// Its process there.
    pub pid: Option<u32>,
    /// What drove its sockets; empty when it never was ready.
    pub driver: String,
    /// The first of the run's shards that were its own.
    pub first_shard: u32,
    /// How many of them.
    pub shards: u32,
    /// How its part ended.
    pub status: WorkerStatus,
    /// Why, when not as planned.
    pub why: Option<String>,
    /// When its part ended, since the start of the run.
    pub ended_ns: u64,
    /// Whether it read the coordinator's own clock: the offset is 0 by definition then.
    pub same_clock: bool,
    /// What its clock said more than the coordinator's when the run began.
    pub clock_offset_ns: Option<i64>,
    /// The most that this can be wrong by.
    pub clock_error_ns: Option<u64>,
    /// How much further it was ahead at the end.
    pub clock_drift_ns: Option<i64>,
    /// Measured requests that it started; of a lost one, as it last said.
    pub issued: u64,
    /// Those that succeeded.
    pub completed: u64,
    /// Those that failed or were cancelled.
    pub failed: u64,
    /// Content events of its requests.
    pub content_events: u64,
    /// Its records; `None` without any.
    pub records: Option<WorkerRecords>,
}

/// The records of a worker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WorkerRecords {
    /// Lines that it wrote.
    pub written: u64,
    /// Whether they were gathered into the run's `records.jsonl`.
    pub gathered: bool,
    /// The folder on its machine that they are in, unless they were gathered.
    pub folder: Option<String>,
}

/// The file of records.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordFigures {
    /// Lines written.
    pub written: u64,
    /// How many of them went through the spool.
    pub spooled: u64,
    /// Records still in the spool: `ridgeline report` makes lines of them.
    pub unconverted: u64,
    /// Why records were lost or are still in the spool.
    pub error: Option<String>,
}

impl Report {
    /// The exit code of the run.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        self.exit_code
    }

    /// The summary of a metric; `None` when it has no samples.
    #[must_use]
    pub fn summary(&self, metric: Metric) -> Option<&Summary> {
        match metric {
            Metric::Latency => &self.latency_ns,
            Metric::LatencyFromSchedule => &self.latency_from_schedule_ns,
            Metric::Ttft => &self.ttft_ns,
            Metric::TtftFromSchedule => &self.ttft_from_schedule_ns,
            Metric::Ttfo => &self.ttfo_ns,
            Metric::Tpot => &self.tpot_ns,
            Metric::Itl => &self.itl_ns,
            Metric::Icl => &self.icl_ns,
            Metric::Connect => &self.connect_ns,
            Metric::Tls => &self.tls_ns,
            Metric::ScheduleLag => &self.load.schedule_lag_ns,
            Metric::PoolWait => &self.load.pool_wait_ns,
            Metric::CapWait => &self.load.cap_wait_ns,
            Metric::HarnessDelay => &self.harness.harness_delay_ns,
            Metric::StampWidth => &self.harness.stamp_width_ns,
            Metric::Send => &self.harness.send_ns,
        }
        .as_ref()
    }

    /// The metrics that the console's table has rows for, in its order.
    #[must_use]
    pub fn shown(&self) -> Vec<Metric> {
        let open = self.load.kind == LoadKind::Open;
        let found = |metric| self.summary(metric).is_some();
        let waited = |metric| self.summary(metric).is_some_and(|summary| summary.max > 0);
        let differs = |metric, from| found(metric) && self.summary(metric) != self.summary(from);
        let shown = |metric: &Metric| match metric {
            Metric::Ttft | Metric::Latency | Metric::Itl | Metric::Tpot => true,
            Metric::Ttfo => differs(Metric::Ttfo, Metric::Ttft),
            Metric::Icl => differs(Metric::Icl, Metric::Itl),
            Metric::TtftFromSchedule | Metric::LatencyFromSchedule => open && found(*metric),
            Metric::Connect
            | Metric::Tls
            | Metric::ScheduleLag
            | Metric::Send
            | Metric::HarnessDelay => found(*metric),
            Metric::PoolWait | Metric::CapWait | Metric::StampWidth => waited(*metric),
        };
        ROWS.into_iter().filter(shown).collect()
    }
}

const ROWS: [Metric; 16] = [
    Metric::Ttft,
    Metric::TtftFromSchedule,
    Metric::Ttfo,
    Metric::Latency,
    Metric::LatencyFromSchedule,
    Metric::Itl,
    Metric::Icl,
    Metric::Tpot,
    Metric::Connect,
    Metric::Tls,
    Metric::ScheduleLag,
    Metric::PoolWait,
    Metric::CapWait,
    Metric::Send,
    Metric::HarnessDelay,
    Metric::StampWidth,
];
