//! Where and how long the sections measure.

use std::path::PathBuf;

/// What every section is given.
#[derive(Clone, Debug)]
pub struct Context {
    /// Fewer points and shorter runs: all sections within two minutes instead of ten.
    pub quick: bool,
    /// The ridgeline program, which is also the bare programs (`ridgeline ceiling NAME`).
    pub ridgeline: PathBuf,
    /// The core of servers.
    pub server_core: usize,
    /// The core of clients, and of what has no server.
    pub client_core: usize,
}
