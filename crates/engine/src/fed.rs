use ridgeline_clock::Nanos;
use ridgeline_net::Commands;

use crate::control::Wish;
use crate::feed::Notice;
use crate::shard::Shard;

/// What a shard that is fed does besides.
impl Shard {
    /// Whether there is room for all that one more request will have to say. Only a feed is short of it.
    #[inline]
    pub(crate) fn can_answer_more(&mut self) -> bool {
        let (feed, results) = (self.state.source.feed(), &self.records);
        match (feed, results) {
            (Some(feed), Some(results)) => feed.has_room(results, self.in_flight),
            _ => true,
        }
    }

    /// The first token of a slot's answer may have come.
    pub(crate) fn announce(&mut self, slot_index: u32) {
        let slot = &mut self.slots[slot_index as usize];
        let answer = slot.exchange.answer();
        let (Some(first_token), Some(submitted), true) =
            (answer.first_token, slot.timeline.submitted, answer.streamed)
        else {
            return;
        };
        slot.announces = false;
        let notice = Notice {
            id: slot.index,
            scheduled: slot.timeline.scheduled,
            submitted,
            first_token,
        };
        if let Some(feed) = self.state.source.feed() {
            feed.announce(notice);
        }
    }

    /// The end of a step that is due again at `deadline`: what came out is told. Answers with the time
    /// until which the shard may sleep.
    #[inline]
    pub(crate) fn settle(&mut self, now: Nanos, deadline: Nanos) -> Nanos {
        let (Some(feed), Some(results)) = (self.state.source.feed(), &self.records) else {
            return deadline;
        };
        if !feed.settle(results, self.in_flight) {
            return now;
        }
        let drain_until = self.control.drain_until();
        if drain_until > now {
            deadline.min(drain_until)
        } else {
            deadline
        }
    }

    /// Looks at what the user wants. What was taken is done as long as there is time, and then it is
    /// cancelled; nothing is dropped.
    pub(crate) fn heed_fed(&mut self, wish: Wish, now: Nanos, commands: &mut Commands) {
        if wish.cancel || wish.stop && now >= self.control.drain_until() {
            self.cancel_fed(now, commands);
        }
    }

    /// Cancels what is in flight and what waits, as far as that can be told.
    fn cancel_fed(&mut self, now: Nanos, commands: &mut Commands) {
        self.cancel_taken(now, commands);
        while self.can_answer_more()
            && let Some(slot_index) = self.free_slots.first()
            && let Some(due) = self.state.source.peek(now)
        {
            self.state.source.advance();
            self.free_slots.remove(slot_index);
            self.take(slot_index, due.index, due.scheduled, now);
            self.cancel_taken(now, commands);
        }
    }

    fn cancel_taken(&mut self, now: Nanos, commands: &mut Commands) {
        while let Some(slot_index) = self.deadlines.first() {
            self.mark_started(slot_index, now);
            self.give_up(slot_index, now, commands);
            self.finish(slot_index, now, true);
        }
    }
}
