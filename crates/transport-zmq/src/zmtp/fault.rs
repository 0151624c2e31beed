use ridgeline_transport::Cause;

/// What a peer did that the protocol, or this end, does not allow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Fault {
    /// The first bytes are of something else.
    #[error("it does not speak ZMTP")]
    NotZmtp,
    /// A version before 3.0, as the greeting numbers it.
    #[error("it speaks ZMTP 2.0 (revision {0}), 3.0 or later is needed")]
    Version(u8),
    /// The greeting has bytes that mean nothing.
    #[error("its greeting is malformed")]
    Greeting,
    /// The two sides want different security.
    #[error("it asks for mechanism {theirs}, this end for {ours}")]
    Mechanism {
        /// What the peer asks for.
        theirs: String,
        /// What this end asks for.
        ours: &'static str,
    },
    /// It does not have the same token, or bytes were changed on their way.
    #[error("it does not have this end's token")]
    Secret,
    /// A frame with flags that mean nothing.
    #[error("a frame has the flags {0:#04x}")]
    Flags(u8),
    /// A command that can't be read.
    #[error("a command is malformed")]
    Command,
    /// A command longer than any that is known.
    #[error("a command has {0} bytes")]
    CommandTooLong(u64),
    /// The properties of the handshake can't be read.
    #[error("the properties in its handshake are malformed")]
    Properties,
    /// The handshake was not kept to.
    #[error("{0} came where the handshake was expected")]
    Handshake(&'static str),
    /// The two kinds of socket have nothing to say to each other.
    #[error("a {ours} can't talk to a {theirs}")]
    Kind {
        /// The peer's.
        theirs: String,
        /// This end's.
        ours: &'static str,
    },
    /// The peer refused, in its own words.
    #[error("it said: {0}")]
    Refused(String),
    /// A message of several frames.
    #[error("a message has several frames, only one is understood")]
    Parts,
    /// A message from a peer of a kind that only receives.
    #[error("a message came from a socket that only receives")]
    OneWay,
    /// A message over the limit.
    #[error("a message of {bytes} bytes, {bytes_max} are allowed")]
    TooLong {
        /// Its length.
        bytes: u64,
        /// The limit.
        bytes_max: usize,
    },
}

impl Fault {
    /// Whether the peer is told by an `ERROR` command why it is let go.
    #[must_use]
    pub const fn is_said(&self) -> bool {
        matches!(
            self,
            Self::Mechanism { .. } | Self::Kind { .. } | Self::Handshake(_) | Self::Secret
        )
    }

    /// What the layer above is told.
    #[must_use]
    pub fn cause(&self) -> Cause {
        match self {
            Self::Mechanism { .. } | Self::Kind { .. } | Self::Refused(_) | Self::Secret => {
                Cause::Refused(self.to_string())
            }
            Self::TooLong { bytes, bytes_max } => Cause::TooLong {
                bytes: *bytes,
                bytes_max: *bytes_max,
            },
            _ => Cause::Malformed(self.to_string()),
        }
    }
}
