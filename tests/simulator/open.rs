use ridgeline_clock::{Clock, Nanos};
use ridgeline_engine::Load;
use ridgeline_metrics::Metric;
use ridgeline_net::sim::{SimConfig, SimNet};
use ridgeline_schedule::{Arrivals, Pattern, ScheduleSpec, Stage, StopRule};

use crate::world::{Endpoint, MS, World, address, constant, plan, run};

#[test]
fn a_constant_rate_starts_every_request_at_its_time() {
    let out = run(
        plan(constant(1000.0, None), 300),
        Endpoint::new(MS * 50, MS, 4),
    );
    let mut records = out.records;
    records.sort_by_key(|record| record.index);
    assert_eq!(records.len(), 300);
    for (n, record) in (0..).zip(&records) {
        assert_eq!(record.timeline.scheduled, out.start + MS * n);
        assert_eq!(record.timeline.started, record.timeline.scheduled);
    }
    assert_eq!(out.result.submitted_in_window, 300);
    assert_eq!(out.result.never_sent, 0);
}

#[test]
fn a_slow_endpoint_does_not_slow_the_schedule() {
    // 190 ms of work at 1000/s: some 190 in flight, and no arrival waits for a completion.
    let out = run(
        plan(constant(1000.0, None), 500),
        Endpoint::new(MS * 100, MS * 10, 10),
    );
    assert!(
        out.records
            .iter()
            .all(|r| r.timeline.started == r.timeline.scheduled)
    );
}

#[test]
fn waiting_for_the_cap_is_told_apart_from_lag() {
    // 10 ms each, two at a time: 200/s is possible, 1000/s is asked.
    let out = run(
        plan(constant(1000.0, Some(2)), 100),
        Endpoint::new(MS * 8, MS, 3),
    );
    assert!(out.summary(Metric::CapWait).unwrap().max > (MS * 300).0);
    assert_eq!(out.summary(Metric::ScheduleLag).unwrap().max, 0);
    // From the schedule the queueing shows: no coordinated omission.
    let from_schedule = out.summary(Metric::TtftFromSchedule).unwrap();
    assert!(from_schedule.max > (MS * 300).0, "{from_schedule:?}");
    assert!(out.summary(Metric::Ttft).unwrap().max < (MS * 9).0);
}

#[test]
fn what_is_due_and_was_not_sent_is_counted() {
    let mut timed = plan(constant(1000.0, Some(1)), 0);
    timed.stop = StopRule {
        requests_max: None,
        duration: Some(MS * 100),
    };
    let out = run(timed, Endpoint::new(MS * 18, MS, 3));
    let counts = out.counts();
    assert_eq!(counts.issued + out.result.never_sent, 100);
    assert!(out.result.never_sent >= 94, "{}", out.result.never_sent);
}

#[test]
fn what_is_due_just_before_the_end_is_sent_by_a_late_program_too() {
    let late = SimConfig {
        wake_delay: MS * 7,
        ..SimConfig::default()
    };
    let net = SimNet::new(late);
    net.listen(&address(), Endpoint::new(MS, MS, 2)).unwrap();
    let mut timed = plan(constant(1000.0, None), 0);
    timed.stop = StopRule {
        requests_max: None,
        duration: Some(MS * 100),
    };
    let out = World::new(net, timed).run();
    assert_eq!((out.counts().issued, out.result.never_sent), (100, 0));
    let last = out.records.iter().map(|r| r.timeline.started).max();
    assert!(last.unwrap() > out.start + MS * 100);
}

#[test]
fn a_late_program_sends_what_is_due_and_no_more() {
    let late = SimConfig {
        wake_delay: MS * 7,
        ..SimConfig::default()
    };
    let net = SimNet::new(late);
    net.listen(&address(), Endpoint::new(MS, MS, 2)).unwrap();
    let out = World::new(net, plan(constant(1000.0, None), 200)).run();
    assert_eq!(out.records.len(), 200);
    for record in &out.records {
        let lag = record.timeline.started - record.timeline.scheduled;
        assert!(lag <= MS * 8, "{lag}");
    }
    assert!(out.summary(Metric::ScheduleLag).unwrap().max >= (MS * 6).0);
}

#[test]
fn the_last_request_of_a_counted_run_counts_as_sent_in_time() {
    let late = SimConfig {
        wake_delay: MS * 2,
        ..SimConfig::default()
    };
    let shared = |pattern, count| {
        let stage = |rate_per_s, secs: Option<u64>| Stage {
            rate_per_s,
            pattern,
            duration: secs.map(Nanos::from_secs),
        };
        let schedule = ScheduleSpec {
            stages: vec![stage(20.0, Some(1)), stage(100.0, None)],
            seed: 3,
        };
        let load = Load::Open {
            schedule,
            concurrency_cap: None,
        };
        plan(load, count)
    };
    for plan in [
        plan(constant(100.0, None), 5),
        shared(Pattern::Constant, 5),
        shared(Pattern::Constant, 30),
        shared(Pattern::Gamma { shape: 9.0 }, 5),
        shared(Pattern::Gamma { shape: 9.0 }, 30),
    ] {
        let count = plan.stop.requests_max.unwrap();
        let net = SimNet::new(late);
        net.listen(&address(), Endpoint::new(MS, MS, 2)).unwrap();
        let out = World::new(net, plan).run();
        assert_eq!(out.result.submitted_in_window, count);
    }
}

#[test]
fn stages_follow_one_another() {
    let stage = |rate_per_s, ms| Stage {
        rate_per_s,
        pattern: Pattern::Constant,
        duration: Some(MS * ms),
    };
    let schedule = ScheduleSpec {
        stages: vec![stage(100.0, 100), stage(1000.0, 100)],
        seed: 0,
    };
    let mut staged = plan(
        Load::Open {
            schedule,
            concurrency_cap: None,
        },
        0,
    );
    staged.stop = StopRule {
        requests_max: None,
        duration: Some(MS * 200),
    };
    let out = run(staged, Endpoint::new(MS, MS, 2));
    let early = out
        .records
        .iter()
        .filter(|r| r.timeline.scheduled < out.start + MS * 100)
        .count();
    assert_eq!((early, out.records.len()), (10, 110));
}

#[test]
fn any_number_of_shards_issues_the_same_requests_at_the_same_times() {
    let poisson = |shards| {
        let stage = Stage {
            rate_per_s: 2000.0,
            pattern: Pattern::Poisson,
            duration: None,
        };
        let schedule = ScheduleSpec {
            stages: vec![stage],
            seed: 42,
        };
        let mut plan = plan(
            Load::Open {
                schedule,
                concurrency_cap: None,
            },
            400,
        );
        plan.shards = shards;
        plan
    };
    let mut expected: Vec<(u64, Nanos, u32)> = Vec::new();
    let Load::Open { schedule, .. } = poisson(1).load else {
        unreachable!()
    };
    for due in Arrivals::new(&schedule).unwrap().take(400) {
        expected.push((due.index, due.at, u32::try_from(due.index % 4).unwrap()));
    }
    for shards in [1, 2, 3, 7] {
        let mut seen = Vec::new();
        for k in 0..shards {
            let net = SimNet::new(SimConfig::default());
            net.listen(&address(), Endpoint::new(MS, MS, 2)).unwrap();
            let out = World::shard(net, poisson(shards), k).run();
            seen.extend(
                out.records
                    .iter()
                    .map(|r| (r.index, r.timeline.scheduled - out.start, r.sample)),
            );
        }
        seen.sort_unstable();
        assert!(seen == expected, "{shards} shards");
    }
}

#[test]
fn the_user_can_stop_a_run() {
    let net = SimNet::new(SimConfig::default());
    net.listen(&address(), Endpoint::new(MS * 20, MS, 2))
        .unwrap();
    let world = World::new(net, plan(constant(100.0, None), 1_000_000));
    // Asked before the start: the first look at the wish ends the issuing.
    world.control.stop(world.net.clock().now() + MS * 50);
    let out = world.run();
    assert_eq!(out.counts().issued, 0);
}
