//! The whole API: what each field of a body does, seen from the connection.

use ridgeline_clock::Nanos;
use ridgeline_mock_server::{ApiKey, Mode, ServerConfig, Vocabulary, text};
use serde_json::{Value, json};

use crate::fed::{Fed, Response, post, responses};

fn instant() -> ServerConfig {
    ServerConfig {
        mode: Mode::Instant {
            events_per_write: None,
        },
        ..ServerConfig::default()
    }
}

/// The answer to `body` at `path`, the same in both modes but for its id.
fn ask(path: &str, body: &Value) -> Response {
    let [instant, modelled] = [instant(), ServerConfig::default()].map(|config| {
        let mut fed = Fed::new(&config);
        one(
            &mut fed,
            &post(
                path,
                "X-Request-Id: 0000000000000001\r\n",
                &body.to_string(),
            ),
        )
    });
    assert_eq!(instant, modelled);
    instant
}

fn one(fed: &mut Fed, request: &[u8]) -> Response {
    let token = fed.accept();
    fed.feed(token, request);
    fed.run(fed.now + Nanos::from_secs(3_600));
    let mut responses = responses(&fed.take(token));
    assert_eq!(responses.len(), 1);
    responses.remove(0)
}

fn chat(fields: &Value) -> Response {
    let mut body = json!({"messages": [{"role": "user", "content": "A quiet river"}]});
    for (name, value) in fields.as_object().unwrap() {
        body[name] = value.clone();
    }
    ask("/v1/chat/completions", &body)
}

/// The events of a stream, `[DONE]` left out.
fn events(response: &Response) -> Vec<Value> {
    let lines = response.body.lines();
    let data = lines.filter_map(|line| line.strip_prefix("data: "));
    data.filter(|data| *data != "[DONE]")
        .map(|data| serde_json::from_str(data).unwrap())
        .collect()
}

/// What the deltas of a choice of a chat stream say, joined: its texts of this name.
fn joined(events: &[Value], choice: u64, name: &str) -> String {
    let choices = events
        .iter()
        .flat_map(|event| event["choices"].as_array().unwrap());
    choices
        .filter(|one| one["index"] == choice)
        .filter_map(|one| one["delta"][name].as_str().map(str::to_owned))
        .collect()
}

#[test]
fn each_of_n_choices_is_said_streamed_as_whole() {
    let whole = chat(&json!({"n": 3, "max_tokens": 6, "seed": 5})).json();
    let stream = chat(&json!({"n": 3, "max_tokens": 6, "seed": 5, "stream": true,
        "stream_options": {"include_usage": true}}));
    let events = events(&stream);
    let choices = whole["choices"].as_array().unwrap();
    assert_eq!(choices.len(), 3);
    for (index, choice) in (0..).zip(choices) {
        assert_eq!(choice["index"], index);
        assert_eq!(
            choice["message"]["content"],
            joined(&events, index, "content")
        );
    }
    assert_ne!(choices[0]["message"], choices[1]["message"]);
    assert_eq!(whole["usage"], events.last().unwrap()["usage"]);
    assert_eq!(whole["usage"]["completion_tokens"], 18);
}

#[test]
fn a_stop_string_is_the_reason() {
    let fields = json!({"max_tokens": 9, "stop": ["river moves"]});
    let whole = chat(&fields).json();
    let choice = &whole["choices"][0];
    assert_eq!(choice["message"]["content"], "A quiet ");
    assert_eq!(
        (&choice["finish_reason"], &choice["stop_reason"]),
        (&json!("stop"), &json!("river moves"))
    );
    // The tokens of the stop string were generated.
    assert_eq!(whole["usage"]["completion_tokens"], 4);
    let mut streamed = fields;
    streamed["stream"] = json!(true);
    let events = events(&chat(&streamed));
    assert_eq!(joined(&events, 0, "content"), "A quiet ");
    assert_eq!(
        events.last().unwrap()["choices"][0]["stop_reason"],
        "river moves"
    );
}

#[test]
fn usage_is_in_every_event_when_that_is_asked_for() {
    let options = json!({"include_usage": true, "continuous_usage_stats": true});
    let events = events(&chat(
        &json!({"max_tokens": 4, "stream": true, "stream_options": options}),
    ));
    let counts: Vec<_> = events
        .iter()
        .filter(|event| event["choices"][0]["delta"]["content"].as_str() != Some(""))
        .filter_map(|event| event["usage"]["completion_tokens"].as_u64())
        .collect();
    assert_eq!(counts, [1, 2, 3, 4, 4, 4]);
}

#[test]
fn reasoning_comes_first_and_is_counted() {
    let fields = json!({"max_tokens": 10, "reasoning_effort": "medium", "stream": true,
        "stream_options": {"include_usage": true}});
    let events = events(&chat(&fields));
    let reasons = |event: &Value| {
        let delta = &event["choices"][0]["delta"];
        let text = delta["reasoning_content"]
            .as_str()
            .or_else(|| delta["reasoning"].as_str());
        text.is_some_and(|text| !text.is_empty())
    };
    let kinds: Vec<_> = events
        .iter()
        .filter(|event| {
            reasons(event)
                || event["choices"][0]["delta"]["content"]
                    .as_str()
                    .is_some_and(|text| !text.is_empty())
        })
        .map(|event| if reasons(event) { 'r' } else { 't' })
        .collect();
    assert_eq!(kinds.iter().collect::<String>(), "rrrrrttttt");
    let usage = &events.last().unwrap()["usage"];
    assert_eq!(usage["completion_tokens"], 10);
    assert_eq!(usage["completion_tokens_details"]["reasoning_tokens"], 5);
}

#[test]
fn a_call_is_streamed_piecewise_and_is_the_whole_one() {
    let tools = json!([{"type": "function", "function": {"name": "weather", "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "minLength": 30}, "days": {"type": "integer", "minimum": 2}},
    }}}]);
    let whole = chat(&json!({"tools": tools})).json();
    let call = &whole["choices"][0]["message"]["tool_calls"][0];
    assert_eq!(call["function"]["name"], "weather");
    assert_eq!(whole["choices"][0]["finish_reason"], "tool_calls");
    let arguments = call["function"]["arguments"].as_str().unwrap();
    let parsed: Value = serde_json::from_str(arguments).unwrap();
    assert_eq!(parsed["days"], 2);
    let events = events(&chat(&json!({"tools": tools, "stream": true, "seed": 1})));
    let pieces: Vec<_> = events
        .iter()
        .filter_map(|event| {
            event["choices"][0]["delta"]["tool_calls"][0]["function"]["arguments"].as_str()
        })
        .collect();
    assert!(pieces.len() > 5, "{pieces:?}");
    let parsed: Value = serde_json::from_str(&pieces.concat()).unwrap();
    assert!(parsed["city"].as_str().unwrap().len() >= 30);
    assert_eq!(
        events.last().unwrap()["choices"][0]["finish_reason"],
        "tool_calls"
    );
}

#[test]
fn log_probabilities_are_of_each_token() {
    let whole = chat(&json!({"max_tokens": 3, "logprobs": true, "top_logprobs": 2})).json();
    let content = whole["choices"][0]["logprobs"]["content"]
        .as_array()
        .unwrap();
    let tokens: Vec<_> = content
        .iter()
        .map(|entry| entry["token"].as_str().unwrap())
        .collect();
    assert_eq!(tokens.concat(), text(3));
    assert_eq!(tokens.len(), 3);
    for entry in content {
        assert_eq!(entry["top_logprobs"].as_array().unwrap().len(), 2);
        assert!(entry["logprob"].as_f64().unwrap() < 0.0);
    }
    let body = json!({"prompt": "x", "max_tokens": 3, "logprobs": 1});
    let whole = ask("/v1/completions", &body).json();
    let logprobs = &whole["choices"][0]["logprobs"];
    assert_eq!(logprobs["tokens"].as_array().unwrap().len(), 3);
    assert_eq!(logprobs["token_logprobs"].as_array().unwrap().len(), 3);
}

#[test]
fn responses_are_streamed_as_whole() {
    let body = json!({"input": "A quiet river", "instructions": "be brief", "max_output_tokens": 20,
        "reasoning": {"effort": "low"}});
    let whole = ask("/v1/responses", &body).json();
    assert_eq!(whole["object"], "response");
    assert_eq!(whole["usage"]["input_tokens"], 5);
    assert_eq!(whole["usage"]["output_tokens"], 20);
    assert_eq!(
        whole["usage"]["output_tokens_details"]["reasoning_tokens"],
        4
    );
    let mut streamed = body;
    streamed["stream"] = json!(true);
    let events = events(&ask("/v1/responses", &streamed));
    let said: String = events
        .iter()
        .filter(|event| event["type"] == "response.output_text.delta")
        .map(|event| event["delta"].as_str().unwrap())
        .collect();
    assert_eq!(said, text(16));
    let last = &events.last().unwrap()["response"];
    assert_eq!(last["output"], whole["output"]);
    assert_eq!(last["usage"], whole["usage"]);
}

#[test]
fn prompts_are_counted_by_the_vocabulary() {
    let prompt = "Hello, world! \u{1f600} 1234567";
    let usage = |config: &ServerConfig| {
        let body = json!({"prompt": prompt, "max_tokens": 1}).to_string();
        let answer = one(&mut Fed::new(config), &post("/v1/completions", "", &body));
        answer.json()["usage"]["prompt_tokens"].as_u64().unwrap()
    };
    let tokenized = ask(
        "/tokenize",
        &json!({"prompt": prompt, "return_token_strings": true}),
    )
    .json();
    assert_eq!(tokenized["count"].as_u64(), Some(usage(&instant())));
    assert_eq!(
        tokenized["tokens"].as_array().unwrap().len() as u64,
        usage(&instant())
    );
    let words = ServerConfig {
        vocabulary: Vocabulary::words(),
        ..instant()
    };
    assert_eq!(usage(&words), 4);
}

#[test]
fn embeddings_are_answered_and_take_a_prefill() {
    let body = json!({"input": ["one", "two"], "dimensions": 8});
    let answer = ask("/v1/embeddings", &body).json();
    assert_eq!(answer["data"].as_array().unwrap().len(), 2);
    assert_eq!(answer["usage"]["prompt_tokens"], 2);
    let mut fed = Fed::new(&ServerConfig::default());
    let token = fed.accept();
    fed.feed(token, &post("/v1/embeddings", "", &body.to_string()));
    assert!(fed.sent.is_empty());
    fed.run(Nanos::from_secs(1));
    assert_eq!(fed.sent[0].0, Nanos::from_millis(20));
    // A peer that goes away gives its place back.
    fed.feed(token, &post("/v1/embeddings", "", &body.to_string()));
    fed.reset(token);
    assert_eq!(fed.server.step(fed.now, &mut fed.commands), Nanos::MAX);
}

#[test]
fn models_are_listed_and_others_refused_if_asked() {
    let config = ServerConfig {
        more_models: vec!["second".to_owned()],
        strict_model: true,
        max_model_len: Some(1_000),
        ..instant()
    };
    let mut fed = Fed::new(&config);
    let models = one(&mut fed, b"GET /v1/models HTTP/1.1\r\nHost: x\r\n\r\n").json();
    let ids: Vec<_> = models["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|model| &model["id"])
        .collect();
    assert_eq!(ids, ["mock", "second"]);
    assert_eq!(models["data"][1]["max_model_len"], 1_000);
    let second = one(
        &mut fed,
        b"GET /v1/models/%73econd HTTP/1.1\r\nHost: x\r\n\r\n",
    )
    .json();
    assert_eq!(second, models["data"][1]);
    let third = one(
        &mut fed,
        b"GET /v1/models/third HTTP/1.1\r\nHost: x\r\n\r\n",
    );
    assert_eq!(
        (third.status, &third.json()["error"]["code"]),
        (404, &json!("model_not_found"))
    );
    for (model, status) in [("second", 200), ("third", 404)] {
        for path in ["/v1/completions", "/v1/embeddings", "/tokenize"] {
            let body = json!({"model": model, "prompt": "x", "input": "x"}).to_string();
            let answer = one(&mut fed, &post(path, "", &body));
            assert_eq!(answer.status, status, "{path} {model}");
            if status == 404 {
                assert_eq!(answer.json()["error"]["code"], "model_not_found");
            }
        }
    }
}

#[test]
fn without_the_key_there_is_nothing_to_be_had() {
    let config = ServerConfig {
        api_key: Some(ApiKey("secret".to_owned())),
        ..instant()
    };
    let mut fed = Fed::new(&config);
    let body = r#"{"prompt":"x"}"#;
    for (field, status) in [
        ("", 401),
        ("Authorization: Bearer wrong1\r\n", 401),
        ("Authorization: secret\r\n", 401),
        ("Authorization: Bearer secret2\r\n", 401),
        ("authorization: bearer secret\r\n", 200),
        ("Authorization: Bearer secret\r\n", 200),
    ] {
        let answer = one(&mut fed, &post("/v1/completions", field, body));
        assert_eq!(answer.status, status, "{field}");
        if status == 401 {
            assert_eq!(answer.json()["error"]["code"], "invalid_api_key");
        }
    }
    let health = one(&mut fed, b"GET /health HTTP/1.1\r\nHost: x\r\n\r\n");
    assert_eq!(health.status, 200);
    assert!(!format!("{config:?}").contains("secret"));
}

#[test]
fn any_two_pieces_of_any_request_get_the_same_answer() {
    let requests = [
        post("/v1/embeddings", "", r#"{"input":["x",""],"dimensions":2}"#),
        post("/tokenize", "", r#"{"prompt":"a b"}"#),
        post("/v1/responses", "", r#"{"input":[{"role":"user","content":"x"}],"max_output_tokens":2,"stream":true}"#),
        post("/v1/chat/completions", "", r#"{"messages":[{"role":"user","content":"x"}],"n":2,"stop":"river","tools":[{"function":{"name":"f"}}],"tool_choice":"none"}"#),
    ]
    .concat();
    let answers = |pieces: &[&[u8]]| {
        let mut fed = Fed::new(&instant());
        let token = fed.accept();
        for piece in pieces {
            fed.feed(token, piece);
        }
        fed.take(token)
    };
    let whole = answers(&[&requests]);
    assert_eq!(
        responses(&whole)
            .iter()
            .map(|r| r.status)
            .collect::<Vec<_>>(),
        [200; 4]
    );
    for place in 1..requests.len() {
        let (a, b) = requests.split_at(place);
        assert_eq!(answers(&[a, b]), whole, "{place}");
    }
}
