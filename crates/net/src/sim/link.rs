use std::collections::VecDeque;

use bytes::Bytes;
use ridgeline_clock::Nanos;

use super::config::Shape;
use crate::Token;

/// No link, no port group, no slot.
pub(super) const NONE: u32 = u32::MAX;

/// One end of one use of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct End {
    /// The link's index, doubled, plus the side.
    pub(super) id: u32,
    pub(super) generation: u32,
}

impl End {
    pub(super) fn new(link: u32, side: u32, generation: u32) -> Self {
        Self {
            id: link << 1 | side,
            generation,
        }
    }

    pub(super) fn link(self) -> usize {
        (self.id >> 1) as usize
    }

    pub(super) fn side(self) -> usize {
        (self.id & 1) as usize
    }

    pub(super) fn mate(self) -> Self {
        Self {
            id: self.id ^ 1,
            ..self
        }
    }
}

/// Who holds an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    /// Nobody (yet, or any more).
    Gone,
    /// In a driver's queue of completions, not accepted yet.
    Unclaimed { driver: u32 },
    /// A connection of a driver.
    Driver { driver: u32, token: Token },
    /// A scripted peer.
    Script { script: u32 },
}

/// A connection: side 0 opened it.
#[derive(Debug)]
pub(super) struct Link {
    /// Counts the uses; events of an earlier use are stale.
    pub(super) generation: u32,
    pub(super) shape: Shape,
    /// The wire is cut: nothing arrives any more, at either side.
    pub(super) severed: bool,
    /// Where it goes: an index of the places, or `NONE`.
    pub(super) place: u32,
    /// The group of ports it took one of, or `NONE`.
    pub(super) ports: u32,
    pub(super) sides: [Side; 2],
}

/// One end. Its queues keep their memory from use to use.
#[derive(Debug)]
pub(super) struct Side {
    pub(super) owner: Owner,
    /// The handshake is done, as this side sees it.
    pub(super) up: bool,
    /// `closed` is on its way to the owner: nothing else happens here any more.
    pub(super) dead: bool,
    /// Closed for receiving by the owner.
    pub(super) deaf: bool,
    /// The owner wants nothing to be read for now.
    pub(super) paused: bool,
    /// FIN is to be told once reading goes on.
    pub(super) fin_waits: bool,
    /// In the driver's list of ends with something to hand over.
    pub(super) listed: bool,
    /// Sends, oldest first.
    pub(super) queue: VecDeque<Sending>,
    /// Handed over by this side and not read by the other: at most the shape's send buffer.
    pub(super) unread: u64,
    /// The send buffer is full; an event comes when there is room.
    pub(super) blocked: bool,
    /// That event is planned.
    pub(super) unblocking: bool,
    pub(super) finish: Finish,
    /// FIN came from the other side.
    pub(super) ended: bool,
    /// Under way to this side, in order of arrival.
    pub(super) flight: VecDeque<Segment>,
    /// When the last segment under way to this side arrives, or arrived.
    pub(super) latest: Nanos,
    /// Arrived and not read.
    pub(super) inbox: VecDeque<Segment>,
    /// A read of the inbox is among the owner's completions.
    pub(super) readable: bool,
    /// A scripted peer stopped reading.
    pub(super) held: bool,
    /// When the last segment read arrived; before the first read, when the connection came up.
    pub(super) stamp: Nanos,
}

impl Side {
    /// An unused side whose queues hold a request and its answer before they must grow.
    pub(super) fn new() -> Self {
        let mut side = Self::default();
        side.queue.reserve(4);
        side.flight.reserve(4);
        side.inbox.reserve(4);
        side
    }
}

impl Default for Side {
    fn default() -> Self {
        Self {
            owner: Owner::Gone,
            up: false,
            dead: false,
            deaf: false,
            paused: false,
            fin_waits: false,
            listed: false,
            queue: VecDeque::new(),
            unread: 0,
            blocked: false,
            unblocking: false,
            finish: Finish::No,
            ended: false,
            flight: VecDeque::new(),
            latest: Nanos::ZERO,
            inbox: VecDeque::new(),
            readable: false,
            held: false,
            stamp: Nanos::ZERO,
        }
    }
}

/// Where a side is with its FIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Finish {
    /// None asked for.
    No,
    /// After the queued sends, then receive on.
    Half,
    /// After the queued sends, then gone.
    Full,
    /// Sent.
    Done,
}

/// A send of a driver.
#[derive(Debug)]
pub(super) struct Sending {
    pub(super) head: Vec<u8>,
    pub(super) body: Bytes,
    /// How much is handed over.
    pub(super) taken: usize,
    pub(super) submitted: bool,
}

/// A piece of one direction.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) at: Nanos,
    pub(super) payload: Payload,
}

#[derive(Debug)]
pub(super) enum Payload {
    /// A buffer of the pool, and how much of its front was read.
    Pooled(Vec<u8>, usize),
    Shared(Bytes),
    Fin,
    Reset,
}

impl Payload {
    /// What is left to read. Nothing of a FIN or a reset.
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Self::Pooled(buffer, read) => &buffer[*read..],
            Self::Shared(bytes) => bytes,
            Self::Fin | Self::Reset => &[],
        }
    }

    /// Takes `count` bytes off the front.
    pub(super) fn advance(&mut self, count: usize) {
        match self {
            Self::Pooled(_, read) => *read += count,
            Self::Shared(bytes) => drop(bytes.split_to(count)),
            Self::Fin | Self::Reset => {}
        }
    }
}

/// Buffers of two sizes, used again and again: a small send must not take, or grow, a large one.
#[derive(Debug, Default)]
pub(super) struct Pool {
    small: Vec<Vec<u8>>,
    large: Vec<Vec<u8>>,
}

const SMALL_BYTES: usize = 2 << 10;

impl Pool {
    /// An empty buffer for `bytes` bytes.
    pub(super) fn take(&mut self, bytes: usize, large_bytes: usize) -> Vec<u8> {
        let (shelf, size) = if bytes <= SMALL_BYTES {
            (&mut self.small, SMALL_BYTES)
        } else {
            (&mut self.large, large_bytes.max(bytes))
        };
        let mut buffer = shelf.pop().unwrap_or_default();
        buffer.clear();
        buffer.reserve(size);
        buffer
    }

    pub(super) fn give(&mut self, payload: Payload) {
        if let Payload::Pooled(buffer, _) = payload {
            if buffer.capacity() <= SMALL_BYTES {
                self.small.push(buffer);
            } else {
                self.large.push(buffer);
            }
        }
    }
}
