use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ridgeline_net::Wake;
use rustix::event::{EventfdFlags, eventfd};

/// Wakes a [`UringDriver`](crate::UringDriver) from any thread: an eventfd that the ring reads.
#[derive(Clone, Debug)]
pub struct UringWaker(Arc<Bell>);

#[derive(Debug)]
struct Bell {
    event: OwnedFd,
    /// Rung, and not yet heard: a second ring needs no system call.
    rung: AtomicBool,
}

impl UringWaker {
    pub(crate) fn new() -> io::Result<Self> {
        let event = eventfd(0, EventfdFlags::CLOEXEC)?;
        Ok(Self(Arc::new(Bell {
            event,
            rung: AtomicBool::new(false),
        })))
    }

    pub(crate) fn event(&self) -> &OwnedFd {
        &self.0.event
    }

    /// The ring read the event: from now on a wake is a new one.
    pub(crate) fn heard(&self) {
        self.0.rung.swap(false, Ordering::AcqRel);
    }
}

impl Wake for UringWaker {
    fn wake(&self) {
        if !self.0.rung.swap(true, Ordering::AcqRel) {
            // It can't fail: the counter is far from its limit and the event is ours.
            let written = rustix::io::write(&self.0.event, &1_u64.to_ne_bytes());
            debug_assert!(written.is_ok(), "{written:?}");
        }
    }
}
