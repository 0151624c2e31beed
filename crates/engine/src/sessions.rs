//! Connections that belong to sessions.

use std::collections::HashMap;

use ridgeline_clock::Nanos;
use ridgeline_net::{Close, Commands};

use crate::connection::State;
use crate::shard::Shard;
use crate::waits::Connections;

/// The connection of each session that has one, where connections are for sessions.
#[derive(Debug, Default)]
pub(crate) struct Sessions(HashMap<u64, u32>);

impl Sessions {
    /// With room for those of `connections` connections.
    pub(crate) fn new(kind: Connections, connections: u32) -> Self {
        match kind {
            // What was removed leaves its place taken until half of the room is: then places are put in order.
            Connections::PerSession => Self(HashMap::with_capacity(2 * connections as usize)),
            Connections::Reuse | Connections::PerRequest => Self::default(),
        }
    }
}

impl Shard {
    /// The session of a request, where connections are for sessions.
    pub(crate) fn session_of(&self, slot_index: u32) -> Option<u64> {
        let session = self
            .requests
            .session(self.slots[slot_index as usize].sample);
        session.filter(|_| self.plan.connections == Connections::PerSession)
    }

    /// The connection of a session, if it rests and leads to the endpoint.
    pub(crate) fn resting_of(&mut self, session: u64, endpoint: u16) -> Option<u32> {
        let index = *self.sessions.0.get(&session)?;
        let connection = &self.connections[index as usize];
        let fits = connection.state == State::Idle && connection.endpoint == endpoint;
        if fits {
            self.endpoints.get_mut(endpoint).idle.remove(index);
        }
        fits.then_some(index)
    }

    /// A connection has carried a request of a session, and waits for the next one. Where that takes the last
    /// place, the one that rests longest makes room for another session.
    pub(crate) fn rest_for(
        &mut self,
        session: u64,
        index: u32,
        now: Nanos,
        commands: &mut Commands,
    ) {
        self.connections[index as usize].session = Some(session);
        self.sessions.0.insert(session, index);
        self.rest(index, now);
        if self.free_connections.is_empty()
            && let Some(oldest) = self.rests_longest()
        {
            self.close(oldest, Close::Fin, commands);
        }
    }

    /// A connection belongs to no session any more.
    pub(crate) fn forget_session(&mut self, index: u32) {
        if let Some(session) = self.connections[index as usize].session.take()
            && self.sessions.0.get(&session) == Some(&index)
        {
            self.sessions.0.remove(&session);
        }
    }
}
