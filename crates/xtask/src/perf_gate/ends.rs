//! End to end: what a request or an event costs `ridgeline bench` over loopback.

use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use ridgeline_clock::Nanos;
use ridgeline_perf::child::{Listens, Served};
use ridgeline_perf::payload;
use ridgeline_perf::versus::{Arm as Client, Bench};

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
    server: Served,
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
            server: Served::start(&mut server, server_core, Listens::Says)?,
            core,
        })
    }

    /// `ridgeline bench` of one of the programs.
    fn client(&self, program: &Path) -> Client {
        let bench = Bench {
            address: self.server.address(),
            core: self.core,
            streaming: self.load.events().is_some(),
            timestamps: false,
        };
        let requests = self.load.requests().to_string();
        let flags = ["--prompt", payload::PROMPT, "--concurrency", CONCURRENCY];
        let flags = flags.into_iter().chain(["--request-count", &requests]);
        Client::ridgeline(program.to_owned(), &bench, flags)
    }
}

impl Subject for End {
    fn name(&self) -> &str {
        &self.name
    }

    fn run(&self, arm: Arm, _: &BTreeSet<String>) -> io::Result<Readings> {
        let client = self.client(&self.programs[arm as usize]);
        let sample = client.run(self.core, LIMIT)?;
        let units = sample.requests * self.load.events().unwrap_or(1);
        let per_unit = per_unit(Nanos(sample.cpu_ns), units)
            .ok_or_else(|| io::Error::other(format!("{}: no request was answered", self.name)))?;
        Ok([(self.name.clone(), per_unit)].into())
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "times and counts far below 2^53"
)]
fn per_unit(cpu: Nanos, units: u64) -> Option<f64> {
    (units > 0).then(|| cpu.0 as f64 / units as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_is_divided_by_what_was_done() {
        assert_eq!(per_unit(Nanos(3_000), 2), Some(1_500.0));
        assert_eq!(per_unit(Nanos(3_000), 0), None);
        assert_eq!(Load::Paced.events(), Some(1000));
        assert_eq!(Load::Request.events(), None);
    }
}
