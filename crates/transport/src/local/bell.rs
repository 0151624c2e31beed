use std::sync::atomic::{AtomicBool, Ordering, fence};
use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

use ridgeline_clock::{Clock, MonotonicClock, Nanos};

/// Looks at what is waited for before a thread goes to sleep: a peer that works at the same time
/// answers within that, and sleeping would cost both a system call.
const LOOKS: u32 = 200;

/// What an end sleeps on, and is woken by.
///
/// A ringer first makes visible what it rings for, then looks for a sleeper; a sleeper first says
/// that it sleeps, then looks at what it waits for. The fences order the two: one sees the other.
#[derive(Debug, Default)]
pub(super) struct Bell {
    sleeping: AtomicBool,
    woken: AtomicBool,
    lock: Mutex<()>,
    bell: Condvar,
}

impl Bell {
    /// Something changed that the owner may wait for.
    #[inline]
    pub(super) fn ring(&self) {
        fence(Ordering::SeqCst);
        if self.sleeping.load(Ordering::Relaxed) {
            self.rouse();
        }
    }

    #[cold]
    fn rouse(&self) {
        // With the lock held the owner is either before its look, or waits.
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        self.sleeping.store(false, Ordering::Relaxed);
        drop(guard);
        self.bell.notify_all();
    }

    /// Ends the owner's wait whatever it waits for.
    pub(super) fn wake(&self) {
        self.woken.store(true, Ordering::Release);
        self.ring();
    }

    /// Whether it was woken since the last call.
    pub(super) fn was_woken(&self) -> bool {
        self.woken.load(Ordering::Relaxed) && self.woken.swap(false, Ordering::Acquire)
    }

    /// Waits until `is_ready`, a wake or the deadline. Returns how long that took.
    pub(super) fn wait(&self, deadline: Nanos, is_ready: impl Fn() -> bool) -> Nanos {
        let is_ready = || is_ready() || self.woken.load(Ordering::Relaxed);
        for _ in 0..LOOKS {
            if is_ready() {
                return Nanos::ZERO;
            }
            std::hint::spin_loop();
        }
        let start = MonotonicClock.now();
        let mut now = start;
        while now < deadline {
            self.sleeping.store(true, Ordering::Relaxed);
            fence(Ordering::SeqCst);
            if is_ready() {
                break;
            }
            self.sleep(deadline, now);
            now = MonotonicClock.now();
        }
        self.sleeping.store(false, Ordering::Relaxed);
        MonotonicClock.now() - start
    }

    fn sleep(&self, deadline: Nanos, now: Nanos) {
        let guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.sleeping.load(Ordering::Relaxed) {
            return;
        }
        if deadline == Nanos::MAX {
            drop(
                self.bell
                    .wait(guard)
                    .unwrap_or_else(PoisonError::into_inner),
            );
        } else {
            let span = Duration::from_nanos((deadline - now).0);
            drop(self.bell.wait_timeout(guard, span));
        }
    }
}
