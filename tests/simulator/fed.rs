use std::sync::Arc;

use bytes::Bytes;
use ridgeline_clock::{Clock, Nanos};
use ridgeline_engine::{
    Answered, Bell, Notice, Outcome, Outlet, Query, Record, Supply, drive, feed,
};
use ridgeline_net::Driver;
use ridgeline_net::sim::{SimConfig, SimNet};
use ridgeline_wire::exchange::{Asked, ErrorKind};
use ridgeline_wire::http1::{Method, RequestOptions, RequestTemplate};
use ridgeline_wire::openai::EndpointType;

use crate::world::{Endpoint, MS, World, address, closed, plan};

/// 10 us each way.
const ROUND_TRIP: Nanos = Nanos::from_micros(20);

fn query(id: u64, due: Nanos) -> Query {
    let head = RequestTemplate::new(&RequestOptions {
        method: Method::Post,
        target: "/v1/chat/completions",
        host: "10.0.0.1:8000",
        accept: "text/event-stream",
        api_key: None,
        id_prefix: "q-",
        headers: &[],
    });
    Query {
        id,
        due,
        heads: Arc::new([head.unwrap()]),
        body: Bytes::from(format!(r#"{{"model":"m","n":{id}}}"#)),
        asked: Asked {
            endpoint: EndpointType::Chat,
            streaming: true,
            save_text: false,
        },
    }
}

/// One shard that is fed, on a virtual network.
struct Fed {
    world: World,
    supply: Option<Supply>,
    outlet: Outlet,
    told: Told,
}

#[derive(Default)]
struct Told {
    notices: Vec<Notice>,
    records: Vec<Record>,
}

impl Answered for Told {
    fn first_token(&mut self, notice: Notice) {
        self.notices.push(notice);
    }

    fn result(&mut self, record: Record) {
        self.records.push(record);
    }
}

impl Fed {
    fn new(slots: u32, endpoint: Endpoint) -> Self {
        Self::with_plan(plan(closed(slots), 0), slots, endpoint)
    }

    fn with_plan(mut plan: ridgeline_engine::Plan, slots: u32, endpoint: Endpoint) -> Self {
        plan.drain_timeout = Nanos::MAX;
        let net = SimNet::new(SimConfig::default());
        net.listen(&address(), endpoint).unwrap();
        net.clock().advance_to(MS);
        let mut world = World::new(net, plan);
        let (supply, feed, outlet) = feed(4096, slots, Arc::new(Bell::default()));
        world.shard.begin_fed(MS, feed);
        Self {
            world,
            supply: Some(supply),
            outlet,
            told: Told::default(),
        }
    }

    fn push(&mut self, query: Query) {
        self.supply.as_mut().unwrap().push(query).unwrap();
    }

    fn step(&mut self) {
        let now = self.world.net.clock().now();
        let deadline = self.world.shard.step(now, self.world.driver.commands());
        self.world
            .driver
            .turn(deadline, &mut self.world.shard)
            .unwrap();
    }

    fn take(&mut self, most: usize) -> usize {
        self.outlet.take(most, &mut self.told)
    }

    /// No more queries: until the shard is done.
    fn end(&mut self) {
        self.supply = None;
        let clock = self.world.net.clock();
        drive(&mut self.world.driver, &mut self.world.shard, &clock).unwrap();
        self.take(usize::MAX);
    }
}

#[test]
fn queries_run_when_they_are_due_whatever_their_order() {
    let mut fed = Fed::new(8, Endpoint::new(MS * 5, MS, 4));
    // Out of order, and the last two are late when they come: at once, and their lag shows.
    let due = [(10, 40), (11, 20), (12, 30), (13, 0), (14, 1)];
    for (id, ms) in due {
        fed.push(query(id, MS * ms));
    }
    fed.end();
    let by_id = |id: u64| {
        fed.told
            .records
            .iter()
            .find(|record| record.index == id)
            .unwrap()
    };
    for (id, ms) in due {
        let record = by_id(id);
        assert_eq!(record.outcome, Outcome::Ok);
        assert_eq!(record.timeline.scheduled, MS * ms);
        assert_eq!(record.timeline.started, MS * ms.max(1));
        let submitted = record.timeline.submitted.unwrap();
        assert_eq!(
            record.timeline.first_token.unwrap() - submitted,
            MS * 5 + ROUND_TRIP
        );
    }
    let mut order: Vec<u64> = fed.told.records.iter().map(|record| record.index).collect();
    order.sort_by_key(|&id| by_id(id).timeline.started);
    assert_eq!(order, [13, 14, 11, 12, 10]);
}

#[test]
fn every_stream_is_announced_once_before_its_result() {
    let mut fed = Fed::new(4, Endpoint::new(MS * 5, MS, 8));
    for id in 0..50 {
        fed.push(query(id, Nanos::ZERO));
    }
    fed.supply = None;
    let mut done = 0;
    while !fed.world.shard.is_done() {
        fed.step();
        fed.take(2);
        for record in &fed.told.records[done..] {
            let told = fed.told.notices.iter().filter(|n| n.id == record.index);
            let told: Vec<&Notice> = told.collect();
            assert_eq!(told.len(), 1);
            assert_eq!(Some(told[0].first_token), record.timeline.first_token);
            assert_eq!(Some(told[0].submitted), record.timeline.submitted);
        }
        done = fed.told.records.len();
    }
    while fed.take(2) > 0 {}
    assert_eq!((fed.told.records.len(), fed.told.notices.len()), (50, 50));
}

#[test]
fn a_reader_that_stops_stops_the_shard_and_nothing_is_lost() {
    let mut fed = Fed::new(4, Endpoint::new(MS, MS, 2));
    let total = 3_000;
    for id in 0..total {
        fed.push(query(id, Nanos::ZERO));
    }
    // The ring of results is 512 long; each needs a place before it starts.
    for _ in 0..20_000 {
        fed.step();
    }
    assert!(!fed.world.shard.is_done());
    let taken = fed.take(usize::MAX);
    assert!((500..=512).contains(&taken), "{taken}");
    fed.supply = None;
    while !fed.world.shard.is_done() {
        fed.step();
        fed.take(7);
    }
    while fed.take(7) > 0 {}
    let mut ids: Vec<u64> = fed.told.records.iter().map(|record| record.index).collect();
    ids.sort_unstable();
    assert_eq!(ids, (0..total).collect::<Vec<_>>());
    assert!(
        fed.told
            .records
            .iter()
            .all(|record| record.outcome == Outcome::Ok)
    );
}

#[test]
fn a_drain_does_what_was_taken_and_then_cancels_the_rest() {
    let mut fed = Fed::new(2, Endpoint::new(MS * 10, MS, 1));
    for id in 0..6 {
        fed.push(query(id, Nanos::ZERO));
    }
    fed.push(query(6, Nanos::from_secs(3_600)));
    // Two at a time, 10 ms each: four are done when the time is over, two are under way.
    fed.world.control.stop(MS * 26);
    fed.end();
    let outcome = |id: u64| {
        fed.told
            .records
            .iter()
            .find(|r| r.index == id)
            .unwrap()
            .outcome
    };
    assert_eq!(fed.told.records.len(), 7);
    for id in 0..4 {
        assert_eq!(outcome(id), Outcome::Ok, "{id}");
    }
    for id in 4..7 {
        assert_eq!(outcome(id), Outcome::Cancelled, "{id}");
    }
    let counts = fed.world.shard.into_result().collector;
    let counts = counts.counts(ridgeline_metrics::Phase::Measured);
    assert_eq!(
        (counts.issued, counts.completed, counts.cancelled),
        (7, 4, 3)
    );
}

#[test]
fn a_query_says_what_it_asks_and_its_timeout_is_the_plans() {
    let mut stuck = plan(closed(2), 0);
    stuck.timeout = MS * 50;
    let mut fed = Fed::with_plan(stuck, 2, Endpoint::new(MS * 100, MS, 1));
    fed.push(query(u64::MAX, Nanos::ZERO));
    fed.end();
    assert_eq!(fed.told.records[0].index, u64::MAX);
    assert_eq!(
        fed.told.records[0].outcome,
        Outcome::Error(ErrorKind::Timeout)
    );
    assert!(fed.told.notices.is_empty());

    let mut fed = Fed::new(2, Endpoint::new(MS, MS, 3));
    let mut with_text = query(1, Nanos::ZERO);
    with_text.asked.save_text = true;
    // Large enough to be sent from a buffer of its own.
    with_text.body = Bytes::from(format!(r#"{{"model":"{}"}}"#, "m".repeat(5_000)));
    fed.push(with_text);
    fed.push(query(2, Nanos::ZERO));
    fed.end();
    let text = |id: u64| {
        let record = fed.told.records.iter().find(|r| r.index == id).unwrap();
        let saved = record.details.as_ref().and_then(|d| d.saved.as_ref());
        saved.map(|saved| saved.text.clone())
    };
    assert_eq!(text(1).as_deref(), Some(" word0 word1 word2"));
    assert_eq!(text(2), None);
}
