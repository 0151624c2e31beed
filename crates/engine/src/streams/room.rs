//! Which request gets which connection, where a connection may carry many.

use ridgeline_clock::Nanos;
use ridgeline_net::{Close, Commands};

use super::{Http2Counts, Speech, Streams};
use crate::connection::State;
use crate::shard::Shard;
use crate::waits::Connections;

impl Shard {
    /// Whether a connection speaks HTTP/2 without asking.
    pub(crate) fn speaks_from_the_start(&self, index: u32) -> bool {
        let connection = &self.connections[index as usize];
        let endpoint = self.endpoints.get(connection.endpoint);
        connection.secure.is_none() && endpoint.speech.spoken == Some(true)
    }

    /// Gives connections to slots that wait for one, where a connection may carry many requests. A request whose
    /// endpoint will have room soon waits for that, and others pass it.
    pub(crate) fn serve_sharing(&mut self, now: Nanos, commands: &mut Commands) {
        for endpoint in self.endpoints.iter_mut() {
            endpoint.passed = 0;
        }
        let mut next = self.waiting.first();
        while let Some(slot_index) = next {
            next = self.waiting.after(slot_index);
            let number = self.slots[slot_index as usize].endpoint;
            let roomy = self.endpoints.get(number).roomy.first();
            let index = match roomy.or_else(|| self.take_resting(slot_index)) {
                Some(index) => index,
                None if self.is_room_coming(number) => continue,
                None => match self.open(slot_index, now, commands) {
                    Some(index) => index,
                    None => return,
                },
            };
            self.waiting.remove(slot_index);
            self.start(slot_index, index, now, commands);
        }
    }

    /// Whether connections that are being set up will have room for one more of those that wait, or will tell
    /// what the endpoint speaks.
    fn is_room_coming(&mut self, number: u16) -> bool {
        if self.plan.connections != Connections::Reuse {
            return false;
        }
        let endpoint = self.endpoints.get_mut(number);
        let Speech { spoken, each } = endpoint.speech;
        let is_coming = match spoken {
            Some(false) => false,
            None => endpoint.unsettled > 0,
            // Each has been asked for by a request already.
            Some(true) => endpoint.passed < endpoint.unsettled * (each - 1),
        };
        endpoint.passed += u32::from(is_coming);
        is_coming
    }

    /// It is known how many streams a connection takes, or that it does not matter.
    pub(crate) fn settle_room(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        if std::mem::take(&mut connection.unsettled) {
            self.endpoints.get_mut(connection.endpoint).unsettled -= 1;
        }
    }

    /// Puts a connection where it is found, by whether it carries something and has room for more.
    pub(super) fn note_room(&mut self, index: u32, now: Nanos, commands: &mut Commands) {
        let connection = &mut self.connections[index as usize];
        let Some(Streams { h2, session, .. }) = connection.streams.as_deref() else {
            return;
        };
        if !matches!(connection.state, State::Busy | State::Idle) {
            return;
        }
        let (room, active, session) = (h2.room(), h2.active(), *session);
        let (is_settled, is_open) = (h2.is_settled(), h2.is_open());
        let (number, is_busy) = (connection.endpoint, connection.state == State::Busy);
        if is_settled && connection.unsettled {
            self.settle_room(index);
            self.endpoints.get_mut(number).speech.each = (room + active).max(1);
        }
        let roomy = &mut self.endpoints.get_mut(number).roomy;
        roomy.remove(index);
        match self.plan.connections {
            Connections::Reuse if active > 0 && room > 0 => roomy.push_front(index),
            _ if active > 0 || !is_busy || !is_open => {}
            Connections::Reuse => self.rest(index, now),
            Connections::PerSession | Connections::PerRequest => match session {
                Some(session) => self.rest_for(session, index, now, commands),
                None => self.close(index, Close::Fin, commands),
            },
        }
    }

    /// Adds up what the streams of a connection counted, which it has no longer.
    pub(crate) fn forget_streams(&mut self, index: u32) {
        let connection = &mut self.connections[index as usize];
        let Some(mut streams) = connection.streams.take() else {
            return;
        };
        let endpoint = self.endpoints.get_mut(connection.endpoint);
        endpoint.roomy.remove(index);
        self.http2.merge(&Http2Counts::of(streams.h2.counters()));
        for place in &mut streams.places {
            place.carry.clear(&mut self.shared.pool);
        }
    }
}
