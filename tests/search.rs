//! Series of runs with the whole program: what they leave in a folder, what they print, and how they end.
//! How good an answer is where time is virtual is `tests/simulator`'s matter.
#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "outside/mock.rs"]
mod mock; // the mock server as a child

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use mock::Mock;

fn ridgeline(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ridgeline"));
    // No profile of this machine: what is said of the client is the same everywhere.
    command
        .args(arguments)
        .env("RIDGELINE_PROFILES", "/dev/null");
    command
}

/// A series against `server`, in short answers.
fn series(server: &Mock, out: &Path, arguments: &[&str]) -> Output {
    let fixed = [
        "bench",
        "--url",
        &server.url,
        "--isl",
        "8",
        "--osl",
        "6",
        "--cores",
        "none",
        "--output-dir",
        out.to_str().unwrap(),
    ];
    ridgeline(&[&fixed[..], arguments].concat())
        .output()
        .unwrap()
}

fn json(path: PathBuf) -> Value {
    serde_json::from_slice(&fs::read(&path).unwrap()).unwrap()
}

fn search(out: &Path) -> Value {
    json(out.join("search.json"))
}

fn said(output: &Output) -> String {
    let text = [&output.stderr[..], &output.stdout].concat();
    String::from_utf8(text).unwrap()
}

/// When the requests of a run were to begin, in their order.
fn scheduled(run: &Path) -> Vec<u64> {
    let records = fs::read_to_string(run.join("records.jsonl")).unwrap();
    let mut all: Vec<u64> = records
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .map(|record| record["scheduled_ns"].as_u64().unwrap())
        .collect();
    all.sort_unstable();
    all
}

/// Places for four, 10 ms to the first token and 1 ms between: 15 ms a request.
const SERVER: [&str; 6] = [
    "--max-num-seqs",
    "4",
    "--time-to-first-token",
    "10ms",
    "--inter-token-latency",
    "1ms",
];

#[test]
fn a_sweep_has_a_folder_a_row_and_a_verdict_for_each_point() {
    let server = Mock::start(&SERVER);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let sweep = [
        "--sweep",
        "concurrency=1,4,8",
        "--rounds",
        "6",
        "--warmup-rounds",
        "1",
    ];
    let output = series(&server, &out, &sweep);
    let text = said(&output);
    // A machine that is busy elsewhere may make a point invalid: then the sweep is.
    assert!([Some(0), Some(3)].contains(&output.status.code()), "{text}");
    let found = search(&out);
    assert_eq!(found["schema"], "ridgeline.search/1");
    assert_eq!(
        (&found["kind"], &found["interrupted"]),
        (&"sweep".into(), &false.into())
    );
    let points = found["points"].as_array().unwrap();
    assert_eq!(points.len(), 3);
    let mut names = Vec::new();
    for (point, level) in points.iter().zip([1_u64, 4, 8]) {
        assert_eq!(point["concurrency"], level);
        assert_eq!(point["completed"], 6 * level, "{text}");
        let own = out.join(point["folder"].as_str().unwrap());
        let report = json(own.join("report.json"));
        assert_eq!(report["load"]["warmup"]["issued"], level);
        assert_eq!(report["verdict"]["status"], point["status"]);
        let records = fs::read_to_string(own.join("records.jsonl")).unwrap();
        for line in records.lines() {
            let record: Value = serde_json::from_str(line).unwrap();
            names.push(record["request_id"].as_str().unwrap().to_owned());
        }
        assert!(text.contains(&format!("\nconcurrency {level} ")), "{text}");
    }
    // All on one server and in one set-up, and yet no two requests have one name.
    assert_eq!(names.len(), 7 * 13);
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 7 * 13);
    // A point can be run again by itself, and so can the sweep.
    let point = out.join("002-concurrency-4/config.yaml");
    let check = |file: &Path| {
        let output = ridgeline(&["config", "validate", file.to_str().unwrap()]).output();
        let output = output.unwrap();
        assert!(output.status.success(), "{}", said(&output));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(check(&point).contains("closed loop, 4 in flight, 24 requests"));
    assert!(check(&out.join("config.yaml")).contains("sweep: concurrency=1,4,8"));
    // What it printed can be had again.
    let again = ridgeline(&["report", out.to_str().unwrap()])
        .output()
        .unwrap();
    assert!(again.status.success(), "{}", said(&again));
    let again = String::from_utf8(again.stdout).unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    let table = printed
        .lines()
        .filter(|line| *line != out.to_str().unwrap());
    assert!(again.lines().skip(1).eq(table), "{again}\n{printed}");
    server.stop();
}

#[test]
fn repetitions_have_intervals_and_replace_those_of_an_earlier_series() {
    let server = Mock::start(&SERVER);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let load = ["--request-rate", "50", "--request-count", "20", "--repeat"];
    let output = series(&server, &out, &[&load[..], &["4"]].concat());
    let text = said(&output);
    assert!([Some(0), Some(3)].contains(&output.status.code()), "{text}");
    assert!(text.contains("run: 4 runs: requests/s "), "{text}");
    let found = search(&out);
    assert_eq!(found["repeats"][0]["runs"], 4);
    // Each draws its arrivals anew.
    let mut arrivals: Vec<_> = (1..=4)
        .map(|run| scheduled(&out.join(format!("{run:03}-run"))))
        .collect();
    assert!(arrivals.iter().all(|run| run.len() == 20));
    arrivals.dedup();
    assert_eq!(arrivals.len(), 4);
    let of = |end: &str| found["repeats"][0]["latency_p50_ns"][end].as_f64().unwrap();
    assert!(of("low") <= of("value") && of("value") <= of("high"));
    fs::write(out.join("004-run/notes.txt"), "mine").unwrap();
    let output = series(&server, &out, &[&load[..], &["2", "--quiet"]].concat());
    assert_eq!(search(&out)["points"].as_array().unwrap().len(), 2);
    assert!(!out.join("003-run").exists());
    assert!(out.join("004-run/notes.txt").exists() && !out.join("004-run/report.json").exists());
    // Quiet: what it came to, the intervals, and where it is.
    let lines = String::from_utf8(output.stdout).unwrap();
    assert_eq!(lines.lines().count(), 3, "{lines}");
    assert!(output.stderr.is_empty());
}

#[test]
fn the_knee_of_a_server_with_four_places_is_four() {
    let server = Mock::start(&SERVER);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let output = series(&server, &out, &["--find", "knee", "--concurrency", "32"]);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(0), "{text}");
    let knee = &search(&out)["knee"];
    assert_eq!(knee["ending"], "found", "{text}");
    // One more or less is as near as whole numbers come, on a machine that does other things.
    let found = knee["knee"].as_u64().unwrap();
    assert!((3..=5).contains(&found), "{text}");
    assert!(
        text.contains(&format!("FOUND: the knee is at {found} in flight")),
        "{text}"
    );
}

#[test]
fn a_service_level_that_nothing_meets_ends_with_five() {
    let server = Mock::start(&SERVER);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let output = series(
        &server,
        &out,
        &["--find", "max-rate", "--slo", "ttft:p90=5ms"],
    );
    let text = said(&output);
    assert_eq!(output.status.code(), Some(5), "{text}");
    assert!(text.contains("NOTHING: no rate"), "{text}");
    assert!(
        text.contains("meets no other does not meet ttft:p90=5ms"),
        "{text}"
    );
    // One request at a time was enough to know it.
    assert_eq!(search(&out)["points"].as_array().unwrap().len(), 1);
}

#[test]
fn an_interrupted_series_keeps_what_there_is() {
    let server = Mock::start(&SERVER);
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let mut child = ridgeline(&[
        "bench",
        "--url",
        &server.url,
        "--sweep",
        "concurrency=1,2,3",
        "--duration",
        "600s",
        "--osl",
        "6",
        "--isl",
        "8",
        "--output-dir",
        out.to_str().unwrap(),
    ])
    .stderr(Stdio::piped())
    .stdout(Stdio::piped())
    .spawn()
    .unwrap();
    // Some line of progress: the first run is under way.
    let progress = BufReader::new(child.stderr.take().unwrap());
    let mut lines = progress.lines().map_while(Result::ok);
    assert!(lines.any(|line| line.contains("001-concurrency-1")));
    assert!(lines.next().is_some());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let rest: Vec<String> = lines.collect();
    let status = child.wait().unwrap();
    assert_eq!(status.code(), Some(130), "{rest:?}");
    let found = search(&out);
    assert_eq!(
        (&found["interrupted"], &found["exit_code"]),
        (&true.into(), &130.into())
    );
    assert_eq!(found["points"].as_array().unwrap().len(), 1);
    assert_eq!(found["points"][0]["interrupted"], true);
}

#[test]
fn contradictions_are_one_line() {
    for (arguments, part) in [
        (
            &["--sweep", "concurrency=1", "--find", "knee"][..],
            "--sweep and --find contradict",
        ),
        (&["--sweep", "isl=1"], "can't be swept"),
        (
            &["--find", "max-rate"],
            "needs a service level with a percentile",
        ),
        (
            &["--repeat", "2", "--precision", "0"],
            "lies between 0 and 100%",
        ),
    ] {
        let output = ridgeline(&[&["bench", "--mock"], arguments].concat())
            .output()
            .unwrap();
        assert_eq!(output.status.code(), Some(2));
        assert!(said(&output).contains(part), "{}", said(&output));
    }
}
