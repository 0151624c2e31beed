//! `ridgeline worker --requests ADDRESS --responses ADDRESS`: the engine as a service.

use std::net::IpAddr;
use std::sync::Arc;

use clap::Args;
use ridgeline_clock::Nanos;
use ridgeline_engine::{Control, Plan, id_prefix};
use ridgeline_service::{Limits, Options, Served, Service};

use crate::backend::{Ends, Engine};
use crate::balance::Balance;
use crate::bounds::Bounds;
use crate::complaint::Complaint;
use crate::config::{BenchConfig, ConnectionsKind, DriverKind, EndpointKind, OnOff, RecordsKind};
use crate::endpoint::Address;
use crate::secure::SecureArgs;
use crate::setup::{self, Setup};
use crate::span::Span;
use crate::{machine, signals, terminal};

/// Queries in flight where no number is given.
const CONCURRENCY: u32 = 256;
/// After the drain: for results that nobody has taken yet.
const GRACE: Nanos = Nanos::from_secs(2);

/// The flags of a service.
#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    /// Where queries come in, as ipc:///run/requests or tcp://127.0.0.1:7000: a PULL socket is bound there
    #[arg(
        long,
        value_name = "ADDRESS",
        help_heading = "Service",
        required_unless_present = "listen"
    )]
    requests: Option<String>,
    /// Where first tokens and results go out: a PUSH socket is bound there
    #[arg(
        long,
        value_name = "ADDRESS",
        help_heading = "Service",
        required_unless_present = "listen"
    )]
    responses: Option<String>,
    /// Queries that may be unanswered, those in flight included; beyond it nothing is read [default: 16384,
    /// at least 4 times those in flight]
    #[arg(long, value_name = "N", help_heading = "Service",
          value_parser = clap::value_parser!(u32).range(1..=4_000_000))]
    queue: Option<u32>,
    /// Bytes that the bodies of those may take; beyond it nothing is read
    #[arg(long, value_name = "BYTES", help_heading = "Service", default_value_t = 256 << 20)]
    bodies_bytes_max: usize,
    /// After SIGINT or SIGTERM: how long what was taken may go on until it is cancelled
    #[arg(
        long,
        value_name = "SPAN",
        help_heading = "Service",
        default_value = "30s"
    )]
    drain_timeout: Span,
    /// Base URL of the endpoint, as http://127.0.0.1:8000, https://HOST, or unix:PATH; several are given by as
    /// many --url, and do the same
    #[arg(
        long,
        short = 'u',
        help_heading = "Endpoint",
        required_unless_present = "listen"
    )]
    url: Vec<String>,
    /// How queries are dealt out to several endpoints: round-robin (by their ids), least-in-flight, or
    /// weights=3,1 [default: round-robin]
    #[arg(long, help_heading = "Endpoint", value_name = "HOW")]
    balance: Option<Balance>,
    /// How answers are read whose path does not tell [default: chat]
    #[arg(long, value_enum, help_heading = "Endpoint")]
    endpoint_type: Option<EndpointKind>,
    /// Path below the URL of queries that name none, in place of the one that belongs to the type
    #[arg(long, help_heading = "Endpoint", value_name = "PATH")]
    endpoint: Option<String>,
    /// A header of every request, `Name: value`; may be given several times
    #[arg(
        long = "header",
        short = 'H',
        help_heading = "Endpoint",
        value_name = "NAME:VALUE"
    )]
    header: Vec<String>,
    /// Environment variable that holds the API key, sent as a bearer token
    #[arg(long, help_heading = "Endpoint", value_name = "NAME")]
    api_key_env: Option<String>,
    /// Local addresses to connect from, by commas
    #[arg(
        long,
        value_delimiter = ',',
        help_heading = "Endpoint",
        value_name = "LIST"
    )]
    source_addresses: Vec<IpAddr>,
    #[command(flatten)]
    secure: SecureArgs,

    /// Queries in flight, each on a connection of its own; more wait [default: 256]
    #[arg(
        long,
        short = 'c',
        visible_alias = "max-concurrency",
        help_heading = "Client",
        value_name = "N"
    )]
    concurrency: Option<u32>,
    /// Deadline of a whole request, from when it has a place in flight [default: 600s]
    #[arg(long, help_heading = "Client", value_name = "SPAN")]
    timeout: Option<Span>,
    /// What becomes of connections: reuse keeps them for other queries as long as the server does; with
    /// per-request each query has its own [default: reuse]
    #[arg(long, value_enum, help_heading = "Client")]
    connections: Option<ConnectionsKind>,
    /// How long a connection may take to be set up [default: what the request may take]
    #[arg(long, help_heading = "Client", value_name = "SPAN")]
    connect_timeout: Option<Span>,
    /// How long the first token of a streamed answer may take, from submission [default: what the request
    /// may take]
    #[arg(long, help_heading = "Client", value_name = "SPAN")]
    first_token_timeout: Option<Span>,
    /// How long a stream may stand still after a content event [default: what the request may take]
    #[arg(long, help_heading = "Client", value_name = "SPAN")]
    event_timeout: Option<Span>,
    /// Shards: threads that drive load, a multiple of the cores [default: one per named core, else 1]
    #[arg(long, help_heading = "Client", value_name = "N")]
    shards: Option<u32>,
    /// How sockets are driven; auto: uring where the kernel allows it, else epoll [default: auto]
    #[arg(long, value_enum, help_heading = "Client")]
    driver: Option<DriverKind>,
    /// Stamp arrivals in the kernel, TCP only [default: on]
    #[arg(long, value_enum, help_heading = "Client")]
    rx_timestamps: Option<OnOff>,
}

impl ServeArgs {
    /// The same as a run without an end. What a run sends and when is the queries' to say: its one prompt
    /// is never sent, and neither is its model.
    fn config(&self, cores: Option<&str>) -> BenchConfig {
        self.secure.over(BenchConfig {
            url: self.url.clone(),
            balance: self.balance.clone(),
            endpoint_type: self.endpoint_type,
            endpoint: self.endpoint.clone(),
            header: self.header.clone(),
            api_key_env: self.api_key_env.clone(),
            source_addresses: self.source_addresses.clone(),
            concurrency: Some(self.concurrency.unwrap_or(CONCURRENCY)),
            timeout: self.timeout,
            connections: self.connections,
            connect_timeout: self.connect_timeout,
            first_token_timeout: self.first_token_timeout,
            event_timeout: self.event_timeout,
            cores: cores.map(str::to_owned),
            shards: self.shards,
            driver: self.driver,
            rx_timestamps: self.rx_timestamps,
            model: Some("none".to_owned()),
            prompt: Some(".".to_owned()),
            records: Some(RecordsKind::None),
            limits: Some(Bounds {
                // A result must fit a message.
                body_bytes_max: Some(Limits::default().message_bytes_max / 2),
                ..Bounds::default()
            }),
            ..BenchConfig::default()
        })
    }

    fn limits(&self, in_flight: u32) -> Limits {
        let usual = Limits::default();
        let queries_max = match self.queue {
            Some(queue) => queue as usize,
            None => usual.queries_max.max(4 * in_flight as usize),
        };
        Limits {
            queries_max,
            bodies_bytes_max: self.bodies_bytes_max,
            ..usual
        }
    }
}

/// Serves until a client says `end`, or a signal comes. The exit code.
pub(crate) fn command(args: &ServeArgs, cores: Option<&str>, quiet: bool) -> Result<u8, Complaint> {
    let (Some(requests), Some(responses)) = (&args.requests, &args.responses) else {
        return Err(Complaint::new("a service needs --requests and --responses"));
    };
    let ends = Ends {
        requests: requests.parse()?,
        responses: responses.parse()?,
        limits: transport_limits(),
    };
    let setup = Setup::new(args.config(cores))?;
    let heads = Address::new(&setup.config)?.heads(&setup.config, &id_prefix(setup.plan.run_id));
    let heads = heads.ok_or_else(|| Complaint::new("a service needs --url"))?;
    let plan = Arc::new(Plan {
        // Each request has its timeout, and the service its drain.
        drain_timeout: Nanos::MAX,
        ..(*setup.plan).clone()
    });
    let in_flight = (0..plan.shards).map(|k| plan.slots_of(k)).sum();
    let limits = args.limits(in_flight);
    let service = Service::new(Options {
        limits,
        heads,
        slots: (0..plan.shards).map(|k| plan.slots_of(k)).collect(),
    })?;
    let control = Arc::new(Control::new(plan.shards));
    signals::watch_service(service.stop(), control.clone(), args.drain_timeout.0, GRACE)
        .map_err(|error| Complaint::new(format!("cannot wait for signals: {error}")))?;
    if !quiet {
        announce(&setup, &limits);
    }
    if let Some(cores) = &plan.cores {
        // The sockets' threads share the shards' cores: what is left to others is the same as in a run.
        machine::keep_to(cores);
    }
    let said = format!("listening on {requests}, answering on {responses}\n");
    let engine = Engine {
        plan: &plan,
        requests: &setup.requests,
        control: &control,
    };
    // With stdout gone there is nobody to tell.
    let ready = || drop(terminal::print(&said));
    let served = setup.backend.serve(service, &ends, &engine, ready)?;
    conclude(&served, quiet)?;
    Ok(0)
}

/// What is about to be served, and the memory for it.
fn announce(setup: &Setup, limits: &Limits) {
    for (name, words) in &setup.summary {
        if ["target", "client"].contains(name) {
            terminal::note(&format!("{name:<8} {}", words.replace(", model none", "")));
        }
    }
    terminal::note(&format!(
        "service  {} queries unanswered at most, {} of memory for them",
        limits.queries_max,
        setup::bytes(limits.bytes())
    ));
    for note in &setup.notes {
        terminal::note(&format!("note: {note}"));
    }
}

fn conclude(served: &Served, quiet: bool) -> Result<(), Complaint> {
    let totals = &served.totals;
    if !quiet {
        terminal::print(&format!(
            "{} queries: {} ok, {} failed, {} cancelled; {} errors told\n",
            totals.queries, totals.ok, totals.failed, totals.cancelled, totals.errors
        ))?;
    }
    if served.messages_lost > 0 {
        terminal::note(&format!(
            "note: {} messages of results reached nobody: a client left while they were on their way to \
             it, or none was there to take them",
            served.messages_lost
        ));
    }
    Ok(())
}

/// The bounds of both sockets. A message somewhat beyond the service's limit is answered, one far
/// beyond it ends its connection. Few messages wait to be sent: they are large, and those that wait for
/// a client that leaves are lost with it.
fn transport_limits() -> ridgeline_transport::Limits {
    ridgeline_transport::Limits {
        message_bytes_max: 2 * Limits::default().message_bytes_max,
        queued_messages_max: 64,
        queued_bytes_max: 1 << 20,
        ..ridgeline_transport::Limits::data()
    }
}
