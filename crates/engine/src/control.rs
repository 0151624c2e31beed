use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};

use ridgeline_clock::Nanos;

const RUN: u8 = 0;
const STOP: u8 = 1;
const CANCEL: u8 = 2;

/// What the threads of a run have in common: the user's wish to stop, and live counts.
#[derive(Debug)]
pub struct Control {
    wish: AtomicU8,
    drain_until: AtomicU64,
    started: AtomicU64,
    lives: Vec<Live>,
}

/// The counts of one shard, published every 100 ms.
#[derive(Debug, Default)]
pub struct Live {
    /// Measured requests started.
    pub issued: AtomicU64,
    /// Measured requests that succeeded.
    pub completed: AtomicU64,
    /// Measured requests that failed or were cancelled.
    pub failed: AtomicU64,
    /// Content events of requests that are over.
    pub content_events: AtomicU64,
    /// Requests in flight, of any phase.
    pub in_flight: AtomicU64,
}

/// The sum of all shards at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveTotals {
    /// See [`Live::issued`].
    pub issued: u64,
    /// See [`Live::completed`].
    pub completed: u64,
    /// See [`Live::failed`].
    pub failed: u64,
    /// See [`Live::content_events`].
    pub content_events: u64,
    /// See [`Live::in_flight`].
    pub in_flight: u64,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) stop: bool,
    pub(crate) cancel: bool,
}

impl Control {
    /// For a run of `shards` shards.
    #[must_use]
    pub fn new(shards: u32) -> Self {
        Self {
            wish: AtomicU8::new(RUN),
            drain_until: AtomicU64::new(u64::MAX),
            started: AtomicU64::new(0),
            lives: (0..shards).map(|_| Live::default()).collect(),
        }
    }

    /// Issue no more, and give what is in flight until `drain_until`.
    pub fn stop(&self, drain_until: Nanos) {
        self.drain_until.store(drain_until.0, Ordering::Release);
        self.wish.fetch_max(STOP, Ordering::AcqRel);
    }

    /// Issue no more, and cancel what is in flight.
    pub fn cancel(&self) {
        self.wish.fetch_max(CANCEL, Ordering::AcqRel);
    }

    /// Whether the run was asked to end early.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.wish().stop
    }

    /// Whether it was asked to end at once.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        self.wish().cancel
    }

    /// When the first phase began; stamps in files count from here. Known before the first record.
    #[must_use]
    pub fn started(&self) -> Nanos {
        Nanos(self.started.load(Ordering::Acquire))
    }

    /// The first phase begins at `at`. Only the first call counts.
    pub fn start(&self, at: Nanos) {
        let _ = self
            .started
            .compare_exchange(0, at.0, Ordering::AcqRel, Ordering::Acquire);
    }

    pub(crate) fn wish(&self) -> Wish {
        let wish = self.wish.load(Ordering::Acquire);
        Wish {
            stop: wish >= STOP,
            cancel: wish >= CANCEL,
        }
    }

    pub(crate) fn drain_until(&self) -> Nanos {
        Nanos(self.drain_until.load(Ordering::Acquire))
    }

    pub(crate) fn live(&self, k: u32) -> &Live {
        &self.lives[k as usize]
    }

    /// The counts of all shards.
    #[must_use]
    pub fn totals(&self) -> LiveTotals {
        self.lives
            .iter()
            .fold(LiveTotals::default(), |sum, live| LiveTotals {
                issued: sum.issued + live.issued.load(Ordering::Relaxed),
                completed: sum.completed + live.completed.load(Ordering::Relaxed),
                failed: sum.failed + live.failed.load(Ordering::Relaxed),
                content_events: sum.content_events + live.content_events.load(Ordering::Relaxed),
                in_flight: sum.in_flight + live.in_flight.load(Ordering::Relaxed),
            })
    }
}
