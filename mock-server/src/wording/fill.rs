//! What goes into the holes of a template.

use super::habits::NoUsage;
use super::json::{number, put};
use super::letters::Letters;
use super::logprobs::Logprobs;
use super::responses::Responses;
use super::template::{Hole, Template};
use super::voice::Stamp;
use crate::answer::{Answer, Call, Endpoint, Finish, Output, Usage};

/// What all fillings of a voice need.
#[derive(Debug)]
pub(super) struct Palette {
    pub(super) endpoint: Endpoint,
    pub(super) letters: Letters,
    pub(super) finish_word: Option<&'static str>,
    pub(super) no_usage: NoUsage,
    pub(super) usage: Template,
    pub(super) whole_choice: Template,
    /// The name of the field that holds a whole answer's reasoning, with its text.
    pub(super) whole_reasoning: Template,
    pub(super) whole_call: Template,
}

/// What one event, or one whole answer, says.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fill<'a> {
    pub(super) palette: &'a Palette,
    pub(super) stamp: &'a Stamp,
    pub(super) answer: &'a Answer,
    pub(super) serial: u32,
    pub(super) index: u32,
    pub(super) said: Said<'a>,
    pub(super) call: u32,
    pub(super) call_id: &'a str,
    pub(super) call_name: &'a str,
    pub(super) finish: Option<Finish>,
    pub(super) stop: Option<&'a str>,
    pub(super) usage: Option<Usage>,
    pub(super) logprobs: Option<Logprobs<'a>>,
    pub(super) output_index: u32,
    /// Whose items `$output` stands for.
    pub(super) responses: Option<&'a Responses>,
}

/// What `$text` stands for.
#[derive(Clone, Copy, Debug)]
pub(super) enum Said<'a> {
    /// A piece.
    Piece(&'a str),
    /// All reasoning of the choice.
    Reasoning(&'a Output),
    /// All arguments of a call.
    Arguments(&'a Call),
}

impl<'a> Fill<'a> {
    /// Nothing is said yet.
    pub(super) fn new(palette: &'a Palette, stamp: &'a Stamp, answer: &'a Answer) -> Self {
        Self {
            palette,
            stamp,
            answer,
            serial: 0,
            index: 0,
            said: Said::Piece(""),
            call: 0,
            call_id: "",
            call_name: "",
            finish: None,
            stop: None,
            usage: None,
            logprobs: None,
            output_index: 0,
            responses: None,
        }
    }

    pub(super) fn render(&self, template: &Template, out: &mut Vec<u8>) {
        template.render(out, |out, hole| self.put(out, hole));
    }

    #[inline]
    fn put(&self, out: &mut Vec<u8>, hole: Hole) {
        match hole {
            Hole::Id => out.extend_from_slice(self.stamp.id.as_bytes()),
            Hole::Created => number(out, self.stamp.created),
            Hole::Serial => number(out, self.serial.into()),
            Hole::Index => number(out, self.index.into()),
            Hole::Text => self.text(out),
            Hole::Call => number(out, self.call.into()),
            Hole::CallId => self.palette.letters.put(out, self.call_id),
            Hole::CallName => self.palette.letters.put(out, self.call_name),
            Hole::Finish => self.finish(out),
            Hole::Stop => match self.stop {
                None => out.extend_from_slice(b"null"),
                Some(stop) => self.string(out, [stop]),
            },
            Hole::UsageField => self.usage_field(out),
            Hole::Usage => match &self.usage {
                None => out.extend_from_slice(b"null"),
                Some(_) => self.render(&self.palette.usage, out),
            },
            Hole::Logprobs => self.logprobs(out),
            _ => self.rare(out, hole),
        }
    }

    /// Holes of usage objects and of whole answers.
    fn rare(&self, out: &mut Vec<u8>, hole: Hole) {
        let usage = self.usage.unwrap_or_default();
        match hole {
            Hole::Prompt => number(out, usage.prompt.into()),
            Hole::Completion => number(out, usage.completion.into()),
            Hole::Total => number(out, u64::from(usage.prompt) + u64::from(usage.completion)),
            Hole::Cached => number(out, usage.cached.into()),
            Hole::Reasoning => number(out, usage.reasoning.into()),
            Hole::CachedField => detail(
                out,
                br#","prompt_tokens_details":{"cached_tokens":"#,
                usage.cached,
            ),
            Hole::ReasoningField => detail(
                out,
                br#","completion_tokens_details":{"reasoning_tokens":"#,
                usage.reasoning,
            ),
            Hole::OutputIndex => number(out, self.output_index.into()),
            Hole::Output => {
                if let Some(responses) = self.responses {
                    responses.output(out, self);
                }
            }
            Hole::Choices => self.choices(out),
            Hole::Content
                if self.output().text.tokens() == 0 && !self.output().calls.is_empty() =>
            {
                out.extend_from_slice(b"null");
            }
            Hole::Content => self.string(out, self.output().text.pieces()),
            Hole::WholeText => self.pieces(out, self.output().text.pieces()),
            Hole::WholeReasoning if self.output().reasoning.tokens() > 0 => {
                let said = Said::Reasoning(self.output());
                Self { said, ..*self }.render(&self.palette.whole_reasoning, out);
            }
            Hole::WholeCalls if !self.output().calls.is_empty() => self.calls(out),
            _ => {}
        }
    }

    pub(super) fn output(&self) -> &'a Output {
        self.answer.output(self.index)
    }

    fn text(&self, out: &mut Vec<u8>) {
        match self.said {
            Said::Piece(piece) => self.palette.letters.put(out, piece),
            Said::Reasoning(output) => self.pieces(out, output.reasoning.pieces()),
            Said::Arguments(call) => self.pieces(out, call.arguments.pieces()),
        }
    }

    fn pieces<'t>(&self, out: &mut Vec<u8>, pieces: impl IntoIterator<Item = &'t str>) {
        for piece in pieces {
            self.palette.letters.put(out, piece);
        }
    }

    fn string<'t>(&self, out: &mut Vec<u8>, pieces: impl IntoIterator<Item = &'t str>) {
        out.push(b'"');
        self.pieces(out, pieces);
        out.push(b'"');
    }

    fn finish(&self, out: &mut Vec<u8>) {
        let Some(finish) = self.finish else {
            out.extend_from_slice(b"null");
            return;
        };
        let word = self.palette.finish_word.unwrap_or(finish.as_str());
        put(out, &[b"\"", word.as_bytes(), b"\""]);
    }

    fn usage_field(&self, out: &mut Vec<u8>) {
        if self.usage.is_some() {
            out.extend_from_slice(b",\"usage\":");
            self.render(&self.palette.usage, out);
            return;
        }
        let null = match self.palette.no_usage {
            NoUsage::Omitted => false,
            NoUsage::Null => true,
            NoUsage::NullIfAsked => self.answer.include_usage,
        };
        if null {
            out.extend_from_slice(b",\"usage\":null");
        }
    }

    fn logprobs(&self, out: &mut Vec<u8>) {
        match (&self.logprobs, self.palette.endpoint) {
            (None, Endpoint::Responses) => out.extend_from_slice(b"[]"),
            (None, _) => out.extend_from_slice(b"null"),
            (Some(logprobs), Endpoint::Completions) => {
                logprobs.completions(out, self.palette.letters);
            }
            (Some(logprobs), Endpoint::Chat) => logprobs.chat(out, self.palette.letters),
            (Some(logprobs), Endpoint::Responses) => logprobs.list(out, self.palette.letters),
        }
    }

    fn choices(&self, out: &mut Vec<u8>) {
        for (index, output) in (0..).zip(self.answer.outputs.iter()) {
            if index > 0 {
                out.push(b',');
            }
            let text: String;
            let logprobs = match self.answer.logprobs {
                Some(top) => {
                    text = output.text.pieces().collect();
                    Some(Logprobs {
                        text: &text,
                        tokens: output.text.tokens(),
                        top,
                        offset: 0,
                    })
                }
                None => None,
            };
            let choice = Fill {
                index,
                finish: Some(output.finish),
                stop: output.stop_reason.as_deref(),
                logprobs,
                ..*self
            };
            choice.render(&self.palette.whole_choice, out);
        }
    }

    fn calls(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(br#","tool_calls":["#);
        for (index, call) in (0..).zip(self.output().calls.iter()) {
            if index > 0 {
                out.push(b',');
            }
            let fill = Self {
                said: Said::Arguments(call),
                call: index,
                call_id: &call.id,
                call_name: &call.name,
                ..*self
            };
            fill.render(&self.palette.whole_call, out);
        }
        out.push(b']');
    }
}

fn detail(out: &mut Vec<u8>, open: &[u8], count: u32) {
    if count > 0 {
        out.extend_from_slice(open);
        number(out, count.into());
        out.push(b'}');
    }
}
