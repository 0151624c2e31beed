use std::num::NonZeroU32;

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
    /// The model that /v1/models lists
    #[arg(long, value_name = "NAME", default_value = "mock")]
    pub model: String,
    /// Whose words it uses, and in which form; a request names its own in X-Mock-Dialect
    #[arg(long, value_enum, value_name = "NAME", default_value_t = Dialect::Vllm)]
    pub dialect: Dialect,
}

/// `--events-per-write`: a number, or all of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventsPerWrite(pub Option<NonZeroU32>);

fn events_per_write(text: &str) -> Result<EventsPerWrite, String> {
    if text == "all" {
        return Ok(EventsPerWrite(None));
    }
    let events = text
        .parse()
        .map_err(|_| "expected `all` or a number from 1 on".to_owned())?;
    Ok(EventsPerWrite(Some(events)))
}
