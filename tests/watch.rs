//! What the program says of itself and its machine, in a run of its own. What a machine does not tell is
//! null there; what every Linux tells is not.

#[path = "outside/program.rs"]
mod program; // the program as a child, never for longer than a limit

use std::fs;

use serde_json::Value;

#[test]
fn a_run_is_watched_from_its_start_to_its_end() {
    let keep = tempfile::tempdir().unwrap();
    let folder = keep.path().join("out");
    let exit = program::run(&[
        "bench",
        "--mock",
        "--isl",
        "8",
        "--osl",
        "8",
        "--concurrency",
        "4",
        "--request-count",
        "40",
        "--warmup-requests",
        "4",
        "--output-dir",
        folder.to_str().unwrap(),
    ]);
    assert_eq!(exit.code, Some(0), "{}", exit.said);
    let report: Value =
        serde_json::from_slice(&fs::read(folder.join("report.json")).unwrap()).unwrap();
    let harness = &report["harness"];
    let (shard, machine) = (&harness["shards"][0], &harness["machine"]);
    let duration = report["load"]["duration_ns"].as_u64().unwrap();
    // From before the measured phase until after it.
    assert!(
        shard["thread"]["span_ns"].as_u64().unwrap() >= duration,
        "{shard}"
    );
    assert!(
        machine["span_ns"].as_u64().unwrap() >= duration,
        "{machine}"
    );
    let cores = machine["cores"].as_array().unwrap();
    let own = cores.iter().find(|core| core["core"] == shard["core"]);
    assert_eq!(own.unwrap()["has_shard"], true, "{machine}");
    assert!(
        shard["thread"]["switches_voluntary"].as_u64().unwrap() > 0,
        "{shard}"
    );

    let stall = &shard["stall"];
    assert_eq!(stall["length_ns"], shard["stall_max_ns"], "{stall}");
    let words = stall["words"].as_str().unwrap();
    assert!(words.len() > 5 && !stall["cause"].is_null(), "{stall}");

    // Handing over is told of every request, and Little's law has two sides.
    assert!(
        harness["send_ns"]["count"].as_u64().unwrap() > 0,
        "{harness}"
    );
    let law = &report["load"]["littles_law"];
    let product =
        law["requests_per_s"].as_f64().unwrap() * law["latency_mean_ns"].as_f64().unwrap();
    let expected = law["in_flight"].as_f64().unwrap() / (product / 1e9);
    assert!(
        (law["ratio"].as_f64().unwrap() - expected).abs() < 1e-6,
        "{law}"
    );
    for part in ["Machine ", "Little's law: ", "Send "] {
        assert!(exit.said.contains(part), "{part}: {}", exit.said);
    }
}
