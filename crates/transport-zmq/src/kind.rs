use std::fmt;

/// What an end does, in ZeroMQ's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Sends to its peers in turn. Data.
    Push,
    /// Receives from all. Data.
    Pull,
    /// Sends to peers by name, and receives from all. Control, the side that many connect to.
    Router,
    /// Sends to its peers in turn, and receives from all. Control, the other side.
    Dealer,
}

impl Kind {
    /// As it is written in the handshake.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Push => "PUSH",
            Self::Pull => "PULL",
            Self::Router => "ROUTER",
            Self::Dealer => "DEALER",
        }
    }

    /// Whether it can talk to a socket of this type.
    #[must_use]
    pub fn fits(self, theirs: &[u8]) -> bool {
        match self {
            Self::Push => theirs == b"PULL",
            Self::Pull => theirs == b"PUSH",
            Self::Router => [&b"DEALER"[..], b"REQ", b"ROUTER"].contains(&theirs),
            Self::Dealer => [&b"ROUTER"[..], b"DEALER"].contains(&theirs),
        }
    }

    /// Whether it sends messages.
    #[must_use]
    pub const fn sends(self) -> bool {
        !matches!(self, Self::Pull)
    }

    /// Whether it receives messages.
    #[must_use]
    pub const fn receives(self) -> bool {
        !matches!(self, Self::Push)
    }

    /// Whether its handshake says who it is, and its messages may stand behind an empty frame.
    #[must_use]
    pub const fn is_named(self) -> bool {
        matches!(self, Self::Router | Self::Dealer)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
