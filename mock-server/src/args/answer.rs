use std::num::NonZeroU32;

use crate::ask::{OutputTokens, Vocabulary, output_tokens, vocabulary};
use crate::config::Limits;
use crate::wording::Dialect;

/// What is answered, times apart.
#[derive(Clone, Debug, clap::Args)]
pub struct AnswerArgs {
    /// Events that share one write; in model mode they leave when the last of them is due
    /// [default: all in instant mode, 1 in model mode]
    #[arg(long, value_name = "N|all", value_parser = events_per_write)]
    pub events_per_write: Option<EventsPerWrite>,
    /// Tokens of an answer whose request sets no maximum
    #[arg(long, value_name = "N", default_value_t = 64,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(Limits::default().tokens_max)))]
    pub max_tokens_default: u32,
    /// How long an answer is that may end by itself, without ignore_eos: N, FROM-TO, or as long as
    /// its request allows
    #[arg(long, value_name = "max|N|FROM-TO", default_value = "max", value_parser = output_tokens)]
    pub output_tokens: OutputTokens,
    /// Tokens of a prompt and its answer together; more get 400 [default: no limit]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub max_model_len: Option<u32>,
    /// What counts as a token of a prompt: o200k_base, cl100k_base, a tokenizer.json, or words,
    /// which costs least
    #[arg(long, value_name = "NAME|FILE", default_value = "o200k_base", value_parser = vocabulary)]
    pub tokenizer: Vocabulary,
    /// The model that /v1/models lists first, and that a request without a model gets
    #[arg(long, value_name = "NAME", default_value = "mock")]
    pub model: String,
    /// Whose words it uses, and in which form; a request names its own in X-Mock-Dialect
    #[arg(long, value_enum, value_name = "NAME", default_value_t = Dialect::Vllm)]
    pub dialect: Dialect,
    /// More models for /v1/models to list
    #[arg(long, value_name = "NAME", num_args = 1..)]
    pub served_model_name: Vec<String>,
    /// Answer requests for models that are not listed with 404
    #[arg(long)]
    pub strict_model: bool,
    /// Answer requests to /v1 without this key (Authorization: Bearer KEY) with 401
    #[arg(long, value_name = "KEY", env = "MOCK_API_KEY", hide_env_values = true)]
    pub api_key: Option<String>,
    /// How likely a request with tools gets a call, unless its tool_choice decides
    #[arg(long, value_name = "0..1", default_value_t = 1.0, value_parser = probability)]
    pub tool_call_probability: f64,
    /// Numbers of an embedding whose request does not say
    #[arg(long, value_name = "N", default_value_t = 1_536,
        value_parser = clap::value_parser!(u32).range(1..=8_192))]
    pub embedding_dimensions: u32,
}

/// `--events-per-write`: a number, or all of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventsPerWrite(pub Option<NonZeroU32>);

fn probability(text: &str) -> Result<f64, String> {
    let probability = text.parse().ok().filter(|p| (0.0..=1.0).contains(p));
    probability.ok_or_else(|| "expected a number from 0 to 1".to_owned())
}

fn events_per_write(text: &str) -> Result<EventsPerWrite, String> {
    if text == "all" {
        return Ok(EventsPerWrite(None));
    }
    let events = text
        .parse()
        .map_err(|_| "expected `all` or a number from 1 on".to_owned())?;
    Ok(EventsPerWrite(Some(events)))
}
