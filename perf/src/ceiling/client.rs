#![expect(clippy::print_stdout, reason = "its one line of output")]

use std::error::Error;
use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use ridgeline_clock::Nanos;

use crate::client::{self, Load, Stop};
use crate::{machine, payload};

/// A closed loop over a bare io_uring: the client CPU time below which nothing goes.
#[derive(Debug, Parser)]
pub struct ClientArgs {
    /// The server, as 127.0.0.1:8000 or http://127.0.0.1:8000.
    address: String,
    /// What is asked for, and whether events are counted.
    #[arg(long, value_enum, default_value_t = Mode::Request)]
    mode: Mode,
    /// Connections, each with one request in flight.
    #[arg(long, default_value_t = 64, value_parser = clap::value_parser!(u32).range(1..=65536))]
    connections: u32,
    /// Stop after this many requests.
    #[arg(long, conflicts_with = "seconds")]
    requests: Option<u64>,
    /// Stop after this time; 4 when no end is given.
    #[arg(long)]
    seconds: Option<f64>,
    /// Ask the kernel to stamp what comes, and read the stamps.
    #[arg(long)]
    timestamps: bool,
    /// Send the bytes of this file instead.
    #[arg(long)]
    request_file: Option<PathBuf>,
    /// Receive buffers, a power of two [default: 256 for requests, 128 for streams].
    #[arg(long)]
    buffers: Option<u16>,
    /// The size of each [default: 4096 for requests, 65536 for streams].
    #[arg(long)]
    buffer_bytes: Option<u32>,
    /// Keep to this core.
    #[arg(long)]
    core: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Mode {
    Request,
    Stream,
}

impl ClientArgs {
    /// Runs it and prints its line of JSON.
    ///
    /// # Errors
    /// When the address is none, the request can't be read, or a connection breaks.
    pub fn run(&self) -> Result<(), Box<dyn Error>> {
        machine::raise_files_max();
        self.core.map_or(Ok(()), machine::pin)?;
        let text = self
            .address
            .trim_start_matches("http://")
            .trim_end_matches('/');
        let address: SocketAddr = text.parse().map_err(|e| format!("address {text:?}: {e}"))?;
        let stream = self.mode == Mode::Stream;
        let request = match &self.request_file {
            Some(path) => payload::request_of_file(path)?,
            None => payload::request(address, stream),
        };
        let stop = match (self.requests, self.seconds) {
            (Some(count), _) => Stop::Requests(count),
            (None, seconds) => Stop::After(Nanos::from_secs_f64(seconds.unwrap_or(4.0))),
        };
        // What was cheapest of many: METHOD.md.
        let (buffers, buffer_bytes) = if stream { (128, 65536) } else { (256, 4096) };
        let outcome = client::run(&Load {
            address,
            request,
            stream,
            connections: self.connections,
            stop,
            timestamps: self.timestamps,
            buffers: self.buffers.unwrap_or(buffers),
            buffer_bytes: self.buffer_bytes.unwrap_or(buffer_bytes),
        })?;
        println!("{}", serde_json::to_string(&outcome)?);
        Ok(())
    }
}
