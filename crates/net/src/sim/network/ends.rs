use std::mem;

use ridgeline_clock::Nanos;

use super::{Listener, Network, Ready, What};
use crate::sim::link::{End, NONE, Owner, Side};
use crate::{Closed, Token};

/// Handshakes and ends.
impl Network {
    pub(super) fn syn(&mut self, end: End, at: Nanos) {
        let link = &self.links[end.link()];
        let shape = link.shape;
        let Some(listener) = self
            .places
            .get(link.place as usize)
            .and_then(|place| place.listener)
        else {
            // It listened when the attempt was begun.
            return self.plan(at + shape.latency, end, What::Refused);
        };
        let up = at + self.trip(shape);
        let near = self.side(end);
        near.latest = near.latest.max(up);
        self.plan(up, end, What::Up);
        let there = self.side(end.mate());
        there.up = true;
        there.stamp = at;
        there.latest = there.latest.max(at);
        match listener {
            Listener::Driver { driver, listener } => {
                there.owner = Owner::Unclaimed { driver };
                self.tell(
                    driver,
                    Ready::Accepted {
                        end: end.mate(),
                        listener,
                    },
                );
            }
            Listener::Script { script } => {
                there.owner = Owner::Script { script };
                self.call(end.mate(), |peer, connection, actions| {
                    peer.on_accept(connection, actions);
                });
            }
        }
    }

    pub(super) fn up(&mut self, end: End, at: Nanos) {
        let side = self.side(end);
        if side.dead {
            return;
        }
        side.up = true;
        side.stamp = at;
        if let Owner::Driver { driver, .. } = side.owner {
            self.tell(driver, Ready::Opened { end });
            self.list(driver, end);
        }
        self.pump(end);
    }

    pub(in crate::sim) fn is_unclaimed(&self, end: End) -> bool {
        let side = &self.links[end.link()].sides[end.side()];
        self.valid(end) && matches!(side.owner, Owner::Unclaimed { .. })
    }

    /// A driver answers an accepted connection with a name for it, or refuses it.
    pub(in crate::sim) fn claim(&mut self, end: End, token: Option<Token>) {
        let Owner::Unclaimed { driver } = self.side(end).owner else {
            return;
        };
        if let Some(token) = token {
            self.bind(driver, token, end);
            self.side(end).owner = Owner::Driver { driver, token };
        } else {
            self.reset(end);
            self.release(end);
        }
    }

    /// Ends a side: gives queued sends back, then tells `closed`. What has arrived can still be
    /// read before that, unless the owner does not listen any more.
    pub(in crate::sim) fn kill(&mut self, end: End, cause: Closed) {
        let side = self.side(end);
        if side.dead {
            return;
        }
        match side.owner {
            Owner::Gone => {}
            Owner::Script { .. } | Owner::Unclaimed { .. } => self.release(end),
            Owner::Driver { driver, token } => {
                side.dead = true;
                while let Some(sending) = self.side(end).queue.pop_front() {
                    self.tell(
                        driver,
                        Ready::Sent {
                            token,
                            head: sending.head,
                        },
                    );
                }
                self.tell(driver, Ready::Closed { end, token, cause });
            }
        }
    }

    /// `closed` is being told: the token's slot is free.
    pub(in crate::sim) fn bury(&mut self, driver: u32, end: End, token: Token) {
        if let Some(slot) = self.desks[driver as usize]
            .slots
            .get_mut(token.index as usize)
            && slot.generation == token.generation
        {
            slot.end = None;
        }
        self.release(end);
    }

    /// Nobody holds this end any more; when nobody holds the other, the link is free.
    pub(in crate::sim) fn release(&mut self, end: End) {
        if !self.valid(end) {
            return;
        }
        if !self.side(end).inbox.is_empty() && self.side(end.mate()).owner != Owner::Gone {
            // What a kernel does with bytes that will never be read: the sender has to know.
            self.reset(end);
        }
        let link = &mut self.links[end.link()];
        let side = &mut link.sides[end.side()];
        side.owner = Owner::Gone;
        side.dead = true;
        while let Some(segment) = side.inbox.pop_front() {
            self.pool.give(segment.payload);
        }
        if link.sides[end.mate().side()].owner != Owner::Gone {
            return;
        }
        link.generation = link.generation.wrapping_add(1);
        if let Some(ports) = self.ports.get_mut(link.ports as usize) {
            ports.used -= 1;
        }
        link.ports = NONE;
        for side in &mut link.sides {
            for segment in side.flight.drain(..).chain(side.inbox.drain(..)) {
                self.pool.give(segment.payload);
            }
            let fresh = Side {
                queue: mem::take(&mut side.queue),
                flight: mem::take(&mut side.flight),
                inbox: mem::take(&mut side.inbox),
                ..Side::default()
            };
            *side = fresh;
        }
        self.free.push(end.id >> 1);
    }
}
