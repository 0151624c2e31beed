//! Slowdowns that the gate must find.

use std::fmt;

/// How a program with a plant is told how large that is.
pub(crate) const PERCENT: &str = "RIDGELINE_PLANT_PERCENT";

/// Where a slowdown of about 15 % is built in. The code stands in the crate that it slows down, behind
/// a `cfg` that nothing but the gate sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plant {
    /// In `wire`, where runs of familiar events are read.
    Scanner,
    /// In `engine`, where a request is taken up.
    Engine,
}

impl Plant {
    /// The benchmark that it slows down.
    pub(crate) fn figure(self) -> &'static str {
        match self {
            Self::Scanner => "scanner/one_token",
            Self::Engine => "engine/requests",
        }
    }

    /// How much of the work is done again, to begin with: percent of the bytes of a run of events, or of the
    /// writing of a request's head. What that costs depends on all else that the code does, and on the
    /// machine: the self-test finds the one for 15 %.
    pub(crate) fn percent(self) -> u32 {
        match self {
            Self::Scanner => 16,
            Self::Engine => 400,
        }
    }

    /// What the compiler is told.
    pub(crate) fn cfg(self) -> String {
        format!("ridgeline_planted=\"{self}\"")
    }
}

impl fmt::Display for Plant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Scanner => "scanner",
            Self::Engine => "engine",
        })
    }
}
