use ridgeline_clock::Nanos;

use super::{Lab, Log, Role};
use crate::{Close, Commands, Driver, Peer, Token, Turn};

/// Two drivers on one thread, the second listening, and their sinks.
#[derive(Debug)]
pub struct Pair<'l, L: Lab> {
    /// Where they were made.
    pub lab: &'l mut L,
    /// Opens connections.
    pub client: L::Driver,
    /// The client's sink.
    pub near: Log,
    /// Accepts them.
    pub server: L::Driver,
    /// The server's sink.
    pub far: Log,
    /// Where the server listens.
    pub address: Peer,
}

/// How long a property may take on the lab's clock.
const PATIENCE: Nanos = Nanos::from_secs(20);

/// How long the client waits when neither driver has anything to do.
const REST: Nanos = Nanos::from_micros(500);

impl<'l, L: Lab> Pair<'l, L> {
    /// A pair whose server listens on TCP, each with room for 64 connections.
    pub fn new(lab: &'l mut L, near: Role, far: Role) -> Self {
        let address = lab.tcp();
        Self::at(lab, &address, (near, far), 64)
    }

    /// A pair whose server listens on `address`.
    ///
    /// # Panics
    /// When it cannot.
    pub fn at(
        lab: &'l mut L,
        address: &Peer,
        (near, far): (Role, Role),
        connections_max: u32,
    ) -> Self {
        let client = lab.driver(connections_max);
        let mut server = lab.driver(connections_max);
        let address = server.listen(address).expect("the lab's address is free");
        let (near, far) = (
            Log::new(near, connections_max),
            Log::new(far, connections_max),
        );
        Self {
            lab,
            client,
            near,
            server,
            far,
            address,
        }
    }

    /// The client's sink and the queue for its orders.
    pub fn near(&mut self) -> (&mut Log, &mut Commands) {
        (&mut self.near, self.client.commands())
    }

    /// The server's sink and the queue for its orders.
    pub fn far(&mut self) -> (&mut Log, &mut Commands) {
        (&mut self.far, self.server.commands())
    }

    /// Orders a connection from the client to `peer`.
    pub fn open(&mut self, peer: &Peer) -> Token {
        let (log, commands) = self.near();
        log.open(commands, peer, None)
    }

    /// Connects, and returns both ends' names once both know of it.
    pub fn connect(&mut self) -> (Token, Token) {
        let accepted = self.far.accepted_all().len();
        let address = self.address.clone();
        let token = self.open(&address);
        self.until("a connection", |near, far| {
            near.get(token).opened.is_some() && far.accepted_all().len() > accepted
        });
        (token, self.far.accepted_all()[accepted])
    }

    /// The client sends the next `bytes` of the connection's stream as one body.
    pub fn send(&mut self, token: Token, bytes: usize) {
        let (log, commands) = self.near();
        log.send_pattern(commands, token, 0, bytes);
    }

    /// The client ends a connection.
    pub fn close(&mut self, token: Token, how: Close) {
        let (log, commands) = self.near();
        log.close(commands, token, how);
    }

    /// The server sends.
    pub fn send_back(&mut self, token: Token, bytes: usize) {
        let (log, commands) = self.far();
        log.send_pattern(commands, token, 0, bytes);
    }

    /// The server ends a connection.
    pub fn close_back(&mut self, token: Token, how: Close) {
        let (log, commands) = self.far();
        log.close(commands, token, how);
    }

    /// One turn of the client.
    ///
    /// # Panics
    /// When the driver cannot go on, or breaks a rule.
    pub fn turn_client(&mut self, deadline: Nanos) -> Turn {
        self.near
            .turn_begins(self.client.counters().stamp_error_max);
        self.client
            .turn(deadline, &mut self.near)
            .expect("the client's turn")
    }

    /// One turn of the server.
    ///
    /// # Panics
    /// When the driver cannot go on, or breaks a rule.
    pub fn turn_server(&mut self, deadline: Nanos) -> Turn {
        self.far.turn_begins(self.server.counters().stamp_error_max);
        self.server
            .turn(deadline, &mut self.far)
            .expect("the server's turn")
    }

    /// A turn of each without waiting; when neither had anything to tell, time passes.
    pub fn turn(&mut self) {
        let near = self.turn_client(Nanos::ZERO);
        let far = self.turn_server(Nanos::ZERO);
        if near.completions + far.completions == 0 {
            let rest = self.lab.now() + REST;
            self.turn_client(rest);
        }
    }

    /// Turns until it is so.
    ///
    /// # Panics
    /// When that takes too long.
    pub fn until(&mut self, what: &str, done: impl FnMut(&Log, &Log) -> bool) {
        self.until_within(PATIENCE, what, done);
    }

    /// The same with a limit of its own.
    ///
    /// # Panics
    /// When that takes longer.
    pub fn until_within(
        &mut self,
        limit: Nanos,
        what: &str,
        mut done: impl FnMut(&Log, &Log) -> bool,
    ) {
        let end = self.lab.now() + limit;
        while !done(&self.near, &self.far) {
            assert!(self.lab.now() < end, "still no {what} after {limit}");
            self.turn();
        }
    }

    /// Turns some more, for what must not come.
    pub fn settle(&mut self) {
        for _ in 0..20 {
            self.turn();
        }
    }

    /// Resets what is still up, and checks that every connection is gone with nothing owed.
    pub fn finish(mut self) {
        for token in self.near.live() {
            self.close(token, Close::Reset);
        }
        for token in self.far.live() {
            self.close_back(token, Close::Reset);
        }
        self.until("end of all connections", |near, far| {
            near.live().is_empty() && far.live().is_empty()
        });
        self.settle();
        self.near.assert_all_given_back();
        self.far.assert_all_given_back();
    }
}
