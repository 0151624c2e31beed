//! Waiting, and being woken.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use mio::{Events, Poll, Waker};
use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use ridgeline_net::{DriverError, Wake};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Wakes an [`EpollDriver`](crate::EpollDriver), through an eventfd.
#[derive(Clone, Debug)]
pub struct EpollWaker(pub(crate) Arc<Waker>);

impl Wake for EpollWaker {
    fn wake(&self) {
        // Fails only if the counter of wakes cannot be written, which mio resets when it is full.
        let _ = self.0.wake();
    }
}

/// Waits for events until `deadline`: whole milliseconds in `epoll_wait`, which knows nothing
/// finer, and the rest in `ppoll`. May return early.
pub(crate) fn wait(
    poll: &mut Poll,
    events: &mut Events,
    deadline: Nanos,
) -> Result<(), DriverError> {
    if deadline == Nanos::MAX {
        return enter(poll, events, None);
    }
    const MILLISECOND: u64 = 1_000_000;
    let left = deadline - MonotonicClock.now();
    if left.0 >= MILLISECOND {
        enter(
            poll,
            events,
            Some(Duration::from_millis(left.0 / MILLISECOND)),
        )?;
        if !events.is_empty() {
            return Ok(());
        }
    }
    let left = deadline - MonotonicClock.now();
    if left > Nanos::ZERO && left.0 < MILLISECOND {
        let timeout = Timespec {
            tv_sec: 0,
            tv_nsec: i64::try_from(left.0).unwrap_or(0),
        };
        let mut fds = [PollFd::new(poll.registry(), PollFlags::IN)];
        match self::poll(&mut fds, Some(&timeout)) {
            Ok(0) => return Ok(()),
            Ok(_) => {}
            Err(errno) if errno == rustix::io::Errno::INTR => {}
            Err(errno) => return Err(failed("ppoll", errno.into())),
        }
    }
    enter(poll, events, Some(Duration::ZERO))
}

/// One `epoll_wait`.
pub(crate) fn enter(
    poll: &mut Poll,
    events: &mut Events,
    timeout: Option<Duration>,
) -> Result<(), DriverError> {
    match poll.poll(events, timeout) {
        Err(error) if error.kind() == io::ErrorKind::Interrupted => {
            events.clear();
            Ok(())
        }
        done => done.map_err(|error| failed("epoll_wait", error)),
    }
}

pub(crate) fn failed(call: &'static str, source: io::Error) -> DriverError {
    DriverError::Os { call, source }
}
