//! Which sample a request uses: a pure function of the request's index.

use crate::draw::{below, derive, mix};

/// The order in which requests take samples. Pinned: the same index, count and seed give the same
/// sample in every version, on every machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Each sample is drawn independently; in a run some come twice and some never.
    Replacement {
        /// The run's seed.
        seed: u64,
    },
    /// The samples as they stand, from the start again after the last one.
    Sequential,
    /// Every pass over the samples is a new permutation: each comes once before any comes again.
    Shuffled {
        /// The run's seed.
        seed: u64,
    },
}

impl Order {
    /// The sample of request `index`, in `0..samples`. Needs no state and constant time: a shard
    /// that issues every K-th request asks for every K-th index.
    ///
    /// # Panics
    /// When `samples` is 0; a [`Dataset`](crate::Dataset) has at least one.
    #[must_use]
    pub fn sample_of(self, index: u64, samples: u32) -> u32 {
        assert!(samples > 0, "an order over no samples");
        let count = u64::from(samples);
        match self {
            Self::Replacement { seed } => below(derive(seed ^ REPLACEMENT, index), samples),
            Self::Sequential => narrow(index % count),
            Self::Shuffled { seed } => {
                let key = derive(seed ^ SHUFFLED, index / count);
                permute(key, narrow(index % count), samples)
            }
        }
    }
}

/// Keep the two orders, and other uses of the run's seed, independent of each other.
const REPLACEMENT: u64 = 0x7265_706c_6163_6564;
const SHUFFLED: u64 = 0x7368_7566_666c_6564;

fn narrow(value: u64) -> u32 {
    u32::try_from(value).expect("a remainder of a division by a u32")
}

/// Rounds of the Feistel network, each half changed by every second one. A small grid offers each
/// round few choices and mixes slowly: with 16 rounds all orders of up to 5 samples come equally
/// often, with 8 they do up to 4 (measured by the tests below).
const fn rounds(count: u32) -> u64 {
    if count < 256 { 16 } else { 8 }
}

/// A permutation of `0..count` chosen by `key`.
///
/// A Feistel network over a grid of `rows` x `columns` cells, the smallest near-square one that
/// holds `count`: each round moves a cell along one axis by a random distance that depends on the
/// other (Black, Rogaway: Ciphers with Arbitrary Finite Domains, 2002). Cells outside `0..count`
/// are walked through until one lies inside. They are fewer than one row, so that a walk takes
/// 1 + 1/sqrt(count) steps on average and never more than `columns`.
pub(crate) fn permute(key: u64, value: u32, count: u32) -> u32 {
    let columns = count.isqrt() + u32::from(count.isqrt().pow(2) < count);
    let rows = count.div_ceil(columns);
    let (mut row, mut column) = (value / columns, value % columns);
    loop {
        for round in 0..rounds(count) {
            if round % 2 == 0 {
                row = shifted(row, noise(key, round, column), rows);
            } else {
                column = shifted(column, noise(key, round, row), columns);
            }
        }
        let cell = u64::from(row) * u64::from(columns) + u64::from(column);
        if cell < u64::from(count) {
            return narrow(cell);
        }
    }
}

fn noise(key: u64, round: u64, half: u32) -> u64 {
    mix(key ^ (round << 32 | u64::from(half)).wrapping_mul(0xd6e8_feb8_6659_fd93))
}

/// `value`, below `modulus`, moved by a random distance, around the end.
fn shifted(value: u32, word: u64, modulus: u32) -> u32 {
    let sum = u64::from(value) + u64::from(below(word, modulus));
    narrow(if sum < u64::from(modulus) {
        sum
    } else {
        sum - u64::from(modulus)
    })
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    fn epoch(order: Order, epoch: u64, samples: u32) -> Vec<u32> {
        let first = epoch * u64::from(samples);
        (first..first + u64::from(samples))
            .map(|i| order.sample_of(i, samples))
            .collect()
    }

    #[test]
    fn golden_orders() {
        let take = |order: Order| -> Vec<u32> { (0..16).map(|i| order.sample_of(i, 10)).collect() };
        assert_eq!(
            take(Order::Sequential),
            [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1, 2, 3, 4, 5]
        );
        assert_eq!(
            take(Order::Shuffled { seed: 42 }),
            [7, 6, 0, 5, 4, 3, 1, 8, 2, 9, 8, 2, 3, 1, 0, 6]
        );
        assert_eq!(
            take(Order::Replacement { seed: 42 }),
            [2, 5, 0, 0, 4, 5, 5, 2, 4, 2, 9, 3, 2, 2, 3, 7]
        );
        assert_eq!(
            Order::Shuffled { seed: 42 }.sample_of(u64::MAX, u32::MAX),
            121_382_361_u32
        );
        assert_eq!(
            Order::Replacement { seed: 42 }.sample_of(u64::MAX, u32::MAX),
            135_411_357
        );
    }

    #[test]
    fn one_sample_is_always_sample_0() {
        for order in [
            Order::Sequential,
            Order::Shuffled { seed: 3 },
            Order::Replacement { seed: 3 },
        ] {
            assert!(
                [0, 1, 99, u64::MAX]
                    .iter()
                    .all(|&i| order.sample_of(i, 1) == 0)
            );
        }
    }

    #[test]
    fn every_permutation_of_a_few_samples_comes_equally_often() {
        for (samples, permutations) in [(2_u32, 2_usize), (3, 6), (4, 24), (5, 120)] {
            let mut seen: HashMap<Vec<u32>, u32> = HashMap::new();
            for pass in 0..(permutations as u64) * 400 {
                *seen
                    .entry(epoch(Order::Shuffled { seed: 7 }, pass, samples))
                    .or_default() += 1;
            }
            assert_eq!(seen.len(), permutations, "{samples} samples");
            // Expected 400 each; 5 standard deviations are 100.
            assert!(
                seen.values().all(|n| (300..=500).contains(n)),
                "{samples}: {seen:?}"
            );
        }
    }

    #[test]
    fn samples_have_no_favourite_place() {
        for samples in [6_u32, 7, 10, 16, 17, 30] {
            let passes = 400 * samples;
            let mut places = vec![vec![0_u32; samples as usize]; samples as usize];
            for pass in 0..passes {
                let order = Order::Shuffled { seed: 11 };
                for (place, sample) in epoch(order, pass.into(), samples).into_iter().enumerate() {
                    places[place][sample as usize] += 1;
                }
            }
            let worst = places
                .iter()
                .flatten()
                .map(|n| n.abs_diff(400))
                .max()
                .unwrap();
            assert!(worst <= 100, "{samples} samples: off by {worst} of 400");
        }
    }

    #[test]
    fn neighbours_do_not_stay_neighbours() {
        let order = epoch(Order::Shuffled { seed: 5 }, 0, 10_000);
        let kept = order.windows(2).filter(|w| w[1] == w[0] + 1).count();
        assert!(
            kept < 10,
            "{kept} of 10,000 neighbours kept; one expected by chance"
        );
        let fixed = (0..).zip(&order).filter(|(i, s)| i == *s).count();
        assert!(
            fixed < 10,
            "{fixed} of 10,000 samples in place; one expected by chance"
        );
    }

    #[test]
    fn replacement_is_uniform_and_leaves_some_out() {
        let drawn = epoch(Order::Replacement { seed: 1 }, 0, 10_000);
        let mut seen = vec![false; 10_000];
        drawn.iter().for_each(|&s| seen[s as usize] = true);
        let share = seen.iter().filter(|s| **s).count();
        // 1 - 1/e of 10,000 is 6,321; the standard deviation is about 31.
        assert!((6_150..6_500).contains(&share), "{share}");
    }

    proptest! {
        #[test]
        fn each_pass_is_a_permutation(samples in 1_u32..3_000, pass in 0_u64..1_000_000, seed: u64) {
            let mut order = epoch(Order::Shuffled { seed }, pass, samples);
            order.sort_unstable();
            prop_assert!(order.into_iter().eq(0..samples));
        }

        #[test]
        fn shards_together_issue_what_one_would(samples in 1_u32..200, shards in 1_usize..9, seed: u64) {
            let order = Order::Shuffled { seed };
            let whole: Vec<u32> = (0..500).map(|i| order.sample_of(i, samples)).collect();
            for shard in 0..shards {
                let own = (shard as u64..500).step_by(shards).map(|i| order.sample_of(i, samples));
                prop_assert!(own.eq(whole.iter().copied().skip(shard).step_by(shards)));
            }
        }

        #[test]
        fn seeds_and_passes_differ(seed: u64, pass in 0_u64..1_000) {
            let order = epoch(Order::Shuffled { seed }, pass, 100);
            prop_assert_ne!(&order, &epoch(Order::Shuffled { seed }, pass + 1, 100));
            prop_assert_ne!(&order, &epoch(Order::Shuffled { seed: seed ^ 1 }, pass, 100));
        }

        #[test]
        fn any_index_and_count_stay_in_range(index: u64, samples in 1_u32.., seed: u64) {
            for order in [Order::Sequential, Order::Shuffled { seed }, Order::Replacement { seed }] {
                prop_assert!(order.sample_of(index, samples) < samples);
            }
        }
    }
}
