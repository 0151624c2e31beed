//! When each connection wants attention next.
use ridgeline_clock::Nanos;

/// A binary heap of deadlines, at most one per slot, each of which can be moved or cancelled.
///
/// Cancelling is what bounds it: with plain heap entries, every peer that goes away in the middle
/// of a slow answer would leave one behind until its time comes.
#[derive(Debug)]
pub(crate) struct Timers {
    /// INVARIANT: `heap[i].at >= heap[(i - 1) / 2].at`.
    heap: Vec<Entry>,
    /// Where in `heap` the deadline of a slot is, or `NOWHERE`.
    /// INVARIANT: `heap[place[slot]].slot == slot`.
    place: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    at: Nanos,
    slot: u32,
}

const NOWHERE: u32 = u32::MAX;

impl Timers {
    /// Room for the deadlines of slots `0..slots`; nothing is allocated later.
    pub(crate) fn new(slots: u32) -> Self {
        Self {
            heap: Vec::with_capacity(slots as usize),
            place: vec![NOWHERE; slots as usize],
        }
    }

    /// The earliest deadline; [`Nanos::MAX`] when there is none.
    pub(crate) fn next(&self) -> Nanos {
        self.heap.first().map_or(Nanos::MAX, |entry| entry.at)
    }

    /// Gives `slot` the deadline `at`, in place of the one it had.
    pub(crate) fn set(&mut self, slot: u32, at: Nanos) {
        let entry = Entry { at, slot };
        let place = self.place[slot as usize];
        if place == NOWHERE {
            self.heap.push(entry);
            self.rise(self.heap.len() - 1, entry);
        } else {
            self.settle(place as usize, entry);
        }
    }

    /// Takes the deadline of `slot` away, if it has one.
    pub(crate) fn cancel(&mut self, slot: u32) {
        let place = std::mem::replace(&mut self.place[slot as usize], NOWHERE);
        if place == NOWHERE {
            return;
        }
        let last = self.heap.pop().expect("the slot's own entry is there");
        if last.slot != slot {
            self.settle(place as usize, last);
        }
    }

    /// The slot with the earliest deadline that is not after `now`; its deadline is taken away.
    pub(crate) fn pop(&mut self, now: Nanos) -> Option<u32> {
        let first = *self.heap.first()?;
        if first.at > now {
            return None;
        }
        self.cancel(first.slot);
        Some(first.slot)
    }

    /// Puts `entry` into `place`, whose content is not needed any more, and restores the order.
    fn settle(&mut self, place: usize, entry: Entry) {
        if place > 0 && entry.at < self.heap[(place - 1) / 2].at {
            self.rise(place, entry);
        } else {
            self.sink(place, entry);
        }
    }

    fn rise(&mut self, mut place: usize, entry: Entry) {
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.heap[parent].at <= entry.at {
                break;
            }
            self.put(place, self.heap[parent]);
            place = parent;
        }
        self.put(place, entry);
    }

    fn sink(&mut self, mut place: usize, entry: Entry) {
        loop {
            let left = 2 * place + 1;
            let Some(first) = self.heap.get(left) else {
                break;
            };
            let child = match self.heap.get(left + 1) {
                Some(second) if second.at < first.at => left + 1,
                _ => left,
            };
            if entry.at <= self.heap[child].at {
                break;
            }
            self.put(place, self.heap[child]);
            place = child;
        }
        self.put(place, entry);
    }

    fn put(&mut self, place: usize, entry: Entry) {
        self.heap[place] = entry;
        self.place[entry.slot as usize] =
            u32::try_from(place).expect("no more entries than slots, which are counted in u32");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[derive(Clone, Debug)]
    enum Op {
        Set(u32, u64),
        Cancel(u32),
        Pop(u64),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            (0..16_u32, 0..50_u64).prop_map(|(slot, at)| Op::Set(slot, at)),
            (0..16_u32).prop_map(Op::Cancel),
            (0..50_u64).prop_map(Op::Pop),
        ]
    }

    proptest! {
        #[test]
        fn behaves_like_a_sorted_set(ops in proptest::collection::vec(op(), 0..200)) {
            let mut timers = Timers::new(16);
            let mut naive: BTreeSet<(u64, u32)> = BTreeSet::new();
            for op in ops {
                match op {
                    Op::Set(slot, at) => {
                        naive.retain(|entry| entry.1 != slot);
                        naive.insert((at, slot));
                        timers.set(slot, Nanos(at));
                    }
                    Op::Cancel(slot) => {
                        naive.retain(|entry| entry.1 != slot);
                        timers.cancel(slot);
                    }
                    Op::Pop(now) => {
                        let expected = naive.first().map(|entry| entry.0).filter(|at| *at <= now);
                        let popped = timers.pop(Nanos(now));
                        prop_assert_eq!(popped.is_some(), expected.is_some());
                        if let (Some(slot), Some(at)) = (popped, expected) {
                            // Equal deadlines may come in any order.
                            prop_assert!(naive.remove(&(at, slot)));
                        }
                    }
                }
                let next = naive.first().map_or(Nanos::MAX, |entry| Nanos(entry.0));
                prop_assert_eq!(timers.next(), next);
            }
        }
    }
}
