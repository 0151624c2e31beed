//! The words of `/v1/responses`: named events around output items.
//!
//! Reasoning, the message and each tool call are items. An item opens with its first delta and is
//! closed, its whole content said again, before the next one opens. The objects are OpenAI's, with
//! reasoning as `reasoning_text`; a dialect decides lines, letters and HTTP, and how an answer ends
//! that was cut at its maximum.

use super::fill::{Fill, Said};
use super::habits::Habits;
use super::logprobs::Logprobs;
use super::template::Template;
use super::voice::{Event, Telling, in_the_name_of};
use crate::answer::{Finish, Part, Step};

/// The open output item of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Item {
    Reasoning,
    Message,
    Call(u32),
}

/// The events of one kind of item.
#[derive(Debug)]
struct Kind {
    open: Vec<Event>,
    delta: Event,
    close: Vec<Event>,
    /// The item when it is complete.
    whole: Template,
}

#[derive(Debug)]
pub(super) struct Responses {
    pub(super) greeting: Vec<Event>,
    reasoning: Kind,
    message: Kind,
    call: Kind,
    completed: Event,
    /// The end of an answer that was cut at its maximum.
    cut: Event,
    whole: Template,
    whole_cut: Template,
}

const REASONING: &str = r#"{"id":"rs_$id","type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"$text"}],"encrypted_content":null,"status":"completed"}"#;
const MESSAGE: &str = r#"{"id":"msg_$id","type":"message","status":"completed","role":"assistant","content":[{"type":"output_text","text":"$whole_text","annotations":[],"logprobs":$logprobs}]}"#;
const CALL: &str = r#"{"id":"fc_$call-$id","type":"function_call","status":"completed","call_id":"$call_id","name":"$call_name","arguments":"$text"}"#;

const COMPLETED: &str = r#""status":"completed","incomplete_details":null"#;
const CUT: &str = r#""status":"incomplete","incomplete_details":{"reason":"max_output_tokens"}"#;

/// The response object when it is over.
fn response(state: &str) -> String {
    format!(
        r#"{{"id":"resp_$id","object":"response","created_at":$created,{state},"error":null,"model":$model,"output":[$output],"parallel_tool_calls":true,"tool_choice":"auto","tools":[],"usage":{{"input_tokens":$prompt,"input_tokens_details":{{"cached_tokens":$cached,"cache_write_tokens":0}},"output_tokens":$completion,"output_tokens_details":{{"reasoning_tokens":$reasoning}},"total_tokens":$total}}}}"#
    )
}

impl Responses {
    pub(super) fn new(habits: &Habits, model: &str) -> Self {
        let event = |name: &str, fields: &str| {
            let json = format!(r#"{{"type":"{name}","sequence_number":$serial,{fields}}}"#);
            Event::new(&habits.lines, Some(name), &in_the_name_of(model, &json))
        };
        let template = |text: &str| Template::new(&in_the_name_of(model, text));
        let begun = r#""response":{"id":"resp_$id","object":"response","created_at":$created,"status":"in_progress","error":null,"model":$model,"output":[],"parallel_tool_calls":true,"tool_choice":"auto","tools":[],"usage":null}"#;
        let ended = |name, state| event(name, &format!(r#""response":{}"#, response(state)));
        let cut = if habits.incomplete {
            "response.incomplete"
        } else {
            "response.completed"
        };
        Self {
            greeting: vec![
                event("response.created", begun),
                event("response.in_progress", begun),
            ],
            reasoning: reasoning(event),
            message: message(event),
            call: call(event),
            completed: ended("response.completed", COMPLETED),
            cut: ended(cut, CUT),
            whole: template(&response(COMPLETED)),
            whole_cut: template(&response(CUT)),
        }
    }

    pub(super) fn step<'a>(
        &'a self,
        out: &mut Vec<u8>,
        telling: &mut Telling,
        mut fill: Fill<'a>,
        step: &Step<'a>,
    ) {
        match *step {
            Step::Open { .. } | Step::Usage(_) => {}
            Step::Delta { part, tokens, .. } => self.delta(out, telling, fill, part, tokens),
            Step::Finish { .. } => self.close(out, telling, &mut fill),
            Step::Done => {
                fill.usage = Some(fill.answer.usage());
                fill.responses = Some(self);
                let cut = fill.output().finish == Finish::Length;
                let event = if cut { &self.cut } else { &self.completed };
                event.say(out, telling, &mut fill);
            }
        }
    }

    fn delta<'a>(
        &self,
        out: &mut Vec<u8>,
        telling: &mut Telling,
        mut fill: Fill<'a>,
        part: Part<'a>,
        tokens: u32,
    ) {
        let (item, text) = match part {
            Part::Reasoning(text) => (Item::Reasoning, text),
            Part::Text(text) => (Item::Message, text),
            Part::Call {
                index, arguments, ..
            } => (Item::Call(index), arguments),
        };
        if telling.open != Some(item) {
            self.close(out, telling, &mut fill);
            telling.open = Some(item);
            telling.items += 1;
            aim(&mut fill, telling, item);
            for event in &self.kind(item).open {
                event.say(out, telling, &mut fill);
            }
            if text.is_empty() {
                return;
            }
        }
        aim(&mut fill, telling, item);
        fill.said = Said::Piece(text);
        if let (Item::Message, Some(top)) = (item, fill.answer.logprobs) {
            fill.logprobs = Some(Logprobs {
                text,
                tokens,
                top,
                offset: 0,
            });
        }
        self.kind(item).delta.say(out, telling, &mut fill);
    }

    /// Closes the open item, if one is.
    fn close(&self, out: &mut Vec<u8>, telling: &mut Telling, fill: &mut Fill<'_>) {
        let Some(item) = telling.open.take() else {
            return;
        };
        aim(fill, telling, item);
        for event in &self.kind(item).close {
            event.say(out, telling, fill);
        }
    }

    fn kind(&self, item: Item) -> &Kind {
        match item {
            Item::Reasoning => &self.reasoning,
            Item::Message => &self.message,
            Item::Call(_) => &self.call,
        }
    }

    /// The body of an answer that is not streamed.
    pub(super) fn whole<'a>(&'a self, out: &mut Vec<u8>, mut fill: Fill<'a>) {
        fill.responses = Some(self);
        let cut = fill.output().finish == Finish::Length;
        fill.render(if cut { &self.whole_cut } else { &self.whole }, out);
    }

    /// Appends all items of the answer.
    pub(super) fn output(&self, out: &mut Vec<u8>, fill: &Fill<'_>) {
        let output = fill.output();
        let reasoning = (output.reasoning.tokens() > 0).then_some(Item::Reasoning);
        let message = (output.text.tokens() > 0).then_some(Item::Message);
        let calls = (0..)
            .zip(output.calls.iter())
            .map(|(index, _)| Item::Call(index));
        let start = out.len();
        for item in reasoning.into_iter().chain(message).chain(calls) {
            if out.len() > start {
                out.push(b',');
            }
            let mut fill = *fill;
            content(&mut fill, item);
            fill.render(&self.kind(item).whole, out);
        }
    }
}

/// Points `fill` at the item that was opened last, and at its whole content.
fn aim(fill: &mut Fill<'_>, telling: &Telling, item: Item) {
    fill.output_index = telling.items - 1;
    content(fill, item);
}

fn content(fill: &mut Fill<'_>, item: Item) {
    let output = fill.output();
    match item {
        Item::Reasoning => fill.said = Said::Reasoning(output),
        Item::Message => {}
        Item::Call(index) => {
            let Some(call) = output.calls.get(index as usize) else {
                return;
            };
            fill.said = Said::Arguments(call);
            (fill.call, fill.call_id, fill.call_name) = (index, &call.id, &call.name);
        }
    }
}

fn reasoning(event: impl Fn(&str, &str) -> Event) -> Kind {
    let place = r#""item_id":"rs_$id","output_index":$output_index,"content_index":0"#;
    let part = r#"{"type":"reasoning_text","text":"$text"}"#;
    Kind {
        open: vec![
            event(
                "response.output_item.added",
                r#""output_index":$output_index,"item":{"id":"rs_$id","type":"reasoning","summary":[],"status":"in_progress"}"#,
            ),
            event(
                "response.content_part.added",
                &format!(r#"{place},"part":{{"type":"reasoning_text","text":""}}"#),
            ),
        ],
        delta: event(
            "response.reasoning_text.delta",
            &format!(r#"{place},"delta":"$text""#),
        ),
        close: vec![
            event(
                "response.reasoning_text.done",
                &format!(r#"{place},"text":"$text""#),
            ),
            event(
                "response.content_part.done",
                &format!(r#"{place},"part":{part}"#),
            ),
            event(
                "response.output_item.done",
                &format!(r#""output_index":$output_index,"item":{REASONING}"#),
            ),
        ],
        whole: Template::new(REASONING),
    }
}

fn message(event: impl Fn(&str, &str) -> Event) -> Kind {
    let place = r#""item_id":"msg_$id","output_index":$output_index,"content_index":0"#;
    Kind {
        open: vec![
            event(
                "response.output_item.added",
                r#""output_index":$output_index,"item":{"id":"msg_$id","type":"message","status":"in_progress","role":"assistant","content":[]}"#,
            ),
            event(
                "response.content_part.added",
                &format!(
                    r#"{place},"part":{{"type":"output_text","text":"","annotations":[],"logprobs":[]}}"#
                ),
            ),
        ],
        delta: event(
            "response.output_text.delta",
            &format!(r#"{place},"delta":"$text","logprobs":$logprobs"#),
        ),
        close: vec![
            event(
                "response.output_text.done",
                &format!(r#"{place},"text":"$whole_text","logprobs":$logprobs"#),
            ),
            event(
                "response.content_part.done",
                &format!(
                    r#"{place},"part":{{"type":"output_text","text":"$whole_text","annotations":[],"logprobs":$logprobs}}"#
                ),
            ),
            event(
                "response.output_item.done",
                &format!(r#""output_index":$output_index,"item":{MESSAGE}"#),
            ),
        ],
        whole: Template::new(MESSAGE),
    }
}

fn call(event: impl Fn(&str, &str) -> Event) -> Kind {
    let place = r#""item_id":"fc_$call-$id","output_index":$output_index"#;
    Kind {
        open: vec![event(
            "response.output_item.added",
            r#""output_index":$output_index,"item":{"id":"fc_$call-$id","type":"function_call","status":"in_progress","call_id":"$call_id","name":"$call_name","arguments":""}"#,
        )],
        delta: event(
            "response.function_call_arguments.delta",
            &format!(r#"{place},"delta":"$text""#),
        ),
        close: vec![
            event(
                "response.function_call_arguments.done",
                &format!(r#"{place},"name":"$call_name","arguments":"$text""#),
            ),
            event(
                "response.output_item.done",
                &format!(r#""output_index":$output_index,"item":{CALL}"#),
            ),
        ],
        whole: Template::new(CALL),
    }
}
