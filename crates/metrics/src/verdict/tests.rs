use ridgeline_clock::Nanos;

use super::*;
use crate::{
    Arrived, Collector, Counts, Fate, Finished, GapLog, GapPool, Metric, Percentile, Phase,
    Stopped, Timeline,
};

const MS: u64 = 1_000_000;

/// A run with nothing to find fault with.
fn sound(load: Load) -> Evidence {
    let ms = Nanos::from_millis;
    Evidence {
        load,
        streamed: true,
        duration: Nanos::from_secs(10),
        counts: Counts {
            issued: 1_000,
            completed: 1_000,
            ..Counts::default()
        },
        arrived: Arrived {
            scheduled: 1_000,
            submitted: 1_000,
            never_sent: 0,
        },
        lag_median: Some(Nanos(10_000)),
        lag_p99: Some(Nanos(100_000)),
        lag_late_share: 0.0,
        response_median: Some(ms(100)),
        itl_typical: Some(ms(10)),
        harness_delay_p99: Some(Nanos(20_000)),
        stamp_width_p99: Some(Nanos(0)),
        send_p99: Some(Nanos(30_000)),
        latency_growth: None,
        concurrency_asked: 100,
        concurrency_effective: 99.9,
        cap_waited: 0,
        unsent_failures: 0,
        shards: vec![ShardLoad {
            core: Some(1),
            busy_fraction: 0.5,
            longest_stall: ms(1),
            stall_cause: None,
        }],
        exhausted: vec![],
        window_stalls: 0,
        shared_core: false,
        workers_short: vec![],
        records_dropped: 0,
        below_floor: vec![],
    }
}

const TIMED: Load = Load::Timed { cap: None };
const CAPPED: Load = Load::Timed { cap: Some(64) };

fn codes(evidence: &Evidence) -> Vec<(Code, Status)> {
    let verdict = judge(evidence, &VerdictLimits::default());
    verdict
        .reasons
        .iter()
        .map(|reason| (reason.code, reason.status))
        .collect()
}

/// Each row of the table: the load it applies to, what it says, and a change that stays at its limit
/// and one that passes it.
struct Case {
    load: Load,
    found: (Code, Status),
    set: fn(&mut Evidence, bool),
}

fn case(load: Load, code: Code, status: Status, set: fn(&mut Evidence, bool)) -> Case {
    Case {
        load,
        found: (code, status),
        set,
    }
}

fn cases() -> Vec<Case> {
    [load_cases(), client_cases(), outcome_cases()]
        .into_iter()
        .flatten()
        .collect()
}

fn load_cases() -> Vec<Case> {
    use Code::{Capped, Concurrency, LagMedian, LagP99, LagShare, NeverSent, Rate};
    use Load::{Closed, Offline};
    use Status::{Degraded, Invalid};
    vec![
        // 0.5 % of 1,000 is 5.
        case(TIMED, Rate, Invalid, |e, past| {
            e.arrived.submitted = 995 - u64::from(past)
        }),
        // 2 requests where 0.5 % are fewer.
        case(TIMED, Rate, Invalid, |e, past| {
            e.arrived.scheduled = 200;
            e.arrived.submitted = 198 - u64::from(past);
        }),
        case(TIMED, LagMedian, Invalid, |e, past| {
            e.lag_p99 = Some(Nanos(5 * MS));
            e.lag_median = Some(Nanos(10 * MS + u64::from(past)));
        }),
        case(TIMED, LagShare, Invalid, |e, past| {
            e.lag_late_share = if past { 0.050_001 } else { 0.05 };
        }),
        // 5 % of a TTFT of 100 ms, then the floor of 1 ms.
        case(TIMED, LagP99, Degraded, |e, past| {
            e.lag_p99 = Some(Nanos(5 * MS + u64::from(past)));
        }),
        case(TIMED, LagP99, Degraded, |e, past| {
            e.response_median = Some(Nanos(2 * MS));
            e.lag_p99 = Some(Nanos(MS + u64::from(past)));
        }),
        case(TIMED, NeverSent, Invalid, |e, past| {
            e.arrived.never_sent = u64::from(past)
        }),
        case(Closed, NeverSent, Invalid, |e, past| {
            e.arrived.never_sent = u64::from(past)
        }),
        case(Closed, Concurrency, Invalid, |e, past| {
            e.concurrency_effective = if past { 94.999 } else { 95.0 };
        }),
        case(Offline, Concurrency, Invalid, |e, past| {
            e.concurrency_effective = if past { 94.999 } else { 95.0 };
        }),
        case(CAPPED, Capped, Degraded, |e, past| {
            e.cap_waited = 10 + u64::from(past)
        }),
    ]
}

fn client_cases() -> Vec<Case> {
    use Code::{Busy, HarnessDelay, Resources, Send, SharedCore, Stall, Windows, Workers};
    use Load::{Closed, Offline};
    use Status::{Degraded, Invalid};
    vec![
        // 5 % of an ITL of 10 ms, then of a TTFT of 4 ms.
        case(Closed, HarnessDelay, Degraded, |e, past| {
            e.harness_delay_p99 = Some(Nanos(MS / 2 + u64::from(past)));
        }),
        case(Closed, HarnessDelay, Degraded, |e, past| {
            e.stamp_width_p99 = Some(Nanos(MS / 2 + u64::from(past)));
        }),
        case(Closed, HarnessDelay, Degraded, |e, past| {
            e.response_median = Some(Nanos(4 * MS));
            e.harness_delay_p99 = Some(Nanos(MS / 5 + u64::from(past)));
        }),
        // 5 % of a TTFT of 100 ms, then the floor of 1 ms.
        case(Closed, Send, Degraded, |e, past| {
            e.send_p99 = Some(Nanos(5 * MS + u64::from(past)));
        }),
        case(TIMED, Send, Degraded, |e, past| {
            (e.streamed, e.response_median) = (false, Some(Nanos(MS / 10)));
            (e.lag_p99, e.itl_typical) = (None, None);
            e.send_p99 = Some(Nanos(MS + u64::from(past)));
        }),
        case(Closed, Busy, Degraded, |e, past| {
            e.shards[0].busy_fraction = if past { 0.900_1 } else { 0.9 };
        }),
        case(Offline, Stall, Degraded, |e, past| {
            e.shards[0].longest_stall = Nanos(5 * MS + u64::from(past));
        }),
        case(Closed, Resources, Invalid, |e, past| {
            e.exhausted = vec![Exhausted {
                resource: Resource::Ports,
                times: u64::from(past),
            }];
        }),
        case(Closed, Windows, Degraded, |e, past| {
            e.window_stalls = u64::from(past);
        }),
        case(Closed, SharedCore, Degraded, |e, past| e.shared_core = past),
        case(TIMED, Workers, Invalid, |e, past| {
            e.workers_short = vec!["the worker b was lost after 3 s".to_owned(); usize::from(past)];
        }),
    ]
}

fn outcome_cases() -> Vec<Case> {
    use Code::{Censored, Errors, Records, Samples};
    use Load::Closed;
    use Status::Degraded;
    vec![
        case(Closed, Errors, Degraded, |e, past| {
            e.counts.failed = 10 + u64::from(past);
            e.counts.completed = 1_000 - e.counts.failed;
        }),
        case(Closed, Censored, Degraded, |e, past| {
            e.counts.cancelled = u64::from(past)
        }),
        case(TIMED, Records, Degraded, |e, past| {
            e.records_dropped = u64::from(past)
        }),
        case(Closed, Samples, Degraded, |e, past| {
            e.duration = Nanos(1_000 * MS - u64::from(past))
        }),
        case(Closed, Samples, Degraded, |e, past| {
            e.counts.issued = 100 - u64::from(past);
            e.arrived.scheduled = 0;
        }),
        case(Closed, Samples, Degraded, |e, past| {
            let (metric, percentile) = (Metric::Ttft, Percentile::P99);
            let below = BelowFloor {
                metric,
                percentile,
                samples: 661,
            };
            e.below_floor = if past { vec![below] } else { vec![] };
        }),
    ]
}

#[test]
fn each_row_speaks_beyond_its_limit_and_not_at_it() {
    for (number, case) in cases().iter().enumerate() {
        let mut evidence = sound(case.load);
        (case.set)(&mut evidence, false);
        assert_eq!(
            codes(&evidence),
            [],
            "row {number}, {:?}, at its limit",
            case.found.0
        );
        (case.set)(&mut evidence, true);
        assert_eq!(
            codes(&evidence),
            [case.found],
            "row {number}, beyond its limit"
        );
    }
}

#[test]
fn each_reason_has_numbers_and_a_remedy() {
    for case in cases() {
        let mut evidence = sound(case.load);
        (case.set)(&mut evidence, true);
        let verdict = judge(&evidence, &VerdictLimits::default());
        let reason = &verdict.reasons[0];
        assert!(
            reason.message.len() > 20 && reason.remedy.len() > 20,
            "{reason:?}"
        );
        let below = [Code::Rate, Code::Concurrency, Code::Samples].contains(&reason.code);
        let passed = if below {
            reason.value < reason.limit
        } else {
            reason.value > reason.limit
        };
        assert!(passed, "{reason:?}");
        assert_eq!(verdict.status, case.found.1);
    }
}

#[test]
fn rows_keep_to_their_kind_of_load() {
    let mut evidence = sound(Load::Closed);
    evidence.arrived.submitted = 1;
    evidence.lag_median = Some(Nanos::from_secs(1));
    evidence.lag_p99 = Some(Nanos::from_secs(1));
    evidence.lag_late_share = 1.0;
    evidence.cap_waited = 500;
    assert_eq!(codes(&evidence), []);

    let mut evidence = sound(TIMED);
    evidence.concurrency_effective = 1.0;
    evidence.cap_waited = 500;
    assert_eq!(codes(&evidence), []);

    let mut evidence = sound(TIMED);
    evidence.streamed = false;
    evidence.harness_delay_p99 = Some(Nanos::from_secs(1));
    assert_eq!(codes(&evidence), []);
}

#[test]
fn short_runs_are_not_judged_for_rate_lag_and_concurrency() {
    for shorten in [
        (|e| e.duration = Nanos(999 * MS)) as fn(&mut Evidence),
        |e| (e.counts.issued, e.arrived.scheduled) = (99, 99),
    ] {
        for load in [TIMED, Load::Closed] {
            let mut evidence = sound(load);
            evidence.arrived.submitted = 1;
            evidence.lag_median = Some(Nanos::from_secs(1));
            evidence.lag_p99 = Some(Nanos::from_secs(1));
            evidence.lag_late_share = 1.0;
            evidence.concurrency_effective = 1.0;
            shorten(&mut evidence);
            assert_eq!(codes(&evidence), [(Code::Samples, Status::Degraded)]);
            let verdict = judge(&evidence, &VerdictLimits::default());
            assert_eq!(verdict.limited_by, LimitedBy::None);
            evidence.arrived.never_sent = 1;
            let verdict = judge(&evidence, &VerdictLimits::default());
            assert_eq!(
                verdict.status,
                Status::Invalid,
                "what was not sent counts in any run"
            );
        }
    }
}

#[test]
fn what_limited_a_run_is_named() {
    let limited = |load, change: fn(&mut Evidence)| {
        let mut evidence = sound(load);
        change(&mut evidence);
        judge(&evidence, &VerdictLimits::default()).limited_by
    };
    assert_eq!(limited(TIMED, |_| ()), LimitedBy::Load);
    assert_eq!(limited(Load::Closed, |_| ()), LimitedBy::Server);
    assert_eq!(limited(Load::Offline, |_| ()), LimitedBy::Server);
    assert_eq!(
        limited(TIMED, |e| e.arrived.submitted = 1),
        LimitedBy::Client
    );
    assert_eq!(
        limited(Load::Closed, |e| e.shards[0].busy_fraction = 0.99),
        LimitedBy::Client
    );
    assert_eq!(
        limited(TIMED, |e| e.counts.cancelled = 9),
        LimitedBy::Server
    );
    // A slow server under a cap shows as lag, too: that is not the client's doing.
    let capped: fn(&mut Evidence) = |e| {
        (e.cap_waited, e.arrived.never_sent) = (500, 400);
        e.lag_median = Some(Nanos::from_secs(1));
    };
    assert_eq!(limited(CAPPED, capped), LimitedBy::Server);
    assert_eq!(
        limited(CAPPED, |e| {
            e.cap_waited = 500;
            e.shards[0].busy_fraction = 0.99;
        }),
        LimitedBy::Client
    );
}

#[test]
fn a_server_that_falls_behind_limits_a_rate() {
    let grown = |last_ns, explained| {
        let growth = Some(crate::Growth {
            first_ns: 1e8,
            last_ns,
            explained,
        });
        move |e: &mut Evidence| e.latency_growth = growth
    };
    let limited = |load, change: &dyn Fn(&mut Evidence)| {
        let mut evidence = sound(load);
        change(&mut evidence);
        let verdict = judge(&evidence, &VerdictLimits::default());
        (verdict.status, verdict.limited_by)
    };
    let (valid, degraded) = (Status::Valid, Status::Degraded);
    assert_eq!(limited(TIMED, &grown(1.4e8, 1.0)), (valid, LimitedBy::Load));
    assert_eq!(
        limited(TIMED, &grown(1.6e8, 0.9)),
        (valid, LimitedBy::Server)
    );
    assert_eq!(limited(TIMED, &grown(1.6e8, 0.4)), (valid, LimitedBy::Load));
    // A client that is at its own limit is not to blame the server.
    let busy = |e: &mut Evidence| {
        grown(9e8, 1.0)(e);
        e.shards[0].busy_fraction = 0.99;
    };
    assert_eq!(limited(TIMED, &busy), (degraded, LimitedBy::Client));
    // One that stood still for a moment is, if latency grew by no more than ten times that.
    let stalled = |last_ns| {
        move |e: &mut Evidence| {
            grown(last_ns, 1.0)(e);
            e.shards[0].longest_stall = Nanos(8 * MS);
            e.lag_p99 = Some(Nanos(2 * MS));
        }
    };
    let outgrown = (degraded, LimitedBy::Server);
    assert_eq!(limited(TIMED, &stalled(1.81e8)), outgrown);
    let as_long = (degraded, LimitedBy::Client);
    assert_eq!(limited(TIMED, &stalled(1.79e8)), as_long);
}

#[test]
fn a_server_that_takes_no_connections_is_what_limits() {
    for load in [TIMED, Load::Closed] {
        let mut evidence = sound(load);
        evidence.counts = Counts {
            issued: 1_000,
            completed: 400,
            failed: 600,
            ..Counts::default()
        };
        (evidence.arrived.submitted, evidence.concurrency_effective) = (400, 40.0);
        let verdict = judge(&evidence, &VerdictLimits::default());
        assert_eq!(verdict.limited_by, LimitedBy::Client, "they failed later");
        evidence.unsent_failures = 600;
        let verdict = judge(&evidence, &VerdictLimits::default());
        assert_eq!(
            (verdict.status, verdict.limited_by),
            (Status::Invalid, LimitedBy::Server)
        );
        let remedy = &verdict.reasons[0].remedy;
        assert!(remedy.contains("did not take the connections"), "{remedy}");
        evidence.shards[0].busy_fraction = 0.99;
        let verdict = judge(&evidence, &VerdictLimits::default());
        assert_eq!(
            verdict.limited_by,
            LimitedBy::Client,
            "at a limit of its own"
        );
    }
}

#[test]
fn a_moment_of_a_short_run_limits_nothing() {
    let mut evidence = sound(Load::Closed);
    evidence.counts.issued = 20;
    evidence.arrived.scheduled = 0;
    evidence.shards[0].longest_stall = Nanos(50 * MS);
    evidence.harness_delay_p99 = Some(Nanos(50 * MS));
    let verdict = judge(&evidence, &VerdictLimits::default());
    assert_eq!(verdict.limited_by, LimitedBy::None);
    evidence.shards[0].busy_fraction = 0.99;
    let verdict = judge(&evidence, &VerdictLimits::default());
    assert_eq!(verdict.limited_by, LimitedBy::Client);
}

#[test]
fn nothing_limits_a_run_of_nothing() {
    let mut evidence = sound(Load::Closed);
    evidence.counts = Counts::default();
    evidence.arrived = Arrived::default();
    evidence.shards[0].busy_fraction = 1.0;
    let limited = |evidence: &Evidence| judge(evidence, &VerdictLimits::default()).limited_by;
    assert_eq!(limited(&evidence), LimitedBy::None);
    evidence.exhausted.push(Exhausted {
        resource: Resource::Ports,
        times: 1,
    });
    assert_eq!(limited(&evidence), LimitedBy::Client);
}

#[test]
fn an_idle_client_is_not_told_to_take_more_cores() {
    let mut evidence = sound(Load::Closed);
    evidence.harness_delay_p99 = Some(Nanos(50 * MS));
    let remedy = |evidence: &Evidence| {
        let verdict = judge(evidence, &VerdictLimits::default());
        verdict.reasons[0].remedy.clone()
    };
    assert!(remedy(&evidence).starts_with("give the client more cores"));
    evidence.shards[0].busy_fraction = 0.03;
    assert!(remedy(&evidence).starts_with("something else ran on its core"));
}

#[test]
fn a_stall_whose_cause_is_known_is_said_with_it() {
    let mut evidence = sound(Load::Closed);
    evidence.shards[0].longest_stall = Nanos(71 * MS);
    let reason = |evidence: &Evidence| {
        let verdict = judge(evidence, &VerdictLimits::default());
        verdict.reasons[0].clone()
    };
    let unknown = reason(&evidence);
    assert_eq!(
        unknown.message,
        "the shard on core 1 stood still for 71.0 ms"
    );
    assert!(unknown.remedy.starts_with("something else ran on its core"));
    let mut cause = StallCause {
        words: "its cgroup was throttled for 80.0 ms".to_owned(),
        remedy: Some("give its cgroup a larger quota"),
    };
    evidence.shards[0].stall_cause = Some(cause.clone());
    let known = reason(&evidence);
    assert!(
        known
            .message
            .ends_with("71.0 ms: its cgroup was throttled for 80.0 ms")
    );
    assert_eq!(known.remedy, "give its cgroup a larger quota");
    cause.remedy = None;
    evidence.shards[0].stall_cause = Some(cause);
    assert_eq!(reason(&evidence).remedy, unknown.remedy);
}

#[test]
fn a_limit_of_the_plan_replaces_the_default() {
    let mut evidence = sound(Load::Closed);
    evidence.shards[0].busy_fraction = 0.95;
    let mut limits = VerdictLimits {
        busy_fraction: 0.99,
        ..VerdictLimits::default()
    };
    assert_eq!(judge(&evidence, &limits).status, Status::Valid);
    limits.max_error_rate = Some(0.001);
    evidence.counts = Counts {
        issued: 1_000,
        completed: 998,
        failed: 2,
        ..Counts::default()
    };
    let verdict = judge(&evidence, &limits);
    assert_eq!(verdict.reasons[0].code, Code::Errors);
    assert_eq!(
        (verdict.reasons[0].value, verdict.reasons[0].limit),
        (0.002, 0.001)
    );
    assert!(evidence.errors_over(&limits));
}

#[test]
fn limits_are_read_by_name_and_checked() {
    let limits: VerdictLimits = serde_json::from_str(r#"{"stall_ns": 7}"#).unwrap();
    assert_eq!(
        limits,
        VerdictLimits {
            stall_ns: 7,
            ..VerdictLimits::default()
        }
    );
    assert!(serde_json::from_str::<VerdictLimits>(r#"{"stal_ns": 7}"#).is_err());
    assert_eq!(limits.check(), Ok(()));
    let wrong = VerdictLimits {
        error_rate: f64::NAN,
        ..limits
    };
    assert!(
        wrong
            .check()
            .unwrap_err()
            .to_string()
            .contains("error_rate")
    );
    let wrong = VerdictLimits {
        max_error_rate: Some(5.0),
        ..limits
    };
    assert!(
        wrong
            .check()
            .unwrap_err()
            .to_string()
            .contains("max_error_rate")
    );
}

#[test]
fn a_report_holds_whole_numbers_and_reads_back() {
    let mut evidence = sound(Load::Closed);
    evidence.shards[0].longest_stall = Nanos(7 * MS);
    let verdict = judge(&evidence, &VerdictLimits::default());
    let text = serde_json::to_string(&verdict).unwrap();
    assert!(text.starts_with(
        r#"{"status":"degraded","limited_by":"client","reasons":[{"code":"stall","status":"degraded","#
    ));
    assert!(
        text.contains(r#""value":7000000,"limit":5000000,"unit":"ns""#),
        "{text}"
    );
    assert_eq!(serde_json::from_str::<Verdict>(&text).unwrap(), verdict);
}

#[test]
fn the_first_exit_code_that_applies_wins() {
    let code = |interrupted, errors_over, status, gate_failed| {
        Ending {
            interrupted,
            errors_over,
            status,
            gate_failed,
        }
        .exit_code()
    };
    assert_eq!(code(true, true, Status::Invalid, true), 130);
    assert_eq!(code(false, true, Status::Invalid, true), 4);
    assert_eq!(code(false, false, Status::Invalid, true), 3);
    assert_eq!(code(false, false, Status::Degraded, true), 5);
    assert_eq!(code(false, false, Status::Degraded, false), 0);
    assert_eq!(code(false, false, Status::Valid, false), 0);

    let mut evidence = sound(Load::Closed);
    let limits = VerdictLimits {
        max_error_rate: Some(0.5),
        ..VerdictLimits::default()
    };
    let end = |evidence: &Evidence| {
        Ending::new(false, evidence, &limits, &judge(evidence, &limits), None).exit_code()
    };
    assert_eq!(end(&evidence), 0);
    evidence.counts = Counts {
        issued: 5,
        failed: 5,
        ..Counts::default()
    };
    assert_eq!(end(&evidence), 4, "every request failed");
    evidence.counts = Counts {
        issued: 5,
        completed: 2,
        failed: 3,
        ..Counts::default()
    };
    assert_eq!(end(&evidence), 4, "over the maximal rate");
    evidence.counts = Counts {
        issued: 4,
        completed: 2,
        failed: 2,
        ..Counts::default()
    };
    assert_eq!(end(&evidence), 0, "at the maximal rate");
}

#[test]
fn evidence_is_taken_from_a_collector() {
    let (mut collector, mut pool) = (Collector::new(&[]), GapPool::new(8));
    collector.begin(Nanos::ZERO, 2);
    collector.concurrency(Nanos::ZERO, 2);
    let mut log = GapLog::new();
    for i in 0..200_u64 {
        collector.due(1);
        collector.issued(Phase::Measured);
        log.begin(&mut pool, Phase::Measured);
        let at = |ms: u64| Nanos::from_millis(i * 10 + ms);
        // Three events in one read of every five: the median gap is nothing, the mean is 8 / 4.
        for (ms, count) in [(100, 1), (104, 3), (108, 1)] {
            collector.content(&mut log, &mut pool, at(ms), count);
        }
        let late = if i % 10 == 0 { 60 } else { 0 };
        let timeline = Timeline {
            scheduled: at(0) - Nanos::from_millis(late),
            started: at(0),
            submitted: Some(at(0)),
            first_token: Some(at(100)),
            last_token: Some(at(108)),
            done: Some(at(109)),
            ..Timeline::default()
        };
        let finished = Finished {
            timeline,
            content_events: 5,
            ..Finished::new(Phase::Measured, Fate::Ok, true)
        };
        collector.finished(&finished, &mut log, &mut pool);
    }
    collector.stop(Nanos::from_secs(2), Stopped::Duration);
    let limits = VerdictLimits::default();
    let mut evidence = Evidence::new(&collector, TIMED, true, &limits);
    assert_eq!(evidence.duration, Nanos::from_secs(2));
    assert_eq!(evidence.itl_typical, Some(Nanos::from_millis(2)));
    assert_eq!(
        evidence.late_beyond(&limits).0 / MS,
        50,
        "half of the median TTFT"
    );
    // The first one was scheduled before the clock's start: its lag is cut to nothing.
    assert_eq!(evidence.lag_late_share, 19.0 / 200.0);
    assert_eq!(evidence.concurrency_asked, 2);
    let floors = BelowFloor::find(
        &collector,
        &[Metric::Ttft, Metric::Itl, Metric::Connect],
        &[Percentile::P50, Percentile::P90, Percentile::P99],
    );
    let p99 = BelowFloor {
        metric: Metric::Ttft,
        percentile: Percentile::P99,
        samples: 200,
    };
    assert_eq!(floors, [p99]);
    evidence.below_floor = floors;
    let found = codes(&evidence);
    assert!(
        found.contains(&(Code::LagShare, Status::Invalid)),
        "{found:?}"
    );
    assert!(
        found.contains(&(Code::Samples, Status::Degraded)),
        "{found:?}"
    );
}

#[test]
fn answers_without_gaps_are_judged_by_their_ttft() {
    let mut evidence = sound(Load::Closed);
    evidence.itl_typical = Some(Nanos::ZERO);
    evidence.stamp_width_p99 = Some(Nanos(4 * MS));
    assert_eq!(codes(&evidence), []);
    evidence.stamp_width_p99 = Some(Nanos(6 * MS));
    assert_eq!(codes(&evidence), [(Code::HarnessDelay, Status::Degraded)]);
}

#[test]
fn a_run_is_no_better_than_its_worst_stage() {
    let limits = VerdictLimits::default();
    let of = |evidence: &Evidence| judge(evidence, &limits);
    let whole = of(&sound(TIMED));
    let mut late = sound(TIMED);
    late.lag_median = Some(Nanos(20 * MS));
    let mut short = sound(TIMED);
    short.counts.issued = 10;
    let growth = crate::Growth {
        first_ns: 1e6,
        last_ns: 9e6,
        explained: 0.9,
    };
    let mut behind = sound(TIMED);
    behind.latency_growth = Some(growth);

    let mut verdict = whole.clone();
    verdict.heed("in stage 1", &of(&sound(TIMED)));
    verdict.heed("in stage 2", &of(&short));
    assert_eq!(verdict, whole, "nothing to say, and too short to say it");
    verdict.heed("in stage 3", &of(&behind));
    assert_eq!(
        (verdict.status, verdict.limited_by),
        (Status::Valid, LimitedBy::Server)
    );
    verdict.heed("in stage 4", &of(&late));
    assert_eq!(
        (verdict.status, verdict.limited_by),
        (Status::Invalid, LimitedBy::Client)
    );
    let said = verdict.reasons.len();
    assert_eq!(verdict.reasons[0].code, Code::LagMedian);
    assert!(
        verdict.reasons[0]
            .message
            .starts_with("in stage 4: half of")
    );
    // Said once.
    verdict.heed("in stage 5", &of(&late));
    assert_eq!(verdict.reasons.len(), said);
}
