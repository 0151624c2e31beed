use super::dice::Dice;
use crate::answer::Finish;
use crate::config::ServerConfig;
use crate::refusal::Refusal;

/// How long answers are that a request lets end by themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputTokens {
    /// As long as the request allows; where it sets no maximum, the server's default.
    #[default]
    Max,
    /// Evenly spread over these numbers of tokens, both included, and never beyond what the
    /// request allows. `ignore_eos` makes an answer as long as that.
    Between(u32, u32),
}

/// `--output-tokens`.
pub(crate) fn output_tokens(text: &str) -> Result<OutputTokens, String> {
    if text == "max" {
        return Ok(OutputTokens::Max);
    }
    let (least, most) = text.split_once('-').unwrap_or((text, text));
    match (least.parse(), most.parse()) {
        (Ok(least), Ok(most)) if 0 < least && least <= most => {
            Ok(OutputTokens::Between(least, most))
        }
        _ => Err("expected max, a number from 1 on, or a range like 16-128".to_owned()),
    }
}

/// How many tokens an answer may have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Length {
    /// The most: what the request asked for, or the server's default.
    pub(super) tokens: u32,
    /// What the request asked for.
    pub(super) asked: Option<u32>,
    pub(super) min_tokens: u32,
}

impl Length {
    /// From the request's maximum and what it is called, and its minimum.
    pub(super) fn new(
        (param, asked): (&'static str, Option<u64>),
        min_tokens: u64,
        prompt_tokens: u32,
        config: &ServerConfig,
    ) -> Result<Self, Refusal> {
        if asked == Some(0) {
            let message = format!("'{param}' must be at least 1");
            return Err(Refusal::invalid(Some(param), message));
        }
        let room = room(asked, prompt_tokens, config)?;
        let saturate = |tokens| u32::try_from(tokens).unwrap_or(u32::MAX);
        let asked = asked.map(saturate);
        let least = saturate(min_tokens);
        if let Some(asked) = asked
            && least > asked
        {
            let message = format!("'min_tokens' ({least}) is more than '{param}' ({asked})");
            return Err(Refusal::invalid(Some("min_tokens"), message));
        }
        let default = match config.output_tokens {
            OutputTokens::Max => config.max_tokens_default,
            OutputTokens::Between(_, most) => most,
        };
        let tokens = asked.unwrap_or_else(|| default.max(least).min(room));
        let tokens_max = config.limits.tokens_max;
        if tokens > tokens_max {
            return Err(Refusal::invalid(
                Some(param),
                format!("An answer has at most {tokens_max} tokens here; {tokens} were asked for"),
            ));
        }
        Ok(Self {
            tokens,
            asked,
            min_tokens: least,
        })
    }

    /// How many it has, and why it ends there. `eos`: it may end by itself.
    pub(super) fn draw(&self, lengths: OutputTokens, eos: bool, dice: &mut Dice) -> (u32, Finish) {
        let most = self.tokens;
        let by_itself = match lengths {
            OutputTokens::Between(least, greatest) if eos => {
                let span = u64::from(greatest - least) + 1;
                let drawn = least + u32::try_from(dice.below(span)).unwrap_or(0);
                drawn.max(self.min_tokens)
            }
            _ => u32::MAX,
        };
        match self.asked {
            Some(_) if by_itself >= most => (most, Finish::Length),
            _ => (by_itself.min(most), Finish::Stop),
        }
    }
}

/// The tokens that the context has room for beside the prompt.
fn room(asked: Option<u64>, prompt_tokens: u32, config: &ServerConfig) -> Result<u32, Refusal> {
    let Some(length) = config.max_model_len else {
        return Ok(u32::MAX);
    };
    let room = length.saturating_sub(prompt_tokens);
    let most = format!("This model's maximum context length is {length} tokens");
    if room == 0 {
        return Err(Refusal::context(format!(
            "{most}. However, your request has {prompt_tokens} input tokens. Please reduce the \
             length of the input messages."
        )));
    }
    match asked {
        Some(asked) if asked > u64::from(room) => Err(Refusal::context(format!(
            "'max_tokens' or 'max_completion_tokens' is too large: {asked}. {most} and your \
             request has {prompt_tokens} input tokens ({asked} > {length} - {prompt_tokens})."
        ))),
        _ => Ok(room),
    }
}
