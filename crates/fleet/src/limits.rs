use ridgeline_clock::Nanos;

/// How long the ends wait for one another, and how much they have under way. Nothing waits without one
/// of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FleetLimits {
    /// Until every worker has answered.
    pub join: Nanos,
    /// From the plan until a worker is ready: it reads data sets and makes prompts meanwhile.
    pub prepare: Nanos,
    /// Between two signs of life.
    pub beat: Nanos,
    /// Without any message for this long the other end is taken for dead.
    pub silence: Nanos,
    /// From the end of the drain until the numbers are there, and for each part of the records.
    pub finish: Nanos,
    /// What requests in flight are given when a worker's coordinator is gone.
    pub orphan_drain: Nanos,
    /// How far ahead of the last round trip a common start lies.
    pub start_ahead: Nanos,
    /// Round trips from which the clocks' offset is taken.
    pub clock_samples: u32,
    /// Bytes of a part of a file or of the records.
    pub part_bytes: u32,
    /// Parts of the records that are asked for at one time.
    pub parts_asked: u32,
}

impl Default for FleetLimits {
    fn default() -> Self {
        Self {
            join: Nanos::from_secs(10),
            prepare: Nanos::from_secs(300),
            beat: Nanos::from_millis(500),
            silence: Nanos::from_secs(5),
            finish: Nanos::from_secs(10),
            orphan_drain: Nanos::from_secs(2),
            start_ahead: Nanos::from_millis(50),
            clock_samples: 24,
            part_bytes: 512 << 10,
            parts_asked: 4,
        }
    }
}
