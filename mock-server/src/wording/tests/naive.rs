//! A reader that is as simple as can be.

use serde_json::Value;

use super::Heard;
use crate::answer::Endpoint;

/// The status line and fields of the last head, and the body that follows it, dechunked.
pub(super) fn parts(bytes: &[u8]) -> (String, Vec<u8>) {
    let mut rest = bytes;
    loop {
        let end = rest
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .unwrap()
            + 4;
        let head = String::from_utf8(rest[..end].to_vec()).unwrap();
        rest = &rest[end..];
        if !head.starts_with("HTTP/1.1 1") {
            let lower = head.to_ascii_lowercase();
            let body = if lower.contains("chunked") {
                joined(rest)
            } else {
                rest.to_vec()
            };
            return (lower, body);
        }
    }
}

/// The data of all chunks, to the last one.
pub(super) fn joined(mut chunked: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    loop {
        let end = chunked.windows(2).position(|two| two == b"\r\n").unwrap();
        let line = std::str::from_utf8(&chunked[..end]).unwrap();
        let size = usize::from_str_radix(line.split(';').next().unwrap(), 16).unwrap();
        chunked = &chunked[end + 2..];
        if size == 0 {
            assert!(chunked.ends_with(b"\r\n"));
            return out;
        }
        out.extend_from_slice(&chunked[..size]);
        assert_eq!(&chunked[size..size + 2], b"\r\n");
        chunked = &chunked[size + 2..];
    }
}

/// Names and data of all events of a stream that have data.
pub(super) fn events(body: &[u8]) -> Vec<(Option<String>, String)> {
    let text = String::from_utf8(body.to_vec()).unwrap();
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    let text = text.replace("\r\n", "\n").replace('\r', "\n");
    let (mut events, mut name, mut data) = (Vec::new(), None, Vec::new());
    for line in text.split('\n') {
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        let value = value.strip_prefix(' ').unwrap_or(value);
        match field {
            "data" => data.push(value.to_owned()),
            "event" => name = Some(value.to_owned()),
            "" if line.is_empty() => {
                let data = std::mem::take(&mut data).join("\n");
                let name = name.take();
                if !data.is_empty() {
                    events.push((name, data));
                }
            }
            _ => {}
        }
    }
    events
}

/// What the response says of choice 0.
pub(super) fn heard(endpoint: Endpoint, bytes: &[u8]) -> Heard {
    let (head, body) = parts(bytes);
    let mut heard = Heard::default();
    if head.contains("application/json") {
        take(
            &mut heard,
            endpoint,
            &serde_json::from_slice(&body).unwrap(),
        );
        return heard;
    }
    for (_, data) in events(&body) {
        if data.trim() == "[DONE]" {
            break;
        }
        take(&mut heard, endpoint, &serde_json::from_str(&data).unwrap());
    }
    heard
}

fn take(heard: &mut Heard, endpoint: Endpoint, event: &Value) {
    if event["usage"].is_object() {
        let count = |value: &Value| value.as_u64().map(|count| u32::try_from(count).unwrap());
        let usage = &event["usage"];
        heard.prompt = count(&usage["prompt_tokens"]);
        heard.completion = count(&usage["completion_tokens"]);
        let total = heard.prompt.unwrap() + heard.completion.unwrap();
        assert_eq!(count(&usage["total_tokens"]), Some(total));
        heard.cached = count(&usage["prompt_tokens_details"]["cached_tokens"]);
        heard.reasoning_tokens = count(&usage["completion_tokens_details"]["reasoning_tokens"]);
    }
    assert!(event["error"].is_null());
    for choice in event["choices"].as_array().unwrap() {
        if choice["index"] == 0 {
            let content = self::choice(heard, endpoint, choice);
            heard.content_events += u32::from(content);
        }
    }
}

/// Whether there was any content.
fn choice(heard: &mut Heard, endpoint: Endpoint, choice: &Value) -> bool {
    if let Some(reason) = choice["finish_reason"].as_str() {
        heard.finish = Some(reason.to_owned());
    }
    let message = if choice["delta"].is_object() {
        &choice["delta"]
    } else {
        &choice["message"]
    };
    let text = if endpoint == Endpoint::Completions {
        &choice["text"]
    } else {
        &message["content"]
    };
    let text = text.as_str().unwrap_or_default();
    let reasoning = [&message["reasoning_content"], &message["reasoning"]]
        .into_iter()
        .find_map(Value::as_str)
        .unwrap_or_default();
    heard.text += text;
    heard.reasoning += reasoning;
    let mut content = !text.is_empty() || !reasoning.is_empty();
    for (place, call) in message["tool_calls"]
        .as_array()
        .into_iter()
        .flatten()
        .enumerate()
    {
        let index = call["index"]
            .as_u64()
            .map_or(place, |index| usize::try_from(index).unwrap());
        while heard.calls.len() <= index {
            heard.calls.push(Default::default());
        }
        let function = &call["function"];
        let pieces = [&call["id"], &function["name"], &function["arguments"]];
        for (whole, piece) in heard.calls[index].iter_mut().zip(pieces) {
            let piece = piece.as_str().unwrap_or_default();
            whole.push_str(piece);
            content |= !piece.is_empty();
        }
    }
    content
}
