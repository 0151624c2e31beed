//! One module a component. Each has `run`, which tells its rows as they are found.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

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
