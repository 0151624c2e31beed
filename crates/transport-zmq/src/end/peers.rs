//! The peers of an end: their places, and what befalls them.

use std::mem;
use std::sync::Arc;

use ridgeline_clock::Nanos;
use ridgeline_net::{Close, Commands, Token};
use ridgeline_transport::{Cause, Flow, Left, Limits, PeerId, Receiver, Turn};

use super::connection::{Connection, Ears, Origin, peer, way};
use super::link::{Link, State};
use crate::Keys;
use crate::outbox::Spare;
use crate::zmtp::frame::HEADER_BYTES_MAX;
use crate::zmtp::{Fault, Rules, Security, Session, command, frame};
use crate::{Address, Kind};

/// Room for answers of the protocol's own beside a full queue.
const ANSWER_BYTES: u64 = 16 << 10;

/// Everything of an end but its driver.
#[derive(Debug)]
pub(super) struct Peers {
    pub(super) rules: Rules,
    /// For `tcp://` addresses.
    pub(super) keys: Option<Arc<Keys>>,
    pub(super) limits: Limits,
    pub(super) places: Vec<Place>,
    pub(super) free: Vec<u32>,
    /// The places of peers that messages can be sent to, in no order.
    pub(super) up: Vec<u32>,
    /// Where in `up` the next message for anybody goes.
    pub(super) next_to: usize,
    /// Places with something that was not handed over.
    pub(super) unflushed: Vec<u32>,
    /// Places whose session keeps messages back.
    pub(super) behind: Vec<u32>,
    /// The driver was told to read nothing.
    pub(super) is_paused: bool,
    pub(super) links: Vec<Link>,
    /// Addresses that are listened on, in the order of the driver's numbers.
    pub(super) bound: Vec<Address>,
    pub(super) spare: Spare,
    /// When a link is to be tried.
    pub(super) links_due: Nanos,
    /// When a connection is to be looked at.
    pub(super) peers_due: Nanos,
    /// Peers that came to an address of ours, for their names.
    pub(super) visitors: u64,
}

#[derive(Debug, Default)]
pub(super) struct Place {
    pub(super) generation: u32,
    pub(super) connection: Option<Box<Connection>>,
    pub(super) is_unflushed: bool,
}

impl Peers {
    pub(super) fn new(kind: Kind, limits: Limits) -> Self {
        Self {
            rules: Rules {
                kind,
                identity: Vec::new(),
                message_bytes_max: limits.message_bytes_max,
                security: Security::Null,
            },
            keys: None,
            limits,
            places: Vec::new(),
            free: Vec::new(),
            up: Vec::new(),
            next_to: 0,
            unflushed: Vec::new(),
            behind: Vec::new(),
            is_paused: false,
            links: Vec::new(),
            bound: Vec::new(),
            spare: Spare::default(),
            links_due: Nanos::MAX,
            peers_due: Nanos::MAX,
            visitors: 0,
        }
    }

    #[inline]
    pub(super) fn get(&self, token: Token) -> Option<&Connection> {
        let place = self.places.get(token.index as usize)?;
        let connection = place.connection.as_deref()?;
        (place.generation == token.generation).then_some(connection)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, token: Token) -> Option<&mut Connection> {
        let place = self.places.get_mut(token.index as usize)?;
        let connection = place.connection.as_deref_mut()?;
        (place.generation == token.generation).then_some(connection)
    }

    pub(super) fn token(&self, index: u32) -> Token {
        Token {
            index,
            generation: self.places[index as usize].generation,
        }
    }

    /// A place for a new connection, if there is one. The greeting is sent as soon as it is up.
    pub(super) fn begin(
        &mut self,
        origin: Origin,
        now: Nanos,
        commands: &mut Commands,
    ) -> Option<Token> {
        let who = match origin {
            Origin::Bound(number) => {
                self.visitors += 1;
                format!("peer {} of {}", self.visitors, self.bound.get(number)?)
            }
            Origin::Link(number) => self.links[number].address.to_string(),
        };
        let index = self.vacancy()?;
        let session = Session::new(Rules {
            security: self.security(origin),
            ..self.rules.clone()
        });
        let greeting = session.greeting();
        let mut connection = Box::new(Connection::new(session, origin, who, now));
        let token = self.token(index);
        if let Origin::Link(number) = origin {
            commands.open(token, self.links[number].peer.clone(), None);
        }
        let mut way = way(commands, token, &mut self.spare);
        connection.outbox.put_bytes(&greeting, &mut way);
        connection.outbox.flush(&mut way);
        if self.is_paused {
            connection.is_paused = true;
        }
        self.places[index as usize].connection = Some(connection);
        self.peers_due = self.peers_due.min(now + self.limits.handshake_max);
        Some(token)
    }

    /// Sockets in the file system are guarded by it.
    fn security(&self, origin: Origin) -> Security {
        let (address, listened) = match origin {
            Origin::Bound(number) => (self.bound.get(number), true),
            Origin::Link(number) => (self.links.get(number).map(|link| &link.address), false),
        };
        match (&self.keys, address) {
            (Some(keys), Some(Address::Tcp { .. })) => Security::Curve {
                keys: Arc::clone(keys),
                listened,
            },
            _ => Security::Null,
        }
    }

    fn vacancy(&mut self) -> Option<u32> {
        if let Some(index) = self.free.pop() {
            return Some(index);
        }
        let index = u32::try_from(self.places.len()).ok()?;
        (index < self.limits.peers_max).then(|| {
            self.places.push(Place::default());
            index
        })
    }

    /// Tries the links that are due.
    pub(super) fn connect_due(&mut self, now: Nanos, commands: &mut Commands) {
        if now < self.links_due {
            return;
        }
        self.links_due = Nanos::MAX;
        for number in 0..self.links.len() {
            let State::Idle(at) = self.links[number].state else {
                continue;
            };
            if at > now {
                self.links_due = self.links_due.min(at);
            } else if self.begin(Origin::Link(number), now, commands).is_some() {
                self.links[number].state = State::Busy;
            } else {
                // As many peers as may be: when one leaves there is a place.
                let at = now + self.limits.reconnect_max;
                self.links[number].state = State::Idle(at);
                self.links_due = self.links_due.min(at);
            }
        }
    }

    /// Feeds a connection, or lets it read on what it kept.
    #[inline]
    pub(super) fn feed<R: Receiver>(
        &mut self,
        token: Token,
        bytes: Option<(&[u8], Nanos)>,
        commands: &mut Commands,
        receiver: &mut R,
        turn: &mut Turn,
    ) {
        let flow = receiver.flow();
        let place = &mut self.places[token.index as usize];
        let Some(connection) = place.connection.as_deref_mut() else {
            return;
        };
        let was_up = connection.is_up;
        let Connection {
            session,
            outbox,
            who,
            is_up,
            answers_pings,
            ..
        } = connection;
        let mut ears = Ears {
            peer: peer(token),
            receiver,
            outbox,
            way: way(commands, token, &mut self.spare),
            who,
            is_up,
            answers_pings,
            turn,
            answers_until_bytes: self.limits.queue_bytes(HEADER_BYTES_MAX) as u64 + ANSWER_BYTES,
        };
        let result = match bytes {
            Some((bytes, at)) => {
                connection.heard = at;
                session.receive(bytes, flow, &mut ears)
            }
            None => session.resume(&mut ears),
        };
        match result {
            Ok(Flow::More) => connection.is_behind = false,
            Ok(Flow::Hold) => {
                if !mem::replace(&mut connection.is_behind, true) {
                    self.behind.push(token.index);
                }
            }
            Err(fault) => {
                connection.is_behind = false;
                self.fail(token, &fault, commands);
            }
        }
        if !was_up {
            self.note_up(token);
        }
    }

    /// A connection whose handshake is done takes messages.
    #[cold]
    fn note_up(&mut self, token: Token) {
        let limits = self.limits;
        let Some(connection) = self.get_mut(token).filter(|connection| connection.is_up) else {
            return;
        };
        let (origin, heard) = (connection.origin, connection.heard);
        let takes = connection.takes();
        connection.asked = heard;
        if takes {
            self.up.push(token.index);
        }
        if let Origin::Link(number) = origin {
            self.links[number].succeeded();
        }
        if let Some(heartbeat) = limits.heartbeat {
            self.peers_due = self.peers_due.min(heard + heartbeat);
        }
    }

    /// Lets go of a peer that broke a rule.
    #[cold]
    fn fail(&mut self, token: Token, fault: &Fault, commands: &mut Commands) {
        let mut how = Close::Reset;
        if let Some(connection) = self.places[token.index as usize].connection.as_deref_mut()
            && fault.is_said()
            && connection.ending.is_none()
        {
            let mut refusal = Vec::new();
            let reason = command::error_body(&fault.to_string());
            frame::put(&mut refusal, frame::COMMAND, &reason);
            let mut way = way(commands, token, &mut self.spare);
            connection.outbox.put_bytes(&refusal, &mut way);
            connection.outbox.flush_all(&mut way);
            how = Close::Fin;
        }
        self.end(token, fault.cause(), how, commands);
    }

    /// Closes a connection, for this cause.
    pub(super) fn end(&mut self, token: Token, cause: Cause, how: Close, commands: &mut Commands) {
        let Some(connection) = self.get_mut(token) else {
            return;
        };
        connection.ending.get_or_insert(cause);
        if !connection.is_closed {
            commands.close(token, how);
        }
        self.forget_up(token.index);
    }

    pub(super) fn forget_up(&mut self, index: u32) {
        if let Some(at) = self.up.iter().position(|up| *up == index) {
            self.up.swap_remove(at);
        }
    }

    /// Delivers what was kept back, until the receiver holds again.
    pub(super) fn catch_up<R: Receiver>(
        &mut self,
        commands: &mut Commands,
        receiver: &mut R,
        turn: &mut Turn,
    ) {
        let mut behind = mem::take(&mut self.behind);
        let mut left = behind.drain(..);
        while receiver.flow() == Flow::More
            && let Some(index) = left.next()
        {
            let token = self.token(index);
            if let Some(connection) = self.get_mut(token) {
                connection.is_behind = false;
                self.feed(token, None, commands, receiver, turn);
                self.bury(token, turn.now, receiver, turn);
            }
        }
        self.behind.extend(left);
    }

    /// Tells that a connection is gone, if it is and all of it was delivered, and frees its place.
    pub(super) fn bury<R: Receiver>(
        &mut self,
        token: Token,
        now: Nanos,
        receiver: &mut R,
        turn: &mut Turn,
    ) {
        let over = self.get(token);
        if !over.is_some_and(|connection| connection.is_closed && !connection.is_behind) {
            return;
        }
        let place = &mut self.places[token.index as usize];
        let Some(connection) = place.connection.take() else {
            return;
        };
        place.generation = place.generation.wrapping_add(1);
        self.free.push(token.index);
        self.forget_up(token.index);
        let unsent = connection.unsent();
        let cause = connection.ending.unwrap_or(Cause::Closed);
        turn.events += 1;
        let mut is_news = true;
        if let Origin::Link(number) = connection.origin {
            let link = &mut self.links[number];
            is_news = !mem::replace(&mut link.is_told, !connection.is_up);
            if connection.parting.is_some() {
                link.state = State::Over;
            } else {
                self.links_due = self.links_due.min(link.wait(&self.limits, now));
            }
        }
        if connection.is_up {
            receiver.left(peer(token), &Left { cause, unsent });
        } else if is_news {
            receiver.unmet(&connection.who, &cause);
        }
    }

    /// Tells the driver to read on, or to read nothing.
    pub(super) fn set_paused(&mut self, paused: bool, now: Nanos, commands: &mut Commands) {
        if mem::replace(&mut self.is_paused, paused) == paused {
            return;
        }
        for (index, place) in (0..).zip(&mut self.places) {
            let Some(connection) = place.connection.as_deref_mut() else {
                continue;
            };
            if mem::replace(&mut connection.is_paused, paused) == paused {
                continue;
            }
            // Nothing could be heard meanwhile.
            connection.heard = connection.heard.max(now);
            connection.began = connection.began.max(now);
            let token = Token {
                index,
                generation: place.generation,
            };
            commands.read(token, !paused);
        }
    }

    /// Hands over what waits.
    pub(super) fn flush(&mut self, commands: &mut Commands) {
        while let Some(index) = self.unflushed.pop() {
            let token = self.token(index);
            let place = &mut self.places[index as usize];
            place.is_unflushed = false;
            if let Some(connection) = &mut place.connection {
                connection
                    .outbox
                    .flush(&mut way(commands, token, &mut self.spare));
            }
        }
    }

    /// Lets a peer go in order.
    pub(super) fn part(&mut self, peer: PeerId, now: Nanos, commands: &mut Commands) {
        let token = super::connection::token(peer);
        let silence_max = self.limits.silence_max;
        let place = self.places.get_mut(peer.index as usize);
        let Some(place) = place.filter(|place| place.generation == peer.generation) else {
            return;
        };
        let Some(connection) = place.connection.as_deref_mut() else {
            return;
        };
        if connection.parting.is_some() || connection.ending.is_some() {
            return;
        }
        connection.parting = Some(now);
        connection
            .outbox
            .flush_all(&mut way(commands, token, &mut self.spare));
        self.peers_due = self.peers_due.min(now + silence_max);
        self.end(token, Cause::Local, Close::Fin, commands);
    }
}
