//! `/admin/config` and `/admin/reset`.

use ridgeline_clock::Nanos;
use ridgeline_mock_server::ServerConfig;
use serde_json::{Value, json};

use crate::fed::{Fed, Response, chat, get, post, responses};
use crate::gauges::page;

fn ask(fed: &mut Fed, request: &[u8]) -> Response {
    let token = fed.accept();
    fed.feed(token, request);
    let response = responses(&fed.take(token)).pop().unwrap();
    fed.reset(token);
    response
}

fn change(fed: &mut Fed, method: &str, body: &Value) -> Response {
    let request = String::from_utf8(post("/admin/config", "", &body.to_string())).unwrap();
    ask(fed, request.replacen("POST", method, 1).as_bytes())
}

#[test]
fn a_change_is_for_what_comes_and_not_for_what_is_under_way() {
    let mut fed = Fed::with_flags(&[]);
    let (before, after) = (fed.accept(), fed.accept());
    fed.feed(before, &chat(r#","stream":true,"max_tokens":3"#));
    fed.run(Nanos::from_millis(22));
    let changed = change(
        &mut fed,
        "PATCH",
        &json!({"inter-token-latency": "100ms", "model": "other"}),
    );
    assert_eq!(
        (changed.status, &changed.json()["model"]),
        (200, &json!("other"))
    );
    assert_eq!(ask(&mut fed, &get("/admin/config")).json(), changed.json());
    let start = fed.now;
    fed.feed(after, &chat(r#","stream":true,"max_tokens":3"#));
    fed.run(Nanos::from_secs(1));
    let times = |fed: &Fed, token| {
        let sent = fed.sent.iter().filter(|(_, to, _)| *to == token);
        sent.map(|(at, ..)| at.0 / 1_000_000).collect::<Vec<_>>()
    };
    assert_eq!(times(&fed, before), [0, 20, 25, 30]);
    let start = start.0 / 1_000_000;
    assert_eq!(times(&fed, after), [0, 20, 120, 220].map(|ms| start + ms));
    let text = String::from_utf8(fed.take(after)).unwrap();
    assert!(text.contains(r#""model":"other""#), "{text}");
    assert_eq!(
        ask(&mut fed, &get("/v1/models")).json()["data"][0]["id"],
        "other"
    );
}

#[test]
fn what_a_body_means_is_read_anew_after_a_change() {
    let mut fed = Fed::with_flags(&["--mode=instant"]);
    let token = fed.accept();
    let tokens = |fed: &mut Fed| {
        fed.feed(token, &chat(""));
        responses(&fed.take(token))[0].json()["usage"]["completion_tokens"].clone()
    };
    assert_eq!(tokens(&mut fed), 64);
    assert_eq!(tokens(&mut fed), 64);
    change(&mut fed, "POST", &json!({"max_tokens_default": 7}));
    assert_eq!(tokens(&mut fed), 7);
}

#[test]
fn modes_change_in_both_directions() {
    let mut fed = Fed::with_flags(&[]);
    let slow = fed.accept();
    fed.feed(slow, &chat(r#","max_tokens":3"#));
    assert_eq!(
        change(&mut fed, "PUT", &json!({"mode": "instant"})).status,
        200
    );
    assert_eq!(ask(&mut fed, &chat("")).status, 200);
    assert_eq!(
        change(&mut fed, "PUT", &json!({"mode": "model"})).status,
        200
    );
    let token = fed.accept();
    fed.feed(token, &chat(r#","max_tokens":1"#));
    assert!(fed.take(token).is_empty(), "nothing is due yet");
    fed.run(Nanos::from_secs(1));
    assert_eq!(responses(&fed.take(token))[0].status, 200);
    assert_eq!(
        responses(&fed.take(slow))[0].json()["usage"]["completion_tokens"],
        3
    );
    assert_eq!(page(&mut fed)["vllm:num_requests_running"], 0.0);
}

#[test]
fn a_wrong_change_changes_nothing_and_says_what_is_wrong() {
    let mut fed = Fed::with_flags(&[]);
    let before = ask(&mut fed, &get("/admin/config")).json();
    for (body, told) in [
        (json!({"model": "x", "modell": "y"}), "the nearest is model"),
        (
            json!({"model": "x", "inter-token-latency": "soon"}),
            "inter-token-latency",
        ),
        (json!({"cores": "1"}), "cores can't be changed"),
    ] {
        let response = change(&mut fed, "PATCH", &body);
        let message = response.json()["error"]["message"]
            .as_str()
            .unwrap()
            .to_owned();
        assert_eq!(response.status, 400, "{body}");
        assert!(message.contains(told), "{body}: {message}");
    }
    assert_eq!(ask(&mut fed, &get("/admin/config")).json(), before);
}

#[test]
fn a_reset_counts_from_zero_and_keeps_what_is_under_way() {
    let mut fed = Fed::with_flags(&[]);
    let token = fed.accept();
    fed.feed(token, &chat(r#","stream":true,"max_tokens":4"#));
    fed.run(Nanos::from_millis(26));
    assert_eq!(page(&mut fed)["vllm:generation_tokens_total"], 2.0);
    assert_eq!(
        ask(&mut fed, &post("/admin/reset", "", "")).json(),
        json!({"reset": true})
    );
    let reset = page(&mut fed);
    assert_eq!(reset["vllm:generation_tokens_total"], 0.0);
    assert_eq!(reset["vllm:time_to_first_token_seconds_count"], 0.0);
    assert_eq!(reset["vllm:num_requests_running"], 1.0);
    fed.run(Nanos::from_secs(1));
    let after = page(&mut fed);
    assert_eq!(after["vllm:generation_tokens_total"], 2.0);
    assert_eq!(after["vllm:e2e_request_latency_seconds_count"], 1.0);
}

#[test]
fn without_flags_there_is_no_admin() {
    let mut fed = Fed::new(&ServerConfig::default());
    assert_eq!(ask(&mut fed, &get("/admin/config")).status, 404);
    assert_eq!(change(&mut fed, "PATCH", &json!({})).status, 404);
    assert_eq!(ask(&mut fed, &post("/admin/reset", "", "")).status, 404);
    assert_eq!(ask(&mut fed, &get("/metrics")).status, 200);
}
