use ridgeline_clock::Nanos;
use ridgeline_metrics::Phase;
use ridgeline_net::{Close, Commands};

use crate::connection;
use crate::limits::Limits;
use crate::shard::Shard;
use crate::slot;

/// How long a shard waits after the kernel had no port or descriptor left before it tries again.
/// A guess: long enough not to burn the core, short beside a TIME-WAIT of 60 s.
const BACK_OFF: Nanos = Nanos::from_millis(5);

/// The shard's connections: which request gets which, and when new ones are set up.
impl Shard {
    /// Gives connections to slots that wait for one, as far as there are any.
    pub(crate) fn serve_waiting(&mut self, now: Nanos, commands: &mut Commands) {
        while let Some(slot_index) = self.waiting.first() {
            let connection_index = match self.idle.pop_front() {
                Some(idle) => {
                    self.connections[idle as usize].reused = true;
                    self.connections[idle as usize].state = connection::State::Busy;
                    idle
                }
                None => match self.open(now, commands) {
                    Some(opening) => opening,
                    None => return,
                },
            };
            self.waiting.remove(slot_index);
            self.start(slot_index, connection_index, now, commands);
        }
    }

    /// Begins to set up a connection, unless too many are being set up, or the machine has just
    /// run out of what they need.
    fn open(&mut self, now: Nanos, commands: &mut Commands) -> Option<u32> {
        if self.connecting >= self.plan.limits.connecting_max || now < self.back_off_until {
            return None;
        }
        let index = self.free_connections.pop()?;
        let target = &self.plan.target;
        // Shards begin at different addresses, so that few connections still use all of them.
        let turn = usize::try_from(self.connections_opened + u64::from(self.k)).unwrap_or(0);
        let peer = target.peers[turn % target.peers.len()].clone();
        let sources = &target.sources;
        // By rounds over the peers: every source meets every peer, whatever their numbers have in common.
        let round = turn / target.peers.len();
        let source = (!sources.is_empty()).then(|| sources[round % sources.len()]);
        self.connections_opened += 1;
        self.connecting += 1;
        let connection = &mut self.connections[index as usize];
        connection.state = connection::State::Connecting;
        connection.reused = false;
        connection.opening_since = now;
        connection.secure = target.tls.is_some().then(Box::default);
        commands.open(connection.token(index), peer, source);
        Some(index)
    }

    /// The first action for a request: its bytes are queued on its connection, unless that is still to be
    /// secured.
    fn start(
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
        if connection.secure.is_some() {
            self.start_secure(slot_index, connection_index, commands);
        } else {
            connection.slot = Some(slot_index);
            connection.http.start();
            let inline_bytes = self.plan.limits.send_inline_bytes;
            let mut head = take_head(&mut self.heads, &self.plan.limits);
            let body = match self.state.source.feed() {
                None => self.requests.write(&mut head, slot.index, slot.sample),
                Some(feed) => feed.write(slot_index, &mut head, inline_bytes),
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
        self.waiting.push_back(slot_index);
    }

    /// Marks a connection that carries nothing as ready for the next request.
    pub(crate) fn rest(&mut self, connection_index: u32) {
        let connection = &mut self.connections[connection_index as usize];
        connection.state = connection::State::Idle;
        connection.slot = None;
        self.idle.push_front(connection_index);
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
        self.idle.remove(index);
        let connection = &mut self.connections[index as usize];
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
