use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use ridgeline_clock::Nanos;

/// How bytes travel on a connection, in both directions, and what goes wrong on the way.
///
/// Shares are in parts per million and drawn for each segment. A share of 0 draws nothing, so that
/// switching one fault on leaves the draws of the others as they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// One way.
    pub latency: Nanos,
    /// Uniform, `0..=jitter` on top of `latency`. Segments never overtake one another.
    pub jitter: Nanos,
    /// Longer sends travel as several segments. 1 or more.
    pub segment_bytes_max: u32,
    /// How many segments are cut in two at a random place.
    pub split_ppm: u32,
    /// How many segments are not told on arrival but with the next one of their direction, so that
    /// one read covers both. Only if that next one arrives within `merge_within`.
    pub merge_ppm: u32,
    /// See `merge_ppm`.
    pub merge_within: Nanos,
    /// How many segments are held up, and everything behind them, by `stall`.
    pub stall_ppm: u32,
    /// See `stall_ppm`.
    pub stall: Nanos,
    /// How many segments are lost to a reset, which both ends see.
    pub reset_ppm: u32,
    /// What one direction holds between the sender and the reader. A longer send makes progress as
    /// the reader reads. Sends of scripted peers are not bounded. 1 or more.
    pub send_buffer_bytes: u32,
}

impl Default for Shape {
    /// 10 us one way and no faults.
    fn default() -> Self {
        Self {
            latency: Nanos::from_micros(10),
            jitter: Nanos::ZERO,
            segment_bytes_max: 16 << 10,
            split_ppm: 0,
            merge_ppm: 0,
            merge_within: Nanos::from_millis(1),
            stall_ppm: 0,
            stall: Nanos::from_millis(200),
            reset_ppm: 0,
            send_buffer_bytes: 256 << 10,
        }
    }
}

/// What happens to a connection attempt at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Fate {
    /// Accepted where somebody listens, else refused.
    #[default]
    Answered,
    /// Refused, whether or not somebody listens.
    Refused,
    /// Never answered: the attempt times out.
    Silent,
    /// No route.
    Unreachable,
}

/// A virtual network and its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SimConfig {
    /// Everything random is drawn from it.
    pub seed: u64,
    /// How bytes travel where no other shape is set ([`SimNet::shape`](super::SimNet::shape)).
    pub shape: Shape,
    /// Connections of the whole network; the next one is `Closed::NoResources`.
    pub connections_max: u32,
    /// Connections from one source address to one destination; the next one is `Closed::NoPorts`.
    pub ports_max: u32,
    /// After this long an unanswered attempt is `Closed::TimedOut`.
    pub connect_timeout: Nanos,
    /// How late a waiting program is told: the time from an event, or the deadline, to the return
    /// of the wait.
    pub wake_delay: Nanos,
    /// Uniform, `0..=wake_jitter` on top of `wake_delay`.
    pub wake_jitter: Nanos,
    /// Whether reads carry the time their last segment arrived, or the time of reaping.
    pub rx_timestamps: bool,
    /// The longest read. 1 or more.
    pub read_bytes_max: u32,
}

impl Default for SimConfig {
    /// A network without faults: seed 0, arrivals stamped, programs told at once.
    fn default() -> Self {
        Self {
            seed: 0,
            shape: Shape::default(),
            connections_max: 1 << 20,
            ports_max: 28_232, // Linux: ip_local_port_range 32768-60999
            connect_timeout: Nanos::from_secs(127), // Linux: tcp_syn_retries 6
            wake_delay: Nanos::ZERO,
            wake_jitter: Nanos::ZERO,
            rx_timestamps: true,
            read_bytes_max: 64 << 10,
        }
    }
}

/// The dice of the network.
#[derive(Debug)]
pub(super) struct Dice(pub(super) Pcg64Mcg);

impl Dice {
    /// Whether something of this share happens now.
    pub(super) fn falls(&mut self, ppm: u32) -> bool {
        ppm > 0 && self.upto(999_999) < u64::from(ppm)
    }

    /// Uniform, `0..=most`.
    pub(super) fn upto(&mut self, most: u64) -> u64 {
        if most == 0 {
            return 0;
        }
        let product = u128::from(self.0.next_u64()) * (u128::from(most) + 1);
        u64::try_from(product >> 64).unwrap_or(most)
    }
}
