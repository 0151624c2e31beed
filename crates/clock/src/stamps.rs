//! The map from the kernel's wall-clock stamps to the run's monotonic clock.

use crate::{Arrival, Bracket, Nanos};

/// How often the two clocks are read against each other.
const PERIOD: Nanos = Nanos::from_millis(100);

/// A larger change between two readings is a step (settimeofday, a VM that slept), not slewing:
/// NTP slews by at most 500 ppm, 50 us in a period.
const STEP: Nanos = Nanos::from_micros(50);

/// `monotonic = stamp - offset`, with the offset read anew every 100 ms.
#[derive(Debug)]
pub struct StampMap {
    latest: Bracket,
    /// Stamps that map to earlier than this are of an interval in which the clock stepped.
    usable_from: Nanos,
    /// When the next reading is due.
    due: Nanos,
    error_max: Nanos,
}

impl StampMap {
    /// A map by a first reading.
    #[must_use]
    pub fn new(first: Bracket) -> Self {
        Self {
            latest: first,
            usable_from: Nanos::ZERO,
            due: first.at + PERIOD,
            error_max: first.error,
        }
    }

    /// Whether [`StampMap::read`] wants a new reading.
    #[inline]
    #[must_use]
    pub fn is_due(&self, now: Nanos) -> bool {
        now >= self.due
    }

    /// Takes a new reading.
    pub fn read(&mut self, next: Bracket) {
        let back = self.latest.offset - next.offset;
        let drift = back.max(next.offset - self.latest.offset);
        if drift > STEP {
            // Stamps made before a step back map to later than they should by its width; they
            // linger in a socket for less than a period.
            self.usable_from = next.at + back.min(PERIOD);
            self.error_max = self.error_max.max(next.error);
        } else {
            self.error_max = self.error_max.max(next.error + drift);
        }
        self.latest = next;
        self.due = next.at + PERIOD;
    }

    /// The monotonic time of a stamp that was reaped at `reaped`, not later than that. `None` when
    /// the wall clock stepped since the stamp was made.
    #[inline]
    pub fn map(&mut self, wall: Nanos, reaped: Nanos) -> Option<Nanos> {
        let at = wall - self.latest.offset;
        if at < self.usable_from {
            return None;
        }
        if at > reaped {
            if at - reaped > STEP {
                // From the future: the clock stepped ahead since the last reading.
                self.due = Nanos::ZERO;
                return None;
            }
            return Some(reaped);
        }
        Some(at)
    }

    /// The largest error of a mapped stamp so far: half the time a reading took, and what the
    /// clocks drifted apart until the next.
    #[must_use]
    pub fn error_max(&self) -> Nanos {
        self.error_max
    }
}

/// When a stamped read of a stream came: `at` is its last segment's stamp, and earlier segments came after the
/// stream's stamp before, which is in `floor`. If it can be the answer to what was sent last, it came after that.
#[inline]
pub fn stamped(floor: &mut Nanos, submitted: Nanos, at: Option<Nanos>, reaped: Nanos) -> Arrival {
    let Some(at) = at else {
        return Arrival::reaped(reaped);
    };
    // Two readings of the clocks may disagree by a little: a stream's stamps don't go back.
    let at = at.max(*floor);
    let mut not_before = *floor;
    if submitted <= at {
        not_before = not_before.max(submitted);
    }
    if not_before == Nanos::ZERO {
        not_before = at;
    }
    *floor = at;
    Arrival {
        at,
        not_before,
        reaped,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OFFSET: Nanos = Nanos::from_secs(1_700_000_000);

    fn bracket(at_ms: u64, offset: Nanos) -> Bracket {
        Bracket {
            at: Nanos::from_millis(at_ms),
            offset,
            error: Nanos(40),
        }
    }

    fn ms(ms: u64) -> Nanos {
        Nanos::from_millis(ms)
    }

    #[test]
    fn a_stamp_maps_by_the_latest_offset() {
        let mut map = StampMap::new(bracket(1_000, OFFSET));
        assert_eq!(map.map(OFFSET + ms(1_020), ms(1_030)), Some(ms(1_020)));
        map.read(bracket(1_100, OFFSET + Nanos(700)));
        assert_eq!(
            map.map(OFFSET + ms(1_120), ms(1_130)),
            Some(ms(1_120) - Nanos(700))
        );
        assert_eq!(
            map.error_max(),
            Nanos(740),
            "half the bracket, and the drift"
        );
    }

    #[test]
    fn a_reading_is_due_every_period() {
        let mut map = StampMap::new(bracket(1_000, OFFSET));
        assert!(!map.is_due(ms(1_099)));
        assert!(map.is_due(ms(1_100)));
        map.read(bracket(1_101, OFFSET));
        assert!(!map.is_due(ms(1_200)));
        assert!(map.is_due(ms(1_201)));
    }

    #[test]
    fn a_stamp_is_never_later_than_its_reaping() {
        let mut map = StampMap::new(bracket(1_000, OFFSET));
        assert_eq!(
            map.map(OFFSET + ms(1_010) + Nanos(90), ms(1_010)),
            Some(ms(1_010))
        );
    }

    #[test]
    fn a_step_ahead_is_noticed_by_stamps_from_the_future() {
        let mut map = StampMap::new(bracket(1_000, OFFSET));
        let stepped = OFFSET + ms(3);
        assert_eq!(map.map(stepped + ms(1_010), ms(1_010)), None);
        assert!(map.is_due(ms(1_010)), "read again at once");
        map.read(bracket(1_010, stepped));
        assert_eq!(
            map.map(stepped + ms(1_009), ms(1_011)),
            None,
            "of the stepped interval"
        );
        assert_eq!(map.map(stepped + ms(1_011), ms(1_012)), Some(ms(1_011)));
        assert_eq!(
            map.error_max(),
            Nanos(40),
            "a step is not an error of the map"
        );
    }

    #[test]
    fn a_step_back_discards_the_interval_and_what_may_still_lie_in_a_socket() {
        let mut map = StampMap::new(bracket(1_000, OFFSET));
        let stepped = OFFSET - ms(2);
        map.read(bracket(1_100, stepped));
        // Made before the step, reaped after the reading: would map to 2 ms too late.
        assert_eq!(map.map(OFFSET + ms(1_099), ms(1_103)), None);
        assert_eq!(map.map(stepped + ms(1_101), ms(1_103)), None);
        assert_eq!(map.map(stepped + ms(1_103), ms(1_103)), Some(ms(1_103)));
        map.read(bracket(1_200, OFFSET - Nanos::from_secs(3_600)));
        let wall = OFFSET - Nanos::from_secs(3_600) + ms(1_301);
        assert_eq!(
            map.map(wall, ms(1_302)),
            Some(ms(1_301)),
            "for one period at most"
        );
    }

    #[test]
    fn slewing_is_not_a_step() {
        let mut map = StampMap::new(bracket(1_000, OFFSET));
        map.read(bracket(1_100, OFFSET + Nanos::from_micros(50)));
        assert!(map.map(OFFSET + ms(1_001), ms(1_101)).is_some());
        map.read(bracket(1_200, OFFSET + Nanos::from_micros(101)));
        assert!(map.map(OFFSET + ms(1_001), ms(1_201)).is_none());
    }
}
