use std::collections::{HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use ridgeline_clock::Nanos;
use ridgeline_engine::Bell;

use crate::Limits;
use crate::bodies::Bodies;
use crate::protocol::Trouble;

/// What the two ends of a service have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    /// Queries that were taken and have no result yet.
    unanswered: Mutex<HashSet<u64>>,
    /// How many those are.
    count: AtomicUsize,
    /// Errors to be told.
    troubles: Mutex<VecDeque<Trouble>>,
    troubles_count: AtomicUsize,
    pub(crate) bodies: Bodies,
    /// Rung when there may be room for queries again.
    pub(crate) room: Bell,
    /// No more queries are to be taken.
    stopped: AtomicBool,
    /// When results that nobody takes are given up.
    give_up_at: AtomicU64,
    pub(crate) limits: Limits,
}

/// A lock is never held over anything that can panic half-way.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn new(limits: Limits) -> Self {
        Self {
            unanswered: Mutex::new(HashSet::with_capacity(limits.unanswered_max())),
            count: AtomicUsize::new(0),
            troubles: Mutex::default(),
            troubles_count: AtomicUsize::new(0),
            bodies: Bodies::default(),
            room: Bell::default(),
            stopped: AtomicBool::new(false),
            give_up_at: AtomicU64::new(u64::MAX),
            limits,
        }
    }

    /// Whether no message can be taken for now.
    pub(crate) fn is_full(&self) -> bool {
        self.count.load(Ordering::Relaxed) >= self.limits.queries_max
            || self.bodies.lent_bytes() >= self.limits.bodies_bytes_max
            || self.troubles_count.load(Ordering::Relaxed) >= self.limits.errors_max
    }

    /// Gives `each` the set of what is unanswered, to add to.
    pub(crate) fn take<R>(&self, each: impl FnOnce(&mut HashSet<u64>) -> R) -> R {
        let mut unanswered = lock(&self.unanswered);
        let result = each(&mut unanswered);
        self.count.store(unanswered.len(), Ordering::Relaxed);
        result
    }

    /// These are answered.
    pub(crate) fn answered(&self, ids: &[u64]) {
        self.take(|unanswered| {
            ids.iter().for_each(|id| {
                unanswered.remove(id);
            });
        });
        self.room.ring();
    }

    pub(crate) fn tell(&self, troubles: impl IntoIterator<Item = Trouble>) {
        let mut waiting = lock(&self.troubles);
        waiting.extend(troubles);
        self.troubles_count.store(waiting.len(), Ordering::Relaxed);
    }

    /// Takes out what is to be told.
    pub(crate) fn troubles(&self) -> VecDeque<Trouble> {
        if self.troubles_count.load(Ordering::Relaxed) == 0 {
            return VecDeque::new();
        }
        let taken = std::mem::take(&mut *lock(&self.troubles));
        self.troubles_count.store(0, Ordering::Relaxed);
        self.room.ring();
        taken
    }

    pub(crate) fn has_troubles(&self) -> bool {
        self.troubles_count.load(Ordering::Relaxed) > 0
    }

    pub(crate) fn stop(&self, give_up_at: Nanos) {
        self.give_up_at.fetch_min(give_up_at.0, Ordering::AcqRel);
        self.stopped.store(true, Ordering::Release);
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Acquire)
    }

    pub(crate) fn give_up_at(&self) -> Nanos {
        Nanos(self.give_up_at.load(Ordering::Acquire))
    }
}
