use ridgeline_clock::Nanos;

use crate::bodies::{KEPT_BYTES_MAX, KEPT_MAX};

/// The bounds of a service. Memory follows from them: see [`Limits::bytes`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The longest message, in either direction.
    pub message_bytes_max: usize,
    /// Queries in one message.
    pub batch_max: usize,
    /// Queries that were taken and have no result yet, in flight or waiting. A message is taken while
    /// there are fewer, so that one message's more may be.
    pub queries_max: usize,
    /// The bodies of those, in the buffers that hold them. A message is taken while they are less.
    pub bodies_bytes_max: usize,
    /// Templates at one time.
    pub templates_max: usize,
    /// Their pieces together.
    pub templates_bytes_max: usize,
    /// Different endpoints.
    pub endpoints_max: usize,
    /// Errors that wait to be told. A message is read while there are fewer.
    pub errors_max: usize,
    /// Results in one message.
    pub results_max: usize,
    /// How far ahead a query may be due.
    pub due_ahead_max: Nanos,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            message_bytes_max: 16 << 20,
            batch_max: 4096,
            queries_max: 16_384,
            bodies_bytes_max: 256 << 20,
            templates_max: 1024,
            templates_bytes_max: 64 << 20,
            endpoints_max: 64,
            errors_max: 1024,
            results_max: 256,
            due_ahead_max: Nanos::from_secs(24 * 3_600),
        }
    }
}

impl Limits {
    /// Queries that may be unanswered, one message beyond [`Limits::queries_max`].
    #[must_use]
    pub const fn unanswered_max(&self) -> usize {
        self.queries_max + self.batch_max
    }

    /// Bytes that queries, bodies and templates take at most, besides what the engine and the transports
    /// take for themselves.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        let query = size_of::<ridgeline_engine::Query>() as u64;
        // On their way to the shard, and in its two queues of those that wait.
        let queries = self.unanswered_max() as u64 * 3 * query;
        // A message is copied when it is taken, and may be the one that fills the bound.
        let bodies = (self.bodies_bytes_max + 2 * self.message_bytes_max) as u64;
        // Buffers between two messages.
        let kept = (KEPT_MAX * KEPT_BYTES_MAX) as u64;
        queries + bodies + kept + self.templates_bytes_max as u64
    }
}
