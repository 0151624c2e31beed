//! `ridgeline feed`: the same query to a worker over and over, as fast as it takes them. `versus service`
//! measures the worker with it.

use clap::Args;
use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use ridgeline_net_epoll::{EpollConfig, EpollDriver};
use ridgeline_service::protocol::{Batch, BodyFrame, Outward, QueryFrame, read_outward};
use ridgeline_transport::{Flow, Left, Limits, PeerId, Receiver, Refused, To, Transport};
use ridgeline_transport_zmq::{Address, Kind, Zmq};
use serde_json::json;

use crate::complaint::Complaint;
use crate::span::Span;
use crate::terminal;

/// A look at the other socket at least this often.
const TICK: Nanos = Nanos::from_millis(20);

/// What is fed.
#[derive(Args, Debug)]
pub(crate) struct FeedArgs {
    /// Where the worker takes queries
    #[arg(long, value_name = "ADDRESS")]
    requests: String,
    /// Where it sends results
    #[arg(long, value_name = "ADDRESS")]
    responses: String,
    /// The body of every query
    #[arg(long, value_name = "JSON")]
    body: String,
    /// Whether the body asks for a stream
    #[arg(long)]
    stream: bool,
    /// Queries
    #[arg(long, value_name = "N", default_value_t = 1_000_000)]
    count: u64,
    /// Queries in a message
    #[arg(long, value_name = "N", default_value_t = 128,
          value_parser = clap::value_parser!(u32).range(1..=4096))]
    batch: u32,
    /// Queries without a result, at most
    #[arg(long, value_name = "N", default_value_t = 4096)]
    window: u64,
    /// How long to wait for a result before giving up
    #[arg(long, value_name = "SPAN", default_value = "30s")]
    silence: Span,
}

type End = Zmq<EpollDriver, MonotonicClock>;

fn connect(kind: Kind, address: &str) -> Result<End, Complaint> {
    let driver = EpollDriver::new(EpollConfig {
        rx_timestamps: false,
        ..EpollConfig::default()
    })?;
    let limits = Limits {
        message_bytes_max: 64 << 20,
        ..Limits::data()
    };
    let mut end = Zmq::new(driver, MonotonicClock, kind, limits);
    end.connect(&address.parse::<Address>()?)?;
    Ok(end)
}

/// What came back.
#[derive(Debug, Default)]
struct Got {
    results: u64,
    ok: u64,
    notices: u64,
    /// The first thing that was wrong.
    wrong: Option<String>,
}

impl Receiver for Got {
    fn joined(&mut self, _: PeerId, _: &str) {}

    fn message(&mut self, _: PeerId, message: &[u8]) -> Flow {
        match read_outward(message) {
            Ok(Outward::Results(results)) => {
                self.results += results.len() as u64;
                let ok = results.iter().filter(|result| result.outcome == "ok");
                self.ok += ok.count() as u64;
                let failed = results.iter().find(|result| result.outcome != "ok");
                if let Some(failed) = failed {
                    let message = failed.message.unwrap_or_default();
                    let text = format!("query {} {}: {message}", failed.id, failed.outcome);
                    self.wrong.get_or_insert(text);
                }
            }
            Ok(Outward::Notices(notices)) => self.notices += notices.len() as u64,
            Ok(Outward::Error { text, .. }) => {
                self.wrong.get_or_insert_with(|| text.to_owned());
            }
            Ok(Outward::Ended(_)) => {
                self.wrong
                    .get_or_insert_with(|| "the worker ended".to_owned());
            }
            Err(trouble) => {
                self.wrong.get_or_insert_with(|| trouble.to_string());
            }
        }
        Flow::More
    }

    fn left(&mut self, _: PeerId, left: &Left) {
        self.wrong
            .get_or_insert_with(|| format!("the worker is gone: {left}"));
    }
}

/// Feeds a worker, and prints what came of it as a line of JSON.
pub(crate) fn command(args: &FeedArgs) -> Result<u8, Complaint> {
    let mut requests = connect(Kind::Push, &args.requests)?;
    let mut responses = connect(Kind::Pull, &args.responses)?;
    let mut got = Got::default();
    let mut sent = 0;
    let mut ready: Option<Vec<u8>> = None;
    let mut spare = Vec::new();
    let start = MonotonicClock.now();
    let mut heard = start;
    while got.results < args.count {
        let before = got.results;
        loop {
            let count = u64::from(args.batch).min(args.count - sent);
            if ready.is_none() && count > 0 && sent - got.results + count <= args.window.max(count)
            {
                ready = Some(batch(args, sent, count, std::mem::take(&mut spare)));
                sent += count;
            }
            let Some(message) = ready.take() else {
                break;
            };
            match requests.send(To::Any, &message) {
                Ok(()) => spare = message,
                Err(Refused::Full | Refused::NoPeer | Refused::Gone) => {
                    ready = Some(message);
                    break;
                }
                Err(refused @ Refused::TooLong { .. }) => return Err(refused.into()),
            }
        }
        requests.turn(Nanos::ZERO, &mut got)?;
        let now = MonotonicClock.now();
        responses.turn(now + TICK, &mut got)?;
        if got.results > before {
            heard = now;
        }
        let silent = now - heard > args.silence.0;
        if let Some(wrong) = got
            .wrong
            .take()
            .or_else(|| silent.then(|| "no answer comes".to_owned()))
        {
            return Err(Complaint::new(format!(
                "{wrong}; {} of {} queries have results",
                got.results, args.count
            )));
        }
    }
    let elapsed = MonotonicClock.now() - start;
    let line = json!({
        "requests": got.ok,
        "notices": got.notices,
        "elapsed_ns": elapsed.0,
    });
    terminal::print(&format!("{line}\n"))?;
    Ok(0)
}

fn batch(args: &FeedArgs, first: u64, count: u64, buffer: Vec<u8>) -> Vec<u8> {
    let mut batch = Batch::over(buffer);
    for id in first..first + count {
        batch.push(&QueryFrame {
            id,
            due_ns: 0,
            endpoint: None,
            stream: args.stream,
            text: false,
            body: BodyFrame::Whole(args.body.as_bytes()),
        });
    }
    batch.into_message()
}
