use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, fence};

use ridgeline_net::Wake;

/// Wakes a thread that waits in a turn of its own, only if it does.
///
/// Who waits says [`Bell::sleeps`], looks once more for what it waits for, and only then waits. Who
/// has something for it makes that seen, and then says [`Bell::ring`]: one of the two sees the other.
#[derive(Default)]
pub struct Bell {
    asleep: AtomicBool,
    waker: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Bell {
    /// How its owner is woken. Only the first call counts.
    pub fn wakes_by(&self, waker: impl Wake) {
        let _ = self.waker.set(Box::new(move || waker.wake()));
    }

    /// Its owner is about to wait, and looks once more after this.
    pub fn sleeps(&self) {
        self.asleep.store(true, Ordering::SeqCst);
        fence(Ordering::SeqCst);
    }

    /// Its owner waits no longer.
    pub fn wakes(&self) {
        self.asleep.store(false, Ordering::Relaxed);
    }

    /// There is something for its owner, and it can be seen.
    pub fn ring(&self) {
        fence(Ordering::SeqCst);
        // Read first: a store would take the line from its owner.
        if self.asleep.load(Ordering::Relaxed)
            && self.asleep.swap(false, Ordering::SeqCst)
            && let Some(wake) = self.waker.get()
        {
            wake();
        }
    }
}

impl fmt::Debug for Bell {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bell")
            .field("asleep", &self.asleep)
            .field("has_waker", &self.waker.get().is_some())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicU32;

    use super::*;

    #[derive(Clone, Default)]
    struct Count(Arc<AtomicU32>);

    impl Wake for Count {
        fn wake(&self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    #[test]
    fn only_a_sleeper_is_woken_and_only_once() {
        let (bell, woken) = (Bell::default(), Count::default());
        let count = || woken.0.load(Ordering::Relaxed);
        bell.sleeps();
        bell.ring(); // nobody knows how yet
        bell.wakes_by(woken.clone());
        bell.ring();
        assert_eq!(count(), 0, "awake");
        bell.sleeps();
        bell.ring();
        bell.ring();
        assert_eq!(count(), 1);
        bell.sleeps();
        bell.wakes();
        bell.ring();
        assert_eq!(count(), 1);
    }
}
