//! Being woken by other threads.

use std::fmt;
use std::io::{self, Write};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use ridgeline_net::Wake;

/// Wakes a driver from any thread: one end of a pair of sockets, whose other end a task reads.
#[derive(Clone, Debug)]
pub struct TasksWaker(Arc<Bell>);

struct Bell {
    rope: UnixStream,
    /// Rung, and not yet heard: a second ring needs no system call.
    rung: AtomicBool,
}

impl fmt::Debug for Bell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bell")
            .field("rung", &self.rung)
            .finish_non_exhaustive()
    }
}

impl TasksWaker {
    /// With the end that is to be read.
    pub(crate) fn new() -> io::Result<(Self, UnixStream)> {
        let (rope, end) = UnixStream::pair()?;
        rope.set_nonblocking(true)?;
        let rung = AtomicBool::new(false);
        Ok((Self(Arc::new(Bell { rope, rung })), end))
    }

    /// The ring was read: from now on a wake is a new one.
    pub(crate) fn heard(&self) {
        self.0.rung.swap(false, Ordering::AcqRel);
    }
}

impl Wake for TasksWaker {
    fn wake(&self) {
        if !self.0.rung.swap(true, Ordering::AcqRel) {
            // There is room for a byte, as the one before was read; a driver that is gone needs none.
            let _ = (&self.0.rope).write(&[1]);
        }
    }
}
