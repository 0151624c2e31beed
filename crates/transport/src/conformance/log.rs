use std::collections::HashMap;

use crate::{Cause, Flow, Left, PeerId, Receiver};

/// Message number `number` of `bytes` bytes: two messages seldom look alike.
#[must_use]
pub fn pattern(number: u64, bytes: usize) -> Vec<u8> {
    (0..bytes as u64)
        .map(|offset| {
            let mixed = (offset ^ (number << 32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            mixed.to_le_bytes()[5]
        })
        .collect()
}

/// What was seen of one peer.
#[derive(Debug, Default)]
pub struct Seen {
    /// What it is called.
    pub who: String,
    /// Messages, oldest first.
    pub messages: Vec<Vec<u8>>,
    /// How it left.
    pub left: Option<Left>,
}

/// A receiver that remembers, and panics as soon as a transport breaks a rule.
#[derive(Debug)]
pub struct Log {
    peers: HashMap<PeerId, Seen>,
    order: Vec<PeerId>,
    unmet: Vec<(String, Cause)>,
    /// How many messages it takes until it holds.
    room: u64,
}

impl Default for Log {
    fn default() -> Self {
        Self {
            peers: HashMap::new(),
            order: Vec::new(),
            unmet: Vec::new(),
            room: u64::MAX,
        }
    }
}

impl Log {
    /// From now on takes `room` messages, and then holds.
    pub fn set_room(&mut self, room: u64) {
        self.room = room;
    }

    /// Whoever joined first and is not gone.
    #[must_use]
    pub fn peer(&self) -> Option<PeerId> {
        let here = |peer: &&PeerId| self.peers[peer].left.is_none();
        self.order.iter().find(here).copied()
    }

    /// Everyone who joined, in order.
    #[must_use]
    pub fn joined(&self) -> &[PeerId] {
        &self.order
    }

    /// What was seen of a peer.
    ///
    /// # Panics
    /// When it never joined.
    #[must_use]
    pub fn seen(&self, peer: PeerId) -> &Seen {
        &self.peers[&peer]
    }

    /// All messages, of each peer in order, peers in the order in which they joined.
    #[must_use]
    pub fn messages(&self) -> Vec<&[u8]> {
        let peers = self.order.iter().map(|peer| &self.peers[peer]);
        peers
            .flat_map(|seen| seen.messages.iter().map(Vec::as_slice))
            .collect()
    }

    /// How the first peer that left did so.
    #[must_use]
    pub fn left(&self) -> Option<&Left> {
        self.order
            .iter()
            .find_map(|peer| self.peers[peer].left.as_ref())
    }

    /// Those who did not get as far as `joined`.
    #[must_use]
    pub fn unmet(&self) -> &[(String, Cause)] {
        &self.unmet
    }

    fn present(&mut self, peer: PeerId, what: &str) -> &mut Seen {
        let seen = self.peers.get_mut(&peer);
        let seen = seen.unwrap_or_else(|| panic!("{what} of {peer:?}, who never joined"));
        assert_eq!(seen.left, None, "{what} of {peer:?}, who is gone");
        seen
    }
}

impl Receiver for Log {
    fn joined(&mut self, peer: PeerId, who: &str) {
        assert!(!who.is_empty(), "{peer:?} has no name");
        let seen = Seen {
            who: who.to_owned(),
            ..Seen::default()
        };
        let before = self.peers.insert(peer, seen);
        assert!(before.is_none(), "{peer:?} joined twice");
        self.order.push(peer);
    }

    fn message(&mut self, peer: PeerId, message: &[u8]) -> Flow {
        assert!(self.room > 0, "a message although the receiver holds");
        self.room -= 1;
        self.present(peer, "a message")
            .messages
            .push(message.to_vec());
        self.flow()
    }

    fn left(&mut self, peer: PeerId, left: &Left) {
        assert!(!left.to_string().is_empty());
        self.present(peer, "left").left = Some(left.clone());
    }

    fn unmet(&mut self, who: &str, cause: &Cause) {
        self.unmet.push((who.to_owned(), cause.clone()));
    }

    fn flow(&self) -> Flow {
        if self.room == 0 {
            Flow::Hold
        } else {
            Flow::More
        }
    }
}
