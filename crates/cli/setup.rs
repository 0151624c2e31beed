//! From a configuration to everything a run needs: checked, made and sized before it starts.

use std::process;
use std::sync::Arc;

use ridgeline_engine::{
    Limits, Load, MemoryLine, Plan, Record, Requests, Target, Waits, id_prefix,
};
use ridgeline_metrics::verdict::VerdictLimits;
use ridgeline_net::Peer;
use ridgeline_wire::openai::EndpointType;
use ridgeline_workload::{Order, Tokenizer};

use crate::backend::Backend;
use crate::bounds::Bounds;
use crate::complaint::Complaint;
use crate::config::{BenchConfig, DriverKind, EndpointKind, OnOff, RecordsKind};
use crate::endpoint::{Address, Endpoint};
use crate::http;
use crate::machine;
use crate::part::{self, Part};
use crate::patience;
use crate::placement::Placement;
use crate::prompts::{self, Prompts};
use crate::room::Room;
use crate::scale;
use crate::search;
use crate::shape::Shape;
use crate::topology::Topology;

/// In flight at the most where neither the load nor the machine names a number.
pub(crate) const IN_FLIGHT_MAX: u32 = 4096;

/// A run that is ready to start.
#[derive(Debug)]
pub(crate) struct Setup {
    pub(crate) plan: Arc<Plan>,
    pub(crate) requests: Arc<Requests>,
    /// The one that was named.
    pub(crate) tokenizer: Option<Tokenizer>,
    pub(crate) backend: Backend,
    pub(crate) verdict: VerdictLimits,
    pub(crate) placement: Placement,
    pub(crate) endpoint: Endpoint,
    /// What was asked for, with what was decided in place.
    pub(crate) config: BenchConfig,
    /// What it is about to do, as name and words.
    pub(crate) summary: Vec<(&'static str, String)>,
    pub(crate) memory: Vec<MemoryLine>,
    pub(crate) notes: Vec<String>,
}

/// What can be checked without a network: all but the endpoint.
pub(crate) fn check(config: &BenchConfig) -> Result<(), Complaint> {
    search::check(config)?;
    Shape::new(config, IN_FLIGHT_MAX)?;
    prompts::check(config)?;
    patience::waits(config)?;
    limits(config)?;
    verdict(config)?;
    Ok(())
}

impl Setup {
    /// Prepares the run. Starts the embedded server if that is to be measured.
    pub(crate) fn new(config: BenchConfig) -> Result<Self, Complaint> {
        let part = Part::of(&config);
        Self::of(config, part)
    }

    /// Prepares a part of a run.
    pub(crate) fn of(mut config: BenchConfig, part: Part) -> Result<Self, Complaint> {
        check(&config)?;
        let verdict = verdict(&config)?;
        let mut placement = part.placement(&config, &Topology::here())?;
        let (run_id, api_key) = match &part {
            Part::Whole | Part::Coordinator => (run_id(), None),
            Part::Share {
                run_id, api_key, ..
            } => (*run_id, api_key.clone()),
        };
        let address = Address::new(&config)?.with_api_key(api_key);
        let (backend, fallback) = Backend::choose(config.driver.unwrap_or(DriverKind::Auto))?;
        let mut endpoint = address.reach(&config, &id_prefix(run_id), placement.mock_core)?;
        let (asked, places) = (scale::asked(&config), placement.shards);
        let scaled = [
            scale::shards(asked, &config, backend, &mut placement)?,
            scale::sources(asked, &mut config, &mut endpoint.peers, machine::ports()),
        ];
        let room = Room::new(&endpoint, &config, backend, placement.shards);
        let shape = Shape::new(&config, room.in_flight(IN_FLIGHT_MAX))?;
        let prompts = Prompts::new(&config, &endpoint.model)?;
        let limits = sized(&config, &room, placement.shards / places)?;
        let rx_timestamps = stamps(&config, backend, &endpoint.peers)?;
        let plan = Plan {
            rx_timestamps,
            run_id,
            limits,
            waits: patience::waits(&config)?,
            ..plan(&config, &shape, &placement, &endpoint, prompts.order)
        };
        let plan = part.of_plan(plan, &config);
        room.check(&plan)?;
        let memory = memory(&plan, backend, &prompts)?;
        note(&mut config, &shape, &plan, &endpoint);
        let requests = Requests::new(
            endpoint.template.clone(),
            prompts.bodies,
            plan.limits.send_inline_bytes,
        )
        .with_templates(endpoint.templates())
        .with_http2(endpoint.heads_of_http2())
        .with_input_tokens(prompts.input_tokens)
        .with_sessions(prompts.sessions);
        let mut notes = Vec::from_iter(fallback);
        notes.extend(scaled.into_iter().flatten());
        notes.extend(endpoint.notes.iter().cloned());
        notes.extend(prompts.notes.into_iter().chain(placement.notes()));
        notes.extend(room.note(&plan).into_iter().chain(unrecorded(&config)));
        let summary = vec![
            ("target", target_words(&endpoint, &plan)),
            ("load", shape.describe() + &patience::describe(&plan)),
            ("prompts", prompts.summary),
            match &config.workers {
                Some(workers) => ("workers", part::workers_words(workers, &placement)),
                None => ("client", client_words(&plan, &placement, &memory, &room)),
            },
        ];
        Ok(Self {
            plan: Arc::new(plan),
            requests: Arc::new(requests),
            tokenizer: prompts.tokenizer,
            backend,
            verdict,
            placement,
            endpoint,
            config,
            summary,
            memory,
            notes,
        })
    }
}

/// The plan without what depends on the machine.
fn plan(
    config: &BenchConfig,
    shape: &Shape,
    placement: &Placement,
    endpoint: &Endpoint,
    order: Order,
) -> Plan {
    Plan {
        target: Target {
            peers: endpoint.peers.clone(),
            sources: config.source_addresses.clone(),
            tls: endpoint.tls.clone(),
            spread: endpoint.spread.clone(),
            http2: endpoint.http2.as_ref().map(|(http2, _)| *http2),
        },
        endpoint: match config.endpoint_type.unwrap_or(EndpointKind::Chat) {
            EndpointKind::Chat => EndpointType::Chat,
            EndpointKind::Completions => EndpointType::Completions,
        },
        streaming: config.streaming.unwrap_or(true),
        load: shape.load.clone(),
        stop: shape.stop,
        first_index: 0,
        warmup_requests: config.warmup_requests.unwrap_or(0),
        timeout: shape.timeout,
        waits: Waits::default(),
        connections: patience::connections(config),
        drain_timeout: shape.drain_timeout,
        order,
        slos: config.slo.clone(),
        save_text: config.save_text == Some(true),
        count_later: counts_later(config),
        save_events: config.save_events == Some(true),
        rx_timestamps: false,
        shards: placement.shards,
        own_shards: 0..placement.shards,
        cores: placement.cores.clone(),
        run_id: 0,
        limits: Limits::default(),
    }
}

/// Whether answers that the server does not count are counted after the run.
fn counts_later(config: &BenchConfig) -> bool {
    config.save_text == Some(true)
        && config.tokenizer.is_some()
        && config.records != Some(RecordsKind::None)
}

/// What a user who asks for counted answers should know when they can't be counted.
fn unrecorded(config: &BenchConfig) -> Option<String> {
    let asked = config.save_text == Some(true) && config.tokenizer.is_some();
    (asked && !counts_later(config)).then(|| {
        "answers are counted from their records: with --records none the tokenizer counts prompts \
         alone"
            .to_owned()
    })
}

pub(crate) fn limits(config: &BenchConfig) -> Result<Limits, Complaint> {
    let bounds = config.limits.clone().unwrap_or_default();
    bounds.over(Limits::default()).map_err(Complaint::new)
}

/// The bounds of the run, with those that the machine decides. `rings`: how many of them there are in the
/// place of one.
fn sized(config: &BenchConfig, room: &Room, rings: u32) -> Result<Limits, Complaint> {
    let mut limits = limits(config)?;
    let bounds = config.limits.as_ref();
    if bounds.is_none_or(|bounds| bounds.slots.is_none()) {
        limits.slots = room.in_flight(limits.slots);
    }
    limits.receive_buffers = scale::buffers(config, limits.receive_buffers, rings);
    limits.records_queued_max = scale::queued(config, limits.records_queued_max, rings);
    Ok(limits)
}

fn verdict(config: &BenchConfig) -> Result<VerdictLimits, Complaint> {
    let mut limits = config.verdict.unwrap_or_default();
    if let Some(rate) = config.max_error_rate {
        if !(0.0..=1.0).contains(&rate) {
            return Err(Complaint::new(format!(
                "--max-error-rate {rate}: it is a share of requests, from 0 to 1"
            )));
        }
        limits.max_error_rate = Some(rate);
    }
    limits.check()?;
    Ok(limits)
}

/// Differs from run to run, so that a server's log tells them apart.
pub(crate) fn run_id() -> u32 {
    let wall = crate::folder::wall_clock().0;
    // The low bits of microseconds, stirred with the process id.
    let mixed = (wall / 1_000).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
    u32::try_from(mixed).unwrap_or(0) ^ process::id()
}

fn stamps(config: &BenchConfig, backend: Backend, peers: &[Peer]) -> Result<bool, Complaint> {
    let unix = peers.iter().any(|peer| matches!(peer, Peer::Unix(_)));
    let possible = backend.has_stamps() && !unix;
    match config.rx_timestamps {
        Some(OnOff::On) if !backend.has_stamps() => Err(Complaint::new(format!(
            "--rx-timestamps on: {} hands out no kernel stamps; leave it out, or use --driver uring or epoll",
            backend.name()
        ))),
        Some(OnOff::On) if unix => Err(Complaint::new(
            "--rx-timestamps on: the kernel stamps TCP alone, and the endpoint is a unix socket; leave it out",
        )),
        Some(OnOff::On) => Ok(true),
        Some(OnOff::Off) => Ok(false),
        None => Ok(possible && config.offline != Some(true)),
    }
}

/// Memory by consumer, which must be there.
fn memory(plan: &Plan, backend: Backend, prompts: &Prompts) -> Result<Vec<MemoryLine>, Complaint> {
    let mut lines = plan.limits.memory(
        plan.own_count(),
        plan.slots_of(plan.own_shards.start),
        plan.connections_of(plan.own_shards.start),
        &plan.collector(),
        size_of::<Record>(),
    );
    lines.push(MemoryLine {
        what: "request bodies",
        bytes: prompts.bytes(),
    });
    if plan.target.is_secure() {
        lines.extend(sealed(plan, prompts));
    }
    lines.extend(asked_for(plan));
    if backend.holds_buffers() {
        lines.push(MemoryLine {
            what: "reads that wait",
            bytes: connections(plan) * plan.limits.receive_buffer_bytes as u64,
        });
    }
    let needed = sum(&lines);
    match machine::memory_available() {
        Some(available) if needed > available => Err(Complaint::new(format!(
            "the run needs {} of memory, and {} are available: lower --concurrency, \
             --dataset-samples, or the bounds under `limits` in a file",
            bytes(needed),
            bytes(available)
        ))),
        _ => Ok(lines),
    }
}

/// What several endpoints and limits on parts of a request take.
fn asked_for(plan: &Plan) -> impl Iterator<Item = MemoryLine> {
    let over = |of: &dyn Fn(u32) -> u64| plan.own_shards.clone().map(of).sum();
    let timers = plan.waits.slot_bytes() as u64;
    let lines = [
        MemoryLine {
            what: "endpoints",
            bytes: over(&|k| plan.spread_bytes(k)),
        },
        MemoryLine {
            what: "timeouts",
            bytes: over(&|k| timers * u64::from(plan.slots_of(k))),
        },
    ];
    lines.into_iter().filter(|line| line.bytes > 0)
}

/// Those of this process, at most.
fn connections(plan: &Plan) -> u64 {
    let of = |k| u64::from(plan.connections_of(k));
    plan.own_shards.clone().map(of).sum()
}

/// What connections take that go through TLS.
fn sealed(plan: &Plan, prompts: &Prompts) -> [MemoryLine; 2] {
    let connections = connections(plan);
    let longest = prompts.bodies.iter().map(|body| body.len() as u64).max();
    [
        // Keys and the state of the protocol.
        MemoryLine {
            what: "TLS",
            bytes: connections * ridgeline_tls::SESSION_BYTES as u64,
        },
        // Bodies are sealed for each connection.
        MemoryLine {
            what: "sealed requests",
            bytes: connections * longest.unwrap_or(0),
        },
    ]
}

pub(crate) fn sum(lines: &[MemoryLine]) -> u64 {
    lines.iter().map(|line| line.bytes).sum()
}

/// `1.5 GB`: three digits and a decimal unit.
pub(crate) fn bytes(count: u64) -> String {
    let units = ["B", "kB", "MB", "GB", "TB"];
    let (mut scale, mut unit) = (1, 0);
    while count / scale >= 1_000 && unit + 1 < units.len() {
        (scale, unit) = (scale * 1_000, unit + 1);
    }
    let tenths = count / (scale / 10).max(1);
    if unit == 0 || tenths >= 1_000 {
        return format!("{} {}", count / scale, units[unit]);
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, units[unit])
}

/// Writes what was decided into the configuration.
fn note(config: &mut BenchConfig, shape: &Shape, plan: &Plan, endpoint: &Endpoint) {
    shape.note(config);
    patience::note(config);
    prompts::note(config);
    config.model = Some(endpoint.model.clone());
    config.endpoint_type.get_or_insert(EndpointKind::Chat);
    config.streaming = Some(plan.streaming);
    config.driver.get_or_insert(DriverKind::Auto);
    config.rx_timestamps = Some(if plan.rx_timestamps {
        OnOff::On
    } else {
        OnOff::Off
    });
    config.shards = Some(plan.shards);
    config.records.get_or_insert(RecordsKind::Jsonl);
    config.limits = Some(Bounds::of(&plan.limits));
    if !matches!(plan.load, Load::Open { .. })
        && let Some(limits) = &mut config.limits
    {
        // The load names its own number.
        limits.slots = None;
    }
}

fn target_words(endpoint: &Endpoint, plan: &Plan) -> String {
    let addresses = match (plan.target.endpoints(), endpoint.peers.len()) {
        (1, 1) => String::new(),
        (1, several) => format!(" ({several} addresses)"),
        (several, addresses) => format!(
            " and {} more ({addresses} addresses), {}",
            several - 1,
            endpoint.balance
        ),
    };
    let how = if plan.streaming {
        "streamed"
    } else {
        "not streamed"
    };
    let target = &plan.target;
    let http = http::words(target.http2.as_ref(), target.is_secure());
    format!(
        "{}{addresses}, model {}, {how}{http}",
        endpoint.url, endpoint.model
    )
}

fn client_words(plan: &Plan, placement: &Placement, memory: &[MemoryLine], room: &Room) -> String {
    let stamps = if plan.rx_timestamps {
        ", kernel stamps"
    } else {
        ""
    };
    format!(
        "{}, {}{stamps}, {} of memory{}",
        placement.describe(),
        room.backend.name(),
        bytes(sum(memory)),
        room.words()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_as_a_person_reads_them() {
        for (count, text) in [
            (0, "0 B"),
            (999, "999 B"),
            (1_000, "1.0 kB"),
            (25_340_000, "25.3 MB"),
            (999_949_999, "999 MB"),
            (1_500_000_000, "1.5 GB"),
        ] {
            assert_eq!(bytes(count), text);
        }
    }

    #[test]
    fn an_error_rate_is_a_share() {
        let config = BenchConfig {
            max_error_rate: Some(1.5),
            ..BenchConfig::default()
        };
        let error = verdict(&config).unwrap_err().to_string();
        assert!(error.contains("--max-error-rate 1.5"), "{error}");
    }
}
