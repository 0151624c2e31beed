//! One end: a driver, a kind, and any number of addresses and peers.

mod connection;
mod desk;
mod link;
mod peers;
mod times;

use std::fs;
use std::io;
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use ridgeline_clock::{Clock, Nanos};
use ridgeline_net::{Driver, DriverError, Peer, Token};
use ridgeline_transport::{
    Flow, Limits, PeerId, Queued, Receiver, Refused, To, Transport, TransportError, Turn,
};

use self::connection::{Connection, way};
use self::desk::Desk;
use self::link::Link;
use self::peers::Peers;
use crate::address::{Address, is_local};
use crate::outbox::Way;
use crate::zmtp::frame::{self, HEADER_BYTES_MAX, MORE};
use crate::{Keys, Kind};

/// Shared bytes below this are copied: cheaper than a send of their own.
const SHARED_BYTES_MIN: usize = 16 << 10;

/// An end of one [`Kind`] on a driver of its own, with any number of addresses that it listens on or
/// connects to. See the crate's page.
#[derive(Debug)]
pub struct Zmq<D: Driver, C> {
    driver: D,
    clock: C,
    peers: Peers,
    /// Sockets in the file system that are this end's to remove.
    paths: Vec<PathBuf>,
}

impl<D: Driver, C: Clock> Zmq<D, C> {
    /// An end without addresses. The driver must have room for `limits.peers_max` connections, and
    /// `clock` must be its clock.
    #[must_use]
    pub fn new(driver: D, clock: C, kind: Kind, limits: Limits) -> Self {
        Self {
            driver,
            clock,
            peers: Peers::new(kind, limits),
            paths: Vec::new(),
        }
    }

    /// The same end under a name that its peers are told (a ZeroMQ identity; at most 255 bytes of it).
    /// Routers and dealers tell it.
    #[must_use]
    pub fn named(mut self, name: &str) -> Self {
        self.peers.rules.identity = name.as_bytes().to_vec();
        self
    }

    /// The same end with the keys of a token: on `tcp://` addresses it talks to nobody who does not have it,
    /// and everything is encrypted.
    #[must_use]
    pub fn secured(mut self, keys: Keys) -> Self {
        self.peers.keys = Some(Arc::new(keys));
        self
    }

    /// Listens. Returns the address really bound: the port, where 0 was asked for.
    ///
    /// A socket file that a killed process left behind is replaced. An end without keys
    /// ([`Zmq::secured`]) can't tell who connects, and listens on this machine alone.
    ///
    /// # Errors
    /// [`TransportError::Address`] where other machines could connect, or the name is not known;
    /// [`TransportError::Driver`] where the address can't be had.
    pub fn bind(&mut self, address: &Address) -> Result<Address, TransportError> {
        let peer = address.resolve()?;
        if !is_local(&peer) && self.peers.keys.is_none() {
            let reason = "anybody could connect; give both sides a token, or listen on ipc:// or on a \
                          loopback address";
            return Err(address.wrong(reason));
        }
        let bound = match self.driver.listen(&peer) {
            Err(DriverError::Listen { source, .. })
                if source.kind() == io::ErrorKind::AddrInUse && remove_deserted(&peer) =>
            {
                self.driver.listen(&peer)?
            }
            result => result?,
        };
        let bound = address.bound(&bound);
        if let Address::Ipc(path) = &bound
            && is_socket(path)
        {
            self.paths.push(path.clone());
        }
        self.peers.bound.push(bound.clone());
        Ok(bound)
    }

    /// Connects, now and again whenever the connection is lost: after `reconnect_min`, then ever more
    /// seldom up to `reconnect_max`. Whether somebody is there is told by the receiver.
    ///
    /// # Errors
    /// [`TransportError::Address`] where the host is not known.
    pub fn connect(&mut self, address: &Address) -> Result<(), TransportError> {
        let peer = address.resolve()?;
        self.peers.links.push(Link::new(address.clone(), peer));
        self.peers.links_due = Nanos::ZERO;
        Ok(())
    }

    /// What it is.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.peers.rules.kind
    }

    /// The driver, for its counters.
    #[must_use]
    pub const fn driver(&self) -> &D {
        &self.driver
    }

    /// Where messages go next, or why not.
    #[inline]
    fn choose(&mut self, to: To, bytes: usize) -> Result<Token, Refused> {
        let bytes_max = self.peers.limits.message_bytes_max;
        if bytes > bytes_max {
            return Err(Refused::TooLong { bytes, bytes_max });
        }
        match to {
            To::Peer(peer) => {
                let token = connection::token(peer);
                let connection = self.peers.get(token).filter(|peer| peer.takes());
                let connection = connection.ok_or(Refused::Gone)?;
                self.has_room(connection, bytes)
                    .then_some(token)
                    .ok_or(Refused::Full)
            }
            To::Any => {
                let count = self.peers.up.len();
                if count == 0 || !self.peers.rules.kind.sends() {
                    return Err(Refused::NoPeer);
                }
                for _ in 0..count {
                    let at = self.peers.next_to % count;
                    self.peers.next_to = at + 1;
                    let token = self.peers.token(self.peers.up[at]);
                    if let Some(connection) = self.peers.get(token)
                        && self.has_room(connection, bytes)
                    {
                        return Ok(token);
                    }
                }
                Err(Refused::Full)
            }
        }
    }

    #[inline]
    fn has_room(&self, connection: &Connection, bytes: usize) -> bool {
        let limits = &self.peers.limits;
        let queued = connection.outbox.queued();
        let total = queued.bytes + (bytes + HEADER_BYTES_MAX) as u64;
        queued.messages < limits.queued_messages_max.max(1)
            && total <= limits.queue_bytes(HEADER_BYTES_MAX) as u64
    }

    #[inline]
    fn put(&mut self, token: Token, message: Message<'_>) {
        let peers = &mut self.peers;
        let place = &mut peers.places[token.index as usize];
        let Some(connection) = place.connection.as_deref_mut() else {
            return;
        };
        let mut way = way(self.driver.commands(), token, &mut peers.spare);
        if connection.session.is_sealed() {
            put_sealed(connection, message.bytes(), &mut way);
        } else {
            if connection.session.delimits() {
                let (empty, count) = frame::header(MORE, 0);
                connection.outbox.put_bytes(&empty[..count], &mut way);
            }
            match message {
                Message::Lent(message) => connection.outbox.put(0, message, &mut way),
                Message::Shared(message) => connection.outbox.put_shared(0, message, &mut way),
            }
        }
        if !place.is_unflushed {
            place.is_unflushed = true;
            peers.unflushed.push(token.index);
        }
    }
}

enum Message<'a> {
    Lent(&'a [u8]),
    Shared(Bytes),
}

impl Message<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Lent(bytes) => bytes,
            Self::Shared(bytes) => bytes,
        }
    }
}

/// Encrypted, a message is another one: it is copied whatever it was.
fn put_sealed(connection: &mut Connection, message: &[u8], way: &mut Way<'_>) {
    let mut frames = Vec::with_capacity(message.len() + 64);
    if connection.session.delimits() {
        connection.session.seal(MORE, &[], &mut frames);
    }
    connection.session.seal(0, message, &mut frames);
    connection.outbox.put_frame(&frames, way);
}

impl<D: Driver, C: Clock> Transport for Zmq<D, C> {
    type Waker = D::Waker;

    #[inline]
    fn send(&mut self, to: To, message: &[u8]) -> Result<(), Refused> {
        let token = self.choose(to, message.len())?;
        self.put(token, Message::Lent(message));
        Ok(())
    }

    fn send_shared(&mut self, to: To, message: Bytes) -> Result<(), Refused> {
        if message.len() < SHARED_BYTES_MIN {
            return self.send(to, &message);
        }
        let token = self.choose(to, message.len())?;
        self.put(token, Message::Shared(message));
        Ok(())
    }

    fn turn<R: Receiver>(
        &mut self,
        deadline: Nanos,
        receiver: &mut R,
    ) -> Result<Turn, TransportError> {
        let peers = &mut self.peers;
        let now = self.clock.now();
        let mut turn = Turn {
            now,
            ..Turn::default()
        };
        let commands = self.driver.commands();
        peers.connect_due(now, commands);
        peers.catch_up(commands, receiver, &mut turn);
        peers.set_paused(receiver.flow() == Flow::Hold, now, commands);
        peers.flush(commands);
        let delivered = turn.messages > 0 || turn.events > 0;
        let due = peers.links_due.min(peers.peers_due);
        let deadline = if delivered {
            Nanos::ZERO
        } else {
            deadline.min(due)
        };
        let mut desk = Desk {
            peers,
            receiver,
            turn: &mut turn,
        };
        let below = self.driver.turn(deadline, &mut desk)?;
        turn.woken = below.woken;
        turn.waited = below.waited;
        turn.now = below.reaped;
        self.peers.check_peers(turn.now, self.driver.commands());
        Ok(turn)
    }

    fn part(&mut self, peer: PeerId) {
        let now = self.clock.now();
        self.peers.part(peer, now, self.driver.commands());
    }

    fn queued(&self, peer: PeerId) -> Queued {
        self.peers
            .get(connection::token(peer))
            .map_or_else(Queued::default, |connection| connection.outbox.queued())
    }

    fn queued_all(&self) -> Queued {
        let places = self.peers.places.iter();
        places.filter_map(|place| place.connection.as_deref()).fold(
            Queued::default(),
            |sum, connection| {
                let Queued { messages, bytes } = connection.outbox.queued();
                Queued {
                    messages: sum.messages + messages,
                    bytes: sum.bytes + bytes,
                }
            },
        )
    }

    fn waker(&self) -> D::Waker {
        self.driver.waker()
    }
}

impl<D: Driver, C> Drop for Zmq<D, C> {
    fn drop(&mut self) {
        for path in &self.paths {
            // Gone already if the driver removed it.
            let _ = fs::remove_file(path);
        }
    }
}

fn is_socket(path: &Path) -> bool {
    fs::symlink_metadata(path).is_ok_and(|file| file.file_type().is_socket())
}

/// Removes a socket file that nobody listens on. Whether it did.
fn remove_deserted(peer: &Peer) -> bool {
    let Peer::Unix(path) = peer else { return false };
    let deserted = is_socket(path)
        && UnixStream::connect(path)
            .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    deserted && fs::remove_file(path).is_ok()
}
