//! One turn's passes: hand over, enter, reap.

use std::io;

use ridgeline_clock::{Clock, MonotonicClock, Nanos, realtime_bracket};
use ridgeline_net::{Closed, Sink, Turn};

use crate::driver::UringDriver;
use crate::listen::Listener;
use crate::slot::{Op, Phase, Receiving, Sending, Tag};

impl UringDriver {
    #[inline]
    pub(crate) fn pass<S: Sink>(
        &mut self,
        deadline: Nanos,
        sink: &mut S,
        turn: &mut Turn,
    ) -> io::Result<()> {
        self.resume()?;
        let now = self.hand_over(sink)?;
        let before = self.ring.state();
        // An enter that has something to do does that alone: what it takes is work, not waiting.
        let waits = deadline > now
            && before.is_idle(self.ran_nothing)
            && self.dropped.is_empty()
            && self.finished.is_empty()
            && self.hungry.is_empty();
        if !waits {
            self.ring.enter()?;
        } else if self.config.spin == Nanos::ZERO || deadline == Nanos::MAX {
            self.ring.enter_and_wait(deadline, now, self.gather)?;
        } else {
            self.wait_and_spin(deadline, now)?;
        }
        turn.reaped = MonotonicClock.now();
        self.ran_nothing = !waits && before.empty && self.ring.ready() == 0;
        if waits {
            turn.waited += turn.reaped - now;
        }
        if before.overflowed {
            let came = self.ring.ready().saturating_sub(before.unreaped);
            self.counters.completions_overflowed += came as u64;
        }
        self.reap(sink, turn)
    }

    /// Leaves the kernel a little before the deadline, and watches the queue from there.
    fn wait_and_spin(&mut self, deadline: Nanos, now: Nanos) -> io::Result<()> {
        let edge = deadline - self.config.spin;
        if now < edge {
            self.ring.enter_and_wait(edge, now, self.gather)?;
        } else {
            self.ring.enter()?;
        }
        if self.ring.ready() == 0 && MonotonicClock.now() >= edge {
            self.ring.spin(deadline);
            self.ring.enter()?;
        }
        Ok(())
    }

    /// Arms again what ended for want of buffers or files.
    #[inline]
    fn resume(&mut self) -> io::Result<()> {
        if !self.hungry.is_empty() {
            self.feed()?;
        }
        if self.listeners.iter().any(Listener::is_owed) {
            self.resume_accepts()?;
        }
        Ok(())
    }

    /// At most one receive for each buffer: more would only end again at once.
    fn feed(&mut self) -> io::Result<()> {
        for _ in 0..self.hungry.len().min(usize::from(self.buffers.count())) {
            let Some(token) = self.hungry.pop_front() else {
                break;
            };
            let slot = &mut self.slots[token.index as usize];
            let waits = slot.receiving == Receiving::Queued && slot.generation == token.generation;
            if waits && slot.paused {
                slot.receiving = Receiving::Off;
            } else if waits && slot.carries() {
                self.arm_receive(token.index)?;
            }
        }
        Ok(())
    }

    fn resume_accepts(&mut self) -> io::Result<()> {
        for number in 0..self.listeners.len() {
            let listener = &mut self.listeners[number];
            if !listener.is_owed() || (listener.starved && !self.files_freed) {
                continue;
            }
            (listener.armed, listener.starved) = (true, false);
            self.arm_accept(u32::try_from(number).map_err(io::Error::other)?)?;
        }
        self.files_freed = false;
        Ok(())
    }

    /// Reads the clock and hands over the sends that are ready. A full queue is entered and the
    /// clock read again: `submitted` is never older than the enter before.
    #[inline]
    fn hand_over<S: Sink>(&mut self, sink: &mut S) -> io::Result<Nanos> {
        let mut now = MonotonicClock.now();
        for place in 0..self.ready.len() {
            let index = self.ready[place];
            if self.ring.is_full() {
                self.ring.flush()?;
                now = MonotonicClock.now();
            }
            let slot = &mut self.slots[index as usize];
            let Some(message) = &slot.front else { continue };
            if slot.sending != Sending::Ready {
                continue;
            }
            self.counters.sent_bytes += (message.head.len() + message.body.len()) as u64;
            slot.sending = Sending::InFlight;
            slot.submitted = now;
            sink.submitted(slot.token(index), now);
            self.push_send(index)?;
        }
        self.ready.clear();
        Ok(now)
    }

    #[inline]
    fn reap<S: Sink>(&mut self, sink: &mut S, turn: &mut Turn) -> io::Result<()> {
        if let Some(stamps) = &mut self.stamps
            && stamps.is_due(turn.reaped)
        {
            stamps.read(realtime_bracket());
        }
        self.report(sink, turn);
        let ready = self.ring.ready();
        self.counters.completions += ready as u64;
        for _ in 0..ready {
            let Some(completion) = self.ring.pop() else {
                break;
            };
            let tag = Tag::unpack(completion.user_data());
            match tag.op {
                Op::Receive => self.on_receive(tag, &completion, sink, turn)?,
                Op::Send => self.on_send(tag, completion.result(), sink, turn)?,
                _ => self.on_rare(tag, &completion, sink, turn)?,
            }
        }
        self.report(sink, turn);
        Ok(())
    }

    /// Gives back dropped sends and tells of connections that are gone.
    #[inline]
    fn report<S: Sink>(&mut self, sink: &mut S, turn: &mut Turn) {
        for (token, head) in self.dropped.drain(..) {
            turn.completions += 1;
            sink.sent(&mut self.commands, token, head, turn.reaped);
        }
        for index in self.finished.drain(..) {
            let slot = &mut self.slots[index as usize];
            let token = slot.token(index);
            while let Some(message) = slot.take_front() {
                turn.completions += 1;
                sink.sent(&mut self.commands, token, message.head, turn.reaped);
            }
            slot.phase = Phase::Free;
            turn.completions += 1;
            let cause = slot.cause.unwrap_or(Closed::Local);
            sink.closed(&mut self.commands, token, cause, turn.reaped);
        }
    }
}
