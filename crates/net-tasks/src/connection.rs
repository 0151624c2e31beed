//! One connection: its link, its queue of sends, and what is known of its ends.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::rc::Rc;

use bytes::Bytes;
use ridgeline_net::{Closed, Token};

use crate::link::{Link, Parcel};

/// A body up to this long goes out with its head, copied behind it: two sends would be two segments.
const JOINED_MAX: usize = 16 << 10;

pub(crate) struct Connection<S> {
    pub(crate) token: Token,
    /// None if it could not even be made.
    pub(crate) link: Option<Rc<Link<S>>>,
    /// The handshake is done.
    pub(crate) up: bool,
    /// Sends not finished yet, oldest first; the front one is with the writer while `writing`.
    pub(crate) queue: VecDeque<Sending>,
    pub(crate) writing: bool,
    pub(crate) finish: Finish,
    /// Closed by the owner: nothing is received any more.
    pub(crate) deaf: bool,
    /// The owner wants nothing to be read for now.
    pub(crate) paused: bool,
    /// A buffer is with the reader.
    pub(crate) reading: bool,
    /// What was read before the owner's wish was known: kept until reading goes on.
    pub(crate) held: Option<(io::Result<usize>, Vec<u8>)>,
    /// FIN came and was told.
    pub(crate) ended: bool,
    /// Sending failed. What has arrived is still read; then `closed` is told.
    pub(crate) broken: Option<Closed>,
    /// `closed` is to be told.
    pub(crate) dead: Option<Closed>,
    /// In the driver's list of connections with something to hand over.
    pub(crate) in_flush: bool,
}

pub(crate) struct Sending {
    pub(crate) head: Vec<u8>,
    pub(crate) body: Bytes,
    /// Queued behind a FIN: given back in its turn, never sent.
    pub(crate) void: bool,
}

impl Sending {
    pub(crate) fn bytes(&self) -> usize {
        self.head.len() + self.body.len()
    }

    /// As the writer gets it. `joined` is an empty buffer.
    pub(crate) fn parcel(&self, mut joined: Vec<u8>) -> Parcel {
        joined.extend_from_slice(&self.head);
        let mut body = self.body.clone();
        if self.bytes() <= JOINED_MAX {
            joined.extend_from_slice(&mem::take(&mut body));
        }
        Parcel { joined, body }
    }
}

/// Where a connection is with its FIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    /// None asked for.
    No,
    /// After the queued sends, then receive on.
    Half,
    /// After the queued sends, then gone.
    Full,
    /// Sent.
    Done,
}

impl<S> Connection<S> {
    pub(crate) fn new(token: Token, link: Rc<Link<S>>, up: bool) -> Self {
        Self {
            link: Some(link),
            up,
            ..Self::failed(token, None)
        }
    }

    /// One that is over before it began.
    pub(crate) fn failed(token: Token, cause: Option<Closed>) -> Self {
        Self {
            token,
            link: None,
            up: false,
            queue: VecDeque::new(),
            writing: false,
            finish: Finish::No,
            deaf: false,
            paused: false,
            reading: false,
            held: None,
            ended: false,
            broken: None,
            dead: cause,
            in_flush: false,
        }
    }

    /// Whether a send, or the FIN after the last one, can be begun.
    pub(crate) fn can_send(&self) -> bool {
        self.up && !self.writing && self.dead.is_none() && self.broken.is_none()
    }

    /// Whether the reader is to be given a buffer.
    pub(crate) fn wants_bytes(&self) -> bool {
        let hears = self.up && !self.deaf && !self.ended && !self.paused;
        hears && self.dead.is_none() && !self.reading && self.held.is_none()
    }
}
