//! The engine as a service: a worker that is fed by a program on the server's core, beside a run of the
//! same requests.

use std::io;
use std::path::PathBuf;
use std::process::Command;

use memchr::memmem;
use serde_json::Value;

use crate::child::{self, Listens, Served};
use crate::payload;
use crate::versus::Options;
use crate::versus::arm::{Sample, Side};
use crate::versus::serving::cost;

/// A worker, and who feeds it: both are processes of their own for every run.
#[derive(Debug)]
pub(crate) struct Feeding {
    program: PathBuf,
    /// The server that the worker sends to.
    address: String,
    body: String,
    requests: u64,
}

/// Queries in a message, and without a result: enough of both that more of either changes nothing.
const BATCH: u32 = 128;
const WINDOW: u32 = 4096;
/// Before the CPU clock is read, so much of the load.
const WARM_UP_SHARE: u64 = 50;

impl Feeding {
    pub(crate) fn new(program: PathBuf, address: &str, requests: u64) -> io::Result<Self> {
        let to = address.parse().map_err(io::Error::other)?;
        let request = payload::request(to, false);
        let end = memmem::find(&request, b"\r\n\r\n").map_or(0, |at| at + 4);
        let body = String::from_utf8_lossy(&request[end..]).into_owned();
        Ok(Self {
            program,
            address: address.to_owned(),
            body,
            requests,
        })
    }

    fn worker(&self, options: &Options, ends: &[String; 2]) -> Command {
        let mut command = Command::new(&self.program);
        let [requests, responses] = ends;
        command.args(["worker", "--requests", requests, "--responses", responses]);
        command.args(["--url", &format!("http://{}", self.address)]);
        let stamps = if options.timestamps { "on" } else { "off" };
        let connections = options.connections.unwrap_or(64).to_string();
        command.args(["--rx-timestamps", stamps, "--concurrency", &connections]);
        command.args(["--quiet", "--cores", &options.client_core.to_string()]);
        command
    }

    /// Puts so many queries through; what the feeder says of it.
    fn feed(&self, options: &Options, ends: &[String; 2], count: u64) -> io::Result<Sample> {
        let mut command = Command::new(&self.program);
        let [requests, responses] = ends;
        command.args(["feed", "--requests", requests, "--responses", responses]);
        command.args(["--count", &count.to_string(), "--body", &self.body]);
        command.args([
            "--batch",
            &BATCH.to_string(),
            "--window",
            &WINDOW.to_string(),
        ]);
        let finished = child::run(&mut command, options.server_core, options.limit)?;
        let finished = finished.expect_success("feed", None)?;
        let said: Value = serde_json::from_str(&finished.stdout).map_err(io::Error::other)?;
        let number = |name: &str| {
            let number = said[name].as_u64();
            number.ok_or_else(|| io::Error::other(format!("feed says no {name}")))
        };
        Ok(Sample {
            requests: number("requests")?,
            elapsed_ns: number("elapsed_ns")?,
            wall_ns: finished.wall.0,
            ..Sample::default()
        })
    }
}

impl Side for Feeding {
    fn name(&self) -> &'static str {
        "worker"
    }

    /// Only the worker's CPU time counts, from when it is warm.
    fn sample(&self, options: &Options) -> io::Result<Sample> {
        let folder = tempfile::tempdir()?;
        let ends =
            ["in", "out"].map(|name| format!("ipc://{}", folder.path().join(name).display()));
        let mut worker = self.worker(options, &ends);
        let served = Served::start(&mut worker, options.client_core, Listens::Says)?;
        self.feed(options, &ends, self.requests.div_ceil(WARM_UP_SHARE))?;
        cost(served, || self.feed(options, &ends, self.requests))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_and_its_feeder_are_told_of_one_another() {
        let options = Options::sample();
        let feeding = Feeding::new("ridgeline".into(), "127.0.0.1:9", 500).unwrap();
        let ends = ["ipc://a".to_owned(), "ipc://b".to_owned()];
        let command = feeding.worker(&options, &ends);
        let words: Vec<_> = command
            .get_args()
            .map(|word| word.to_string_lossy())
            .collect();
        let words = words.join(" ");
        assert!(words.starts_with("worker --requests ipc://a --responses ipc://b"));
        assert!(words.contains("--url http://127.0.0.1:9 --rx-timestamps off --concurrency 64"));
        assert!(words.ends_with("--cores 1"));
        assert!(
            feeding.body.starts_with("{\"model\":\"mock\""),
            "{}",
            feeding.body
        );
    }
}
