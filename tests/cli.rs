//! The whole program: what it prints, what it leaves in a folder, and its exit codes.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

fn ridgeline(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ridgeline"));
    command.args(arguments).env_remove("NO_COLOR");
    command
}

fn output(arguments: &[&str]) -> Output {
    ridgeline(arguments).output().unwrap()
}

fn code(output: &Output) -> i32 {
    output.status.code().unwrap()
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// Runs a mistake: it must be answered with exit code 2 and one line on stderr. That line.
fn complaint(arguments: &[&str]) -> String {
    let output = output(arguments);
    let text = stderr(&output);
    assert_eq!(code(&output), 2, "{arguments:?}: {text}");
    assert!(output.stdout.is_empty(), "{arguments:?}");
    let lines: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("error: "))
        .collect();
    assert_eq!(lines.len(), 1, "{arguments:?}: {text}");
    lines[0].to_owned()
}

fn folder() -> (tempfile::TempDir, String) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("out").display().to_string();
    (folder, path)
}

fn report(folder: &str) -> Value {
    serde_json::from_slice(&fs::read(Path::new(folder).join("report.json")).unwrap()).unwrap()
}

fn records(folder: &str) -> Vec<Value> {
    let text = fs::read_to_string(Path::new(folder).join("records.jsonl")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// A run of a few requests against the embedded server.
const QUICK: [&str; 9] = [
    "bench",
    "--mock",
    "--osl",
    "3",
    "--isl",
    "8",
    "--concurrency",
    "4",
    "--request-count",
];

fn quick(count: &str, out: &str, more: &[&str]) -> Output {
    output(&[&QUICK[..], &[count, "--output-dir", out], more].concat())
}

#[test]
fn a_run_leaves_a_report_records_and_the_file_that_repeats_it() {
    let (_keep, out) = folder();
    let output = quick(
        "12",
        &out,
        &["--save-text", "--save-events", "--slo", "ttft:p50=60s"],
    );
    let text = stdout(&output);
    assert_eq!(code(&output), 0, "{text}{}", stderr(&output));
    // Too short to be judged: the first line says so, and the page names the folder.
    assert!(text.starts_with("DEGRADED"), "{text}");
    assert!(text.contains("12 issued: 12 ok"), "{text}");
    assert!(text.contains(&out), "{text}");
    assert!(
        text.lines()
            .all(|line| line.chars().count() <= 80 || line.contains(&out)),
        "{text}"
    );
    let progress = stderr(&output);
    for part in [
        "closed loop, 4 in flight, 12 requests",
        "12 synthetic prompts, 8 tokens in, 3 out",
    ] {
        assert!(progress.contains(part), "{progress}");
    }
    let report = report(&out);
    assert_eq!(report["schema"], "ridgeline.report/1");
    assert_eq!(report["load"]["completed"], 12);
    assert_eq!(report["plan"]["concurrency"], 4);
    assert_eq!(report["tokens"]["output"], 36);
    let records = records(&out);
    assert_eq!(records.len(), 12);
    for record in &records {
        assert_eq!(record["outcome"], "ok");
        assert_eq!(record["text"], "A quiet river");
        assert_eq!(record["event_ns"].as_array().unwrap().len(), 3);
    }
    let config = format!("{out}/config.yaml");
    let (_keep, again) = folder();
    let repeated = self::output(&["bench", "-f", &config, "--output-dir", &again, "--quiet"]);
    assert_eq!(code(&repeated), 0, "{}", stderr(&repeated));
    assert_eq!(
        report["load"]["issued"],
        self::report(&again)["load"]["issued"]
    );
    // Quiet: the verdict and the folder, nothing else.
    assert_eq!(
        stdout(&repeated).lines().count(),
        2,
        "{}",
        stdout(&repeated)
    );
    assert_eq!(stderr(&repeated), "");
    // The same page again, from the folder.
    let shown = self::output(&["report", &out]);
    assert_eq!((code(&shown), stdout(&shown)), (0, text));
}

#[test]
fn both_drivers_all_loads_and_both_answers_work() {
    for more in [
        &["--driver", "epoll"][..],
        &["--no-streaming"],
        &["--endpoint-type", "completions"],
        &["--offline"],
        &["--request-rate", "1000", "--arrival-pattern", "constant"],
        &[
            "--request-rate",
            "500",
            "--burstiness",
            "0.5",
            "--warmup-requests",
            "2",
        ],
        &["--stage", "rate=400,duration=5ms", "--stage", "rate=900"],
        &["--cores", "none", "--shards", "2"],
        &["--records", "none"],
        &["--order", "shuffled", "--dataset-samples", "3"],
    ] {
        let (_keep, out) = folder();
        let output = quick("8", &out, more);
        // Bursts on a busy machine may lag: the numbers are another test's.
        assert!(
            [0, 3].contains(&code(&output)),
            "{more:?}: {}",
            stderr(&output)
        );
        assert_eq!(report(&out)["load"]["completed"], 8, "{more:?}");
        let has_records = Path::new(&out).join("records.jsonl").exists();
        assert_eq!(has_records, more != ["--records", "none"], "{more:?}");
    }
}

#[test]
fn mistakes_are_one_line_with_cause_and_remedy() {
    for (arguments, part) in [
        (&["bench"][..], "no endpoint: pass --url"),
        (
            &["bench", "--mock", "--request-rate", "0"],
            "--request-rate 0 cannot be scheduled",
        ),
        (
            &["bench", "--url", "ftp://h"],
            "`ftp` is not a scheme it speaks",
        ),
        (&["bench", "--url", "h:80"], "it has no scheme"),
        (
            &["bench", "--mock", "--url", "http://h"],
            "--url and --mock contradict",
        ),
        (&["bench", "--mock", "--cores", "99999"], "it may use"),
        (&["bench", "--mock", "-c", "4000000"], "lower --concurrency"),
        (
            &["bench", "--mock", "--dataset", "no/such.json"],
            "cannot read no/such.json",
        ),
        (&["bench", "-f", "no/such.yaml"], "cannot read no/such.yaml"),
        (
            &["bench", "--mock", "--output-dir", "Cargo.toml/x"],
            "--output-dir",
        ),
        (
            &["bench", "--mock", "--slo", "tfft=1s"],
            "did you mean `ttft`",
        ),
        (
            &["bench", "--mock", "--requestrate", "5"],
            "unexpected argument",
        ),
        (&["report", "no/such/folder"], "is not a folder"),
        (&["report", "src"], "is not a folder"),
        (&["report", "crates"], "has no report.json"),
        (
            &["report", "crates", "--truth", "no/such.jsonl"],
            "cannot read no/such.jsonl",
        ),
        (
            &["report", "crates", "--truth", "Cargo.toml"],
            "Cargo.toml is no truth file",
        ),
        (&["config", "validate", "Cargo.toml"], "Cargo.toml, line 1"),
        (
            &["probe", "--mock", "--prompt", ""],
            "--prompt: the text is empty",
        ),
    ] {
        let line = complaint(arguments);
        assert!(line.contains(part), "{arguments:?}: {line}");
    }
}

#[test]
fn nobody_there_is_told_before_the_run() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    drop(listener);
    let (_keep, out) = folder();
    let line = complaint(&["bench", "--url", &url, "--output-dir", &out]);
    assert!(line.contains("connection refused"), "{line}");
    assert!(
        !Path::new(&out).exists(),
        "a run that did not begin leaves no folder"
    );
}

#[test]
fn a_data_set_that_is_not_what_it_claims_is_told_with_its_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("data.jsonl").display().to_string();
    fs::write(&path, "{\"prompt\":\"a\"}\n{\"promt\":\"b\"}\n").unwrap();
    let line = complaint(&["bench", "--mock", "--dataset", &path]);
    assert!(line.contains("data.jsonl, line 2"), "{line}");
}

#[test]
fn an_unknown_key_is_answered_with_the_nearest() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.yaml").display().to_string();
    fs::write(&path, "mock: true\nconcurency: 3\n").unwrap();
    let line = complaint(&["bench", "-f", &path]);
    assert!(
        line.contains("line 2: unknown key `concurency`; did you mean `concurrency`?"),
        "{line}"
    );
}

#[test]
fn an_example_is_written_validated_and_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.yaml").display().to_string();
    assert_eq!(code(&output(&["config", "init", &path])), 0);
    let again = complaint(&["config", "init", &path]);
    assert!(again.contains("it exists"), "{again}");
    let validated = output(&["config", "validate", &path]);
    let text = stdout(&validated);
    assert_eq!(code(&validated), 0, "{}", stderr(&validated));
    assert!(
        text.contains("# load     closed loop, 16 in flight, for 10s"),
        "{text}"
    );
    let effective = folder.path().join("effective.yaml").display().to_string();
    fs::write(&effective, text).unwrap();
    let out = folder.path().join("out").display().to_string();
    let run = output(&[
        "bench",
        "-f",
        &effective,
        "--request-count",
        "4",
        "--osl",
        "2",
        "--output-dir",
        &out,
    ]);
    assert_eq!(code(&run), 0, "{}", stderr(&run));
    assert_eq!(report(&out)["plan"]["isl"], 128);
    let schema = output(&["config", "schema"]);
    let schema: Value = serde_json::from_slice(&schema.stdout).unwrap();
    assert!(schema["properties"]["request-rate"].is_object());
}

#[test]
fn secrets_reach_no_file_and_no_terminal() {
    let (_keep, out) = folder();
    let run = ridgeline(&QUICK)
        .args(["4", "--output-dir", &out, "--header", "X-Api-Key: s3cret-1"])
        .args(["--header", "X-Team: perf", "--api-key-env", "THE_KEY"])
        .env("THE_KEY", "s3cret-2")
        .output()
        .unwrap();
    assert_eq!(code(&run), 0, "{}", stderr(&run));
    let mut seen = stdout(&run) + &stderr(&run);
    for file in ["config.yaml", "report.json", "records.jsonl"] {
        seen += &fs::read_to_string(Path::new(&out).join(file)).unwrap();
    }
    assert!(!seen.contains("s3cret"), "{seen}");
    assert!(seen.contains("X-Team: perf") && seen.contains("THE_KEY"));
    let line = complaint(&["bench", "-f", &format!("{out}/config.yaml")]);
    assert!(line.contains("`X-Api-Key` was redacted"), "{line}");
    let probe = ridgeline(&["probe", "--mock", "--osl", "2", "--api-key-env", "THE_KEY"])
        .env("THE_KEY", "s3cret-2")
        .output()
        .unwrap();
    let text = stdout(&probe);
    assert!(
        text.contains("> Authorization: REDACTED") && !text.contains("s3cret"),
        "{text}"
    );
}

#[test]
fn a_probe_explains_what_comes() {
    let output = output(&["probe", "--mock", "--osl", "3", "--isl", "4"]);
    let text = stdout(&output);
    assert_eq!(code(&output), 0, "{}", stderr(&output));
    for part in [
        "> POST /v1/chat/completions HTTP/1.1",
        "\"max_tokens\":3",
        "< HTTP/1.1 200 OK",
        "event 2    text \"A\"",
        "[DONE]",
        "outcome        ok",
        "4 tokens in, 3 out; 3 content events",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn every_request_failing_is_exit_code_4() {
    // A server that closes each connection at once.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || listener.incoming().for_each(drop));
    let (_keep, out) = folder();
    let arguments = [
        "bench",
        "--url",
        &url,
        "--model",
        "m",
        "--request-count",
        "3",
        "-c",
        "1",
    ];
    let output = output(&[&arguments[..], &["--output-dir", &out]].concat());
    assert_eq!(code(&output), 4, "{}{}", stdout(&output), stderr(&output));
    assert_eq!(records(&out).len(), 3);
    assert_eq!(report(&out)["load"]["failed"], 3);
    let probe = self::output(&["probe", "--url", &url, "--model", "m"]);
    assert_eq!(code(&probe), 4);
    assert!(
        stdout(&probe).contains("outcome        error, "),
        "{}",
        stdout(&probe)
    );
}

#[test]
fn a_missed_slo_is_exit_code_5() {
    let (_keep, out) = folder();
    let output = quick("8", &out, &["--slo", "ttft:p50=1us"]);
    assert_eq!(code(&output), 5, "{}{}", stdout(&output), stderr(&output));
}

#[test]
fn the_model_is_asked_for_where_none_is_named() {
    let mut server = ridgeline(&["mock-server", "--port", "0", "--model", "only-one"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(server.stdout.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    let url = first.strip_prefix("listening on ").unwrap();
    let (_keep, out) = folder();
    let run = output(&[
        "bench",
        "--url",
        url,
        "--request-count",
        "2",
        "--osl",
        "2",
        "-o",
        &out,
    ]);
    interrupt(&server);
    assert!(server.wait().unwrap().success());
    assert_eq!(code(&run), 0, "{}", stderr(&run));
    assert_eq!(report(&out)["target"]["model"], "only-one");
}

fn interrupt(child: &Child) {
    let id = child.id().to_string();
    assert!(
        Command::new("kill")
            .args(["-INT", &id])
            .status()
            .unwrap()
            .success()
    );
}

/// A run without an end of its own, once `ready` says yes after a line of its progress.
fn long_run(out: &str, ready: impl Fn(&str) -> bool) -> Child {
    let mut child = ridgeline(&[
        "bench",
        "--mock",
        "--duration",
        "1h",
        "--osl",
        "4",
        "-c",
        "4",
    ])
    .args(["--output-dir", out])
    .stdout(Stdio::piped())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    let mut progress = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !ready(&line) {
        line.clear();
        assert_ne!(
            progress.read_line(&mut line).unwrap(),
            0,
            "it ended by itself"
        );
    }
    // Whoever writes progress must not be kept from it.
    std::thread::spawn(move || {
        let mut rest = String::new();
        let _ = progress.read_to_string(&mut rest);
    });
    child
}

#[test]
fn an_interrupt_gives_a_partial_report_and_exit_code_130() {
    let (_keep, out) = folder();
    let child = long_run(&out, |line| line.contains(" done, "));
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), 130);
    let report = report(&out);
    let completed = report["load"]["completed"].as_u64().unwrap();
    assert_eq!(report["interrupted"], true);
    assert!(completed > 0);
    assert_eq!(
        report["load"]["cancelled"], 0,
        "the drain was long enough for all"
    );
    assert_eq!(records(&out).len() as u64, completed);
    assert!(stdout(&output).contains(&out));
}

#[test]
fn after_a_kill_the_records_that_came_are_readable() {
    let (_keep, out) = folder();
    let jsonl = Path::new(&out).join("records.jsonl");
    let mut child = long_run(&out, |_| {
        fs::metadata(&jsonl).is_ok_and(|file| file.len() > 0)
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let line = complaint(&["report", &out]);
    assert!(line.contains("killed before its end"), "{line}");
    let records = records(&out);
    assert!(!records.is_empty());
    assert!(records.iter().all(|record| record["outcome"] == "ok"));
}

#[test]
fn negative_and_boundless_numbers_are_answered_with_the_flag() {
    for (flag, value) in [
        ("--concurrency", "-1"),
        ("--duration", "-1"),
        ("--top-k", "-1.5"),
        ("--request-rate", "1e308"),
        ("--temperature", "1e-300"),
    ] {
        let line = complaint(&["bench", "--mock", flag, value]);
        let named = format!("invalid value '{value}' for '{flag} ");
        assert!(line.contains(&named), "{line}");
    }
}

#[test]
fn a_configuration_without_end_is_not_read_to_its_end() {
    let line = complaint(&["bench", "-f", "/dev/zero"]);
    assert!(line.contains("more than 1048576 bytes"), "{line}");
}

#[test]
fn what_was_measured_is_shown_even_if_it_cannot_be_kept() {
    let (_keep, out) = folder();
    // A folder in the place of the file that is renamed to the report.
    fs::create_dir_all(Path::new(&out).join("report.json.tmp")).unwrap();
    let output = quick("4", &out, &[]);
    assert_eq!(code(&output), 2);
    assert!(stdout(&output).contains("4 issued: 4 ok"));
    assert!(stderr(&output).contains("error: cannot write"));
}

/// A tokenizer of one token a character, so that no count of it is that of the events.
const CHARACTERS: &str = r#"{"version":"1.0","truncation":null,"padding":null,"added_tokens":[],
    "normalizer":null,"pre_tokenizer":{"type":"Split","pattern":{"Regex":"."},
    "behavior":"Isolated","invert":false},"post_processor":null,"decoder":null,
    "model":{"type":"WordLevel","vocab":{"[UNK]":0},"unk_token":"[UNK]"}}"#;

/// A run whose server counts nothing, with `more` flags.
fn uncounted(out: &str, more: &[&str]) -> Output {
    let flags = [
        "bench",
        "--mock",
        "--prompt",
        "How long is a river?",
        "--osl",
        "9",
        "--concurrency",
        "4",
        "--request-count",
        "12",
        "--warmup-requests",
        "3",
        "--slo",
        "tpot=1us",
        "--extra-body",
        r#"{"stream_options":{"include_usage":false}}"#,
        "--output-dir",
        out,
    ];
    output(&[&flags[..], more].concat())
}

#[test]
fn a_tokenizer_counts_what_the_server_does_not() {
    let (keep, out) = folder();
    let file = keep.path().join("tokenizer.json").display().to_string();
    fs::write(&file, CHARACTERS).unwrap();
    let run = uncounted(&out, &["--save-text", "--tokenizer", &file]);
    assert_eq!(code(&run), 0, "{}{}", stdout(&run), stderr(&run));
    assert!(stderr(&run).contains("counting the tokens of 12 answers"));
    assert!(stdout(&run).contains("counted by a tokenizer"));
    let tokenizer = ridgeline_workload::Tokenizer::open(&file).unwrap();
    let (report, records) = (report(&out), records(&out));
    assert_eq!(records.len(), 15);
    let (mut output, mut tpot) = (0, 0);
    for record in &records {
        let text = record["text"].as_str().unwrap();
        assert_eq!(record["output_tokens"], Value::Null);
        assert_eq!(record["content_events"], 9);
        assert_eq!(record.get("uncounted"), None);
        if record["phase"] == "warmup" {
            assert_eq!(record["token_source"], "events");
            assert_eq!(record.get("counted_output_tokens"), None);
            assert_eq!(record.get("counted_input_tokens"), None);
            continue;
        }
        let tokens = u64::from(tokenizer.count(text).unwrap());
        assert_eq!(tokens, text.chars().count() as u64);
        assert_eq!(record["counted_output_tokens"], tokens);
        assert_eq!(record["counted_input_tokens"], 20);
        assert_eq!(record["token_source"], "tokenizer");
        let at = |key: &str| record[key].as_u64().unwrap();
        let (span, gaps) = (at("last_token_ns") - at("first_token_ns"), tokens - 1);
        output += tokens;
        tpot += (span + gaps / 2) / gaps;
    }
    assert!(output > 2 * 12 * 9, "not the events");
    let tokens = &report["tokens"];
    let expected = serde_json::json!({"usage": 0, "tokenizer": output, "events": 0});
    assert_eq!(
        (&tokens["source"], &tokens["output"]),
        (&expected, &output.into())
    );
    assert_eq!(
        (&tokens["input"], &tokens["input_counted"]),
        (&240.into(), &240.into())
    );
    assert_eq!(tokens["note"], Value::Null);
    let near = |found: &Value, expected: f64| {
        let found = found.as_f64().unwrap();
        assert!((found / expected - 1.0).abs() < 1e-9, "{found} {expected}");
    };
    let (output, tpot) = (f64::from(u32::try_from(output).unwrap()), tpot as f64);
    near(&report["tpot_ns"]["mean"], tpot / 12.0);
    assert_eq!(report["tpot_ns"]["count"], 12);
    let seconds = report["load"]["duration_ns"].as_f64().unwrap() / 1e9;
    near(
        &report["throughput"]["output_tokens_per_s"],
        output / seconds,
    );
    let goodput = &report["goodput"];
    assert_eq!(
        (&goodput["judged"], &goodput["good"]),
        (&12.into(), &0.into())
    );
    let names: Vec<_> = fs::read_dir(&out).unwrap().collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn what_the_server_counts_is_not_counted_again() {
    let (_keep, out) = folder();
    let more = ["--save-text", "--tokenizer", "cl100k_base"];
    let run = quick("8", &out, &more);
    assert_eq!(code(&run), 0, "{}", stderr(&run));
    assert!(!stderr(&run).contains("counting"));
    for record in records(&out) {
        assert_eq!(record["token_source"], "usage");
        for absent in ["counted_output_tokens", "counted_input_tokens", "uncounted"] {
            assert_eq!(record.get(absent), None);
        }
    }
    let tokens = &report(&out)["tokens"];
    let expected = serde_json::json!({"usage": 24, "tokenizer": 0, "events": 0});
    assert_eq!(
        (&tokens["source"], &tokens["input_counted"]),
        (&expected, &0.into())
    );
}

#[test]
fn without_their_text_answers_go_by_their_events() {
    let (_keep, out) = folder();
    let counting = ["--save-text", "--tokenizer", "cl100k_base"];
    for (more, note) in [
        (&counting[1..], false),
        (&counting[..1], false),
        (&[&counting[..], &["--records", "none"]].concat(), true),
    ] {
        let run = uncounted(&out, more);
        assert_eq!(code(&run), 0, "{}", stderr(&run));
        let told = stderr(&run).contains("answers are counted from their records");
        assert_eq!(told, note, "{more:?}");
        let tokens = &report(&out)["tokens"];
        let expected = serde_json::json!({"usage": 0, "tokenizer": 0, "events": 108});
        assert_eq!(tokens["source"], expected, "{more:?}");
        // `How long is a river?` has six.
        let input = if more.contains(&"--tokenizer") { 72 } else { 0 };
        assert_eq!(tokens["input"], input, "{more:?}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_mistake() {
    for arguments in [&["config", "schema"][..], &["config", "init"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let run = ridgeline(arguments)
            .stdout(writer)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let output = run.wait_with_output().unwrap();
        assert_eq!((code(&output), stderr(&output).as_str()), (0, ""));
    }
}

#[test]
fn an_interrupted_warm_up_measured_nothing_and_blames_nobody() {
    let (_keep, out) = folder();
    let mut child = ridgeline(&["bench", "--mock", "--warmup-requests", "1000000", "-c", "4"])
        .args(["--output-dir", &out])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut progress = BufReader::new(child.stderr.take().unwrap());
    let mut line = String::new();
    while !line.contains("warming up") {
        line.clear();
        assert_ne!(progress.read_line(&mut line).unwrap(), 0);
    }
    interrupt(&child);
    std::io::copy(&mut progress, &mut std::io::sink()).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let report = report(&out);
    assert_eq!(report["load"]["issued"], 0);
    assert_eq!(report["verdict"]["limited_by"], "none");
    let busy = &report["harness"]["shards"][0]["busy_fraction"];
    assert!(busy.as_f64().unwrap() <= 1.0);
}

/// The folder of a run, copied, with every time after submission `factor` times as long, and a verdict that
/// lets it be judged.
fn slower(from: &str, to: &Path, factor: u64) {
    fs::create_dir_all(to).unwrap();
    let mut report = report(from);
    report["verdict"]["status"] = "valid".into();
    for metric in ["latency_ns", "ttft_ns", "tpot_ns"] {
        for percentile in ["p50", "p90", "p99"] {
            let value = &mut report[metric][percentile];
            *value = (value.as_u64().unwrap() * factor).into();
        }
    }
    fs::write(to.join("report.json"), report.to_string()).unwrap();
    let mut lines = String::new();
    for mut record in records(from) {
        let submitted = record["submitted_ns"].as_u64().unwrap();
        for time in ["first_token_ns", "last_token_ns", "done_ns"] {
            let after = record[time].as_u64().unwrap() - submitted;
            record[time] = (submitted + after * factor).into();
        }
        lines.extend([record.to_string(), "\n".to_owned()]);
    }
    fs::write(to.join("records.jsonl"), lines).unwrap();
}

#[test]
fn a_slower_run_is_a_regression_and_exit_code_5() {
    let (folder, out) = folder();
    quick("300", &out, &[]);
    let [base, twice] = ["base", "twice"].map(|name| folder.path().join(name));
    slower(&out, &base, 1);
    slower(&out, &twice, 2);
    let [base, twice] = [&base, &twice].map(|path| path.to_str().unwrap());
    let same = output(&["compare", base, base]);
    assert_eq!(code(&same), 0, "{}", stderr(&same));
    assert!(stdout(&same).contains("No regression"), "{}", stdout(&same));
    let json = folder.path().join("comparison.json");
    let json = json.to_str().unwrap();
    let worse = output(&["compare", base, twice, "--json", json]);
    assert_eq!(code(&worse), 5, "{}", stdout(&worse));
    assert!(stdout(&worse).contains("REGRESSION"), "{}", stdout(&worse));
    let written: Value = serde_json::from_slice(&fs::read(json).unwrap()).unwrap();
    assert_eq!(written["schema"], "ridgeline.comparison/1");
    let missing = complaint(&["compare", base, "/nowhere"]);
    assert!(missing.contains("/nowhere/report.json"), "{missing}");
}

#[test]
fn the_bare_programs_are_within() {
    let sleeper = output(&[
        "ceiling",
        "bare-sleeper",
        "--rate",
        "1000",
        "--seconds",
        "0.02",
    ]);
    assert_eq!(code(&sleeper), 0, "{}", stderr(&sleeper));
    let met: Value = serde_json::from_str(&stdout(&sleeper)).unwrap();
    assert_eq!(met["lag"]["count"], 20);
    let error = complaint(&["ceiling", "bare-client", "nowhere"]);
    assert!(error.contains("address \"nowhere\""), "{error}");
    let help = stdout(&output(&["ceiling", "--help"]));
    for name in ["bare-client", "bare-server", "bare-sleeper"] {
        assert!(help.contains(name), "{help}");
    }
    assert!(!stdout(&output(&["--help"])).contains("ceiling"));
}
