//! The rules once more, naively, on a `serde_json::Value`: what the tests compare with.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{EndpointType, OtherReason, Usage};

/// What one object says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Said {
    pub(super) text: String,
    pub(super) reasoning: String,
    /// By index: id, name and arguments of all fragments so far.
    pub(super) tool_calls: BTreeMap<u64, [String; 3]>,
    pub(super) has_tool_call: bool,
    pub(super) finish_reason: Option<String>,
    pub(super) usage: Option<Usage>,
    pub(super) error: bool,
}

/// `None` when `data` is not JSON.
pub(super) fn read(endpoint: EndpointType, data: &[u8]) -> Option<Said> {
    let value: Value = serde_json::from_slice(data).ok()?;
    let mut said = Said::default();
    let Some(object) = value.as_object() else {
        return Some(said);
    };
    said.error = object.get("error").is_some_and(|error| !error.is_null())
        || object.get("object").and_then(Value::as_str) == Some("error");
    said.usage = object.get("usage").and_then(usage);
    let none = Vec::new();
    for choice in object
        .get("choices")
        .and_then(Value::as_array)
        .unwrap_or(&none)
    {
        let Some(choice) = choice.as_object() else {
            continue;
        };
        let index = choice.get("index").unwrap_or(&Value::Null);
        if !index.is_null() && index.as_u64() != Some(0) {
            continue;
        }
        let reason = string(choice.get("finish_reason"));
        if !reason.is_empty() {
            // A long word is shortened.
            let fits =
                |len: &usize| *len <= OtherReason::BYTES_MAX && reason.is_char_boundary(*len);
            let len = (0..=reason.len()).rev().find(fits).unwrap_or(0);
            said.finish_reason = Some(reason[..len].to_owned());
        }
        let object_of = |name: &str| choice.get(name).filter(|value| value.is_object());
        let part = object_of("delta")
            .or_else(|| object_of("message"))
            .unwrap_or(&Value::Null);
        said.text += &match endpoint {
            EndpointType::Chat => content(&part["content"]),
            EndpointType::Completions => string(choice.get("text")),
        };
        let reasoning = string(part.get("reasoning_content"));
        let other = string(part.get("reasoning"));
        said.reasoning += if reasoning.is_empty() {
            &other
        } else {
            &reasoning
        };
        tool_calls(&mut said, part);
    }
    Some(said)
}

fn string(value: Option<&Value>) -> String {
    value.and_then(Value::as_str).unwrap_or_default().to_owned()
}

fn content(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(parts) => parts
            .iter()
            .filter(|part| part["type"] == "text")
            .map(|part| string(part.get("text")))
            .collect(),
        _ => String::new(),
    }
}

fn tool_calls(said: &mut Said, part: &Value) {
    let function = part.get("function_call").filter(|call| call.is_object());
    let one = function.map(|function| vec![serde_json::json!({ "function": function })]);
    let calls = part
        .get("tool_calls")
        .and_then(Value::as_array)
        .cloned()
        .or(one);
    for (place, call) in calls.unwrap_or_default().iter().enumerate() {
        if !call.is_object() {
            continue;
        }
        let index = call
            .get("index")
            .and_then(Value::as_u64)
            .unwrap_or(place as u64);
        let function = &call["function"];
        let [id, name, arguments] = [
            call.get("id"),
            function.get("name"),
            function.get("arguments"),
        ]
        .map(string);
        said.has_tool_call |= !(id.is_empty() && name.is_empty() && arguments.is_empty());
        let slot = said.tool_calls.entry(index).or_default();
        for (part, new) in slot.iter_mut().zip([id, name]) {
            if part.is_empty() {
                *part = new;
            }
        }
        slot[2] += &arguments;
    }
}

fn usage(value: &Value) -> Option<Usage> {
    let object = value.as_object().filter(|object| !object.is_empty())?;
    let count = |value: Option<&Value>| value?.as_u64()?.try_into().ok();
    Some(Usage {
        input_tokens: count(object.get("prompt_tokens")),
        output_tokens: count(object.get("completion_tokens")),
        reasoning_tokens: count(value["completion_tokens_details"].get("reasoning_tokens")),
        cached_tokens: count(value["prompt_tokens_details"].get("cached_tokens")),
    })
}
