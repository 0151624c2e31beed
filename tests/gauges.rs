//! The mock server's `/metrics` adds up with what bench records.
#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "outside/mock.rs"]
mod mock; // the mock server as a child

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

use serde_json::Value;

use mock::Mock;

impl Mock {
    fn ask(&self, method: &str, path: &str) -> String {
        let address = self.url.strip_prefix("http://").unwrap();
        let mut peer = TcpStream::connect(address).unwrap();
        write!(
            peer,
            "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
        )
        .unwrap();
        let mut text = String::new();
        peer.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        text.split_once("\r\n\r\n").unwrap().1.to_owned()
    }

    /// Counts, sums and counters, without labels but `finished_reason`.
    fn metrics(&self) -> BTreeMap<String, f64> {
        let page = self.ask("GET", "/metrics");
        let lines = page.lines().filter(|line| !line.starts_with('#'));
        let samples = lines.map(|line| {
            let (name, value) = line.rsplit_once(' ').unwrap();
            let (name, labels) = name.split_once('{').unwrap();
            let labels = labels.replace("model_name=\"mock\",engine=\"0\"", "");
            let labels = labels.trim_matches([',', '}']);
            (format!("{name}{labels}"), value.parse().unwrap())
        });
        samples.collect()
    }
}

/// Runs a load of a few requests and returns its report.
fn bench(mock: &Mock, more: &[&str]) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let arguments = [
        "bench",
        "--url",
        &mock.url,
        "--isl",
        "12",
        "--quiet",
        "--output-dir",
    ];
    let output = Command::new(env!("CARGO_BIN_EXE_ridgeline"))
        .args(arguments)
        .arg(&out)
        .args(more)
        .output()
        .unwrap();
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 3)), "{errors}");
    serde_json::from_slice(&fs::read(out.join("report.json")).unwrap()).unwrap()
}

fn number(report: &Value, path: &str) -> f64 {
    report
        .pointer(path)
        .and_then(Value::as_f64)
        .unwrap_or_else(|| panic!("{path}"))
}

/// What bench has at the paths is what the server has under the names.
fn add_up(report: &Value, metrics: &BTreeMap<String, f64>, pairs: &[(&str, &str)]) {
    for (path, name) in pairs {
        assert_eq!(number(report, path), metrics[*name], "{path} and {name}");
    }
}

#[test]
fn both_ends_count_the_same() {
    for flags in [
        &["--time-to-first-token=2ms", "--inter-token-latency=200us"][..],
        &["--mode=instant"],
        &["--mode=instant", "--events-per-write=3"],
    ] {
        let mock = Mock::start(flags);
        let streamed = bench(
            &mock,
            &["--osl", "9", "--request-count", "40", "--concurrency", "4"],
        );
        let metrics = mock.metrics();
        add_up(
            &streamed,
            &metrics,
            &[
                (
                    "/load/completed",
                    "vllm:request_success_totalfinished_reason=\"length\"",
                ),
                ("/load/completed", "vllm:e2e_request_latency_seconds_count"),
                ("/tokens/output", "vllm:generation_tokens_total"),
                ("/tokens/output", "vllm:request_generation_tokens_sum"),
                ("/tokens/input", "vllm:prompt_tokens_total"),
                ("/tokens/content_events", "ridgeline:content_events_total"),
                ("/ttft_ns/count", "vllm:time_to_first_token_seconds_count"),
                ("/icl_ns/count", "vllm:inter_token_latency_seconds_count"),
                (
                    "/tpot_ns/count",
                    "vllm:request_time_per_output_token_seconds_count",
                ),
            ],
        );
        // The client's times have the way to the server and back in them.
        for (path, name) in [
            ("/ttft_ns", "vllm:time_to_first_token_seconds_sum"),
            ("/latency_ns", "vllm:e2e_request_latency_seconds_sum"),
        ] {
            let client = number(&streamed, &format!("{path}/mean")) / 1e9 * 40.0;
            assert!(
                metrics[name] <= client,
                "{name}: {} and {client}",
                metrics[name]
            );
        }
        mock.ask("POST", "/admin/reset");
        let whole = bench(
            &mock,
            &["--osl", "5", "--request-count", "20", "--no-streaming"],
        );
        let metrics = mock.metrics();
        add_up(
            &whole,
            &metrics,
            &[
                (
                    "/load/completed",
                    "vllm:request_success_totalfinished_reason=\"length\"",
                ),
                ("/tokens/output", "vllm:generation_tokens_total"),
                (
                    "/latency_ns/count",
                    "vllm:e2e_request_latency_seconds_count",
                ),
            ],
        );
        assert_eq!(metrics["vllm:time_to_first_token_seconds_count"], 0.0);
        let said = mock.stop();
        assert!(said.contains(" 0 cut off"), "{said}");
    }
}
