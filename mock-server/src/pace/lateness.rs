//! How late writes are handed to the kernel: the server's own fault.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

use ridgeline_clock::Nanos;

/// Buckets to a doubling: a value is told apart from one that is 3 % larger.
const STEPS: u64 = 32;
const STEP_BITS: u32 = STEPS.trailing_zeros();
/// The longest that is told apart from longer ones: 2^40 ns, 18 minutes.
const LATE_MAX_NS: u64 = (1 << 40) - 1;
const BUCKETS: usize = bucket(LATE_MAX_NS) + 1;

/// Below `2 * STEPS` each value has a bucket of its own; above, each doubling has `STEPS`.
#[expect(clippy::cast_possible_truncation, reason = "at most `BUCKETS`")]
const fn bucket(ns: u64) -> usize {
    let ns = if ns > LATE_MAX_NS { LATE_MAX_NS } else { ns };
    let shift = (u64::BITS - (ns | STEPS).leading_zeros()) - STEP_BITS - 1;
    ((shift as u64) * STEPS + (ns >> shift)) as usize
}

/// The greatest value in a bucket.
const fn upper(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < STEPS {
        return bucket;
    }
    let shift = bucket / STEPS - 1;
    ((bucket - shift * STEPS + 1) << shift) - 1
}

/// How late the writes of one shard were. One thread counts, any number may look.
#[derive(Debug)]
pub struct Lateness {
    /// From which lateness on a write is called late.
    over: AtomicU64,
    late: AtomicU64,
    max: AtomicU64,
    buckets: Box<[AtomicU64; BUCKETS]>,
}

impl Lateness {
    /// Nothing counted yet. A write is *late* when it is later than `over`.
    #[must_use]
    pub fn new(over: Nanos) -> Self {
        Self {
            over: AtomicU64::new(over.0),
            late: AtomicU64::new(0),
            max: AtomicU64::new(0),
            buckets: Box::new([const { AtomicU64::new(0) }; BUCKETS]),
        }
    }

    /// Writes that come are late from another lateness on.
    pub fn call_late_over(&self, over: Nanos) {
        self.over.store(over.0, Ordering::Relaxed);
    }

    /// A write was due at one time and handed over at another. Returns whether it is late. Only to
    /// be called by the one thread that counts: nothing is locked.
    #[inline]
    pub fn count(&self, due: Nanos, handed_over: Nanos) -> bool {
        let late = (handed_over - due).0;
        add(&self.buckets[bucket(late)], 1);
        if late > self.max.load(Ordering::Relaxed) {
            self.max.store(late, Ordering::Relaxed);
        }
        let is_late = late > self.over.load(Ordering::Relaxed);
        if is_late {
            add(&self.late, 1);
        }
        is_late
    }

    /// What was counted so far.
    #[must_use]
    pub fn tally(&self) -> LateTally {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        LateTally {
            over: Nanos(load(&self.over)),
            late: load(&self.late),
            max: Nanos(load(&self.max)),
            buckets: self.buckets.iter().map(load).collect(),
        }
    }
}

/// There is one writer: no other can come between the load and the store.
#[inline]
fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Ordering::Relaxed) + count, Ordering::Relaxed);
}

/// Counts of late writes, of one shard or of several.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LateTally {
    over: Nanos,
    late: u64,
    max: Nanos,
    /// Empty: nothing was counted.
    buckets: Vec<u64>,
}

impl LateTally {
    /// Adds the counts of another shard.
    pub fn merge(&mut self, other: &Self) {
        self.over = self.over.max(other.over);
        self.late += other.late;
        self.max = self.max.max(other.max);
        let missing = other.buckets.len().saturating_sub(self.buckets.len());
        self.buckets.resize(self.buckets.len() + missing, 0);
        for (sum, count) in self.buckets.iter_mut().zip(&other.buckets) {
            *sum += count;
        }
    }

    /// Writes that had a time.
    #[must_use]
    pub fn writes(&self) -> u64 {
        self.buckets.iter().sum()
    }

    /// Those of them that were later than the threshold.
    #[must_use]
    pub fn late(&self) -> u64 {
        self.late
    }

    /// The latest, exact.
    #[must_use]
    pub fn max(&self) -> Nanos {
        self.max
    }

    /// The lateness that `percent` of the writes do not exceed (nearest rank), at most 3.2 % more
    /// than exact; zero when there were none.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a rank, 1 to the number of writes"
    )]
    pub fn percentile(&self, percent: f64) -> Nanos {
        let writes = self.writes();
        let rank = ((percent / 100.0 * writes as f64).ceil() as u64).clamp(1, writes.max(1));
        let mut seen = 0;
        for (bucket, count) in self.buckets.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return self.max.min(Nanos(upper(bucket)));
            }
        }
        Nanos::ZERO
    }
}

impl fmt::Display for LateTally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} writes had a time: {} later than {}; lateness p50 {}, p99 {}, max {}",
            self.writes(),
            self.late,
            self.over,
            self.percentile(50.0),
            self.percentile(99.0),
            self.max,
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn buckets_are_adjacent_and_as_narrow_as_promised() {
        let mut last = None;
        for index in 0..BUCKETS {
            let lower = last.map_or(0, |upper: u64| upper + 1);
            let top = upper(index);
            assert_eq!((bucket(lower), bucket(top)), (index, index));
            assert!((top - lower) as f64 <= lower as f64 / 31.9);
            last = Some(top);
        }
        assert_eq!(last, Some(LATE_MAX_NS));
        assert_eq!(bucket(u64::MAX), BUCKETS - 1);
    }

    #[test]
    fn nothing_counted_is_nothing_late() {
        let tally = Lateness::new(Nanos(1)).tally();
        assert_eq!(tally.percentile(99.0), Nanos::ZERO);
        assert_eq!(
            LateTally::default().to_string(),
            Lateness::new(Nanos::ZERO).tally().to_string()
        );
    }

    #[test]
    fn a_write_as_late_as_the_threshold_is_not_late_yet() {
        let lateness = Lateness::new(Nanos::from_millis(1));
        for late in [0, 999_999, 1_000_000, 1_000_001, 5_000_000] {
            lateness.count(Nanos(7), Nanos(7 + late));
        }
        let tally = lateness.tally();
        assert_eq!((tally.writes(), tally.late()), (5, 2));
        assert_eq!(tally.max(), Nanos::from_millis(5));
        let text = "5 writes had a time: 2 later than 1.00 ms; lateness p50 1.02 ms, p99 5.00 ms, \
            max 5.00 ms";
        assert_eq!(tally.to_string(), text);
        lateness.call_late_over(Nanos::from_millis(7));
        assert!(!lateness.count(Nanos::ZERO, Nanos::from_millis(6)));
    }

    proptest! {
        #[test]
        fn percentiles_are_those_of_the_sorted_list(
            shards in proptest::collection::vec(
                proptest::collection::vec(0_u64..1 << 38, 0..60), 1..4),
            percent in 0.0..100.0_f64,
        ) {
            let mut tally = LateTally::default();
            for shard in &shards {
                let lateness = Lateness::new(Nanos(1_000));
                for late in shard {
                    prop_assert_eq!(lateness.count(Nanos(3), Nanos(3 + late)), *late > 1_000);
                }
                tally.merge(&lateness.tally());
            }
            let mut all = shards.concat();
            all.sort_unstable();
            prop_assert_eq!(tally.writes(), all.len() as u64);
            prop_assert_eq!(tally.max().0, all.last().copied().unwrap_or(0));
            prop_assert_eq!(tally.late(), all.iter().filter(|late| **late > 1_000).count() as u64);
            if !all.is_empty() {
                // The first that at least so many do not exceed.
                let enough = |index: usize| (index + 1) as f64 >= percent / 100.0 * all.len() as f64;
                let exact = all[(0..all.len()).find(|index| enough(*index)).unwrap()];
                let read = tally.percentile(percent).0;
                prop_assert!(exact <= read && read as f64 <= exact as f64 * 1.032);
            }
        }
    }
}
