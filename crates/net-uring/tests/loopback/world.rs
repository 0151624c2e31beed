use std::collections::HashMap;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread::{self, JoinHandle};

use bytes::Bytes;
use ridgeline_clock::{Arrival, Clock, MonotonicClock, Nanos};
use ridgeline_net::{Close, Closed, Commands, Driver, Peer, Sink, Token, Turn};
use ridgeline_net_uring::{UringConfig, UringDriver};

/// How long a test waits for anything.
pub(crate) const PATIENCE: Nanos = Nanos::from_secs(20);

/// What happened, in order; received bytes are kept apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    Accepted(Token),
    Opened(Token),
    Sent(Token, Vec<u8>),
    Ended(Token),
    Closed(Token, Closed),
}

/// What an accepted connection does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Role {
    /// It is given a name and otherwise left alone.
    #[default]
    Quiet,
    /// It sends back what it receives, and closes when the peer does.
    Echo,
    /// It is refused.
    Refuse,
}

/// A sink that remembers everything.
#[derive(Debug, Default)]
pub(crate) struct World {
    pub(crate) events: Vec<Event>,
    pub(crate) received: HashMap<Token, Vec<u8>>,
    pub(crate) arrivals: HashMap<Token, Vec<Arrival>>,
    pub(crate) submitted: HashMap<Token, Vec<Nanos>>,
    pub(crate) role: Role,
    /// Names for accepted connections, last first.
    pub(crate) names: Vec<Token>,
    pub(crate) refused: usize,
    pub(crate) causes: HashMap<Token, Closed>,
    pub(crate) echoing: HashMap<Token, bool>,
    pub(crate) last_turn: Turn,
}

impl World {
    pub(crate) fn bytes(&self, token: Token) -> &[u8] {
        self.received.get(&token).map_or(&[], Vec::as_slice)
    }

    /// Why it is gone; `None` while it is not.
    pub(crate) fn cause(&self, token: Token) -> Option<Closed> {
        self.causes.get(&token).copied()
    }

    pub(crate) fn sends_done(&self, token: Token) -> usize {
        self.events
            .iter()
            .filter(|event| matches!(event, Event::Sent(t, _) if *t == token))
            .count()
    }

    pub(crate) fn has(&self, event: &Event) -> bool {
        self.events.contains(event)
    }

    /// Turns until `done`.
    pub(crate) fn until(&mut self, driver: &mut UringDriver, done: impl Fn(&Self) -> bool) {
        let deadline = MonotonicClock.now() + PATIENCE;
        while !done(self) {
            self.last_turn = driver.turn(deadline, self).unwrap();
            assert!(
                self.last_turn.reaped < deadline,
                "nothing came: {:?} {driver:?}",
                self.events
            );
        }
    }
}

impl Sink for World {
    fn accepted(&mut self, _: &mut Commands, _: u32, _: Nanos) -> Option<Token> {
        let name = if self.role == Role::Refuse {
            None
        } else {
            self.names.pop()
        };
        let Some(token) = name else {
            self.refused += 1;
            return None;
        };
        self.echoing.insert(token, self.role == Role::Echo);
        self.events.push(Event::Accepted(token));
        Some(token)
    }

    fn opened(&mut self, _: &mut Commands, token: Token, _: Nanos) {
        self.events.push(Event::Opened(token));
    }

    fn submitted(&mut self, token: Token, at: Nanos) {
        self.submitted.entry(token).or_default().push(at);
    }

    fn sent(&mut self, _: &mut Commands, token: Token, head: Vec<u8>, _: Nanos) {
        self.events.push(Event::Sent(token, head));
    }

    fn received(&mut self, commands: &mut Commands, token: Token, bytes: &[u8], at: Arrival) {
        assert!(!bytes.is_empty());
        assert!(self.cause(token).is_none(), "{token:?} is gone");
        assert!(at.not_before <= at.at && at.at <= at.reaped, "{at:?}");
        self.received
            .entry(token)
            .or_default()
            .extend_from_slice(bytes);
        self.arrivals.entry(token).or_default().push(at);
        if self.echoing.get(&token) == Some(&true) {
            commands.send(token, bytes.to_vec(), Bytes::new());
        }
    }

    fn ended(&mut self, commands: &mut Commands, token: Token, _: Arrival) {
        self.events.push(Event::Ended(token));
        if self.echoing.get(&token) == Some(&true) {
            commands.close(token, Close::Fin);
        }
    }

    fn closed(&mut self, _: &mut Commands, token: Token, cause: Closed, _: Nanos) {
        assert!(self.cause(token).is_none(), "{token:?} is told gone twice");
        self.causes.insert(token, cause);
        self.events.push(Event::Closed(token, cause));
    }
}

pub(crate) fn token(index: u32) -> Token {
    Token {
        index,
        generation: 1,
    }
}

/// A driver, or `None` (and a line that says why) where there is no io_uring.
#[expect(clippy::print_stdout, reason = "a test that is skipped says so")]
pub(crate) fn driver(config: UringConfig) -> Option<UringDriver> {
    if let Err(missing) = UringDriver::probe() {
        println!("skipped: {missing}");
        return None;
    }
    Some(UringDriver::new(config).unwrap())
}

/// A small one.
pub(crate) fn small(connections_max: u32) -> UringConfig {
    let config = UringConfig::new(connections_max);
    UringConfig {
        buffers_count: 16,
        buffer_bytes: 4_096,
        ..config
    }
}

/// A peer that serves one connection on a thread.
pub(crate) fn peer<T: Send + 'static>(
    serve: impl FnOnce(TcpStream) -> T + Send + 'static,
) -> (Peer, JoinHandle<T>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let thread = thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        stream.set_read_timeout(Some(PATIENCE.into())).unwrap();
        stream.set_write_timeout(Some(PATIENCE.into())).unwrap();
        serve(stream)
    });
    (Peer::Tcp(address), thread)
}

pub(crate) fn loopback() -> Peer {
    Peer::Tcp("127.0.0.1:0".parse().unwrap())
}

pub(crate) fn address(peer: &Peer) -> SocketAddr {
    let Peer::Tcp(address) = peer else {
        panic!("{peer} is not a TCP peer")
    };
    *address
}

/// `len` bytes that differ from place to place and from seed to seed.
pub(crate) fn pattern(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(len + 8);
    while bytes.len() < len {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_ne_bytes());
    }
    bytes.truncate(len);
    bytes
}
