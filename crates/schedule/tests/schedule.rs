//! The schedule as a whole: its exact values, its laws, and its division among shards.

use proptest::prelude::*;
use ridgeline_clock::Nanos;
use ridgeline_schedule::{Arrivals, Due, Pattern, ScheduleSpec, Share, Stage, share_of};

fn stage(rate_per_s: f64, pattern: Pattern, duration: Option<u64>) -> Stage {
    Stage {
        rate_per_s,
        pattern,
        duration: duration.map(Nanos),
    }
}

fn arrivals(stages: &[Stage], seed: u64) -> Arrivals {
    Arrivals::new(&ScheduleSpec {
        stages: stages.to_vec(),
        seed,
    })
    .expect("a valid schedule")
}

fn open(rate_per_s: f64, pattern: Pattern, seed: u64) -> Arrivals {
    arrivals(&[stage(rate_per_s, pattern, None)], seed)
}

#[test]
fn equal_gaps_do_not_drift() {
    let third = open(3.0, Pattern::Constant, 0);
    let at: Vec<u64> = third.take(4).map(|due| due.at.0).collect();
    assert_eq!(at, [0, 333_333_333, 666_666_666, 1_000_000_000]);
    // After 11 days at a rate whose gap is no whole number of nanoseconds.
    let late = open(3.0, Pattern::Constant, 0).nth(3_000_000).unwrap();
    assert_eq!(late.at, Nanos::from_secs(1_000_000));
    assert_eq!(late.index, 3_000_000);
}

#[test]
fn random_gaps_do_not_drift_at_the_highest_rate() {
    // The mean gap is 1 ns: cutting each one off would make the rate infinite.
    let n = 1_000_000;
    let last = open(1e9, Pattern::Poisson, 3).nth(n - 1).unwrap().at.0;
    assert!(last.abs_diff(n as u64) < 5_000, "{last}");
}

#[test]
fn a_stage_holds_rate_times_duration_arrivals_and_the_next_begins_at_its_end() {
    let second = Some(1_000_000_000);
    let stages = [
        stage(100.0, Pattern::Constant, second),
        stage(7.0, Pattern::Constant, second),
        stage(1e3, Pattern::Poisson, second),
    ];
    let all: Vec<Due> = arrivals(&stages, 1).collect();
    let count = |stage| all.iter().filter(|due| due.stage == stage).count();
    assert_eq!((count(0), count(1)), (100, 7));
    assert!(count(2).abs_diff(1_000) < 150, "{}", count(2));
    assert_eq!(all[100].at, Nanos::from_secs(1));
    assert!(all.iter().zip(0..).all(|(due, index)| due.index == index));
    assert!(all.is_sorted_by_key(|due| due.at));
    assert!(all.last().unwrap().at < Nanos::from_secs(3));
}

#[test]
fn changing_one_stage_leaves_the_gaps_of_the_next() {
    let second = Some(1_000_000_000);
    let after = |first: Stage| -> Vec<Nanos> {
        let stages = [first, stage(50.0, Pattern::Poisson, None)];
        arrivals(&stages, 9)
            .filter(|due| due.stage == 1)
            .take(20)
            .map(|due| due.at)
            .collect()
    };
    assert_eq!(
        after(stage(10.0, Pattern::Poisson, second)),
        after(stage(900.0, Pattern::Constant, second))
    );
}

#[test]
fn a_schedule_ends_where_the_clock_ends() {
    let rare = open(1e-6, Pattern::Poisson, 0);
    // 584 years at one arrival in 12 days are about 18,000.
    let count = rare.take(100_000).count();
    assert!((17_000..20_000).contains(&count), "{count}");
}

#[test]
fn gaps_have_the_mean_and_the_variation_of_their_law() {
    let n = 50_000;
    for (pattern, cv) in [
        (Pattern::Constant, 0.0),
        (Pattern::Poisson, 1.0),
        (Pattern::Gamma { shape: 0.25 }, 2.0),
        (Pattern::Gamma { shape: 1.0 }, 1.0),
        (Pattern::Gamma { shape: 16.0 }, 0.25),
    ] {
        let at: Vec<f64> = open(2_000.0, pattern, 5)
            .take(n)
            .map(|due| due.at.0 as f64)
            .collect();
        let gaps: Vec<f64> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let mean = gaps.iter().sum::<f64>() / gaps.len() as f64;
        let square = gaps.iter().map(|gap| (gap - mean).powi(2)).sum::<f64>() / gaps.len() as f64;
        assert!(
            (mean / 5e5 - 1.0).abs() < 0.02 + cv * 0.01,
            "{pattern:?}: mean {mean}"
        );
        assert!(
            (square.sqrt() / mean - cv).abs() < 0.04 * cv + 1e-3,
            "{pattern:?}: {square}"
        );
    }
}

#[test]
fn poisson_counts_vary_as_much_as_their_mean() {
    let mut counts = [0_u32; 2_000];
    for due in open(20.0, Pattern::Poisson, 8) {
        let second = usize::try_from(due.at.0 / 1_000_000_000).unwrap();
        match counts.get_mut(second) {
            Some(count) => *count += 1,
            None => break,
        }
    }
    let mean = counts.iter().map(|&c| f64::from(c)).sum::<f64>() / 2_000.0;
    let variance = counts
        .iter()
        .map(|&c| (f64::from(c) - mean).powi(2))
        .sum::<f64>()
        / 2_000.0;
    assert!((mean - 20.0).abs() < 0.4, "{mean}");
    assert!((variance / mean - 1.0).abs() < 0.1, "{variance}");
}

/// FNV-1a over the arrivals' times.
fn checksum(arrivals: impl Iterator<Item = Due>) -> u64 {
    arrivals
        .flat_map(|due| due.at.0.to_le_bytes())
        .fold(0xCBF2_9CE4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3)
        })
}

/// These values are a promise: a seed means the same load in every release and on every machine.
/// They were computed by a second implementation of the algorithms, with another `log` and `pow`.
#[test]
fn the_first_thousand_arrivals_are_pinned() {
    let golden: [(Pattern, [u64; 4], u64); 4] = [
        (
            Pattern::Constant,
            [0, 8_103_727, 16_207_455, 24_311_183],
            0x9679_493C_FE52_A044,
        ),
        (
            Pattern::Poisson,
            [30_999_131, 49_841_695, 58_577_076, 59_648_041],
            0x6513_B922_1B0A_D327,
        ),
        (
            Pattern::Gamma { shape: 0.5 },
            [5_792, 10_665_576, 11_228_851, 14_107_979],
            0x30F8_9887_AAF5_506A,
        ),
        (
            Pattern::Gamma { shape: 4.0 },
            [6_148_493, 17_267_429, 19_388_885, 28_333_778],
            0x3179_0910_3668_A26E,
        ),
    ];
    for (pattern, first, sum) in golden {
        let walk = || open(123.4, pattern, 42);
        let at: Vec<u64> = walk().take(4).map(|due| due.at.0).collect();
        assert_eq!(
            (at.as_slice(), checksum(walk().take(1_000))),
            (&first[..], sum),
            "{pattern:?}"
        );
    }
}

fn any_stage() -> impl Strategy<Value = Stage> {
    let pattern = prop_oneof![
        Just(Pattern::Constant),
        Just(Pattern::Poisson),
        (0.1..8.0).prop_map(|shape| Pattern::Gamma { shape }),
    ];
    (1.0..5_000.0, pattern, 1..100_000_000_u64)
        .prop_map(|(rate, pattern, duration)| stage(rate, pattern, Some(duration)))
}

proptest! {
    #[test]
    fn the_shares_of_any_number_of_shards_are_the_schedule(
        stages in prop::collection::vec(any_stage(), 1..5), seed: u64, of in 1..9_u32,
    ) {
        let whole: Vec<Due> = arrivals(&stages, seed).collect();
        let mut merged: Vec<Due> = (0..of)
            .flat_map(|shard| Share::new(arrivals(&stages, seed), shard, of).inspect(move |due| {
                assert_eq!(due.index % u64::from(of), u64::from(shard));
            }))
            .collect();
        merged.sort_by_key(|due| due.index);
        prop_assert_eq!(whole, merged);
    }

    #[test]
    fn shares_of_a_total_add_up(total in 0..100_000_u64, of in 1..70_u32) {
        let shares: Vec<u64> = (0..of).map(|shard| share_of(total, shard, of)).collect();
        prop_assert_eq!(shares.iter().sum::<u64>(), total);
        prop_assert!(shares[0] - shares[of as usize - 1] <= 1);
        // The same as the number of indices below the total that fall to the shard.
        prop_assert_eq!(shares[0], total.div_ceil(u64::from(of)));
    }
}
