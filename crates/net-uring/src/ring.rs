//! The ring itself: queue entries in and out, and the one system call of the loop.
//!
//! # The central invariant
//!
//! *Every pointer in a submission queue entry points to memory that the driver owns and that
//! neither moves nor is freed nor is written to by the program before the entry's last completion
//! is reaped.* Such memory is one of:
//!
//! - a `static` (values of socket options);
//! - the driver's slabs (socket addresses, message headers), boxed slices that never grow;
//! - the head and body of a send in flight, which its slot owns until the completion is reaped;
//! - the provided buffers, lent to the kernel by way of the buffer ring alone;
//! - the waker's counter cell and the template of a receive's message header, each in a box.
//!
//! Every `SAFETY` note about an entry refers to this as *the invariant*. `UringDriver::drop` takes
//! back what is in flight before anything is freed, and leaks it should the kernel not answer.
//!
//! Why unsafe at all: the kernel reads and writes through these pointers behind the compiler's
//! back, so no safe interface can carry them without copying every send and every receive.

use std::io;
use std::mem::size_of;
use std::os::fd::AsRawFd;
use std::ptr;

use io_uring::types::{SubmitArgs, Timespec};
use io_uring::{EnterFlags, IoUring, cqueue, squeue};
use ridgeline_clock::{Clock, MonotonicClock, Nanos, monotonic_is_shifted};

/// `IORING_REGISTER_RING_FDS` and its counterpart, `IORING_REGISTER_FILE_ALLOC_RANGE` of
/// linux/io_uring.h: the io-uring crate keeps a registered ring only as long as a borrow, and has
/// no call for the last.
const REGISTER_RING_FDS: libc::c_uint = 20;
const UNREGISTER_RING_FDS: libc::c_uint = 21;
const REGISTER_FILE_ALLOC_RANGE: libc::c_uint = 25;

/// So many completions end a wait that gathers before its time.
const GATHERED_MAX: u32 = 64;

/// `struct io_uring_rsrc_update`.
#[repr(C)]
struct RingUpdate {
    offset: u32,
    resv: u32,
    data: u64,
}

/// `struct io_uring_file_index_range`.
#[repr(C)]
struct FileRange {
    offset: u32,
    len: u32,
    resv: u64,
}

pub(crate) struct Ring {
    io: IoUring,
    /// What `io_uring_enter` is given: the registered index.
    enter_fd: i32,
    enter_flags: EnterFlags,
    /// Whether deadlines are passed as they are (Linux 6.12, and no time namespace that shifts the
    /// clock), else as a span from now.
    absolute: bool,
    /// Whether a wait can go on for a while after the first completion (Linux 6.12).
    gathers: bool,
    /// Entries pushed whose last completion is not reaped, silent ones not counted.
    outstanding: u64,
}

/// The queues before an enter.
#[derive(Clone, Copy, Debug)]
pub(crate) struct State {
    /// Completions that were there already.
    pub(crate) unreaped: usize,
    /// The kernel holds completions that did not fit the queue. Until it holds none, it puts every
    /// completion behind them.
    pub(crate) overflowed: bool,
    /// Nothing to hand over or to reap.
    pub(crate) empty: bool,
    /// The kernel says that it has deferred work to run. It says so too early when another core adds
    /// work while this one takes it: the work is run, and the word stays until there is more.
    pub(crate) has_work: bool,
}

impl State {
    /// Whether an enter should wait: it will sleep. `ran_nothing`: the enter before this one was made
    /// for deferred work alone, and there was none.
    pub(crate) const fn is_idle(self, ran_nothing: bool) -> bool {
        self.empty && (!self.has_work || ran_nothing)
    }
}

impl Ring {
    /// A ring of the calling thread, which must be the one that uses it.
    pub(crate) fn new(sq_entries: u32, cq_entries: u32) -> io::Result<Self> {
        let mut builder = IoUring::builder();
        builder
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .dontfork();
        builder.setup_cqsize(cq_entries);
        // Tells whether an enter will find work or sleep: without it a busy kernel looks idle.
        builder.setup_taskrun_flag();
        let io = builder.build(sq_entries)?;
        let mut ring = Self {
            enter_fd: io.as_raw_fd(),
            gathers: io.params().is_feature_min_timeout(),
            io,
            enter_flags: EnterFlags::GETEVENTS,
            absolute: false,
            outstanding: 0,
        };
        // A thread has 16 places for rings; without one an enter looks its descriptor up, no more.
        let _ = ring.register_itself();
        ring.absolute = ring.knows_absolute_deadlines() && !monotonic_is_shifted();
        Ok(ring)
    }

    pub(crate) fn io(&self) -> &IoUring {
        &self.io
    }

    /// Entries that wait for a completion.
    pub(crate) fn outstanding(&self) -> u64 {
        self.outstanding
    }

    fn register_itself(&mut self) -> io::Result<()> {
        let data = u64::try_from(self.io.as_raw_fd()).map_err(io::Error::other)?;
        let mut update = RingUpdate {
            offset: u32::MAX,
            resv: 0,
            data,
        };
        self.register(REGISTER_RING_FDS, &raw mut update, 1)?;
        self.enter_fd = i32::try_from(update.offset).map_err(io::Error::other)?;
        self.enter_flags |= EnterFlags::REGISTERED_RING;
        Ok(())
    }

    /// Keeps the first `reserved` entries of the file table out of the kernel's own choice.
    pub(crate) fn reserve_files(&mut self, reserved: u32, files: u32) -> io::Result<()> {
        let mut range = FileRange {
            offset: reserved,
            len: files - reserved,
            resv: 0,
        };
        self.register(REGISTER_FILE_ALLOC_RANGE, &raw mut range, 0)
    }

    fn register<T>(&self, op: libc::c_uint, arg: *mut T, count: libc::c_uint) -> io::Result<()> {
        let fd = self.io.as_raw_fd();
        // SAFETY: `arg` points to the one struct that `op` reads and writes, alive for the call.
        let result = unsafe { libc::syscall(libc::SYS_io_uring_register, fd, op, arg, count) };
        if result < 0 {
            Err(io::Error::last_os_error())
        } else {
            Ok(())
        }
    }

    /// Asks with a deadline long gone: a kernel that doesn't know the flag says EINVAL.
    fn knows_absolute_deadlines(&self) -> bool {
        let past = Timespec::new().nsec(1);
        let args = SubmitArgs::new().timespec(&past);
        match self.call(
            0,
            0,
            EnterFlags::EXT_ARG | EnterFlags::ABS_TIMER,
            Some(&args),
        ) {
            Ok(_) => true,
            Err(error) => error.raw_os_error() == Some(libc::ETIME),
        }
    }

    /// Queues an entry that is followed by a completion; enters when the queue is full.
    ///
    /// # Safety
    /// The invariant holds for every pointer in `entry`.
    #[inline]
    pub(crate) unsafe fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        self.outstanding += 1;
        // SAFETY: the caller's promise.
        unsafe { self.push_any(entry) }
    }

    /// Queues an entry that has no completion when it succeeds, and whose failure matters to
    /// nobody.
    ///
    /// # Safety
    /// Every pointer in `entry` is to a `static`.
    pub(crate) unsafe fn push_silent(&mut self, entry: squeue::Entry) -> io::Result<()> {
        let entry = entry.flags(squeue::Flags::SKIP_SUCCESS);
        // SAFETY: the caller's promise; a static outlives every operation.
        unsafe { self.push_any(&entry) }
    }

    /// # Safety
    /// As [`Ring::push`].
    #[inline]
    unsafe fn push_any(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        // SAFETY: the caller's promise.
        if unsafe { self.io.submission().push(entry) }.is_ok() {
            return Ok(());
        }
        self.flush()?;
        // SAFETY: the caller's promise.
        unsafe { self.io.submission().push(entry) }.map_err(io::Error::other)
    }

    /// Whether the next push would enter.
    #[inline]
    pub(crate) fn is_full(&mut self) -> bool {
        self.io.submission().is_full()
    }

    /// Hands over what is queued, without waiting and without running deferred work.
    #[cold]
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        let queued = self.queued();
        match self.call(queued, 0, EnterFlags::empty(), None) {
            Ok(_) => Ok(()),
            Err(error) if error.raw_os_error() == Some(libc::EINTR) => Ok(()),
            Err(error) => Err(error),
        }
    }

    fn queued(&mut self) -> u32 {
        let submission = self.io.submission();
        u32::try_from(submission.len()).unwrap_or(u32::MAX)
    }

    /// Completions ready to be reaped.
    #[inline]
    pub(crate) fn ready(&mut self) -> usize {
        self.io.completion().len()
    }

    /// The oldest completion.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<cqueue::Entry> {
        self.io.completion().next()
    }

    /// Notes that an entry had its last completion.
    #[inline]
    pub(crate) fn retire(&mut self) {
        self.outstanding -= 1;
    }

    /// What there is before an enter.
    #[inline]
    pub(crate) fn state(&mut self) -> State {
        let unreaped = self.ready();
        let submission = self.io.submission();
        let overflowed = submission.cq_overflow();
        let empty = unreaped == 0 && !overflowed && submission.is_empty();
        let has_work = submission.taskrun();
        State {
            unreaped,
            overflowed,
            empty,
            has_work,
        }
    }

    /// Hands over what is queued and runs deferred work, without waiting.
    #[inline]
    pub(crate) fn enter(&mut self) -> io::Result<()> {
        let queued = self.queued();
        let result = self.call(queued, 0, self.enter_flags, None);
        self.settle(result)
    }

    /// The same, then waits for one completion, `deadline` at the latest; for more of them until `gather`
    /// from now.
    #[inline]
    pub(crate) fn enter_and_wait(
        &mut self,
        deadline: Nanos,
        now: Nanos,
        gather: Nanos,
    ) -> io::Result<()> {
        let queued = self.queued();
        if deadline == Nanos::MAX {
            let result = self.call(queued, 1, self.enter_flags, None);
            return self.settle(result);
        }
        let (time, timer) = if self.absolute {
            (deadline, EnterFlags::ABS_TIMER)
        } else {
            (deadline - now, EnterFlags::empty())
        };
        let time = timespec(time);
        let mut args = SubmitArgs::new().timespec(&time);
        let mut want = 1;
        // The kernel would gather beyond the deadline.
        let micros = u32::try_from(gather.min(deadline - now).0 / 1_000).unwrap_or(u32::MAX);
        if micros > 0 && self.gathers {
            (want, args) = (GATHERED_MAX, args.min_wait_usec(micros));
        }
        let flags = self.enter_flags | EnterFlags::EXT_ARG | timer;
        let result = self.call(queued, want, flags, Some(&args));
        self.settle(result)
    }

    /// Waits without the kernel until `deadline`, deferred work or a completion.
    pub(crate) fn spin(&mut self, deadline: Nanos) {
        while self.ready() == 0
            && !self.io.submission().taskrun()
            && MonotonicClock.now() < deadline
        {
            std::hint::spin_loop();
        }
    }

    /// Sorts out the errors of an enter that are none.
    #[inline]
    fn settle(&mut self, result: io::Result<u32>) -> io::Result<()> {
        match result {
            Ok(_) => Ok(()),
            Err(error) => self.settle_error(error),
        }
    }

    #[cold]
    fn settle_error(&mut self, error: io::Error) -> io::Result<()> {
        match error.raw_os_error() {
            // The deadline, or a signal: the caller looks at the clock and comes again.
            Some(libc::ETIME | libc::EINTR) => Ok(()),
            // The kernel has no memory for requests, or too much is unreaped. Nothing was taken
            // from the queue: reap first. Without anything to reap it can't be helped.
            Some(libc::EAGAIN | libc::EBUSY) => match self.call(0, 0, self.enter_flags, None) {
                Ok(_) if self.ready() > 0 => Ok(()),
                _ => Err(error),
            },
            // EBADR: the kernel had to drop completions. Connections would hang without them.
            _ => Err(error),
        }
    }

    #[inline]
    fn call(
        &self,
        submit: u32,
        want: u32,
        flags: EnterFlags,
        args: Option<&SubmitArgs<'_, '_>>,
    ) -> io::Result<u32> {
        let (arg, size) = match args {
            Some(args) => (ptr::from_ref(args), size_of::<SubmitArgs<'_, '_>>()),
            None => (ptr::null(), 0),
        };
        let (fd, flags) = (
            self.enter_fd,
            flags.bits() | self.enter_flags.bits() & REGISTERED_RING,
        );
        // SAFETY: `args`, and the time it points to, live for the call; what the entries point to
        // is the callers' promise at push.
        let result =
            unsafe { libc::syscall(libc::SYS_io_uring_enter, fd, submit, want, flags, arg, size) };
        u32::try_from(result).map_err(|_| io::Error::last_os_error())
    }
}

impl Drop for Ring {
    /// A registered ring lives on when its descriptor is closed, and keeps its place.
    fn drop(&mut self) {
        if let Ok(offset) = u32::try_from(self.enter_fd)
            && self.enter_flags.contains(EnterFlags::REGISTERED_RING)
        {
            let mut update = RingUpdate {
                offset,
                resv: 0,
                data: 0,
            };
            let freed = self.register(UNREGISTER_RING_FDS, &raw mut update, 1);
            debug_assert!(freed.is_ok(), "{freed:?}");
        }
    }
}

const REGISTERED_RING: u32 = EnterFlags::REGISTERED_RING.bits();

fn timespec(time: Nanos) -> Timespec {
    let nanos = u32::try_from(time.0 % 1_000_000_000).expect("below a billion");
    Timespec::new().sec(time.0 / 1_000_000_000).nsec(nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_of_work_that_was_not_there_is_not_believed_twice() {
        let state = |empty, has_work| State {
            unreaped: 0,
            overflowed: false,
            empty,
            has_work,
        };
        assert!(state(true, false).is_idle(false));
        assert!(!state(true, true).is_idle(false), "it may be so");
        assert!(state(true, true).is_idle(true), "or else it would spin");
        assert!(!state(false, false).is_idle(true) && !state(false, true).is_idle(true));
    }
}
