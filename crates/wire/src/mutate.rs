//! Damaged input for the decoders' tests: seeded, bounded by a count, or by time when asked.
//!
//! `RIDGELINE_MUTATE_SECS=60 cargo test -p ridgeline-wire --release mutated` runs every mutation
//! test for a minute. A failure names its seed and shows its bytes.

use ridgeline_clock::{Clock, MonotonicClock, Nanos};

/// SplitMix64: small, and good enough to damage bytes.
#[derive(Clone, Debug)]
pub(crate) struct Rng(u64);

impl Rng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `bound`, which is above zero.
    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    pub(crate) fn choose<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }
}

/// One of `corpus` with one to four damages: a byte changed, a range removed, repeated or
/// replaced, a token inserted, the rest cut off or taken from another member.
pub(crate) fn mutated(rng: &mut Rng, corpus: &[&[u8]], tokens: &[&[u8]]) -> Vec<u8> {
    let mut bytes = rng.choose(corpus).to_vec();
    for _ in 0..=rng.below(4) {
        let at = rng.below(bytes.len() + 1);
        let end = at + rng.below((bytes.len() - at).min(12) + 1);
        match rng.below(7) {
            0 if at < bytes.len() => bytes[at] ^= 1 << rng.below(8),
            1 if at < bytes.len() => bytes[at] = rng.next().to_le_bytes()[0],
            2 => drop(bytes.drain(at..end)),
            3 => {
                let copy = bytes[at..end].to_vec();
                bytes.splice(at..at, copy);
            }
            4 => bytes.truncate(at),
            5 => {
                let other = rng.choose(corpus);
                let from = rng.below(other.len() + 1);
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            _ => drop(bytes.splice(at..end, rng.choose(tokens).iter().copied())),
        }
    }
    bytes
}

/// `bytes` as reads of random size, one byte to all of them.
pub(crate) fn reads<'a>(rng: &mut Rng, mut bytes: &'a [u8]) -> Vec<&'a [u8]> {
    let longest = rng.choose(&[&1, &2, &7, &40, &4096]);
    let mut reads = Vec::new();
    while !bytes.is_empty() {
        let (read, rest) = bytes.split_at((1 + rng.below(*longest)).min(bytes.len()));
        reads.push(read);
        bytes = rest;
    }
    reads
}

/// Runs `check` with seeds from 0: `count` of them, or for the seconds in `RIDGELINE_MUTATE_SECS`.
pub(crate) fn rounds(count: u64, mut check: impl FnMut(u64, &mut Rng)) {
    let secs = std::env::var("RIDGELINE_MUTATE_SECS")
        .ok()
        .map(|secs| secs.parse().unwrap());
    let deadline = secs.map(|secs| MonotonicClock.now().saturating_add(Nanos::from_secs(secs)));
    let mut seed = 0;
    while deadline.map_or(seed < count, |at| MonotonicClock.now() < at) {
        check(seed, &mut Rng::new(seed));
        seed += 1;
    }
}
