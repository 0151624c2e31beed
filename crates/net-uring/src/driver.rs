use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem;

use io_uring::cqueue;
use ridgeline_clock::{Clock, MonotonicClock, Nanos, StampMap, realtime_bracket};
use ridgeline_net::{Commands, Counters, Driver, DriverError, Peer, Sink, Token, Turn};
use socket2::Socket;

use crate::buffers::{Buffers, GROUP};
use crate::config::UringConfig;
use crate::listen::{self, LISTENERS_MAX, Listener};
use crate::message;
use crate::ops::{self, Call, LISTENER_FILES};
use crate::probe;
use crate::ring::Ring;
use crate::slot::{INDEX_MAX, Op, Slot, Tag};
use crate::waker::UringWaker;

/// Entries of the file table that are not connections' own: the waker, the listeners, and
/// connections the kernel has accepted that are not named yet.
const FILES_EXTRA: u32 = 64;

/// The driver on io_uring. Made on the thread that turns it: the ring belongs to that thread.
///
/// Bytes that a peer sends never panic. A token that names a slot in use, or none below
/// `connections_max`, does: that is a mistake of the program.
///
/// Field order is drop order: the ring goes before the memory its entries point to (see the
/// invariant in `ring.rs`).
pub struct UringDriver {
    pub(crate) ring: Ring,
    pub(crate) slots: Box<[Slot]>,
    pub(crate) calls: Box<[Call]>,
    pub(crate) buffers: Buffers,
    pub(crate) template: Box<libc::msghdr>,
    pub(crate) wake_cell: Box<u64>,
    pub(crate) waker: UringWaker,

    pub(crate) config: UringConfig,
    /// See [`Driver::gather`].
    pub(crate) gather: Nanos,
    pub(crate) commands: Commands,
    /// Slots whose front send goes out at the next enter.
    pub(crate) ready: Vec<u32>,
    /// Receives to arm again, in the order in which they ended.
    pub(crate) hungry: VecDeque<Token>,
    /// The enter before was made for deferred work alone, and brought nothing.
    pub(crate) ran_nothing: bool,
    /// Heads of sends that are dropped, to be given back.
    pub(crate) dropped: Vec<(Token, Vec<u8>)>,
    /// Slots whose connection is gone, to be told.
    pub(crate) finished: Vec<u32>,
    pub(crate) listeners: Vec<Listener>,
    /// Whether a place of the file table became free since an accept found none.
    pub(crate) files_freed: bool,
    pub(crate) stamps: Option<StampMap>,
    /// Keeps the kernel's stamping on.
    _stamping: Option<Socket>,
    pub(crate) counters: Counters,
}

impl fmt::Debug for UringDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UringDriver")
            .field("config", &self.config)
            .field("in_flight", &self.ring.outstanding())
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl UringDriver {
    /// A driver of the calling thread.
    ///
    /// # Errors
    /// [`DriverError::Unavailable`] when the kernel lacks something or the file table can't hold
    /// `connections_max` connections.
    pub fn new(config: UringConfig) -> Result<Self, DriverError> {
        let files = files_of(&config)?;
        let cq_entries = config.cq_entries.max(2);
        let sq_entries = config.sq_entries.clamp(1, cq_entries);
        let mut ring = Ring::new(sq_entries, cq_entries).map_err(|error| probe::refused(&error))?;
        probe::check(&ring)?;
        let submitter = ring.io().submitter();
        submitter
            .register_files_sparse(files)
            .map_err(|error| probe::lacks("a file table (5.19)", &error))?;
        ring.reserve_files(LISTENER_FILES + LISTENERS_MAX, files)
            .map_err(|error| probe::lacks("FILE_ALLOC_RANGE (6.0)", &error))?;
        probe::check_options(&mut ring)?;

        let overhead = if config.rx_timestamps {
            message::OVERHEAD
        } else {
            0
        };
        let stride = overhead + config.buffer_bytes.max(1) as usize;
        let count = config.buffers_count.clamp(1, 1 << 15).next_power_of_two();
        let buffers = Buffers::new(ring.io(), count, stride)
            .map_err(|error| probe::lacks("provided buffer rings (5.19)", &error))?;
        let connections = config.connections_max as usize;
        let waker = UringWaker::new().map_err(os("eventfd"))?;
        let stamping = config
            .rx_timestamps
            .then(listen::stamping_socket)
            .transpose();
        let mut driver = Self {
            ring,
            slots: (0..connections).map(|_| Slot::free()).collect(),
            calls: (0..connections).map(|_| Call::new()).collect(),
            buffers,
            template: Box::new(ops::header(message::CONTROL)),
            wake_cell: Box::new(0),
            waker,
            gather: Nanos::ZERO,
            commands: Commands::with_capacity(2 * connections),
            ready: Vec::with_capacity(connections),
            hungry: VecDeque::with_capacity(connections),
            ran_nothing: false,
            dropped: Vec::new(),
            finished: Vec::with_capacity(connections),
            listeners: Vec::new(),
            files_freed: false,
            stamps: config
                .rx_timestamps
                .then(|| StampMap::new(realtime_bracket())),
            _stamping: stamping.map_err(os("setsockopt"))?,
            counters: Counters::default(),
            config,
        };
        driver.register_waker().map_err(os("io_uring_register"))?;
        driver.arm_wake().map_err(os("io_uring_enter"))?;
        Ok(driver)
    }

    /// Whether this machine has what the driver needs; the error is one line that says what is
    /// missing.
    ///
    /// # Errors
    /// [`DriverError::Unavailable`].
    pub fn probe() -> Result<(), DriverError> {
        let small = UringConfig {
            buffers_count: 1,
            buffer_bytes: 64,
            ..UringConfig::new(1)
        };
        Self::new(UringConfig {
            sq_entries: 8,
            cq_entries: 16,
            ..small
        })
        .map(drop)
    }
}

fn files_of(config: &UringConfig) -> Result<u32, DriverError> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let files = config.connections_max.saturating_add(FILES_EXTRA);
    if limit.is_some_and(|limit| u64::from(files) > limit) || files > INDEX_MAX {
        let most = limit.unwrap_or(0).saturating_sub(u64::from(FILES_EXTRA));
        return Err(DriverError::Unavailable {
            what: format!(
                "{} connections on one ring do not fit RLIMIT_NOFILE, which allows {most}",
                config.connections_max
            ),
            remedy: "raise it (ulimit -n), or spread the connections over more shards",
        });
    }
    Ok(files)
}

/// What went wrong in a system call.
pub(crate) fn os(call: &'static str) -> impl Fn(io::Error) -> DriverError {
    move |source| DriverError::Os { call, source }
}

impl Driver for UringDriver {
    type Waker = UringWaker;

    fn listen(&mut self, peer: &Peer) -> Result<Peer, DriverError> {
        self.open_listener(peer)
            .map_err(|source| DriverError::Listen {
                peer: peer.clone(),
                source,
            })
    }

    fn stop_listening(&mut self) -> Result<(), DriverError> {
        self.close_listeners().map_err(os("io_uring_enter"))
    }

    #[inline]
    fn commands(&mut self) -> &mut Commands {
        &mut self.commands
    }

    fn turn<S: Sink>(&mut self, deadline: Nanos, sink: &mut S) -> Result<Turn, DriverError> {
        let mut turn = Turn::default();
        self.counters.turns += 1;
        self.apply().map_err(os("io_uring_enter"))?;
        loop {
            self.pass(deadline, sink, &mut turn)
                .map_err(os("io_uring_enter"))?;
            // A pass may have taken only steps inside the driver (a socket made, a receive armed
            // again).
            if turn.completions > 0 || turn.woken || turn.reaped >= deadline {
                return Ok(turn);
            }
        }
    }

    fn gather(&mut self, span: Nanos) {
        self.gather = span;
    }

    fn waker(&self) -> UringWaker {
        self.waker.clone()
    }

    fn counters(&self) -> Counters {
        let stamp_error_max = self
            .stamps
            .as_ref()
            .map_or(Nanos::ZERO, StampMap::error_max);
        Counters {
            stamp_error_max,
            ..self.counters
        }
    }
}

/// How long the kernel has to give back what is in flight.
const QUIET_AFTER: Nanos = Nanos::from_secs(1);

impl Drop for UringDriver {
    fn drop(&mut self) {
        if self.quiesce().is_ok_and(|()| self.ring.outstanding() == 0) {
            // Closing them with the ring would happen later, on a kernel thread: ports would stay
            // taken after this returns.
            let files = self.ring.io().submitter().unregister_files();
            let buffers = self.ring.io().submitter().unregister_buf_ring(GROUP);
            debug_assert!(files.is_ok() && buffers.is_ok(), "{files:?} {buffers:?}");
            return;
        }
        // The invariant: what the kernel may still read or write is never freed.
        mem::forget(mem::take(&mut self.slots));
        mem::forget(mem::take(&mut self.calls));
        self.buffers.leak();
        mem::forget(mem::replace(&mut self.template, Box::new(ops::header(0))));
        mem::forget(mem::take(&mut self.wake_cell));
    }
}

impl UringDriver {
    /// Cancels everything and reaps what comes back.
    fn quiesce(&mut self) -> io::Result<()> {
        let deadline = MonotonicClock.now() + QUIET_AFTER;
        self.cancel_receives()?;
        self.cancel_everything()?;
        while self.ring.outstanding() > 0 {
            let now = MonotonicClock.now();
            if now >= deadline {
                break;
            }
            self.ring.enter_and_wait(deadline, now, Nanos::ZERO)?;
            while let Some(completion) = self.ring.pop() {
                let tag = Tag::unpack(completion.user_data());
                if tag.op != Op::Silent && !cqueue::more(completion.flags()) {
                    self.ring.retire();
                }
            }
        }
        Ok(())
    }
}
