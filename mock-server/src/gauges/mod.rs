//! What the server measures of itself: cells of numbers per shard, `/metrics`, and the line of
//! `--stats`.
//!
//! A shard writes its own cells and nobody else's, so that a cell takes a load and a store and no
//! lock; anyone may read. Times are measured, never the configured ones: they go from the arrival
//! of a request's last byte to the clock reading just before the system call of a write.

mod bounds;
mod family;
mod page;
mod stats;

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use family::{CELLS, Kind};
pub(crate) use family::{Family, Finished};
pub(crate) use page::Page;
pub(crate) use stats::Stats;

/// The cells of one shard.
pub(crate) struct Gauges(Box<[AtomicU64]>);

impl std::fmt::Debug for Gauges {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gauges").finish_non_exhaustive()
    }
}

impl Default for Gauges {
    fn default() -> Self {
        Self((0..CELLS).map(|_| AtomicU64::new(0)).collect())
    }
}

/// Writing: for the shard that these are the cells of.
impl Gauges {
    #[inline]
    fn bump(&self, cell: usize, by: u64) {
        let cell = &self.0[cell];
        cell.store(
            cell.load(Ordering::Relaxed).wrapping_add(by),
            Ordering::Relaxed,
        );
    }

    /// Adds to a counter.
    #[inline]
    pub(crate) fn add(&self, family: Family, by: u64) {
        self.bump(family.first(), by);
    }

    /// Adds 1 to the counter of the label's value number `value`.
    #[inline]
    pub(crate) fn add_by(&self, family: Family, value: usize) {
        debug_assert!(value < family.row().kind.cells());
        self.bump(family.first() + value, 1);
    }

    /// Says how many there are now, or were so far.
    #[inline]
    pub(crate) fn set(&self, family: Family, value: u64) {
        self.0[family.first()].store(value, Ordering::Relaxed);
    }

    /// What was said last.
    pub(crate) fn value(&self, family: Family) -> u64 {
        self.0[family.first()].load(Ordering::Relaxed)
    }

    /// Takes `times` equal values into a histogram: ns, or a number of something.
    #[inline]
    pub(crate) fn observe(&self, family: Family, value: u64, times: u64) {
        let Kind::Histogram { bounds, .. } = family.row().kind else {
            debug_assert!(false, "{family:?} is a histogram");
            return;
        };
        let bucket = bounds.partition_point(|bound| *bound < value);
        self.bump(family.first() + bucket, times);
        self.bump(family.first() + bounds.len() + 1, value.wrapping_mul(times));
    }
}

/// The cells of several shards at one time, added up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Snapshot {
    cells: Box<[u64]>,
    shards: u64,
    /// Faults injected, by name.
    pub(crate) faults: BTreeMap<String, u64>,
}

impl Snapshot {
    /// What the cells say now. They are read one after the other while the shards go on: a sum may
    /// be ahead of its count by what happened meanwhile.
    pub(crate) fn of<'g>(shards: impl Iterator<Item = &'g Gauges>) -> Self {
        let mut snapshot = Self {
            cells: vec![0; CELLS].into_boxed_slice(),
            shards: 0,
            faults: BTreeMap::new(),
        };
        for shard in shards {
            snapshot.shards += 1;
            for (sum, cell) in snapshot.cells.iter_mut().zip(&shard.0) {
                *sum = sum.wrapping_add(cell.load(Ordering::Relaxed));
            }
        }
        snapshot
    }

    /// What was counted since `before`; what goes up and down stays as it is.
    pub(crate) fn since(mut self, before: &Self) -> Self {
        for family in Family::all().filter(|family| family.row().kind.is_counted()) {
            let cells = family.first()..family.first() + family.row().kind.cells();
            for (now, before) in self.cells[cells.clone()]
                .iter_mut()
                .zip(&before.cells[cells])
            {
                *now = now.wrapping_sub(*before);
            }
        }
        for (fault, count) in &mut self.faults {
            *count -= before.faults.get(fault).copied().unwrap_or(0).min(*count);
        }
        self
    }

    /// A family's cells.
    fn cells(&self, family: Family) -> &[u64] {
        &self.cells[family.first()..][..family.row().kind.cells()]
    }

    /// A counter or a gauge; of a histogram or a counter with a label: how many values there were.
    pub(crate) fn count(&self, family: Family) -> u64 {
        let cells = self.cells(family);
        match family.row().kind {
            Kind::Histogram { bounds, .. } => cells[..=bounds.len()].iter().sum(),
            _ => cells.iter().sum(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn snapshot(shards: &[Gauges]) -> Snapshot {
        Snapshot::of(shards.iter())
    }

    proptest! {
        #[test]
        fn a_value_lies_in_the_first_bucket_that_has_room(
            values in proptest::collection::vec((0..3_000_000_000_000_u64, 1..5_u64), 0..50),
        ) {
            let shards = [Gauges::default(), Gauges::default()];
            let bounds = bounds::FIRST_TOKEN;
            let mut naive = vec![0; bounds.len() + 2];
            for (index, (value, times)) in values.iter().enumerate() {
                shards[index % 2].observe(Family::FirstToken, *value, *times);
                let bucket = bounds.iter().take_while(|bound| *bound < value).count();
                naive[bucket] += times;
                naive[bounds.len() + 1] += value * times;
            }
            let snapshot = snapshot(&shards);
            prop_assert_eq!(snapshot.cells(Family::FirstToken), &naive[..]);
            let times = values.iter().map(|(_, times)| times).sum::<u64>();
            prop_assert_eq!(snapshot.count(Family::FirstToken), times);
            // Nobody else's cells were touched.
            let others = Family::all().filter(|family| *family != Family::FirstToken);
            prop_assert_eq!(others.map(|family| snapshot.count(family)).sum::<u64>(), 0);
        }
    }

    #[test]
    fn a_bound_belongs_to_its_bucket() {
        let gauges = [Gauges::default()];
        gauges[0].observe(Family::RequestChoices, 1, 1);
        gauges[0].observe(Family::RequestChoices, 20, 1);
        gauges[0].observe(Family::RequestChoices, 21, 1);
        let cells = snapshot(&gauges).cells(Family::RequestChoices).to_vec();
        assert_eq!(cells, [1, 0, 0, 0, 1, 1, 42]);
    }

    #[test]
    fn shards_add_up_and_a_reset_spares_what_goes_up_and_down() {
        let shards = [Gauges::default(), Gauges::default()];
        shards[0].add(Family::PromptTokens, 3);
        shards[1].add(Family::PromptTokens, 4);
        shards[0].set(Family::Running, 2);
        shards[1].set(Family::Running, 5);
        shards[1].add_by(Family::Success, 1);
        let before = snapshot(&shards);
        assert_eq!(before.count(Family::PromptTokens), 7);
        assert_eq!(before.count(Family::Running), 7);
        assert_eq!(before.cells(Family::Success), [0, 1, 0]);
        shards[0].add(Family::PromptTokens, 10);
        shards[0].set(Family::Running, 1);
        let since = snapshot(&shards).since(&before);
        assert_eq!(since.count(Family::PromptTokens), 10);
        assert_eq!(since.count(Family::Running), 6);
        assert_eq!(since.count(Family::Success), 0);
    }
}
