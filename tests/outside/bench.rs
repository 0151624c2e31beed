//! A run of `bench` against an endpoint, and what it left behind.

use std::fs;

use serde_json::Value;

use crate::program;

/// Its exit code, what it said, and its report and records, where there are any.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) said: String,
    pub(crate) report: Value,
    pub(crate) records: Vec<Value>,
}

/// So many requests with one prompt, and more flags.
pub(crate) fn bench(url: &str, prompt: &str, requests: u64, more: &[&str]) -> Ran {
    let folder = tempfile::tempdir().unwrap();
    let (out, count) = (folder.path().join("out"), requests.to_string());
    let fixed = [
        "bench",
        "--url",
        url,
        "--model",
        "mock",
        "--prompt",
        prompt,
        "--request-count",
        &count,
        "--output-dir",
        out.to_str().unwrap(),
    ];
    let exit = program::run(&[&fixed, more].concat());
    let read = |name: &str| fs::read_to_string(out.join(name)).unwrap_or_default();
    let records = read("records.jsonl");
    let records = records
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    Ran {
        code: exit.code,
        said: exit.said,
        report: serde_json::from_str(&read("report.json")).unwrap_or_default(),
        records: records.collect(),
    }
}
