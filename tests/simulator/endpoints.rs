use std::net::SocketAddr;

use ridgeline_clock::Nanos;
use ridgeline_engine::{Balance, Plan, Spread};
use ridgeline_metrics::PerEndpoint;
use ridgeline_net::Peer;
use ridgeline_net::sim::{Fate, SimConfig, SimNet};

use crate::world::{Endpoint, MS, Outcome, World, closed, constant, plan};

fn peer(endpoint: u8) -> Peer {
    Peer::Tcp(SocketAddr::from(([10, 0, 1, endpoint], 8000)))
}

/// Spreads a plan over endpoints of one address each.
fn over(mut plan: Plan, endpoints: u8, balance: Balance) -> Plan {
    plan.target.peers = (0..endpoints).map(peer).collect();
    plan.target.spread = Some(Spread {
        endpoints: (0..usize::from(endpoints)).map(|n| n..n + 1).collect(),
        tls: vec![None; usize::from(endpoints)],
        balance,
    });
    plan
}

/// Endpoints whose first tokens take so long.
fn run_on(plan: &Plan, k: u32, ttfts: &[Nanos]) -> Outcome {
    let net = SimNet::new(SimConfig::default());
    for (n, &ttft) in (0..).zip(ttfts) {
        net.listen(&peer(n), Endpoint::new(ttft, MS, 3)).unwrap();
    }
    World::shard(net, plan.clone(), k).run()
}

fn requests(out: &Outcome) -> Vec<u64> {
    let each = out.result.collector.endpoints().iter();
    each.map(|endpoint| endpoint.counts.issued).collect()
}

#[test]
fn endpoints_take_turns_whatever_they_take_and_on_any_number_of_shards() {
    let balance = || Balance::InTurn(vec![1, 1, 1]);
    let ttfts = [MS, MS * 40, MS * 5];
    let alone = over(plan(closed(6), 90), 3, balance());
    let alone = run_on(&alone, 0, &ttfts);
    assert_eq!(requests(&alone), [30, 30, 30]);
    // Which request is whose follows from its index: those of endpoint 1 are slow.
    for record in &alone.records {
        let ttft = record.timeline.first_token.unwrap() - record.timeline.submitted.unwrap();
        assert_eq!(ttft > MS * 30, record.index % 3 == 1, "{}", record.index);
    }
    let mut several = over(plan(closed(6), 90), 3, balance());
    (several.shards, several.own_shards) = (2, 0..2);
    let mut sums = run_on(&several, 0, &ttfts).result.collector;
    sums.merge(&run_on(&several, 1, &ttfts).result.collector);
    let counts: Vec<u64> = sums
        .endpoints()
        .iter()
        .map(|e| e.counts.completed)
        .collect();
    assert_eq!(counts, [30, 30, 30]);
}

#[test]
fn weights_say_how_often_it_is_an_endpoints_turn() {
    let plan = over(plan(closed(4), 80), 2, Balance::InTurn(vec![3, 1]));
    assert_eq!(requests(&run_on(&plan, 0, &[MS, MS])), [60, 20]);
}

#[test]
fn the_least_busy_endpoint_gets_more_of_a_rate() {
    let plan = over(plan(constant(500.0, None), 300), 2, Balance::LeastInFlight);
    let out = run_on(&plan, 0, &[MS * 4, MS * 80]);
    let counts = requests(&out);
    assert_eq!(counts.iter().sum::<u64>(), 300);
    assert!(counts[0] > 4 * counts[1], "{counts:?}");
}

#[test]
fn each_endpoint_has_its_own_figures() {
    let mut plan = over(plan(closed(4), 60), 3, Balance::InTurn(vec![1, 1, 1]));
    plan.target.sources = Vec::new();
    let net = SimNet::new(SimConfig::default());
    net.listen(&peer(0), Endpoint::new(MS * 5, MS, 3)).unwrap();
    net.listen(&peer(1), Endpoint::new(MS * 20, MS, 3)).unwrap();
    net.fate(&peer(2), Fate::Refused);
    let out = World::new(net, plan).run();
    let collector = &out.result.collector;
    let figures = |endpoint: &PerEndpoint| {
        let counts = endpoint.counts;
        (counts.completed, counts.failed, endpoint.errors.total())
    };
    let each: Vec<_> = collector.endpoints().iter().map(figures).collect();
    assert_eq!(each, [(20, 0, 0), (20, 0, 0), (0, 20, 20)]);
    let ttft = |n: usize| collector.endpoints()[n].ttft.summary();
    assert!(ttft(0).unwrap().max < ttft(1).unwrap().min);
    assert!(ttft(2).is_none());
    // Connections rest where they lead, and are used again there.
    assert!(out.result.connections_opened <= 4 * 2 + 20);
}

#[test]
fn requests_of_a_session_go_to_one_endpoint() {
    let plan = over(plan(closed(3), 80), 2, Balance::BySession);
    // Of every four: two of a session at the first, one of another at the second, one of none in turn.
    assert_eq!(requests(&run_on(&plan, 0, &[MS, MS * 9])), [60, 20]);
}
