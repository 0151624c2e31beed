use std::fmt;
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
    worker: u32,
    edge: Option<Edge>,
}

/// See [`Control::with_edge`].
struct Edge(Box<dyn Fn(u32) + Send + Sync>);

impl fmt::Debug for Edge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Edge")
    }
}

/// The counts of one place, as last published.
#[derive(Debug, Default)]
struct Live {
    issued: AtomicU64,
    completed: AtomicU64,
    failed: AtomicU64,
    content_events: AtomicU64,
    in_flight: AtomicU64,
}

/// Counts at one moment: of a shard, of a worker, or of all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LiveTotals {
    /// Measured requests started.
    pub issued: u64,
    /// Measured requests that succeeded.
    pub completed: u64,
    /// Measured requests that failed or were cancelled.
    pub failed: u64,
    /// Content events of requests that are over.
    pub content_events: u64,
    /// Requests in flight, of any phase.
    pub in_flight: u64,
}

impl LiveTotals {
    /// Adds the counts of another place.
    pub const fn add(&mut self, other: &Self) {
        self.issued += other.issued;
        self.completed += other.completed;
        self.failed += other.failed;
        self.content_events += other.content_events;
        self.in_flight += other.in_flight;
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Wish {
    pub(crate) stop: bool,
    pub(crate) cancel: bool,
}

impl Control {
    /// For a run of which `places` publish counts: the shards of this process, or, where it coordinates
    /// others, those.
    #[must_use]
    pub fn new(places: u32) -> Self {
        Self {
            wish: AtomicU8::new(RUN),
            drain_until: AtomicU64::new(u64::MAX),
            started: AtomicU64::new(0),
            lives: (0..places).map(|_| Live::default()).collect(),
            worker: 0,
            edge: None,
        }
    }

    /// Has every shard call `edge` with its number, on its own thread, just before its measured phase
    /// begins and when that is over, never between.
    #[must_use]
    pub fn with_edge(self, edge: impl Fn(u32) + Send + Sync + 'static) -> Self {
        Self {
            edge: Some(Edge(Box::new(edge))),
            ..self
        }
    }

    /// The measured phase of shard `k` begins or is over; called on its thread.
    pub(crate) fn at_edge(&self, k: u32) {
        if let Some(Edge(edge)) = &self.edge {
            edge(k);
        }
    }

    /// The same in worker number `worker` of a run of several.
    #[must_use]
    pub const fn of_worker(mut self, worker: u32) -> Self {
        self.worker = worker;
        self
    }

    /// The number of this process among the workers of the run; 0 where it is the only one.
    #[must_use]
    pub const fn worker(&self) -> u32 {
        self.worker
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

    /// Puts the counts of place `place` in the place of its earlier ones; of a place that there is not,
    /// nowhere.
    pub fn publish(&self, place: u32, totals: &LiveTotals) {
        if let Some(live) = self.lives.get(place as usize) {
            live.issued.store(totals.issued, Ordering::Relaxed);
            live.completed.store(totals.completed, Ordering::Relaxed);
            live.failed.store(totals.failed, Ordering::Relaxed);
            live.content_events
                .store(totals.content_events, Ordering::Relaxed);
            live.in_flight.store(totals.in_flight, Ordering::Relaxed);
        }
    }

    /// The counts of all places.
    #[must_use]
    pub fn totals(&self) -> LiveTotals {
        let mut sum = LiveTotals::default();
        for live in &self.lives {
            sum.add(&LiveTotals {
                issued: live.issued.load(Ordering::Relaxed),
                completed: live.completed.load(Ordering::Relaxed),
                failed: live.failed.load(Ordering::Relaxed),
                content_events: live.content_events.load(Ordering::Relaxed),
                in_flight: live.in_flight.load(Ordering::Relaxed),
            });
        }
        sum
    }
}
