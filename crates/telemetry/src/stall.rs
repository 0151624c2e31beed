use std::fmt;

use ridgeline_clock::Nanos;
use serde::{Deserialize, Serialize};

use crate::proc::Sched;
use crate::series::Sample;

/// What a page fault without a disk takes, roughly: less than the kernel needs to clear the page.
const FAULT: Nanos = Nanos(500);

/// Why a shard stood still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// A quota of its cgroup was used up.
    Throttled,
    /// The hypervisor ran something else on its core.
    Steal,
    /// It was runnable, and something else ran on its core.
    Scheduler,
    /// Memory had to be found for it.
    PageFaults,
    /// It had that much to do.
    OwnWork,
    /// It neither ran nor waited for the CPU: stopped by a signal, or blocked in the kernel.
    Stopped,
    /// The kernel keeps no account, or nobody looked.
    Unknown,
}

/// One stall and what the kernel's accounts say of the time around it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Why.
    pub cause: Cause,
    /// How long that went on in the time around the stall.
    pub of: Nanos,
    /// The length of the time around the stall that the accounts are of.
    pub around: Nanos,
}

impl Stall {
    pub(crate) const UNKNOWN: Self = Self {
        cause: Cause::Unknown,
        of: Nanos::ZERO,
        around: Nanos::ZERO,
    };

    /// The first of the causes that fills at least half of a stall of `length` between two samples. `usual`:
    /// what its thread runs in the rest of the time between them on any other day.
    pub(crate) fn explain(before: &Sample, after: &Sample, length: Nanos, usual: Nanos) -> Self {
        let half = length / 2;
        let (cause, of) = causes(before, after, usual)
            .into_iter()
            .find(|&(_, of)| of > Nanos::ZERO && of >= half)
            .unwrap_or(match after.sched {
                Some(_) => (Cause::Stopped, length),
                None => (Cause::Unknown, Nanos::ZERO),
            });
        Self {
            cause,
            of,
            around: after.at - before.at,
        }
    }
}

/// The candidates and their times, those first that cause the others: a throttled thread also waits in
/// its run queue.
fn causes(before: &Sample, after: &Sample, usual: Nanos) -> [(Cause, Nanos); 5] {
    let since = |of: fn(&Sample) -> Option<Nanos>| match (of(before), of(after)) {
        (Some(before), Some(after)) => after - before,
        _ => Nanos::ZERO,
    };
    let sched = |of: fn(Sched) -> Nanos| match (before.sched, after.sched) {
        (Some(before), Some(after)) => of(after) - of(before),
        _ => Nanos::ZERO,
    };
    let stolen = if before.core == after.core {
        since(|sample| sample.stolen)
    } else {
        Nanos::ZERO
    };
    let minor = after.faults_minor.saturating_sub(before.faults_minor);
    let off_disk = after.faults_major > before.faults_major;
    let (ran, waited) = (sched(|sched| sched.ran), sched(|sched| sched.waited));
    let around = after.at - before.at;
    // How long a disk took is not told: what is left when it neither ran nor waited.
    let faults = if off_disk {
        around - ran - waited
    } else {
        FAULT * minor
    };
    [
        (Cause::Throttled, since(|sample| sample.throttled)),
        (Cause::Steal, stolen),
        (Cause::Scheduler, waited),
        (Cause::PageFaults, faults),
        (Cause::OwnWork, ran - usual),
    ]
}

/// In words, to go after `the longest stall of 7.1 ms: `.
impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { cause, of, around } = self;
        match cause {
            Cause::Throttled => write!(f, "its cgroup was throttled for {of}"),
            Cause::Steal => write!(
                f,
                "the hypervisor gave its core to others for {of} (steal) of the {around} around it"
            ),
            Cause::Scheduler => write!(
                f,
                "its thread waited for the CPU for {of} of the {around} around it (scheduler)"
            ),
            Cause::PageFaults => f.write_str("page faults"),
            Cause::OwnWork => f.write_str("own work"),
            Cause::Stopped => f.write_str(
                "its thread neither ran nor waited for the CPU (stopped by a signal, or blocked)",
            ),
            Cause::Unknown => f.write_str("the cause is not known"),
        }
    }
}

impl Cause {
    /// What can be done about it; `None` where nothing better is known than to keep other work away.
    #[must_use]
    pub const fn remedy(self) -> Option<&'static str> {
        match self {
            Self::Throttled => Some(
                "give the client's cgroup a larger CPU quota, or none (cpu.max, cpu.cfs_quota_us, the \
                 CPU limit of its container)",
            ),
            Self::Steal => {
                Some("run the client on a machine whose cores are not shared with others")
            }
            Self::PageFaults => Some("leave the client more memory, and no swap"),
            Self::OwnWork => {
                Some("give the client more cores (--cores), so that each does less at a time")
            }
            Self::Stopped => Some(
                "find what stopped or blocked the client: a signal, a debugger, a snapshot of its machine",
            ),
            Self::Scheduler | Self::Unknown => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Two samples 100 ms apart; the change is what happened between.
    fn explain(change: impl Fn(&mut Sample)) -> Stall {
        let sched = |ran, waited| Sched {
            ran: Nanos(ran),
            waited: Nanos(waited),
            timeslices: 9,
        };
        let before = Sample {
            at: Nanos::from_secs(5),
            sched: Some(sched(700 * MS, 30 * MS)),
            faults_minor: 1_000,
            faults_major: 2,
            core: Some(1),
            stolen: Some(Nanos(50 * MS)),
            throttled: Some(Nanos(80 * MS)),
        };
        let mut after = Sample {
            at: before.at + Nanos(100 * MS),
            sched: Some(sched(720 * MS, 31 * MS)),
            ..before
        };
        change(&mut after);
        Stall::explain(&before, &after, Nanos(7 * MS), Nanos(9 * MS))
    }

    fn waited(sample: &mut Sample, ns: u64) {
        if let Some(sched) = &mut sample.sched {
            sched.waited += Nanos(ns);
        }
    }

    #[test]
    fn a_stall_is_what_fills_half_of_it_first() {
        let own = explain(|_| ());
        assert_eq!((own.cause, own.of), (Cause::OwnWork, Nanos(11 * MS)));
        let scheduler = explain(|s| waited(s, 6 * MS));
        assert_eq!(
            (scheduler.cause, scheduler.of),
            (Cause::Scheduler, Nanos(7 * MS))
        );
        assert_eq!(explain(|s| waited(s, 2 * MS)).cause, Cause::OwnWork);
        let steal = explain(|s| {
            waited(s, 6 * MS);
            s.stolen = Some(Nanos(60 * MS));
        });
        assert_eq!(steal.cause, Cause::Steal);
        let throttled = explain(|s| {
            waited(s, 60 * MS);
            s.throttled = Some(Nanos(140 * MS));
        });
        assert_eq!(
            (throttled.cause, throttled.of),
            (Cause::Throttled, Nanos(60 * MS))
        );
        assert_eq!(
            explain(|s| s.faults_minor += 8_000).cause,
            Cause::PageFaults
        );
        assert_eq!(explain(|s| s.faults_major += 1).cause, Cause::PageFaults);
    }

    #[test]
    fn what_is_not_known_is_not_a_cause() {
        let moved = explain(|s| {
            s.core = Some(0);
            s.stolen = Some(Nanos(90 * MS));
        });
        assert_eq!(moved.cause, Cause::OwnWork, "another core's steal");
        let silent = explain(|s| s.sched = None);
        assert_eq!(silent.cause, Cause::Unknown);
        // Stopped: it ran before and after as usual, and not for half of the stall.
        let stopped = explain(|s| {
            if let Some(sched) = &mut s.sched {
                sched.ran = Nanos(712 * MS);
            }
        });
        assert_eq!(stopped.cause, Cause::Stopped);
    }

    #[test]
    fn a_stall_is_said_in_words() {
        let words = explain(|s| waited(s, 6 * MS)).to_string();
        let expected =
            "its thread waited for the CPU for 7.00 ms of the 100 ms around it (scheduler)";
        assert_eq!(words, expected);
        assert!(
            Cause::Throttled
                .remedy()
                .is_some_and(|text| text.contains("quota"))
        );
        assert_eq!(Cause::Scheduler.remedy(), None);
    }
}
