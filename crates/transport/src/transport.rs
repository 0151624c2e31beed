use bytes::Bytes;
use ridgeline_clock::Nanos;
use ridgeline_net::{DriverError, Wake};

use crate::{Cause, Left};

/// Names a peer of one end: a place, and which use of that place. A peer that comes back is another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId {
    /// The place, `0..peers_max`.
    pub index: u32,
    /// Counts the uses of the place.
    pub generation: u32,
}

/// Whom a message is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum To {
    /// A peer that has room, each in turn.
    Any,
    /// This one.
    Peer(PeerId),
}

/// Why a message was not taken. The message is still the caller's; nothing of it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// As many messages or bytes wait as may (the high-water mark). [`Transport::turn`] returns when there
    /// is room again.
    #[error("the queue is full")]
    Full,
    /// [`To::Any`], and nobody is there.
    #[error("no peer is connected")]
    NoPeer,
    /// The peer was there, and is not any more.
    #[error("the peer is gone")]
    Gone,
    /// It is longer than [`Limits::message_bytes_max`](crate::Limits::message_bytes_max).
    #[error("a message of {bytes} bytes is longer than the limit of {bytes_max}")]
    TooLong {
        /// Its length.
        bytes: usize,
        /// The limit.
        bytes_max: usize,
    },
}

/// Whether a receiver can take more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// Go on.
    More,
    /// This message was taken, and no other can be: nothing more is delivered, and soon nothing more
    /// is read, until [`Receiver::flow`] says otherwise at the start of a turn.
    Hold,
}

/// Messages and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Queued {
    /// How many.
    pub messages: u64,
    /// Their bytes, with framing where the transport has it.
    pub bytes: u64,
}

/// What one turn did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Messages delivered.
    pub messages: u64,
    /// Other callbacks made.
    pub events: u32,
    /// Whether a waker ended the wait.
    pub woken: bool,
    /// Time spent waiting: what is left of the turn was work.
    pub waited: Nanos,
    /// The last clock read of the turn: an up-to-date `now` for the caller.
    pub now: Nanos,
}

/// What keeps an end from working at all. A single peer's trouble is [`Left`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TransportError {
    /// The driver below can't go on, or can't have an address.
    #[error(transparent)]
    Driver(#[from] DriverError),
    /// An address that means nothing, or that may not be used like this.
    #[error("{address}: {reason}")]
    Address {
        /// As it was written.
        address: String,
        /// What is wrong, and what helps.
        reason: String,
    },
}

/// What a transport tells the layer above. Static dispatch: one implementation, inlined.
///
/// A peer is told `joined`, then its messages, then `left`, which is the last of it.
pub trait Receiver {
    /// A peer is there. `who` is for messages to people: its own name where it has one, else its
    /// address.
    fn joined(&mut self, peer: PeerId, who: &str);

    /// A message came. It is lent: gone when this returns. It counts as taken whatever the answer.
    fn message(&mut self, peer: PeerId, message: &[u8]) -> Flow;

    /// A peer is gone.
    fn left(&mut self, peer: PeerId, left: &Left);

    /// Somebody did not get as far as `joined`: an address that does not answer (told once until it
    /// does), or a connection that was turned away.
    fn unmet(&mut self, who: &str, cause: &Cause) {
        let _ = (who, cause);
    }

    /// Asked before anything is delivered in a turn: whether there is room for a message.
    fn flow(&self) -> Flow {
        Flow::More
    }
}

/// One end: any number of peers, a bounded queue to each.
///
/// Not `Sync`: an end belongs to the thread that turns it. Others wake it.
pub trait Transport {
    /// The handle that other threads end a turn's wait with.
    type Waker: Wake;

    /// Queues a message; it is copied. It leaves with the next turn at the latest. Never waits.
    ///
    /// # Errors
    /// [`Refused`], and nothing was queued.
    fn send(&mut self, to: To, message: &[u8]) -> Result<(), Refused>;

    /// The same without a copy where the transport can do without one: for long messages.
    ///
    /// # Errors
    /// [`Refused`], and nothing was queued.
    fn send_shared(&mut self, to: To, message: Bytes) -> Result<(), Refused> {
        self.send(to, &message)
    }

    /// Hands over what is queued, and delivers what came. Returns after something was delivered or told,
    /// when a peer that was `Full` has room, at `deadline`, or when woken; it may also return earlier
    /// with nothing. A `deadline` that has passed means: do not wait. [`Nanos::MAX`] means: no
    /// deadline.
    ///
    /// # Errors
    /// [`TransportError`] when the end itself can't go on.
    fn turn<R: Receiver>(
        &mut self,
        deadline: Nanos,
        receiver: &mut R,
    ) -> Result<Turn, TransportError>;

    /// Lets a peer go once everything queued for it is handed over. Nothing of it is delivered any more;
    /// it is told `left` with [`Cause::Local`]. An address that it was found at by connecting is not
    /// connected to again. A name that is nobody's does nothing.
    fn part(&mut self, peer: PeerId);

    /// What waits to be handed over to a peer; nothing for one that is gone.
    fn queued(&self, peer: PeerId) -> Queued;

    /// What waits to be handed over to all peers together.
    fn queued_all(&self) -> Queued;

    /// A handle for other threads.
    fn waker(&self) -> Self::Waker;
}
