//! What a request body asks for.
//!
//! A body is parsed once, and everything about its answer follows from it and the configuration:
//! the same body always gets the same answer. What is left to chance (whether a tool is called, how
//! long an answer is) is drawn by the body's `seed`, or, without one, by the body itself.
//!
//! Tokens of a prompt are those of all its texts, each on its own: of every message's content, of
//! `instructions`. Roles, templates and images have none.

mod dice;
mod embeddings;
mod length;
mod prompt;
mod schema;
mod stop;
mod tokenize;
mod tools;
mod vocabulary;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::hash::{DefaultHasher, Hasher};
use std::rc::Rc;

use serde::Deserialize;
use serde_json::Value;

pub(crate) use embeddings::embeddings;
pub use length::OutputTokens;
pub(crate) use length::output_tokens;
pub(crate) use tokenize::tokenize;
pub use vocabulary::Vocabulary;
pub(crate) use vocabulary::vocabulary;

use crate::answer::{Answer, Endpoint, Finish, Output, Text};
use crate::config::ServerConfig;
use crate::refusal::Refusal;
use dice::Dice;
use length::Length;
use prompt::{Input, Inputs, Items, Logprobs, Message, Stops};
use stop::stopped;
use tools::Tools;

/// What a body asks for.
#[derive(Clone, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) model: Option<Cow<'a, str>>,
    pub(crate) answer: Answer,
    /// Hashes of the prompt's blocks, each with all before it.
    pub(crate) blocks: Rc<[u64]>,
    pub(crate) seed: Option<u64>,
}

/// Choices of one answer.
const CHOICES_MAX: u64 = 128;
/// Stop strings of one request, as OpenAI's API has it.
const STOPS_MAX: usize = 4;
/// Alternatives that log probabilities may have: OpenAI's limit for chat.
const TOP_LOGPROBS_MAX: u32 = 20;

/// Reads a request body.
pub(crate) fn parse<'a>(
    endpoint: Endpoint,
    bytes: &'a [u8],
    config: &ServerConfig,
) -> Result<Asked<'a>, Refusal> {
    let body: Body<'a> = object(bytes)?;
    let inputs = body.inputs(endpoint)?;
    let mut ids = Vec::new();
    for input in &inputs {
        encode(input, config, &mut ids);
    }
    let prompt_tokens = count(&ids);
    let length = body.length(endpoint, prompt_tokens, config)?;
    let stream = body.stream.unwrap_or(false);
    if body.stream_options.is_some() && !stream {
        return Err(Refusal::invalid(
            Some("stream_options"),
            "'stream_options' may only be set together with 'stream': true",
        ));
    }
    let options = body.stream_options.unwrap_or_default();
    let seed = body.seed.map(i64::cast_unsigned);
    let outputs = body.outputs(endpoint, config, &length, &mut dice(seed, bytes))?;
    let logprobs = body.logprobs(endpoint)?;
    let model = body.model.map(|model| model.0);
    check_model(model.as_deref(), config)?;
    Ok(Asked {
        model,
        answer: Answer {
            endpoint,
            stream,
            include_usage: options.include_usage.unwrap_or(false),
            continuous_usage: options.continuous_usage_stats.unwrap_or(false),
            prompt_tokens,
            cached_tokens: 0,
            logprobs,
            outputs,
        },
        blocks: blocks(&ids, config.mode.block_tokens()),
        seed,
    })
}

/// Reads a body, which is a JSON object.
fn object<'a, B: Deserialize<'a>>(bytes: &'a [u8]) -> Result<B, Refusal> {
    // Looked at here because an array, too, can be read as the fields of a struct.
    match bytes.trim_ascii_start().first() {
        Some(b'{') => serde_json::from_slice(bytes)
            .map_err(|error| Refusal::invalid(None, format!("The body can't be read: {error}"))),
        Some(_) => Err(Refusal::invalid(None, "The body is not a JSON object")),
        None => Err(Refusal::invalid(
            None,
            "The body is empty: it must be a JSON object",
        )),
    }
}

fn dice(seed: Option<u64>, body: &[u8]) -> Dice {
    Dice::new(seed.unwrap_or_else(|| {
        let mut hasher = DefaultHasher::new();
        hasher.write(body);
        hasher.finish()
    }))
}

fn encode(input: &Input<'_>, config: &ServerConfig, ids: &mut Vec<u32>) {
    match input {
        Input::Text(text) => config.vocabulary.encode(text, ids),
        Input::Ids(list) => ids.extend_from_slice(list),
    }
}

fn count(ids: &[u32]) -> u32 {
    u32::try_from(ids.len()).unwrap_or(u32::MAX)
}

/// For each full block of `block_tokens` tokens, a hash of the tokens up to its end.
fn blocks(ids: &[u32], block_tokens: usize) -> Rc<[u64]> {
    if block_tokens == 0 {
        return Rc::default();
    }
    let mut hasher = DefaultHasher::new();
    ids.chunks_exact(block_tokens)
        .map(|block| {
            for id in block {
                hasher.write_u32(*id);
            }
            hasher.finish()
        })
        .collect()
}

/// The name must be short enough, and, if only served models are answered for, one of theirs.
fn check_model(model: Option<&str>, config: &ServerConfig) -> Result<(), Refusal> {
    let Some(model) = model else {
        return Ok(());
    };
    let bytes_max = config.limits.model_bytes_max;
    if model.len() > bytes_max {
        let message = format!("The name of a model has at most {bytes_max} bytes here");
        return Err(Refusal::invalid(Some("model"), message));
    }
    if config.strict_model && !config.models().any(|served| served == model) {
        return Err(Refusal::model(model));
    }
    Ok(())
}

#[derive(Deserialize)]
struct Body<'a> {
    #[serde(borrow)]
    model: Option<prompt::Text<'a>>,
    messages: Option<Vec<Message<'a>>>,
    prompt: Option<Inputs<'a>>,
    input: Option<Items<'a>>,
    instructions: Option<prompt::Text<'a>>,
    stream: Option<bool>,
    stream_options: Option<StreamOptions>,
    max_tokens: Option<u64>,
    max_completion_tokens: Option<u64>,
    max_output_tokens: Option<u64>,
    min_tokens: Option<u64>,
    ignore_eos: Option<bool>,
    n: Option<u64>,
    stop: Option<Stops<'a>>,
    seed: Option<i64>,
    logprobs: Option<Logprobs>,
    top_logprobs: Option<u32>,
    reasoning_effort: Option<Effort>,
    reasoning: Option<Reasoning>,
    tools: Option<Vec<Value>>,
    tool_choice: Option<Value>,
    parallel_tool_calls: Option<bool>,
}

#[derive(Clone, Copy, Default, Deserialize)]
struct StreamOptions {
    include_usage: Option<bool>,
    continuous_usage_stats: Option<bool>,
}

#[derive(Clone, Copy, Deserialize)]
struct Reasoning {
    effort: Option<Effort>,
    max_tokens: Option<u32>,
}

/// How much an answer reasons first.
#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Effort {
    None,
    Minimal,
    Low,
    Medium,
    High,
    XHigh,
}

impl Effort {
    /// The share of an answer's tokens, in percent: the ratios that OpenRouter documents.
    fn percent(self) -> u64 {
        match self {
            Self::None => 0,
            Self::Minimal => 10,
            Self::Low => 20,
            Self::Medium => 50,
            Self::High => 80,
            Self::XHigh => 95,
        }
    }
}

impl<'a> Body<'a> {
    /// What is asked, in order.
    fn inputs(&self, endpoint: Endpoint) -> Result<Vec<Input<'a>>, Refusal> {
        let texts = |texts: &[Cow<'a, str>]| texts.iter().cloned().map(Input::Text).collect();
        match endpoint {
            Endpoint::Chat => match &self.messages {
                Some(messages) if !messages.is_empty() => {
                    let all = messages.iter().flat_map(|message| &message.content.0);
                    Ok(texts(&all.cloned().collect::<Vec<_>>()))
                }
                _ => Err(missing("messages")),
            },
            Endpoint::Completions => match &self.prompt {
                Some(Inputs(inputs)) if inputs.len() == 1 => Ok(inputs.clone()),
                _ => Err(missing("prompt")),
            },
            Endpoint::Responses => {
                let mut all: Vec<_> = self
                    .instructions
                    .iter()
                    .map(|text| text.0.clone())
                    .collect();
                match &self.input {
                    Some(Items::Text(text)) => all.push(text.clone()),
                    Some(Items::Items(items)) if !items.is_empty() => {
                        for item in items {
                            all.extend_from_slice(&item.content.0);
                            all.extend_from_slice(&item.output.0);
                        }
                    }
                    _ => return Err(missing("input")),
                }
                Ok(texts(&all))
            }
        }
    }

    fn length(
        &self,
        endpoint: Endpoint,
        prompt_tokens: u32,
        config: &ServerConfig,
    ) -> Result<Length, Refusal> {
        let (param, asked) = match (endpoint, self.max_completion_tokens) {
            (Endpoint::Responses, _) => ("max_output_tokens", self.max_output_tokens),
            (_, Some(asked)) => ("max_completion_tokens", Some(asked)),
            (_, None) => ("max_tokens", self.max_tokens),
        };
        let length = Length::new(
            (param, asked),
            self.min_tokens.unwrap_or(0),
            prompt_tokens,
            config,
        )?;
        let choices = self.n.unwrap_or(1);
        if choices == 0 || choices > CHOICES_MAX {
            let message = format!("'n' must be from 1 to {CHOICES_MAX}");
            return Err(Refusal::invalid(Some("n"), message));
        }
        let tokens_max = config.limits.tokens_max;
        if choices * u64::from(length.tokens) > u64::from(tokens_max) {
            let message = format!("All choices together have at most {tokens_max} tokens here");
            return Err(Refusal::invalid(Some("n"), message));
        }
        Ok(length)
    }

    /// What each choice says.
    fn outputs(
        &self,
        endpoint: Endpoint,
        config: &ServerConfig,
        length: &Length,
        dice: &mut Dice,
    ) -> Result<Rc<[Output]>, Refusal> {
        let stops = self.stop.as_ref().map_or(&[][..], |stops| &stops.0);
        if stops.len() > STOPS_MAX || stops.iter().any(|stop| stop.is_empty()) {
            let message = format!("'stop' is up to {STOPS_MAX} texts that are not empty");
            return Err(Refusal::invalid(Some("stop"), message));
        }
        let choices = u32::try_from(self.n.unwrap_or(1)).unwrap_or(1);
        let first = if self.seed.is_some() {
            // Any 32 bits are as good as any other.
            (dice.draw() >> 32) as u32
        } else {
            0
        };
        let tools = Tools {
            tools: self.tools.as_deref().unwrap_or_default(),
            choice: self.tool_choice.as_ref(),
            parallel: self.parallel_tool_calls == Some(true),
        };
        if config.echo {
            let text = self.echo(endpoint, config);
            let output = stop(echo(&text, length, config), stops, length.min_tokens);
            return Ok(vec![output; choices as usize].into());
        }
        let eos = !self.ignore_eos.unwrap_or(false);
        (0..choices)
            .map(|choice| {
                let (tokens, finish) = length.draw(config.output_tokens, eos, dice);
                let reasoning = self.reasoning(endpoint, tokens);
                let calls = if endpoint == Endpoint::Completions {
                    Vec::new()
                } else {
                    let probability = config.tool_call_probability;
                    tools.calls(probability, &config.vocabulary, dice)?
                };
                let start = first.wrapping_add(choice * CHOICE_STEP);
                if !calls.is_empty() {
                    let most = length.asked.unwrap_or(config.limits.tokens_max);
                    return Ok(Output::words(start, reasoning, 0, finish).calling(calls, most));
                }
                let output = Output::words(start, reasoning, tokens - reasoning, finish);
                let min_tokens = length.min_tokens.saturating_sub(reasoning);
                Ok(stop(output, stops, min_tokens))
            })
            .collect()
    }

    /// What the user said last, of a chat or of items; else the prompt.
    fn echo(&self, endpoint: Endpoint, config: &ServerConfig) -> String {
        let is_user = |role: &prompt::Text<'_>| role.0 == "user";
        let texts = match endpoint {
            Endpoint::Chat => {
                let mut messages = self.messages.iter().flatten().rev();
                messages
                    .find(|message| is_user(&message.role))
                    .map(|message| message.content.0.concat())
            }
            Endpoint::Completions => self.prompt.as_ref().and_then(|Inputs(inputs)| {
                inputs.first().map(|input| match input {
                    Input::Text(text) => text.to_string(),
                    Input::Ids(ids) => config.vocabulary.decode(ids),
                })
            }),
            Endpoint::Responses => self.input.as_ref().and_then(|input| match input {
                Items::Text(text) => Some(text.to_string()),
                Items::Items(items) => items
                    .iter()
                    .rev()
                    .find(|item| item.role.as_ref().is_some_and(is_user))
                    .map(|item| item.content.0.concat()),
            }),
        };
        texts.unwrap_or_default()
    }

    /// How many of an answer's tokens are reasoning.
    fn reasoning(&self, endpoint: Endpoint, tokens: u32) -> u32 {
        if endpoint == Endpoint::Completions {
            return 0;
        }
        let reasoning = self.reasoning;
        if let Some(most) = reasoning.and_then(|reasoning| reasoning.max_tokens) {
            return most.min(tokens);
        }
        let effort = self
            .reasoning_effort
            .or_else(|| reasoning.and_then(|reasoning| reasoning.effort));
        let percent = effort.map_or(0, Effort::percent);
        u32::try_from(u64::from(tokens) * percent / 100).unwrap_or(tokens)
    }

    fn logprobs(&self, endpoint: Endpoint) -> Result<Option<u32>, Refusal> {
        let top = match (endpoint, self.logprobs) {
            (Endpoint::Completions, Some(Logprobs::Count(count))) => Some(count),
            (Endpoint::Completions, Some(Logprobs::Asked(true))) => Some(1),
            (Endpoint::Chat, Some(Logprobs::Asked(true))) => Some(self.top_logprobs.unwrap_or(0)),
            (Endpoint::Chat, Some(Logprobs::Count(_))) => {
                return Err(Refusal::invalid(
                    Some("logprobs"),
                    "'logprobs' is true or false",
                ));
            }
            (Endpoint::Chat, _) if self.top_logprobs.is_some_and(|top| top > 0) => {
                return Err(Refusal::invalid(
                    Some("top_logprobs"),
                    "'top_logprobs' may only be set together with 'logprobs': true",
                ));
            }
            (Endpoint::Responses, _) => self.top_logprobs,
            _ => None,
        };
        if top.is_some_and(|top| top > TOP_LOGPROBS_MAX) {
            let message = format!("At most {TOP_LOGPROBS_MAX} alternatives can be had");
            return Err(Refusal::invalid(Some("top_logprobs"), message));
        }
        Ok(top)
    }
}

/// Where the second choice begins in the list of words, and each one after it again.
const CHOICE_STEP: u32 = 13;

fn missing(param: &'static str) -> Refusal {
    Refusal::invalid(Some(param), format!("'{param}' must be one, and not empty"))
}

/// `text`, as far as it may be said.
fn echo(text: &str, length: &Length, config: &ServerConfig) -> Output {
    let tokens = config.vocabulary.take_apart(text);
    let most = length.asked.unwrap_or(config.limits.tokens_max);
    let finish = if tokens.ends.len() > most as usize {
        Finish::Length
    } else {
        Finish::Stop
    };
    Output {
        text: Text::of(tokens.into(), most),
        ..Output::words(0, 0, 0, finish)
    }
}

/// Ends an answer at the first stop string.
fn stop(mut output: Output, stops: &[Cow<'_, str>], min_tokens: u32) -> Output {
    if let Some(stopped) = stopped(&output.text, stops, min_tokens) {
        output.finish = Finish::Stop;
        output.stop_reason = Some(stopped.stop.into());
        let (tokens, bytes) = (stopped.tokens, stopped.bytes);
        output.text = output.text.cut(tokens, bytes);
    }
    output
}

impl Output {
    /// Calls instead of a text, all of it at most `tokens_max` tokens.
    fn calling(mut self, mut calls: Vec<crate::answer::Call>, tokens_max: u32) -> Self {
        self.text = Text::words(0, 0);
        self.finish = Finish::ToolCalls;
        let mut left = tokens_max.saturating_sub(self.reasoning.tokens());
        calls.retain_mut(|call| {
            let fits = left >= call.name_tokens;
            if fits {
                left -= call.name_tokens;
                let arguments = std::mem::replace(&mut call.arguments, Text::words(0, 0));
                let tokens = arguments.tokens();
                call.arguments = arguments.truncated(left);
                left -= call.arguments.tokens();
                if call.arguments.tokens() < tokens {
                    self.finish = Finish::Length;
                    left = 0;
                }
            } else {
                self.finish = Finish::Length;
                left = 0;
            }
            fits
        });
        self.calls = calls.into();
        self
    }
}
