//! A server, workers and a coordinator on their machines.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;

use crate::network::{Ahead, COORDINATOR, Network, SERVER, address};
use crate::program::Program;

const RIDGELINE: &str = env!("CARGO_BIN_EXE_ridgeline");

/// Where workers listen.
pub(crate) const PORT: u16 = 9700;

const SERVER_PORT: u16 = 8000;

/// The machines with a server on one of them. Programs that are started on it must be dropped first.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) server: Program,
    folder: TempDir,
    pub(crate) network: Network,
}

impl World {
    /// Starts the server. `None`: machines can't be made here, which was said.
    pub(crate) fn make(server: &[&str]) -> Option<Self> {
        let network = Network::make()?;
        let mut command = network.command(SERVER, 0, RIDGELINE);
        let host = address(SERVER).to_string();
        command.args(["mock-server", "--host", &host, "--stats", "--port"]);
        command.arg(SERVER_PORT.to_string()).args(server);
        let mut server = Program::start(SERVER, command);
        server.line("listening on ");
        let folder = tempfile::tempdir().expect("a temporary folder");
        fs::write(folder.path().join("token"), "a token of this test\n").expect("a file");
        Some(Self {
            server,
            folder,
            network,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file with a token of its own.
    pub(crate) fn token(&self, token: &str) -> String {
        let path = self.path("other-token");
        fs::write(&path, token).expect("a file");
        path.display().to_string()
    }

    /// Starts a worker and waits until it listens. Its clock is ahead of this machine's.
    pub(crate) fn worker(&self, machine: &str, ahead: Ahead) -> Program {
        let token = self.path("token").display().to_string();
        self.worker_with(machine, ahead, &token)
    }

    pub(crate) fn worker_with(&self, machine: &str, ahead: Ahead, token: &str) -> Program {
        let mut command = self.network.command(machine, ahead, RIDGELINE);
        let own = self.path(machine);
        fs::create_dir(&own).expect("a folder of its own");
        let listen = format!("tcp://0.0.0.0:{PORT}");
        command.current_dir(own);
        command.args([
            "worker",
            "--once",
            "--listen",
            &listen,
            "--token-file",
            token,
        ]);
        let mut worker = Program::start(machine, command);
        worker.line("listening on ");
        worker
    }

    /// Starts a coordinator for the workers at `addresses`.
    pub(crate) fn coordinator(&self, addresses: &[String], load: &[&str]) -> Program {
        let mut command = self.network.command(COORDINATOR, 0, RIDGELINE);
        let url = format!("http://{SERVER}:{SERVER_PORT}");
        command.args([
            "bench", "--url", &url, "--model", "mock", "--isl", "8", "--osl", "4",
        ]);
        command.args(["--workers", &addresses.join(","), "--token-file"]);
        command
            .arg(self.path("token"))
            .arg("--output-dir")
            .arg(self.path("out"));
        command.args(load);
        Program::start(COORDINATOR, command)
    }

    /// Waits until requests come to the server.
    pub(crate) fn load(&mut self) {
        self.server.line_that(&|line| {
            let rate = line.split(" requests/s").next().unwrap_or_default();
            let rate = rate.rsplit(' ').next().unwrap_or_default();
            line.contains(" requests/s") && rate != "0"
        });
    }

    /// The report of the run.
    pub(crate) fn report(&self) -> Value {
        let report = fs::read(self.path("out/report.json")).expect("there is a report");
        serde_json::from_slice(&report).expect("it is JSON")
    }

    /// The records of the run.
    pub(crate) fn records(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.path("out/records.jsonl")).expect("there are records");
        let lines = text.lines().map(serde_json::from_str);
        lines.map(|line| line.expect("a line is JSON")).collect()
    }
}

/// The address of a worker, by the name of its machine or another that it has.
pub(crate) fn at(name: &str) -> String {
    format!("tcp://{name}:{PORT}")
}

/// Where a worker is.
pub(crate) fn socket(machine: &str) -> SocketAddr {
    (address(machine), PORT).into()
}

/// The reasons of a verdict, by their codes.
pub(crate) fn codes(report: &Value) -> Vec<&str> {
    let reasons = report["verdict"]["reasons"].as_array();
    let reasons = reasons.expect("a verdict has reasons");
    reasons
        .iter()
        .filter_map(|reason| reason["code"].as_str())
        .collect()
}
