//! End to end: what a request or an event costs `ridgeline bench` over loopback.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use ridgeline_clock::Nanos;
use ridgeline_perf::payload;
use serde_json::Value;

use super::process::{self, Server};
use super::subject::{Arm, Readings, Subject};

/// A kind of load, as `versus` knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// Requests that are not streamed.
    Request,
    /// Streams in one write each.
    Coalesced,
    /// Streams of one write per event.
    Paced,
}

/// All of them.
pub(crate) const LOADS: [Load; 3] = [Load::Request, Load::Coalesced, Load::Paced];

/// Content events of a stream.
const EVENTS: u64 = 1000;
/// Requests in flight, and so connections.
const CONCURRENCY: &str = "64";
/// The longest that a run may take: a hundred times what it should.
const LIMIT: Nanos = Nanos::from_secs(300);
/// `ridgeline bench` ends with this when it was its own limit, as a client at its ceiling is.
const INVALID: i32 = 3;

impl Load {
    fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Coalesced => "coalesced",
            Self::Paced => "paced",
        }
    }

    /// About a second's worth, so that start-up is a percent of it.
    fn requests(self) -> u64 {
        match self {
            Self::Request => 250_000,
            Self::Coalesced => 30_000,
            Self::Paced => 800,
        }
    }

    fn events(self) -> Option<u64> {
        (self != Self::Request).then_some(EVENTS)
    }
}

/// A load, with the programs of each arm. All arms are served by the base's bare server: what differs
/// is the client alone.
#[derive(Debug)]
pub(crate) struct End {
    load: Load,
    name: String,
    programs: [PathBuf; 3],
    server: Server,
    core: usize,
}

impl End {
    /// Starts the server.
    pub(crate) fn new(
        load: Load,
        programs: [PathBuf; 3],
        bare_server: &Path,
        (server_core, core): (usize, usize),
    ) -> io::Result<Self> {
        let mut server = Command::new(bare_server);
        server.args(["--attached", "--mode", load.name()]);
        if let Some(events) = load.events() {
            server.args(["--events", &events.to_string()]);
        }
        Ok(Self {
            load,
            name: format!("end-to-end/{}", load.name()),
            programs,
            server: Server::start(&mut server, server_core)?,
            core,
        })
    }

    fn arguments(&self, folder: &Path) -> Vec<OsString> {
        let url = format!("http://{}", self.server.address);
        let (core, requests) = (self.core.to_string(), self.load.requests().to_string());
        let streaming = match self.load {
            Load::Request => "--no-streaming",
            Load::Coalesced | Load::Paced => "--streaming",
        };
        let mut arguments: Vec<OsString> = [
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
            "off",
            "--quiet",
            "--cores",
            &core,
            "--prompt",
            payload::PROMPT,
            "--concurrency",
            CONCURRENCY,
            "--request-count",
            &requests,
            "--output-dir",
        ]
        .map(OsString::from)
        .into();
        arguments.push(folder.into());
        arguments
    }
}

impl Subject for End {
    fn name(&self) -> &str {
        &self.name
    }

    fn run(&self, arm: Arm, _: &BTreeSet<String>) -> io::Result<Readings> {
        let folder = tempfile::Builder::new()
            .prefix("end-")
            .rand_bytes(8)
            .tempdir()?;
        let mut command = Command::new(&self.programs[arm as usize]);
        command.args(self.arguments(folder.path()));
        let finished = process::run(&mut command, self.core, LIMIT)?
            .expect_success(&self.name, Some(INVALID))?;
        let report = fs::read_to_string(folder.path().join("report.json"))?;
        let completed = completed(&report)
            .map_err(|error| io::Error::other(format!("{}: report.json: {error}", self.name)))?;
        let units = completed * self.load.events().unwrap_or(1);
        Ok([(self.name.clone(), per_unit(finished.cpu, units))].into())
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "times and counts far below 2^53"
)]
fn per_unit(cpu: Nanos, units: u64) -> f64 {
    cpu.0 as f64 / units as f64
}

/// Requests that a report says were answered; none may have failed.
fn completed(report: &str) -> Result<u64, String> {
    let report: Value = serde_json::from_str(report).map_err(|error| error.to_string())?;
    let number = |pointer: &str| {
        let field = report.pointer(pointer).and_then(Value::as_u64);
        field.ok_or_else(|| format!("no number {pointer}"))
    };
    match (number("/load/failed")?, number("/load/completed")?) {
        (0, 0) => Err("no request was answered".to_owned()),
        (0, completed) => Ok(completed),
        (failed, _) => Err(format!("{failed} requests failed")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_counts_if_nothing_failed() {
        let report = |completed: u64, failed: u64| {
            format!(r#"{{"load":{{"completed":{completed},"failed":{failed}}}}}"#)
        };
        assert_eq!(completed(&report(7, 0)), Ok(7));
        assert_eq!(
            completed(&report(7, 1)),
            Err("1 requests failed".to_owned())
        );
        assert!(completed(&report(0, 0)).is_err());
        assert_eq!(completed("{}"), Err("no number /load/failed".to_owned()));
        assert!(completed("").is_err());
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "a quotient that is exact")]
    fn cpu_time_is_divided_by_what_was_done() {
        assert_eq!(per_unit(Nanos(3_000), 2), 1_500.0);
        assert_eq!(Load::Paced.events(), Some(1000));
        assert_eq!(Load::Request.events(), None);
    }
}
