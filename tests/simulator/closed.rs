use ridgeline_clock::Nanos;
use ridgeline_engine::{Load, Outcome};
use ridgeline_metrics::{Metric, Phase};
use ridgeline_net::sim::SimConfig;
use ridgeline_schedule::StopRule;

use crate::world::{Endpoint, MS, closed, plan, run, run_on};

#[test]
fn every_request_is_counted_once_and_recorded_once() {
    for concurrency in [1, 3, 16, 64] {
        let out = run(plan(closed(concurrency), 200), Endpoint::new(MS * 5, MS, 8));
        let counts = out.counts();
        assert_eq!(
            (counts.issued, counts.completed, counts.failed),
            (200, 200, 0)
        );
        assert_eq!(out.records.len(), 200);
        let mut indices: Vec<u64> = out.records.iter().map(|record| record.index).collect();
        indices.sort_unstable();
        assert_eq!(indices, (0..200).collect::<Vec<_>>());
        assert!(
            out.records
                .iter()
                .all(|record| record.outcome == Outcome::Ok)
        );
        assert_eq!(out.result.connections_opened, u64::from(concurrency));
    }
}

#[test]
fn times_are_those_of_the_endpoint_to_the_nanosecond() {
    let out = run(plan(closed(4), 40), Endpoint::new(MS * 20, MS * 5, 10));
    // 10 us to get there, 20 ms to think, 10 us back.
    let round_trip = Nanos::from_micros(20);
    for record in &out.records {
        let timeline = &record.timeline;
        let submitted = timeline.submitted.unwrap();
        assert_eq!(
            timeline.first_token.unwrap() - submitted,
            MS * 20 + round_trip
        );
        assert_eq!(timeline.first_byte.unwrap() - submitted, round_trip);
        assert_eq!(
            timeline.last_token.unwrap() - timeline.first_token.unwrap(),
            MS * 45
        );
        assert_eq!(record.content_events, 10);
        assert_eq!(record.usage.output_tokens, Some(10));
    }
    let itl = out.summary(Metric::Itl).unwrap();
    assert_eq!(itl.count, 40 * 9);
    let close = |ns: u64| (4_990_000..=5_010_000).contains(&ns);
    assert!(
        close(itl.min) && close(itl.p50) && close(itl.max),
        "{itl:?}"
    );
}

#[test]
fn as_many_requests_as_slots_fill_them() {
    for (slots, requests) in [(16, 16), (64, 16), (16, 17)] {
        let out = run(plan(closed(slots), requests), Endpoint::new(MS * 5, MS, 8));
        let collector = &out.result.collector;
        assert_eq!(collector.target_concurrency(), 16);
        assert_eq!(collector.peak_concurrency(), 16);
        let effective = collector.effective_concurrency();
        assert!((15.9..=16.0).contains(&effective), "{effective}");
    }
}

#[test]
fn a_closed_loop_starts_the_next_request_when_the_previous_one_was_reaped() {
    let out = run(plan(closed(1), 5), Endpoint::new(MS * 2, MS, 3));
    for pair in out.records.windows(2) {
        assert_eq!(pair[1].timeline.scheduled, pair[0].timeline.done.unwrap());
        assert_eq!(pair[1].timeline.started, pair[1].timeline.scheduled);
    }
    // The connection is set up once, and its time stands apart.
    assert!(out.records[0].timeline.connect.is_some());
    assert!(
        out.records[1..]
            .iter()
            .all(|record| record.timeline.connect.is_none())
    );
}

#[test]
fn warm_up_is_drained_before_measuring_and_not_counted() {
    let mut warmed = plan(closed(4), 20);
    warmed.warmup_requests = 10;
    let out = run(warmed, Endpoint::new(MS, MS, 2));
    assert_eq!(out.counts().issued, 20);
    let warmup: Vec<_> = out
        .records
        .iter()
        .filter(|record| record.phase == Phase::Warmup)
        .collect();
    assert_eq!(warmup.len(), 10);
    assert!(
        warmup
            .iter()
            .all(|record| record.timeline.done.unwrap() <= out.start)
    );
    assert!(warmup.iter().all(|record| record.index < 10));
}

#[test]
fn a_run_can_go_on_where_another_ended() {
    let mut later = plan(closed(4), 20);
    (later.first_index, later.warmup_requests) = (1_001, 10);
    let out = run(later, Endpoint::new(MS, MS, 2));
    let of = |phase| {
        let of_phase = out
            .records
            .iter()
            .filter(move |record| record.phase == phase);
        let mut indices: Vec<u64> = of_phase.map(|record| record.index).collect();
        indices.sort_unstable();
        indices
    };
    assert_eq!(of(Phase::Warmup), (1_001..1_011).collect::<Vec<_>>());
    assert_eq!(of(Phase::Measured), (1_011..1_031).collect::<Vec<_>>());
    // Four samples, in turn.
    let mut samples = out
        .records
        .iter()
        .map(|record| (record.sample, record.index));
    assert!(samples.all(|(sample, index)| u64::from(sample) == index % 4));
}

#[test]
fn a_duration_stops_issuing_and_the_drain_lets_the_rest_finish() {
    let mut timed = plan(closed(8), 0);
    timed.stop = StopRule {
        requests_max: None,
        duration: Some(MS * 95),
    };
    let out = run(timed, Endpoint::new(MS * 20, MS * 10, 4));
    let counts = out.counts();
    // One takes 50 ms: two rounds begin in 95 ms, and the second ends after it.
    assert_eq!(
        (counts.issued, counts.completed, counts.cancelled),
        (16, 16, 0)
    );
    assert!(
        out.records
            .iter()
            .all(|record| record.timeline.started < out.start + MS * 95)
    );
}

#[test]
fn what_the_drain_deadline_catches_is_cancelled_not_lost() {
    let mut timed = plan(closed(8), 0);
    timed.stop = StopRule {
        requests_max: None,
        duration: Some(MS * 10),
    };
    timed.drain_timeout = MS * 15;
    let out = run(timed, Endpoint::new(MS * 20, MS * 10, 4));
    let counts = out.counts();
    assert_eq!(
        (counts.issued, counts.completed, counts.cancelled),
        (8, 0, 8)
    );
    assert!(
        out.records
            .iter()
            .all(|record| record.outcome == Outcome::Cancelled)
    );
}

#[test]
fn offline_is_due_at_the_start_and_never_exceeds_its_concurrency() {
    let out = run(
        plan(Load::Offline { concurrency: 5 }, 50),
        Endpoint::new(MS, MS, 2),
    );
    assert_eq!(out.counts().completed, 50);
    assert!(
        out.records
            .iter()
            .all(|record| record.timeline.scheduled == out.start)
    );
    assert_eq!(out.result.connections_opened, 5);
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let shaped = || {
        let mut config = SimConfig {
            seed: 3,
            ..SimConfig::default()
        };
        config.shape.jitter = MS;
        config.shape.split_ppm = 300_000;
        config.shape.merge_ppm = 100_000;
        let out = run_on(config, plan(closed(7), 100), Endpoint::new(MS * 3, MS, 9));
        out.records
            .iter()
            .map(|record| (record.index, record.timeline))
            .collect::<Vec<_>>()
    };
    let (first, second) = (shaped(), shaped());
    assert!(first == second);
}

#[test]
fn arrivals_are_saved_up_to_their_bound() {
    let mut plan = plan(Load::Closed { concurrency: 1 }, 2);
    plan.save_events = true;
    plan.limits.events_saved_max = 3;
    let out = run(plan, Endpoint::new(MS, MS, 5));
    for record in &out.records {
        let saved = record.details.as_ref().and_then(|d| d.events_at.as_ref());
        assert_eq!((record.content_events, saved.map(Vec::len)), (5, Some(3)));
    }
    assert_eq!(out.records.len(), 2);
}
