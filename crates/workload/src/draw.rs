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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn below_covers_its_range_and_nothing_else() {
        assert_eq!(below(u64::MAX, u32::MAX), u32::MAX - 1);
        assert_eq!(below(u64::MAX, 1), 0);
        assert_eq!(below(u64::MAX, 0), 0);
        let mut seen = [0_u32; 7];
        for index in 0..7_000 {
            seen[below(derive(1, index), 7) as usize] += 1;
        }
        assert!(seen.iter().all(|&n| (850..1_150).contains(&n)), "{seen:?}");
    }
}
