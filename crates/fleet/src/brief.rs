use std::sync::Arc;

use ridgeline_clock::{Nanos, Timebase};
use ridgeline_metrics::Phase;

use crate::message::Secret;

/// What all workers of a run are told.
#[derive(Clone, Debug)]
pub struct Brief {
    /// A share of the name of every request.
    pub run_id: u32,
    /// The effective configuration, YAML.
    pub config: String,
    /// Sent to the endpoint as a bearer token.
    pub api_key: Option<Secret>,
    /// What both ends must know, where a worker asks for it.
    pub token: Option<Secret>,
    /// The files that the configuration names.
    pub files: Vec<PlanFile>,
    /// Whether there is a warm-up.
    pub warms_up: bool,
    /// From the start of the measured phase to the end of the drain at the latest; `None`: the run is
    /// bounded by a count.
    pub span_max: Option<Nanos>,
    /// Whether the lines of the records are fetched.
    pub gathers: bool,
    /// The commit that this program was built from.
    pub revision: String,
    /// This host's name.
    pub host: String,
    /// This machine's clock.
    pub timebase: Timebase,
}

/// A file that a configuration names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanFile {
    /// The key that names it.
    pub key: String,
    /// Its name, without a folder.
    pub name: String,
    /// Its content.
    pub bytes: Arc<[u8]>,
}

/// What happens, for whoever moves the messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A worker answered; `note`: what the user should know.
    Joined {
        /// Its place.
        worker: usize,
        /// In words.
        note: Option<String>,
    },
    /// A phase begins.
    Begins {
        /// Which.
        phase: Phase,
        /// When, on the coordinator's clock.
        at: Nanos,
    },
    /// A worker will end early, or is gone.
    Gone {
        /// Its place.
        worker: usize,
        /// Why, in words.
        why: String,
    },
    /// The next bytes of a worker's records; those of one worker come together.
    Part {
        /// Its place.
        worker: usize,
        /// The bytes.
        bytes: Vec<u8>,
    },
    /// A worker's records are all here, or as far as they will come.
    Gathered {
        /// Its place.
        worker: usize,
        /// Why they are not whole, if so.
        missing: Option<String>,
    },
}

impl Brief {
    pub(crate) fn first_phase(&self) -> Phase {
        if self.warms_up {
            Phase::Warmup
        } else {
            Phase::Measured
        }
    }
}
