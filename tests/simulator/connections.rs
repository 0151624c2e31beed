use std::collections::HashMap;

use ridgeline_clock::Nanos;
use ridgeline_engine::{Connections, Load};
use ridgeline_net::sim::{Actions, SimPeer};
use ridgeline_schedule::{Pattern, ScheduleSpec, Stage, StopRule};

use crate::world::{Endpoint, MS, closed, constant, plan, run};

const S: Nanos = Nanos::from_secs(1);

/// An endpoint that has enough of connections.
#[derive(Debug)]
struct Closing {
    endpoint: Endpoint,
    /// It closes a connection that has carried nothing for so long.
    idle: Nanos,
    /// It closes a connection that brings one more request than these, and does not answer that.
    requests_max: u32,
    /// By connection: its requests, and when its last answer ends.
    seen: HashMap<u32, (u32, Nanos)>,
}

impl Closing {
    fn new(endpoint: Endpoint, idle: Nanos, requests_max: u32) -> Self {
        Self {
            endpoint,
            idle,
            requests_max,
            seen: HashMap::new(),
        }
    }
}

impl SimPeer for Closing {
    fn on_accept(&mut self, connection: u32, actions: &mut Actions) {
        self.endpoint.on_accept(connection, actions);
        self.seen.insert(connection, (0, actions.now()));
    }

    fn on_bytes(&mut self, connection: u32, bytes: &[u8], actions: &mut Actions) {
        if !self.endpoint.takes(connection, bytes) {
            return;
        }
        let seen = self.seen.get_mut(&connection).unwrap();
        seen.0 += 1;
        if seen.0 > self.requests_max {
            actions.fin();
            return;
        }
        // Two events.
        seen.1 = actions.now() + self.endpoint.ttft + self.endpoint.itl;
        self.endpoint.answer(self.endpoint.ttft, actions);
        if self.idle < Nanos::MAX {
            actions.wait(self.idle).timer();
        }
    }

    fn on_timer(&mut self, connection: u32, actions: &mut Actions) {
        let (_, ended) = self.seen[&connection];
        if actions.now() - ended >= self.idle {
            actions.fin();
        }
    }
}

fn endpoint() -> Endpoint {
    Endpoint::new(MS * 5, MS, 2)
}

fn stages(rates: &[(f64, u64)]) -> Load {
    let stage = |&(rate_per_s, seconds): &(f64, u64)| Stage {
        rate_per_s,
        pattern: Pattern::Poisson,
        duration: Some(S * seconds),
    };
    Load::Open {
        schedule: ScheduleSpec {
            stages: rates.iter().map(stage).collect(),
            seed: 5,
        },
        concurrency_cap: None,
    }
}

#[test]
fn connections_that_the_endpoint_has_enough_of_fail_no_request() {
    let mut plan = plan(stages(&[(200.0, 20), (1.0, 30), (200.0, 20)]), 0);
    plan.stop = StopRule {
        requests_max: None,
        duration: Some(S * 70),
    };
    let out = run(plan, Closing::new(endpoint(), S * 5, 100));
    let counts = out.counts();
    assert_eq!(counts.failed, 0, "{counts:?}");
    assert_eq!(counts.completed, counts.issued);
    assert!(counts.retried > 20, "every hundredth request: {counts:?}");
    for record in &out.records {
        // The time of a request that was sent twice goes on from its first attempt.
        let t = &record.timeline;
        let ttft = t.first_token.unwrap() - t.submitted.unwrap();
        assert!(record.retries <= 1);
        if record.retries == 1 {
            assert!(ttft > Nanos::from_micros(5_030), "{ttft}");
        }
    }
}

#[test]
fn a_request_that_is_sent_again_has_a_connection_of_its_own() {
    // After the burst many connections rest that have carried all they may.
    let out = run(
        plan(closed(8), 200),
        Closing::new(endpoint(), Nanos::MAX, 1),
    );
    let counts = out.counts();
    assert_eq!((counts.completed, counts.failed), (200, 0), "{counts:?}");
    // Each connection carries one request, and every second one of a slot has to come again.
    assert_eq!(out.result.connections_opened, 200);
    assert_eq!(counts.retried, 192);
}

#[test]
fn a_connection_is_retired_before_the_time_that_the_endpoint_names() {
    let every_5_s = || plan(constant(0.2, None), 20);
    let named = || endpoint().with_field("Keep-Alive: timeout=5, max=1000");
    let out = run(every_5_s(), Closing::new(named(), S * 5, u32::MAX));
    assert_eq!((out.counts().completed, out.counts().retried), (20, 0));
    assert_eq!(out.result.connections_opened, 20);
    // One that names a longer time is believed, too.
    let longer = endpoint().with_field("keep-alive: timeout=30");
    let out = run(every_5_s(), longer);
    assert_eq!(out.result.connections_opened, 1);
}

#[test]
fn two_closes_teach_how_long_connections_may_rest() {
    // Requests come just when the endpoint's time is over: they cross its FIN.
    let apart = 1.0 / 2.006_01;
    let out = run(
        plan(constant(apart, None), 40),
        Closing::new(endpoint(), S * 2, u32::MAX),
    );
    let counts = out.counts();
    assert_eq!((counts.completed, counts.failed), (40, 0), "{counts:?}");
    assert!((2..=3).contains(&counts.retried), "{counts:?}");
    assert!(out.result.connections_opened > 35);
}

#[test]
fn a_connection_for_each_request_is_used_once() {
    let mut plan = plan(closed(4), 50);
    plan.connections = Connections::PerRequest;
    let out = run(plan, endpoint());
    assert_eq!(out.counts().completed, 50);
    assert_eq!(out.result.connections_opened, 50);
    assert!(out.records.iter().all(|r| r.connected.is_some()));
}

#[test]
fn a_session_keeps_its_connection_and_others_have_one_each() {
    let mut plan = plan(closed(1), 40);
    plan.connections = Connections::PerSession;
    let out = run(plan.clone(), endpoint());
    assert_eq!(out.counts().completed, 40);
    // Of four samples two are of one session, one is of another, and one of none.
    assert_eq!(out.result.connections_opened, 2 + 10);
    // A connection that is closed is replaced, and the next request of the session takes that.
    let out = run(plan, Closing::new(endpoint(), Nanos::MAX, 5));
    let counts = out.counts();
    assert_eq!((counts.completed, counts.failed), (40, 0), "{counts:?}");
    assert_eq!(out.result.connections_opened, 4 + 2 + 10);
}
