use std::mem;
use std::net::IpAddr;

use bytes::Bytes;
use mio::Interest;
use ridgeline_clock::{Clock, MonotonicClock};
use ridgeline_net::{Close, Closed, Command, Peer, Sink, Token};

use super::{EpollDriver, LISTENER_FIRST, Slot, name};
use crate::connection::{Connection, Finish, Sending};
use crate::socket::Stream;

/// Reads of what nobody wants any more, so that the close is a FIN and not a reset.
const DRAIN_MAX: u32 = 16;

/// Before the wait: orders are applied.
impl EpollDriver {
    pub(super) fn apply_all(&mut self) {
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

    /// Puts a connection into its slot and watches its socket.
    ///
    /// # Panics
    /// When the owner uses a slot out of range, twice, or with an old generation: the rules of
    /// [`Token`] are the caller's to keep, and breaking them would mix two connections.
    pub(super) fn insert(&mut self, mut connection: Connection) {
        let Token { index, generation } = connection.token;
        let max = self.config.connections_max.min(LISTENER_FIRST);
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
        if let Some(stream) = &mut connection.stream {
            // A kernel that refuses leaves the times of reaping, which are counted.
            connection.stamped = self.stamps.is_some() && stream.ask_for_stamps();
            let interest = Interest::READABLE | Interest::WRITABLE;
            let name = name(index, generation);
            let watched = self
                .poll
                .registry()
                .register(stream.source(), name, interest);
            connection.dead = watched.err().map(|error| Closed::of(&error));
        }
        let over = connection.dead.is_some();
        connection.queue = mem::take(&mut slot.queue);
        slot.connection = Some(connection);
        if over {
            self.list_work(index);
        }
    }

    fn open(&mut self, token: Token, peer: &Peer, source: Option<IpAddr>) {
        let connection = match Stream::connect(peer, source) {
            Ok(stream) => Connection::new(token, stream, false),
            Err(error) => Connection::failed(token, Some(Closed::of(&error))),
        };
        self.insert(connection);
    }

    fn send(&mut self, token: Token, head: Vec<u8>, body: Bytes) {
        let Some(connection) = self.named(token) else {
            return self.told.push_back((token, head));
        };
        let mut sending = Sending {
            head,
            body,
            written: 0,
            submitted: false,
        };
        if connection.finish != Finish::No {
            // Nothing can follow a FIN; the order of the heads is kept.
            if connection.queue.is_empty() {
                return self.told.push_back((token, sending.head));
            }
            sending.body = Bytes::new();
            sending.written = sending.head.len();
            sending.submitted = true;
        }
        connection.queue.push_back(sending);
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
            Close::Fin if connection.finish == Finish::Done => {
                self.drain(token.index);
                self.die(token.index, Closed::Local);
            }
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
            _ if on => self.list_work(token.index),
            _ => {}
        }
    }

    fn reset(&mut self, index: u32) {
        if let Some(stream) = self.connection(index).and_then(|c| c.stream.as_ref()) {
            stream.abort();
        }
        self.die(index, Closed::Local);
    }
}

/// Then sends are handed over.
impl EpollDriver {
    pub(super) fn hand_over<S: Sink>(&mut self, sink: &mut S) {
        if self.flush.is_empty() {
            return;
        }
        let now = MonotonicClock.now();
        while let Some(index) = self.flush.pop_front() {
            let slot = self.slots.get_mut(index as usize);
            let Some(connection) = slot.and_then(|slot| slot.connection.as_mut()) else {
                continue;
            };
            connection.in_flush = false;
            let (token, told) = (connection.token, &mut self.told);
            let written = connection.flush(
                now,
                || sink.submitted(token, now),
                |head| told.push_back((token, head)),
            );
            self.counters.sent_bytes += written;
            let (broken, dead) = (connection.broken.is_some(), connection.dead.is_some());
            if connection.can_flush() && connection.queue.is_empty() {
                self.finish(index);
            } else if broken || dead {
                self.list_work(index);
            }
        }
    }

    /// All sends are written: the FIN goes out, if one is asked for.
    fn finish(&mut self, index: u32) {
        let Some(connection) = self.connection(index) else {
            return;
        };
        let finish = connection.finish;
        if !matches!(finish, Finish::Half | Finish::Full) {
            return;
        }
        connection.finish = Finish::Done;
        // Fails only if the connection is gone, which its next read says.
        let _ = connection.stream.as_ref().map(Stream::finish);
        if finish == Finish::Full {
            self.drain(index);
            self.die(index, Closed::Local);
        }
    }

    /// Throws away what has arrived: a socket closed with bytes unread sends a reset, which may
    /// overtake what was sent.
    fn drain(&mut self, index: u32) {
        let slot = self.slots.get_mut(index as usize);
        let Some(connection) = slot.and_then(|slot| slot.connection.as_mut()) else {
            return;
        };
        let Some(stream) = connection.stream.as_mut().filter(|_| !connection.ended) else {
            return;
        };
        for _ in 0..DRAIN_MAX {
            match stream.read(&mut self.buffer) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
    }
}
