use ridgeline_clock::Nanos;
use ridgeline_engine::{Cancel, CancelAfter, Outcome, Record, Waits};
use ridgeline_net::sim::{Fate, SimConfig, SimNet};
use ridgeline_wire::exchange::ErrorKind;

use crate::world::{Endpoint, MS, World, address, closed, plan, run};

fn failed(record: &Record) -> ErrorKind {
    match record.outcome {
        Outcome::Error(kind) => kind,
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn a_connection_that_takes_too_long_is_a_connect_timeout() {
    let net = SimNet::new(SimConfig::default());
    net.fate(&address(), Fate::Silent);
    let mut plan = plan(closed(2), 6);
    plan.waits.connect = Some(MS * 50);
    let out = World::new(net, plan).run();
    assert_eq!(out.records.len(), 6);
    for record in &out.records {
        assert_eq!(failed(record), ErrorKind::ConnectTimeout);
        let t = &record.timeline;
        assert_eq!(t.done.unwrap() - t.started, MS * 50);
    }
}

#[test]
fn a_first_token_that_takes_too_long_is_a_failure_of_its_own() {
    let mut plan = plan(closed(2), 6);
    plan.waits.first_token = Some(MS * 100);
    let out = run(plan.clone(), Endpoint::new(MS * 200, MS, 5));
    for record in &out.records {
        assert_eq!(failed(record), ErrorKind::FirstTokenTimeout);
        let t = &record.timeline;
        assert_eq!(t.done.unwrap() - t.submitted.unwrap(), MS * 100);
    }
    // Tokens after it may take longer.
    let out = run(plan, Endpoint::new(MS * 90, MS * 150, 5));
    assert_eq!(out.counts().completed, 6);
}

#[test]
fn a_stream_that_stands_still_is_a_failure_of_its_own() {
    let mut plan = plan(closed(2), 6);
    plan.waits.event = Some(MS * 20);
    let out = run(plan.clone(), Endpoint::new(MS * 200, MS * 50, 5));
    for record in &out.records {
        assert_eq!(failed(record), ErrorKind::EventTimeout);
        assert_eq!(record.content_events, 1);
        let t = &record.timeline;
        // From the time of reading, which is not that of arrival.
        let stood = t.done.unwrap() - t.last_token.unwrap();
        assert!((MS * 20..MS * 21).contains(&stood), "{stood}");
    }
    let out = run(plan, Endpoint::new(MS * 200, MS * 19, 5));
    assert_eq!(out.counts().completed, 6);
}

fn cancelling(share: f64, after: CancelAfter) -> Waits {
    Waits {
        cancel: Some(Cancel {
            share,
            seed: 3,
            after,
        }),
        ..Waits::default()
    }
}

#[test]
fn requests_are_given_up_after_a_span() {
    let mut plan = plan(closed(3), 30);
    plan.waits = cancelling(1.0, CancelAfter::Span(MS * 25));
    plan.warmup_requests = 5;
    let out = run(plan, Endpoint::new(MS * 10, MS * 10, 10));
    let counts = out.counts();
    assert_eq!((counts.cancelled, counts.given_up), (30, 30), "{counts:?}");
    assert_eq!((counts.completed, counts.failed), (0, 0));
    let warm = out.records.iter().filter(|r| r.outcome == Outcome::Ok);
    assert_eq!(warm.count(), 5, "warm-up is left alone");
    let mut cut = out
        .records
        .iter()
        .filter(|r| r.outcome == Outcome::Cancelled);
    assert!(cut.all(|r| r.content_events == 2));
    // 25 ms each, three at a time.
    assert!(out.result.last_done - out.start < MS * 280);
}

#[test]
fn the_same_requests_are_given_up_on_any_number_of_shards() {
    let waits = cancelling(0.4, CancelAfter::Events(3));
    let has = |index| waits.cancel.unwrap().has(index);
    for shards in [1, 2] {
        let mut seen = 0;
        for k in 0..shards {
            let mut plan = plan(closed(4), 60);
            (plan.waits, plan.shards, plan.own_shards) = (waits, shards, 0..shards);
            let net = SimNet::new(SimConfig::default());
            net.listen(&address(), Endpoint::new(MS, MS, 8)).unwrap();
            let out = World::shard(net, plan, k).run();
            for record in &out.records {
                let cut = has(record.index);
                let expected = if cut { Outcome::Cancelled } else { Outcome::Ok };
                assert_eq!(record.outcome, expected, "{}", record.index);
                assert_eq!(record.content_events, if cut { 3 } else { 8 });
                seen += 1;
            }
        }
        assert_eq!(seen, 60);
    }
    let cut = (0..60).filter(|&index| has(index)).count();
    assert!((10..40).contains(&cut), "{cut}");
}

#[test]
fn an_answer_that_is_over_in_time_is_no_cancelled_one() {
    let mut plan = plan(closed(2), 10);
    plan.waits = cancelling(1.0, CancelAfter::Span(Nanos::from_secs(1)));
    let out = run(plan, Endpoint::new(MS * 10, MS, 10));
    assert_eq!((out.counts().completed, out.counts().cancelled), (10, 0));
}
