//! After the wait: what tasks left, told.

use std::io;
use std::mem;

use ridgeline_clock::Arrival;
use ridgeline_net::{Closed, Sink, Token, Turn};

use crate::connection::Connection;
use crate::events::Event;
use crate::runtime::Runtime;
use crate::sockets;
use crate::tasks::Tasks;

impl<R: Runtime> Tasks<R> {
    pub(crate) fn tell<S: Sink>(&mut self, sink: &mut S, turn: &mut Turn) {
        while let Some((token, head)) = self.told.pop_front() {
            turn.completions += 1;
            sink.sent(&mut self.commands, token, head, turn.reaped);
        }
        let mut events = self.events.take(mem::take(&mut self.spare));
        for event in events.drain(..) {
            match event {
                Event::Read {
                    token,
                    result,
                    buffer,
                } => self.on_read(token, result, buffer, sink, turn),
                Event::Written {
                    token,
                    result,
                    joined,
                } => self.on_written(token, &result, joined, sink, turn),
                Event::Opened { token, result } => self.on_opened(token, &result, sink, turn),
                Event::Accepted { listener, socket } => {
                    self.on_accepted(listener, socket, sink, turn);
                }
                Event::Woken => turn.woken = true,
                Event::Nudged => {}
            }
        }
        self.spare = events;
        for place in 0..self.dead.len() {
            self.bury(self.dead[place], sink, turn);
        }
        self.dead.clear();
    }

    fn on_read<S: Sink>(
        &mut self,
        token: Token,
        result: io::Result<usize>,
        buffer: Vec<u8>,
        sink: &mut S,
        turn: &mut Turn,
    ) {
        let slot = self.slots.get_mut(token.index as usize);
        let connection = slot.and_then(|slot| slot.connection.as_mut());
        let Some(connection) = connection.filter(|c| c.token == token) else {
            return self.buffers.push(buffer);
        };
        connection.reading = false;
        if connection.dead.is_some() || connection.deaf {
            return self.buffers.push(buffer);
        }
        if connection.paused {
            connection.held = Some((result, buffer));
            return;
        }
        let arrival = Arrival::reaped(turn.reaped);
        match result {
            Ok(0) => {
                connection.ended = true;
                let broken = connection.broken;
                turn.completions += 1;
                sink.ended(&mut self.commands, token, arrival);
                if let Some(cause) = broken {
                    self.die(token.index, cause);
                }
            }
            Ok(count) => {
                turn.completions += 1;
                self.counters.reads += 1;
                self.counters.received_bytes += count as u64;
                sink.received(&mut self.commands, token, &buffer[..count], arrival);
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => {
                let cause = connection.broken.unwrap_or_else(|| Closed::of(&error));
                self.die(token.index, cause);
            }
        }
        self.buffers.push(buffer);
        self.let_read(token.index);
    }

    fn on_written<S: Sink>(
        &mut self,
        token: Token,
        result: &io::Result<()>,
        mut joined: Vec<u8>,
        sink: &mut S,
        turn: &mut Turn,
    ) {
        joined.clear();
        self.parcels.push(joined);
        let Some(connection) = self.named(token) else {
            return;
        };
        connection.writing = false;
        let Some(sending) = connection.queue.pop_front() else {
            return;
        };
        if let Err(error) = result {
            // A peer may have answered before it closed, so reading goes on to its end.
            let cause = Closed::of(error);
            connection.broken = Some(cause);
            if connection.ended || connection.deaf || connection.paused {
                self.die(token.index, cause);
            }
        }
        turn.completions += 1;
        sink.sent(&mut self.commands, token, sending.head, turn.reaped);
        self.list_flush(token.index);
    }

    fn on_opened<S: Sink>(
        &mut self,
        token: Token,
        result: &io::Result<()>,
        sink: &mut S,
        turn: &mut Turn,
    ) {
        let Some(connection) = self.named(token).filter(|c| c.dead.is_none()) else {
            return;
        };
        if let Err(error) = result {
            return self.die(token.index, Closed::of(error));
        }
        connection.up = true;
        turn.completions += 1;
        sink.opened(&mut self.commands, token, turn.reaped);
        self.list_flush(token.index);
        self.let_read(token.index);
    }

    fn on_accepted<S: Sink>(
        &mut self,
        listener: u32,
        socket: R::Socket,
        sink: &mut S,
        turn: &mut Turn,
    ) {
        turn.completions += 1;
        match sink.accepted(&mut self.commands, listener, turn.reaped) {
            Some(token) => self.link(token, socket, true),
            None => sockets::abort(&socket),
        }
    }

    /// Tells the end of a connection that is over, and lets go of it.
    fn bury<S: Sink>(&mut self, index: u32, sink: &mut S, turn: &mut Turn) {
        let Some(slot) = self.slots.get_mut(index as usize) else {
            return;
        };
        let Some(connection) = slot.connection.take_if(|c| c.dead.is_some()) else {
            return;
        };
        let Connection {
            token,
            link,
            mut queue,
            held,
            dead,
            ..
        } = connection;
        if let Some(link) = link {
            link.stop();
        }
        self.buffers.extend(held.map(|(_, buffer)| buffer));
        for sending in queue.drain(..) {
            turn.completions += 1;
            sink.sent(&mut self.commands, token, sending.head, turn.reaped);
        }
        slot.queue = queue;
        turn.completions += 1;
        let cause = dead.unwrap_or(Closed::Local);
        sink.closed(&mut self.commands, token, cause, turn.reaped);
        for listener in &self.listeners {
            listener.make_room();
        }
    }
}
