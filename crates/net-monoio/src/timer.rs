//! Exact deadlines.

use std::cell::Cell;
use std::io;
use std::os::fd::OwnedFd;
use std::rc::Rc;

use ridgeline_clock::Nanos;
use ridgeline_net_tasks::{Nudge, Runtime};
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use crate::socket::{Monoio, MonoioSocket};

/// A clock that ends the driver's wait.
#[derive(Debug)]
pub(crate) struct Timer {
    clock: OwnedFd,
    shared: Rc<Shared>,
}

#[derive(Debug)]
struct Shared {
    /// When it will fire; MAX while it will not.
    armed: Cell<Nanos>,
    stopped: Cell<bool>,
}

impl Timer {
    /// With its task. Called while the runtime runs something.
    pub(crate) fn start(nudge: Nudge<MonoioSocket>) -> io::Result<Self> {
        let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
        let clock = timerfd_create(TimerfdClockId::Monotonic, flags)?;
        let shared = Rc::new(Shared {
            armed: Cell::new(Nanos::MAX),
            stopped: Cell::new(false),
        });
        let watched = clock.try_clone()?;
        monoio::spawn(watch(watched, Rc::clone(&shared), nudge));
        Ok(Self { clock, shared })
    }

    /// Fires at `deadline`, or before. One that is armed for earlier is left as it is: a wait that ends too soon
    /// costs less than two system calls for each deadline.
    pub(crate) fn arm(&self, deadline: Nanos) -> io::Result<()> {
        if deadline < self.shared.armed.get() {
            self.set(deadline)?;
        }
        Ok(())
    }

    pub(crate) fn stop(&self) -> io::Result<()> {
        self.shared.stopped.set(true);
        self.set(Nanos(1))
    }

    fn set(&self, deadline: Nanos) -> io::Result<()> {
        const SECOND: u64 = 1_000_000_000;
        let part = |value: u64| i64::try_from(value).map_err(io::Error::other);
        // Zero would disarm it.
        let deadline = deadline.max(Nanos(1));
        let spec = Itimerspec {
            it_interval: Timespec::default(),
            it_value: Timespec {
                tv_sec: part(deadline.0 / SECOND)?,
                tv_nsec: part(deadline.0 % SECOND)?,
            },
        };
        timerfd_settime(&self.clock, TimerfdTimerFlags::ABSTIME, &spec)?;
        self.shared.armed.set(deadline);
        Ok(())
    }
}

async fn watch(clock: OwnedFd, shared: Rc<Shared>, nudge: Nudge<MonoioSocket>) {
    while !shared.stopped.get() {
        let Ok(watched) = clock.try_clone() else {
            return;
        };
        if Monoio::readable(watched).await.is_err() {
            return;
        }
        // It may have been set anew since: then there is nothing to read.
        if rustix::io::read(&clock, &mut [0; 8]).is_ok() {
            shared.armed.set(Nanos::MAX);
        }
        nudge.nudge();
    }
}
