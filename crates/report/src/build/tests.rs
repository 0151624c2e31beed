use std::collections::{BTreeMap, BTreeSet};
use std::io;

use ridgeline_metrics::Stopped;
use ridgeline_metrics::verdict::Code;
use ridgeline_wire::exchange::ErrorKind;

use super::*;
use crate::records::RecordsError;
use crate::samples::{self, Made, Recipe, START};
use crate::{ReportError, StageFigures, read_json, write_json, write_whole};

fn build(made: &Made) -> Report {
    Report::build(&made.run, &samples::context(&made.plan))
}

fn codes(report: &Report) -> Vec<Code> {
    let reasons = &report.verdict.reasons;
    reasons.iter().map(|reason| reason.code).collect()
}

/// Every key of `report.json`, object by object. Programs read them: a key may be added here, and
/// none may go or be renamed under this version of the schema.
const KEYS: &[(&str, &str)] = &[
    (
        "",
        "schema ridgeline environment plan target started_unix_ns interrupted exit_code percentiles \
         verdict load throughput latency_ns latency_from_schedule_ns ttft_ns ttft_from_schedule_ns \
         ttfo_ns tpot_ns itl_ns icl_ns connect_ns tls_ns tokens errors error_examples finish_reasons \
         endpoints goodput harness stages",
    ),
    ("/ridgeline", "version revision"),
    (
        "/environment",
        "kernel cpu_model cores governor congestion_control driver somaxconn port_range \
         nofile_soft nofile_hard clocksource clock",
    ),
    (
        "/environment/clock",
        "boot_id time_namespace start_monotonic_ns start_realtime_ns realtime_error_ns",
    ),
    (
        "/target",
        "url model endpoint_type streaming certificate_checked",
    ),
    ("/verdict", "status limited_by reasons"),
    (
        "/verdict/reasons/0",
        "code status message value limit unit remedy",
    ),
    (
        "/load",
        "kind arrival_pattern requested_rate scheduled_rate achieved_rate issued completed failed \
         cancelled given_up never_sent retried concurrency effective_concurrency peak_concurrency \
         duration_ns schedule_lag_ns pool_wait_ns cap_wait_ns warmup littles_law latency_growth",
    ),
    (
        "/throughput",
        "requests_per_s input_tokens_per_s output_tokens_per_s content_events_per_s bytes_per_s",
    ),
    (
        "/ttft_ns",
        "count mean std min max p1 p5 p10 p25 p50 p75 p90 p95 p99 p99_9",
    ),
    (
        "/tokens",
        "input output source content_events per_event input_counted note",
    ),
    ("/tokens/source", "usage tokenizer events"),
    (
        "/harness",
        "driver rx_timestamps shared_core shards harness_delay_ns stamp_width_ns send_ns http2 carry_copies \
         gaps_committed_early records_dropped records cpu_ns_per_request cpu_ns_per_event \
         events_per_read headroom machine notes",
    ),
    (
        "/harness/shards/0",
        "worker core busy_fraction cpu_ns stall_max_ns gather_max_ns turns completions reads events_per_read \
         connections_opened received_bytes sent_bytes carry_copies out_of_buffers \
         completions_overflowed stamps_discarded stamp_error_max_ns thread stall",
    ),
];

#[test]
fn a_report_has_the_keys_of_its_schema_and_no_others() {
    let report = samples::report(&Recipe {
        failures: 30,
        ..Recipe::default()
    });
    let value = serde_json::to_value(&report).unwrap();
    for (object, keys) in KEYS {
        let found = value.pointer(object).unwrap().as_object().unwrap();
        let found: BTreeSet<&str> = found.keys().map(String::as_str).collect();
        let named: BTreeSet<&str> = keys.split_whitespace().collect();
        assert_eq!(found, named, "of {object:?}");
    }
    assert_eq!(value["schema"], "ridgeline.report/1");
    assert_eq!(value["load"]["duration_ns"], 10_000_000_000_u64);
    assert_eq!(value["verdict"]["status"], "degraded");
    assert_eq!(value["goodput"], serde_json::Value::Null);
}

#[test]
fn a_report_is_read_as_it_was_written() {
    let folder = tempfile::tempdir().unwrap();
    for recipe in [
        Recipe::default(),
        Recipe {
            load: samples::open(100.0, Some(8)),
            failures: 30,
            slos: "ttft:p90=22ms",
            ..Recipe::default()
        },
    ] {
        let report = samples::report(&recipe);
        write_json(&report, folder.path()).unwrap();
        let read = read_json(folder.path()).unwrap();
        assert_eq!(read.folder.as_deref(), Some(folder.path()));
        assert_eq!(read.verdict.status, report.verdict.status);
        assert_eq!((read.load.issued, read.ttft_ns.map(|s| s.p99)), {
            (report.load.issued, report.ttft_ns.map(|s| s.p99))
        });
        let page = |report: &Report| {
            let report = Report {
                folder: None,
                ..report.clone()
            };
            crate::console::render(&report, 80, false)
        };
        assert_eq!(page(&read), page(&report), "and says the same");
    }
    let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    assert_eq!(names.len(), 1, "nothing unfinished is left behind");
}

#[test]
fn what_is_no_report_is_told_apart() {
    let folder = tempfile::tempdir().unwrap();
    let read = || read_json(folder.path()).unwrap_err();
    assert!(matches!(read(), ReportError::Read { .. }));
    for (text, part) in [
        ("{", "EOF"),
        ("{}", "no schema"),
        (r#"{"schema": "ridgeline.report/2"}"#, "ridgeline.report/2"),
        (r#"{"schema": "ridgeline.report/1"}"#, "missing field"),
    ] {
        write_whole(&folder.path().join("report.json"), text.as_bytes()).unwrap();
        let error = read().to_string();
        assert!(error.contains(part), "{error}");
    }
    let missing = write_json(
        &samples::report(&Recipe::default()),
        &folder.path().join("no"),
    );
    assert!(matches!(missing, Err(ReportError::Write { .. })));
}

#[test]
fn a_rate_is_judged_by_what_was_sent_in_its_window() {
    let mut made = samples::make(&Recipe {
        load: samples::open(100.0, None),
        ..Recipe::default()
    });
    // Sent late, but sent: the collector of a counted run misses none.
    made.run.submitted_in_window = 900;
    let report = build(&made);
    assert_eq!(codes(&report), [Code::Rate]);
    assert_eq!(report.load.requested_rate, Some(100.0));
    assert_eq!(report.load.scheduled_rate, Some(100.0));
    assert_eq!(report.load.achieved_rate, Some(90.0));
    assert_eq!(report.exit_code(), 3);

    made.run.submitted_in_window = 1_000;
    made.run.never_sent = 50;
    let report = build(&made);
    assert_eq!(codes(&report), [Code::Rate, Code::NeverSent]);
    assert_eq!(report.load.scheduled_rate, Some(105.0));
}

#[test]
fn a_counted_run_holds_as_many_gaps_as_arrivals() {
    for (pattern, millis) in [(Pattern::Constant, 10_000), (Pattern::Poisson, 10_010)] {
        let mut load = samples::open(100.0, None);
        if let Load::Open { schedule, .. } = &mut load {
            schedule.stages[0].pattern = pattern;
        }
        let mut made = samples::make(&Recipe {
            load,
            ..Recipe::default()
        });
        made.plan.stop.duration = None;
        made.plan.stop.requests_max = Some(1_000);
        made.run.window_end = START + Nanos::from_millis(millis);
        let load = build(&made).load;
        assert_eq!(
            (load.scheduled_rate, load.achieved_rate),
            (Some(100.0), Some(100.0)),
            "{pattern:?}"
        );
    }
}

#[test]
fn the_rate_of_stages_is_their_mean_over_the_run() {
    let stage = |rate_per_s, secs: Option<u64>| Stage {
        rate_per_s,
        pattern: Pattern::Constant,
        duration: secs.map(Nanos::from_secs),
    };
    let mut plan = samples::plan(&Recipe::default());
    let spec = ScheduleSpec {
        stages: vec![stage(10.0, Some(5)), stage(30.0, None)],
        seed: 0,
    };
    assert_eq!(requested_rate(&spec, &plan), Some(20.0), "10 s");
    plan.stop.requests_max = Some(50);
    assert_eq!(requested_rate(&spec, &plan), Some(10.0), "the first stage");
    plan.stop.duration = None;
    plan.stop.requests_max = Some(200);
    assert_eq!(requested_rate(&spec, &plan), Some(20.0), "10 s by count");
    plan.stop.requests_max = None;
    assert_eq!(requested_rate(&spec, &plan), None, "no end");
}

#[test]
fn each_stage_has_figures_and_a_verdict() {
    let stage = |rate_per_s, secs| Stage {
        rate_per_s,
        pattern: Pattern::Constant,
        duration: Some(Nanos::from_secs(secs)),
    };
    // The third never begins: the run is over.
    let schedule = ScheduleSpec {
        stages: vec![stage(100.0, 4), stage(200.0, 6), stage(50.0, 5)],
        seed: 0,
    };
    let made = samples::make(&Recipe {
        load: Load::Open {
            schedule,
            concurrency_cap: None,
        },
        lag: Nanos::from_millis(30),
        ..Recipe::default()
    });
    let report = build(&made);
    let stages = &report.stages;
    assert_eq!(stages.len(), 2);
    let of = |of: fn(&StageFigures) -> u64| stages.iter().map(of).sum::<u64>();
    assert_eq!(of(|stage| stage.issued), report.load.issued);
    assert_eq!(of(|stage| stage.completed), report.load.completed);
    assert_eq!(
        (stages[1].begin_ns, stages[1].duration_ns),
        (4_000_000_000, 6_000_000_000)
    );
    // 9 ms apart: in the first 4 s are 445.
    assert_eq!((stages[0].issued, stages[0].requested_rate), (445, 100.0));
    for stage in stages {
        assert_eq!(stage.verdict.status, Status::Invalid);
        assert_eq!(stage.verdict.limited_by, LimitedBy::Client);
    }
    let json = serde_json::to_value(&report).unwrap();
    let keys: BTreeSet<&str> = json["stages"][0]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let expected = "requested_rate achieved_rate begin_ns duration_ns issued completed failed cancelled \
                    never_sent schedule_lag_ns ttft_ns latency_ns harness_delay_ns latency_growth verdict";
    assert_eq!(keys, expected.split_whitespace().collect());
    let page = crate::console::render(&report, 80, false);
    let row = page.lines().find(|line| line.starts_with("  2 "));
    assert!(
        row.is_some_and(|row| row.ends_with("invalid, client")),
        "{page}"
    );
    assert!(
        page.lines().all(|line| line.chars().count() <= 80),
        "{page}"
    );
}

#[test]
fn records_that_were_lost_degrade_and_their_errors_are_told() {
    let mut made = samples::make(&Recipe::default());
    made.run.records_dropped = 2;
    let written = Written {
        records: 900,
        lost: 98,
        error: Some(RecordsError::Thread(io::Error::other("no room"))),
        error_examples: BTreeMap::from([(ErrorKind::InBand, "overloaded".to_owned())]),
        ..Written::default()
    };
    let context = Context {
        written: Some(&written),
        ..samples::context(&made.plan)
    };
    let report = Report::build(&made.run, &context);
    assert_eq!(codes(&report), [Code::Records]);
    assert_eq!(report.harness.records_dropped, 100);
    let records = report.harness.records.unwrap();
    assert_eq!(records.written, 900);
    assert!(records.error.unwrap().contains("no room"));
    assert_eq!(report.error_examples["in_band"], "overloaded");
}

#[test]
fn what_ran_out_and_a_shared_core_are_reasons() {
    let mut made = samples::make(&Recipe::default());
    made.run.exhausted.ports = true;
    made.run.exhausted.buffers = true;
    // Armed again at once: counted, and no reason.
    made.run.shards[0].counters.out_of_buffers = 7;
    made.run.shards[0].busy_fraction = 0.95;
    made.run.shards[0].pace.stall_max = Nanos::from_millis(6);
    let context = Context {
        shared_core: true,
        ..samples::context(&made.plan)
    };
    let report = Report::build(&made.run, &context);
    let expected = [Code::Busy, Code::Stall, Code::Resources, Code::SharedCore];
    assert_eq!(codes(&report), expected);
    assert_eq!(report.verdict.reasons[2].value, 2.0);
}

#[test]
fn shards_that_share_a_core_are_busy_together() {
    let codes = |cores: [Option<usize>; 3]| {
        let mut made = samples::make(&Recipe::default());
        let shard = made.run.shards[0];
        let on = |core| ShardReport {
            core,
            busy_fraction: 0.4,
            ..shard
        };
        made.run.shards = cores.map(on).to_vec();
        codes(&Report::build(&made.run, &samples::context(&made.plan)))
    };
    assert_eq!(codes([Some(1); 3]), [Code::Busy]);
    assert!(codes([Some(1), Some(2), Some(3)]).is_empty());
    assert!(codes([None; 3]).is_empty());
}

#[test]
fn exit_codes_follow_what_was_found() {
    let code = |recipe: &Recipe| samples::report(recipe).exit_code();
    assert_eq!(code(&Recipe::default()), 0);
    let slos = Recipe {
        slos: "ttft:p90=1ms",
        ..Recipe::default()
    };
    assert_eq!(code(&slos), 5);
    let failed = Recipe {
        failures: 1_000,
        ..slos
    };
    assert_eq!(code(&failed), 4);
    let mut made = samples::make(&failed);
    made.run.interrupted = true;
    assert_eq!(build(&made).exit_code(), 130);
}

#[test]
fn a_counted_run_without_success_still_has_a_length() {
    let mut made = samples::make(&Recipe {
        requests: 0,
        ..Recipe::default()
    });
    made.run.collector = Collector::new(&[]);
    made.run.collector.begin(START, 16);
    made.run.collector.stop(START, Stopped::Requests);
    made.run.last_done = START + Nanos::from_secs(3);
    let report = build(&made);
    assert_eq!(report.load.duration_ns, 9_000_000_000);
    assert_eq!(report.throughput.requests_per_s, 0.0);
    assert_eq!(report.load.achieved_rate, Some(0.0));
}

#[test]
fn only_percentiles_that_are_printed_of_the_endpoint_are_judged() {
    let judged = |slos| {
        let recipe = Recipe {
            slos,
            requests: 700,
            ..Recipe::default()
        };
        let made = samples::make(&recipe);
        let report = build(&made);
        // Connections are few, and marked in the table.
        assert!(report.connect_ns.unwrap().count < 662);
        below_floor(&made.run.collector, &made.plan, &report.shown())
    };
    assert_eq!(judged(""), []);
    let below = judged("ttft:p99.9=1s,ttft:p99.9=2s,tpot:p50=1s");
    assert_eq!(below.len(), 1);
    assert_eq!((below[0].metric, below[0].samples), (Metric::Ttft, 700));
}

#[test]
fn tokens_per_event_need_a_count_of_tokens() {
    let report = samples::report(&Recipe {
        tokens_per_event: 3,
        ..Recipe::default()
    });
    assert_eq!(report.tokens.per_event, Some(3.0));
    assert_eq!(report.tokens.content_events, 20_000);
    assert_eq!(report.harness.events_per_read, Some(2.0));
    let nothing = samples::report(&Recipe {
        requests: 0,
        ..Recipe::default()
    });
    assert_eq!(nothing.tokens.per_event, None);
    assert_eq!(nothing.harness.cpu_ns_per_request, None);
}

#[test]
fn workers_have_figures_of_their_own_and_a_lost_one_makes_the_run_invalid() {
    let made = samples::make(&Recipe::default());
    let worker = |name: &str, host: &str| WorkerFigures {
        name: name.to_owned(),
        host: Some(host.to_owned()),
        pid: Some(1),
        driver: "io_uring".to_owned(),
        first_shard: 0,
        shards: 1,
        status: WorkerStatus::Finished,
        why: None,
        ended_ns: 3_200_000_000,
        same_clock: true,
        clock_offset_ns: Some(0),
        clock_error_ns: Some(0),
        clock_drift_ns: None,
        issued: 70,
        completed: 69,
        failed: 0,
        content_events: 5,
        records: None,
    };
    let mut context = samples::context(&made.plan);
    context.workers = vec![worker("tcp://a:1", "h1"), worker("tcp://b:1", "h2")];
    let sound = Report::build(&made.run, &context);
    assert_eq!(sound.harness.workers, context.workers);
    let of_workers = |report: &Report| {
        let mut reasons = report.verdict.reasons.iter();
        reasons.find(|r| r.code == Code::Workers).cloned()
    };
    assert_eq!(of_workers(&sound), None);
    for (status, part) in [
        (
            WorkerStatus::Lost,
            "the worker tcp://b:1 on h2 was lost after 3.20 s: killed; the 70 requests",
        ),
        (
            WorkerStatus::Left,
            "the worker tcp://b:1 on h2 left before the end, after 3.20 s: killed",
        ),
    ] {
        context.workers[1].status = status;
        context.workers[1].why = Some("killed".to_owned());
        let report = Report::build(&made.run, &context);
        let reason = of_workers(&report).unwrap();
        assert!(reason.message.contains(part), "{reason:?}");
        assert_eq!((reason.value, reason.limit), (1.0, 0.0));
        assert_eq!(report.verdict.status, Status::Invalid);
        assert_eq!(report.exit_code, 3);
    }
}

#[test]
fn one_core_of_two_hosts_is_two_cores() {
    let mut made = samples::make(&Recipe::default());
    let mut other = made.run.shards[0];
    made.run.shards[0].busy_fraction = 0.6;
    (other.worker, other.busy_fraction) = (1, 0.6);
    made.run.shards.push(other);
    let busy = |hosts: &[&str]| {
        let workers: Vec<WorkerFigures> = hosts
            .iter()
            .map(|host| WorkerFigures {
                host: Some((*host).to_owned()),
                name: String::new(),
                pid: None,
                driver: String::new(),
                first_shard: 0,
                shards: 1,
                status: WorkerStatus::Finished,
                why: None,
                ended_ns: 0,
                same_clock: true,
                clock_offset_ns: None,
                clock_error_ns: None,
                clock_drift_ns: None,
                issued: 0,
                completed: 0,
                failed: 0,
                content_events: 0,
                records: None,
            })
            .collect();
        busy_fraction(&made.run.shards[0], &made.run.shards, &workers)
    };
    assert_eq!((busy(&["a", "b"]), busy(&["a", "a"])), (0.6, 1.0));
}
