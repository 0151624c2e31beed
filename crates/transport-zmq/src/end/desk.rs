//! What the driver tells, told on.

use ridgeline_clock::{Arrival, Nanos};
use ridgeline_net::{Close, Closed, Commands, Sink, Token};
use ridgeline_transport::{Cause, Receiver, Turn};

use super::connection::{Origin, cause_of, way};
use super::peers::Peers;

/// An end's peers and its receiver, for the length of one turn of the driver.
pub(super) struct Desk<'a, R> {
    pub(super) peers: &'a mut Peers,
    pub(super) receiver: &'a mut R,
    pub(super) turn: &'a mut Turn,
}

impl<R: Receiver> Sink for Desk<'_, R> {
    fn accepted(&mut self, commands: &mut Commands, listener: u32, at: Nanos) -> Option<Token> {
        let token = self
            .peers
            .begin(Origin::Bound(listener as usize), at, commands)?;
        if self.peers.is_paused {
            commands.read(token, false);
        }
        Some(token)
    }

    fn opened(&mut self, commands: &mut Commands, token: Token, at: Nanos) {
        let is_paused = self.peers.is_paused;
        if let Some(connection) = self.peers.get_mut(token) {
            connection.heard = at;
            if is_paused {
                commands.read(token, false);
            }
        }
    }

    fn submitted(&mut self, token: Token, _: Nanos) {
        if let Some(connection) = self.peers.get_mut(token) {
            connection.submitted += 1;
        }
    }

    fn sent(&mut self, commands: &mut Commands, token: Token, head: Vec<u8>, _: Nanos) {
        let peers = &mut *self.peers;
        let place = &mut peers.places[token.index as usize];
        if place.generation != token.generation {
            return;
        }
        let Some(connection) = place.connection.as_deref_mut() else {
            return;
        };
        let mut way = way(commands, token, &mut peers.spare);
        let sent = connection.outbox.sent(head, &mut way);
        if connection.submitted > 0 {
            connection.submitted -= 1;
        } else {
            connection.lost.messages += sent.messages;
            connection.lost.bytes += sent.bytes;
        }
    }

    #[inline]
    fn received(&mut self, commands: &mut Commands, token: Token, bytes: &[u8], arrival: Arrival) {
        let connection = self.peers.get(token);
        if connection.is_some_and(|connection| connection.ending.is_none()) {
            let bytes = Some((bytes, arrival.reaped));
            self.peers
                .feed(token, bytes, commands, self.receiver, self.turn);
        }
    }

    fn ended(&mut self, commands: &mut Commands, token: Token, _: Arrival) {
        // Nothing can come from there any more, and whoever speaks ZMTP does not listen on either.
        self.peers.end(token, Cause::Closed, Close::Reset, commands);
    }

    fn closed(&mut self, _: &mut Commands, token: Token, closed: Closed, at: Nanos) {
        if let Some(connection) = self.peers.get_mut(token) {
            connection.is_closed = true;
            connection.ending.get_or_insert_with(|| cause_of(closed));
        }
        self.peers.forget_up(token.index);
        self.peers.bury(token, at, self.receiver, self.turn);
    }
}
