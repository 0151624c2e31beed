use ridgeline_clock::{Clock, Nanos};
use ridgeline_engine::Outcome;
use ridgeline_metrics::Metric;
use ridgeline_net::sim::{Actions, Ended, Fate, SimConfig, SimNet, SimPeer};
use ridgeline_wire::exchange::ErrorKind;

use crate::world::{Endpoint, MS, World, address, closed, constant, plan, run, run_on};

#[test]
fn under_every_fault_at_once_nothing_is_lost() {
    for seed in 0..20 {
        let mut config = SimConfig {
            seed,
            ..SimConfig::default()
        };
        config.shape.jitter = MS * 2;
        config.shape.split_ppm = 400_000;
        config.shape.merge_ppm = 200_000;
        config.shape.stall_ppm = 2_000;
        config.shape.reset_ppm = 5_000;
        config.wake_delay = Nanos::from_micros(3);
        config.wake_jitter = Nanos::from_micros(50);
        let mut plan = plan(closed(16), 300);
        plan.timeout = MS * 150;
        let out = run_on(config, plan, Endpoint::new(MS * 3, MS, 20));
        let counts = out.counts();
        assert_eq!(counts.issued, 300, "seed {seed}");
        assert_eq!(
            counts.completed + counts.failed + counts.cancelled,
            300,
            "seed {seed}"
        );
        assert!(
            counts.failed > 0 && counts.completed > 0,
            "seed {seed}: {counts:?}"
        );
        assert_eq!(out.records.len(), 300, "seed {seed}");
        for record in &out.records {
            let t = &record.timeline;
            let stamps = [
                t.submitted,
                t.first_byte,
                t.first_token,
                t.last_token,
                t.done,
            ];
            let known: Vec<Nanos> = stamps.into_iter().flatten().collect();
            assert!(known.is_sorted(), "seed {seed}: {t:?}");
        }
    }
}

#[test]
fn a_refused_connection_is_a_connect_error() {
    let net = SimNet::new(SimConfig::default());
    net.fate(&address(), Fate::Refused);
    let out = World::new(net, plan(closed(2), 6)).run();
    assert_eq!(out.records.len(), 6);
    assert!(
        out.records
            .iter()
            .all(|r| r.outcome == Outcome::Error(ErrorKind::Connect))
    );
}

#[test]
fn a_silent_address_is_a_connect_timeout() {
    let net = SimNet::new(SimConfig::default());
    net.fate(&address(), Fate::Silent);
    let mut silent = plan(closed(2), 4);
    silent.timeout = MS * 100;
    let out = World::new(net, silent).run();
    assert_eq!(out.records.len(), 4);
    for record in &out.records {
        assert_eq!(record.outcome, Outcome::Error(ErrorKind::ConnectTimeout));
        assert_eq!(
            record.timeline.done.unwrap() - record.timeline.started,
            MS * 100
        );
    }
}

#[test]
fn an_idle_connection_that_the_endpoint_closed_costs_one_retry_and_no_error() {
    // The endpoint closes 1 ms after each answer; the next request is due at that very time, so
    // request and FIN cross on the way.
    let mut closing = Endpoint::new(MS, MS, 2);
    closing.idle_close = Some(MS);
    let out = run(plan(constant(1.0e9 / 3_020_000.0, None), 200), closing);
    let counts = out.counts();
    assert_eq!((counts.completed, counts.failed), (200, 0), "{counts:?}");
    assert!(
        counts.retried > 0,
        "no request crossed a FIN: the test has lost its point"
    );
    assert!(out.records.iter().all(|record| record.retries <= 1));
}

/// Closes every connection as soon as a request comes.
#[derive(Debug)]
struct Closing(bool);

impl SimPeer for Closing {
    fn on_bytes(&mut self, _: u32, _: &[u8], actions: &mut Actions) {
        if self.0 {
            actions.rst()
        } else {
            actions.fin()
        };
    }

    fn on_end(&mut self, _: u32, _: Ended, actions: &mut Actions) {
        actions.fin();
    }
}

#[test]
fn a_fresh_connection_that_is_closed_is_a_reset_and_not_retried() {
    for by_reset in [false, true] {
        let out = run(plan(closed(3), 9), Closing(by_reset));
        assert_eq!(out.records.len(), 9);
        for record in &out.records {
            assert_eq!(record.outcome, Outcome::Error(ErrorKind::Reset));
            assert_eq!(record.retries, 0);
        }
    }
}

#[test]
fn running_out_of_ports_is_back_pressure_and_said() {
    let config = SimConfig {
        ports_max: 4,
        ..SimConfig::default()
    };
    let out = run_on(config, plan(closed(16), 100), Endpoint::new(MS * 5, MS, 3));
    let counts = out.counts();
    assert_eq!((counts.completed, counts.failed), (100, 0));
    assert!(out.result.exhausted.ports);
}

#[test]
fn a_stall_is_a_timeout_that_ends_at_the_deadline() {
    let mut stalled = plan(closed(2), 4);
    stalled.timeout = MS * 300;
    let out = run(stalled, Endpoint::new(MS * 10, MS * 200, 10));
    for record in &out.records {
        assert_eq!(record.outcome, Outcome::Error(ErrorKind::Timeout));
        assert_eq!(record.content_events, 2);
        assert!(record.timeline.done.unwrap() - record.timeline.started <= MS * 301);
    }
    // Gaps of requests that failed are in no distribution.
    assert!(out.summary(Metric::Itl).is_none());
    assert!(out.net.clock().now() > MS * 600);
}
