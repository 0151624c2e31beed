//! `ridgeline probe`: one request, everything explained.

use std::io::{self, ErrorKind, Read, Write};
use std::path::PathBuf;

use clap::Args;
use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use ridgeline_engine::id_prefix;
use ridgeline_tls::Client;
use ridgeline_wire::exchange::ErrorKind as Kind;
use ridgeline_wire::openai::EndpointType;

use crate::bench::merged;
use crate::complaint::Complaint;
use crate::config::{BenchConfig, EndpointKind};
use crate::endpoint::Address;
use crate::explain::{Explainer, printable};
use crate::network::Stream;
use crate::prompts::Prompts;
use crate::secrets::{REDACTED, is_secret};
use crate::{setup, terminal};

/// Exit code when the request failed.
const FAILED: u8 = 4;
/// How much of the request's body is shown.
const SHOWN_CHARS_MAX: usize = 2_000;

/// The flags of a run: what shapes its load has no effect on one request, and no place in the help.
#[derive(Args, Debug)]
#[command(mut_args = |arg: clap::Arg| {
    let hide = arg.get_help_heading().is_some_and(|h| ["Load", "Client", "Judgement", "Output"].contains(&h));
    let hide = hide && arg.get_id() != "timeout";
    arg.hide(hide)
})]
pub(crate) struct ProbeArgs {
    /// A YAML file of a run, whose first request is sent; flags win
    #[arg(long = "config", short = 'f', value_name = "FILE")]
    file: Option<PathBuf>,
    /// Ask for a whole answer
    #[arg(long, help_heading = "Endpoint", overrides_with = "streaming")]
    no_streaming: bool,
    #[command(flatten)]
    config: BenchConfig,
}

/// Sends the first request that a run would send.
pub(crate) fn command(args: &ProbeArgs) -> Result<u8, Complaint> {
    let mut config = merged(&args.config, args.no_streaming, args.file.as_deref())?;
    // One request: a prompt each for thousands is not needed.
    config.request_count = Some(1);
    config.duration = None;
    config.warmup_requests = None;
    setup::check(&config)?;
    let endpoint = Address::new(&config)?.reach(&config, &id_prefix(setup::run_id()), None)?;
    let prompts = Prompts::new(&config, &endpoint.model)?;
    let body = prompts.bodies.first().cloned().unwrap_or_default();
    let mut head = Vec::new();
    endpoint
        .template
        .write_head(0, body.len() as u64, &mut head);
    let peer = &endpoint.peers[0];
    let mut out = terminal::Results::new();
    for note in endpoint.notes.iter().chain(&prompts.notes) {
        writeln!(out, "note: {note}")?;
    }
    let connecting = MonotonicClock.now();
    let stream = Stream::open(peer)
        .map_err(|error| Complaint::new(format!("cannot connect to {peer}: {error}")))?;
    let connected = MonotonicClock.now() - connecting;
    writeln!(
        out,
        "target    {}\nconnected to {peer} in {connected}",
        endpoint.url
    )?;
    let stream = match &endpoint.tls {
        Some(client) => secure(stream, client, &mut out)?,
        None => stream,
    };
    writeln!(out)?;
    show_request(&mut out, &head, &body)?;
    let streaming = config.streaming.unwrap_or(true);
    let kind = match config.endpoint_type.unwrap_or(EndpointKind::Chat) {
        EndpointKind::Chat => EndpointType::Chat,
        EndpointKind::Completions => EndpointType::Completions,
    };
    let sent_at = MonotonicClock.now();
    let deadline = sent_at + config.timeout.map_or(Nanos::from_secs(600), |span| span.0);
    let mut explainer = Explainer::new(kind, streaming, sent_at);
    head.extend_from_slice(&body);
    converse(stream, &head, deadline, &mut explainer, &mut out)?;
    write!(out, "\n{}", explainer.summary())?;
    Ok(if explainer.succeeded() { 0 } else { FAILED })
}

/// Shakes hands, and says what was agreed on.
fn secure(stream: Stream, client: &Client, out: &mut impl Write) -> Result<Stream, Complaint> {
    let begun = MonotonicClock.now();
    let stream = stream.secure(client)?;
    let span = MonotonicClock.now() - begun;
    if let Some(session) = stream.session() {
        let version = session.version();
        let version = version.map_or_else(|| "TLS".to_owned(), |version| version.to_string());
        let resumed = if session.is_resumed() {
            ", resumed"
        } else {
            ""
        };
        let protocol = String::from_utf8_lossy(session.protocol().unwrap_or(b"none"));
        let checked = if client.is_checked() {
            "certificate checked"
        } else {
            "certificate NOT checked"
        };
        let protocol = printable(&protocol, SHOWN_CHARS_MAX);
        writeln!(
            out,
            "secured by {version} in {span}{resumed}, protocol {protocol}, {checked}"
        )?;
    }
    Ok(stream)
}

/// The request as it is sent, without secrets.
fn show_request(out: &mut impl Write, head: &[u8], body: &[u8]) -> io::Result<()> {
    for line in String::from_utf8_lossy(head).lines() {
        match line.split_once(':') {
            Some((name, _)) if is_secret(name) => writeln!(out, "> {name}: {REDACTED}")?,
            _ => writeln!(out, "> {}", printable(line, SHOWN_CHARS_MAX))?,
        }
    }
    writeln!(
        out,
        "> {}\n",
        printable(&String::from_utf8_lossy(body), SHOWN_CHARS_MAX)
    )
}

/// Sends the request and explains what comes, until the answer is over.
fn converse(
    mut stream: Stream,
    request: &[u8],
    deadline: Nanos,
    explainer: &mut Explainer,
    out: &mut impl Write,
) -> Result<(), Complaint> {
    let now = || MonotonicClock.now();
    stream.set_timeout((deadline - now()).into())?;
    // A server may answer before it has read everything, and close: its answer still counts.
    let sent = stream.write_all(request);
    let mut buffer = vec![0; 64 << 10];
    while !explainer.is_over() {
        if now() >= deadline {
            explainer.failed(
                Kind::Timeout,
                "no complete answer within --timeout".into(),
                now(),
            );
            break;
        }
        stream.set_timeout((deadline - now()).into())?;
        let lines = match stream.read(&mut buffer) {
            Ok(0) => explainer.ended(true, now()),
            Ok(read) => explainer.received(&buffer[..read], now()),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => continue,
                ErrorKind::ConnectionReset | ErrorKind::BrokenPipe => explainer.ended(false, now()),
                ErrorKind::UnexpectedEof => {
                    explainer.failed(Kind::TlsTruncated, error.to_string(), now());
                    String::new()
                }
                ErrorKind::InvalidData => {
                    explainer.failed(Kind::Tls, error.to_string(), now());
                    String::new()
                }
                _ => {
                    let kind = if sent.is_err() {
                        Kind::Send
                    } else {
                        Kind::Reset
                    };
                    explainer.failed(kind, error.to_string(), now());
                    String::new()
                }
            },
        };
        out.write_all(lines.as_bytes())?;
        out.flush()?;
    }
    Ok(())
}
