//! `/v1/responses`, read by its events.

use serde_json::Value;

use super::{Dialect, Heard, contents, each, naive, plain, response};
use crate::answer::{Answer, Endpoint, Finish};

/// What an output list says.
fn output(items: &Value) -> (String, String, Vec<[String; 3]>) {
    let (mut text, mut reasoning, mut calls) = Default::default();
    for item in items.as_array().unwrap() {
        assert_eq!(item["status"], "completed");
        let words = || item["content"][0]["text"].as_str().unwrap().to_owned();
        match item["type"].as_str().unwrap() {
            "reasoning" => reasoning = words(),
            "message" => text = words(),
            "function_call" => {
                let field = |name: &str| item[name].as_str().unwrap().to_owned();
                Vec::push(
                    &mut calls,
                    [field("call_id"), field("name"), field("arguments")],
                );
            }
            other => panic!("an item of type {other}"),
        }
    }
    (text, reasoning, calls)
}

fn assert_response(which: &str, answer: &Answer, response: &Value) {
    let said = answer.output(0);
    let (text, reasoning, calls) = output(&response["output"]);
    assert_eq!(text, said.text.pieces().collect::<String>(), "{which}");
    assert_eq!(
        reasoning,
        said.reasoning.pieces().collect::<String>(),
        "{which}"
    );
    assert_eq!(
        calls,
        said.calls.iter().map(contents).collect::<Vec<_>>(),
        "{which}"
    );
    let (usage, told) = (answer.usage(), &response["usage"]);
    assert_eq!(told["input_tokens"], usage.prompt);
    assert_eq!(told["output_tokens"], usage.completion);
    assert_eq!(told["total_tokens"], usage.prompt + usage.completion);
    assert_eq!(told["input_tokens_details"]["cached_tokens"], usage.cached);
    // OpenAI's clients refuse a response that lacks one of these.
    assert_eq!(told["input_tokens_details"]["cache_write_tokens"], 0);
    assert_eq!(response["tool_choice"], "auto");
    assert_eq!(response["tools"], serde_json::json!([]));
    assert_eq!(response["parallel_tool_calls"], true);
    assert_eq!(
        told["output_tokens_details"]["reasoning_tokens"],
        usage.reasoning
    );
    let cut = said.finish == Finish::Length;
    assert_eq!(
        response["status"],
        if cut { "incomplete" } else { "completed" }
    );
    assert_eq!(response["model"], super::MODEL);
}

/// Every `added` has its `done`, around its deltas, which join to it.
fn assert_stream(which: &str, answer: &Answer, body: &[u8]) {
    let (mut open, mut deltas, mut ended) = (Vec::new(), String::new(), false);
    for (sequence, (name, data)) in naive::events(body).into_iter().enumerate() {
        if data.trim() == "[DONE]" || ended {
            // What the dialect sends after the end.
            continue;
        }
        let event: Value = serde_json::from_str(&data).unwrap();
        let kind = event["type"].as_str().unwrap().to_owned();
        assert_eq!(name.as_deref(), Some(kind.as_str()), "{which}");
        assert_eq!(event["sequence_number"], sequence, "{which}");
        if let Some(stem) = kind.strip_suffix(".added") {
            open.push(stem.to_owned());
            deltas.clear();
        } else if kind.ends_with(".delta") {
            deltas += event["delta"].as_str().unwrap();
        } else if kind.ends_with("_text.done") {
            assert_eq!(event["text"].as_str(), Some(deltas.as_str()), "{which}");
        } else if kind == "response.function_call_arguments.done" {
            assert_eq!(
                event["arguments"].as_str(),
                Some(deltas.as_str()),
                "{which}"
            );
        } else if let Some(stem) = kind.strip_suffix(".done") {
            // The only names of parts that OpenAI's clients know.
            assert!(
                ["response.output_item", "response.content_part"].contains(&stem),
                "{kind}"
            );
            assert_eq!(open.pop().as_deref(), Some(stem), "{which}");
        } else if ["response.completed", "response.incomplete"].contains(&kind.as_str()) {
            assert_response(which, answer, &event["response"]);
            ended = true;
        }
    }
    assert!(open.is_empty() && ended, "{which}: {open:?}");
}

#[test]
fn items_open_go_on_and_close() {
    each(&[Endpoint::Responses], |which, answer, bytes, _: &Heard| {
        if answer.outputs.len() > 1 {
            // There is one choice here, always.
            return;
        }
        let (head, body) = naive::parts(bytes);
        if head.contains("application/json") {
            let response: Value = serde_json::from_slice(&body).unwrap();
            assert_response(which, answer, &response);
        } else {
            assert_stream(which, answer, &body);
        }
    });
}

#[test]
fn an_answer_that_was_cut_ends_as_the_dialect_says() {
    let last = |dialect| {
        let bytes = response(dialect, &plain(Endpoint::Responses), 1);
        let (name, _) = naive::events(&naive::parts(&bytes).1).pop().unwrap();
        name.unwrap()
    };
    assert_eq!(last(Dialect::Vllm), "response.completed");
    assert_eq!(last(Dialect::Openai), "response.incomplete");
}
