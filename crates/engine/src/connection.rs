use ridgeline_clock::Nanos;
use ridgeline_net::Token;
use ridgeline_wire::carry::Carry;
use ridgeline_wire::http1::ResponseDecoder;

use crate::limits::Limits;
use crate::secure::Secure;
use crate::streams::Streams;

/// Bytes of one connection in its slab, without its buffers.
pub(crate) const CONNECTION_BYTES: usize = size_of::<Connection>();

/// What a connection is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The place is free.
    Free,
    /// Being set up for the slot that asked for it, its TLS handshake included.
    Connecting,
    /// Up, and carrying nothing.
    Idle,
    /// Carrying an exchange.
    Busy,
    /// Given up: waiting for the driver to say that it is gone.
    Closing,
}

/// One connection to the endpoint.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) generation: u32,
    pub(crate) state: State,
    /// The slot whose exchange it carries.
    pub(crate) slot: Option<u32>,
    /// Where it goes.
    pub(crate) endpoint: u16,
    /// Whose it is, where connections are for sessions.
    pub(crate) session: Option<u64>,
    /// Whether it carried an exchange before this one: only then may the endpoint have closed it
    /// for being idle.
    pub(crate) reused: bool,
    /// When its last exchange was over, while it carries none.
    pub(crate) idle_since: Nanos,
    /// When setting it up began.
    pub(crate) opening_since: Nanos,
    pub(crate) http: ResponseDecoder,
    pub(crate) carry: Carry,
    /// What secures it; `None` of one in the clear.
    pub(crate) secure: Option<Box<Secure>>,
    /// What it carries in the place of `slot` where it speaks HTTP/2.
    pub(crate) streams: Option<Box<Streams>>,
    /// Whether it will speak HTTP/2, or may, and how many streams it takes is not known yet.
    pub(crate) unsettled: bool,
}

impl Connection {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self {
            generation: 0,
            state: State::Free,
            slot: None,
            endpoint: 0,
            session: None,
            reused: false,
            idle_since: Nanos::ZERO,
            opening_since: Nanos::ZERO,
            http: ResponseDecoder::new(limits.head_bytes_max),
            carry: Carry::new(limits.carry_inline_bytes),
            secure: None,
            streams: None,
            unsettled: false,
        }
    }

    pub(crate) fn token(&self, index: u32) -> Token {
        Token {
            index,
            generation: self.generation,
        }
    }
}
