use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU32;
use std::os::unix::net::UnixStream;

use ridgeline_clock::Nanos;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::config::{Limits, Mode, ServerConfig};
use crate::run::{CORES_MAX, DriverKind, Running, ServerError, start};

/// The flags of the mock server, the same for its own binary and for `ridgeline mock-server`.
#[derive(Clone, Debug, clap::Args)]
pub struct MockServerArgs {
    /// When tokens are sent: at once (instant), or at fixed times (model)
    #[arg(long, value_enum, default_value_t = ModeKind::Model)]
    pub mode: ModeKind,
    /// The address to listen on
    #[arg(long, default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST))]
    pub host: IpAddr,
    /// The port to listen on; 0: any free one, which is printed
    #[arg(long, default_value_t = 8000)]
    pub port: u16,
    /// Model mode: from the request's last byte to the first token (20ms, 750us, 1.5s)
    #[arg(long, value_name = "SPAN", default_value = "20ms", value_parser = span)]
    pub time_to_first_token: Nanos,
    /// Model mode: from one token to the next
    #[arg(long, value_name = "SPAN", default_value = "5ms", value_parser = span)]
    pub inter_token_latency: Nanos,
    /// Instant mode: events that share one write
    #[arg(long, value_name = "N|all", default_value = "all", value_parser = events_per_write)]
    pub events_per_write: EventsPerWrite,
    /// Tokens of an answer whose request sets no maximum
    #[arg(long, value_name = "N", default_value_t = 64,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(Limits::default().tokens_max)))]
    pub max_tokens_default: u32,
    /// The model that /v1/models lists
    #[arg(long, value_name = "NAME", default_value = "mock")]
    pub model: String,
    /// How to talk to the kernel
    #[arg(long, value_enum, default_value_t = DriverKind::Auto)]
    pub driver: DriverKind,
    /// One pinned thread per core (0,2-3); none: one thread, not pinned
    #[arg(long, value_name = "LIST|none", default_value = "none", value_parser = cores)]
    pub cores: Cores,
}

/// `--mode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum ModeKind {
    /// All tokens at once
    Instant,
    /// Each token at its time
    Model,
}

/// `--events-per-write`: a number, or all of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventsPerWrite(pub Option<NonZeroU32>);

/// `--cores`: the cores to pin one shard each to, or none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cores(pub Option<Vec<usize>>);

impl MockServerArgs {
    /// What the flags ask the server to be.
    #[must_use]
    pub fn config(&self) -> ServerConfig {
        let mode = match self.mode {
            ModeKind::Instant => Mode::Instant {
                events_per_write: self.events_per_write.0,
            },
            ModeKind::Model => Mode::Model {
                time_to_first_token: self.time_to_first_token,
                inter_token_latency: self.inter_token_latency,
            },
        };
        ServerConfig {
            mode,
            model: self.model.clone(),
            max_tokens_default: self.max_tokens_default,
            limits: Limits::default(),
        }
    }

    /// Starts the server that the flags ask for.
    ///
    /// # Errors
    /// As [`start`].
    pub fn start(&self) -> Result<Running, ServerError> {
        let listen = SocketAddr::new(self.host, self.port);
        start(self.config(), listen, self.driver, self.cores.0.clone())
    }
}

/// The whole command: starts the server, prints `listening on URL` as the first line, and serves
/// until SIGINT or SIGTERM.
///
/// # Errors
/// When the server can't start, or had to end.
pub fn command(args: &MockServerArgs) -> Result<(), ServerError> {
    let running = args.start()?;
    let stopper = running.stopper();
    let mut signals = signals()?;
    std::thread::Builder::new()
        .name("mock-server-signals".to_owned())
        .spawn(move || {
            // A byte per signal; an error can only mean that none will come any more.
            if signals.read_exact(&mut [0]).is_ok() {
                stopper.stop();
            }
        })
        .map_err(|source| ServerError::Os {
            what: "start a thread",
            source,
        })?;
    say(format_args!("listening on {}", running.url()))?;
    let why = running
        .fallback()
        .map_or_else(String::new, |why| format!(" ({why})"));
    let connections_max = running.connections_max();
    say(format_args!(
        "driver: {}{why}, up to {connections_max} connections a thread",
        running.driver()
    ))?;
    let served = running.join()?;
    say(format_args!(
        "served {} requests on {} connections: {} refused, {} cut off, {} tokens",
        served.requests,
        served.connections,
        served.requests_refused,
        served.answers_cut,
        served.tokens,
    ))
}

/// The end of a socket at which every SIGINT and SIGTERM puts a byte.
fn signals() -> Result<UnixStream, ServerError> {
    let failed = |source| ServerError::Os {
        what: "wait for signals",
        source,
    };
    let (read, write) = UnixStream::pair().map_err(failed)?;
    for signal in [SIGINT, SIGTERM] {
        let write = write.try_clone().map_err(failed)?;
        signal_hook::low_level::pipe::register(signal, write).map_err(failed)?;
    }
    Ok(read)
}

fn say(line: std::fmt::Arguments<'_>) -> Result<(), ServerError> {
    let mut out = io::stdout().lock();
    // A reader that went away after the first line is no reason to end.
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(ServerError::Os {
            what: "write to stdout",
            source: error,
        }),
        _ => Ok(()),
    }
}

/// A span with its unit: `20ms`, `750us`, `1.5s`, `100ns`, or `0`.
fn span(text: &str) -> Result<Nanos, String> {
    let split = text
        .find(|c: char| c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    let (digits, unit) = text.split_at(split);
    let unit_ns: u64 = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "" if digits == "0" => 1,
        _ => return Err("expected a number and ns, us, ms, s or m, like 750us".to_owned()),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let whole: u64 = whole
        .parse()
        .map_err(|_| format!("{digits:?} is not a number"))?;
    let mut span = whole.checked_mul(unit_ns).ok_or("too long")?;
    let mut place_ns = unit_ns;
    for digit in fraction.chars() {
        place_ns /= 10;
        let digit = digit
            .to_digit(10)
            .ok_or_else(|| format!("{digits:?} is not a number"))?;
        span = span
            .checked_add(u64::from(digit) * place_ns)
            .ok_or("too long")?;
    }
    Ok(Nanos(span))
}

fn events_per_write(text: &str) -> Result<EventsPerWrite, String> {
    if text == "all" {
        return Ok(EventsPerWrite(None));
    }
    let events = text
        .parse()
        .map_err(|_| "expected `all` or a number from 1 on".to_owned())?;
    Ok(EventsPerWrite(Some(events)))
}

fn cores(text: &str) -> Result<Cores, String> {
    if text == "none" {
        return Ok(Cores(None));
    }
    let number = |text: &str| -> Result<usize, String> {
        let core = text.parse().ok().filter(|core| *core < CORES_MAX);
        core.ok_or_else(|| format!("{text:?} is no core: expected `none` or a list like 0,2-3"))
    };
    let mut cores = Vec::new();
    for range in text.split(',') {
        let (first, last) = range.split_once('-').unwrap_or((range, range));
        for core in number(first)?..=number(last)? {
            if cores.contains(&core) {
                return Err(format!("core {core} is named twice"));
            }
            cores.push(core);
        }
    }
    Ok(Cores(Some(cores)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        args: MockServerArgs,
    }

    fn parse(flags: &[&str]) -> Result<MockServerArgs, String> {
        Flags::try_parse_from([&["x"], flags].concat())
            .map(|flags| flags.args)
            .map_err(|error| error.to_string())
    }

    #[test]
    fn without_flags_it_is_the_default() {
        let args = parse(&[]).unwrap();
        assert_eq!(args.config(), ServerConfig::default());
        assert_eq!(
            (args.port, args.cores, args.driver),
            (8000, Cores(None), DriverKind::Auto)
        );
    }

    #[test]
    fn flags_reach_the_config() {
        let args = parse(&[
            "--time-to-first-token=750us",
            "--inter-token-latency=0",
            "--max-tokens-default=7",
            "--model=m",
            "--port=0",
            "--cores=0,2-3",
        ])
        .unwrap();
        let mode = Mode::Model {
            time_to_first_token: Nanos::from_micros(750),
            inter_token_latency: Nanos::ZERO,
        };
        let config = args.config();
        assert_eq!(
            (
                config.mode,
                config.max_tokens_default,
                config.model.as_str()
            ),
            (mode, 7, "m")
        );
        assert_eq!(args.cores, Cores(Some(vec![0, 2, 3])));
        let args = parse(&["--mode=instant", "--events-per-write=4"]).unwrap();
        let events_per_write = NonZeroU32::new(4);
        assert_eq!(args.config().mode, Mode::Instant { events_per_write });
    }

    #[test]
    fn spans_have_a_unit_and_are_exact() {
        for (text, ns) in [
            ("0", 0),
            ("0s", 0),
            ("20ms", 20_000_000),
            ("750us", 750_000),
            ("1.5s", 1_500_000_000),
            ("0.000000001s", 1),
            ("2m", 120_000_000_000),
            ("7ns", 7),
        ] {
            assert_eq!(span(text), Ok(Nanos(ns)), "{text}");
        }
        for text in [
            "",
            "5",
            "ms",
            "-1ms",
            "1h",
            "1.x5s",
            "1..5s",
            "99999999999999999999s",
        ] {
            assert!(span(text).is_err(), "{text}");
        }
    }

    #[test]
    fn wrong_flags_are_told() {
        for flags in [
            "--cores=",
            "--cores=1,1",
            "--cores=0-99999999999",
            "--cores=x",
            "--cores=1024",
            "--events-per-write=0",
            "--max-tokens-default=0",
            "--max-tokens-default=100000",
            "--port=70000",
            "--mode=slow",
        ] {
            assert!(parse(&[flags]).is_err(), "{flags}");
        }
    }
}
