use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use ridgeline_metrics::verdict::Status;
use tempfile::TempDir;

use super::{Change, Comparison, Side, render};
use crate::records::JSONL;
use crate::samples::{Recipe, report};
use crate::write_json;

/// Requests of a made-up folder.
const REQUESTS: u64 = 4_000;

/// A result folder whose requests take `factor` times as long as those of another, give or take what `seed`
/// draws.
fn folder(factor: f64, seed: u64) -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut report = report(&Recipe::default());
    let mut lines = String::new();
    let mut state = seed;
    let mut samples = Vec::new();
    for index in 0..REQUESTS {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let noise = (state >> 33) % 1_000_000;
        let submitted = index * 2_500_000;
        let first = submitted + scaled(20_000_000 + noise, factor);
        let last = first + scaled(95_000_000 + noise, factor);
        samples.push(last - submitted);
        let _ = writeln!(
            lines,
            r#"{{"index":{index},"phase":"measured","outcome":"ok","submitted_ns":{submitted},"first_token_ns":{first},"last_token_ns":{last},"done_ns":{},"content_events":20,"output_tokens":20}}"#,
            last + 1_000
        );
    }
    samples.sort_unstable();
    let summary = report.latency_ns.as_mut().unwrap();
    summary.p50 = samples[samples.len() / 2 - 1];
    summary.p90 = samples[samples.len() * 9 / 10 - 1];
    summary.p99 = samples[samples.len() * 99 / 100 - 1];
    for (summary, base) in [
        (&mut report.ttft_ns, 20_500_000),
        (&mut report.tpot_ns, 5_026_000),
    ] {
        let summary = summary.as_mut().unwrap();
        (summary.p50, summary.p90, summary.p99) = (
            scaled(base, factor),
            scaled(base, factor),
            scaled(base, factor),
        );
    }
    report.throughput.requests_per_s = 400.0;
    report.throughput.output_tokens_per_s = 8_000.0;
    report.verdict.status = Status::Valid;
    report.verdict.reasons.clear();
    write_json(&report, folder.path()).unwrap();
    fs::write(folder.path().join(JSONL), lines).unwrap();
    folder
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_precision_loss,
    clippy::cast_sign_loss,
    reason = "spans of a test"
)]
fn scaled(ns: u64, factor: f64) -> u64 {
    (ns as f64 * factor) as u64
}

fn side(folders: &[&Path]) -> Side {
    let more: Vec<_> = folders[1..].iter().map(|path| path.to_path_buf()).collect();
    Side::read(folders[0], &more).unwrap()
}

fn compare(base: &[&Path], new: &[&Path]) -> Comparison {
    Comparison::of(&side(base), &side(new), 0.05)
}

fn change(comparison: &Comparison, name: &str) -> Change {
    let row = comparison.rows.iter().find(|row| row.name == name);
    row.unwrap().change
}

#[test]
fn equals_are_the_same() {
    for seed in 0..20 {
        let (a, b) = (folder(1.0, 2 * seed + 1), folder(1.0, 2 * seed + 2));
        let comparison = compare(&[a.path()], &[b.path()]);
        assert!(!comparison.is_regression());
        for name in [
            "Requests/s",
            "TTFT p50",
            "Latency p50",
            "Latency p99",
            "TPOT p90",
        ] {
            assert_eq!(
                change(&comparison, name),
                Change::Same,
                "{name}, seed {seed}"
            );
        }
    }
}

#[test]
fn a_tenth_slower_is_a_regression_and_the_other_way_an_improvement() {
    let (a, b) = (folder(1.0, 1), folder(1.1, 2));
    let slower = compare(&[a.path()], &[b.path()]);
    assert!(slower.is_regression());
    for name in ["TTFT p50", "TTFT p99", "Latency p90", "TPOT p50"] {
        assert_eq!(change(&slower, name), Change::Worse, "{name}");
    }
    assert_eq!(change(&slower, "Requests/s"), Change::Same);
    let text = render(&slower);
    assert!(
        text.contains("REGRESSION by 5.00 % or more: TTFT p50"),
        "{text}"
    );
    let faster = compare(&[b.path()], &[a.path()]);
    assert!(!faster.is_regression());
    assert_eq!(change(&faster, "Latency p50"), Change::Better);
}

#[test]
fn less_than_the_threshold_is_no_regression() {
    let (a, b) = (folder(1.0, 1), folder(1.03, 2));
    let comparison = compare(&[a.path()], &[b.path()]);
    assert!(!comparison.is_regression());
    let row = comparison.rows.iter().find(|row| row.name == "Latency p50");
    assert!(
        row.unwrap().interval.unwrap()[0] > 0.0,
        "certain, and small"
    );
}

#[test]
fn runs_that_differ_among_themselves_make_nothing_certain() {
    // 10 % between the sides, and as much within each.
    let runs: Vec<_> = [0.95, 1.05, 1.05, 1.15]
        .iter()
        .zip(1..)
        .map(|(factor, seed)| folder(*factor, seed))
        .collect();
    let comparison = compare(
        &[runs[0].path(), runs[1].path()],
        &[runs[2].path(), runs[3].path()],
    );
    assert_eq!(change(&comparison, "Latency p50"), Change::Open);
    assert!(comparison.notes.is_empty(), "{:?}", comparison.notes);
}

#[test]
fn an_invalid_run_is_not_judged() {
    let (a, b) = (folder(1.0, 1), folder(1.5, 2));
    let mut report = crate::read_json(b.path()).unwrap();
    report.verdict.status = Status::Invalid;
    write_json(&report, b.path()).unwrap();
    let comparison = compare(&[a.path()], &[b.path()]);
    assert!(!comparison.is_regression());
    assert!(render(&comparison).contains("a run is INVALID"));
}

#[test]
fn without_records_nothing_is_tested_and_it_says_so() {
    let (a, b) = (folder(1.0, 1), folder(1.5, 2));
    fs::remove_file(b.path().join(JSONL)).unwrap();
    let comparison = compare(&[a.path()], &[b.path()]);
    assert_eq!(change(&comparison, "Latency p50"), Change::Untested);
    assert!(render(&comparison).contains("has no records.jsonl"));
}

#[test]
fn records_that_are_cut_lose_their_last_line_and_broken_ones_are_named() {
    let a = folder(1.0, 1);
    let path = a.path().join(JSONL);
    let lines = fs::read_to_string(&path).unwrap();
    fs::write(&path, &lines[..lines.len() - 20]).unwrap();
    let side = side(&[a.path()]);
    assert_eq!(
        side.runs[0].requests.as_ref().unwrap().len() as u64,
        REQUESTS - 1
    );
    fs::write(&path, format!("nonsense\n{lines}")).unwrap();
    let error = Side::read(a.path(), &[]).unwrap_err().to_string();
    assert!(error.contains("line 1"), "{error}");
}

#[test]
fn what_was_changed_on_purpose_is_named() {
    let (a, b) = (folder(1.0, 1), folder(1.0, 2));
    let mut report = crate::read_json(b.path()).unwrap();
    report.plan = serde_json::json!({"url": "http://127.0.0.1:8000", "concurrency": 8});
    write_json(&report, b.path()).unwrap();
    let comparison = compare(&[a.path()], &[b.path()]);
    let keys: Vec<_> = comparison
        .differences
        .iter()
        .map(|d| d.key.as_str())
        .collect();
    assert_eq!(keys, ["concurrency", "model"]);
}
