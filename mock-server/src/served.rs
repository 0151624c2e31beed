use crate::fault::FaultCounts;
use crate::pace::LateTally;

/// What a server counted. Each shard counts for itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Connections accepted.
    pub connections: u64,
    /// Connections reset at once, because `connections_max` were open.
    pub connections_refused: u64,
    /// Requests whose head was read, and those that were too malformed for that.
    pub requests: u64,
    /// Those of them that were answered with an error.
    pub requests_refused: u64,
    /// Responses, errors too, that were handed to the kernel as a whole.
    pub answers: u64,
    /// Responses cut off, or not begun, because the connection went away.
    pub answers_cut: u64,
    /// Those of them that the server's own end cut off.
    pub answers_abandoned: u64,
    /// Tokens handed to the kernel.
    pub tokens: u64,
    /// Faults injected.
    pub faults: FaultCounts,
    /// How late writes were.
    pub lateness: LateTally,
    /// Requests that have a line in the truth file, and those that have none because its writer did not
    /// keep up or could not write.
    pub truth_lines: u64,
    /// See [`Served::truth_lines`].
    pub truth_dropped: u64,
}

impl Served {
    /// Adds the counts of another shard.
    pub fn merge(&mut self, other: &Self) {
        self.connections += other.connections;
        self.connections_refused += other.connections_refused;
        self.requests += other.requests;
        self.requests_refused += other.requests_refused;
        self.answers += other.answers;
        self.answers_cut += other.answers_cut;
        self.answers_abandoned += other.answers_abandoned;
        self.tokens += other.tokens;
        self.faults.merge(&other.faults);
        self.lateness.merge(&other.lateness);
        self.truth_lines += other.truth_lines;
        self.truth_dropped += other.truth_dropped;
    }
}
