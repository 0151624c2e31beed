//! The verdict: are the numbers the server's, or the client's?
//!
//! [`judge`] takes the [`Evidence`] of a run and the [`VerdictLimits`] of its plan and answers with a
//! status, what limited the run, and a reason for each limit that was passed, with its value, limit
//! and remedy. It decides by numbers alone, so that a verdict can be checked from its report.

mod ending;
mod evidence;
mod limits;
mod reason;
mod rows;

use std::fmt;

use serde::{Deserialize, Serialize};

pub use ending::Ending;
pub use evidence::{BelowFloor, Evidence, Exhausted, Load, Resource, ShardLoad, StallCause};
pub use limits::{LimitsError, VerdictLimits};
pub use reason::{Code, Reason, Unit};

use rows::ROWS;

/// How far the numbers can be trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Nothing speaks against them.
    Valid,
    /// With the caution that the reasons give.
    Degraded,
    /// They do not show what was asked for.
    Invalid,
}

/// What kept the run from going faster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LimitedBy {
    /// This program or its machine.
    Client,
    /// The endpoint.
    Server,
    /// The load that was asked for: the schedule was followed, and nothing was near its limit.
    Load,
    /// Too short a run to judge.
    None,
}

/// The judgement of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// The worst status of the reasons; valid without any.
    pub status: Status,
    /// What kept the run from going faster.
    pub limited_by: LimitedBy,
    /// Every limit that was passed, in the order of the table.
    pub reasons: Vec<Reason>,
}

/// Judges a run.
#[must_use]
pub fn judge(evidence: &Evidence, limits: &VerdictLimits) -> Verdict {
    let reasons: Vec<Reason> = ROWS.iter().flat_map(|row| row(evidence, limits)).collect();
    let status = reasons
        .iter()
        .map(|reason| reason.status)
        .max()
        .unwrap_or(Status::Valid);
    Verdict {
        status,
        limited_by: limited_by(evidence, limits, &reasons),
        reasons,
    }
}

impl Verdict {
    /// Takes in the verdict of a part of the run, which messages call `name`: a run is no better than its worst
    /// part. What the run gives a reason for already is not said again, and a part may be short.
    pub fn heed(&mut self, name: &str, part: &Self) {
        for reason in &part.reasons {
            let known = |own: &Reason| own.code == reason.code && own.status >= reason.status;
            if reason.code != Code::Samples && !self.reasons.iter().any(known) {
                self.status = self.status.max(reason.status);
                self.reasons.push(Reason {
                    message: format!("{name}: {}", reason.message),
                    ..reason.clone()
                });
            }
        }
        if self.limited_by.rank() < part.limited_by.rank() {
            self.limited_by = part.limited_by;
        }
    }
}

impl LimitedBy {
    /// What of several parts the whole was limited by: the highest of theirs.
    const fn rank(self) -> u8 {
        match self {
            Self::None => 0,
            Self::Load => 1,
            Self::Server => 2,
            Self::Client => 3,
        }
    }
}

/// The client, if any of its own limits was passed. Three things are no limit of its own: requests
/// that wait under the cap of a rate, because the server has not answered the earlier ones (the wait
/// then also shows as lag and as requests not sent); a load that was not reached because the server
/// took no connections; and a moment's delay in a run too short to be judged.
///
/// A rate limits by itself as long as latency does not grow from the first request to the last: where it
/// does while the client is at no limit of its own, the server does not keep up. Moments at which the client was
/// late are no such limit then, if latency grew by many times as much.
fn limited_by(evidence: &Evidence, limits: &VerdictLimits, reasons: &[Reason]) -> LimitedBy {
    let found = |of: &dyn Fn(Code) -> bool| reasons.iter().any(|reason| of(reason.code));
    let capped = found(&|code| code == Code::Capped);
    let (short, refused) = (evidence.is_short(limits), evidence.is_refused(limits));
    let timed = matches!(evidence.load, Load::Timed { .. });
    let behind = timed && evidence.is_falling_behind(limits);
    let outgrown = behind && evidence.grew_beyond_delays();
    let clients = |code: Code| {
        let own = code.is_clients() || code.is_schedules() && !capped;
        let excused = refused && code.is_of_the_load()
            || (short || outgrown) && code.is_of_a_moment()
            || outgrown && code == Code::LagP99;
        own && !excused
    };
    if evidence.requests() == 0 && !found(&|code| code == Code::Resources) {
        LimitedBy::None
    } else if found(&clients) {
        LimitedBy::Client
    } else if capped {
        LimitedBy::Server
    } else if short {
        LimitedBy::None
    } else if found(&|code| matches!(code, Code::Errors | Code::Censored)) {
        LimitedBy::Server
    } else if timed && !behind {
        LimitedBy::Load
    } else {
        LimitedBy::Server
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Valid => "valid",
            Self::Degraded => "degraded",
            Self::Invalid => "invalid",
        })
    }
}

impl fmt::Display for LimitedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Client => "client",
            Self::Server => "server",
            Self::Load => "load",
            Self::None => "none",
        })
    }
}

#[cfg(test)]
mod tests;
