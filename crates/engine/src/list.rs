/// Marks the end of a list.
const NONE: u32 = u32::MAX;
/// In the place of `previous`: of a place that is in no list.
const APART: u32 = u32::MAX - 1;

/// A queue of slab places that any of them can leave at once: a doubly linked list whose links
/// lie in one vector. No allocation after [`List::new`].
#[derive(Debug)]
pub(crate) struct List {
    links: Vec<Link>,
    head: u32,
    tail: u32,
}

#[derive(Clone, Copy, Debug)]
struct Link {
    previous: u32,
    next: u32,
}

impl List {
    /// Bytes for each place.
    pub(crate) const LINK_BYTES: usize = size_of::<Link>();

    /// An empty list over the places `0..places`.
    pub(crate) fn new(places: u32) -> Self {
        let apart = Link {
            previous: APART,
            next: NONE,
        };
        Self {
            links: vec![apart; places as usize],
            head: NONE,
            tail: NONE,
        }
    }

    pub(crate) fn first(&self) -> Option<u32> {
        (self.head != NONE).then_some(self.head)
    }

    /// The place behind one that is in the list.
    pub(crate) fn after(&self, place: u32) -> Option<u32> {
        let next = self.links[place as usize].next;
        (next != NONE).then_some(next)
    }

    pub(crate) fn last(&self) -> Option<u32> {
        (self.tail != NONE).then_some(self.tail)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.head == NONE
    }

    pub(crate) fn contains(&self, place: u32) -> bool {
        self.links[place as usize].previous != APART
    }

    /// Puts a place that is in no list at the end.
    pub(crate) fn push_back(&mut self, place: u32) {
        debug_assert!(!self.contains(place));
        self.links[place as usize] = Link {
            previous: self.tail,
            next: NONE,
        };
        match self.tail {
            NONE => self.head = place,
            tail => self.links[tail as usize].next = place,
        }
        self.tail = place;
    }

    /// Puts a place that is in no list at the front.
    pub(crate) fn push_front(&mut self, place: u32) {
        debug_assert!(!self.contains(place));
        self.links[place as usize] = Link {
            previous: NONE,
            next: self.head,
        };
        match self.head {
            NONE => self.tail = place,
            head => self.links[head as usize].previous = place,
        }
        self.head = place;
    }

    /// Takes a place out, wherever it stands; nothing happens when it is not in the list.
    pub(crate) fn remove(&mut self, place: u32) {
        let Link { previous, next } = self.links[place as usize];
        if previous == APART {
            return;
        }
        match previous {
            NONE => self.head = next,
            before => self.links[before as usize].next = next,
        }
        match next {
            NONE => self.tail = previous,
            after => self.links[after as usize].previous = previous,
        }
        self.links[place as usize].previous = APART;
    }

    pub(crate) fn pop_front(&mut self) -> Option<u32> {
        let first = self.first()?;
        self.remove(first);
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn behaves_as_a_deque(moves in prop::collection::vec((0u8..4, 0u32..8), 0..200)) {
            let mut list = List::new(8);
            let mut oracle: VecDeque<u32> = VecDeque::new();
            for (what, place) in moves {
                match what {
                    0 if !oracle.contains(&place) => {
                        list.push_back(place);
                        oracle.push_back(place);
                    }
                    1 if !oracle.contains(&place) => {
                        list.push_front(place);
                        oracle.push_front(place);
                    }
                    2 => {
                        list.remove(place);
                        oracle.retain(|&other| other != place);
                    }
                    3 => prop_assert_eq!(list.pop_front(), oracle.pop_front()),
                    _ => {}
                }
                prop_assert_eq!(list.first(), oracle.front().copied());
                prop_assert_eq!(list.last(), oracle.back().copied());
                prop_assert_eq!(list.is_empty(), oracle.is_empty());
            }
        }
    }
}
