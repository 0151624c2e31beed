use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use ridgeline_clock::Nanos;

use super::What;
use crate::sim::link::End;

/// Something that will happen. Ordered by time, then by when it was planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Event {
    pub(super) at: Nanos,
    serial: u64,
    pub(super) end: End,
    pub(super) what: What,
}

/// What will happen, soonest first.
///
/// Trips that take equally long are planned in the order in which they end: those stand in a queue, and
/// only what is planned out of order needs the heap.
#[derive(Debug)]
pub(super) struct Agenda {
    /// INVARIANT: sorted.
    in_order: VecDeque<Event>,
    others: BinaryHeap<Reverse<Event>>,
    serial: u64,
}

impl Agenda {
    /// An empty one, with memory for this many events of either kind.
    pub(super) fn with_capacity(events: usize) -> Self {
        Self {
            in_order: VecDeque::with_capacity(events),
            others: BinaryHeap::with_capacity(events),
            serial: 0,
        }
    }

    pub(super) fn push(&mut self, at: Nanos, end: End, what: What) {
        self.serial += 1;
        let event = Event {
            at,
            serial: self.serial,
            end,
            what,
        };
        if self.in_order.back().is_some_and(|last| last.at > at) {
            self.others.push(Reverse(event));
        } else {
            self.in_order.push_back(event);
        }
    }

    /// When the next event is.
    pub(super) fn next_at(&self) -> Option<Nanos> {
        let first = self.in_order.front().map(|event| event.at);
        let other = self.others.peek().map(|Reverse(event)| event.at);
        first.into_iter().chain(other).min()
    }

    /// The next event, if its time has come.
    pub(super) fn pop_due(&mut self, now: Nanos) -> Option<Event> {
        let first = self.in_order.front().filter(|event| event.at <= now);
        match self.others.peek().filter(|Reverse(event)| event.at <= now) {
            Some(Reverse(other)) if first.is_none_or(|first| other < first) => {
                self.others.pop().map(|Reverse(event)| event)
            }
            _ if first.is_some() => self.in_order.pop_front(),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Against a list that is sorted whole, by time and then by order of planning.
        #[test]
        fn events_come_by_time_and_then_in_the_order_of_planning(
            steps in prop::collection::vec((0_u64..20, any::<bool>()), 1..200)
        ) {
            let mut agenda = Agenda::with_capacity(4);
            let mut oracle: Vec<(u64, u32)> = Vec::new();
            let mut now = 0;
            for (number, (span, takes)) in (0..).zip(steps) {
                let at = now + span;
                agenda.push(Nanos(at), End::new(number, 0, 0), What::Timer);
                oracle.push((at, number));
                oracle.sort_unstable();
                prop_assert_eq!(agenda.next_at(), Some(Nanos(oracle[0].0)));
                if takes {
                    now += span / 2;
                    while let Some(event) = agenda.pop_due(Nanos(now)) {
                        let (at, number) = oracle.remove(0);
                        prop_assert_eq!((event.at.0, event.end.link()), (at, number as usize));
                    }
                    prop_assert!(oracle.first().is_none_or(|&(at, _)| at > now));
                }
            }
        }
    }
}
