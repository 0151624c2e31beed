use std::fmt;

use rustls::client::UnbufferedClientConnection;
use rustls::server::UnbufferedServerConnection;
use rustls::{HandshakeKind, ProtocolVersion};

use crate::error::TlsError;
use crate::steps::{self, End, Read};

/// What a session takes while nothing is cut, bytes, about, with the tickets that it left: measured with
/// rustls 0.23, and held by a test.
pub const SESSION_BYTES: usize = 6 << 10;

/// What a session keeps of cut records and messages at the most, bytes: rustls allows a message of a
/// handshake 64 KiB, and behind it lies at most one record that is not whole.
pub const HELD_BYTES_MAX: usize = (64 << 10) + (18 << 10);

/// Up to this size the buffer of what was cut stays with its session.
const KEPT_BYTES: usize = 512;

/// Buffers that one session at a time works in: one of them for all sessions of a thread.
#[derive(Debug, Default)]
pub struct Scratch {
    incoming: Vec<u8>,
    plain: Vec<u8>,
}

impl Scratch {
    /// What the bytes that were received last say.
    #[inline]
    #[must_use]
    pub fn plain(&self) -> &[u8] {
        &self.plain
    }
}

/// A version of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// TLS 1.2.
    Tls12,
    /// TLS 1.3.
    Tls13,
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Tls12 => "TLS 1.2",
            Self::Tls13 => "TLS 1.3",
        })
    }
}

pub(crate) enum Side {
    Client(Box<UnbufferedClientConnection>),
    Server(Box<UnbufferedServerConnection>),
}

/// One end of one connection.
///
/// After an error it says the same error again; what it gave to send until then is still to be sent.
pub struct Session {
    side: Side,
    /// The name that was asked for, of a client.
    peer: Option<Box<str>>,
    /// The start of a record or message that a read cut.
    rest: Vec<u8>,
    is_ended: bool,
    is_closed: bool,
    failed: Option<Box<TlsError>>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("is_ready", &self.is_ready())
            .field("held_bytes", &self.held_bytes())
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

impl Session {
    pub(crate) fn new(side: Side, peer: Option<Box<str>>) -> Self {
        Self {
            side,
            peer,
            rest: Vec::new(),
            is_ended: false,
            is_closed: false,
            failed: None,
        }
    }

    /// Appends the first bytes to send to `out`; a server's are none.
    ///
    /// # Errors
    /// When there is nothing that could be said.
    pub fn begin(&mut self, out: &mut Vec<u8>) -> Result<(), TlsError> {
        self.received(&[], &mut Scratch::default(), out)
    }

    /// Bytes came. What they say, as far as that is whole, is then in `scratch`; what is to be sent is
    /// appended to `out`. After [`Session::close`] nothing is heard.
    ///
    /// # Errors
    /// When the peer can't be understood or trusted. What was said before that is in `scratch` all the
    /// same, and an alert for the peer in `out`.
    pub fn received(
        &mut self,
        bytes: &[u8],
        scratch: &mut Scratch,
        out: &mut Vec<u8>,
    ) -> Result<(), TlsError> {
        let Scratch { incoming, plain } = scratch;
        plain.clear();
        if let Some(failed) = &self.failed {
            return Err((**failed).clone());
        }
        if self.is_closed {
            return Ok(());
        }
        incoming.clear();
        incoming.extend_from_slice(&self.rest);
        incoming.extend_from_slice(bytes);
        let Read {
            used,
            ended,
            failed,
        } = match &mut self.side {
            Side::Client(end) => steps::read(&mut **end, incoming, plain, out),
            Side::Server(end) => steps::read(&mut **end, incoming, plain, out),
        };
        self.is_ended |= ended;
        if let Some(error) = failed {
            return Err(self.fail(TlsError::new(&error, self.peer.as_deref())));
        }
        self.keep(&incoming[used..])
    }

    /// Keeps the start of something.
    fn keep(&mut self, rest: &[u8]) -> Result<(), TlsError> {
        self.rest.clear();
        // After the end nothing counts.
        let rest = if self.is_ended { &[] } else { rest };
        if rest.len() > HELD_BYTES_MAX {
            let error = TlsError::protocol("the peer sends a message of a handshake without end");
            return Err(self.fail(error));
        }
        if self.rest.capacity() > KEPT_BYTES.max(2 * rest.len()) {
            self.rest = Vec::new();
        }
        self.rest.extend_from_slice(rest);
        Ok(())
    }

    fn fail(&mut self, error: TlsError) -> TlsError {
        self.rest = Vec::new();
        self.failed = Some(Box::new(error.clone()));
        error
    }

    /// Appends `plain` to `out`, for the peer alone to read.
    ///
    /// # Errors
    /// Before the session is ready, and after it failed or was closed.
    pub fn write(&mut self, plain: &[u8], out: &mut Vec<u8>) -> Result<(), TlsError> {
        if let Some(failed) = &self.failed {
            return Err((**failed).clone());
        }
        let written = match &mut self.side {
            Side::Client(end) => steps::write(&mut **end, &mut self.rest, plain, out),
            Side::Server(end) => steps::write(&mut **end, &mut self.rest, plain, out),
        };
        written.map_err(|error| TlsError::new(&error, self.peer.as_deref()))
    }

    /// Appends to `out` that nothing more will be said, where that can be said.
    pub fn close(&mut self, out: &mut Vec<u8>) {
        if self.is_closed || self.failed.is_some() || !self.is_ready() {
            return;
        }
        self.is_closed = true;
        // A session that can't say so any more is as good as closed.
        let _ = match &mut self.side {
            Side::Client(end) => steps::close(&mut **end, &mut self.rest, out),
            Side::Server(end) => steps::close(&mut **end, &mut self.rest, out),
        };
    }

    fn common(&self) -> &rustls::CommonState {
        match &self.side {
            Side::Client(end) => end.common(),
            Side::Server(end) => end.common(),
        }
    }

    /// Whether the handshake is over, so that both sides can speak.
    #[inline]
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !self.common().is_handshaking()
    }

    /// Whether the peer said that it will say nothing more. A connection that ends without that may have
    /// been cut by anybody.
    #[inline]
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Whether the handshake was short, by what an earlier connection left.
    #[must_use]
    pub fn is_resumed(&self) -> bool {
        self.common().handshake_kind() == Some(HandshakeKind::Resumed)
    }

    /// The protocol to be spoken inside (ALPN), where one was agreed on.
    #[must_use]
    pub fn protocol(&self) -> Option<&[u8]> {
        self.common().alpn_protocol()
    }

    /// The version, once it is agreed on.
    #[must_use]
    pub fn version(&self) -> Option<Version> {
        match self.common().protocol_version() {
            Some(ProtocolVersion::TLSv1_2) => Some(Version::Tls12),
            Some(ProtocolVersion::TLSv1_3) => Some(Version::Tls13),
            _ => None,
        }
    }

    /// Bytes of cut records and messages that it keeps.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.rest.capacity()
    }
}
