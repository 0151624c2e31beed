//! Made-up runs for tests.

use std::net::{Ipv4Addr, SocketAddr};

use ridgeline_clock::{Arrival, Nanos};
use ridgeline_engine::{
    Connections, Exhausted, Http2Counts, Limits, Load, Pace, Plan, RunResult, ShardReport, Target,
    Waits,
};
use ridgeline_metrics::verdict::VerdictLimits;
use ridgeline_metrics::{
    Collector, Fate, Finished, GapLog, GapPool, Phase, Slo, Stopped, Timeline, TokenSource,
};
use ridgeline_net::{Counters, Peer};
use ridgeline_schedule::{Pattern, ScheduleSpec, Stage, StopRule};
use ridgeline_wire::openai::EndpointType;
use ridgeline_workload::Order;

use crate::{Context, Environment, Program, Report, RunClock};

/// The start of the measured phase.
pub(crate) const START: Nanos = Nanos::from_secs(1_000);

/// One made-up run.
#[derive(Debug)]
pub(crate) struct Made {
    pub(crate) plan: Plan,
    pub(crate) run: RunResult,
}

/// What to make up.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub(crate) load: Load,
    pub(crate) streaming: bool,
    pub(crate) requests: u64,
    pub(crate) failures: u64,
    pub(crate) slos: &'static str,
    pub(crate) events: u32,
    pub(crate) tokens_per_event: u32,
    pub(crate) lag: Nanos,
    pub(crate) reasoning: bool,
}

impl Default for Recipe {
    fn default() -> Self {
        Self {
            load: Load::Closed { concurrency: 16 },
            streaming: true,
            requests: 1_000,
            failures: 0,
            slos: "",
            events: 20,
            tokens_per_event: 1,
            lag: Nanos::from_micros(20),
            reasoning: false,
        }
    }
}

/// An open loop of equal gaps.
pub(crate) fn open(rate_per_s: f64, concurrency_cap: Option<u32>) -> Load {
    let stage = Stage {
        rate_per_s,
        pattern: Pattern::Constant,
        duration: None,
    };
    Load::Open {
        schedule: ScheduleSpec {
            stages: vec![stage],
            seed: 1,
        },
        concurrency_cap,
    }
}

pub(crate) fn plan(recipe: &Recipe) -> Plan {
    Plan {
        target: Target {
            peers: vec![Peer::Tcp(SocketAddr::from((Ipv4Addr::LOCALHOST, 8000)))],
            sources: Vec::new(),
            tls: None,
            spread: None,
            http2: None,
        },
        endpoint: EndpointType::Chat,
        streaming: recipe.streaming,
        load: recipe.load.clone(),
        stop: StopRule {
            requests_max: None,
            duration: Some(Nanos::from_secs(10)),
        },
        first_index: 0,
        warmup_requests: 0,
        timeout: Nanos::from_secs(600),
        waits: Waits::default(),
        connections: Connections::Reuse,
        drain_timeout: Nanos::from_secs(30),
        order: Order::Sequential,
        slos: Slo::parse_all(recipe.slos).unwrap(),
        save_text: false,
        count_later: false,
        save_events: false,
        rx_timestamps: true,
        shards: 1,
        own_shards: 0..1,
        cores: Some(vec![1]),
        run_id: 1,
        limits: Limits::default(),
    }
}

/// A run of ten seconds.
pub(crate) fn make(recipe: &Recipe) -> Made {
    let plan = plan(recipe);
    let mut collector = plan.collector();
    let slots = u64::from(plan.load.concurrency().unwrap_or(0));
    collector.begin(START, slots);
    collector.concurrency(START, slots.max(12));
    let mut pool = GapPool::new(64);
    let mut random: u64 = 7;
    let gap = Nanos::from_secs(9) / recipe.requests.max(1);
    for index in 0..recipe.requests {
        random = random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let noise = (random >> 33) % 4_000_000;
        collector.due(1);
        collector.issued(Phase::Measured);
        let failed = index < recipe.failures;
        request(
            &mut collector,
            &mut pool,
            recipe,
            START + gap * index,
            noise,
            failed,
        );
    }
    let end = START + Nanos::from_secs(10);
    collector.stop(end, Stopped::Duration);
    Made {
        run: result(collector, recipe, end),
        plan,
    }
}

fn request(
    collector: &mut Collector,
    pool: &mut GapPool,
    recipe: &Recipe,
    scheduled: Nanos,
    noise: u64,
    failed: bool,
) {
    let mut log = GapLog::new();
    log.begin(pool, Phase::Measured);
    let submitted = scheduled + recipe.lag;
    let first = submitted + Nanos::from_millis(20) + Nanos(noise);
    let mut at = first;
    for event in 0..recipe.events {
        at = first + (Nanos::from_millis(5) + Nanos(noise / 50)) * u64::from(event);
        collector.content(&mut log, pool, at, 1);
        let arrival = Arrival {
            at,
            not_before: at,
            reaped: at + Nanos(1_500 + noise / 1_000),
        };
        collector.read(arrival, 1);
    }
    let output = recipe.events * recipe.tokens_per_event;
    let first_output = if recipe.reasoning {
        first + Nanos::from_millis(31)
    } else {
        first
    };
    let timeline = Timeline {
        scheduled,
        started: submitted,
        connect: (noise.is_multiple_of(50)).then_some(Nanos(45_000 + noise / 100)),
        tls: None,
        submitted: Some(submitted),
        first_byte: Some(first),
        first_token: Some(first),
        first_output: Some(first_output),
        last_token: Some(at),
        done: Some(at + Nanos(1_000)),
    };
    let fate = match (failed, noise % 3) {
        (false, _) => Fate::Ok,
        (true, 0) => Fate::Failed("timeout"),
        (true, _) => Fate::Failed("http_status"),
    };
    let finished = Finished {
        timeline,
        finish_reason: Some(if noise.is_multiple_of(9) {
            "stop"
        } else {
            "length"
        }),
        input_tokens: Some(128),
        output_tokens: Some(output),
        token_source: TokenSource::Usage,
        content_events: recipe.events,
        events_in_window: recipe.events,
        received_bytes: 250 * u64::from(recipe.events),
        ..Finished::new(Phase::Measured, fate, recipe.streaming)
    };
    collector.finished(&finished, &mut log, pool);
}

fn result(collector: Collector, recipe: &Recipe, end: Nanos) -> RunResult {
    let events = collector.content_events();
    RunResult {
        started: START,
        measured: START,
        window_end: end,
        last_issue: START + Nanos::from_secs(9),
        last_done: end,
        ended: end,
        collector,
        never_sent: 0,
        submitted_in_window: recipe.requests,
        records_dropped: 0,
        exhausted: Exhausted::default(),
        interrupted: false,
        shards: vec![ShardReport {
            worker: 0,
            core: Some(1),
            busy_fraction: 0.034,
            cpu: Nanos::from_millis(340),
            pace: Pace {
                turns: 30_000,
                waited: Nanos::from_millis(9_600),
                stall_max: Nanos::from_micros(310),
                stall_ended: START + Nanos::from_secs(4),
                gather_max: Nanos::ZERO,
            },
            counters: Counters::default(),
            reads: events / 2,
            content_events: events,
            connections_opened: 16,
            http2: Http2Counts::default(),
            carry_copies: 12,
        }],
    }
}

pub(crate) fn context(plan: &Plan) -> Context<'_> {
    Context {
        plan,
        config: serde_json::json!({"url": "http://127.0.0.1:8000", "model": "mock"}),
        url: "http://127.0.0.1:8000/v1/chat/completions".to_owned(),
        endpoints: Vec::new(),
        model: "mock".to_owned(),
        environment: Environment {
            driver: "uring".to_owned(),
            clock: Some(RunClock::of(START)),
            ..Environment::default()
        },
        program: Program {
            version: "0.1.0".to_owned(),
            revision: None,
        },
        started_unix_ns: 1_790_000_000_000_000_000,
        written: None,
        tokens_note: None,
        shared_core: false,
        workers: Vec::new(),
        watched: None,
        limits: VerdictLimits::default(),
    }
}

/// The report of a made-up run.
pub(crate) fn report(recipe: &Recipe) -> Report {
    let made = make(recipe);
    Report::build(&made.run, &context(&made.plan))
}
