use ridgeline_clock::Nanos;

/// What a [`UringDriver`](crate::UringDriver) is sized and tuned by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UringConfig {
    /// Connections at one time, and the range of `Token::index`. Each needs an entry of the ring's
    /// file table, which the kernel limits to RLIMIT_NOFILE per ring.
    pub connections_max: u32,
    /// Whether received bytes carry the kernel's receive stamps (SO_TIMESTAMPING, software). Costs
    /// 2-11 % of CPU time per request; without it bytes are stamped when they are reaped. Unix
    /// sockets have no stamps. The kernel merges segments that wait in a socket and keeps the last
    /// one's stamp, a FIN's too.
    pub rx_timestamps: bool,
    /// Submission queue entries, rounded up to a power of two. A full queue costs one more system
    /// call, nothing else.
    pub sq_entries: u32,
    /// Completion queue entries, rounded up to a power of two. A full queue loses nothing: the
    /// kernel keeps the rest, which costs it an allocation each. But accepts and receives that go on by themselves
    /// end at a full queue, and are armed again once a turn.
    pub cq_entries: u32,
    /// Received bytes one provided buffer holds.
    pub buffer_bytes: u32,
    /// Provided buffers, rounded up to a power of two, at most 32,768. A receive that finds none
    /// free ends and is armed again.
    pub buffers_count: u16,
    /// How long before a deadline the wait becomes a busy poll. Zero: never. Trades CPU time for
    /// waking at the deadline instead of a scheduler's delay after it.
    pub spin: Nanos,
    /// Whether listeners share their port with other drivers (SO_REUSEPORT): the kernel spreads
    /// connections over them.
    pub reuse_port: bool,
}

impl UringConfig {
    /// The defaults for `connections_max` connections.
    ///
    /// Buffers: 16 KiB was the best of 4, 16 and 64 KiB for streams that coalesce. The kernel hands
    /// buffers out in turn, so all of them pass through the cache: 256 (4 MiB) took less CPU time
    /// per byte than 512 or 1,024, although bursts of 64 such streams then ended one receive in 20
    /// for want of a buffer. Arming a receive again is cheaper than filling a cold buffer.
    #[must_use]
    pub const fn new(connections_max: u32) -> Self {
        Self {
            connections_max,
            rx_timestamps: false,
            sq_entries: 1_024,
            cq_entries: completions(connections_max),
            buffer_bytes: 16 * 1_024,
            buffers_count: 256,
            spin: Nanos::ZERO,
            reuse_port: false,
        }
    }

    /// For a few connections that carry messages at the full speed of a core: few buffers and large
    /// ones, so that what one core wrote is read while it is still in the cache.
    #[must_use]
    pub const fn for_messages(connections_max: u32) -> Self {
        Self {
            buffer_bytes: 64 * 1_024,
            buffers_count: 8,
            ..Self::new(connections_max)
        }
    }
}

/// Room for a completion of most connections: they may come in one turn, as when a server writes to all of them at
/// the same time. Within what the kernel allows (IORING_MAX_CQ_ENTRIES).
const fn completions(connections_max: u32) -> u32 {
    match connections_max {
        0..=4_096 => 4_096,
        4_097..=65_535 => 1 << connections_max.ilog2(),
        _ => 1 << 16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn most_connections_have_room_for_a_completion() {
        let entries = |connections| UringConfig::new(connections).cq_entries;
        assert_eq!([1, 4_096].map(entries), [4_096; 2]);
        assert_eq!([17_203, 32_768].map(entries), [16_384, 32_768]);
        assert_eq!([65_536, u32::MAX].map(entries), [1 << 16; 2]);
    }
}
