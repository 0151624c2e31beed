//! How far ridgeline's times are from those of the server, beside what the bare socket pair's are from
//! those of its writer.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use ridgeline_clock::Nanos;
use serde::Serialize;
use serde_json::Value;

use crate::child::{self, Listens, Served};
use crate::payload;
use crate::versus::Options;
use crate::versus::arm::{Sample, Side};
use crate::versus::preset::{self, Preset};

/// Streams that are open, unless told.
const STREAMS: u32 = 100;
/// A stream has at most so many writes a second: of events that come faster than a thread wakes up, none is
/// ever read alone, and no model writes so fast.
const RATE_OF_STREAM_MAX: f64 = 1_000.0;
/// A stream lasts about so long, and has so many tokens.
const STREAM: Nanos = Nanos::from_secs(1);
const TOKENS_MIN: u64 = 8;
const TOKENS_MAX: u64 = 1_000;
/// An event of the mock server on the wire, head of the chunk and all.
const EVENT_BYTES: &str = "250";
/// How the names of the server's threads that answer begin, but not of the one that writes the truth down.
const SERVES: &str = "mock-server-0";
/// At a larger share of the ceiling the server's thread does not go before others.
const SHARE_FIRST_MAX: f64 = 0.6;
/// Requests and events of the run that finds the ceiling.
const CEILING_REQUESTS: u64 = 1_000;
const CEILING_EVENTS: &str = "1000";

/// How far times are from the truth: sizes of errors, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Errors {
    /// Of TTFT, the way to the server and the way back: their median.
    pub ttft_p50_ns: u64,
    /// And their 99th percentile.
    pub ttft_p99_ns: u64,
    /// Of the gap between two events: their median.
    pub gap_p50_ns: u64,
    /// And their 99th percentile.
    pub gap_p99_ns: u64,
}

/// The same by both clocks that a client can read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Timing {
    /// By the kernel's receive stamps.
    pub stamped: Errors,
    /// By the clock of the program when it has the bytes.
    pub read: Errors,
}

/// What both sides are asked for.
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
    fn of(options: &Options, rate: f64) -> Self {
        let streams = options.connections.unwrap_or(STREAMS);
        let rate = rate.min(f64::from(streams) * RATE_OF_STREAM_MAX);
        let gap = Nanos::from_secs_f64(f64::from(streams) / rate);
        Self {
            streams,
            rate,
            gap,
            tokens: (STREAM.0 / gap.0.max(1)).clamp(TOKENS_MIN, TOKENS_MAX),
        }
    }

    fn first(self) -> Nanos {
        (self.gap * 2).max(Nanos::from_millis(1))
    }

    /// The server's flags. The times of tokens are spread, so that the writes of streams that began
    /// together do not stay together.
    fn server(self, core: usize, truth: &Path) -> Vec<OsString> {
        let flags = [
            ("--mode", "model".to_owned()),
            ("--port", "0".to_owned()),
            ("--cores", core.to_string()),
            ("--max-tokens-default", self.tokens.to_string()),
            ("--time-to-first-token", flag(self.first())),
            ("--inter-token-latency", flag(self.gap)),
            ("--inter-token-latency-std-dev", flag(self.gap / 4)),
        ];
        let flags = flags
            .into_iter()
            .flat_map(|(name, value)| [OsString::from(name), value.into()]);
        [OsString::from("mock-server")]
            .into_iter()
            .chain(flags)
            .chain(["--truth".into(), truth.as_os_str().to_owned()])
            .collect()
    }

    /// The client's flags. Streams begin one after the other, at equal distances; a single one whenever
    /// the one before is over.
    fn load(self) -> Vec<String> {
        let span = self.first() + self.gap * (self.tokens - 1);
        if self.streams == 1 {
            return ["--concurrency", "1"].map(str::to_owned).into();
        }
        let rate = f64::from(self.streams) / span.as_secs_f64();
        let flags = ["--arrival-pattern", "constant", "--request-rate"];
        let flags = flags.into_iter().map(str::to_owned);
        flags.chain([format!("{rate:.3}")]).collect()
    }
}

/// A time as a flag's value.
fn flag(span: Nanos) -> String {
    format!("{}us", (span.0 / 1_000).max(1))
}

/// The bare socket pair, its writer on the server's core and its reader on the client's.
#[derive(Debug)]
pub(crate) struct Pair {
    program: PathBuf,
    plan: Plan,
}

impl Side for Pair {
    fn name(&self) -> &'static str {
        "bare-pair"
    }

    fn sample(&self, options: &Options) -> io::Result<Sample> {
        let mut command = Command::new(&self.program);
        let (rate, seconds) = (
            format!("{:.0}", self.plan.rate),
            options.seconds.to_string(),
        );
        let cores = [options.server_core, options.client_core].map(|core| core.to_string());
        command.args(["--rate", &rate, "--seconds", &seconds]);
        command.args(["--message-bytes", EVENT_BYTES]);
        command.args(["--write-core", &cores[0], "--read-core", &cores[1]]);
        let finished = child::run_anywhere(&mut command, options.limit)?;
        let finished = finished.expect_success("bare-pair", None)?;
        let value: Value = serde_json::from_str(&finished.stdout).map_err(io::Error::other)?;
        let errors = |way: &str, gap: &str| {
            Ok::<_, io::Error>(Errors {
                ttft_p50_ns: number(&value, &format!("/{way}/p50_ns"))?,
                ttft_p99_ns: number(&value, &format!("/{way}/p99_ns"))?,
                gap_p50_ns: number(&value, &format!("/{gap}/p50_ns"))?,
                gap_p99_ns: number(&value, &format!("/{gap}/p99_ns"))?,
            })
        };
        Ok(Sample {
            requests: number(&value, "/judged")?,
            wall_ns: finished.wall.0,
            elapsed_ns: finished.wall.0,
            cpu_ns: finished.ended.cpu.total_ns(),
            timing: Some(Timing {
                stamped: errors("two_ways", "gap_error")?,
                read: errors("two_ways_read", "gap_error_read")?,
            }),
            ..Sample::default()
        })
    }
}

/// The mock server in model mode, which writes down what it did, and ridgeline, which measures it: once by
/// the kernel's stamps and once by its own clock.
#[derive(Debug)]
pub(crate) struct Measured {
    program: PathBuf,
    plan: Plan,
}

impl Side for Measured {
    fn name(&self) -> &'static str {
        "ridgeline"
    }

    fn sample(&self, options: &Options) -> io::Result<Sample> {
        let (sample, stamped) = self.measure(options, "on")?;
        let (_, read) = self.measure(options, "off")?;
        Ok(Sample {
            timing: Some(Timing { stamped, read }),
            ..sample
        })
    }
}

impl Measured {
    fn measure(&self, options: &Options, stamps: &str) -> io::Result<(Sample, Errors)> {
        let folder = tempfile::tempdir()?;
        let (truth, results) = (folder.path().join("truth"), folder.path().join("results"));
        let mut server = Command::new(&self.program);
        server.args(self.plan.server(options.server_core, &truth));
        let served = Served::start(&mut server, options.server_core, Listens::Says)?;
        // A server that takes most of its core is seldom kept off it, and would keep off the thread that
        // writes its truth. Without the right to it the figures show what that costs.
        if options.share <= SHARE_FIRST_MAX {
            let _ = served.goes_first(SERVES);
        }
        let sample = self.bench(options, served.address(), stamps, &results)?;
        served.stop()?;
        let mut join = Command::new(&self.program);
        join.arg("report").arg(&results).arg("--truth").arg(&truth);
        let joined = child::run_anywhere(&mut join, options.limit)?;
        joined.expect_success("ridgeline report", None)?;
        let text = fs::read_to_string(results.join("truth.json"))?;
        Ok((sample, errors(&text)?))
    }

    /// The client, with what else it does on any core: only its shard is kept to one.
    fn bench(
        &self,
        options: &Options,
        address: &str,
        stamps: &str,
        results: &Path,
    ) -> io::Result<Sample> {
        let (url, core) = (format!("http://{address}"), options.client_core.to_string());
        let duration = format!("{}s", options.seconds);
        let mut command = Command::new(&self.program);
        command.args(["bench", "--url", &url, "--model", "mock", "--quiet"]);
        command.args([
            "--records",
            "jsonl",
            "--save-events",
            "--rx-timestamps",
            stamps,
        ]);
        command.args(["--prompt", payload::PROMPT, "--cores", &core]);
        command
            .args(["--duration", &duration])
            .args(self.plan.load());
        command.arg("--output-dir").arg(results);
        let finished = child::run_anywhere(&mut command, options.limit)?;
        // A client that was late is invalid, and its times are no less true.
        let finished = finished.expect_success("ridgeline", Some(3))?;
        let report = fs::read_to_string(results.join("report.json"))?;
        let value: Value = serde_json::from_str(&report).map_err(io::Error::other)?;
        let status = value.pointer("/verdict/status").and_then(Value::as_str);
        Ok(Sample {
            requests: number(&value, "/load/completed")?,
            elapsed_ns: number(&value, "/load/duration_ns")?,
            wall_ns: finished.wall.0,
            cpu_ns: finished.ended.cpu.total_ns(),
            resident_bytes_max: finished.ended.resident_bytes_max,
            verdict: status.map(str::to_owned),
            ..Sample::default()
        })
    }
}

/// Of `truth.json` in a result folder: like the pair's, of events that came in reads of their own.
fn errors(joined: &str) -> io::Result<Errors> {
    let value: Value = serde_json::from_str(joined).map_err(io::Error::other)?;
    Ok(Errors {
        ttft_p50_ns: number(&value, "/ttft_alone_error_ns/size_p50")?,
        ttft_p99_ns: number(&value, "/ttft_alone_error_ns/size_p99")?,
        gap_p50_ns: number(&value, "/gap_alone_error_ns/size_p50")?,
        gap_p99_ns: number(&value, "/gap_alone_error_ns/size_p99")?,
    })
}

fn number(value: &Value, pointer: &str) -> io::Result<u64> {
    let field = value.pointer(pointer).and_then(Value::as_u64);
    field.ok_or_else(|| io::Error::other(format!("no number {pointer}")))
}

/// Events a second that ridgeline reads of its mock server here, one a write, as fast as both can.
#[expect(clippy::cast_precision_loss, reason = "counts far below 2^53")]
fn ceiling(options: &Options, program: &Path) -> io::Result<f64> {
    let mut server = Command::new(program);
    let core = options.server_core.to_string();
    server.args(["mock-server", "--mode", "instant", "--port", "0"]);
    server.args(["--cores", &core, "--events-per-write", "1"]);
    server.args(["--max-tokens-default", CEILING_EVENTS]);
    let served = Served::start(&mut server, options.server_core, Listens::Says)?;
    let paced = Options {
        requests: Some(CEILING_REQUESTS),
        connections: None,
        ..options.clone()
    };
    let load = Preset::Paced.ridgeline(&paced, served.address())?;
    let sample = load.sample(&paced)?;
    served.stop()?;
    let seconds = Nanos(sample.elapsed_ns.max(1)).as_secs_f64();
    Ok(sample.requests as f64 * 1_000.0 / seconds)
}

/// The two sides, the pair first.
pub(crate) fn sides(options: &Options) -> io::Result<(Pair, Measured)> {
    let program = preset::built(&options.ridgeline)?;
    let rate = match options.rate {
        Some(rate) => rate,
        None => ceiling(options, &program)? * options.share,
    };
    let plan = Plan::of(options, rate);
    let (pair, _) = options.programs.words("bare-pair");
    Ok((
        Pair {
            program: preset::built(&pair)?,
            plan,
        },
        Measured { program, plan },
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_last_about_a_second_at_the_rate_of_the_pair() {
        for (connections, rate, gap_us, tokens, load) in [
            (None, 10_000.0, 10_000, 100, "--request-rate 99.010"),
            (Some(1), 10_000.0, 1_000, 1_000, "--concurrency 1"),
            (Some(1500), 5_000.0, 300_000, 8, "--request-rate 555.556"),
        ] {
            let options = Options {
                connections,
                ..Options::sample()
            };
            let plan = Plan::of(&options, rate);
            assert_eq!((plan.gap.0 / 1_000, plan.tokens), (gap_us, tokens));
            let words = plan.load().join(" ");
            assert!(words.contains(load), "{words}");
        }
    }

    #[test]
    fn the_server_is_told_the_times_and_to_write_them_down() {
        let plan = Plan::of(&Options::sample(), 10_000.0);
        let args = plan.server(3, Path::new("t"));
        let words: Vec<&str> = args.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(
            words.join(" "),
            "mock-server --mode model --port 0 --cores 3 --max-tokens-default 100 \
             --time-to-first-token 20000us --inter-token-latency 10000us \
             --inter-token-latency-std-dev 2500us --truth t"
        );
    }

    #[test]
    fn a_join_gives_the_sizes_of_its_errors() {
        let joined = r#"{"ttft_alone_error_ns": {"p50": -7, "size_p50": 7, "size_p99": 90},
            "gap_alone_error_ns": {"p50": 0, "size_p50": 3, "size_p99": 40}}"#;
        let expected = Errors {
            ttft_p50_ns: 7,
            ttft_p99_ns: 90,
            gap_p50_ns: 3,
            gap_p99_ns: 40,
        };
        assert_eq!(errors(joined).unwrap(), expected);
        let without = errors(r#"{"ttft_alone_error_ns": null}"#).unwrap_err();
        assert_eq!(
            without.to_string(),
            "no number /ttft_alone_error_ns/size_p50"
        );
    }
}
