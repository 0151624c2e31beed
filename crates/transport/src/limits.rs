use ridgeline_clock::Nanos;

/// The bounds of one end. Every queue and buffer of a transport follows from them.
///
/// An end holds at most `peers_max * (queued_bytes_max + message_bytes_max)` bytes, besides what its
/// driver needs: what waits to be sent to each peer, and one message of each that has come in part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest message, in either direction. One that is longer is [`Refused::TooLong`] when
    /// sent; a peer that sends one is let go.
    ///
    /// [`Refused::TooLong`]: crate::Refused::TooLong
    pub message_bytes_max: usize,
    /// What may wait to be sent to one peer, framing included. At least one message of any length
    /// always may.
    pub queued_bytes_max: usize,
    /// How many messages may wait to be sent to one peer. 1 or more.
    pub queued_messages_max: u64,
    /// Peers at one time; the next one is turned away.
    pub peers_max: u32,
    /// How often a peer that says nothing is asked whether it is there. `None`: never; then only a
    /// connection that ends tells that a peer is gone, which a machine that lost its network does not do.
    pub heartbeat: Option<Nanos>,
    /// With `heartbeat`: a peer that has said nothing for this long is gone. More than two
    /// heartbeats.
    pub silence_max: Nanos,
    /// How long a new connection may take until both sides know each other.
    pub handshake_max: Nanos,
    /// The wait before a connection is tried again. It doubles with every failure.
    pub reconnect_min: Nanos,
    /// The longest such wait.
    pub reconnect_max: Nanos,
}

impl Limits {
    /// For control: few messages, and a peer that is gone must be noticed. A heartbeat every second,
    /// silence of 5 s at most.
    #[must_use]
    pub const fn control() -> Self {
        Self {
            message_bytes_max: 64 << 20,
            queued_bytes_max: 64 << 20,
            queued_messages_max: 100_000,
            peers_max: 1_024,
            heartbeat: Some(Nanos::from_secs(1)),
            silence_max: Nanos::from_secs(5),
            handshake_max: Nanos::from_secs(5),
            reconnect_min: Nanos::from_millis(20),
            reconnect_max: Nanos::from_secs(1),
        }
    }

    /// For data: many messages, and no heartbeats: control has them.
    #[must_use]
    pub const fn data() -> Self {
        Self {
            message_bytes_max: 16 << 20,
            queued_bytes_max: 8 << 20,
            queued_messages_max: 1 << 20,
            peers_max: 64,
            heartbeat: None,
            ..Self::control()
        }
    }

    /// The bytes that may really wait for one peer: at least one message, framed.
    #[must_use]
    pub fn queue_bytes(&self, framing_bytes: usize) -> usize {
        self.queued_bytes_max
            .max(self.message_bytes_max.saturating_add(framing_bytes))
    }
}

impl Default for Limits {
    /// [`Limits::data`].
    fn default() -> Self {
        Self::data()
    }
}
