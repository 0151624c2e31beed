//! What `/metrics` says, against what is known by construction.

use std::collections::BTreeMap;

use ridgeline_clock::Nanos;
use ridgeline_net::Token;

use crate::fed::{Fed, chat, get, post, responses};

/// The samples of the page by name and labels, without the labels that all have.
pub(crate) fn page(fed: &mut Fed) -> BTreeMap<String, f64> {
    let token = fed.accept();
    fed.feed(token, &get("/metrics"));
    let response = responses(&fed.take(token)).pop().unwrap();
    assert!(
        response
            .head
            .contains("content-type: text/plain; version=0.0.4")
    );
    fed.reset(token);
    let lines = response.body.lines().filter(|line| !line.starts_with('#'));
    let samples = lines.map(|line| {
        let (name, value) = line.rsplit_once(' ').unwrap();
        let name = name.replace("model_name=\"mock\",engine=\"0\"", "");
        (
            name.replace("{}", "").replace("{,", "{"),
            value.parse().unwrap(),
        )
    });
    samples.collect()
}

/// Asks for a chat and lets it end.
fn ask(fed: &mut Fed, token: Token, fields: &str) {
    fed.feed(token, &chat(fields));
    fed.run(fed.now + Nanos::from_secs(1));
}

/// Whether these samples have these values; sums of seconds to the nanosecond.
fn check(page: &BTreeMap<String, f64>, expected: &[(&str, f64)]) {
    for (name, value) in expected {
        let found = page.get(*name).unwrap_or_else(|| panic!("{name} is there"));
        assert!(
            (found - value).abs() < 1e-9,
            "{name}: {found} and not {value}"
        );
    }
}

#[test]
fn times_and_tokens_are_those_of_the_answers() {
    let mut fed = Fed::with_flags(&[]);
    let token = fed.accept();
    // 20 ms to the first token, and 5 ms from one to the next.
    ask(&mut fed, token, r#","stream":true,"max_tokens":4"#);
    ask(&mut fed, token, r#","stream":true,"max_tokens":2"#);
    ask(&mut fed, token, r#","max_tokens":3"#);
    let page = page(&mut fed);
    check(
        &page,
        &[
            (
                "vllm:request_success_total{finished_reason=\"length\"}",
                3.0,
            ),
            ("vllm:request_success_total{finished_reason=\"stop\"}", 0.0),
            ("vllm:request_success_total{finished_reason=\"abort\"}", 0.0),
            ("vllm:generation_tokens_total", 9.0),
            ("vllm:request_generation_tokens_sum", 9.0),
            ("vllm:request_generation_tokens_bucket{le=\"2.0\"}", 1.0),
            ("vllm:request_params_max_tokens_sum", 9.0),
            ("vllm:request_params_n_sum", 3.0),
            ("vllm:time_to_first_token_seconds_count", 2.0),
            ("vllm:time_to_first_token_seconds_sum", 0.040),
            ("vllm:time_to_first_token_seconds_bucket{le=\"0.01\"}", 0.0),
            ("vllm:time_to_first_token_seconds_bucket{le=\"0.02\"}", 2.0),
            ("vllm:inter_token_latency_seconds_count", 4.0),
            ("vllm:inter_token_latency_seconds_sum", 0.020),
            ("vllm:time_per_output_token_seconds_sum", 0.020),
            ("vllm:request_time_per_output_token_seconds_count", 2.0),
            ("vllm:request_time_per_output_token_seconds_sum", 0.010),
            ("vllm:e2e_request_latency_seconds_count", 3.0),
            (
                "vllm:e2e_request_latency_seconds_sum",
                0.035 + 0.025 + 0.030,
            ),
            ("vllm:request_inference_time_seconds_sum", 0.090),
            ("vllm:request_queue_time_seconds_sum", 0.0),
            ("vllm:request_queue_time_seconds_count", 3.0),
            ("vllm:request_prefill_time_seconds_sum", 0.040),
            ("vllm:request_decode_time_seconds_sum", 0.020),
            ("vllm:num_requests_running", 0.0),
            ("ridgeline:content_events_total", 6.0),
            ("ridgeline:late_writes_total", 0.0),
            ("ridgeline:connections", 2.0),
            ("ridgeline:connections_accepted_total", 2.0),
            ("ridgeline:requests_total", 4.0),
            ("ridgeline:answers_total", 3.0),
        ],
    );
    let prompt = page["vllm:prompt_tokens_total"];
    assert!(prompt > 0.0 && prompt == page["vllm:request_prompt_tokens_sum"]);
}

#[test]
fn prompts_of_embeddings_and_tokens_without_text_are_told_apart() {
    let mut fed = Fed::with_flags(&["--kv-cache-size", "7"]);
    let token = fed.accept();
    fed.feed(
        token,
        &post(
            "/v1/embeddings",
            "",
            r#"{"input":["one","two"],"dimensions":2}"#,
        ),
    );
    fed.run(Nanos::from_secs(1));
    let embedded = page(&mut fed);
    check(
        &embedded,
        &[
            ("vllm:prompt_tokens_total", 2.0),
            ("vllm:request_prompt_tokens_sum", 2.0),
            ("vllm:request_prompt_tokens_count", 1.0),
            ("vllm:e2e_request_latency_seconds_count", 1.0),
            ("vllm:e2e_request_latency_seconds_sum", 0.020),
            ("vllm:generation_tokens_total", 0.0),
            ("vllm:request_generation_tokens_count", 0.0),
            ("vllm:time_to_first_token_seconds_count", 0.0),
            (
                r#"vllm:cache_config_info{engine="0",block_size="16",enable_prefix_caching="False",num_gpu_blocks="7"}"#,
                1.0,
            ),
        ],
    );
    let body = r#"{"messages":[{"role":"user","content":"x"}],"stream":true,"max_tokens":3}"#;
    let silent = "X-Mock-Dialect: no-text\r\n";
    fed.feed(token, &post("/v1/chat/completions", silent, body));
    fed.run(Nanos::from_secs(2));
    check(
        &page(&mut fed),
        &[
            ("vllm:generation_tokens_total", 3.0),
            ("ridgeline:content_events_total", 0.0),
            ("vllm:time_to_first_token_seconds_count", 0.0),
        ],
    );
}

#[test]
fn a_late_write_is_counted_and_its_gap_measured() {
    let mut fed = Fed::with_flags(&[]);
    let token = fed.accept();
    fed.feed(token, &chat(r#","stream":true,"max_tokens":2"#));
    fed.run(Nanos::from_millis(20));
    // Nobody turns the shard until long after the second token is due.
    fed.now = Nanos::from_millis(40);
    fed.run(Nanos::from_millis(50));
    check(
        &page(&mut fed),
        &[
            ("vllm:inter_token_latency_seconds_sum", 0.020),
            ("ridgeline:late_writes_total", 1.0),
            ("ridgeline:write_lateness_seconds_sum", 0.015),
        ],
    );
}

#[test]
fn what_is_under_way_or_cut_off_or_refused_is_told_apart() {
    let mut fed = Fed::with_flags(&[]);
    let token = fed.accept();
    fed.feed(token, &chat(r#","stream":true,"max_tokens":4"#));
    fed.run(Nanos::from_millis(21));
    let during = page(&mut fed);
    check(
        &during,
        &[
            ("vllm:num_requests_running", 1.0),
            ("vllm:generation_tokens_total", 1.0),
            ("vllm:e2e_request_latency_seconds_count", 0.0),
        ],
    );
    fed.reset(token);
    let token = fed.accept();
    fed.feed(token, &post("/v1/chat/completions", "", "{}"));
    check(
        &page(&mut fed),
        &[
            ("vllm:num_requests_running", 0.0),
            ("vllm:request_success_total{finished_reason=\"abort\"}", 1.0),
            (
                "vllm:request_success_total{finished_reason=\"length\"}",
                0.0,
            ),
            ("vllm:e2e_request_latency_seconds_count", 0.0),
            ("ridgeline:answers_cut_total", 1.0),
            ("ridgeline:requests_refused_total", 1.0),
        ],
    );
}

#[test]
fn an_instant_answer_is_counted_like_any_other() {
    let mut fed = Fed::with_flags(&["--mode=instant"]);
    let token = fed.accept();
    ask(&mut fed, token, r#","stream":true,"max_tokens":8"#);
    ask(&mut fed, token, r#","max_tokens":2"#);
    check(
        &page(&mut fed),
        &[
            ("vllm:generation_tokens_total", 10.0),
            (
                "vllm:request_success_total{finished_reason=\"length\"}",
                2.0,
            ),
            ("vllm:time_to_first_token_seconds_count", 1.0),
            ("vllm:inter_token_latency_seconds_count", 7.0),
            ("vllm:inter_token_latency_seconds_sum", 0.0),
            ("ridgeline:content_events_total", 8.0),
        ],
    );
}

#[test]
fn faults_are_counted_by_name_and_are_no_successes() {
    let mut fed = Fed::with_flags(&[]);
    for fault in ["status-500", "status-500", "no-done"] {
        let token = fed.accept();
        let header = format!("X-Mock-Fault: {fault}\r\n");
        let body = r#"{"prompt":"x","max_tokens":2,"stream":true}"#;
        fed.feed(token, &post("/v1/completions", &header, body));
        fed.run(fed.now + Nanos::from_secs(1));
        fed.reset(token);
    }
    let counted = page(&mut fed);
    check(
        &counted,
        &[
            ("ridgeline:faults_total{fault=\"status-500\"}", 2.0),
            ("ridgeline:faults_total{fault=\"no-done\"}", 1.0),
            ("ridgeline:faults_injected_total", 3.0),
            (
                "vllm:request_success_total{finished_reason=\"length\"}",
                0.0,
            ),
            ("vllm:request_success_total{finished_reason=\"abort\"}", 0.0),
        ],
    );
    let token = fed.accept();
    fed.feed(token, &post("/admin/reset", "", ""));
    let reset = page(&mut fed);
    check(
        &reset,
        &[
            ("ridgeline:faults_total{fault=\"status-500\"}", 0.0),
            ("ridgeline:faults_injected_total", 0.0),
        ],
    );
}
