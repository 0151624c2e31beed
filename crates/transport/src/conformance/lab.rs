use ridgeline_clock::{Clock, MonotonicClock, Nanos};

use crate::{InProcess, Limits, Transport};

/// Where ends of one kind are tried.
pub trait Lab {
    /// The kind.
    type End: Transport;

    /// Two ends, each with these limits, that are or will be each other's only peer. Both are turned
    /// on the calling thread.
    fn pair(&mut self, limits: Limits) -> (Self::End, Self::End);

    /// An end that nobody will join.
    fn alone(&mut self, limits: Limits) -> Self::End;

    /// The time on the ends' clock.
    fn now(&self) -> Nanos;

    /// Whether both ends can send. Some kinds go one way: from the first end to the second.
    fn is_two_way(&self) -> bool {
        true
    }
}

/// Ends of one process.
#[derive(Clone, Copy, Debug, Default)]
pub struct InProcessLab;

impl Lab for InProcessLab {
    type End = InProcess;

    fn pair(&mut self, limits: Limits) -> (InProcess, InProcess) {
        InProcess::pair(limits)
    }

    fn alone(&mut self, limits: Limits) -> InProcess {
        InProcess::new(limits)
    }

    fn now(&self) -> Nanos {
        MonotonicClock.now()
    }
}
