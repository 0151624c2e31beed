//! Slowdowns that the gate must find.

use std::fmt;

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
