//! Model mode's times: when a request gets its turn, when its first token is due, and how long
//! each event after that takes.

use ridgeline_clock::Nanos;
use ridgeline_net::Token;

use crate::args::span;
use crate::refusal::Refusal;

/// The times of model mode.
#[derive(Clone, Debug, clap::Args)]
pub struct PaceArgs {
    /// Model mode: from the request's last byte to the first token (20ms, 750us, 1.5s)
    #[arg(long, value_name = "SPAN", default_value = "20ms", value_parser = span)]
    pub time_to_first_token: Nanos,
    /// Model mode: from one token to the next
    #[arg(long, value_name = "SPAN", default_value = "5ms", value_parser = span)]
    pub inter_token_latency: Nanos,
}

impl PaceArgs {
    pub(crate) fn config(&self) -> PaceConfig {
        PaceConfig {
            time_to_first_token: self.time_to_first_token,
            inter_token_latency: self.inter_token_latency,
        }
    }
}

/// How fast a modelled replica is.
#[derive(Clone, Debug, PartialEq)]
pub struct PaceConfig {
    /// From the request's last byte to the first token.
    pub time_to_first_token: Nanos,
    /// From one token to the next.
    pub inter_token_latency: Nanos,
}

impl Default for PaceConfig {
    fn default() -> Self {
        Self {
            time_to_first_token: Nanos::from_millis(20),
            inter_token_latency: Nanos::from_millis(5),
        }
    }
}

/// Names one request of a shard: its connection, and which request of that connection it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ticket {
    pub(crate) token: Token,
    pub(crate) serial: u64,
}

/// What a request wants of the replica.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "the fixed pace is the same for all")]
pub(crate) struct Want<'a> {
    pub(crate) prompt_tokens: u32,
    /// Of the longest choice.
    pub(crate) output_tokens: u32,
    /// A hash of each block of the prompt with all that comes before it.
    pub(crate) blocks: &'a [u64],
    pub(crate) seed: Option<u64>,
}

/// What becomes of a request that arrives.
#[derive(Debug)]
pub(crate) enum Admission {
    /// It runs.
    Run(Started),
    /// It waits for its turn: [`Replica::admit`] names it then.
    #[expect(dead_code, reason = "the fixed pace has no queue")]
    Wait,
    /// It is not taken.
    #[expect(dead_code, reason = "the fixed pace takes everyone")]
    Refuse(Refusal),
}

/// A request that runs.
#[derive(Debug)]
pub(crate) struct Started {
    /// Tokens of the prompt that were found in the prefix cache.
    pub(crate) cached_tokens: u32,
    /// When the first token is due.
    pub(crate) first: Nanos,
    pub(crate) pace: Pace,
}

/// The pace of one answer after its first token.
#[derive(Clone, Debug)]
pub(crate) struct Pace {
    gap: Nanos,
}

impl Pace {
    /// From an event to the next, while `running` requests run.
    pub(crate) fn gap(&mut self, _running: u32) -> Nanos {
        self.gap
    }

    /// Tokens of the next event, 1 or more, for each choice.
    pub(crate) fn tokens(&mut self) -> u32 {
        1
    }
}

/// What a shard models: one replica of a model server.
#[derive(Debug)]
pub(crate) struct Replica {
    config: PaceConfig,
    running: u32,
}

impl Replica {
    pub(crate) fn new(config: PaceConfig) -> Self {
        Self { config, running: 0 }
    }

    /// What arrives from now on gets the times of `config`.
    pub(crate) fn take_up(&mut self, config: PaceConfig) {
        self.config = config;
    }

    /// A request is complete `at`.
    pub(crate) fn arrive(&mut self, _: Ticket, _: &Want<'_>, at: Nanos) -> Admission {
        self.running += 1;
        Admission::Run(Started {
            cached_tokens: 0,
            first: at + self.config.time_to_first_token,
            pace: Pace {
                gap: self.config.inter_token_latency,
            },
        })
    }

    /// A request that arrived and was not refused is over: finished, failed or gone, whether it
    /// ran or waited.
    pub(crate) fn leave(&mut self, _: Ticket, _: Nanos) {
        self.running = self.running.saturating_sub(1);
    }

    /// The next that waited and can run now.
    pub(crate) fn admit(&mut self, _: Nanos) -> Option<(Ticket, Started)> {
        None
    }

    /// Requests that run now.
    pub(crate) fn running(&self) -> u32 {
        self.running
    }
}
