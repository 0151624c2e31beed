//! Deadlines of the mock server in model mode, beside those of the bare sleeper at the same rate.

use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::process::Command;

use ridgeline_clock::Nanos;

use crate::child::{Listens, Served};
use crate::versus::Options;
use crate::versus::arm::{self, Arm, Sample, Side};
use crate::versus::preset::{self, Preset};

/// Streams that are open, unless told.
const STREAMS: u32 = 100;
/// Writes per second, unless told: of one stream, and at most. Far from what one core can write, so
/// that lateness comes from waiting for a time, not for the writes before.
const RATE_EACH: f64 = 200.0;
const RATE_MAX: f64 = 5_000.0;

/// What both arms are asked for.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Plan {
    streams: u32,
    /// Writes per second of all streams together.
    rate: f64,
    /// From one write of a stream to its next, in the mean.
    gap: Nanos,
    /// Tokens of a stream, one a write.
    tokens: u64,
}

impl Plan {
    fn of(options: &Options) -> Self {
        let streams = options.connections.unwrap_or(STREAMS);
        let evenly = (RATE_EACH * f64::from(streams)).min(RATE_MAX);
        let rate = options.rate.unwrap_or(evenly);
        let gap = Nanos::from_secs_f64(f64::from(streams) / rate);
        let span = Nanos::from_secs(u64::from(options.seconds));
        Self {
            streams,
            rate,
            gap,
            tokens: span.0.div_ceil(gap.0.max(1)).max(1),
        }
    }

    /// The server's flags. Streams begin at almost the same time: that the times of their tokens are
    /// spread keeps their writes from coming in one burst every gap.
    fn server(self, core: usize) -> Vec<OsString> {
        let flags = [
            ("--mode", "model".to_owned()),
            ("--port", "0".to_owned()),
            ("--cores", core.to_string()),
            ("--max-tokens-default", self.tokens.to_string()),
            ("--time-to-first-token", flag(Nanos(self.gap.0 * 2))),
            ("--time-to-first-token-std-dev", flag(Nanos(self.gap.0 / 2))),
            ("--inter-token-latency", flag(self.gap)),
            ("--inter-token-latency-std-dev", flag(Nanos(self.gap.0 / 4))),
        ];
        let flags = flags
            .into_iter()
            .flat_map(|(name, value)| [name.into(), value.into()]);
        [OsString::from("mock-server")]
            .into_iter()
            .chain(flags)
            .collect()
    }
}

/// A time as a flag's value.
fn flag(span: Nanos) -> String {
    format!("{}us", span.0 / 1_000)
}

/// The sleeper, on the server's core: there the deadlines of the other arm are met, too.
#[derive(Debug)]
pub(crate) struct Sleeping(Arm);

impl Side for Sleeping {
    fn name(&self) -> &'static str {
        self.0.name
    }

    fn sample(&self, options: &Options) -> io::Result<Sample> {
        self.0.sample(&Options {
            client_core: options.server_core,
            ..options.clone()
        })
    }
}

/// The mock server with all streams open, loaded by ridgeline: a process of its own for every run.
#[derive(Debug)]
pub(crate) struct Writing {
    program: PathBuf,
    plan: Plan,
}

impl Side for Writing {
    fn name(&self) -> &'static str {
        "ridgeline"
    }

    /// Starts the server, runs each stream once, ends the server, and reads what it says at its end.
    fn sample(&self, options: &Options) -> io::Result<Sample> {
        let mut command = Command::new(&self.program);
        command.args(self.plan.server(options.server_core));
        let served = Served::start(&mut command, options.server_core, Listens::Says)?;
        let streams = Options {
            connections: Some(self.plan.streams),
            requests: Some(u64::from(self.plan.streams)),
            ..options.clone()
        };
        let load = Preset::Lateness.ridgeline(&streams, served.address())?;
        let loaded = load.sample(options)?;
        let (ended, said) = served.stop()?;
        let late = arm::lateness(&said)
            .map_err(|error| io::Error::other(format!("mock-server: {error}")))?;
        Ok(Sample {
            elapsed_ns: loaded.elapsed_ns,
            wall_ns: loaded.wall_ns,
            cpu_ns: ended.cpu.total_ns(),
            resident_bytes_max: ended.resident_bytes_max,
            verdict: loaded.verdict,
            ..late
        })
    }
}

/// The two sides, the sleeper first.
pub(crate) fn sides(options: &Options) -> io::Result<(Sleeping, Writing)> {
    let plan = Plan::of(options);
    let program = preset::built(&options.ridgeline)?;
    let sleeper = Sleeping(preset::sleeper(options, plan.rate));
    Ok((sleeper, Writing { program, plan }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_last_as_long_as_the_run_at_the_rate_of_the_sleeper() {
        for (connections, rate, gap_ms, tokens) in [
            (Some(1), 200.0, 5, 800),
            (None, 5_000.0, 20, 200),
            (Some(1000), 5_000.0, 200, 20),
        ] {
            let plan = Plan::of(&Options {
                connections,
                ..Options::sample()
            });
            let expected = Plan {
                streams: connections.unwrap_or(100),
                rate,
                gap: Nanos::from_millis(gap_ms),
                tokens,
            };
            assert_eq!(plan, expected);
        }
        let told = Plan::of(&Options {
            rate: Some(10.0),
            ..Options::sample()
        });
        assert_eq!((told.gap, told.tokens), (Nanos::from_secs(10), 1));
    }

    #[test]
    fn the_server_is_told_the_gap() {
        let args = Plan::of(&Options::sample()).server(3);
        let words: Vec<&str> = args.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(
            words.join(" "),
            "mock-server --mode model --port 0 --cores 3 --max-tokens-default 200 \
             --time-to-first-token 40000us --time-to-first-token-std-dev 10000us \
             --inter-token-latency 20000us --inter-token-latency-std-dev 5000us"
        );
    }
}
