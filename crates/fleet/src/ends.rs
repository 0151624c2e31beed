use std::ops::Range;

use ridgeline_clock::Nanos;
use ridgeline_engine::LiveTotals;

use crate::ClockOffset;
use crate::message::{Finished, WorkerHello};

/// How a worker's part in a run ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// As planned.
    Finished,
    /// It ended early, in order: its numbers are those up to then.
    Left {
        /// Why, in words.
        why: String,
    },
    /// Its numbers are missing.
    Lost {
        /// Why, in words.
        why: String,
    },
}

/// What is known of a worker when the run is over.
#[derive(Clone, Debug, PartialEq)]
pub struct MemberEnd {
    /// Its address, or what else it is called by.
    pub name: String,
    /// Who it said it was, if it did.
    pub hello: Option<WorkerHello>,
    /// Its shards of the run.
    pub shards: Range<u32>,
    /// How far its clock was from the coordinator's when the run began.
    pub clock: Option<ClockOffset>,
    /// How much further it was ahead at the end, ns, where that was measured.
    pub clock_drift_ns: Option<i64>,
    /// What drives its sockets; empty when it never was ready.
    pub driver: String,
    /// How it ended.
    pub ending: Ending,
    /// When that was.
    pub ended: Nanos,
    /// Its last live counts: of a lost worker they are all that is known.
    pub totals: LiveTotals,
    /// What it measured, unless it is lost.
    pub finished: Option<Finished>,
}

/// Why a run was not begun.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// Nobody answers.
    #[error(
        "the worker {name} did not answer within {within}{why}: is `ridgeline worker --listen` running \
         there, and is that its address?"
    )]
    NoAnswer {
        /// The worker.
        name: String,
        /// How long was waited.
        within: Nanos,
        /// The last that was heard of the link, with a colon before it.
        why: String,
    },
    /// It won't or can't.
    #[error("the worker {name} can't take part: {why}")]
    Refused {
        /// The worker.
        name: String,
        /// Why, in words.
        why: String,
    },
    /// It is gone.
    #[error("the worker {name} was lost before the run began: {why}")]
    Lost {
        /// The worker.
        name: String,
        /// Why, in words.
        why: String,
    },
    /// The user ended it.
    #[error("interrupted before the run began")]
    Interrupted,
}
