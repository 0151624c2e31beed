//! What an answer says, time and wording apart.

mod text;
mod walk;
mod words;

use std::rc::Rc;

pub(crate) use text::{Text, Tokens};
pub(crate) use walk::Walk;
pub(crate) use words::word;
pub use words::{text, token};

/// Which of the generating endpoints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Endpoint {
    Chat,
    Completions,
    Responses,
}

/// Why an answer ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Finish {
    /// The request's own maximum was reached.
    Length,
    /// The answer ended by itself, or at the server's default length, or at a stop string.
    Stop,
    /// The answer is calls of tools.
    ToolCalls,
}

impl Finish {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Length => "length",
            Self::Stop => "stop",
            Self::ToolCalls => "tool_calls",
        }
    }
}

/// What decides the bytes of an answer, but for the model's name. Equal answers have equal bytes,
/// but for `id` and `created`. Cheap to clone.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Answer {
    pub(crate) endpoint: Endpoint,
    pub(crate) stream: bool,
    /// A streamed answer ends with an event that carries the usage.
    pub(crate) include_usage: bool,
    /// Every event carries the usage so far.
    pub(crate) continuous_usage: bool,
    pub(crate) prompt_tokens: u32,
    /// Those of them that the prefix cache had.
    pub(crate) cached_tokens: u32,
    /// Log probabilities of the tokens, with this many alternatives each.
    pub(crate) logprobs: Option<u32>,
    /// What each choice says. INVARIANT: not empty.
    pub(crate) outputs: Rc<[Output]>,
}

/// What one choice says: its reasoning, then its text, then its calls.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Output {
    pub(crate) reasoning: Text,
    pub(crate) text: Text,
    pub(crate) calls: Box<[Call]>,
    pub(crate) finish: Finish,
    /// The stop string that ended it.
    pub(crate) stop_reason: Option<Box<str>>,
}

impl Output {
    /// About the memory that it takes.
    pub(crate) fn bytes(&self) -> usize {
        let calls = self.calls.iter().map(|call| {
            size_of::<Call>() + call.id.len() + call.name.len() + call.arguments.bytes()
        });
        size_of::<Self>() + self.reasoning.bytes() + self.text.bytes() + calls.sum::<usize>()
    }

    /// All its tokens.
    pub(crate) fn tokens(&self) -> u32 {
        let calls = self.calls.iter().map(Call::tokens).sum::<u32>();
        self.reasoning.tokens() + self.text.tokens() + calls
    }
}

/// One call of a tool.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Call {
    /// Unique within its answer.
    pub(crate) id: Box<str>,
    pub(crate) name: Box<str>,
    /// What the name takes, and what comes with it.
    pub(crate) name_tokens: u32,
    pub(crate) arguments: Text,
}

impl Call {
    fn tokens(&self) -> u32 {
        self.name_tokens + self.arguments.tokens()
    }
}

/// Token counts of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Usage {
    pub(crate) prompt: u32,
    /// Reasoning included.
    pub(crate) completion: u32,
    pub(crate) reasoning: u32,
    pub(crate) cached: u32,
}

/// One event of a stream, whatever its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step<'a> {
    /// A choice begins: its role.
    Open { choice: u32 },
    /// Tokens `from..from + tokens` of a choice.
    Delta {
        choice: u32,
        from: u32,
        tokens: u32,
        part: Part<'a>,
        /// The usage so far, where every event carries it.
        usage: Option<Usage>,
    },
    /// A choice ends.
    Finish {
        choice: u32,
        reason: Finish,
        stop_reason: Option<&'a str>,
        /// As in `Delta`.
        usage: Option<Usage>,
    },
    /// The usage of the whole answer, where it was asked for.
    Usage(Usage),
    /// The stream is over.
    Done,
}

/// What tokens say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part<'a> {
    Reasoning(&'a str),
    /// May need escapes in JSON, and may be empty: a token can be half a character.
    Text(&'a str),
    Call {
        index: u32,
        /// Both are there in a call's first event, and only there; `arguments` is empty then.
        id: Option<&'a str>,
        name: Option<&'a str>,
        arguments: &'a str,
    },
}

impl Part<'_> {
    /// Whether there is anything in it.
    pub(crate) fn is_content(&self) -> bool {
        match self {
            Self::Reasoning(text) | Self::Text(text) => !text.is_empty(),
            Self::Call { id, arguments, .. } => id.is_some() || !arguments.is_empty(),
        }
    }
}

impl Answer {
    pub(crate) fn choices(&self) -> u32 {
        u32::try_from(self.outputs.len()).expect("the number of choices was a u32")
    }

    pub(crate) fn output(&self, choice: u32) -> &Output {
        &self.outputs[choice as usize]
    }

    /// Tokens of all choices.
    pub(crate) fn tokens(&self) -> u32 {
        self.outputs.iter().map(Output::tokens).sum()
    }

    /// Tokens of the longest choice: what it takes to generate them side by side.
    pub(crate) fn tokens_longest(&self) -> u32 {
        self.outputs.iter().map(Output::tokens).max().unwrap_or(0)
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage {
            prompt: self.prompt_tokens,
            completion: self.tokens(),
            reasoning: self.outputs.iter().map(|o| o.reasoning.tokens()).sum(),
            cached: self.cached_tokens,
        }
    }

    /// The usage of `choice` after its first `tokens` tokens.
    fn usage_so_far(&self, choice: u32, tokens: u32) -> Usage {
        Usage {
            prompt: self.prompt_tokens,
            completion: tokens,
            reasoning: tokens.min(self.output(choice).reasoning.tokens()),
            cached: self.cached_tokens,
        }
    }

    /// What tokens of `choice` say, from token `from` on and up to token `end`, as far as that is
    /// one part, and how many tokens that is. `from < end <= tokens`
    fn part(&self, choice: u32, from: u32, end: u32) -> (Part<'_>, u32) {
        let output = self.output(choice);
        let (from, end) = match output.reasoning.slice(from, end) {
            Ok((text, tokens)) => return (Part::Reasoning(text), tokens),
            Err(rest) => rest,
        };
        let (mut from, mut end) = match output.text.slice(from, end) {
            Ok((text, tokens)) => return (Part::Text(text), tokens),
            Err(rest) => rest,
        };
        for (index, call) in (0..).zip(&output.calls) {
            if from < call.name_tokens {
                let part = Part::Call {
                    index,
                    id: (from == 0).then_some(&call.id),
                    name: (from == 0).then_some(&call.name),
                    arguments: "",
                };
                // A name is not cut: all of it comes with its first token.
                return (part, (call.name_tokens - from).min(end - from));
            }
            match call
                .arguments
                .slice(from - call.name_tokens, end - call.name_tokens)
            {
                Ok((arguments, tokens)) => {
                    let part = Part::Call {
                        index,
                        id: None,
                        name: None,
                        arguments,
                    };
                    return (part, tokens);
                }
                Err(rest) => (from, end) = rest,
            }
        }
        (Part::Text(""), end - from)
    }
}

/// The first token of the fixed text of each kind: reasoning should not read like the answer.
const REASONING_START: u32 = 31;

impl Output {
    /// Words of the fixed text: `reasoning` tokens of reasoning, then `text` tokens. `seed` chooses
    /// where the text begins; 0: with [`token`] 0.
    pub(crate) fn words(seed: u32, reasoning: u32, text: u32, finish: Finish) -> Self {
        Self {
            reasoning: Text::words(seed.wrapping_add(REASONING_START), reasoning),
            text: Text::words(seed, text),
            calls: Box::default(),
            finish,
            stop_reason: None,
        }
    }
}
