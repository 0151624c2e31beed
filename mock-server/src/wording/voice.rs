//! One endpoint's words in one dialect, in the name of one model.

use super::dialect::Dialect;
use super::fill::{Fill, Palette, Said};
use super::framing::Content;
use super::habits::{Block, Habits, Http, Lines, UsageAt, Words};
use super::json::string;
use super::logprobs::Logprobs;
use super::responses::{Item, Responses};
use super::template::Template;
use crate::answer::{Answer, Endpoint, Part, Step, Usage, Walk};
use crate::id::Id;

/// What is the same in all events of one answer, and differs from answer to answer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Stamp {
    /// The `id`, without its prefix.
    pub(crate) id: Id,
    /// Seconds since 1970.
    pub(crate) created: u64,
}

/// How far the telling of one stream has come.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Telling {
    /// Events so far.
    pub(super) serial: u32,
    /// Chunks so far.
    pub(super) chunks: u32,
    /// Responses API: output items so far, the open one among them.
    pub(super) items: u32,
    pub(super) open: Option<Item>,
}

/// How one endpoint words its answers in the name of one model.
#[derive(Debug)]
pub(crate) struct Voice {
    /// Different from that of every other voice of the same composer.
    pub(crate) number: u64,
    dialect: Dialect,
    habits: &'static Habits,
    palette: Palette,
    speech: Speech,
}

#[derive(Debug)]
enum Speech {
    /// Chat and completions.
    Chunks(Box<Chunks>),
    Responses(Box<Responses>),
}

/// The events of chat and of completions, and the whole answer.
#[derive(Debug)]
struct Chunks {
    greeting: Vec<Event>,
    open: Vec<Event>,
    reasoning: Vec<Event>,
    text: Vec<Event>,
    call: Vec<Event>,
    arguments: Vec<Event>,
    finish: Vec<Event>,
    usage: Vec<Event>,
    /// The end of the stream, and what comes after it.
    done: Vec<Event>,
    whole: Template,
}

/// An event in each form that the dialect has.
#[derive(Debug)]
pub(super) struct Event {
    forms: Box<[Template]>,
}

impl Event {
    /// Compiles the JSON of an event, and its name if it has one, into lines.
    pub(super) fn new(lines: &Lines, name: Option<&str>, json: &str) -> Self {
        let form = |block: &Block| {
            let json = if block.breaks {
                broken(json)
            } else {
                json.to_owned()
            };
            Self::form(block, name, &json)
        };
        Self {
            forms: lines.blocks.iter().map(form).collect(),
        }
    }

    /// The same for data that is not JSON.
    fn word(lines: &Lines, data: &str) -> Self {
        let form = |block| Self::form(block, None, data);
        Self {
            forms: lines.blocks.iter().map(form).collect(),
        }
    }

    fn form(block: &Block, name: Option<&str>, data: &str) -> Template {
        let name = name.map_or_else(String::new, |name| format!("event: {name}{}", block.eol));
        let data = data.replace('\n', &format!("{}{}", block.eol, block.data));
        Template::new(&[block.before, &name, block.data, &data, block.after].concat())
    }

    /// Appends the event, and counts it.
    #[inline]
    pub(super) fn say(&self, out: &mut Vec<u8>, telling: &mut Telling, fill: &mut Fill<'_>) {
        fill.serial = telling.serial;
        let form = match &*self.forms {
            [only] => only,
            forms => &forms[telling.serial as usize % forms.len()],
        };
        telling.serial = telling.serial.wrapping_add(1);
        fill.render(form, out);
    }
}

/// JSON with a line end after each `{`, `[` and `,` that is not in a string.
fn broken(json: &str) -> String {
    let mut out = String::with_capacity(2 * json.len());
    let (mut inside, mut escape) = (false, false);
    for letter in json.chars() {
        out.push(letter);
        match letter {
            '"' if !escape => inside = !inside,
            '{' | '[' | ',' if !inside => out.push('\n'),
            _ => {}
        }
        escape = letter == '\\' && !escape;
    }
    out
}

/// The template `text` in the name of `model`.
pub(super) fn in_the_name_of(model: &str, text: &str) -> String {
    let mut name = Vec::new();
    string(&mut name, model);
    let name = String::from_utf8_lossy(&name).replace('$', "$$");
    text.replace("$model", &name)
}

impl Chunks {
    fn new(habits: &Habits, words: &Words, model: &str) -> Self {
        let lines = &habits.lines;
        let named = |text: &str| in_the_name_of(model, text);
        let event = |json: &str| Event::new(lines, None, json);
        let events = |choices: &[&str]| -> Vec<Event> {
            let chunk = |choice: &&str| event(&named(&words.chunk.replace('@', choice)));
            choices.iter().map(chunk).collect()
        };
        let word = |data: &&str| Event::word(lines, data);
        Self {
            greeting: words.greeting.iter().map(|json| event(json)).collect(),
            open: events(words.open),
            reasoning: events(words.reasoning),
            text: events(words.text),
            call: events(words.call),
            arguments: events(words.arguments),
            finish: events(words.finish),
            usage: vec![event(&named(words.usage_chunk))],
            done: lines.done.iter().chain(lines.late).map(word).collect(),
            whole: Template::new(&named(words.whole)),
        }
    }
}

impl Voice {
    pub(crate) fn new(dialect: Dialect, endpoint: Endpoint, model: &str, number: u64) -> Self {
        let habits = dialect.habits();
        let words = match endpoint {
            Endpoint::Completions => &habits.completions,
            Endpoint::Chat | Endpoint::Responses => &habits.chat,
        };
        let palette = Palette {
            endpoint,
            letters: habits.letters,
            finish_word: habits.finish_word,
            no_usage: habits.no_usage,
            usage: Template::new(habits.usage),
            whole_choice: Template::new(words.whole_choice),
            whole_reasoning: Template::new(words.whole_reasoning),
            whole_call: Template::new(words.whole_call),
        };
        let speech = match endpoint {
            Endpoint::Responses => Speech::Responses(Box::new(Responses::new(habits, model))),
            _ => Speech::Chunks(Box::new(Chunks::new(habits, words, model))),
        };
        Self {
            number,
            dialect,
            habits,
            palette,
            speech,
        }
    }

    pub(crate) fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// How its answers become responses.
    pub(crate) fn http(&self) -> &'static Http {
        &self.habits.http
    }

    /// Appends what comes with the head of a stream, before there is any token; mostly nothing.
    pub(crate) fn greeting(
        &self,
        out: &mut Vec<u8>,
        telling: &mut Telling,
        stamp: &Stamp,
        answer: &Answer,
    ) {
        out.extend_from_slice(self.habits.lines.first.as_bytes());
        let mut fill = Fill::new(&self.palette, stamp, answer);
        let events = match &self.speech {
            Speech::Chunks(chunks) => &chunks.greeting,
            Speech::Responses(responses) => &responses.greeting,
        };
        for event in events {
            event.say(out, telling, &mut fill);
        }
    }

    /// Appends the events of one step, without HTTP framing; nothing, where the dialect has none
    /// for it, which it has for every [`Step::Delta`].
    pub(crate) fn event(
        &self,
        out: &mut Vec<u8>,
        telling: &mut Telling,
        stamp: &Stamp,
        answer: &Answer,
        step: &Step<'_>,
    ) {
        let fill = Fill::new(&self.palette, stamp, answer);
        match &self.speech {
            Speech::Chunks(chunks) => chunks.step(self.habits, out, telling, fill, step),
            Speech::Responses(responses) => responses.step(out, telling, fill, step),
        }
    }

    /// The body of an answer that is sent when it is complete, and what it is. `said` is told the
    /// steps of a stream.
    pub(crate) fn complete(
        &self,
        out: &mut Vec<u8>,
        stamp: &Stamp,
        answer: &Answer,
        mut said: impl FnMut(&Step<'_>),
    ) -> Content {
        if !answer.stream {
            self.whole(out, stamp, answer);
            return Content::Json;
        }
        let mut telling = Telling::default();
        self.greeting(out, &mut telling, stamp, answer);
        let mut walk = Walk::new();
        while !walk.is_over() {
            walk.advance(1);
            while let Some(step) = walk.step(answer) {
                self.event(out, &mut telling, stamp, answer, &step);
                said(&step);
            }
        }
        Content::Events
    }

    /// The body of an answer that is not streamed.
    fn whole(&self, out: &mut Vec<u8>, stamp: &Stamp, answer: &Answer) {
        let fill = Fill {
            usage: Some(answer.usage()),
            ..Fill::new(&self.palette, stamp, answer)
        };
        match &self.speech {
            Speech::Chunks(chunks) => fill.render(&chunks.whole, out),
            Speech::Responses(responses) => responses.whole(out, fill),
        }
    }
}

impl Chunks {
    fn step(
        &self,
        habits: &Habits,
        out: &mut Vec<u8>,
        telling: &mut Telling,
        mut fill: Fill<'_>,
        step: &Step<'_>,
    ) {
        let answer = fill.answer;
        let events = match *step {
            Step::Open { choice } => {
                fill.index = choice;
                &self.open
            }
            Step::Delta {
                choice,
                from,
                tokens,
                part,
                usage,
            } => {
                let last = from + tokens == answer.output(choice).tokens();
                fill.index = choice;
                fill.usage = usage;
                if habits.finish_with_last && last {
                    finish(habits, &mut fill, usage);
                }
                return self.delta(habits, out, telling, fill, (part, from, tokens));
            }
            Step::Finish { choice, usage, .. } => {
                if habits.finish_with_last && answer.output(choice).tokens() > 0 {
                    return;
                }
                fill.index = choice;
                if habits.usage_at == UsageAt::BeforeFinish && answer.include_usage {
                    fill.usage = Some(answer.usage());
                    say(&self.usage, out, telling, &mut fill);
                }
                finish(habits, &mut fill, usage);
                &self.finish
            }
            Step::Usage(usage) if habits.usage_at == UsageAt::Own => {
                fill.usage = Some(usage);
                &self.usage
            }
            Step::Usage(_) => return,
            Step::Done => &self.done,
        };
        say(events, out, telling, &mut fill);
    }

    fn delta<'a>(
        &self,
        habits: &Habits,
        out: &mut Vec<u8>,
        telling: &mut Telling,
        mut fill: Fill<'a>,
        (part, from, tokens): (Part<'a>, u32, u32),
    ) {
        let events = match part {
            Part::Reasoning(text) => {
                fill.said = Said::Piece(text);
                &self.reasoning
            }
            Part::Text(text) => {
                fill.said = Said::Piece(text);
                if let Some(top) = fill.answer.logprobs {
                    fill.logprobs = Some(Logprobs {
                        text,
                        tokens,
                        top,
                        offset: characters_before(&fill, from),
                    });
                }
                &self.text
            }
            Part::Call {
                index,
                id: Some(id),
                name,
                arguments,
            } if !habits.calls_first => {
                (fill.call, fill.call_id) = (index, id);
                fill.call_name = name.unwrap_or_default();
                fill.said = Said::Piece(arguments);
                &self.call
            }
            Part::Call {
                index: 0,
                id: Some(_),
                ..
            } => {
                for (index, call) in (0..).zip(fill.output().calls.iter()) {
                    (fill.call, fill.call_id, fill.call_name) = (index, &call.id, &call.name);
                    say(&self.call, out, telling, &mut fill);
                }
                return;
            }
            // Where all calls are begun with the first, the others' beginnings say nothing.
            Part::Call {
                index, arguments, ..
            } => {
                fill.call = index;
                fill.said = Said::Piece(arguments);
                &self.arguments
            }
        };
        say(events, out, telling, &mut fill);
    }
}

fn say(events: &[Event], out: &mut Vec<u8>, telling: &mut Telling, fill: &mut Fill<'_>) {
    for event in events {
        event.say(out, telling, fill);
    }
}

/// Says why the choice ends, with the usage if it belongs there; `so_far` is the choice's own.
fn finish(habits: &Habits, fill: &mut Fill<'_>, so_far: Option<Usage>) {
    let output = fill.output();
    fill.finish = Some(output.finish);
    fill.stop = output.stop_reason.as_deref();
    let asked = fill.answer.include_usage || habits.usage_always;
    fill.usage = if habits.usage_at == UsageAt::Finish && asked {
        Some(fill.answer.usage())
    } else {
        so_far
    };
}

/// Characters of the choice's text before token `from` of the choice.
fn characters_before(fill: &Fill<'_>, from: u32) -> u32 {
    let output = fill.output();
    let end = from.saturating_sub(output.reasoning.tokens());
    let (mut at, mut characters) = (0, 0);
    while at < end
        && let Ok((text, tokens)) = output.text.slice(at, end)
    {
        at += tokens;
        characters += text.chars().count();
    }
    u32::try_from(characters).unwrap_or(u32::MAX)
}
