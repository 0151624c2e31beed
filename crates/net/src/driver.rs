use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use ridgeline_clock::{Arrival, Nanos};

/// Names one connection: a slot of the owner's connection slab, and which use of that slot.
///
/// Completions of an earlier use carry the earlier generation; a driver never reports them under
/// the new one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Token {
    /// The slot, `0..connections_max` of the driver.
    pub index: u32,
    /// Counts the uses of the slot.
    pub generation: u32,
}

/// Where a connection goes, or where a listener listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Peer {
    /// An address and port, IPv4 or IPv6.
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix(Arc<Path>),
}

impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// How to end a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Close {
    /// An orderly end: queued sends are finished first, then FIN; nothing is received any more.
    Fin,
    /// The sending side only: queued sends are finished, then FIN; receiving goes on.
    Half,
    /// At once, by RST: queued sends are dropped.
    Reset,
}

/// Why a connection is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Closed {
    /// The owner asked for it (`Close::Fin` or `Close::Reset`).
    Local,
    /// The peer reset it (ECONNRESET, EPIPE).
    PeerReset,
    /// Connecting: nobody listens there (ECONNREFUSED, ENOENT of a unix socket).
    Refused,
    /// Connecting or sending: the kernel gave up waiting (ETIMEDOUT).
    TimedOut,
    /// Connecting: no route or no such host (EHOSTUNREACH, ENETUNREACH).
    Unreachable,
    /// Connecting: no free local port (EADDRNOTAVAIL, EADDRINUSE). Back-pressure, not a fault of
    /// the peer.
    NoPorts,
    /// No free descriptor or kernel memory (EMFILE, ENFILE, ENOBUFS, ENOMEM).
    NoResources,
    /// Another errno of the operating system.
    Os(i32),
}

/// One order to a driver; see [`Commands`].
#[derive(Debug)]
pub enum Command {
    /// See [`Commands::open`].
    Open {
        /// The name the owner gives the connection.
        token: Token,
        /// Where to connect.
        peer: Peer,
        /// The local address to connect from, if one is asked for.
        source: Option<IpAddr>,
    },
    /// See [`Commands::send`].
    Send {
        /// The connection.
        token: Token,
        /// Bytes sent first; the buffer comes back with [`Sink::sent`].
        head: Vec<u8>,
        /// Bytes sent after `head`.
        body: Bytes,
    },
    /// See [`Commands::close`].
    Close {
        /// The connection.
        token: Token,
        /// How.
        how: Close,
    },
    /// See [`Commands::read`].
    Read {
        /// The connection.
        token: Token,
        /// Whether it is read from.
        on: bool,
    },
}

/// Orders to a driver, applied in their order at the start of its next turn.
///
/// Orders that name a connection which is gone (an old generation, or one already told
/// [`Sink::closed`]) are dropped; the buffers of such a send come back with `sent` all the same.
#[derive(Debug, Default)]
pub struct Commands {
    queue: Vec<Command>,
}

impl Commands {
    /// A queue that holds `capacity` orders before it must grow.
    #[must_use]
    pub fn with_capacity(capacity: usize) -> Self {
        Self {
            queue: Vec::with_capacity(capacity),
        }
    }

    /// Connects to `peer`. Told by `opened`, or by `closed` with the cause.
    pub fn open(&mut self, token: Token, peer: Peer, source: Option<IpAddr>) {
        self.queue.push(Command::Open {
            token,
            peer,
            source,
        });
    }

    /// Sends `head`, then `body`, after everything queued on this connection before. May be called
    /// before `opened`: the bytes go out when the connection is up. Told by one `submitted` and one
    /// `sent`.
    pub fn send(&mut self, token: Token, head: Vec<u8>, body: Bytes) {
        self.queue.push(Command::Send { token, head, body });
    }

    /// Ends a connection. For `Fin` and `Reset` told by `closed(Local)`.
    pub fn close(&mut self, token: Token, how: Close) {
        self.queue.push(Command::Close { token, how });
    }

    /// Stops reading from a connection, or goes on. What the driver has taken from the socket already is
    /// still told, at most what its receive buffers hold; then nothing is, until reading goes on, not
    /// even the peer's FIN, and the peer finds its sends blocked. Sending is not affected. That the
    /// connection is gone may be told while nothing is read; unread bytes are lost then.
    pub fn read(&mut self, token: Token, on: bool) {
        self.queue.push(Command::Read { token, on });
    }

    /// Whether nothing is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// Takes the orders out, oldest first. For drivers.
    pub fn drain(&mut self) -> std::vec::Drain<'_, Command> {
        self.queue.drain(..)
    }
}

/// What a driver tells the layer above. Static dispatch: one implementation, inlined.
///
/// After [`Sink::closed`] a token is never named again, and its slot may be used with the next
/// generation.
pub trait Sink {
    /// A peer connected to listener number `listener` (in order of `listen` calls). Answers with
    /// the connection's name, or `None` to refuse it (it is reset).
    fn accepted(&mut self, commands: &mut Commands, listener: u32, at: Nanos) -> Option<Token>;

    /// The connection that was asked for is up.
    fn opened(&mut self, commands: &mut Commands, token: Token, at: Nanos);

    /// The send longest queued on this connection is about to be handed to the kernel; `at` is the
    /// clock read just before that.
    fn submitted(&mut self, token: Token, at: Nanos);

    /// The oldest unfinished send of this connection is finished or dropped: here is its head
    /// buffer back, with its contents.
    fn sent(&mut self, commands: &mut Commands, token: Token, head: Vec<u8>, at: Nanos);

    /// Bytes came, 1 or more. They are lent: gone when this returns.
    fn received(&mut self, commands: &mut Commands, token: Token, bytes: &[u8], arrival: Arrival);

    /// The peer sent FIN: nothing more will be received. The connection can still send, until the
    /// owner closes it.
    fn ended(&mut self, commands: &mut Commands, token: Token, arrival: Arrival);

    /// The connection is gone. Sends that were still queued have been given back by `sent` before.
    fn closed(&mut self, commands: &mut Commands, token: Token, cause: Closed, at: Nanos);
}

/// What one turn did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Callbacks made, `submitted` not counted.
    pub completions: u32,
    /// Whether a waker ended the wait.
    pub woken: bool,
    /// Time spent waiting for the kernel: what is left of the turn was work.
    pub waited: Nanos,
    /// The last clock read of the turn: an up-to-date `now` for the caller.
    pub reaped: Nanos,
}

/// What a driver counted since its start. A field that a backend has no notion of stays 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Turns taken.
    pub turns: u64,
    /// Completions reaped.
    pub completions: u64,
    /// Reads (`received` callbacks).
    pub reads: u64,
    /// Bytes received.
    pub received_bytes: u64,
    /// Bytes handed over for sending.
    pub sent_bytes: u64,
    /// Receives that ended because no provided buffer was free; each was armed again.
    pub out_of_buffers: u64,
    /// Completions that did not fit the completion queue at once.
    pub completions_overflowed: u64,
    /// Reads without a usable kernel stamp although stamps were asked for: a stepped clock, or no
    /// stamp on the message. They carry the time of reaping.
    pub stamps_discarded: u64,
    /// The largest error of the map from the kernel's wall clock to the run's clock.
    pub stamp_error_max: Nanos,
}

impl Counters {
    /// Adds the counts of another driver.
    pub fn merge(&mut self, other: &Self) {
        self.turns += other.turns;
        self.completions += other.completions;
        self.reads += other.reads;
        self.received_bytes += other.received_bytes;
        self.sent_bytes += other.sent_bytes;
        self.out_of_buffers += other.out_of_buffers;
        self.completions_overflowed += other.completions_overflowed;
        self.stamps_discarded += other.stamps_discarded;
        self.stamp_error_max = self.stamp_error_max.max(other.stamp_error_max);
    }
}

/// What keeps a driver from working at all. A single connection's trouble is [`Closed`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// The backend can't be used on this machine.
    #[error("{what}: {remedy}")]
    Unavailable {
        /// What is missing.
        what: String,
        /// What the user can do.
        remedy: &'static str,
    },
    /// An address can't be listened on.
    #[error("cannot listen on {peer}: {source}")]
    Listen {
        /// The address.
        peer: Peer,
        /// The operating system's answer.
        source: io::Error,
    },
    /// A system call of the loop failed.
    #[error("{call} failed: {source}")]
    Os {
        /// The system call.
        call: &'static str,
        /// The operating system's answer.
        source: io::Error,
    },
}

/// Wakes a driver that waits in a turn, from any thread.
pub trait Wake: Clone + Send + Sync + 'static {
    /// Makes the current turn return soon, or the next one return at once. Any number of calls
    /// before that count as one.
    fn wake(&self);
}

/// The sockets of one core.
///
/// Not `Send` in general: a driver is made on the thread that turns it.
pub trait Driver {
    /// The handle that other threads wake this driver with.
    type Waker: Wake;

    /// Listens; connections are told by [`Sink::accepted`]. Returns the address really bound (the
    /// port, where 0 was asked for).
    ///
    /// # Errors
    /// [`DriverError::Listen`] when the address can't be had.
    fn listen(&mut self, peer: &Peer) -> Result<Peer, DriverError>;

    /// Listens no longer, for good: soon after the next turn every address that was listened on
    /// refuses, and the system resets connections that it had completed ahead of being accepted. Those
    /// already on their way to the sink may still be told by [`Sink::accepted`].
    ///
    /// # Errors
    /// [`DriverError::Os`] when the loop itself can't go on.
    fn stop_listening(&mut self) -> Result<(), DriverError>;

    /// The queue for orders outside callbacks: the same that callbacks are given.
    fn commands(&mut self) -> &mut Commands;

    /// One turn (see the crate's page): returns after at least one completion, at `deadline`, or
    /// when woken. A `deadline` that has passed means: do not wait. [`Nanos::MAX`] means: no
    /// deadline.
    ///
    /// # Errors
    /// [`DriverError::Os`] when the loop itself can't go on.
    fn turn<S: Sink>(&mut self, deadline: Nanos, sink: &mut S) -> Result<Turn, DriverError>;

    /// Lets a wait that something ends go on, for up to `span` from its start, so that more comes in the same
    /// turn: fewer and larger turns. Deadlines hold all the same. [`Nanos::ZERO`], as at first: each wait ends with
    /// the first completion. For whoever takes no times from the ends of turns; a driver that can't goes on as
    /// before.
    fn gather(&mut self, _span: Nanos) {}

    /// A handle for other threads.
    fn waker(&self) -> Self::Waker;

    /// What was counted so far.
    fn counters(&self) -> Counters;
}
