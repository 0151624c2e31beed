use std::io;
use std::mem;

use mio::Events;
use ridgeline_clock::{Arrival, Clock, MonotonicClock, Nanos, stamped};
use ridgeline_net::{Closed, Sink, Token};

use super::{EpollDriver, LISTENER_FIRST, WAKER, parts};
use crate::connection::Connection;

/// Reads of one connection before the next one has its turn.
const READS_MAX: u32 = 4;
/// Connections accepted from one listener before others have their turn.
const ACCEPTS_MAX: u32 = 64;

/// After the wait: what the kernel said, told.
impl EpollDriver {
    /// Notes what each event says. Returns whether a waker was among them.
    pub(super) fn take_events(&mut self) -> bool {
        let events = mem::replace(&mut self.events, Events::with_capacity(0));
        let mut woken = false;
        for event in &events {
            if event.token() == WAKER {
                woken = true;
                continue;
            }
            let (index, generation) = parts(event.token());
            if let Some(listening) = index
                .checked_sub(LISTENER_FIRST)
                .and_then(|i| self.listeners.get_mut(i as usize))
            {
                listening.ready = true;
                continue;
            }
            let token = Token { index, generation };
            let Some(connection) = self.named(token) else {
                continue;
            };
            let ending = event.is_read_closed() || event.is_error();
            connection.ending |= ending;
            connection.readable |= event.is_readable() || ending;
            let writable = event.is_writable() || event.is_write_closed() || event.is_error();
            connection.writable |= writable;
            if writable && connection.is_unfinished() {
                self.list_flush(index);
            }
            self.list_work(index);
        }
        self.events = events;
        woken
    }

    pub(super) fn tell<S: Sink>(&mut self, sink: &mut S, reaped: Nanos) -> u32 {
        if let Some(stamps) = &mut self.stamps {
            stamps.refresh(reaped);
        }
        let mut completions = 0;
        while let Some((token, head)) = self.told.pop_front() {
            sink.sent(&mut self.commands, token, head, reaped);
            completions += 1;
        }
        for index in 0..self.listeners.len() {
            completions += self.accept(index, sink);
        }
        for _ in 0..self.work.len() {
            let Some(index) = self.work.pop_front() else {
                break;
            };
            let Some(connection) = self.connection(index) else {
                continue;
            };
            connection.in_work = false;
            if connection.dead.is_none() && !connection.up {
                completions += self.come_up(index, sink);
            }
            completions += self.read(index, sink);
            completions += self.bury(index, sink);
        }
        completions
    }

    fn accept<S: Sink>(&mut self, index: usize, sink: &mut S) -> u32 {
        let mut completions = 0;
        for _ in 0..ACCEPTS_MAX {
            let listening = &mut self.listeners[index];
            let Some(listener) = listening.listener.as_ref().filter(|_| listening.ready) else {
                break;
            };
            match listener.accept() {
                Ok(stream) => {
                    let at = MonotonicClock.now();
                    let number = u32::try_from(index).unwrap_or(u32::MAX);
                    completions += 1;
                    match sink.accepted(&mut self.commands, number, at) {
                        Some(token) => {
                            self.insert(Connection::new(token, stream, true));
                        }
                        None => stream.abort(),
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => listening.ready = false,
                Err(error) => {
                    if Closed::of(&error) == Closed::NoResources {
                        listening.ready = false;
                        listening.starved = true;
                    }
                    // Else the connection was gone before it was accepted: the next one.
                }
            }
        }
        completions
    }

    /// Looks whether the handshake is done.
    fn come_up<S: Sink>(&mut self, index: u32, sink: &mut S) -> u32 {
        let Some(connection) = self.connection(index) else {
            return 0;
        };
        let Some(stream) = &connection.stream else {
            return 0;
        };
        match stream.is_up() {
            Ok(None) => 0,
            Ok(Some(())) => {
                connection.up = true;
                connection.writable = true;
                let token = connection.token;
                sink.opened(&mut self.commands, token, MonotonicClock.now());
                self.list_flush(index);
                1
            }
            Err(error) => {
                self.die(index, Closed::of(&error));
                0
            }
        }
    }

    /// Reads what there is, up to the fair share of one connection.
    fn read<S: Sink>(&mut self, index: u32, sink: &mut S) -> u32 {
        let slot = self.slots.get_mut(index as usize);
        let Some(connection) = slot.and_then(|slot| slot.connection.as_mut()) else {
            return 0;
        };
        let wants = connection.up && !connection.deaf && !connection.paused;
        let wants = wants && connection.dead.is_none();
        let Some(stream) = connection.stream.as_mut().filter(|_| wants) else {
            return 0;
        };
        if connection.ended {
            if connection.ending
                && let Ok(Some(error)) = stream.take_error()
            {
                connection.dead = Some(Closed::of(&error));
            }
            return 0;
        }
        let mut completions = 0;
        for _ in 0..READS_MAX {
            if !connection.readable {
                break;
            }
            let read = match &mut self.stamps {
                Some(stamps) if connection.stamped => stream.read_stamped(&mut self.buffer, stamps),
                _ => stream.read(&mut self.buffer).map(|count| (count, None)),
            };
            let now = MonotonicClock.now();
            match read {
                Ok((0, _)) => {
                    connection.readable = false;
                    connection.ending = false;
                    connection.ended = true;
                    connection.dead = connection.broken;
                    completions += 1;
                    sink.ended(&mut self.commands, connection.token, Arrival::reaped(now));
                }
                Ok((count, wall)) => {
                    // A read that leaves room has emptied the socket, unless its end is there too.
                    connection.readable = count == self.buffer.len() || connection.ending;
                    completions += 1;
                    self.counters.reads += 1;
                    let map = self.stamps.as_mut().map(|stamps| &mut stamps.map);
                    let at = map.zip(wall).and_then(|(map, wall)| map.map(wall, now));
                    let discarded = self.config.rx_timestamps && at.is_none();
                    self.counters.stamps_discarded += u64::from(discarded);
                    self.counters.received_bytes += count as u64;
                    let bytes = &self.buffer[..count];
                    let token = connection.token;
                    let arrival = stamped(&mut connection.floor, connection.submitted, at, now);
                    sink.received(&mut self.commands, token, bytes, arrival);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    connection.readable = false;
                    connection.ending = false;
                    connection.dead = connection.broken;
                }
                Err(error) => {
                    connection.readable = false;
                    connection.dead = Some(connection.broken.unwrap_or_else(|| Closed::of(&error)));
                }
            }
        }
        if connection.readable {
            self.list_work(index);
        }
        completions
    }

    /// Tells the end of a connection that is over, and lets go of it.
    fn bury<S: Sink>(&mut self, index: u32, sink: &mut S) -> u32 {
        let slot = self.slots.get_mut(index as usize);
        let Some(slot) = slot else { return 0 };
        let Some(connection) = slot.connection.take_if(|c| c.dead.is_some()) else {
            return 0;
        };
        let Connection {
            token,
            stream,
            mut queue,
            dead,
            ..
        } = connection;
        // Closes the socket, which takes it off the epoll too.
        drop(stream);
        let at = MonotonicClock.now();
        let mut completions = 1;
        for sending in queue.drain(..) {
            completions += 1;
            sink.sent(&mut self.commands, token, sending.head, at);
        }
        slot.queue = queue;
        sink.closed(&mut self.commands, token, dead.unwrap_or(Closed::Local), at);
        for listening in &mut self.listeners {
            listening.ready |= mem::take(&mut listening.starved);
        }
        completions
    }
}
