use ridgeline_clock::Nanos;

/// How far a worker's clock is from the coordinator's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClockOffset {
    /// What the worker's clock says more than the coordinator's at the same moment, ns.
    pub offset_ns: i64,
    /// The most that `offset_ns` can be wrong by, ns: half of the round trip that it is from.
    pub error_ns: u64,
    /// Both read one clock (the same boot and time namespace): the offset is 0 by definition.
    pub same_clock: bool,
}

impl ClockOffset {
    /// Of two processes that read one clock.
    pub const SAME: Self = Self {
        offset_ns: 0,
        error_ns: 0,
        same_clock: true,
    };

    /// From one round trip: the coordinator sent at `sent`, the worker's clock said `there` when that came,
    /// and the answer came at `received`.
    ///
    /// The worker read its clock at some moment between the two; the middle is wrong by half of the
    /// span at the most, whatever the two ways took (NTP, RFC 5905, section 8).
    #[must_use]
    pub fn of_round_trip(sent: Nanos, there: Nanos, received: Nanos) -> Self {
        let span = received - sent;
        let middle = sent + span / 2;
        let offset = i128::from(there.0) - i128::from(middle.0);
        Self {
            offset_ns: i64::try_from(offset).unwrap_or(if offset < 0 {
                i64::MIN
            } else {
                i64::MAX
            }),
            error_ns: (span / 2).0 + 1,
            same_clock: false,
        }
    }

    /// What the worker's clock says when the coordinator's says `at`.
    #[must_use]
    pub fn there(self, at: Nanos) -> Nanos {
        Nanos(at.0.saturating_add_signed(self.offset_ns))
    }
}

/// Round trips, of which the shortest count.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clocks {
    first: Option<ClockOffset>,
    count: u32,
    recent: Vec<ClockOffset>,
}

/// Round trips of the recent past among which the shortest is taken.
const RECENT: usize = 16;

impl Clocks {
    /// Takes a round trip; those beyond the first `samples` tell how far the clocks have drifted.
    pub(crate) fn take(&mut self, offset: ClockOffset, samples: u32) {
        if self.count < samples {
            self.count += 1;
            self.first = Some(match self.first {
                Some(best) if best.error_ns <= offset.error_ns => best,
                _ => offset,
            });
            return;
        }
        if self.recent.len() == RECENT {
            self.recent.remove(0);
        }
        self.recent.push(offset);
    }

    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn offset(&self) -> Option<ClockOffset> {
        self.first
    }

    /// How much further the worker's clock is ahead now than at first, ns.
    pub(crate) fn drift_ns(&self) -> Option<i64> {
        let now = self.recent.iter().min_by_key(|offset| offset.error_ns)?;
        Some(now.offset_ns.saturating_sub(self.first?.offset_ns))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_shortest_round_trip_is_taken_and_later_ones_tell_the_drift() {
        let trip = |sent: u64, out: u64, back: u64| {
            let there = sent + out + 5_000;
            ClockOffset::of_round_trip(Nanos(sent), Nanos(there), Nanos(sent + out + back))
        };
        let mut clocks = Clocks::default();
        for (out, back) in [(900, 100), (10, 12), (100, 700)] {
            clocks.take(trip(1_000, out, back), 3);
        }
        let best = clocks.offset().unwrap();
        assert_eq!((best.offset_ns, best.error_ns), (4_999, 12));
        assert_eq!((clocks.count(), clocks.drift_ns()), (3, None));
        let late = ClockOffset {
            offset_ns: 5_100,
            ..best
        };
        clocks.take(late, 3);
        assert_eq!(
            (clocks.drift_ns(), clocks.offset()),
            (Some(101), Some(best))
        );
    }

    proptest! {
        #[test]
        fn the_true_offset_lies_within_the_error(
            sent in 0_u64..1 << 60, out in 0_u64..1 << 40, back in 0_u64..1 << 40,
            offset in -(1_i64 << 59)..1 << 59,
        ) {
            let at = sent + out;
            prop_assume!(at.checked_add_signed(offset).is_some());
            let there = Nanos(at.saturating_add_signed(offset));
            let found = ClockOffset::of_round_trip(Nanos(sent), there, Nanos(at + back));
            prop_assert!(found.offset_ns.abs_diff(offset) <= found.error_ns);
            let moved = found.there(Nanos(at));
            prop_assert!(moved.0.abs_diff(there.0) <= found.error_ns);
        }
    }
}
