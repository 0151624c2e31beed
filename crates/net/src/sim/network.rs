mod agenda;
mod ends;
mod orders;

use std::collections::VecDeque;
use std::net::IpAddr;

use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;
use ridgeline_clock::{Clock, Nanos, SimClock};

use super::config::{Dice, Fate, Shape, SimConfig};
use super::link::{End, Link, NONE, Owner, Pool, Side};
use super::script::{Actions, SimPeer};
use crate::{Closed, Peer, Token};
use agenda::{Agenda, Event};

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
    agenda: Agenda,
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
            agenda: Agenda::with_capacity(1_024),
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

    pub(super) fn remove_listeners(&mut self, id: u32) {
        for place in &mut self.places {
            if matches!(place.listener, Some(Listener::Driver { driver, .. }) if driver == id) {
                place.listener = None;
            }
        }
    }

    pub(super) fn remove_driver(&mut self, id: u32) {
        self.remove_listeners(id);
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

    pub(super) fn sever(&mut self, peer: &Peer) {
        let place = self.places.iter().position(|place| place.peer == *peer);
        let Some(place) = place.map(number) else {
            return;
        };
        for link in self.links.iter_mut().filter(|link| link.place == place) {
            link.severed = true;
        }
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
        let next = self.agenda.next_at().unwrap_or(Nanos::MAX).min(limit);
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
        while let Some(event) = self.agenda.pop_due(now) {
            if self.links[event.end.link()].generation == event.end.generation {
                self.happened += 1;
                self.now = event.at;
                self.happen(event);
            }
        }
        self.now = now;
    }

    pub(super) fn plan(&mut self, at: Nanos, end: End, what: What) {
        self.agenda.push(at, end, what);
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

pub(super) fn number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(NONE)
}
