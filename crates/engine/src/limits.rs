use ridgeline_metrics::{Collector, GapPool};
use ridgeline_wire::exchange::ExchangeLimits;

/// Every bound of a run, fixed before it starts. Memory is their sum: see [`Limits::memory`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Requests in flight over all shards, where the load names no number of its own.
    pub slots: u32,
    /// Connections being set up at one time, per shard: no burst of SYNs.
    pub connecting_max: u32,
    /// A response head, status line and fields, trailers likewise.
    pub head_bytes_max: usize,
    /// One event of a stream.
    pub event_bytes_max: usize,
    /// The body of an answer that is not a stream, and the text of one that is, when it is saved.
    pub body_bytes_max: usize,
    /// Kept per connection for the start of an event or line that a read cut.
    pub carry_inline_bytes: usize,
    /// Lent by each shard to connections whose cut event is larger than that.
    pub carry_pool_bytes_max: usize,
    /// Kept per slot of the last fully parsed event: the exact fast path compares with it.
    pub template_bytes_max: usize,
    /// Kept per shard of the last fully parsed head, and as much of the last whole body: two more exact
    /// fast paths.
    pub familiar_bytes_max: usize,
    /// A request up to this size, head and body, is sent from one buffer, which is another's when it was sent.
    pub send_inline_bytes: usize,
    /// Gaps per slot, in a pool of the shard, that wait for their request to succeed. Longer
    /// streams borrow what others leave; beyond that gaps are pooled early, and counted.
    pub gap_events: u32,
    /// Arrivals of content events kept per request, when they are saved; later ones only count.
    pub events_saved_max: usize,
    /// Finished requests that may wait for the thread that writes records, per shard.
    pub records_queued_max: usize,
    /// Tickets by which TLS connections are resumed, of all shards together.
    pub tls_tickets_max: usize,
    /// Of HTTP/2: what a server may send on a stream ahead of our updates. Data is taken out as it comes: windows
    /// hold no memory, and could only slow a server down.
    pub http2_stream_window_bytes: u32,
    /// Of HTTP/2: what it may send on all streams of a connection.
    pub http2_connection_window_bytes: u32,
    /// Provided receive buffers of a ring: size of each.
    pub receive_buffer_bytes: usize,
    /// Provided receive buffers of a ring: how many.
    pub receive_buffers: u16,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            slots: 4096,
            connecting_max: 256,
            head_bytes_max: 256 << 10,
            event_bytes_max: 16 << 20,
            body_bytes_max: 64 << 20,
            carry_inline_bytes: 512,
            carry_pool_bytes_max: 256 << 20,
            template_bytes_max: 512,
            familiar_bytes_max: 4 << 10,
            send_inline_bytes: 768,
            gap_events: 128,
            events_saved_max: 1 << 20,
            records_queued_max: 1 << 16,
            tls_tickets_max: 1024,
            http2_stream_window_bytes: 16 << 20,
            http2_connection_window_bytes: 1 << 30,
            receive_buffer_bytes: 64 << 10,
            receive_buffers: 128,
        }
    }
}

/// One consumer of memory: its name, and bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryLine {
    /// What the bytes are for.
    pub what: &'static str,
    /// Bytes over all shards.
    pub bytes: u64,
}

impl Limits {
    /// What the exchanges are built with.
    #[must_use]
    pub const fn exchange(&self) -> ExchangeLimits {
        ExchangeLimits {
            event_bytes_max: self.event_bytes_max,
            template_bytes_max: self.template_bytes_max,
            body_bytes_max: self.body_bytes_max,
        }
    }

    /// Connections of a shard with `slots` slots: one each, and room for those still closing.
    #[must_use]
    pub const fn connections(&self, slots: u32) -> u32 {
        slots + slots / 16 + 16
    }

    /// Memory by consumer, at the most, for `shards` shards of `slots` slots and `connections` connections
    /// each, which count in collectors like `collector`.
    #[must_use]
    pub fn memory(
        &self,
        shards: u32,
        slots: u32,
        connections: u32,
        collector: &Collector,
        record_bytes: usize,
    ) -> Vec<MemoryLine> {
        let line = |what, each: usize, count: u64| MemoryLine {
            what,
            bytes: each as u64 * count,
        };
        let shards = u64::from(shards);
        let slots_all = shards * u64::from(slots);
        let connections_all = shards * u64::from(connections);
        vec![
            // The state of a request and of the connection that carries it.
            line("requests in flight", crate::slot::SLOT_BYTES, slots_all),
            line(
                "connections",
                crate::connection::CONNECTION_BYTES,
                connections_all,
            ),
            // The head (and a small body) of the request being sent.
            line("send buffers", self.send_inline_bytes, connections_all),
            // The start of an event that a read cut.
            line("carry", self.carry_inline_bytes, connections_all),
            // The bytes around the content of the last event.
            line("event templates", self.template_bytes_max, slots_all),
            // The last head, and the last body that is not a stream.
            line("familiar answers", 2 * self.familiar_bytes_max, shards),
            // Gaps between events, until the request is known to have succeeded.
            line(
                "gaps",
                GapPool::BLOCK_BYTES,
                shards * u64::from(GapPool::blocks_for(slots, self.gap_events)),
            ),
            // The numbers of a run, of a fixed size.
            line("histograms", collector.bytes_allocated(), shards),
            // What the kernel receives into.
            line(
                "receive buffers",
                self.receive_buffer_bytes,
                shards * u64::from(self.receive_buffers),
            ),
            // Finished requests on their way to the file.
            line(
                "records queued",
                record_bytes,
                shards * self.records_queued_max as u64,
            ),
        ]
    }
}
