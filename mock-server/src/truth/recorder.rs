use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use ridgeline_clock::Nanos;
use ridgeline_net::Token;
use rtrb::Producer;

use super::Ending;
use super::piece::{NAME_BYTES, Piece};
use crate::fault::Kind;
use crate::wording::Dialect;

/// The end of a shard at which it tells what it does. It never waits: a request of which something
/// finds the ring full has no line, and is counted.
#[derive(Debug)]
pub(crate) struct Recorder {
    ring: Producer<Piece>,
    /// Places that are not in use.
    free: Vec<u32>,
    /// Places that were ever in use.
    places: u32,
    /// Requests so far.
    number: u64,
    counts: Arc<Counts>,
}

/// What the writer wants to know at the end. Each is written by one shard alone.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) begun: AtomicU64,
    pub(super) dropped: AtomicU64,
}

/// The line of a request that is not over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    place: u32,
    /// All that was told so far found room.
    whole: bool,
}

/// A request that is there, all of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Begun<'a> {
    /// Its `X-Request-Id`, visible ASCII; empty without one.
    pub(crate) request_id: &'a [u8],
    pub(crate) connection: Token,
    /// When its last byte arrived, and when it was reaped.
    pub(crate) arrival: Nanos,
    pub(crate) reaped: Nanos,
}

/// A write that was handed over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wrote {
    /// The clock just before.
    pub(crate) at: Nanos,
    /// When it should have been.
    pub(crate) due: Nanos,
    pub(crate) bytes: u32,
    pub(crate) tokens: u32,
    /// Events with text, reasoning or a tool call of choice 0 that end in it.
    pub(crate) content_events: u32,
}

/// A request that is over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    /// When it left the queue.
    pub(crate) started: Option<Nanos>,
    /// Of the answer; `None`: there was none.
    pub(crate) status: Option<u16>,
    pub(crate) dialect: Dialect,
    pub(crate) fault: Option<Kind>,
    pub(crate) ending: Ending,
}

impl Recorder {
    /// `places`: about how many requests there are at a time; for more it allocates.
    pub(super) fn new(ring: Producer<Piece>, places: usize) -> (Self, Arc<Counts>) {
        let counts = Arc::new(Counts::default());
        let recorder = Self {
            ring,
            free: Vec::with_capacity(places),
            places: 0,
            number: 0,
            counts: Arc::clone(&counts),
        };
        (recorder, counts)
    }

    /// A request came. Its entry goes to [`Recorder::end`], whatever becomes of it.
    pub(crate) fn begin(&mut self, begun: &Begun<'_>) -> Entry {
        let number = self.number;
        self.number += 1;
        self.counts.begun.store(self.number, Ordering::Relaxed);
        let place = self.free.pop().unwrap_or_else(|| {
            self.places += 1;
            self.places - 1
        });
        let names = begun.request_id.chunks(NAME_BYTES);
        // All of it or nothing: a name must not be cut.
        let whole = self.ring.slots() > names.len();
        if whole {
            let piece = Piece::Begun {
                place,
                number,
                connection: begun.connection,
                arrival: begun.arrival,
                reaped: begun.reaped,
            };
            let mut fits = self.ring.push(piece).is_ok();
            for name in names {
                let mut bytes = [0; NAME_BYTES];
                bytes[..name.len()].copy_from_slice(name);
                let len = u8::try_from(name.len()).unwrap_or(u8::MAX);
                fits &= self.ring.push(Piece::Name { bytes, len }).is_ok();
            }
            debug_assert!(fits, "nobody else pushes");
        } else {
            self.drop_line();
        }
        Entry { place, whole }
    }

    /// A write of the request was handed over.
    pub(crate) fn write(&mut self, entry: &mut Entry, wrote: &Wrote) {
        let piece = Piece::Wrote {
            place: entry.place,
            at: wrote.at,
            due: wrote.due,
            bytes: wrote.bytes,
            tokens: wrote.tokens,
            content_events: wrote.content_events,
        };
        self.push(entry, piece);
    }

    /// The request is over.
    pub(crate) fn end(&mut self, mut entry: Entry, ended: &Ended) {
        let piece = Piece::Ended {
            place: entry.place,
            started: ended.started.unwrap_or(Nanos::ZERO),
            status: ended.status.unwrap_or(0),
            dialect: ended.dialect,
            fault: ended.fault,
            ending: ended.ending,
        };
        self.push(&mut entry, piece);
        self.free.push(entry.place);
    }

    fn push(&mut self, entry: &mut Entry, piece: Piece) {
        if entry.whole && self.ring.push(piece).is_err() {
            entry.whole = false;
            self.drop_line();
        }
    }

    #[cold]
    fn drop_line(&self) {
        let dropped = self.counts.dropped.load(Ordering::Relaxed);
        self.counts.dropped.store(dropped + 1, Ordering::Relaxed);
    }
}
