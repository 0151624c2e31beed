use std::collections::{HashMap, VecDeque};
use std::net::IpAddr;

use ::bytes::Bytes;
use ridgeline_clock::{Arrival, Nanos};

use crate::{Close, Closed, Commands, Peer, Sink, Token};

/// The byte at `offset` of the stream with this key. Two streams, or two places of one stream,
/// seldom look alike.
#[must_use]
pub fn pattern(key: u64, offset: u64) -> u8 {
    let mixed = (offset ^ (key << 40)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    mixed.to_le_bytes()[5]
}

/// What a sink does with connections it accepts, and with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Sends and receives pattern 0.
    Check,
    /// Sends a pattern of each connection's own, and receives it back.
    Echoed,
    /// Sends back what comes, unchecked.
    Echo,
    /// Accepts nothing.
    Refuse,
    /// Sends this many bytes of pattern 0 to whoever connects.
    Flood(usize),
}

/// What was seen of one connection.
#[derive(Debug, Default)]
pub struct Connection {
    /// When it was up, for one that was opened.
    pub opened: Option<Nanos>,
    /// When each send was handed over.
    pub submitted: Vec<Nanos>,
    /// Sends given back.
    pub sent: usize,
    /// Sends queued.
    pub queued: usize,
    /// Bytes received.
    pub received_bytes: u64,
    /// The first and the last arrival.
    pub arrivals: Option<(Arrival, Arrival)>,
    /// FIN came.
    pub ended: bool,
    /// It is gone.
    pub closed: Option<Closed>,
    /// A send was given back that was never handed over.
    pub dropped: bool,
    /// The heads not given back, each with the turn in which its send was ordered.
    heads: VecDeque<(u64, Vec<u8>)>,
    queued_bytes: u64,
    /// The turn after which nothing may be received: a close was ordered in it.
    deaf_after: Option<u64>,
}

impl Connection {
    /// Bytes queued for sending.
    #[must_use]
    pub fn queued_bytes(&self) -> u64 {
        self.queued_bytes
    }
}

/// A sink that remembers, and panics as soon as a driver breaks a rule.
#[derive(Debug)]
pub struct Log {
    role: Role,
    connections: HashMap<Token, Connection>,
    accepted: Vec<Token>,
    free: Vec<Token>,
    turn: u64,
    last: Nanos,
    /// How much earlier a stamp may be than what it is compared with: the driver's own error.
    slack: Nanos,
}

impl Log {
    /// A sink for a driver with this many connections.
    #[must_use]
    pub fn new(role: Role, connections_max: u32) -> Self {
        let free = (0..connections_max)
            .rev()
            .map(|index| Token {
                index,
                generation: 0,
            })
            .collect();
        let (connections, accepted) = (HashMap::new(), Vec::new());
        Self {
            role,
            connections,
            accepted,
            free,
            turn: 0,
            last: Nanos::ZERO,
            slack: Nanos::ZERO,
        }
    }

    /// Connects, and returns the name: the slot freed last, in its next generation.
    ///
    /// # Panics
    /// When every slot is in use.
    pub fn open(&mut self, commands: &mut Commands, peer: &Peer, source: Option<IpAddr>) -> Token {
        let token = self
            .free
            .pop()
            .expect("the property stays within connections_max");
        self.connections.insert(token, Connection::default());
        commands.open(token, peer.clone(), source);
        token
    }

    /// The stream that this connection sends and receives.
    fn key(&self, token: Token) -> u64 {
        match self.role {
            Role::Echoed => u64::from(token.index) + (u64::from(token.generation) << 12) + 1,
            Role::Check | Role::Echo | Role::Refuse | Role::Flood(_) => 0,
        }
    }

    /// Sends `head` and `body`.
    pub fn send(&mut self, commands: &mut Commands, token: Token, head: Vec<u8>, body: Bytes) {
        let turn = self.turn;
        let connection = self.get_mut(token);
        connection.queued += 1;
        connection.queued_bytes += (head.len() + body.len()) as u64;
        connection.heads.push_back((turn, head.clone()));
        commands.send(token, head, body);
    }

    /// Sends the next `bytes` bytes of the connection's stream, `head_bytes` of them as head.
    pub fn send_pattern(
        &mut self,
        commands: &mut Commands,
        token: Token,
        head_bytes: usize,
        bytes: usize,
    ) {
        let key = self.key(token);
        let start = self.get(token).queued_bytes;
        let mut head: Vec<u8> = (start..start + bytes as u64)
            .map(|offset| pattern(key, offset))
            .collect();
        let body = head.split_off(head_bytes.min(bytes));
        self.send(commands, token, head, body.into());
    }

    /// Ends a connection.
    pub fn close(&mut self, commands: &mut Commands, token: Token, how: Close) {
        let turn = self.turn;
        if how != Close::Half {
            self.get_mut(token).deaf_after.get_or_insert(turn);
        }
        commands.close(token, how);
    }

    /// What was seen of a connection.
    ///
    /// # Panics
    /// When there is none of that name.
    #[must_use]
    pub fn get(&self, token: Token) -> &Connection {
        self.connections
            .get(&token)
            .expect("a driver names only connections it was told of")
    }

    fn get_mut(&mut self, token: Token) -> &mut Connection {
        self.connections
            .get_mut(&token)
            .expect("a driver names only connections it was told of")
    }

    /// Connections accepted, in order.
    #[must_use]
    pub fn accepted_all(&self) -> &[Token] {
        &self.accepted
    }

    /// Connections that are not gone.
    #[must_use]
    pub fn live(&self) -> Vec<Token> {
        let live = self.connections.iter().filter(|(_, c)| c.closed.is_none());
        let mut live: Vec<_> = live.map(|(token, _)| *token).collect();
        live.sort_unstable_by_key(|token| token.index);
        live
    }

    /// Called before every turn of the driver.
    pub(super) fn turn_begins(&mut self, slack: Nanos) {
        self.turn += 1;
        self.slack = slack;
    }

    /// The error of the driver's stamps.
    pub(super) fn slack(&self) -> Nanos {
        self.slack
    }

    /// Every send was given back.
    pub(super) fn assert_all_given_back(&self) {
        for (token, connection) in &self.connections {
            assert_eq!(
                connection.sent, connection.queued,
                "sends given back, {token:?}"
            );
            let whole = !connection.dropped || connection.closed.is_some();
            assert!(
                whole,
                "a send dropped while the connection is up, {token:?}"
            );
        }
    }

    fn live_mut(&mut self, token: Token, at: Nanos, what: &str) -> &mut Connection {
        assert!(
            at >= self.last,
            "{what} at {at} after a callback at {}",
            self.last
        );
        self.last = at;
        let connection = self.get_mut(token);
        assert_eq!(connection.closed, None, "{what} after closed, {token:?}");
        connection
    }

    /// The rules for bytes and FIN alike.
    fn arrived(&mut self, token: Token, arrival: Arrival, what: &str) {
        assert!(arrival.not_before <= arrival.at, "{what}: {arrival:?}");
        assert!(arrival.at <= arrival.reaped, "{what}: {arrival:?}");
        let turn = self.turn;
        let connection = self.live_mut(token, arrival.reaped, what);
        assert!(!connection.ended, "{what} after the end, {token:?}");
        let deaf = connection.deaf_after.is_some_and(|closed| closed < turn);
        assert!(!deaf, "{what} although closed, {token:?}");
        let first = match connection.arrivals {
            Some((first, last)) => {
                assert!(last.at <= arrival.at, "{what}: {arrival:?} after {last:?}");
                first
            }
            None => arrival,
        };
        connection.arrivals = Some((first, arrival));
    }
}

impl Sink for Log {
    fn accepted(&mut self, commands: &mut Commands, listener: u32, at: Nanos) -> Option<Token> {
        assert_eq!(listener, 0, "the only listener");
        assert!(
            at >= self.last,
            "accepted at {at} after a callback at {}",
            self.last
        );
        self.last = at;
        if self.role == Role::Refuse {
            return None;
        }
        let token = self.free.pop()?;
        self.connections.insert(token, Connection::default());
        self.accepted.push(token);
        if let Role::Flood(bytes) = self.role {
            self.send_pattern(commands, token, 0, bytes);
        }
        Some(token)
    }

    fn opened(&mut self, _: &mut Commands, token: Token, at: Nanos) {
        assert!(
            !self.accepted.contains(&token),
            "accepted ones are up, {token:?}"
        );
        let connection = self.live_mut(token, at, "opened");
        assert_eq!(connection.opened, None, "opened twice, {token:?}");
        assert_eq!(connection.arrivals, None, "bytes before opened, {token:?}");
        connection.opened = Some(at);
    }

    fn submitted(&mut self, token: Token, at: Nanos) {
        let connection = self.live_mut(token, at, "submitted");
        connection.submitted.push(at);
        assert!(
            connection.submitted.len() <= connection.queued,
            "submitted, {token:?}"
        );
    }

    fn sent(&mut self, _: &mut Commands, token: Token, head: Vec<u8>, at: Nanos) {
        assert!(
            at >= self.last,
            "sent at {at} after a callback at {}",
            self.last
        );
        self.last = at;
        let connection = self.get_mut(token);
        connection.sent += 1;
        let expected = connection.heads.pop_front().map(|(_, head)| head);
        assert_eq!(
            Some(head),
            expected,
            "the head of the oldest send, {token:?}"
        );
        let told = connection.submitted.get(connection.sent - 1);
        assert!(
            told.is_none_or(|submitted| *submitted <= at),
            "sent before submitted, {token:?}"
        );
        connection.dropped |= told.is_none();
    }

    fn received(&mut self, commands: &mut Commands, token: Token, bytes: &[u8], arrival: Arrival) {
        assert!(!bytes.is_empty(), "an empty read, {token:?}");
        self.arrived(token, arrival, "received");
        let (key, role) = (self.key(token), self.role);
        let connection = self.get_mut(token);
        if role != Role::Echo {
            let start = connection.received_bytes;
            let wrong = (start..)
                .zip(bytes)
                .find(|(offset, byte)| pattern(key, *offset) != **byte);
            assert_eq!(
                wrong, None,
                "the first wrong byte (offset, value), {token:?}"
            );
        }
        connection.received_bytes += bytes.len() as u64;
        if self.role == Role::Echo {
            self.send(commands, token, bytes.to_vec(), Bytes::new());
        }
    }

    fn ended(&mut self, _: &mut Commands, token: Token, arrival: Arrival) {
        self.arrived(token, arrival, "ended");
        self.get_mut(token).ended = true;
    }

    fn closed(&mut self, _: &mut Commands, token: Token, cause: Closed, at: Nanos) {
        let turn = self.turn;
        let connection = self.live_mut(token, at, "closed");
        // Sends ordered in this very turn are not applied yet.
        let owed = connection.heads.iter().any(|(ordered, _)| *ordered < turn);
        assert!(!owed, "closed before sends were given back, {token:?}");
        connection.closed = Some(cause);
        self.free.push(Token {
            generation: token.generation + 1,
            ..token
        });
    }
}
