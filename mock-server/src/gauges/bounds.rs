//! Upper bounds of buckets. vLLM's, where the family is vLLM's: dashboards and recording rules name
//! them (vllm/v1/metrics/loggers.py).

use ridgeline_clock::Nanos;

const fn millis<const N: usize>(ms: [u64; N]) -> [u64; N] {
    let mut ns = [0; N];
    let mut i = 0;
    while i < N {
        ns[i] = Nanos::from_millis(ms[i]).0;
        i += 1;
    }
    ns
}

/// Time to first token, ns.
pub(crate) static FIRST_TOKEN: [u64; 22] = millis([
    1, 5, 10, 20, 40, 60, 80, 100, 250, 500, 750, 1_000, 2_500, 5_000, 7_500, 10_000, 20_000,
    40_000, 80_000, 160_000, 640_000, 2_560_000,
]);

/// Between tokens, and per token, ns.
pub(crate) static PER_TOKEN: [u64; 19] = millis([
    10, 25, 50, 75, 100, 150, 200, 300, 400, 500, 750, 1_000, 2_500, 5_000, 7_500, 10_000, 20_000,
    40_000, 80_000,
]);

/// Whole requests and their phases, ns.
pub(crate) static REQUEST: [u64; 21] = millis([
    300, 500, 800, 1_000, 1_500, 2_000, 2_500, 5_000, 10_000, 15_000, 20_000, 30_000, 40_000,
    50_000, 60_000, 120_000, 240_000, 480_000, 960_000, 1_920_000, 7_680_000,
]);

/// Tokens of a request. vLLM ends the list at the longest request that the model takes; here it is
/// the same for every model.
pub(crate) static TOKENS: [u64; 18] = [
    1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000, 20_000, 50_000, 100_000,
    200_000, 500_000,
];

/// Choices of a request.
pub(crate) static CHOICES: [u64; 5] = [1, 2, 5, 10, 20];

/// How late a write was, ns: from what a sleeper can't help to what a reader would notice.
pub(crate) static LATENESS: [u64; 12] = [
    10_000,
    20_000,
    50_000,
    100_000,
    200_000,
    500_000,
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    100_000_000,
    1_000_000_000,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_ascend() {
        for bounds in [
            &FIRST_TOKEN[..],
            &PER_TOKEN,
            &REQUEST,
            &TOKENS,
            &CHOICES,
            &LATENESS,
        ] {
            assert!(bounds.is_sorted_by(|a, b| a < b));
        }
        assert_eq!(
            (FIRST_TOKEN[0], REQUEST[20]),
            (1_000_000, 7_680_000_000_000)
        );
    }
}
