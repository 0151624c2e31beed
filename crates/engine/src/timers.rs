//! Spans that a request may take for a part of itself: see [`Waits`].

use ridgeline_clock::Nanos;
use ridgeline_metrics::Phase;
use ridgeline_net::Commands;
use ridgeline_wire::exchange::ErrorKind;

use crate::list::List;
use crate::shard::Shard;
use crate::waits::{CancelAfter, Waits};

/// What is waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    Connect,
    FirstToken,
    Event,
    Cancel,
}

const WAITS: [Wait; 4] = [Wait::Connect, Wait::FirstToken, Wait::Event, Wait::Cancel];

/// The slots that wait for something within a time.
#[derive(Debug)]
pub(crate) struct Timers {
    /// By [`Wait`]; none where there is no such limit.
    lanes: [Option<Lane>; WAITS.len()],
    any: bool,
}

/// Slots in the order in which their time is over: the span is one, so that it is that of its beginning.
#[derive(Debug)]
struct Lane {
    span: Nanos,
    order: List,
    /// By slot: when its time is over.
    ends: Vec<Nanos>,
}

impl Lane {
    fn new(span: Nanos, slots: u32) -> Self {
        Self {
            span,
            order: List::new(slots),
            ends: vec![Nanos::MAX; slots as usize],
        }
    }
}

impl Timers {
    pub(crate) fn new(waits: &Waits, slots: u32) -> Self {
        let cancel = waits.cancel.and_then(|cancel| match cancel.after {
            CancelAfter::Span(span) => Some(span),
            CancelAfter::Events(_) => None,
        });
        let spans = [waits.connect, waits.first_token, waits.event, cancel];
        Self {
            lanes: spans.map(|span| span.map(|span| Lane::new(span, slots))),
            any: *waits != Waits::default(),
        }
    }

    /// Bytes for each slot.
    pub(crate) fn slot_bytes(waits: &Waits) -> usize {
        let lanes = Self::new(waits, 0).lanes;
        lanes.iter().flatten().count() * (List::LINK_BYTES + size_of::<Nanos>())
    }

    /// Begins to wait, unless it is waited for already, or without a limit.
    pub(crate) fn arm(&mut self, wait: Wait, slot: u32, now: Nanos) {
        if let Some(lane) = &mut self.lanes[wait as usize]
            && !lane.order.contains(slot)
        {
            lane.ends[slot as usize] = now + lane.span;
            lane.order.push_back(slot);
        }
    }

    pub(crate) fn disarm(&mut self, wait: Wait, slot: u32) {
        if let Some(lane) = &mut self.lanes[wait as usize] {
            lane.order.remove(slot);
        }
    }

    /// The request of a slot is over.
    pub(crate) fn disarm_all(&mut self, slot: u32) {
        if self.any {
            WAITS.into_iter().for_each(|wait| self.disarm(wait, slot));
        }
    }

    /// When the next time is over.
    pub(crate) fn next(&self) -> Nanos {
        if !self.any {
            return Nanos::MAX;
        }
        let ends = self.lanes.iter().flatten().filter_map(|lane| {
            let first = lane.order.first()?;
            Some(lane.ends[first as usize])
        });
        ends.min().unwrap_or(Nanos::MAX)
    }

    /// A slot whose time is over at `now`, which is waited for no longer.
    fn pop(&mut self, now: Nanos) -> Option<(Wait, u32)> {
        for (lane, wait) in self.lanes.iter_mut().zip(WAITS) {
            if let Some(lane) = lane
                && let Some(slot) = lane.order.first()
                && lane.ends[slot as usize] <= now
            {
                lane.order.remove(slot);
                return Some((wait, slot));
            }
        }
        None
    }
}

impl Shard {
    /// Ends requests that have waited too long for a part of themselves, and those that the plan has
    /// cancelled by now.
    pub(crate) fn end_waits(&mut self, now: Nanos, commands: &mut Commands) {
        if self.timers.next() > now {
            return;
        }
        while let Some((wait, slot_index)) = self.timers.pop(now) {
            let (kind, message) = match wait {
                Wait::Cancel => {
                    self.cancel_as_planned(slot_index, now, commands);
                    continue;
                }
                Wait::Connect => (
                    ErrorKind::ConnectTimeout,
                    "no connection within the connect timeout",
                ),
                Wait::FirstToken => (
                    ErrorKind::FirstTokenTimeout,
                    "no token within the first-token timeout",
                ),
                Wait::Event => (
                    ErrorKind::EventTimeout,
                    "the stream stood still for longer than the event timeout",
                ),
            };
            self.slots[slot_index as usize]
                .exchange
                .fail(kind, message, now);
            self.give_up(slot_index, now, commands);
            self.finish(slot_index, now, false);
        }
    }

    /// The bytes of a request are about to be handed to the kernel.
    #[inline]
    pub(crate) fn submits(&mut self, slot_index: u32, at: Nanos) {
        if !self.timers.any {
            return;
        }
        self.timers.disarm(Wait::Connect, slot_index);
        // Sent again, it has no more time than before.
        let slot = &self.slots[slot_index as usize];
        if slot.timeline.submitted.is_some() {
            return;
        }
        self.timers.arm(Wait::FirstToken, slot_index, at);
        if slot.cancelled {
            self.timers.arm(Wait::Cancel, slot_index, at);
        }
    }

    /// A read brought `count` content events of an answer that goes on. Whether it is to be cancelled for that.
    #[inline]
    pub(crate) fn hears(&mut self, slot_index: u32, count: u32, now: Nanos) -> bool {
        if !self.timers.any || count == 0 {
            return false;
        }
        self.timers.disarm(Wait::FirstToken, slot_index);
        self.timers.disarm(Wait::Event, slot_index);
        self.timers.arm(Wait::Event, slot_index, now);
        let slot = &self.slots[slot_index as usize];
        let Some(CancelAfter::Events(events)) = self.plan.waits.cancel.map(|cancel| cancel.after)
        else {
            return false;
        };
        slot.cancelled && slot.exchange.answer().content_events >= events
    }

    /// Whether the plan has a request cancelled.
    pub(crate) fn is_cancelled(&self, index: u64) -> bool {
        let cancel = self.plan.waits.cancel.as_ref();
        self.state.phase == Phase::Measured && cancel.is_some_and(|cancel| cancel.has(index))
    }

    /// Gives a request up because the plan says so.
    pub(crate) fn cancel_as_planned(
        &mut self,
        slot_index: u32,
        now: Nanos,
        commands: &mut Commands,
    ) {
        self.slots[slot_index as usize].given_up = true;
        self.give_up(slot_index, now, commands);
        self.finish(slot_index, now, true);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Nanos = Nanos::from_millis(1);

    #[test]
    fn slots_come_out_when_their_time_is_over() {
        let waits = Waits {
            connect: Some(MS * 10),
            event: Some(MS * 3),
            ..Waits::default()
        };
        let mut timers = Timers::new(&waits, 4);
        assert_eq!(timers.next(), Nanos::MAX);
        timers.arm(Wait::Connect, 2, MS);
        timers.arm(Wait::Connect, 2, MS * 5);
        timers.arm(Wait::FirstToken, 0, MS);
        timers.arm(Wait::Event, 1, MS * 2);
        assert_eq!(timers.next(), MS * 5);
        assert_eq!(timers.pop(MS * 4), None);
        assert_eq!(timers.pop(MS * 11), Some((Wait::Connect, 2)));
        timers.disarm_all(1);
        assert_eq!((timers.pop(MS * 90), timers.next()), (None, Nanos::MAX));
    }

    #[test]
    fn without_limits_there_is_nothing_to_hold() {
        assert_eq!(Timers::slot_bytes(&Waits::default()), 0);
        let mut timers = Timers::new(&Waits::default(), 4);
        timers.arm(Wait::Connect, 2, MS);
        assert_eq!(timers.next(), Nanos::MAX);
    }
}
