/// Draws that depend on nothing but a seed: the same request always gets the same.
#[derive(Clone, Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// `SplitMix64` (Steele, Lea and Flood 2014).
    pub(super) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// A number below `end`, which is not 0. (The bias is below `end` in 2^64.)
    pub(super) fn below(&mut self, end: u64) -> u64 {
        self.draw() % end
    }

    /// Whether something of this probability happens.
    pub(super) fn happens(&mut self, probability: f64) -> bool {
        // 53 bits: exactly representable.
        const STEP: f64 = 1.0 / (1_u64 << 53) as f64;
        (self.draw() >> 11) as f64 * STEP < probability
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_the_published_sequence() {
        let mut dice = Dice::new(1_234_567);
        let draws = [dice.draw(), dice.draw(), dice.draw()];
        assert_eq!(
            draws,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn a_probability_is_kept() {
        let mut dice = Dice::new(7);
        let count = (0..10_000).filter(|_| dice.happens(0.3)).count();
        assert!((2_800..3_200).contains(&count), "{count}");
        assert!(dice.happens(1.0));
        assert!(!dice.happens(0.0));
    }
}
