use super::{Evidence, Status, Verdict, VerdictLimits};
use crate::Goodput;

/// How a run ended, for the exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ending {
    /// The user interrupted it; a partial report was written.
    pub interrupted: bool,
    /// Every request failed, or the error rate is over `max_error_rate`.
    pub errors_over: bool,
    /// The verdict's status.
    pub status: Status,
    /// A percentile SLO or another gate failed.
    pub gate_failed: bool,
}

impl Ending {
    /// Exit code of a wrong command line or configuration: nothing was run.
    pub const USAGE: u8 = 2;

    /// From what a run found.
    #[must_use]
    pub fn new(
        interrupted: bool,
        evidence: &Evidence,
        limits: &VerdictLimits,
        verdict: &Verdict,
        goodput: Option<&Goodput>,
    ) -> Self {
        Self {
            interrupted,
            errors_over: evidence.all_failed() || evidence.errors_over(limits),
            status: verdict.status,
            gate_failed: goodput.is_some_and(Goodput::failed),
        }
    }

    /// The exit code, the first that applies: 130 interrupted, 4 errors, 3 invalid, 5 an SLO or gate
    /// failed, 0 valid or degraded.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Self {
                interrupted: true, ..
            } => 130,
            Self {
                errors_over: true, ..
            } => 4,
            Self {
                status: Status::Invalid,
                ..
            } => 3,
            Self {
                gate_failed: true, ..
            } => 5,
            Self {
                status: Status::Valid | Status::Degraded,
                ..
            } => 0,
        }
    }
}
