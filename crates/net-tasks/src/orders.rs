//! Before the wait.

use std::mem;
use std::net::IpAddr;
use std::rc::Rc;

use bytes::Bytes;
use ridgeline_clock::Nanos;
use ridgeline_net::{Close, Closed, Command, Peer, Sink, Token};

use crate::connection::{Connection, Finish, Sending};
use crate::events::Event;
use crate::link::Link;
use crate::runtime::Runtime;
use crate::sockets;
use crate::tasks::{Slot, Tasks};
use crate::work;

/// Orders are applied.
impl<R: Runtime> Tasks<R> {
    pub(crate) fn apply_all(&mut self) {
        let mut orders = mem::take(&mut self.commands);
        for order in orders.drain() {
            match order {
                Command::Open {
                    token,
                    peer,
                    source,
                } => self.open(token, &peer, source),
                Command::Send { token, head, body } => self.send(token, head, body),
                Command::Close { token, how } => self.close(token, how),
                Command::Read { token, on } => self.set_reading(token, on),
            }
        }
        self.commands = orders;
    }

    fn open(&mut self, token: Token, peer: &Peer, source: Option<IpAddr>) {
        match sockets::connect(peer, source).and_then(R::adopt) {
            Ok(socket) => self.link(token, socket, false),
            Err(error) => {
                self.insert(Connection::failed(token, Some(Closed::of(&error))));
                self.dead.push(token.index);
            }
        }
    }

    /// Puts a socket into its slot and starts its tasks.
    pub(crate) fn link(&mut self, token: Token, socket: R::Socket, up: bool) {
        let link = Rc::new(Link::new(socket));
        self.insert(Connection::new(token, Rc::clone(&link), up));
        let alive = self.events.task();
        R::spawn(work::read::<R>(Rc::clone(&link), token, up, alive));
        R::spawn(work::write(link, token, self.events.task()));
        self.let_read(token.index);
    }

    /// # Panics
    /// When the owner uses a slot out of range, twice, or with an old generation: the rules of
    /// [`Token`] are the caller's to keep, and breaking them would mix two connections.
    fn insert(&mut self, mut connection: Connection<R::Socket>) {
        let Token { index, generation } = connection.token;
        let max = self.config.connections_max;
        assert!(
            index < max,
            "slot {index} of a driver with {max} connections"
        );
        if self.slots.len() <= index as usize {
            self.slots.resize_with(index as usize + 1, Slot::default);
        }
        let slot = &mut self.slots[index as usize];
        assert!(slot.connection.is_none(), "slot {index} is in use");
        assert!(
            slot.generation <= generation,
            "slot {index} goes back a generation"
        );
        slot.generation = generation;
        connection.queue = mem::take(&mut slot.queue);
        slot.connection = Some(connection);
    }

    fn send(&mut self, token: Token, head: Vec<u8>, body: Bytes) {
        let Some(connection) = self.named(token) else {
            return self.told.push_back((token, head));
        };
        // Nothing can follow a FIN; the order of the heads is kept.
        let void = connection.finish != Finish::No;
        connection.queue.push_back(Sending { head, body, void });
        self.list_flush(token.index);
    }

    fn close(&mut self, token: Token, how: Close) {
        let Some(connection) = self.named(token) else {
            return;
        };
        connection.deaf |= how != Close::Half;
        if connection.dead.is_some() {
            return;
        }
        match how {
            Close::Reset => self.reset(token.index),
            Close::Half if connection.finish == Finish::No => {
                connection.finish = Finish::Half;
                self.list_flush(token.index);
            }
            Close::Half => {}
            Close::Fin if connection.finish == Finish::Done => self.let_go(token.index),
            Close::Fin if !connection.up && connection.queue.is_empty() => {
                self.reset(token.index);
            }
            Close::Fin => {
                connection.finish = Finish::Full;
                if let Some(cause) = connection.broken {
                    self.die(token.index, cause);
                }
                self.list_flush(token.index);
            }
        }
    }

    fn set_reading(&mut self, token: Token, on: bool) {
        let Some(connection) = self.named(token) else {
            return;
        };
        connection.paused = !on;
        match connection.broken {
            // What would still be read before it is told, is not.
            Some(cause) if !on => self.die(token.index, cause),
            _ if on => self.read_on(token),
            _ => {}
        }
    }

    fn read_on(&mut self, token: Token) {
        let Some(connection) = self.named(token) else {
            return;
        };
        let Some((result, buffer)) = connection.held.take() else {
            return self.let_read(token.index);
        };
        // As if the reader had just read it: it is given no other buffer before this is told.
        connection.reading = true;
        self.events.push(Event::Read {
            token,
            result,
            buffer,
        });
    }

    fn reset(&mut self, index: u32) {
        if let Some(link) = self.connection(index).and_then(|c| c.link.as_ref()) {
            sockets::abort(&link.socket);
        }
        self.die(index, Closed::Local);
    }

    /// Closes a connection whose FIN is sent.
    fn let_go(&mut self, index: u32) {
        let connection = self.connection(index).filter(|c| !c.ended);
        if let Some(link) = connection.and_then(|c| c.link.as_ref()) {
            sockets::drain(&link.socket);
        }
        self.die(index, Closed::Local);
    }
}

/// Then sends are handed over.
impl<R: Runtime> Tasks<R> {
    pub(crate) fn hand_over<S: Sink>(&mut self, sink: &mut S, now: Nanos) {
        while let Some(index) = self.flush.pop_front() {
            if let Some(connection) = self.connection(index) {
                connection.in_flush = false;
                self.hand_over_one(index, sink, now);
            }
        }
    }

    /// One send of a connection is with its task at a time.
    fn hand_over_one<S: Sink>(&mut self, index: u32, sink: &mut S, now: Nanos) {
        let slot = self.slots.get_mut(index as usize);
        let Some(connection) = slot.and_then(|slot| slot.connection.as_mut()) else {
            return;
        };
        let Some(link) = connection.link.as_ref().filter(|_| connection.can_send()) else {
            return;
        };
        while let Some(sending) = connection.queue.front() {
            let bytes = sending.bytes();
            if !sending.void {
                sink.submitted(connection.token, now);
                self.counters.sent_bytes += bytes as u64;
            }
            if bytes > 0 && !sending.void {
                let joined = self.parcels.pop().unwrap_or_default();
                link.writes.put(sending.parcel(joined));
                connection.writing = true;
                return;
            }
            if let Some(sending) = connection.queue.pop_front() {
                self.told.push_back((connection.token, sending.head));
            }
        }
        let finish = connection.finish;
        if matches!(finish, Finish::Half | Finish::Full) {
            connection.finish = Finish::Done;
            sockets::finish(&link.socket);
        }
        if finish == Finish::Full {
            self.let_go(index);
        }
    }
}
