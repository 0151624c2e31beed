//! The ring: one io_uring, its file table and its receive buffers, nothing else.

use std::fmt;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

use io_uring::types::{Fd, Fixed, SubmitArgs, Timespec};
use io_uring::{
    CompletionQueue, EnterFlags, IoUring, SubmissionQueue, Submitter, cqueue, opcode, squeue,
};
use ridgeline_clock::{Clock, MonotonicClock, Nanos};

use crate::buffers::{Buffers, GROUP};
use crate::stamp;

/// The sizes of a ring.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Entries of the submission queue; the completion queue has 8 times as many.
    pub entries: u32,
    /// Slots of the file table: the most sockets at a time.
    pub files: u32,
    /// Provided receive buffers, a power of two.
    pub buffers: u16,
    /// The size of each.
    pub buffer_bytes: u32,
}

/// An io_uring with a file table and a provided buffer ring. [`Ring::start`] gives the queues.
pub struct Ring {
    // Dropped first: the kernel writes into `buffers` and reads `message` until then.
    uring: IoUring,
    buffers: Buffers,
    message: Box<libc::msghdr>,
}

impl fmt::Debug for Ring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("buffers", &self.buffers)
            .finish_non_exhaustive()
    }
}

impl Ring {
    /// A ring of these sizes, for the calling thread alone.
    ///
    /// # Errors
    /// When the kernel does not allow it, or is older than 6.1.
    pub fn new(limits: Limits) -> io::Result<Self> {
        let uring: IoUring = IoUring::builder()
            .setup_single_issuer()
            .setup_defer_taskrun()
            .setup_submit_all()
            .setup_cqsize(limits.entries * 8)
            .build(limits.entries)?;
        let buffers = Buffers::new(limits.buffers, limits.buffer_bytes)?;
        buffers.register(&uring.submitter())?;
        if limits.files > 0 {
            uring.submitter().register_files_sparse(limits.files)?;
        }
        // SAFETY: null pointers and zero lengths are a valid msghdr.
        let mut message: Box<libc::msghdr> = Box::new(unsafe { std::mem::zeroed() });
        message.msg_controllen = stamp::CONTROL_BYTES;
        Ok(Self {
            uring,
            buffers,
            message,
        })
    }

    /// The queues, with the ring's descriptor registered.
    ///
    /// # Errors
    /// When the registration fails.
    pub fn start(&mut self) -> io::Result<Queues<'_>> {
        let (mut submitter, submissions, completions) = self.uring.split();
        submitter.register_ring_fd()?;
        let absolute = knows_absolute_deadlines(&submitter);
        let buffers = &mut self.buffers;
        let message = &self.message;
        Ok(Queues {
            submitter,
            submissions,
            completions,
            buffers,
            message,
            absolute,
        })
    }
}

/// Waits until a deadline that has passed: a kernel before 6.12 refuses the flag.
fn knows_absolute_deadlines(submitter: &Submitter<'_>) -> bool {
    let past = Timespec::new().sec(0).nsec(1);
    let args = SubmitArgs::new().timespec(&past);
    let answer = submitter.submit_with_args_and_flags(1, &args, EnterFlags::ABS_TIMER);
    answer.map_or_else(|error| error.raw_os_error() == Some(libc::ETIME), |_| true)
}

/// One completion. Its meaning is the caller's: `name` is what the operation was given.
#[derive(Clone, Copy, Debug)]
pub struct Completion {
    /// The name given to the operation.
    pub name: u64,
    /// Bytes, or a slot, or a negative errno.
    pub result: i32,
    flags: u32,
}

impl Completion {
    /// Whether the multishot operation goes on.
    #[inline]
    #[must_use]
    pub fn goes_on(&self) -> bool {
        cqueue::more(self.flags)
    }

    /// The buffer that came with it, to be given back by [`Queues::provide`].
    #[inline]
    #[must_use]
    pub fn buffer(&self) -> Option<u16> {
        cqueue::buffer_select(self.flags)
    }

    /// The errno of a failed operation.
    #[must_use]
    pub fn error(&self) -> Option<io::Error> {
        (self.result < 0).then(|| io::Error::from_raw_os_error(-self.result))
    }
}

/// Whether a finished send is told by a completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// Always.
    Always,
    /// Only a failed one: half the completions of a closed loop.
    Failure,
}

/// A started ring. Nothing but what is pushed here reaches the kernel.
///
/// The invariant that makes pushing sound: every pointer in an entry points to `'static` bytes, or
/// to what [`Ring`] owns and drops after the ring's descriptor.
#[expect(
    missing_debug_implementations,
    reason = "the queues of io-uring have none"
)]
pub struct Queues<'r> {
    submitter: Submitter<'r>,
    submissions: SubmissionQueue<'r>,
    completions: CompletionQueue<'r>,
    buffers: &'r mut Buffers,
    message: &'r libc::msghdr,
    absolute: bool,
}

impl Queues<'_> {
    /// Puts a socket into the file table. The ring holds it from here on: the descriptor may be
    /// closed.
    ///
    /// # Errors
    /// When the slot does not exist.
    pub fn adopt(&self, slot: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let sockets: [RawFd; 1] = [socket.as_raw_fd()];
        self.submitter
            .register_files_update(slot, &sockets)
            .map(drop)
    }

    /// Accepts connections into free slots of the file table until the ring ends, or until a
    /// completion says that it does not go on.
    pub fn accept(&mut self, listener: BorrowedFd<'_>, name: u64) -> io::Result<()> {
        let entry = opcode::AcceptMulti::new(Fd(listener.as_raw_fd()))
            .allocate_file_index(true)
            .build();
        self.push(entry.user_data(name))
    }

    /// Receives from a slot into provided buffers, any number of times.
    #[inline]
    pub fn receive(&mut self, slot: u32, name: u64) -> io::Result<()> {
        let entry = opcode::RecvMulti::new(Fixed(slot), GROUP).build();
        self.push(entry.user_data(name))
    }

    /// The same with kernel stamps; [`Queues::stamped`] reads what it delivers.
    #[inline]
    pub fn receive_stamped(&mut self, slot: u32, name: u64) -> io::Result<()> {
        let entry = opcode::RecvMsgMulti::new(Fixed(slot), self.message, GROUP).build();
        self.push(entry.user_data(name))
    }

    /// Sends `bytes` as a whole: the kernel goes on after a short write by itself.
    #[inline]
    pub fn send(
        &mut self,
        slot: u32,
        bytes: &'static [u8],
        name: u64,
        report: Report,
    ) -> io::Result<()> {
        let length = u32::try_from(bytes.len()).expect("a payload is far below 4 GiB");
        let entry = opcode::Send::new(Fixed(slot), bytes.as_ptr(), length)
            .flags(libc::MSG_WAITALL | libc::MSG_NOSIGNAL)
            .build();
        let entry = match report {
            Report::Always => entry,
            Report::Failure => entry.flags(squeue::Flags::SKIP_SUCCESS),
        };
        self.push(entry.user_data(name))
    }

    /// Ends both directions of a slot before what is pushed next. A success is not told.
    pub fn shut_down(&mut self, slot: u32, name: u64) -> io::Result<()> {
        let flags = squeue::Flags::SKIP_SUCCESS | squeue::Flags::IO_HARDLINK;
        let entry = opcode::Shutdown::new(Fixed(slot), libc::SHUT_RDWR)
            .build()
            .flags(flags);
        self.push(entry.user_data(name))
    }

    /// Closes a slot. A success is not told.
    pub fn close(&mut self, slot: u32, name: u64) -> io::Result<()> {
        let entry = opcode::Close::new(Fixed(slot))
            .build()
            .flags(squeue::Flags::SKIP_SUCCESS);
        self.push(entry.user_data(name))
    }

    /// Tells by one completion when a descriptor can be read or has ended.
    pub fn poll(&mut self, descriptor: BorrowedFd<'_>, name: u64) -> io::Result<()> {
        let events = u32::from(libc::POLLIN.unsigned_abs());
        let entry = opcode::PollAdd::new(Fd(descriptor.as_raw_fd()), events).build();
        self.push(entry.user_data(name))
    }

    #[inline]
    fn push(&mut self, entry: squeue::Entry) -> io::Result<()> {
        if self.submissions.is_full() {
            self.submissions.sync();
            self.submitter.submit()?;
            self.submissions.sync();
        }
        // SAFETY: the invariant of this type.
        let pushed = unsafe { self.submissions.push(&entry) };
        pushed.map_err(|_| io::Error::other("the submission queue stays full"))
    }

    /// Hands over what was pushed and waits for a completion, or until `deadline`.
    ///
    /// # Errors
    /// What `io_uring_enter` answers, but for an interrupted or timed-out wait.
    #[inline]
    pub fn wait(&mut self, deadline: Option<Nanos>) -> io::Result<()> {
        self.submissions.sync();
        let answer = match deadline {
            None => self.submitter.submit_and_wait(1),
            Some(at) => self.wait_until(at),
        };
        self.submissions.sync();
        self.completions.sync();
        match answer.map_err(|error| (error.raw_os_error(), error)) {
            // BUSY: completions overflowed; they are there to be taken.
            Ok(_) | Err((Some(libc::ETIME | libc::EINTR | libc::EBUSY), _)) => Ok(()),
            Err((_, error)) => Err(error),
        }
    }

    fn wait_until(&self, deadline: Nanos) -> io::Result<usize> {
        let (time, flags) = if self.absolute {
            (deadline, EnterFlags::ABS_TIMER)
        } else {
            (deadline - MonotonicClock.now(), EnterFlags::empty())
        };
        let nanos = u32::try_from(time.0 % 1_000_000_000).expect("below 10^9");
        let time = Timespec::new().sec(time.0 / 1_000_000_000).nsec(nanos);
        self.submitter
            .submit_with_args_and_flags(1, &SubmitArgs::new().timespec(&time), flags)
    }

    /// The next completion that has come, if any.
    #[inline]
    pub fn take(&mut self) -> Option<Completion> {
        let entry = self.completions.next()?;
        Some(Completion {
            name: entry.user_data(),
            result: entry.result(),
            flags: entry.flags(),
        })
    }

    /// What a [`Queues::receive`] delivered.
    #[inline]
    #[must_use]
    pub fn received(&self, buffer: u16, length: i32) -> &[u8] {
        self.buffers
            .filled(buffer, usize::try_from(length).unwrap_or(0))
    }

    /// What a [`Queues::receive_stamped`] delivered, and the kernel's stamp (wall clock).
    #[inline]
    #[must_use]
    pub fn stamped(&self, buffer: u16, length: i32) -> (&[u8], Option<Nanos>) {
        stamp::split(self.received(buffer, length)).unwrap_or_default()
    }

    /// Gives a buffer back.
    #[inline]
    pub fn provide(&mut self, buffer: u16) {
        self.buffers.provide(buffer);
    }
}
