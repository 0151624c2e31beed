//! One module a component. Each has `run`, which tells its rows as they are found.

mod client;
mod drivers;
mod engine;
mod records;
mod scanner;
mod schedule;
mod sse;
mod streams;
mod transport;
mod turns;

use std::io;

use clap::ValueEnum;
use ridgeline_clock::Nanos;
use serde::{Deserialize, Serialize};

use crate::{Context, Row, Unit};

/// A component that has a ceiling of its own.
#[derive(
    Clone, Copy, Debug, Deserialize, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, ValueEnum,
)]
#[serde(rename_all = "snake_case")]
pub enum Section {
    /// Reading streams that are in memory already.
    Scanner,
    /// The engine on a virtual network: no kernel.
    Engine,
    /// Requests that are not streamed, over loopback.
    Client,
    /// The same on every driver that can be used here.
    Drivers,
    /// Streams, over loopback.
    Sse,
    /// Streams held open at one event a second.
    Streams,
    /// Being on time.
    Schedule,
    /// Messages between threads and processes.
    Transport,
    /// Records to disk.
    Records,
}

/// What measures a section.
pub type Work = fn(&Context, &mut dyn FnMut(Row)) -> io::Result<()>;

impl Section {
    /// All of them, in the order in which they are measured: what leaves a machine as it was comes first,
    /// and what leaves tens of thousands of closed connections behind last.
    pub const ALL: [Self; 9] = [
        Self::Scanner,
        Self::Engine,
        Self::Transport,
        Self::Records,
        Self::Client,
        Self::Drivers,
        Self::Sse,
        Self::Schedule,
        Self::Streams,
    ];

    /// As it is named on the command line and in files.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Scanner => "scanner",
            Self::Engine => "engine",
            Self::Client => "client",
            Self::Drivers => "drivers",
            Self::Sse => "sse",
            Self::Streams => "streams",
            Self::Schedule => "schedule",
            Self::Transport => "transport",
            Self::Records => "records",
        }
    }

    /// What it measures, in a few words.
    #[must_use]
    pub fn about(self) -> &'static str {
        match self {
            Self::Scanner => "reading streams that are in memory",
            Self::Engine => "the engine on a virtual network, without a kernel",
            Self::Client => "requests that are not streamed, over loopback",
            Self::Drivers => "requests that are not streamed, on each driver, over loopback",
            Self::Sse => "streams, over loopback",
            Self::Streams => "streams held open at one event a second",
            Self::Schedule => "being on time",
            Self::Transport => "messages between threads and processes",
            Self::Records => "records to disk",
        }
    }

    /// What it counts first of all.
    #[must_use]
    pub fn unit(self) -> Unit {
        match self {
            Self::Scanner => Unit::BytesPerS,
            Self::Engine | Self::Client | Self::Drivers | Self::Schedule => Unit::RequestsPerS,
            Self::Sse => Unit::EventsPerS,
            Self::Streams => Unit::Streams,
            Self::Transport => Unit::MessagesPerS,
            Self::Records => Unit::RecordsPerS,
        }
    }

    /// How long it may take. All together: within ten minutes, `quick` within two.
    #[must_use]
    pub fn budget(self, quick: bool) -> Nanos {
        let (whole, short) = match self {
            Self::Scanner | Self::Engine | Self::Records => (20, 4),
            Self::Transport => (60, 12),
            Self::Client | Self::Sse => (120, 24),
            Self::Drivers => (30, 8),
            Self::Schedule => (80, 20),
            Self::Streams => (130, 20),
        };
        Nanos::from_secs(if quick { short } else { whole })
    }

    /// What measures it, alone and without a bound on its time.
    #[must_use]
    pub fn work(self) -> Work {
        match self {
            Self::Scanner => scanner::run,
            Self::Engine => engine::run,
            Self::Client => client::run,
            Self::Drivers => drivers::run,
            Self::Sse => sse::run,
            Self::Streams => streams::run,
            Self::Schedule => schedule::run,
            Self::Transport => transport::run,
            Self::Records => records::run,
        }
    }
}
