use std::cell::Cell;
use std::rc::Rc;

use crate::{Clock, Nanos};

/// A virtual clock: it stands still until somebody moves it. Clones share one time.
#[derive(Clone, Debug, Default)]
pub struct SimClock(Rc<Cell<Nanos>>);

impl SimClock {
    /// A clock that shows `now`.
    #[must_use]
    pub fn new(now: Nanos) -> Self {
        Self(Rc::new(Cell::new(now)))
    }

    /// Moves the time forward to `at`; an earlier `at` leaves it where it is.
    pub fn advance_to(&self, at: Nanos) {
        self.0.set(self.0.get().max(at));
    }
}

impl Clock for SimClock {
    fn now(&self) -> Nanos {
        self.0.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clones_share_one_time_that_never_goes_back() {
        let clock = SimClock::default();
        let other = clock.clone();
        clock.advance_to(Nanos(9));
        clock.advance_to(Nanos(4));
        assert_eq!(other.now(), Nanos(9));
    }
}
