use ridgeline_clock::Nanos;
use ridgeline_metrics::Phase;
use ridgeline_net::{Close, Commands};

use crate::connection;
use crate::limits::Limits;
use crate::shard::Shard;
use crate::slot;
use crate::timers::Wait;
use crate::waits::Connections;

/// How long a shard waits after the kernel had no port or descriptor left before it tries again.
/// A guess: long enough not to burn the core, short beside a TIME-WAIT of 60 s.
const BACK_OFF: Nanos = Nanos::from_millis(5);

/// The shard's connections: which request gets which, and when new ones are set up.
impl Shard {
    /// Gives connections to slots that wait for one, as far as there are any.
    pub(crate) fn serve_waiting(&mut self, now: Nanos, commands: &mut Commands) {
        self.retire(now, commands);
        if self.plan.target.http2.is_some() {
            return self.serve_sharing(now, commands);
        }
        while let Some(slot_index) = self.waiting.first() {
            let resting = self.take_resting(slot_index);
            let Some(connection_index) = resting.or_else(|| self.open(slot_index, now, commands))
            else {
                return;
            };
            self.waiting.remove(slot_index);
            self.start(slot_index, connection_index, now, commands);
        }
    }

    /// A connection that rests, for a request that may have it, which it rests no longer for.
    pub(crate) fn take_resting(&mut self, slot_index: u32) -> Option<u32> {
        let idle = self.resting_for(slot_index)?;
        self.connections[idle as usize].reused = true;
        self.connections[idle as usize].state = connection::State::Busy;
        Some(idle)
    }

    /// The connection that rests for a request. One that is sent again may not: another one that
    /// rested may have been closed, too.
    fn resting_for(&mut self, slot_index: u32) -> Option<u32> {
        if self.slots[slot_index as usize].retries > 0 {
            return None;
        }
        let endpoint = self.slots[slot_index as usize].endpoint;
        match (self.plan.connections, self.session_of(slot_index)) {
            (Connections::Reuse, _) => self.endpoints.get_mut(endpoint).idle.pop_front(),
            (Connections::PerSession, Some(session)) => self.resting_of(session, endpoint),
            (Connections::PerSession, None) | (Connections::PerRequest, _) => None,
        }
    }

    /// A place for a new connection. If all are taken and some of them rest, the one that rests longest is
    /// closed; then there is one soon.
    fn free_place(&mut self, commands: &mut Commands) -> Option<u32> {
        let place = self.free_connections.pop();
        if place.is_none()
            && let Some(oldest) = self.rests_longest()
        {
            self.close(oldest, Close::Fin, commands);
        }
        place
    }

    /// Begins to set up a connection, unless too many are being set up, or the machine has just
    /// run out of what they need.
    pub(crate) fn open(
        &mut self,
        slot_index: u32,
        now: Nanos,
        commands: &mut Commands,
    ) -> Option<u32> {
        if self.connecting >= self.plan.limits.connecting_max || now < self.back_off_until {
            return None;
        }
        let index = self.free_place(commands)?;
        let target = &self.plan.target;
        // Shards begin at different addresses, so that few connections still use all of them.
        let number = self.slots[slot_index as usize].endpoint;
        let endpoint = self.endpoints.get_mut(number);
        let turn = usize::try_from(endpoint.opened + u64::from(self.k)).unwrap_or(0);
        endpoint.opened += 1;
        let peers = &target.peers[endpoint.peers.clone()];
        let peer = peers[turn % peers.len()].clone();
        let sources = &target.sources;
        // By rounds over the peers: every source meets every peer, whatever their numbers have in common.
        let round = turn / peers.len();
        let source = (!sources.is_empty()).then(|| sources[round % sources.len()]);
        self.connections_opened += 1;
        self.connecting += 1;
        let connection = &mut self.connections[index as usize];
        connection.state = connection::State::Connecting;
        connection.reused = false;
        connection.endpoint = number;
        connection.opening_since = now;
        connection.secure = target.tls_of(number).is_some().then(Box::default);
        connection.unsettled = endpoint.speech.spoken != Some(false);
        endpoint.unsettled += u32::from(connection.unsettled);
        commands.open(connection.token(index), peer, source);
        if self.speaks_from_the_start(index) {
            self.begin_streams(index);
        }
        Some(index)
    }

    /// The first action for a request: its bytes are queued on its connection, unless that is still to be
    /// secured.
    pub(crate) fn start(
        &mut self,
        slot_index: u32,
        connection_index: u32,
        now: Nanos,
        commands: &mut Commands,
    ) {
        let slot = &mut self.slots[slot_index as usize];
        let connection = &mut self.connections[connection_index as usize];
        slot.state = slot::State::Active;
        slot.connection = Some(connection_index);
        slot.pool_wait += now - slot.waiting_since;
        if connection.state == connection::State::Connecting {
            self.timers.arm(Wait::Connect, slot_index, now);
        }
        if connection.streams.is_some() {
            self.start_stream(slot_index, connection_index, now, commands);
        } else if connection.secure.is_some() {
            self.start_secure(slot_index, connection_index, commands);
        } else {
            connection.slot = Some(slot_index);
            connection.http.start();
            let inline_bytes = self.plan.limits.send_inline_bytes;
            let mut head = take_head(&mut self.heads, &self.plan.limits);
            let body = match self.state.source.feed() {
                None => self.requests.write(&mut head, slot),
                Some(feed) => feed.write(slot_index, slot.endpoint, &mut head, inline_bytes),
            };
            commands.send(connection.token(connection_index), head, body);
        }
        self.mark_started(slot_index, now);
    }

    /// The first action for a request, once.
    pub(crate) fn mark_started(&mut self, slot_index: u32, now: Nanos) {
        let slot = &mut self.slots[slot_index as usize];
        if slot.started {
            return;
        }
        slot.started = true;
        slot.timeline.started = now;
        self.last_issue = now;
        let phase = slot.phase;
        self.collector.issued(phase);
        if phase == Phase::Measured {
            self.collector.due(1);
        }
    }

    /// Puts a request back to wait: its connection was of no use.
    pub(crate) fn wait_again(&mut self, slot_index: u32, now: Nanos) {
        let slot = &mut self.slots[slot_index as usize];
        slot.state = slot::State::Waiting;
        slot.connection = None;
        slot.waiting_since = now;
        self.timers.disarm(Wait::Connect, slot_index);
        self.waiting.push_back(slot_index);
    }

    /// Asks for the end of a connection. Its place is free when the driver says `closed`.
    pub(crate) fn close(&mut self, index: u32, how: Close, commands: &mut Commands) {
        if how == Close::Fin {
            self.say_goodbye(index, commands);
        }
        self.leave(index);
        let connection = &mut self.connections[index as usize];
        connection.state = connection::State::Closing;
        commands.close(connection.token(index), how);
    }

    /// Takes a connection out of every place but the slab.
    fn leave(&mut self, index: u32) {
        self.forget_session(index);
        self.forget_streams(index);
        self.settle_room(index);
        let connection = &mut self.connections[index as usize];
        self.endpoints
            .get_mut(connection.endpoint)
            .idle
            .remove(index);
        if connection.state == connection::State::Connecting {
            self.connecting -= 1;
        }
        connection.slot = None;
        connection.secure = None;
        connection.carry.clear(&mut self.shared.pool);
    }

    /// Gives the place of a connection that is gone to the next one.
    pub(crate) fn free(&mut self, index: u32) {
        self.leave(index);
        let connection = &mut self.connections[index as usize];
        connection.state = connection::State::Free;
        connection.generation = connection.generation.wrapping_add(1);
        self.free_connections.push(index);
    }

    /// The kernel had no port or descriptor for a connection: the request waits, and says so.
    pub(crate) fn back_off(&mut self, now: Nanos) {
        self.back_off_until = now + BACK_OFF;
    }
}

/// An empty buffer for the head of a request, or for what TLS has to say: one that is not in use, or a new one.
#[inline]
pub(crate) fn take_head(heads: &mut Vec<Vec<u8>>, limits: &Limits) -> Vec<u8> {
    match heads.pop() {
        Some(mut head) => {
            head.clear();
            head
        }
        None => Vec::with_capacity(limits.send_inline_bytes),
    }
}
