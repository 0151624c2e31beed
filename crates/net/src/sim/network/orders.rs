use std::net::IpAddr;

use bytes::Bytes;

use super::{Network, Ports, Ready, Slot, What, number};
use crate::sim::config::Fate;
use crate::sim::link::{End, Finish, Link, NONE, Owner, Sending, Side};
use crate::{Close, Closed, Command, Peer, Token};

/// Orders of drivers.
impl Network {
    pub(in crate::sim) fn apply(&mut self, driver: u32, command: Command) {
        match command {
            Command::Open {
                token,
                peer,
                source,
            } => self.open(driver, token, &peer, source),
            Command::Send { token, head, body } => self.send(driver, token, head, body),
            Command::Close { token, how } => self.close(driver, token, how),
            Command::Read { token, on } => self.set_reading(driver, token, on),
        }
    }

    fn open(&mut self, driver: u32, token: Token, peer: &Peer, source: Option<IpAddr>) {
        let end = self.new_link();
        let owner = Owner::Driver { driver, token };
        self.bind(driver, token, end);
        self.side(end).owner = owner;
        let known = self.places.iter().position(|place| place.peer == *peer);
        let shape = known
            .and_then(|index| self.places[index].shape)
            .unwrap_or(self.config.shape);
        let fate = known.map_or(Fate::Answered, |index| self.places[index].fate);
        let listener = known.and_then(|index| self.places[index].listener);
        let link = &mut self.links[end.link()];
        link.shape = shape;
        link.severed = false;
        link.place = known.map_or(NONE, number);
        if self.links.len() - self.free.len() > self.config.connections_max as usize {
            return self.kill(end, Closed::NoResources);
        }
        if let Some(index) = known
            && matches!(peer, Peer::Tcp(_))
            && !self.take_port(end, source, number(index))
        {
            return self.kill(end, Closed::NoPorts);
        }
        let now = self.now;
        let there = now + self.trip(shape);
        match (fate, listener) {
            (Fate::Silent, _) => {
                self.plan(now + self.config.connect_timeout, end, What::TimedOut);
            }
            (Fate::Unreachable, _) => self.plan(there, end, What::Unreachable),
            (Fate::Answered, Some(_)) => self.plan(there, end, What::Syn),
            (Fate::Answered, None) | (Fate::Refused, _) => {
                self.plan(there + shape.latency, end, What::Refused);
            }
        }
    }

    fn new_link(&mut self) -> End {
        let index = self.free.pop().unwrap_or_else(|| {
            self.links.push(Link {
                generation: 0,
                shape: self.config.shape,
                severed: false,
                place: NONE,
                ports: NONE,
                sides: [Side::new(), Side::new()],
            });
            number(self.links.len() - 1)
        });
        End::new(index, 0, self.links[index as usize].generation)
    }

    /// Makes `token` name `end`.
    ///
    /// # Panics
    /// When the owner uses a slot out of range, twice, or with an old generation: the rules of
    /// [`Token`] are the caller's to keep, and breaking them would mix two connections.
    pub(super) fn bind(&mut self, driver: u32, token: Token, end: End) {
        let desk = &mut self.desks[driver as usize];
        let max = desk.connections_max;
        assert!(
            token.index < max,
            "slot {} of a driver with {max} connections",
            token.index
        );
        let index = token.index as usize;
        while desk.slots.len() <= index {
            desk.slots.push(Slot {
                generation: 0,
                end: None,
            });
        }
        let slot = &mut desk.slots[index];
        assert!(slot.end.is_none(), "slot {index} is in use");
        assert!(
            slot.generation <= token.generation,
            "slot {index} goes back a generation"
        );
        *slot = Slot {
            generation: token.generation,
            end: Some(end),
        };
    }

    fn take_port(&mut self, end: End, source: Option<IpAddr>, place: u32) -> bool {
        let known = self
            .ports
            .iter()
            .position(|p| p.source == source && p.place == place);
        let index = known.unwrap_or_else(|| {
            self.ports.push(Ports {
                source,
                place,
                used: 0,
            });
            self.ports.len() - 1
        });
        let ports = &mut self.ports[index];
        if ports.used >= self.config.ports_max {
            return false;
        }
        ports.used += 1;
        self.links[end.link()].ports = number(index);
        true
    }

    /// The end a token names, if it is in use.
    fn end_of(&self, driver: u32, token: Token) -> Option<End> {
        let slot = self.desks[driver as usize]
            .slots
            .get(token.index as usize)?;
        slot.end.filter(|_| slot.generation == token.generation)
    }

    fn send(&mut self, driver: u32, token: Token, head: Vec<u8>, body: Bytes) {
        let Some(end) = self.end_of(driver, token) else {
            return self.tell(driver, Ready::Sent { token, head });
        };
        let side = self.side(end);
        if side.dead {
            // Given back before `closed`, which is in the queue already.
            let ready = &mut self.desks[driver as usize].ready;
            let is_closed = |r: &Ready| matches!(r, Ready::Closed { token: t, .. } if *t == token);
            let place = ready.iter().position(is_closed).unwrap_or(ready.len());
            ready.insert(place, Ready::Sent { token, head });
        } else if side.finish != Finish::No {
            // Nothing can follow a FIN; the order of the heads is kept.
            if side.queue.is_empty() {
                self.tell(driver, Ready::Sent { token, head });
            } else {
                side.queue.push_back(Sending {
                    taken: head.len(),
                    head,
                    body: Bytes::new(),
                    submitted: true,
                });
            }
        } else {
            side.queue.push_back(Sending {
                head,
                body,
                taken: 0,
                submitted: false,
            });
            self.list(driver, end);
        }
    }

    pub(in crate::sim) fn list(&mut self, driver: u32, end: End) {
        let side = self.side(end);
        if !side.listed {
            side.listed = true;
            self.desks[driver as usize].listed.push_back(end);
        }
    }

    fn close(&mut self, driver: u32, token: Token, how: Close) {
        let Some(end) = self.end_of(driver, token) else {
            return;
        };
        let side = self.side(end);
        if side.dead {
            side.deaf |= how != Close::Half;
            return;
        }
        match how {
            Close::Reset => self.abort(end),
            Close::Half => {
                if side.finish == Finish::No {
                    side.finish = Finish::Half;
                    self.pump(end);
                }
            }
            Close::Fin => {
                side.deaf = true;
                match side.finish {
                    Finish::Done => self.kill(end, Closed::Local),
                    _ if !side.up && side.queue.is_empty() => self.abort(end),
                    _ => {
                        side.finish = Finish::Full;
                        self.pump(end);
                    }
                }
            }
        }
    }

    fn set_reading(&mut self, driver: u32, token: Token, on: bool) {
        let Some(end) = self.end_of(driver, token) else {
            return;
        };
        let side = self.side(end);
        side.paused = !on;
        if on {
            let fin = std::mem::take(&mut side.fin_waits);
            self.announce(end);
            if fin {
                self.tell(driver, Ready::Ended { end });
            }
        }
    }

    /// Resets the connection of a driver, by its own wish.
    fn abort(&mut self, end: End) {
        self.side(end).deaf = true;
        self.reset(end);
        self.kill(end, Closed::Local);
    }

    /// The next send to be handed over by a driver, marked as submitted.
    pub(in crate::sim) fn submission(&mut self, driver: u32) -> Option<(End, Token)> {
        while let Some(&end) = self.desks[driver as usize].listed.front() {
            if self.valid(end) {
                let side = self.side(end);
                let can = side.up && !side.dead && !side.blocked;
                if let Some(sending) = side.queue.front_mut().filter(|s| can && !s.submitted)
                    && let Owner::Driver { token, .. } = side.owner
                {
                    sending.submitted = true;
                    return Some((end, token));
                }
                side.listed = false;
            }
            self.desks[driver as usize].listed.pop_front();
        }
        None
    }
}
