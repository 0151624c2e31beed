use std::collections::BTreeMap;

use ridgeline_clock::Nanos;
use ridgeline_engine::Load;

use super::*;
use crate::samples::{self, Recipe};

/// Reports of every kind.
fn reports() -> Vec<Report> {
    let mut fast = samples::report(&Recipe {
        load: samples::open(30.0, None),
        requests: 300,
        lag: Nanos::from_millis(700),
        ..Recipe::default()
    });
    fast.latency_ns = fast.latency_ns.map(|mut summary| {
        (summary.p50, summary.max) = (150_000, Nanos::from_secs(600).0);
        summary
    });
    let mut hostile = samples::report(&Recipe {
        load: samples::open(30.0, Some(64)),
        requests: 300,
        failures: 12,
        slos: "ttft:p90=22ms,latency=1s",
        tokens_per_event: 3,
        lag: Nanos::from_millis(3),
        reasoning: true,
        ..Recipe::default()
    });
    let text = format!("a\u{1b}[2Jb\n{} \u{202e}漢字", "x".repeat(300));
    hostile.error_examples = BTreeMap::from([("timeout".to_owned(), text.clone())]);
    hostile.finish_reasons.insert(text.clone(), 3);
    hostile.target.model = text.clone();
    hostile.folder = Some(text.into());
    vec![
        samples::report(&Recipe::default()),
        fast,
        hostile,
        samples::report(&Recipe {
            load: Load::Offline { concurrency: 4096 },
            streaming: false,
            ..Recipe::default()
        }),
        samples::report(&Recipe {
            failures: 1_000,
            ..Recipe::default()
        }),
        samples::report(&Recipe {
            requests: 0,
            ..Recipe::default()
        }),
    ]
}

#[test]
fn every_page_fits_its_width_and_is_dense() {
    for report in reports() {
        for width in [20, 80, 97, 120, 300] {
            let page = render(&report, width, false);
            for line in page.lines() {
                assert!(columns(line) <= width.clamp(80, 120), "{line}");
                assert!(!line.ends_with(' '), "{line:?}");
            }
            assert!(page.ends_with('\n') && !page.contains("\n\n\n"));
            assert!(page.chars().all(|c| c == '\n' || !c.is_control()));
        }
    }
}

fn page(recipe: &Recipe) -> String {
    render(&samples::report(recipe), 80, false)
}

/// The cells of a row, without its unit.
fn cells(page: &str, name: &str) -> Vec<String> {
    let row = page.lines().find(|line| line.starts_with(name)).unwrap();
    let cells: Vec<&str> = row[24..].split_whitespace().collect();
    cells.into_iter().map(str::to_owned).collect()
}

#[test]
fn the_page_of_a_plain_run_reads_like_this() {
    let expected = "\
VALID: limited by the server

Endpoint    http://127.0.0.1:8000/v1/chat/completions, model mock, streamed
Load        closed loop of 16 in flight, 16.0 effective; 10.0 s
            Little's law: 16.0 in flight, X R = 100.0/s x 118 ms = 11.8
Requests    1,000 issued: 1,000 ok, 0 failed, 0 cancelled

Metric                       avg     min     max     p99     p90     p50     std
TTFT                  ms   22.04   20.00   24.00   23.95   23.64   22.12    1.17
Latency               ms  117.81  115.00  120.52  120.46  120.06  117.96    1.62
ITL (per token)       ms    5.04    5.00    5.08    5.08    5.07    5.05    0.02
TPOT                  ms    5.04    5.00    5.08    5.08    5.07    5.05    0.02
Connect               us   64.08   45.01   84.53  ~84.53  ~75.90   65.44   11.93
Schedule lag          us   20.00   20.00   20.00   20.00   20.00   20.00    0.00
Harness delay         us    3.54    1.50    5.50    5.45    5.14    3.61    1.17
~ too few samples: p90 needs 64, p99 needs 662

Throughput  100.0 requests/s, 2,000 output tokens/s, 2,000 events/s, 500.0 kB/s
Tokens      128,000 in (128.0 each), 20,000 out (20.0 each), counted by server
            usage
Finished by 881 length, 119 stop
Client      uring, core 1 busy 3.40 %, longest stall 310 us, 12 carry copies
            CPU 340 us a request, 17.0 us an event, 2.00 events a read
  ! 16.0 requests were in flight and not X R = 11.8 (Little's law): for much of
    the run the load was not in a steady state, and a longer one would say more
";
    assert_eq!(page(&Recipe::default()), expected);
}

#[test]
fn the_machine_and_the_cause_of_a_stall_are_said() {
    let mut report = samples::report(&Recipe::default());
    let core = |core, has_shard| ridgeline_telemetry::CoreFigures {
        core,
        has_shard,
        foreign_busy_share: 0.021,
        ..Default::default()
    };
    report.harness.machine = Some(ridgeline_telemetry::MachineFigures {
        steal_share: Some(0.004),
        cores: vec![core(0, false), core(1, true)],
        throttled_ns: Some(0),
        ..Default::default()
    });
    let mut stall = StallFigures {
        end_ns: 1,
        length_ns: 310_000,
        cause: Cause::Scheduler,
        words: "its thread waited".to_owned(),
    };
    report.harness.shards[0].stall = Some(stall.clone());
    let page = render(&report, 120, false);
    let line = "Machine     steal 0.40 %, others on core 1 2.10 %, throttled 0 s, no frequency governor to be \
                seen\n";
    assert!(page.contains(line), "{page}");
    assert!(
        page.contains("longest stall 310 us (its thread waited)"),
        "{page}"
    );
    stall.cause = Cause::Unknown;
    report.harness.shards[0].stall = Some(stall);
    assert!(render(&report, 120, false).contains("longest stall 310 us, "));
}

#[test]
fn colours_change_nothing_but_colours() {
    for report in reports() {
        let (plain, painted) = (render(&report, 80, false), render(&report, 80, true));
        let mut stripped = String::new();
        for (place, part) in painted.split('\u{1b}').enumerate() {
            let text = if place == 0 {
                part
            } else {
                part.split_once('m').unwrap().1
            };
            stripped.push_str(text);
        }
        assert_eq!(stripped, plain);
        assert_ne!(painted, plain);
    }
}

#[test]
fn what_makes_no_sense_is_not_available() {
    let page = page(&Recipe {
        streaming: false,
        ..Recipe::default()
    });
    assert_eq!(cells(&page, "TTFT"), ["N/A"; 7]);
    assert_eq!(cells(&page, "TPOT"), ["N/A"; 7]);
    assert_eq!(cells(&page, "Latency").len(), 7);
    assert!(!page.contains("events/s") && !page.contains("TTFO"));
}

#[test]
fn percentiles_with_too_few_samples_are_marked_and_judged() {
    let page = page(&Recipe {
        requests: 300,
        ..Recipe::default()
    });
    let cells = cells(&page, "TTFT");
    assert!(cells[3].starts_with(table::MARK) && !cells[4].starts_with(table::MARK));
    assert!(page.starts_with("DEGRADED") && page.contains("too few samples stand behind ttft p99"));
    assert!(page.contains("~ too few samples: p50 needs 11, p90 needs 64, p99 needs 662"));
}

#[test]
fn rows_that_would_say_the_same_are_left_out() {
    let plain = page(&Recipe::default());
    assert!(!plain.contains("TTFO") && !plain.contains("ICL") && !plain.contains("from schedule"));
    let full = page(&Recipe {
        load: samples::open(100.0, None),
        reasoning: true,
        ..Recipe::default()
    });
    assert!(full.contains("TTFO") && full.contains("TTFT from schedule"));
}

#[test]
fn several_tokens_an_event_are_said() {
    let page = page(&Recipe {
        tokens_per_event: 3,
        ..Recipe::default()
    });
    assert!(page.contains("3.00 tokens an event"));
    assert!(page.contains("ITL (per event)") && !page.contains("ITL (per token)"));
}

#[test]
fn the_headline_says_how_it_ended() {
    let mut report = samples::report(&Recipe {
        slos: "ttft:p90=1ms",
        ..Recipe::default()
    });
    assert_eq!(
        headline(&report, false),
        "VALID: limited by the server; an SLO was missed"
    );
    report.interrupted = true;
    let headline = headline(&report, false);
    assert_eq!(
        headline,
        "VALID: limited by the server; interrupted: a partial report"
    );
}

#[test]
fn reasons_in_a_row_with_one_remedy_say_it_once() {
    let page = page(&Recipe {
        load: samples::open(100.0, None),
        lag: Nanos::from_millis(700),
        ..Recipe::default()
    });
    let (reasons, _) = page.split_once("\n\n").unwrap();
    assert_eq!(reasons.matches("\n  x ").count(), 2, "{reasons}");
    assert_eq!(reasons.matches("    give the client more cores").count(), 1);
}

#[test]
fn errors_have_an_example_and_records_speak_only_of_trouble() {
    let mut report = samples::report(&Recipe {
        failures: 20,
        ..Recipe::default()
    });
    report
        .error_examples
        .insert("timeout".to_owned(), "it took too long".to_owned());
    report.harness.records = Some(crate::RecordFigures {
        written: 7,
        ..Default::default()
    });
    let page = render(&report, 80, false);
    assert!(page.contains(" timeout: it took too long\n") && page.contains(" http_status\n"));
    assert!(!page.contains("Records"));
    report.harness.records_dropped = 3;
    assert!(render(&report, 80, false).contains("Records     7 written, 3 dropped\n"));
}

#[test]
fn headroom_is_said_where_the_machine_is_known() {
    let mut report = samples::report(&Recipe::default());
    assert!(!render(&report, 80, false).contains("Headroom"));
    let mut headroom = crate::Headroom {
        share: 0.12,
        of: "paced events/s".to_owned(),
        value: 49_440.0,
        ceiling: 412_000.0,
        profile: crate::Program::default(),
        measured_unix_ns: 0,
        reservations: Vec::new(),
    };
    report.harness.headroom = Some(headroom.clone());
    assert!(render(&report, 120, false).contains(
        "Headroom    this run used 12.0 % of this machine's client ceiling (paced events/s)\n"
    ));
    headroom.reservations = vec!["on Linux 6.1".to_owned()];
    report.harness.headroom = Some(headroom);
    let page = render(&report, 120, false);
    assert!(
        page.contains("; the ceiling was measured on Linux"),
        "{page}"
    );
}
