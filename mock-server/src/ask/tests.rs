use super::*;
use crate::answer::{Call, text};
use proptest::prelude::*;
use serde_json::json;

fn config() -> ServerConfig {
    ServerConfig {
        vocabulary: Vocabulary::words(),
        ..ServerConfig::default()
    }
}

fn with(
    config: &ServerConfig,
    endpoint: Endpoint,
    body: &str,
) -> Result<(Answer, Option<String>), String> {
    parse(endpoint, body.as_bytes(), config)
        .map(|asked| (asked.answer, asked.model.map(Cow::into_owned)))
        .map_err(|refusal| format!("{} {:?}", refusal.status, refusal.param))
}

fn read(endpoint: Endpoint, body: &str) -> Result<(Answer, Option<String>), String> {
    with(&config(), endpoint, body)
}

fn chat(body: &str) -> Result<(Answer, Option<String>), String> {
    read(Endpoint::Chat, body)
}

/// The answer to a chat with these fields beside a message of one word.
fn said(config: &ServerConfig, fields: &str) -> Result<Answer, String> {
    let body = format!(r#"{{"messages":[{{"role":"user","content":"x"}}]{fields}}}"#);
    with(config, Endpoint::Chat, &body).map(|(answer, _)| answer)
}

fn whole(text: &Text) -> String {
    text.pieces().collect()
}

#[test]
fn defaults_are_64_tokens_not_streamed_and_no_usage_event() {
    let (answer, model) =
        chat(r#"{"messages":[{"role":"user","content":"Hello, world"}]}"#).unwrap();
    assert_eq!(
        answer,
        Answer {
            endpoint: Endpoint::Chat,
            stream: false,
            include_usage: false,
            continuous_usage: false,
            prompt_tokens: 2,
            cached_tokens: 0,
            logprobs: None,
            outputs: [Output::words(0, 0, 64, Finish::Stop)].into(),
        }
    );
    assert_eq!(model, None);
}

#[test]
fn everything_a_load_client_sends_is_understood() {
    let body = r#"{"model":"a\u0062","stream":true,
        "stream_options":{"include_usage":true,"continuous_usage_stats":true},
        "max_tokens":3,"max_completion_tokens":7,"min_tokens":7,"ignore_eos":true,"n":1,
        "temperature":0.0,"seed":null,"tools":[{"deep":[[[]]]}],"stop":null,"logprobs":null,
        "response_format":{"type":"json_object"},"user":"x","top_p":1,"reasoning_effort":null,
        "messages":[{"role":"system","content":"be  brief\n"},{"role":"assistant","content":null},
            {"content":[{"type":"text","text":"one two"},{"type":"image_url","image_url":{}}],"role":"user"}]}"#;
    let (answer, model) = chat(body).unwrap();
    assert_eq!(model.as_deref(), Some("ab"));
    assert!(answer.stream && answer.include_usage && answer.continuous_usage);
    assert_eq!(
        (
            answer.tokens(),
            answer.prompt_tokens,
            answer.output(0).finish
        ),
        (7, 4, Finish::Length)
    );
}

#[test]
fn a_prompt_is_a_text_or_token_ids_and_only_one() {
    let tokens = |prompt: &str| {
        read(Endpoint::Completions, &format!(r#"{{"prompt":{prompt}}}"#))
            .map(|(answer, _)| answer.prompt_tokens)
    };
    for (prompt, count) in [
        (r#""a b c""#, 3),
        (r#""a\tb c""#, 3),
        (r#"["a b"]"#, 2),
        ("[5,6,7,8]", 4),
        ("[[5,6]]", 2),
        (r#""""#, 0),
    ] {
        assert_eq!(tokens(prompt), Ok(count), "{prompt}");
    }
    for prompt in [r#"["a","b"]"#, "[[1],[2]]", "[]", "null"] {
        assert_eq!(
            tokens(prompt),
            Err(r#"400 Some("prompt")"#.to_owned()),
            "{prompt}"
        );
    }
    for prompt in [
        "7",
        "-1",
        "{}",
        r#"[["a"]]"#,
        "[[[1]]]",
        "true",
        r#"["a",1]"#,
        "[4294967296]",
    ] {
        assert_eq!(tokens(prompt), Err("400 None".to_owned()), "{prompt}");
    }
}

#[test]
fn the_input_of_responses_is_a_text_or_items() {
    let read = |body: &str| read(Endpoint::Responses, body).map(|(answer, _)| answer);
    let answer = read(r#"{"input":"one two","max_output_tokens":5,"max_tokens":9}"#).unwrap();
    assert_eq!((answer.prompt_tokens, answer.tokens()), (2, 5));
    let items = r#"{"instructions":"be brief","input":[{"role":"user","content":"one"},
        {"type":"message","role":"user","content":[{"type":"input_text","text":"two three"}]},
        {"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
        {"type":"function_call_output","call_id":"c","output":"four"}]}"#;
    assert_eq!(read(items).unwrap().prompt_tokens, 6);
    for body in ["{}", r#"{"input":[]}"#, r#"{"input":null}"#] {
        assert_eq!(read(body), Err(r#"400 Some("input")"#.to_owned()), "{body}");
    }
    assert_eq!(read(r#"{"input":7}"#), Err("400 None".to_owned()));
}

#[test]
fn tokens_are_those_of_the_vocabulary() {
    let body = r#"{"prompt":"Hello, world! 12345"}"#;
    let count = |vocabulary| {
        let config = ServerConfig {
            vocabulary: Vocabulary::open(vocabulary).unwrap(),
            ..config()
        };
        with(&config, Endpoint::Completions, body)
            .unwrap()
            .0
            .prompt_tokens
    };
    // Hello|,| world|!| |123|45
    assert_eq!(count("o200k_base"), 7);
    assert_eq!(count("words"), 3);
}

#[test]
fn what_is_wrong_is_named() {
    let with = |fields: &str| said(&config(), fields).map(|answer| answer.tokens());
    let long = format!(r#","model":"{}""#, "m".repeat(257));
    for (fields, param) in [
        (r#","n":0"#, Some("n")),
        (r#","n":129"#, Some("n")),
        (r#","n":100,"max_tokens":1000"#, Some("n")),
        (r#","max_tokens":0"#, Some("max_tokens")),
        (r#","max_tokens":5,"min_tokens":6"#, Some("min_tokens")),
        (r#","max_tokens":40000"#, Some("max_tokens")),
        (
            r#","max_completion_tokens":99999999999"#,
            Some("max_completion_tokens"),
        ),
        (r#","min_tokens":40000"#, Some("max_tokens")),
        (
            r#","stream_options":{"include_usage":true}"#,
            Some("stream_options"),
        ),
        (long.as_str(), Some("model")),
        (r#","stop":["a","b","c","d","e"]"#, Some("stop")),
        (r#","stop":"""#, Some("stop")),
        (r#","top_logprobs":2"#, Some("top_logprobs")),
        (
            r#","logprobs":true,"top_logprobs":21"#,
            Some("top_logprobs"),
        ),
        (r#","logprobs":3"#, Some("logprobs")),
        (r#","tool_choice":"required""#, Some("tool_choice")),
        (r#","reasoning_effort":"much""#, None),
        (r#","max_tokens":-1"#, None),
        (r#","stream":"yes""#, None),
    ] {
        assert_eq!(with(fields), Err(format!("400 {param:?}")), "{fields}");
    }
    assert_eq!(with(r#","min_tokens":65"#), Ok(65));
    for body in ["{}", r#"{"messages":[]}"#] {
        assert_eq!(
            chat(body).map(|_| ()),
            Err(r#"400 Some("messages")"#.to_owned())
        );
    }
    for body in [
        "",
        "[",
        "nonsense",
        "[]",
        "\"x\"",
        r#"{"messages":[{}]}"#,
        "null",
        r#"[null,null,null]"#,
        "\u{0}",
        "{} x",
    ] {
        assert_eq!(chat(body).map(|_| ()), Err("400 None".to_owned()), "{body}");
    }
}

#[test]
fn only_served_models_are_found_when_that_is_asked_for() {
    let config = ServerConfig {
        more_models: vec!["other".to_owned()],
        strict_model: true,
        ..config()
    };
    for (fields, found) in [
        (r#","model":"mock""#, true),
        (r#","model":"other""#, true),
        ("", true),
        (r#","model":"third""#, false),
    ] {
        let expected = if found { "" } else { r#"404 Some("model")"# };
        let result = said(&config, fields).map(|_| ()).err().unwrap_or_default();
        assert_eq!(result, expected, "{fields}");
    }
}

#[test]
fn prompt_and_answer_fit_the_context_together() {
    let config = ServerConfig {
        max_model_len: Some(10),
        ..config()
    };
    let tokens = |prompt: usize, fields: &str| {
        let body = format!(r#"{{"prompt":"{}"{fields}}}"#, "x ".repeat(prompt));
        with(&config, Endpoint::Completions, &body).map(|(answer, _)| answer.tokens())
    };
    assert_eq!(tokens(4, r#","max_tokens":6"#), Ok(6));
    assert_eq!(
        tokens(4, r#","max_tokens":7"#),
        Err(r#"400 Some("messages")"#.to_owned())
    );
    assert_eq!(tokens(10, ""), Err(r#"400 Some("messages")"#.to_owned()));
    // What is not asked for is cut to what there is room for.
    assert_eq!(tokens(8, ""), Ok(2));
    let body = r#"{"prompt":"a b c","max_tokens":8}"#;
    let refusal = parse(Endpoint::Completions, body.as_bytes(), &config).unwrap_err();
    let body: Value = serde_json::from_slice(&refusal.body()).unwrap();
    assert_eq!(body["error"]["code"], "context_length_exceeded");
    let message = body["error"]["message"].as_str().unwrap();
    assert!(
        message.contains("maximum context length is 10 tokens"),
        "{message}"
    );
}

#[test]
fn choices_differ_and_a_seed_chooses_where_they_begin() {
    let texts = |fields: &str| {
        let answer = said(&config(), fields).unwrap();
        let outputs = answer.outputs.iter();
        outputs
            .map(|output| whole(&output.text))
            .collect::<Vec<_>>()
    };
    let unseeded = texts(r#","n":3,"max_tokens":5"#);
    assert_eq!(unseeded[0], text(5));
    assert_ne!(unseeded[1], unseeded[2]);
    let seeded = |seed: i64| texts(&format!(r#","seed":{seed},"max_tokens":5"#));
    assert_eq!(seeded(7), seeded(7));
    let different: std::collections::BTreeSet<_> = (-20..20).map(seeded).collect();
    assert!(different.len() > 20, "{}", different.len());
}

#[test]
fn a_stop_string_ends_the_answer_and_is_its_reason() {
    let answer = said(&config(), r#","max_tokens":9,"stop":["nowhere"," moves"]"#).unwrap();
    let output = answer.output(0);
    assert_eq!(whole(&output.text), "A quiet river");
    assert_eq!((output.tokens(), output.finish), (4, Finish::Stop));
    assert_eq!(output.stop_reason.as_deref(), Some(" moves"));
    let answer = said(
        &config(),
        r#","max_tokens":9,"min_tokens":4,"stop":" moves""#,
    )
    .unwrap();
    assert_eq!(
        (answer.tokens(), answer.output(0).finish),
        (9, Finish::Length)
    );
}

#[test]
fn answers_may_end_by_themselves_within_a_range() {
    let config = ServerConfig {
        output_tokens: OutputTokens::Between(3, 12),
        ..config()
    };
    let mut seen = std::collections::BTreeMap::new();
    for seed in 0..200 {
        let answer = said(
            &config,
            &format!(r#","seed":{seed},"max_tokens":9,"min_tokens":5"#),
        );
        let answer = answer.unwrap();
        let finish = answer.output(0).finish;
        assert_eq!(finish == Finish::Length, answer.tokens() == 9);
        *seen.entry(answer.tokens()).or_insert(0) += 1;
    }
    assert_eq!(seen.keys().copied().collect::<Vec<_>>(), [5, 6, 7, 8, 9]);
    let fixed = said(&config, r#","max_tokens":9,"ignore_eos":true"#).unwrap();
    assert_eq!(
        (fixed.tokens(), fixed.output(0).finish),
        (9, Finish::Length)
    );
    // Without a maximum, the range alone decides.
    let free = (0..50).map(|seed| said(&config, &format!(r#","seed":{seed}"#)).unwrap());
    let free: std::collections::BTreeSet<_> = free.map(|answer| answer.tokens()).collect();
    assert_eq!((free.first(), free.last()), (Some(&3), Some(&12)));
}

#[test]
fn effort_is_a_share_of_the_tokens_that_comes_first() {
    for (fields, reasoning) in [
        (r#","reasoning_effort":"low""#, 20),
        (r#","reasoning_effort":"medium""#, 50),
        (r#","reasoning":{"effort":"high"}"#, 80),
        (r#","reasoning":{"max_tokens":7}"#, 7),
        (r#","reasoning_effort":"none""#, 0),
        (r#","reasoning":{}"#, 0),
    ] {
        let answer = said(&config(), &format!(r#","max_tokens":100{fields}"#)).unwrap();
        assert_eq!(answer.usage().reasoning, reasoning, "{fields}");
        assert_eq!(answer.tokens(), 100);
        assert_eq!(whole(&answer.output(0).text), text(100 - reasoning));
    }
    let body = r#"{"prompt":"x","reasoning_effort":"high"}"#;
    let (answer, _) = read(Endpoint::Completions, body).unwrap();
    assert_eq!(answer.usage().reasoning, 0);
}

const TOOLS: &str = r#","tools":[{"type":"function","function":{"name":"weather","parameters":
    {"type":"object","properties":{"city":{"type":"string","minLength":40}}}}}]"#;

fn calls(fields: &str) -> Answer {
    let config = ServerConfig {
        vocabulary: Vocabulary::default(),
        ..config()
    };
    said(&config, &format!("{TOOLS}{fields}")).unwrap()
}

#[test]
fn tools_are_called_with_arguments_of_their_schema() {
    let answer = calls(r#","seed":1,"max_tokens":100"#);
    let output = answer.output(0);
    let [
        Call {
            name, arguments, ..
        },
    ] = &*output.calls
    else {
        panic!("{output:?}")
    };
    assert_eq!((&**name, output.finish), ("weather", Finish::ToolCalls));
    let arguments: Value = serde_json::from_str(&whole(arguments)).unwrap();
    assert!(arguments["city"].as_str().unwrap().len() >= 40);
    assert_eq!(output.text.tokens(), 0);
    // Its length is its own, unless it is too long.
    assert_eq!(
        calls(r#","seed":1"#).outputs[0].calls,
        answer.outputs[0].calls
    );
    let cut = calls(r#","max_tokens":6,"seed":1"#);
    assert_eq!((cut.tokens(), cut.output(0).finish), (6, Finish::Length));
    assert_eq!(calls(r#","tool_choice":"none""#).output(0).calls.len(), 0);
}

#[test]
fn an_echo_says_what_the_user_said_last() {
    let config = ServerConfig {
        echo: true,
        vocabulary: Vocabulary::default(),
        ..config()
    };
    let said = |endpoint, body: &str| {
        let (answer, _) = with(&config, endpoint, body).unwrap();
        let output = answer.output(0).clone();
        (whole(&output.text), output.tokens(), output.finish)
    };
    let said_of = |text: &str, tokens, finish| (text.to_owned(), tokens, finish);
    let messages = r#""messages":[{"role":"system","content":"be brief"},
        {"role":"user","content":[{"type":"text","text":"\"Hello\","},{"type":"text","text":" world"}]},
        {"role":"assistant","content":"hi"}]"#;
    assert_eq!(
        said(Endpoint::Chat, &format!("{{{messages}}}")),
        said_of("\"Hello\", world", 4, Finish::Stop)
    );
    assert_eq!(
        said(Endpoint::Chat, &format!(r#"{{{messages},"max_tokens":3}}"#)),
        said_of("\"Hello\",", 3, Finish::Length)
    );
    let long = "word ".repeat(200);
    let (text, tokens, finish) = said(Endpoint::Completions, &json!({"prompt": long}).to_string());
    assert_eq!((text, finish), (long, Finish::Stop));
    assert!(tokens >= 200);
    let ids = Vocabulary::default();
    let mut list = Vec::new();
    ids.encode("A quiet river", &mut list);
    assert_eq!(
        said(Endpoint::Completions, &json!({"prompt": list}).to_string()),
        said_of("A quiet river", 3, Finish::Stop)
    );
    let items = json!({"input": [{"role": "user", "content": "A quiet river"}], "stop": "ui"});
    assert_eq!(
        said(Endpoint::Responses, &items.to_string()),
        said_of("A q", 2, Finish::Stop)
    );
    assert_eq!(
        said(Endpoint::Completions, r#"{"prompt":""}"#),
        said_of("", 0, Finish::Stop)
    );
}

#[test]
fn logprobs_are_asked_for_in_each_endpoint_s_way() {
    let chat = |fields: &str| said(&config(), fields).unwrap().logprobs;
    assert_eq!(chat(r#","logprobs":true"#), Some(0));
    assert_eq!(chat(r#","logprobs":true,"top_logprobs":5"#), Some(5));
    assert_eq!(chat(r#","logprobs":false"#), None);
    let (answer, _) = read(Endpoint::Completions, r#"{"prompt":"x","logprobs":3}"#).unwrap();
    assert_eq!(answer.logprobs, Some(3));
}

#[test]
fn blocks_are_equal_as_far_as_prompts_are() {
    let ids: Vec<_> = (0..100).collect();
    let mut other = ids.clone();
    other[40] = 7;
    let (a, b) = (blocks(&ids, 16), blocks(&other, 16));
    assert_eq!((a.len(), &a[..2]), (6, &b[..2]));
    assert!(a[2..].iter().zip(&b[2..]).all(|(a, b)| a != b));
    assert!(blocks(&ids, 0).is_empty());
}

proptest! {
    #[test]
    fn words_are_what_splitting_at_white_space_gives(text in "[a-c \t\n\r]{0,40}") {
        let count = Vocabulary::words().count(&text) as usize;
        prop_assert_eq!(count, text.split([' ', '\t', '\n', '\r']).filter(|w| !w.is_empty()).count());
    }

    #[test]
    fn no_bytes_panic(body in proptest::collection::vec(any::<u8>(), 0..80)) {
        for endpoint in [Endpoint::Chat, Endpoint::Completions, Endpoint::Responses] {
            let _ = parse(endpoint, &body, &config());
        }
        let _ = embeddings(&body, &config());
        let _ = tokenize(&body, &config());
    }

    #[test]
    fn no_values_panic(
        fields in proptest::collection::btree_map(
            "max_tokens|min_tokens|n|stop|seed|tools|tool_choice|reasoning|logprobs|top_logprobs",
            prop_oneof![
                Just(json!(null)), Just(json!(0)), Just(json!(3)), Just(json!(-1)), Just(json!(u64::MAX)),
                Just(json!("r")), Just(json!(["a", " "])), Just(json!(true)), Just(json!("auto")),
                Just(json!([{"function": {"name": "f", "parameters": {"type": "object"}}}])),
                Just(json!({"max_tokens": 5})), Just(json!({"name": "f"})),
            ],
            0..6,
        )
    ) {
        let mut body = json!(fields);
        body["messages"] = json!([{"role": "user", "content": "x"}]);
        if let Ok(answer) = parse(Endpoint::Chat, body.to_string().as_bytes(), &config()) {
            let answer = answer.answer;
            prop_assert!(answer.tokens() <= config().limits.tokens_max);
            let output = answer.output(0);
            prop_assert_eq!(output.finish == Finish::ToolCalls, !output.calls.is_empty() && output.finish != Finish::Length);
        }
    }
}
