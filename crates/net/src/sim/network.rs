use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::mem;
use std::net::IpAddr;

use bytes::Bytes;
use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;
use ridgeline_clock::{Clock, Nanos, SimClock};

use super::config::{Dice, Fate, Shape, SimConfig};
use super::link::{End, Finish, Link, NONE, Owner, Pool, Sending, Side};
use super::script::{Actions, SimPeer};
use crate::{Close, Closed, Command, Peer, Token};

/// Something that will happen. Ordered by time, then by when it was planned.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Event {
    at: Nanos,
    serial: u64,
    end: End,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum What {
    /// The handshake reaches the listener.
    Syn,
    /// The handshake is done, for the side that connects.
    Up,
    Refused,
    TimedOut,
    Unreachable,
    /// The front of the flight arrives.
    Arrive,
    /// There is room in the send buffer again.
    Room,
    Timer,
    /// A scripted peer reads again.
    Resume,
}

/// A completion of a driver, in the order in which it is told.
#[derive(Debug)]
pub(super) enum Ready {
    Accepted {
        end: End,
        listener: u32,
    },
    Opened {
        end: End,
    },
    Read {
        end: End,
    },
    Ended {
        end: End,
    },
    Sent {
        token: Token,
        head: Vec<u8>,
    },
    Closed {
        end: End,
        token: Token,
        cause: Closed,
    },
}

/// An address that somebody listens on, or that something was said about.
#[derive(Debug)]
struct Place {
    peer: Peer,
    shape: Option<Shape>,
    fate: Fate,
    listener: Option<Listener>,
}

#[derive(Clone, Copy, Debug)]
enum Listener {
    Driver { driver: u32, listener: u32 },
    Script { script: u32 },
}

/// Connections from one source to one place.
#[derive(Debug)]
struct Ports {
    source: Option<IpAddr>,
    place: u32,
    used: u32,
}

/// A slot of a driver: its last generation, and the end it names, if it is in use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    generation: u32,
    end: Option<End>,
}

/// The network's half of a driver.
#[derive(Debug)]
pub(super) struct Desk {
    connections_max: u32,
    listeners: u32,
    slots: Vec<Slot>,
    pub(super) ready: VecDeque<Ready>,
    /// Ends that may have something to hand over.
    listed: VecDeque<End>,
    pub(super) sent_bytes: u64,
}

/// The network's state. Nothing in here calls a sink.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) clock: SimClock,
    pub(super) config: SimConfig,
    /// The time of what is happening: at most the clock's, which programs told late run behind.
    pub(super) now: Nanos,
    pub(super) dice: Dice,
    events: BinaryHeap<Reverse<Event>>,
    serial: u64,
    pub(super) links: Vec<Link>,
    free: Vec<u32>,
    places: Vec<Place>,
    ports: Vec<Ports>,
    pub(super) desks: Vec<Desk>,
    pub(super) scripts: Vec<Option<Box<dyn SimPeer>>>,
    pub(super) actions: Actions,
    pub(super) pool: Pool,
    port_next: u16,
    pub(super) happened: u64,
}

impl Network {
    pub(super) fn new(config: SimConfig) -> Self {
        Self {
            clock: SimClock::default(),
            config,
            now: Nanos::ZERO,
            dice: Dice(Pcg64Mcg::seed_from_u64(config.seed)),
            events: BinaryHeap::with_capacity(1_024),
            serial: 0,
            links: Vec::new(),
            free: Vec::new(),
            places: Vec::new(),
            ports: Vec::new(),
            desks: Vec::new(),
            scripts: Vec::new(),
            actions: Actions::default(),
            pool: Pool::default(),
            port_next: 49_152,
            happened: 0,
        }
    }

    pub(super) fn add_driver(&mut self, connections_max: u32) -> u32 {
        self.desks.push(Desk {
            connections_max,
            listeners: 0,
            slots: Vec::new(),
            ready: VecDeque::with_capacity(64),
            listed: VecDeque::with_capacity(64),
            sent_bytes: 0,
        });
        number(self.desks.len() - 1)
    }

    pub(super) fn remove_driver(&mut self, id: u32) {
        for place in &mut self.places {
            if matches!(place.listener, Some(Listener::Driver { driver, .. }) if driver == id) {
                place.listener = None;
            }
        }
        for index in 0..self.links.len() {
            for side in 0..2 {
                let end = End::new(number(index), side, self.links[index].generation);
                match self.side(end).owner {
                    Owner::Driver { driver, .. } | Owner::Unclaimed { driver } if driver == id => {
                        if !self.side(end).dead {
                            self.reset(end);
                        }
                        self.release(end);
                    }
                    _ => {}
                }
            }
        }
        let desk = &mut self.desks[id as usize];
        desk.ready.clear();
        desk.listed.clear();
        desk.slots.clear();
    }

    pub(super) fn add_script(&mut self, script: Box<dyn SimPeer>) -> u32 {
        self.scripts.push(Some(script));
        number(self.scripts.len() - 1)
    }

    pub(super) fn listen_driver(&mut self, driver: u32, peer: &Peer) -> Option<Peer> {
        let listener = self.desks[driver as usize].listeners;
        let bound = self.listen(peer, Listener::Driver { driver, listener })?;
        self.desks[driver as usize].listeners += 1;
        Some(bound)
    }

    pub(super) fn listen_script(&mut self, script: u32, peer: &Peer) -> Option<Peer> {
        self.listen(peer, Listener::Script { script })
    }

    fn listen(&mut self, peer: &Peer, listener: Listener) -> Option<Peer> {
        let mut bound = peer.clone();
        if let Peer::Tcp(address) = &mut bound
            && address.port() == 0
        {
            address.set_port(self.port_next);
            self.port_next = self.port_next.checked_add(1)?;
        }
        let place = self.place(&bound);
        if place.listener.is_some() {
            return None;
        }
        place.listener = Some(listener);
        Some(bound)
    }

    pub(super) fn set_shape(&mut self, peer: &Peer, shape: Shape) {
        self.place(peer).shape = Some(shape);
    }

    pub(super) fn set_fate(&mut self, peer: &Peer, fate: Fate) {
        self.place(peer).fate = fate;
    }

    fn place(&mut self, peer: &Peer) -> &mut Place {
        let known = self.places.iter().position(|place| place.peer == *peer);
        let index = known.unwrap_or_else(|| {
            let (peer, fate) = (peer.clone(), Fate::Answered);
            self.places.push(Place {
                peer,
                shape: None,
                fate,
                listener: None,
            });
            self.places.len() - 1
        });
        &mut self.places[index]
    }
}

/// Time.
impl Network {
    /// Moves the clock to the next event or to `limit`, whichever is first. Returns `false` when
    /// nothing would ever happen.
    pub(super) fn wait(&mut self, limit: Nanos) -> bool {
        let next = self
            .events
            .peek()
            .map_or(Nanos::MAX, |Reverse(event)| event.at)
            .min(limit);
        if next == Nanos::MAX {
            return false;
        }
        self.clock.advance_to(next);
        true
    }

    /// The delay until a program that waited is running again.
    pub(super) fn wake(&mut self) {
        let delay = self.config.wake_delay + Nanos(self.dice.upto(self.config.wake_jitter.0));
        if delay > Nanos::ZERO {
            self.clock.advance_to(self.clock.now() + delay);
            self.run_due();
        }
    }

    /// Lets everything happen that is due.
    pub(super) fn run_due(&mut self) {
        let now = self.clock.now();
        while self
            .events
            .peek()
            .is_some_and(|Reverse(event)| event.at <= now)
        {
            let Some(Reverse(event)) = self.events.pop() else {
                break;
            };
            if self.links[event.end.link()].generation == event.end.generation {
                self.happened += 1;
                self.now = event.at;
                self.happen(event);
            }
        }
        self.now = now;
    }

    pub(super) fn plan(&mut self, at: Nanos, end: End, what: What) {
        self.serial += 1;
        self.events.push(Reverse(Event {
            at,
            serial: self.serial,
            end,
            what,
        }));
    }

    fn happen(&mut self, event: Event) {
        let end = event.end;
        match event.what {
            What::Syn => self.syn(end, event.at),
            What::Up => self.up(end, event.at),
            What::Refused => self.kill(end, Closed::Refused),
            What::TimedOut => self.kill(end, Closed::TimedOut),
            What::Unreachable => self.kill(end, Closed::Unreachable),
            What::Arrive => self.arrive(end),
            What::Room => {
                let side = self.side(end);
                side.blocked = false;
                side.unblocking = false;
                self.pump(end);
            }
            What::Timer => self.call(end, |peer, connection, actions| {
                peer.on_timer(connection, actions);
            }),
            What::Resume => self.feed(end),
        }
    }

    pub(super) fn side(&mut self, end: End) -> &mut Side {
        &mut self.links[end.link()].sides[end.side()]
    }

    pub(super) fn valid(&self, end: End) -> bool {
        self.links[end.link()].generation == end.generation
    }

    pub(super) fn tell(&mut self, driver: u32, ready: Ready) {
        self.desks[driver as usize].ready.push_back(ready);
    }
}

/// Orders of drivers.
impl Network {
    pub(super) fn apply(&mut self, driver: u32, command: Command) {
        match command {
            Command::Open {
                token,
                peer,
                source,
            } => self.open(driver, token, &peer, source),
            Command::Send { token, head, body } => self.send(driver, token, head, body),
            Command::Close { token, how } => self.close(driver, token, how),
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
    fn bind(&mut self, driver: u32, token: Token, end: End) {
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

    pub(super) fn list(&mut self, driver: u32, end: End) {
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
                    Finish::Done => self.depart(end),
                    _ if !side.up && side.queue.is_empty() => self.abort(end),
                    _ => {
                        side.finish = Finish::Full;
                        self.pump(end);
                    }
                }
            }
        }
    }

    /// Resets the connection of a driver, by its own wish.
    fn abort(&mut self, end: End) {
        self.side(end).deaf = true;
        self.reset(end);
        self.kill(end, Closed::Local);
    }

    /// Ends the connection of a driver, FIN sent.
    pub(super) fn depart(&mut self, end: End) {
        self.kill(end, Closed::Local);
    }

    /// The next send to be handed over by a driver, marked as submitted.
    pub(super) fn submission(&mut self, driver: u32) -> Option<(End, Token)> {
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

/// Handshakes and ends.
impl Network {
    fn syn(&mut self, end: End, at: Nanos) {
        let link = &self.links[end.link()];
        let shape = link.shape;
        let Some(listener) = self
            .places
            .get(link.place as usize)
            .and_then(|place| place.listener)
        else {
            return;
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

    fn up(&mut self, end: End, at: Nanos) {
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

    pub(super) fn is_unclaimed(&self, end: End) -> bool {
        let side = &self.links[end.link()].sides[end.side()];
        self.valid(end) && matches!(side.owner, Owner::Unclaimed { .. })
    }

    /// A driver answers an accepted connection with a name for it, or refuses it.
    pub(super) fn claim(&mut self, end: End, token: Option<Token>) {
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
    pub(super) fn kill(&mut self, end: End, cause: Closed) {
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
    pub(super) fn bury(&mut self, driver: u32, end: End, token: Token) {
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
    pub(super) fn release(&mut self, end: End) {
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

pub(super) fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(NONE)
}
