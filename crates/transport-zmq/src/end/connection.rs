use ridgeline_clock::Nanos;
use ridgeline_net::{Closed, Commands, Token};
use ridgeline_transport::{Cause, Flow, PeerId, Queued, Receiver, Turn};

use crate::outbox::{Outbox, Spare, Way};
use crate::zmtp::{Events, Met, Session};

/// How a connection came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A peer connected to this address of ours, by its number.
    Bound(usize),
    /// This end connected, by the link's number.
    Link(usize),
}

/// One connection, from its first moment until it is told gone.
#[derive(Debug)]
pub(super) struct Connection {
    pub(super) session: Session,
    pub(super) outbox: Outbox,
    pub(super) origin: Origin,
    /// What it is called.
    pub(super) who: String,
    /// `joined` was told.
    pub(super) is_up: bool,
    /// It understands pings.
    pub(super) answers_pings: bool,
    pub(super) began: Nanos,
    /// When something came from it last.
    pub(super) heard: Nanos,
    /// When it was asked last whether it is there.
    pub(super) asked: Nanos,
    /// Sends that were handed over and not given back.
    pub(super) submitted: u64,
    /// What the driver gave back without having sent it.
    pub(super) lost: Queued,
    /// Why it is being closed.
    pub(super) ending: Option<Cause>,
    /// Since when it is being let go in order.
    pub(super) parting: Option<Nanos>,
    /// The session keeps messages back, for the receiver holds.
    pub(super) is_behind: bool,
    /// The driver was told not to read from it.
    pub(super) is_paused: bool,
    /// The driver said `closed`.
    pub(super) is_closed: bool,
}

impl Connection {
    pub(super) fn new(session: Session, origin: Origin, who: String, now: Nanos) -> Self {
        Self {
            session,
            outbox: Outbox::default(),
            origin,
            who,
            is_up: false,
            answers_pings: false,
            began: now,
            heard: now,
            asked: now,
            submitted: 0,
            lost: Queued::default(),
            ending: None,
            parting: None,
            is_behind: false,
            is_paused: false,
            is_closed: false,
        }
    }

    /// Whether messages to it can be queued.
    #[inline]
    pub(super) const fn takes(&self) -> bool {
        self.is_up && self.ending.is_none() && self.parting.is_none() && !self.is_closed
    }

    /// What is lost if it is gone now.
    pub(super) fn unsent(&self) -> Queued {
        let queued = self.outbox.queued();
        Queued {
            messages: self.lost.messages + queued.messages,
            bytes: self.lost.bytes + queued.bytes,
        }
    }
}

pub(super) const fn token(peer: PeerId) -> Token {
    Token {
        index: peer.index,
        generation: peer.generation,
    }
}

pub(super) const fn peer(token: Token) -> PeerId {
    PeerId {
        index: token.index,
        generation: token.generation,
    }
}

/// What a connection that the driver ended is told to have ended by.
pub(super) fn cause_of(closed: Closed) -> Cause {
    let unreachable = |why: &str| Cause::Unreachable(why.to_owned());
    match closed {
        Closed::Local => Cause::Local,
        Closed::PeerReset => Cause::Reset,
        Closed::Refused => unreachable("nobody listens there"),
        Closed::TimedOut => unreachable("it did not answer"),
        Closed::Unreachable => unreachable("there is no route to it"),
        Closed::NoPorts => unreachable("no local port is free"),
        Closed::NoResources => unreachable("no descriptor or memory is free"),
        Closed::Os(errno) => unreachable(&format!("operating system error {errno}")),
    }
}

/// A connection's session as it is fed: what it says goes to the receiver and to the connection's outbox.
pub(super) struct Ears<'a, 'b, R> {
    pub(super) peer: PeerId,
    pub(super) receiver: &'a mut R,
    pub(super) outbox: &'a mut Outbox,
    pub(super) way: Way<'b>,
    pub(super) who: &'a mut String,
    pub(super) is_up: &'a mut bool,
    pub(super) answers_pings: &'a mut bool,
    pub(super) turn: &'a mut Turn,
    /// With more than this in the outbox nothing is answered: a peer that asks and asks and does not read
    /// the answers gets none.
    pub(super) answers_until_bytes: u64,
}

impl<R: Receiver> Events for Ears<'_, '_, R> {
    fn met(&mut self, met: &Met<'_>) {
        if let Some(name) = printable(met.identity) {
            name.clone_into(self.who);
        }
        *self.is_up = true;
        *self.answers_pings = met.answers_pings;
        self.turn.events += 1;
        self.receiver.joined(self.peer, self.who);
    }

    #[inline]
    fn message(&mut self, message: &[u8]) -> Flow {
        self.turn.messages += 1;
        self.receiver.message(self.peer, message)
    }

    fn answer(&mut self, bytes: &[u8]) {
        if self.outbox.queued().bytes <= self.answers_until_bytes {
            self.outbox.put_bytes(bytes, &mut self.way);
            self.outbox.flush(&mut self.way);
        }
    }
}

/// A name that can be shown to people.
fn printable(identity: &[u8]) -> Option<&str> {
    let name = std::str::from_utf8(identity).ok()?;
    (!name.is_empty() && !name.chars().any(char::is_control)).then_some(name)
}

/// The way out of one connection.
pub(super) fn way<'a>(commands: &'a mut Commands, token: Token, spare: &'a mut Spare) -> Way<'a> {
    Way {
        commands,
        token,
        spare,
    }
}
