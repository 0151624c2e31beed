use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use ridgeline_clock::Nanos;
use serde::Serialize;
use serde_json::Value;
use tempfile::TempPath;

use crate::child::{self, Finished};
use crate::client::Outcome;
use crate::versus::Options;
use crate::versus::programs::Programs;
use crate::versus::timing::Timing;

/// At its ceiling a client is its own limit, and ridgeline says so by this exit code.
const INVALID: i32 = 3;

/// What one run of an arm did.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Sample {
    /// Requests answered in full; deadlines, of a sleeper or of a server's writes.
    pub requests: u64,
    /// The time the program itself says it took.
    pub elapsed_ns: u64,
    /// From start to end of the process.
    pub wall_ns: u64,
    /// CPU time of the whole process, start-up included.
    pub cpu_ns: u64,
    /// Its largest resident set.
    pub resident_bytes_max: u64,
    /// Head, body and framing of each answer, where that is known.
    pub response_bytes: Option<u64>,
    /// Median lag behind the schedule, where there is one.
    pub lag_p50_ns: Option<u64>,
    /// The 99th percentile of it.
    pub lag_p99_ns: Option<u64>,
    /// How far its times are from the truth, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timing: Option<Timing>,
    /// What the program thinks of its own result.
    pub verdict: Option<String>,
    /// `report.json` of ridgeline, for what else there is to know.
    #[serde(skip)]
    pub report: Option<Value>,
}

/// How an arm's result is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// A line of JSON of the bare client.
    Bare,
    /// A line of JSON of the bare sleeper.
    Sleeper,
    /// `report.json` in the folder given by `--output-dir`.
    Ridgeline,
    /// The summary that wrk prints.
    Wrk,
}

/// One side of a comparison.
pub(crate) trait Side {
    fn name(&self) -> &'static str;

    /// Runs it once.
    fn sample(&self, options: &Options) -> io::Result<Sample>;
}

/// A client that is measured, against a server that goes on; or a program without a server. Every
/// run is a process of its own.
#[derive(Debug)]
pub struct Arm {
    pub(crate) name: &'static str,
    pub(crate) program: PathBuf,
    pub(crate) args: Vec<OsString>,
    pub(crate) reading: Reading,
    /// A file that an argument names; deleted with the arm.
    pub(crate) _file: Option<TempPath>,
}

/// What every `ridgeline bench` beside a bare client is told.
#[derive(Clone, Copy, Debug)]
pub struct Bench<'a> {
    /// The server, as `127.0.0.1:PORT`.
    pub address: &'a str,
    /// The core of its one shard.
    pub core: usize,
    /// Whether it asks for streams.
    pub streaming: bool,
    /// Whether it uses kernel receive stamps.
    pub timestamps: bool,
}

impl Bench<'_> {
    /// Without records: the bare client keeps none.
    fn flags(&self) -> Vec<String> {
        let (url, core) = (format!("http://{}", self.address), self.core.to_string());
        let streaming = if self.streaming {
            "--streaming"
        } else {
            "--no-streaming"
        };
        let stamps = if self.timestamps { "on" } else { "off" };
        [
            "bench",
            "--url",
            &url,
            "--model",
            "mock",
            "--endpoint-type",
            "chat",
            streaming,
            "--records",
            "none",
            "--rx-timestamps",
            stamps,
            "--quiet",
            "--cores",
            &core,
        ]
        .map(str::to_owned)
        .into()
    }
}

impl Side for Arm {
    fn name(&self) -> &'static str {
        self.name
    }

    fn sample(&self, options: &Options) -> io::Result<Sample> {
        self.run(options.client_core, options.limit)
    }
}

impl Arm {
    /// The bare client, with these flags, its server's address among them.
    pub fn bare_client(
        programs: &Programs,
        args: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        Self::bare("bare-client", programs, args, Reading::Bare)
    }

    /// The bare sleeper, with these flags.
    pub fn bare_sleeper(
        programs: &Programs,
        args: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        Self::bare("bare-sleeper", programs, args, Reading::Sleeper)
    }

    fn bare(
        name: &'static str,
        programs: &Programs,
        flags: impl IntoIterator<Item = impl Into<OsString>>,
        reading: Reading,
    ) -> Self {
        let (program, mut args) = programs.words(name);
        args.extend(flags.into_iter().map(Into::into));
        Self {
            name,
            program,
            args,
            reading,
            _file: None,
        }
    }

    /// `ridgeline bench` as the bare client runs, with these flags besides: a prompt, an end, and whatever
    /// differs.
    pub fn ridgeline(
        program: PathBuf,
        bench: &Bench<'_>,
        flags: impl IntoIterator<Item = impl Into<OsString>>,
    ) -> Self {
        let fixed = bench.flags().into_iter().map(OsString::from);
        Self {
            name: "ridgeline",
            program,
            args: fixed.chain(flags.into_iter().map(Into::into)).collect(),
            reading: Reading::Ridgeline,
            _file: None,
        }
    }

    /// Runs it once, on one core, for at most `limit`.
    ///
    /// # Errors
    /// When the program is missing, fails, takes too long, prints what can't be read, or had requests
    /// that failed.
    pub fn run(&self, core: usize, limit: Nanos) -> io::Result<Sample> {
        let folder = tempfile::tempdir()?;
        let mut command = Command::new(&self.program);
        command.args(&self.args);
        if self.reading == Reading::Ridgeline {
            command.arg("--output-dir").arg(folder.path());
        }
        let finished =
            child::run(&mut command, core, limit)?.expect_success(self.name, Some(INVALID))?;
        let read = self.read(&finished, folder.path());
        let sample = read.map_err(|error| io::Error::other(format!("{}: {error}", self.name)))?;
        Ok(Sample {
            wall_ns: finished.wall.0,
            cpu_ns: finished.ended.cpu.total_ns(),
            resident_bytes_max: finished.ended.resident_bytes_max,
            ..sample
        })
    }

    fn read(&self, finished: &Finished, folder: &Path) -> Result<Sample, String> {
        match self.reading {
            Reading::Bare => bare(&finished.stdout),
            Reading::Sleeper => sleeper(&finished.stdout),
            Reading::Wrk => wrk(&finished.stdout),
            Reading::Ridgeline => {
                let path = folder.join("report.json");
                let text = fs::read_to_string(&path).map_err(|e| format!("report.json: {e}"))?;
                ridgeline(&text)
            }
        }
    }
}

fn bare(stdout: &str) -> Result<Sample, String> {
    let outcome: Outcome = serde_json::from_str(stdout).map_err(|e| e.to_string())?;
    Ok(Sample {
        requests: outcome.requests,
        elapsed_ns: outcome.elapsed_ns,
        response_bytes: Some(outcome.response_bytes),
        ..Sample::default()
    })
}

fn sleeper(stdout: &str) -> Result<Sample, String> {
    let value: Value = serde_json::from_str(stdout).map_err(|e| e.to_string())?;
    Ok(Sample {
        requests: number(&value, "/lag/count")?,
        lag_p50_ns: Some(number(&value, "/lag/p50_ns")?),
        lag_p99_ns: Some(number(&value, "/lag/p99_ns")?),
        ..Sample::default()
    })
}

fn ridgeline(report: &str) -> Result<Sample, String> {
    let value: Value = serde_json::from_str(report).map_err(|e| e.to_string())?;
    let failed = number(&value, "/load/failed")?;
    if failed > 0 {
        let kinds = match value.pointer("/errors").and_then(Value::as_object) {
            Some(kinds) => kinds
                .iter()
                .map(|(kind, count)| format!(", {count} {kind}")),
            None => return Err(format!("{failed} requests failed")),
        };
        return Err(format!(
            "{failed} requests failed{}",
            kinds.collect::<String>()
        ));
    }
    if let Ok(cancelled @ 1..) = number(&value, "/load/cancelled") {
        return Err(format!(
            "{cancelled} requests were cancelled before they ended"
        ));
    }
    Ok(Sample {
        requests: number(&value, "/load/completed")?,
        elapsed_ns: number(&value, "/load/duration_ns")?,
        lag_p50_ns: number(&value, "/load/schedule_lag_ns/p50").ok(),
        lag_p99_ns: number(&value, "/load/schedule_lag_ns/p99").ok(),
        verdict: value
            .pointer("/verdict/status")
            .and_then(Value::as_str)
            .map(str::to_owned),
        report: Some(value),
        ..Sample::default()
    })
}

/// What `ridgeline mock-server` says at its end of the writes that had a time:
/// `N writes had a time: L later than T; lateness p50 T, p99 T, max T`.
pub(crate) fn lateness(stdout: &str) -> Result<Sample, String> {
    let line = stdout
        .lines()
        .find_map(|line| line.split_once(" writes had a time: "));
    let (writes, rest) = line.ok_or("no line `N writes had a time: ...`")?;
    let percentile = |name: &str| {
        let time = rest
            .split_once(name)
            .and_then(|(_, rest)| rest.split(',').next());
        let span = time.and_then(|time| time_of(&time.replacen(' ', "", 1)));
        span.map(|span| span.0)
            .ok_or_else(|| format!("no time after {name:?} in {rest:?}"))
    };
    Ok(Sample {
        requests: writes
            .parse()
            .map_err(|_| format!("{writes:?} is no number"))?,
        lag_p50_ns: Some(percentile("lateness p50 ")?),
        lag_p99_ns: Some(percentile(", p99 ")?),
        ..Sample::default()
    })
}

fn number(value: &Value, pointer: &str) -> Result<u64, String> {
    let field = value.pointer(pointer).and_then(Value::as_u64);
    field.ok_or_else(|| format!("no number {pointer}"))
}

/// `123 requests in 4.10s, ...`; socket errors and statuses outside 2xx are said on lines of
/// their own.
fn wrk(stdout: &str) -> Result<Sample, String> {
    if let Some(line) = stdout
        .lines()
        .find(|line| line.contains("errors") || line.contains("Non-2xx"))
    {
        return Err(line.trim().to_owned());
    }
    let summary = stdout
        .lines()
        .find_map(|line| line.trim().split_once(" requests in "));
    let (requests, rest) = summary.ok_or("no line `N requests in T`")?;
    let time = rest.split(',').next().unwrap_or_default();
    let requests = requests
        .parse()
        .map_err(|_| format!("{requests:?} is no number"))?;
    let elapsed = time_of(time).ok_or_else(|| format!("{time:?} is no time"))?;
    Ok(Sample {
        requests,
        elapsed_ns: elapsed.0,
        ..Sample::default()
    })
}

/// A time as wrk and, but for a space, ridgeline print it: `800ns`, `350.00ms`, `4.10s`, `1.00m`.
fn time_of(text: &str) -> Option<Nanos> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let scale = match &text[digits.len()..] {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        "h" => 3600.0,
        _ => return None,
    };
    Some(Nanos::from_secs_f64(digits.parse::<f64>().ok()? * scale))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_gives_its_load() {
        let report = r#"{"schema":"ridgeline.report/1","verdict":{"status":"degraded"},
            "load":{"issued":7,"completed":7,"failed":0,"duration_ns":2000000000,
                    "schedule_lag_ns":{"count":7,"p50":1500}}}"#;
        let sample = ridgeline(report).unwrap();
        assert_eq!((sample.requests, sample.elapsed_ns), (7, 2_000_000_000));
        assert_eq!(
            (sample.lag_p50_ns, sample.verdict.as_deref()),
            (Some(1500), Some("degraded"))
        );
        let failed = report.replace(r#""failed":0"#, r#""failed":2"#);
        assert_eq!(ridgeline(&failed).unwrap_err(), "2 requests failed");
        let kinds = failed.replace(r#""load""#, r#""errors":{"reset":1,"stall":1},"load""#);
        assert_eq!(
            ridgeline(&kinds).unwrap_err(),
            "2 requests failed, 1 reset, 1 stall"
        );
        let cancelled = report.replace(r#""failed":0"#, r#""failed":0,"cancelled":3"#);
        assert!(
            ridgeline(&cancelled)
                .unwrap_err()
                .starts_with("3 requests were cancelled")
        );
        let without = report.replace("completed", "finished");
        assert_eq!(
            ridgeline(&without).unwrap_err(),
            "no number /load/completed"
        );
        let no_lag = report.replace(r#"{"count":7,"p50":1500}"#, "null");
        assert_eq!(ridgeline(&no_lag).unwrap().lag_p50_ns, None);
        assert!(ridgeline("{").is_err());
    }

    #[test]
    fn the_bare_programs_are_read() {
        let outcome = Outcome {
            requests: 5,
            elapsed_ns: 9,
            ..Outcome::default()
        };
        let sample = bare(&serde_json::to_string(&outcome).unwrap()).unwrap();
        assert_eq!((sample.requests, sample.elapsed_ns), (5, 9));
        assert!(bare("no json").is_err());
        let sample = sleeper(r#"{"lag":{"count":3,"p50_ns":42,"p99_ns":90},"waits":3}"#).unwrap();
        assert_eq!(sample.requests, 3);
        assert_eq!((sample.lag_p50_ns, sample.lag_p99_ns), (Some(42), Some(90)));
        assert!(sleeper(r#"{"lag":{"count":3,"p50_ns":42},"waits":3}"#).is_err());
    }

    #[test]
    fn the_last_words_of_the_mock_server_are_read() {
        let text = "driver: io_uring, 1 threads, up to 4096 connections each\n\
            20100 writes had a time: 2 later than 1.00 ms; lateness p50 57.3 us, p99 1.02 ms, max 5.00 \
            ms\nserved 100 requests on 100 connections: 0 refused, 0 cut off, 0 of them by the end\n";
        let sample = lateness(text).unwrap();
        assert_eq!(sample.requests, 20_100);
        assert_eq!(
            (sample.lag_p50_ns, sample.lag_p99_ns),
            (Some(57_300), Some(1_020_000))
        );
        for (printed, ns) in [("800 ns", 800), ("0 s", 0), ("104 us", 104_000)] {
            let text = text.replace("57.3 us", printed);
            assert_eq!(lateness(&text).unwrap().lag_p50_ns, Some(ns));
        }
        for wrong in ["57.3", "x us", ""] {
            assert!(lateness(&text.replace("57.3 us", wrong)).is_err());
        }
        assert!(lateness(&text.replace("p99", "p98")).is_err());
        assert!(lateness(&text.replace("20100", "many")).is_err());
        assert!(lateness("served 0 requests on 0 connections\n").is_err());
    }

    #[test]
    fn the_summary_of_wrk_is_read() {
        let text = "Running 4s test @ http://127.0.0.1:8000\n  1 threads and 64 connections\n\
                    \x20 Thread Stats   Avg\n  1024567 requests in 4.10s, 424.12MB read\n\
                    Requests/sec: 249894.39\n";
        let sample = wrk(text).unwrap();
        assert_eq!(
            (sample.requests, sample.elapsed_ns),
            (1_024_567, 4_100_000_000)
        );
        let errors = format!("{text}  Socket errors: connect 0, read 5, write 0, timeout 0\n");
        assert!(wrk(&errors).unwrap_err().starts_with("Socket errors"));
        let status = format!("{text}  Non-2xx or 3xx responses: 12\n");
        assert!(wrk(&status).is_err());
        assert!(wrk("").is_err());
        for (text, nanos) in [
            ("350.00ms", 350_000_000),
            ("1.50m", 90_000_000_000),
            ("2us", 2_000),
        ] {
            assert_eq!(time_of(text), Some(Nanos(nanos)));
        }
        assert_eq!(time_of("4.1"), None);
    }
}
