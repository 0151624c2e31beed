//! Where and how long the sections measure.

use std::path::PathBuf;

use ridgeline_clock::Nanos;

/// What every section is given.
#[derive(Clone, Debug)]
pub struct Context {
    /// Fewer points and shorter runs: all sections within two minutes instead of ten.
    pub quick: bool,
    /// The ridgeline program, which is also the bare programs (`ridgeline ceiling NAME`).
    pub ridgeline: PathBuf,
    /// The drivers that can be used here, as `ridgeline bench --driver` names them.
    pub drivers: Vec<String>,
    /// The core of servers.
    pub server_core: usize,
    /// The core of clients, and of what has no server.
    pub client_core: usize,
    /// About how long one run of a program is to take, where not as long as is usual.
    pub run_length: Option<Nanos>,
}

impl Context {
    /// About how long one run of a program is to take: start-up is a few hundredths of it.
    #[must_use]
    pub fn run(&self) -> Nanos {
        let usual = Nanos::from_millis(if self.quick { 700 } else { 1_500 });
        self.run_length.unwrap_or(usual)
    }
}
