use std::num::NonZeroU32;

use ridgeline_clock::Nanos;

use super::{KvCache, Latency, Law, PaceConfig, Packing, Prefill, TokensPerEvent};
use crate::args::span;

/// The times of model mode.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Times of model mode")]
pub struct PaceArgs {
    /// From a request's last byte, or its turn, to the first token (20ms, 750us, 1.5s) [default:
    /// 20ms, or what the prefill takes]
    #[arg(long, value_name = "SPAN", value_parser = span)]
    pub time_to_first_token: Option<Nanos>,
    /// Its standard deviation
    #[arg(long, value_name = "SPAN", default_value = "0", value_parser = span)]
    pub time_to_first_token_std_dev: Nanos,
    /// From one event to the next
    #[arg(long, value_name = "SPAN", default_value = "5ms", value_parser = span)]
    pub inter_token_latency: Nanos,
    /// Its standard deviation
    #[arg(long, value_name = "SPAN", default_value = "0", value_parser = span)]
    pub inter_token_latency_std_dev: Nanos,
    /// How times are spread around their means
    #[arg(long, value_name = "LAW", value_enum, default_value_t = Law::Normal)]
    pub latency_distribution: Law,
    /// How the time to the first token is spread [default: as --latency-distribution]
    #[arg(long, value_name = "LAW", value_enum)]
    pub time_to_first_token_distribution: Option<Law>,
    /// How the time between events is spread [default: as --latency-distribution]
    #[arg(long, value_name = "LAW", value_enum)]
    pub inter_token_latency_distribution: Option<Law>,
    /// In place of --time-to-first-token: the part that does not depend on the prompt
    #[arg(long, value_name = "SPAN", value_parser = span)]
    pub prefill_overhead: Option<Nanos>,
    /// In place of --time-to-first-token: for each token of the prompt that no cache holds
    #[arg(long, value_name = "SPAN", value_parser = span)]
    pub prefill_time_per_token: Option<Nanos>,
    /// The standard deviation of the two together
    #[arg(long, value_name = "SPAN", default_value = "0", value_parser = span)]
    pub prefill_time_std_dev: Nanos,
    /// By how much times grow when --max-num-seqs run; evenly less when fewer do
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0)]
    pub time_factor_under_load: f64,
    /// Sequences that run at one time in each thread; the others queue [default: any number]
    #[arg(long, value_name = "N")]
    pub max_num_seqs: Option<NonZeroU32>,
    /// Requests that queue at one time in each thread; one more gets 429 [default: any number]
    #[arg(long, value_name = "N")]
    pub max_waiting_queue_length: Option<u32>,
    /// KV memory of each thread, blocks; who needs more than is free queues [default: endless, or
    /// 65536 with --enable-prefix-caching]
    #[arg(long, value_name = "BLOCKS", value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    pub kv_cache_size: Option<u32>,
    /// Tokens in a block
    #[arg(long, value_name = "TOKENS", default_value_t = 16,
        value_parser = clap::value_parser!(u32).range(1..=1 << 16))]
    pub block_size: u32,
    /// Keep the blocks of prompts, and find them again where prompts begin alike
    #[arg(long)]
    pub enable_prefix_caching: bool,
    /// Tokens that an event brings in the mean: more than 1 as with speculative decoding
    #[arg(long, value_name = "N", default_value_t = 1.0)]
    pub tokens_per_event: f64,
    /// Their standard deviation
    #[arg(long, value_name = "N", default_value_t = 0.0)]
    pub tokens_per_event_std_dev: f64,
    /// How they are spread
    #[arg(long, value_name = "LAW", value_enum, default_value_t = Law::Normal)]
    pub tokens_per_event_distribution: Law,
    /// Writes into which each event, or what shares a write with it, is cut
    #[arg(long, value_name = "N", default_value_t = NonZeroU32::MIN)]
    pub writes_per_event: NonZeroU32,
    /// The seed of all random times
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
    /// In every mode: answer 503 for so long, as while a model is loaded
    #[arg(long, value_name = "SPAN", default_value = "0", value_parser = span)]
    pub startup_duration: Nanos,
    /// In every mode: call a write late that is later than this, and count it
    #[arg(long, value_name = "SPAN", default_value = "1ms", value_parser = span)]
    pub late_over: Nanos,
}

/// Blocks where prompts are to be found again and no number is given.
const BLOCKS_DEFAULT: u32 = 65_536;

/// The most that times may grow by.
const FACTOR_MAX: f64 = 1e6;

impl PaceArgs {
    /// The times that the flags ask for, or why there are none: the flag, what is wrong, and what
    /// would be right.
    pub(crate) fn config(
        &self,
        events_per_write: Option<NonZeroU32>,
    ) -> Result<PaceConfig, String> {
        let tokens_per_event = TokensPerEvent::new(
            self.tokens_per_event_distribution,
            self.tokens_per_event,
            self.tokens_per_event_std_dev,
        );
        Ok(PaceConfig {
            prefill: self.prefill()?,
            gap: latency(
                "inter-token-latency",
                self.inter_token_latency_distribution
                    .unwrap_or(self.latency_distribution),
                self.inter_token_latency,
                self.inter_token_latency_std_dev,
            )?,
            tokens_per_event: tokens_per_event
                .map_err(|error| format!("--tokens-per-event: {error}"))?,
            packing: Packing {
                events_per_write,
                writes_per_event: self.writes_per_event,
            },
            factor_under_load: self.factor()?,
            sequences_max: self.max_num_seqs,
            waiting_max: self.max_waiting_queue_length,
            kv_cache: self.kv_cache(),
            seed: self.seed,
        })
    }

    fn prefill(&self) -> Result<Prefill, String> {
        let law = self
            .time_to_first_token_distribution
            .unwrap_or(self.latency_distribution);
        let by_tokens = self.prefill_overhead.is_some() || self.prefill_time_per_token.is_some();
        if !by_tokens {
            if self.prefill_time_std_dev != Nanos::ZERO {
                return Err("--prefill-time-std-dev needs --prefill-time-per-token".to_owned());
            }
            let mean = self.time_to_first_token.unwrap_or(Nanos::from_millis(20));
            let std_dev = self.time_to_first_token_std_dev;
            return latency("time-to-first-token", law, mean, std_dev).map(Prefill::Whole);
        }
        if self
            .time_to_first_token
            .is_some_and(|span| span != Nanos::ZERO)
        {
            return Err(
                "--time-to-first-token is the same for every prompt, --prefill-overhead and \
                --prefill-time-per-token are in its place: give either"
                    .to_owned(),
            );
        }
        if law == Law::Fixed && self.prefill_time_std_dev != Nanos::ZERO {
            return Err("--prefill-time-std-dev needs another distribution than fixed".to_owned());
        }
        Ok(Prefill::PerToken {
            overhead: self.prefill_overhead.unwrap_or_default(),
            per_token: self.prefill_time_per_token.unwrap_or_default(),
            std_dev: self.prefill_time_std_dev,
            law,
        })
    }

    fn factor(&self) -> Result<f64, String> {
        let factor = self.time_factor_under_load;
        if !(1.0..=FACTOR_MAX).contains(&factor) {
            return Err(format!(
                "--time-factor-under-load is 1 to {FACTOR_MAX}, not {factor}"
            ));
        }
        if factor > 1.0 && self.max_num_seqs.is_none() {
            return Err(
                "--time-factor-under-load needs --max-num-seqs: it is the factor when all of \
                them run"
                    .to_owned(),
            );
        }
        Ok(factor)
    }

    fn kv_cache(&self) -> Option<KvCache> {
        let default = self.enable_prefix_caching.then_some(BLOCKS_DEFAULT);
        self.kv_cache_size.or(default).map(|blocks| KvCache {
            blocks,
            block_tokens: self.block_size,
            prefix_caching: self.enable_prefix_caching,
        })
    }
}

fn latency(flag: &str, law: Law, mean: Nanos, std_dev: Nanos) -> Result<Latency, String> {
    Latency::new(law, mean, std_dev).map_err(|error| format!("--{flag}-std-dev: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct Flags {
        #[command(flatten)]
        args: PaceArgs,
    }

    fn parse(flags: &str) -> Result<PaceConfig, String> {
        let flags = ["x"].into_iter().chain(flags.split_ascii_whitespace());
        Flags::try_parse_from(flags)
            .map_err(|error| error.to_string())?
            .args
            .config(NonZeroU32::new(1))
    }

    #[test]
    fn without_flags_it_is_the_default() {
        assert_eq!(parse(""), Ok(PaceConfig::default()));
    }

    #[test]
    fn flags_reach_the_config() {
        let flags = "--time-to-first-token 100ms --time-to-first-token-std-dev 30ms \
            --time-to-first-token-distribution gamma --inter-token-latency 750us \
            --inter-token-latency-std-dev 20us --latency-distribution lognormal \
            --max-num-seqs 8 --max-waiting-queue-length 0 --time-factor-under-load 2.5 \
            --kv-cache-size 512 --block-size 32 --tokens-per-event 3.5 \
            --tokens-per-event-std-dev 1 --tokens-per-event-distribution gamma --writes-per-event 3 --seed 9";
        let latency = |law, mean, std_dev| {
            Latency::new(law, Nanos::from_micros(mean), Nanos::from_micros(std_dev)).unwrap()
        };
        let expected = PaceConfig {
            prefill: Prefill::Whole(latency(Law::Gamma, 100_000, 30_000)),
            gap: latency(Law::Lognormal, 750, 20),
            tokens_per_event: TokensPerEvent::new(Law::Gamma, 3.5, 1.0).unwrap(),
            packing: Packing {
                events_per_write: NonZeroU32::new(1),
                writes_per_event: NonZeroU32::new(3).unwrap(),
            },
            factor_under_load: 2.5,
            sequences_max: NonZeroU32::new(8),
            waiting_max: Some(0),
            kv_cache: Some(KvCache {
                blocks: 512,
                block_tokens: 32,
                prefix_caching: false,
            }),
            seed: 9,
        };
        assert_eq!(parse(flags), Ok(expected));
    }

    #[test]
    fn the_prefill_takes_the_place_of_the_time_to_the_first_token() {
        let expected = Prefill::PerToken {
            overhead: Nanos::ZERO,
            per_token: Nanos::from_micros(50),
            std_dev: Nanos::from_micros(5),
            law: Law::Normal,
        };
        let flags = "--prefill-time-per-token 50us --prefill-time-std-dev 5us";
        assert_eq!(parse(flags).unwrap().prefill, expected);
        let zero = format!("{flags} --time-to-first-token 0");
        assert_eq!(parse(&zero).unwrap().prefill, expected);
        let both = format!("{flags} --time-to-first-token 1ms");
        assert!(parse(&both).unwrap_err().contains("give either"));
    }

    #[test]
    fn prefix_caching_has_a_memory_of_its_own_size() {
        let kv_cache = |flags| parse(flags).unwrap().kv_cache;
        let expected = KvCache {
            blocks: 65_536,
            block_tokens: 16,
            prefix_caching: true,
        };
        assert_eq!(kv_cache("--enable-prefix-caching"), Some(expected));
        let blocks = kv_cache("--enable-prefix-caching --kv-cache-size 7")
            .unwrap()
            .blocks;
        assert_eq!(blocks, 7);
    }

    #[test]
    fn what_cannot_be_is_told_by_the_name_of_its_flag() {
        for (flags, told) in [
            (
                "--time-to-first-token-std-dev 7ms",
                "--time-to-first-token-std-dev: a normal span",
            ),
            (
                "--inter-token-latency 0 --inter-token-latency-std-dev 1us",
                "--inter-token-latency",
            ),
            (
                "--latency-distribution fixed --inter-token-latency-std-dev 1ns",
                "fixed span",
            ),
            (
                "--tokens-per-event 0.5",
                "--tokens-per-event: an event brings",
            ),
            ("--time-factor-under-load 2", "needs --max-num-seqs"),
            ("--time-factor-under-load 0.5 --max-num-seqs 3", "is 1 to"),
            ("--time-factor-under-load NaN --max-num-seqs 3", "is 1 to"),
            (
                "--prefill-time-std-dev 1ms",
                "needs --prefill-time-per-token",
            ),
            (
                "--prefill-overhead 1ms --prefill-time-std-dev 1ms --latency-distribution fixed",
                "another distribution",
            ),
            ("--max-num-seqs 0", "max-num-seqs"),
            ("--kv-cache-size 0", "kv-cache-size"),
            ("--block-size 0", "block-size"),
        ] {
            let error = parse(flags).unwrap_err();
            assert!(error.contains(told), "{flags}: {error}");
        }
    }
}
