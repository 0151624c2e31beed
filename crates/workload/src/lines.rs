//! JSONL: one JSON object per line.
//!
//! | member | becomes |
//! |---|---|
//! | `prompt`, `text_input` or `text` | the prompt; one of them |
//! | `messages` | the messages of a chat, passed on as they are |
//! | `conversations` | a ShareGPT conversation, of which the first exchange counts |
//! | `system` | beside a prompt: the system text |
//! | `max_tokens` | [`OutputLength::AtMost`] |
//! | `output_tokens` or `output_length` | [`OutputLength::Exact`]; beats `max_tokens` |
//! | `session_id`, `session` or `conversation_id` | not sent: the session that it belongs to, a string or a number |
//! | `model`, `stream`, `stream_options` | not sent: the run decides them |
//! | `id`, `custom_id`, `text_output` | not sent: they describe the sample |
//! | anything else | a member of the body |

use serde::Deserialize;
use serde_json::value::RawValue;

use crate::error::WorkloadError;
use crate::load::{FORMS, LoadOptions, Text};
use crate::sample::{self, Dataset, Fields, Input, OutputLength, Sample};
use crate::sharegpt;

const PROMPTS: [&str; 3] = ["prompt", "text_input", "text"];
const INPUTS: [&str; 5] = ["prompt", "text_input", "text", "messages", "conversations"];
const EXACT: [&str; 2] = ["output_tokens", "output_length"];

/// Names of the session, the first of them that is there.
const SESSIONS: [&str; 3] = ["session_id", "session", "conversation_id"];

/// Members that are not sent. INVARIANT: as many as `Unsent` counts.
const UNSENT: [(&str, &str); 9] = [
    ("model", "the run decides it"),
    ("stream", "the run decides it"),
    ("stream_options", "the run decides it"),
    ("id", "it names the sample"),
    ("custom_id", "it names the sample"),
    ("text_output", "it is the answer, not the question"),
    ("session_id", "it names the session"),
    ("session", "it names the session"),
    ("conversation_id", "it names the session"),
];
type Unsent = [u64; UNSENT.len()];

pub(crate) fn parse(file: &Text<'_>, options: &LoadOptions<'_>) -> Result<Dataset, WorkloadError> {
    let mut dataset = Dataset::default();
    let mut unsent = Unsent::default();
    for (line, text) in (1..).zip(file.text.split('\n')) {
        let text = text.trim_ascii();
        if text.is_empty() {
            continue;
        }
        if text.len() > options.line_bytes_max {
            let problem = format!(
                "{} bytes, more than the limit of {}",
                text.len(),
                options.line_bytes_max
            );
            return Err(file.line(line, problem));
        }
        let fields = match serde_json::from_str::<Fields>(text) {
            Ok(fields) => fields,
            Err(cause) => return Err(not_an_object(file, line, &cause)),
        };
        file.room(dataset.samples.len(), options)?;
        match one(&fields, options, &mut unsent) {
            Ok(Some(sample)) => dataset.samples.push(sample),
            Ok(None) => dataset.skipped += 1,
            Err(Fault::Line(problem)) => return Err(file.line(line, problem)),
            Err(Fault::Other(error)) => return Err(error),
        }
    }
    if dataset.samples.is_empty() {
        return Err(sharegpt::nothing_asked(file, dataset.skipped));
    }
    for ((name, reason), lines) in UNSENT
        .into_iter()
        .zip(unsent)
        .filter(|(_, lines)| *lines > 0)
    {
        dataset
            .notes
            .push(format!("`{name}` of {lines} lines is not sent: {reason}"));
    }
    Ok(dataset)
}

/// What is wrong with one line, or with more than the line.
enum Fault {
    Line(String),
    Other(WorkloadError),
}

impl From<WorkloadError> for Fault {
    fn from(error: WorkloadError) -> Self {
        Self::Other(error)
    }
}

fn not_an_object(file: &Text<'_>, line: u64, cause: &serde_json::Error) -> WorkloadError {
    if serde_json::from_str::<Fields>(file.text).is_ok() {
        return file.wrong("it is one JSON object over several lines", FORMS);
    }
    // The position within the line; the library would call the line 1.
    let cause = cause
        .to_string()
        .replace(" at line 1 column ", " at column ");
    file.line(line, format!("not a JSON object: {cause}"))
}

/// The sample of one line; `None` for a conversation without an exchange.
fn one(
    fields: &Fields,
    options: &LoadOptions<'_>,
    unsent: &mut Unsent,
) -> Result<Option<Sample>, Fault> {
    let inputs: Vec<_> = fields
        .iter()
        .filter(|(name, _)| INPUTS.contains(name))
        .collect();
    let (name, value) = match inputs[..] {
        [input] => input,
        [] => {
            return Err(Fault::Line(
                "none of `prompt`, `text_input`, `text`, `messages`".into(),
            ));
        }
        [(one, _), (two, _), ..] => {
            return Err(Fault::Line(format!(
                "both `{one}` and `{two}`: keep one of them"
            )));
        }
    };
    let mut output = None;
    let input = match name {
        "messages" => messages(value)?,
        "conversations" => match sharegpt::exchange(value.get()) {
            Some(exchange) => {
                output = exchange.output(options)?;
                exchange.input()
            }
            None => return Ok(None),
        },
        _ => Input::Prompt {
            system: text(fields, "system")?.map(Into::into),
            text: text(fields, name)?.unwrap_or_default().into(),
        },
    };
    if matches!(&input, Input::Prompt { text, .. } if text.is_empty()) {
        return Err(Fault::Line(format!("`{name}` is empty")));
    }
    let takes_system = PROMPTS.contains(&name);
    let limit = tokens(fields, "max_tokens")?.map(OutputLength::AtMost);
    let exact = EXACT
        .into_iter()
        .find_map(|name| tokens(fields, name).transpose())
        .transpose()?;
    let mut extra = Fields::default();
    for (name, value) in fields.iter() {
        let consumed = INPUTS.contains(&name)
            || EXACT.contains(&name)
            || name == "max_tokens"
            || (takes_system && name == "system");
        match UNSENT.iter().position(|(unsent, _)| *unsent == name) {
            Some(index) => unsent[index] += 1,
            None if !consumed => extra.insert(name, value.to_owned()),
            None => {}
        }
    }
    let output = exact.map(OutputLength::Exact).or(limit).or(output);
    Ok(Some(Sample {
        input,
        input_tokens: None,
        output,
        extra,
        session: session(fields)?,
    }))
}

/// The session that a line belongs to.
fn session(fields: &Fields) -> Result<Option<u64>, Fault> {
    let named = |name: &&str| fields.iter().find(|(n, _)| n == name);
    let Some((name, value)) = SESSIONS.iter().find_map(named) else {
        return Ok(None);
    };
    match serde_json::from_str(value.get()) {
        Ok(serde_json::Value::Null) => Ok(None),
        Ok(serde_json::Value::String(text)) => Ok(Some(sample::session(&text))),
        Ok(serde_json::Value::Number(_)) => Ok(Some(sample::session(value.get()))),
        _ => Err(Fault::Line(format!(
            "`{name}` is neither a string nor a number"
        ))),
    }
}

/// The messages as they are, when each has a role; a single plain question as the prompt it is,
/// so that a completion can ask it, too.
fn messages(raw: &RawValue) -> Result<Input, Fault> {
    #[derive(Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Plain {
        role: String,
        content: String,
    }
    #[derive(Deserialize)]
    struct Message {
        #[serde(rename = "role")]
        _role: String,
    }
    match serde_json::from_str::<[Plain; 1]>(raw.get()) {
        Ok([Plain { role, content }]) if role == "user" => {
            return Ok(Input::Prompt {
                system: None,
                text: content.into(),
            });
        }
        _ => {}
    }
    match serde_json::from_str::<Vec<Message>>(raw.get()) {
        Ok(messages) if messages.is_empty() => Err(Fault::Line("`messages` is empty".to_owned())),
        Ok(_) => Ok(Input::Messages(raw.to_owned())),
        Err(cause) => Err(Fault::Line(format!(
            "`messages` is not an array of messages: {cause}"
        ))),
    }
}

/// The string member `name`; `None` when it is missing or null.
fn text(fields: &Fields, name: &str) -> Result<Option<String>, Fault> {
    let Some((_, value)) = fields.iter().find(|(n, _)| *n == name) else {
        return Ok(None);
    };
    serde_json::from_str(value.get())
        .map_err(|cause| Fault::Line(format!("`{name}` is not a string: {cause}")))
}

/// The number of tokens in the member `name`; `None` when it is missing or null.
fn tokens(fields: &Fields, name: &str) -> Result<Option<u32>, Fault> {
    let Some((_, value)) = fields.iter().find(|(n, _)| *n == name) else {
        return Ok(None);
    };
    let value = value.get();
    match serde_json::from_str(value) {
        Ok(Some(0)) | Err(_) => {
            let shown: String = value.chars().take(40).collect();
            Err(Fault::Line(format!(
                "`{name}` is {shown}, not a number of tokens from 1 on"
            )))
        }
        Ok(tokens) => Ok(tokens),
    }
}
