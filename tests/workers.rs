//! Runs of several workers: the same requests as one process, and what happens when one of them is killed,
//! stopped or told to end, or their coordinator is.
#![expect(clippy::unwrap_used, reason = "a test")]

#[path = "outside/mock.rs"]
mod mock;
#[path = "outside/program.rs"]
mod program;
#[path = "outside/workers.rs"]
mod workers;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use rustix::process::Signal;
use serde_json::Value;

use mock::Mock;
use program::run;
use workers::{Process, Worker};

fn report(folder: &Path) -> Value {
    let text = fs::read_to_string(folder.join("report.json")).unwrap();
    serde_json::from_str(&text).unwrap()
}

fn records(folder: &Path) -> BTreeMap<u64, Value> {
    let text = fs::read_to_string(folder.join("records.jsonl")).unwrap();
    let lines = text.lines().map(|line| serde_json::from_str(line).unwrap());
    let records: BTreeMap<u64, Value> = lines
        .map(|line: Value| (line["index"].as_u64().unwrap(), line))
        .collect();
    assert_eq!(records.len(), text.lines().count(), "an index twice");
    records
}

fn reason<'a>(report: &'a Value, code: &str) -> Option<&'a str> {
    let reasons = report["verdict"]["reasons"].as_array().unwrap();
    let found = reasons.iter().find(|reason| reason["code"] == code)?;
    found["message"].as_str()
}

/// What the schedule and the seed decide of a record.
fn decided(record: &Value, measured_ns: u64) -> (Value, Value, Value, Value, u64) {
    let of = |key: &str| record[key].clone();
    let scheduled = record["scheduled_ns"].as_u64().unwrap();
    (
        of("sample"),
        of("phase"),
        of("shard"),
        of("outcome"),
        scheduled.saturating_sub(measured_ns),
    )
}

/// The first time that a measured request was due.
fn measured_ns(records: &BTreeMap<u64, Value>) -> u64 {
    let measured = records.values().filter(|r| r["phase"] == "measured");
    let due = measured.map(|r| r["scheduled_ns"].as_u64().unwrap());
    due.min().unwrap()
}

/// One process of four shards, and four processes of one, do the same.
#[test]
fn four_workers_do_what_one_process_of_four_shards_does() {
    let mock = Mock::start(&["--mode", "instant"]);
    let base = tempfile::tempdir().unwrap();
    let loads: [(&str, &[&str]); 3] = [
        ("poisson", &["--request-rate", "300", "--order", "shuffled"]),
        (
            "constant",
            &[
                "--request-rate",
                "300",
                "--arrival-pattern",
                "constant",
                "--warmup-requests",
                "21",
                "--order",
                "random",
            ],
        ),
        ("offline", &["--offline", "--concurrency", "8"]),
    ];
    for (name, load) in loads {
        let folders = [("one", "--shards"), ("four", "--workers")].map(|(kind, flag)| {
            let folder = base.path().join(format!("{name}-{kind}"));
            let mut flags = vec!["bench", "--url", &mock.url, "--model", "mock", flag, "4"];
            flags.extend(["-n", "403", "--seed", "7", "--dataset-samples", "97"]);
            flags.extend(["--isl", "16", "--osl", "8", "--quiet", "--output-dir"]);
            flags.push(folder.to_str().unwrap());
            flags.extend(load);
            let exit = run(&flags);
            assert!(matches!(exit.code, Some(0 | 3)), "{name} {kind}: {exit:?}");
            folder
        });
        let [one, four] = folders.each_ref().map(|folder| records(folder));
        assert!(one.keys().eq(four.keys()), "{name}");
        let [start_one, start_four] = [&one, &four].map(measured_ns);
        for (index, record) in &one {
            let (here, there) = (
                decided(record, start_one),
                decided(&four[index], start_four),
            );
            if record["phase"] == "warmup" {
                assert_eq!((here.0, here.1, here.2), (there.0, there.1, there.2));
            } else {
                assert_eq!(here, there, "{name}: request {index}");
            }
            assert_eq!(
                record["shard"], four[index]["worker"],
                "a shard for each worker"
            );
        }
        check_reports(&report(&folders[0]), &report(&folders[1]));
        assert!(
            !folders[1].join("worker-0").exists(),
            "gathered, so it is gone"
        );
    }
    mock.stop();
}

/// The counts of all histograms are those of one process, and the sum of the workers'.
fn check_reports(one: &Value, four: &Value) {
    for metric in ["latency_ns", "ttft_ns", "itl_ns", "icl_ns", "tpot_ns"] {
        assert_eq!(one[metric]["count"], four[metric]["count"], "{metric}");
    }
    for key in [
        "issued",
        "completed",
        "failed",
        "cancelled",
        "never_sent",
        "warmup",
    ] {
        assert_eq!(one["load"][key], four["load"][key], "{key}");
    }
    assert_eq!(one["tokens"], four["tokens"]);
    assert_eq!(one["finish_reasons"], four["finish_reasons"]);
    assert_eq!(one["harness"].get("workers"), None);
    let workers = four["harness"]["workers"].as_array().unwrap();
    assert_eq!(workers.len(), 4);
    let sum: u64 = workers
        .iter()
        .map(|w| w["completed"].as_u64().unwrap())
        .sum();
    assert_eq!(four["load"]["completed"], sum);
    for (place, worker) in workers.iter().enumerate() {
        assert_eq!(worker["status"], "finished");
        assert_eq!(
            (worker["first_shard"].as_u64(), worker["shards"].as_u64()),
            (Some(place as u64), Some(1))
        );
        assert_eq!(
            (&worker["same_clock"], &worker["clock_offset_ns"]),
            (&true.into(), &0.into())
        );
        assert_eq!(worker["records"]["gathered"], true);
    }
    let shards = four["harness"]["shards"].as_array().unwrap();
    let of: Vec<_> = shards
        .iter()
        .map(|shard| shard["worker"].as_u64())
        .collect();
    assert_eq!(of, [0, 1, 2, 3].map(Some));
    assert_eq!(reason(four, "workers"), None);
}

/// Two workers that this test owns, and a run of some seconds that they are in the middle of.
struct Scene {
    base: tempfile::TempDir,
    workers: Vec<Worker>,
    coordinator: Process,
    _mock: Mock,
}

impl Scene {
    fn new(duration: &str) -> Self {
        let mock = Mock::start(&["--mode", "instant"]);
        let base = tempfile::tempdir().unwrap();
        let start = |k: u32| {
            let address = format!("ipc://{}/w{k}.sock", base.path().display());
            Worker::start(&address, &[], &base.path().join(format!("kept-{k}")))
        };
        let workers: Vec<Worker> = (0..2).map(start).collect();
        let list = format!("{},{}", workers[0].address, workers[1].address);
        let folder = base.path().join("run");
        let mut coordinator = Process::start(&[
            "bench",
            "--url",
            &mock.url,
            "--model",
            "mock",
            "--request-rate",
            "100",
            "--duration",
            duration,
            "--isl",
            "16",
            "--osl",
            "8",
            "--workers",
            &list,
            "--output-dir",
            folder.to_str().unwrap(),
        ]);
        while coordinator.wait_for(" done").contains(": 0 done") {}
        Self {
            base,
            workers,
            coordinator,
            _mock: mock,
        }
    }

    fn folder(&self) -> std::path::PathBuf {
        self.base.path().join("run")
    }

    /// Waits for the run's end. Its report, and what that says of its workers.
    fn ends_invalid(&mut self) -> (Value, String) {
        let exit = self.coordinator.end();
        assert_eq!(exit.code, Some(3), "{exit:?}");
        let found = report(&self.folder());
        let message = reason(&found, "workers").unwrap().to_owned();
        (found, message)
    }

    /// The run after that: the worker that is left alone does it.
    fn again(&self, worker: usize) {
        let folder = self.base.path().join("again");
        let exit = run(&[
            "bench",
            "--mock",
            "--request-count",
            "20",
            "--concurrency",
            "2",
            "--osl",
            "4",
            "--quiet",
            "--workers",
            &self.workers[worker].address,
            "--output-dir",
            folder.to_str().unwrap(),
        ]);
        assert!(matches!(exit.code, Some(0 | 3)), "{exit:?}");
        assert_eq!(report(&folder)["load"]["completed"], 20, "{exit:?}");
        assert_eq!(records(&folder).len(), 20);
    }
}

#[test]
fn a_worker_that_is_killed_makes_the_run_invalid_and_the_other_finishes() {
    let mut scene = Scene::new("4s");
    scene.workers[0].signal(Signal::KILL);
    let (found, message) = scene.ends_invalid();
    assert!(message.contains(&scene.workers[0].address), "{message}");
    assert!(
        message.contains("was lost after") && message.contains("are missing here"),
        "{message}"
    );
    let workers = found["harness"]["workers"].as_array().unwrap();
    assert_eq!(
        (&workers[0]["status"], &workers[1]["status"]),
        (&"lost".into(), &"finished".into())
    );
    assert!(workers[0]["issued"].as_u64() > Some(0), "{}", workers[0]);
    // The other went on to the end: half of 100/s for four seconds.
    assert_eq!(found["load"]["issued"], workers[1]["issued"]);
    assert!(workers[1]["issued"].as_u64() > Some(150), "{}", workers[1]);
    let records = records(&scene.folder());
    assert_eq!(Some(records.len() as u64), workers[1]["issued"].as_u64());
    assert!(records.keys().all(|index| index % 2 == 1));
    scene.again(1);
}

#[test]
fn a_worker_that_is_stopped_is_noticed_by_its_silence_and_does_not_go_on() {
    let mut scene = Scene::new("3s");
    scene.workers[1].signal(Signal::STOP);
    let (found, message) = scene.ends_invalid();
    assert!(message.contains(&scene.workers[1].address), "{message}");
    assert!(
        message.contains("no sign of life") || message.contains("nothing came from it"),
        "{message}"
    );
    assert_eq!(found["harness"]["workers"][0]["status"], "finished");
    scene.workers[1].signal(Signal::CONT);
    scene.workers[1].wait_for("the run ended early");
    scene.again(1);
}

#[test]
fn workers_whose_coordinator_is_killed_end_its_run_and_serve_the_next() {
    let mut scene = Scene::new("60s");
    scene.coordinator.signal(Signal::KILL);
    for worker in &mut scene.workers {
        let line = worker.wait_for("the run ended early");
        assert!(
            line.contains("coordinator") && line.contains("its records are in"),
            "{line}"
        );
    }
    let kept = scene.base.path().join("kept-0");
    let kept = fs::read_dir(kept).unwrap().next().unwrap().unwrap().path();
    assert!(!records(&kept).is_empty(), "what was done is kept");
    scene.again(0);
}

#[test]
fn a_worker_that_is_told_to_end_hands_over_what_it_has_and_is_named() {
    let mut scene = Scene::new("4s");
    scene.workers[0].signal(Signal::TERM);
    assert_eq!(scene.workers[0].end().code, Some(0));
    let (found, message) = scene.ends_invalid();
    assert!(
        message.contains("left before the end") && message.contains("by a signal"),
        "{message}"
    );
    let workers = found["harness"]["workers"].as_array().unwrap();
    assert_eq!(workers[0]["status"], "left");
    let of = |place: usize| workers[place]["issued"].as_u64().unwrap();
    assert!(of(0) > 0 && of(0) < of(1));
    assert_eq!(found["load"]["issued"], of(0) + of(1));
    assert_eq!(records(&scene.folder()).len() as u64, of(0) + of(1));
}

#[test]
fn an_interrupted_coordinator_ends_the_run_everywhere_and_reports() {
    let mut scene = Scene::new("60s");
    scene.coordinator.signal(Signal::INT);
    let exit = scene.coordinator.end();
    assert_eq!(exit.code, Some(130), "{exit:?}");
    let found = report(&scene.folder());
    assert_eq!(found["interrupted"], true);
    assert_eq!(reason(&found, "workers"), None);
    let issued = found["load"]["issued"].as_u64().unwrap();
    assert!(issued > 0);
    assert_eq!(records(&scene.folder()).len() as u64, issued);
    scene.again(0);
}

#[test]
fn records_can_be_left_with_the_workers_and_the_report_says_where() {
    let base = tempfile::tempdir().unwrap();
    let folder = base.path().join("run");
    let exit = run(&[
        "bench",
        "--mock",
        "-n",
        "30",
        "--concurrency",
        "4",
        "--osl",
        "4",
        "--quiet",
        "--workers",
        "2",
        "--worker-records",
        "leave",
        "--output-dir",
        folder.to_str().unwrap(),
    ]);
    assert!(matches!(exit.code, Some(0 | 3)), "{exit:?}");
    assert!(!folder.join("records.jsonl").exists());
    let found = report(&folder);
    assert_eq!(found["harness"]["records"]["written"], 30);
    let mut all = 0;
    for worker in found["harness"]["workers"].as_array().unwrap() {
        let kept = worker["records"]["folder"].as_str().unwrap();
        all += records(Path::new(kept)).len();
    }
    assert_eq!(all, 30);
}

#[test]
fn a_data_set_goes_to_the_workers_and_a_key_does_not_go_to_the_disk() {
    let base = tempfile::tempdir().unwrap();
    let data = base.path().join("prompts.jsonl");
    let lines: String = (0..7)
        .map(|n| format!("{{\"prompt\":\"number {n}\"}}\n"))
        .collect();
    fs::write(&data, lines).unwrap();
    let mut worker = Worker::start(
        &format!("ipc://{}/w.sock", base.path().display()),
        &["--once"],
        &base.path().join("kept"),
    );
    let folder = base.path().join("run");
    let exit = run(&[
        "bench",
        "--mock",
        "-n",
        "21",
        "--concurrency",
        "2",
        "--osl",
        "4",
        "--quiet",
        "--dataset",
        data.to_str().unwrap(),
        "--header",
        "X-Api-Key: not-for-disks",
        "--workers",
        &worker.address,
        "--output-dir",
        folder.to_str().unwrap(),
    ]);
    assert!(matches!(exit.code, Some(0 | 3)), "{exit:?}");
    for (index, record) in records(&folder) {
        assert_eq!(record["sample"], index % 7);
    }
    assert_eq!(worker.end().code, Some(0), "--once");
    let mut folders = vec![base.path().to_owned()];
    while let Some(path) = folders.pop() {
        for entry in fs::read_dir(path).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.is_file() {
                let text = String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned();
                assert!(!text.contains("not-for-disks"), "{}", path.display());
            }
        }
    }
}

#[test]
fn what_can_not_be_is_told_before_anything_is_sent() {
    let base = tempfile::tempdir().unwrap();
    let token = base.path().join("token");
    fs::write(&token, "0123456789abcdef\n").unwrap();
    let address = format!("ipc://{}/w.sock", base.path().display());
    let flags = ["--token-file", token.to_str().unwrap()];
    let _worker = Worker::start(&address, &flags, base.path());
    for (flags, part) in [
        (
            ["--workers", &address, "--seed", "1"],
            "it asks for a token",
        ),
        (
            ["--workers", "tcp://192.0.2.1:7000", "--seed", "1"],
            "without a token anybody",
        ),
        (
            ["--workers", "0", "--seed", "1"],
            "between 1 and 1024 processes",
        ),
        (
            ["--workers", "3", "--shards", "4"],
            "can't be divided between 3 workers",
        ),
        (
            ["--workers", &address, "--cores", "0"],
            "ridgeline worker --cores",
        ),
    ] {
        let folder = base.path().join("run");
        let mut all = vec![
            "bench",
            "--mock",
            "-n",
            "4",
            "--output-dir",
            folder.to_str().unwrap(),
        ];
        all.extend(flags);
        let exit = run(&all);
        assert_eq!(exit.code, Some(2), "{flags:?}: {exit:?}");
        assert!(exit.said.contains(part), "{flags:?}: {exit:?}");
    }
    let folder = base.path().join("run");
    let exit = run(&[
        "bench",
        "--mock",
        "-n",
        "4",
        "--concurrency",
        "2",
        "--osl",
        "4",
        "--quiet",
        "--workers",
        &address,
        "--token-file",
        token.to_str().unwrap(),
        "--output-dir",
        folder.to_str().unwrap(),
    ]);
    assert!(matches!(exit.code, Some(0 | 3)), "{exit:?}");
    let exit = run(&["worker", "--listen", "tcp://0.0.0.0:0"]);
    assert_eq!(exit.code, Some(2));
    assert!(
        exit.said.contains("not on this machine's loopback"),
        "{exit:?}"
    );
}

#[test]
fn a_token_opens_the_network_to_those_who_have_it() {
    let base = tempfile::tempdir().unwrap();
    let files = ["right", "wrong"].map(|name| {
        let path = base.path().join(name);
        fs::write(&path, format!("{name}-0123456789abcdef\n")).unwrap();
        path.to_str().unwrap().to_owned()
    });
    let worker = Worker::start("tcp://0.0.0.0:0", &["--token-file", &files[0]], base.path());
    let port = worker.address.rsplit_once(':').unwrap().1;
    let address = format!("tcp://127.0.0.1:{port}");
    let folder = base.path().join("run");
    let bench = |token: &[&str]| {
        let mut flags = vec![
            "bench",
            "--mock",
            "-n",
            "20",
            "--concurrency",
            "2",
            "--osl",
            "4",
            "--quiet",
        ];
        flags.extend([
            "--workers",
            &address,
            "--output-dir",
            folder.to_str().unwrap(),
        ]);
        flags.extend(token);
        run(&flags)
    };
    for token in [&[][..], &["--token-file", &files[1]]] {
        let exit = bench(token);
        assert_eq!(exit.code, Some(2), "{exit:?}");
        assert!(exit.said.contains(&address), "{exit:?}");
    }
    let exit = bench(&["--token-file", &files[0]]);
    assert!(matches!(exit.code, Some(0 | 3)), "{exit:?}");
    assert_eq!(records(&folder).len(), 20);
}
