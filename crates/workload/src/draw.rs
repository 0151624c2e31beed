//! Counter-based random numbers: the value depends on where it is asked for and on nothing else,
//! so that any shard, process or host computes the same one without shared state.

/// Mixes a 64-bit word so that every input bit affects every output bit: the finaliser of
/// SplitMix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014).
pub(crate) const fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A key that belongs to (`key`, `index`): distinct indices give distinct keys.
pub(crate) const fn derive(key: u64, index: u64) -> u64 {
    mix(mix(key).wrapping_add(index.wrapping_mul(GOLDEN)))
}

/// Maps a random word to `0..bound`. The bias is below `bound` / 2^32.
pub(crate) const fn below(word: u64, bound: u32) -> u32 {
    (((word >> 32) * bound as u64) >> 32) as u32
}

/// 2^64 divided by the golden ratio, odd: the step of SplitMix64.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The stream of random words that belongs to one key (SplitMix64).
#[derive(Debug, Clone)]
pub(crate) struct Draw(u64);

impl Draw {
    pub(crate) const fn new(key: u64) -> Self {
        Self(key)
    }

    pub(crate) const fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix(self.0)
    }

    /// In `0..bound`; 0 when `bound` is 0.
    pub(crate) const fn below(&mut self, bound: u32) -> u32 {
        below(self.word(), bound)
    }

    /// In the open interval (0, 1), a multiple of 2^-53 plus 2^-54.
    #[expect(clippy::cast_precision_loss, reason = "53 bits fit a double exactly")]
    pub(crate) fn unit(&mut self) -> f64 {
        ((self.word() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first outputs of SplitMix64 for the seed 1234567, as published with the algorithm.
    #[test]
    fn draw_is_splitmix64() {
        let mut draw = Draw::new(1_234_567);
        let words: Vec<u64> = (0..5).map(|_| draw.word()).collect();
        assert_eq!(
            words,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423,
                4_593_380_528_125_082_431,
                16_408_922_859_458_223_821
            ]
        );
    }

    #[test]
    fn below_covers_its_range_and_nothing_else() {
        assert_eq!(below(u64::MAX, u32::MAX), u32::MAX - 1);
        assert_eq!(below(u64::MAX, 1), 0);
        assert_eq!(below(u64::MAX, 0), 0);
        let mut draw = Draw::new(1);
        let mut seen = [0_u32; 7];
        for _ in 0..7_000 {
            seen[draw.below(7) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (850..1_150).contains(&n)), "{seen:?}");
    }

    #[test]
    fn unit_is_inside_the_open_interval() {
        let mut draw = Draw::new(9);
        let mean = (0..10_000)
            .map(|_| draw.unit())
            .inspect(|u| assert!(*u > 0.0 && *u < 1.0));
        let mean = mean.sum::<f64>() / 10_000.0;
        assert!((mean - 0.5).abs() < 0.01, "{mean}");
    }
}
