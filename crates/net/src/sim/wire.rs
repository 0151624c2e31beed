use std::mem;

use ridgeline_clock::{Arrival, Clock, Nanos};

use super::config::Shape;
use super::link::{End, Finish, Owner, Payload, Segment};
use super::network::{Network, Ready, What};
use super::script::{Action, Actions, Ended, SimPeer};
use crate::{Closed, Token};

/// Sending.
impl Network {
    /// The time of one way.
    pub(super) fn trip(&mut self, shape: Shape) -> Nanos {
        shape.latency + Nanos(self.dice.upto(shape.jitter.0))
    }

    /// Sends one segment from `end` to its mate, leaving at `depart`.
    fn emit(&mut self, end: End, payload: Payload, depart: Nanos) {
        if self.links[end.link()].severed {
            return self.pool.give(payload);
        }
        let shape = self.links[end.link()].shape;
        let mut arrive = depart + self.trip(shape);
        if matches!(payload, Payload::Pooled(..) | Payload::Shared(_)) {
            if self.dice.falls(shape.reset_ppm) {
                self.pool.give(payload);
                self.emit(end, Payload::Reset, depart);
                return self.emit(end.mate(), Payload::Reset, depart);
            }
            if self.dice.falls(shape.stall_ppm) {
                arrive += shape.stall;
            }
        }
        let to = self.side(end.mate());
        to.latest = to.latest.max(arrive);
        let at = to.latest;
        to.flight.push_back(Segment { at, payload });
        self.plan(at, end.mate(), What::Arrive);
    }

    pub(super) fn reset(&mut self, end: End) {
        self.emit(end, Payload::Reset, self.now);
    }

    /// Hands over what can be: sends that are submitted, then a FIN that was asked for.
    pub(super) fn pump(&mut self, end: End) {
        if !self.valid(end) {
            return;
        }
        while let Some(count) = self.room(end) {
            self.take(end, count);
        }
        let side = self.side(end);
        let Owner::Driver { driver, .. } = side.owner else {
            return;
        };
        if side.dead || !side.up {
            return;
        }
        if side.queue.front().is_some_and(|sending| !sending.submitted) {
            return self.list(driver, end);
        }
        if side.queue.is_empty() && matches!(side.finish, Finish::Half | Finish::Full) {
            let full = side.finish == Finish::Full;
            side.finish = Finish::Done;
            self.emit(end, Payload::Fin, self.now);
            if full {
                self.kill(end, Closed::Local);
            }
        }
    }

    /// How many bytes the front send can hand over now; `None` if there is none to hand over.
    fn room(&mut self, end: End) -> Option<usize> {
        let link = &mut self.links[end.link()];
        let side = &mut link.sides[end.side()];
        let sending = side
            .queue
            .front()
            .filter(|_| side.up && !side.dead && !side.blocked)?;
        if !sending.submitted {
            return None;
        }
        let left = sending.head.len() + sending.body.len() - sending.taken;
        let room = u64::from(link.shape.send_buffer_bytes.max(1)).saturating_sub(side.unread);
        if room == 0 && left > 0 {
            side.blocked = true;
            return None;
        }
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        Some(
            left.min(room)
                .min(link.shape.segment_bytes_max.max(1) as usize),
        )
    }

    /// Hands over the next `count` bytes of the front send, or fewer.
    fn take(&mut self, end: End, count: usize) {
        let shape = self.links[end.link()].shape;
        let count = self.cut(shape, count);
        let side = &mut self.links[end.link()].sides[end.side()];
        let (Some(sending), Owner::Driver { driver, token }) = (side.queue.front_mut(), side.owner)
        else {
            return;
        };
        side.unread += count as u64;
        let (head, body) = (&sending.head, &sending.body);
        let start = sending.taken;
        sending.taken += count;
        let payload = if start >= head.len() {
            let start = start - head.len();
            Payload::Shared(body.slice(start..start + count))
        } else {
            let mut buffer = self.pool.take(count, shape.segment_bytes_max as usize);
            let of_head = count.min(head.len() - start);
            buffer.extend_from_slice(&head[start..start + of_head]);
            buffer.extend_from_slice(&body[..count - of_head]);
            Payload::Pooled(buffer, 0)
        };
        if sending.taken >= sending.head.len() + sending.body.len() {
            let head = mem::take(&mut sending.head);
            side.queue.pop_front();
            self.tell(driver, Ready::Sent { token, head });
        }
        self.desks[driver as usize].sent_bytes += count as u64;
        if count > 0 {
            self.emit(end, payload, self.now);
        } else {
            self.pool.give(payload);
        }
    }

    /// `count`, or less if the dice cut the segment.
    fn cut(&mut self, shape: Shape, count: usize) -> usize {
        if count > 1 && self.dice.falls(shape.split_ppm) {
            let first = 1 + self.dice.upto(count as u64 - 2);
            return usize::try_from(first).unwrap_or(count);
        }
        count
    }
}

/// Arriving.
impl Network {
    /// The front of the flight towards `end` arrives.
    pub(super) fn arrive(&mut self, end: End) {
        let side = self.side(end);
        let Some(segment) = side.flight.pop_front() else {
            return;
        };
        let gone = side.owner == Owner::Gone || side.dead;
        let (script, deaf) = (matches!(side.owner, Owner::Script { .. }), side.deaf);
        match segment.payload {
            Payload::Reset if gone => {}
            Payload::Reset => self.arrive_reset(end),
            Payload::Fin if gone => {}
            Payload::Fin if script => {
                side.inbox.push_back(segment);
                self.feed(end);
            }
            Payload::Fin => self.arrive_fin(end),
            Payload::Pooled(..) | Payload::Shared(_) if gone => {
                self.pool.give(segment.payload);
                // Nobody is there: what a kernel answers.
                self.reset(end);
            }
            Payload::Pooled(..) | Payload::Shared(_) if deaf => {
                let count = segment.payload.bytes().len();
                self.pool.give(segment.payload);
                self.read_done(end, count);
            }
            Payload::Pooled(..) | Payload::Shared(_) => self.arrive_bytes(end, segment),
        }
    }

    fn arrive_bytes(&mut self, end: End, segment: Segment) {
        let shape = self.links[end.link()].shape;
        let soon = self.now + shape.merge_within;
        let side = self.side(end);
        let next = side.flight.front().map(|next| next.at);
        side.inbox.push_back(segment);
        if next.is_none_or(|at| at > soon) || !self.dice.falls(shape.merge_ppm) {
            self.announce(end);
        }
    }

    /// Tells the owner of `end` that there is something to read.
    pub(super) fn announce(&mut self, end: End) {
        let side = self.side(end);
        match side.owner {
            Owner::Gone => {}
            Owner::Script { .. } => self.feed(end),
            Owner::Driver { driver, .. } | Owner::Unclaimed { driver } => {
                if !side.readable && !side.paused && !side.inbox.is_empty() {
                    side.readable = true;
                    self.tell(driver, Ready::Read { end });
                }
            }
        }
    }

    fn arrive_fin(&mut self, end: End) {
        self.announce(end);
        let side = self.side(end);
        if let Owner::Driver { driver, .. } | Owner::Unclaimed { driver } = side.owner
            && !side.deaf
        {
            self.tell(driver, Ready::Ended { end });
        }
    }

    fn arrive_reset(&mut self, end: End) {
        self.announce(end);
        if self.valid(end) && matches!(self.side(end).owner, Owner::Script { .. }) {
            self.call(end, |peer, connection, actions| {
                peer.on_end(connection, Ended::Reset, actions);
                actions.list.clear();
            });
        }
        if self.valid(end) {
            self.kill(end, Closed::PeerReset);
        }
    }

    /// The owner of `end` has read `count` bytes: the other side's send buffer has that much room.
    fn read_done(&mut self, end: End, count: usize) {
        let latency = self.links[end.link()].shape.latency;
        let now = self.now;
        let mate = self.side(end.mate());
        mate.unread = mate.unread.saturating_sub(count as u64);
        if mate.blocked && !mate.unblocking {
            mate.unblocking = true;
            self.plan(now + latency, end.mate(), What::Room);
        }
    }
}

/// What a driver lends to its sink.
#[derive(Debug)]
pub(super) enum Lent {
    /// One segment, whole.
    Segment(Payload),
    /// The bytes of several, or a part of one, in the driver's read buffer.
    Joined,
}

/// Reading, by drivers.
impl Network {
    /// The next read of `end`: at most the longest read, of as many segments as that covers.
    pub(super) fn read(
        &mut self,
        end: End,
        buffer: &mut Vec<u8>,
    ) -> Option<(Token, Lent, Arrival)> {
        if !self.valid(end) {
            return None;
        }
        let max = self.config.read_bytes_max.max(1) as usize;
        let side = &mut self.links[end.link()].sides[end.side()];
        let Owner::Driver { token, .. } = side.owner else {
            return None;
        };
        if side.deaf || side.paused || side.inbox.is_empty() {
            side.readable = false;
            return None;
        }
        let mut at = Nanos::ZERO;
        // The front alone, when nothing of what is behind it fits the same read.
        let alone = side.inbox.len() == 1;
        let whole = side.inbox.front().is_some_and(|front| {
            let bytes = front.payload.bytes().len();
            bytes == max || (alone && bytes < max)
        });
        let (lent, count) = if whole && let Some(segment) = side.inbox.pop_front() {
            at = segment.at;
            let count = segment.payload.bytes().len();
            (Lent::Segment(segment.payload), count)
        } else {
            buffer.clear();
            while buffer.len() < max
                && let Some(front) = side.inbox.front_mut()
            {
                at = front.at;
                let bytes = front.payload.bytes();
                let count = bytes.len().min(max - buffer.len());
                buffer.extend_from_slice(&bytes[..count]);
                front.payload.advance(count);
                if front.payload.bytes().is_empty()
                    && let Some(segment) = side.inbox.pop_front()
                {
                    self.pool.give(segment.payload);
                }
            }
            (Lent::Joined, buffer.len())
        };
        let reaped = self.clock.now();
        let arrival = if self.config.rx_timestamps {
            Arrival {
                at,
                not_before: mem::replace(&mut side.stamp, at).min(at),
                reaped,
            }
        } else {
            Arrival::reaped(reaped)
        };
        self.read_done(end, count);
        Some((token, lent, arrival))
    }

    /// The connection whose FIN is to be told, if it still listens.
    pub(super) fn ended(&mut self, end: End) -> Option<Token> {
        if !self.valid(end) || self.side(end).deaf {
            return None;
        }
        let side = self.side(end);
        if side.paused {
            side.fin_waits = true;
            return None;
        }
        match side.owner {
            Owner::Driver { token, .. } => Some(token),
            Owner::Gone | Owner::Unclaimed { .. } | Owner::Script { .. } => None,
        }
    }

    /// The connection that is up, if its owner still wants it.
    pub(super) fn opened(&mut self, end: End) -> Option<Token> {
        if !self.valid(end) {
            return None;
        }
        match self.side(end).owner {
            Owner::Driver { token, .. } => Some(token),
            Owner::Gone | Owner::Unclaimed { .. } | Owner::Script { .. } => None,
        }
    }
}

/// Scripted peers.
impl Network {
    /// Calls the peer that holds `end`, if one does, and does what it orders.
    pub(super) fn call(
        &mut self,
        end: End,
        tell: impl FnOnce(&mut dyn SimPeer, u32, &mut Actions),
    ) {
        let Owner::Script { script } = self.side(end).owner else {
            return;
        };
        let Some(mut peer) = self.scripts[script as usize].take() else {
            return;
        };
        let mut actions = mem::take(&mut self.actions);
        actions.begin(self.now);
        tell(&mut *peer, end.id >> 1, &mut actions);
        self.scripts[script as usize] = Some(peer);
        self.perform(end, &mut actions);
        self.actions = actions;
    }

    /// Lets a scripted peer read what it has not read yet, unless it stopped reading.
    pub(super) fn feed(&mut self, end: End) {
        while self.valid(end) {
            let side = self.side(end);
            if side.held || !matches!(side.owner, Owner::Script { .. }) {
                return;
            }
            let Some(segment) = side.inbox.pop_front() else {
                return;
            };
            if matches!(segment.payload, Payload::Fin) {
                side.ended = true;
                self.call(end, |peer, connection, actions| {
                    peer.on_end(connection, Ended::Fin, actions);
                });
                self.leave(end);
            } else {
                self.call(end, |peer, connection, actions| {
                    peer.on_bytes(connection, segment.payload.bytes(), actions);
                });
                let count = segment.payload.bytes().len();
                self.pool.give(segment.payload);
                if self.valid(end) {
                    self.read_done(end, count);
                }
            }
        }
    }

    /// A scripted peer that has finished both ways is gone.
    fn leave(&mut self, end: End) {
        if self.valid(end) {
            let side = self.side(end);
            if side.ended && side.finish == Finish::Done {
                self.release(end);
            }
        }
    }

    fn perform(&mut self, end: End, actions: &mut Actions) {
        for (at, action) in actions.list.drain(..) {
            if !self.valid(end) || !matches!(self.side(end).owner, Owner::Script { .. }) {
                return;
            }
            let finished = self.side(end).finish == Finish::Done;
            match action {
                Action::Copied { .. } | Action::Shared(_) | Action::Fin if finished => {}
                Action::Copied { start, end: stop } => {
                    self.script_send(end, &actions.bytes[start..stop], at);
                }
                Action::Shared(mut bytes) => {
                    let shape = self.links[end.link()].shape;
                    while !bytes.is_empty() && self.valid(end) {
                        let most = bytes.len().min(shape.segment_bytes_max.max(1) as usize);
                        let count = self.cut(shape, most);
                        let first = bytes.split_to(count);
                        self.emit(end, Payload::Shared(first), at);
                    }
                }
                Action::Timer => self.plan(at, end, What::Timer),
                Action::Fin => {
                    self.side(end).finish = Finish::Done;
                    self.emit(end, Payload::Fin, at);
                    self.leave(end);
                }
                Action::Reset => {
                    self.emit(end, Payload::Reset, at);
                    self.release(end);
                }
                Action::Hold(held) => {
                    self.side(end).held = held;
                    if !held {
                        self.plan(self.now, end, What::Resume);
                    }
                }
            }
        }
    }

    fn script_send(&mut self, end: End, mut bytes: &[u8], at: Nanos) {
        let shape = self.links[end.link()].shape;
        let most = shape.segment_bytes_max.max(1) as usize;
        while !bytes.is_empty() {
            let count = self.cut(shape, bytes.len().min(most));
            let (first, rest) = bytes.split_at(count);
            let mut buffer = self.pool.take(count, most);
            buffer.extend_from_slice(first);
            self.emit(end, Payload::Pooled(buffer, 0), at);
            bytes = rest;
        }
    }
}
