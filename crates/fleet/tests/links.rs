//! The protocol over ZeroMQ, on a virtual network: a run to its end, and one whose link is cut.
#![expect(clippy::unwrap_used, reason = "a test")]

use ridgeline_clock::{Clock, Nanos, SimClock, Timebase};
use ridgeline_engine::{Exhausted, LiveTotals, RunResult};
use ridgeline_fleet::message::{BYTES_MAX, Finished, WorkerHello};
use ridgeline_fleet::{
    Brief, Coordinator, Ending, FleetLimits, Host, MemberEnd, Order, Seat, Share, Worker,
};
use ridgeline_metrics::{Collector, Phase};
use ridgeline_net::sim::{Fate, SimConfig, SimDriver, SimNet};
use ridgeline_transport::{Flow, Left, Limits, PeerId, Receiver, To, Transport};
use ridgeline_transport_zmq::{Address, Kind, Zmq};

type Router = Zmq<SimDriver, SimClock>;

fn router(net: &SimNet) -> Router {
    let limits = Limits {
        message_bytes_max: BYTES_MAX,
        peers_max: 8,
        ..Limits::control()
    };
    Zmq::new(net.driver(16), net.clock(), Kind::Router, limits)
}

/// What a turn brought.
enum Came {
    Joined(PeerId, String),
    Message(PeerId, Vec<u8>),
    Left(PeerId, String),
}

#[derive(Default)]
struct Inbox(Vec<Came>);

impl Receiver for Inbox {
    fn joined(&mut self, peer: PeerId, who: &str) {
        self.0.push(Came::Joined(peer, who.to_owned()));
    }

    fn message(&mut self, peer: PeerId, message: &[u8]) -> Flow {
        self.0.push(Came::Message(peer, message.to_vec()));
        Flow::More
    }

    fn left(&mut self, peer: PeerId, left: &Left) {
        self.0.push(Came::Left(peer, left.to_string()));
    }
}

fn turn(router: &mut Router) -> Vec<Came> {
    let mut inbox = Inbox::default();
    router.turn(Nanos::ZERO, &mut inbox).unwrap();
    inbox.0
}

/// A worker whose run is only pretended: two seconds of nothing.
struct Machine {
    worker: Worker,
    router: Router,
    peers: Vec<PeerId>,
    began: Option<Nanos>,
    over: Vec<Option<String>>,
}

const LENGTH: Nanos = Nanos::from_secs(2);

impl Machine {
    fn turn(&mut self, now: Nanos) {
        for came in turn(&mut self.router) {
            match came {
                Came::Joined(peer, _) => self.peers.push(peer),
                Came::Message(peer, bytes) => self.worker.message(peer.index.into(), &bytes, now),
                Came::Left(peer, why) => self.worker.left(peer.index.into(), &why),
            }
        }
        self.worker.step(LiveTotals::default(), now);
        while let Some(order) = self.worker.order() {
            match order {
                Order::Prepare => self.worker.ready(Phase::Measured, "sim"),
                Order::Start { at, .. } => self.began = Some(at),
                Order::Stop { .. } | Order::Cancel => self.finish(now),
                Order::Over { why, .. } => self.over.push(why),
                _ => {}
            }
        }
        if self.began.is_some_and(|at| now >= at + LENGTH) {
            self.finish(now);
        }
        while let Some((number, bytes)) = self.worker.outgoing() {
            let peer = self
                .peers
                .iter()
                .rev()
                .find(|peer| u64::from(peer.index) == number);
            let _ = self.router.send(To::Peer(*peer.unwrap()), &bytes);
        }
    }

    fn finish(&mut self, now: Nanos) {
        if let Some(began) = self.began.take() {
            let share = Share::of(RunResult {
                started: began,
                measured: began,
                window_end: now,
                last_issue: now,
                last_done: now,
                ended: now,
                collector: Collector::new(&[]),
                never_sent: 0,
                submitted_in_window: 7,
                records_dropped: 0,
                exhausted: Exhausted::default(),
                interrupted: false,
                shards: Vec::new(),
            });
            let records = None;
            self.worker.finished(Finished { share, records });
        }
    }
}

fn workers(net: &SimNet, limits: FleetLimits) -> (Vec<Address>, Vec<Machine>) {
    let mut machines = Vec::new();
    let mut addresses: Vec<Address> = Vec::new();
    for _ in 0..2 {
        let mut router = router(net);
        addresses.push(router.bind(&"tcp://127.0.0.1:0".parse().unwrap()).unwrap());
        let host = Host {
            hello: WorkerHello::default(),
            token: None,
        };
        machines.push(Machine {
            worker: Worker::new(host, limits, net.clock().now()),
            router,
            peers: Vec::new(),
            began: None,
            over: Vec::new(),
        });
    }
    (addresses, machines)
}

fn brief() -> Brief {
    Brief {
        run_id: 1,
        config: String::new(),
        api_key: None,
        token: None,
        files: Vec::new(),
        warms_up: false,
        span_max: Some(LENGTH),
        gathers: true,
        revision: String::new(),
        host: String::new(),
        timebase: Timebase::default(),
    }
}

/// Two workers and their coordinator on one network. Cuts the link to the first one at `cut`.
fn run(cut: Option<Nanos>) -> (Vec<MemberEnd>, Vec<Machine>) {
    let net = SimNet::new(SimConfig::default());
    let clock = net.clock();
    let limits = FleetLimits::default();
    let (addresses, mut machines) = workers(&net, limits);
    let seat = |(k, address): (u32, &Address)| Seat {
        name: address.to_string(),
        shards: k..k + 1,
        cores: None,
        folder: None,
    };
    let seats = (0..).zip(&addresses).map(seat).collect();
    let mut coordinator = Coordinator::new(seats, brief(), limits, clock.now());
    let mut own = router(&net);
    addresses
        .iter()
        .for_each(|address| own.connect(address).unwrap());
    let mut links: Vec<Option<PeerId>> = vec![None; 2];
    let mut cut = cut;
    while !coordinator.is_over() || machines.iter().any(|m| !m.worker.is_free()) {
        let now = clock.now();
        assert!(now < Nanos::from_secs(60), "nothing hangs");
        for came in turn(&mut own) {
            let place = |peer: PeerId| links.iter().position(|link| *link == Some(peer)).unwrap();
            match came {
                Came::Joined(peer, who) => {
                    let place = addresses.iter().position(|a| a.to_string() == who).unwrap();
                    links[place] = Some(peer);
                    coordinator.joined(place, now);
                }
                Came::Message(peer, bytes) => coordinator.message(place(peer), &bytes, now),
                Came::Left(peer, why) => coordinator.left(place(peer), &why, now),
            }
        }
        coordinator.step(now);
        while coordinator.event().is_some() {}
        for (place, link) in links.iter().enumerate() {
            while let Some(bytes) = coordinator.outgoing(place) {
                let _ = link.map(|peer| own.send(To::Peer(peer), &bytes));
            }
        }
        machines.iter_mut().for_each(|machine| machine.turn(now));
        if cut.is_some_and(|at| now >= at) {
            cut = None;
            let there = addresses[0].resolve().unwrap();
            net.sever(&there);
            net.fate(&there, Fate::Silent);
        }
        net.advance(now + Nanos::from_millis(5));
    }
    (coordinator.into_ends().unwrap(), machines)
}

#[test]
fn a_run_over_the_wire() {
    let (ends, machines) = run(None);
    for end in &ends {
        assert_eq!(end.ending, Ending::Finished);
        assert!(end.finished.is_some() && end.clock.is_some(), "{end:?}");
    }
    assert!(machines.iter().all(|machine| machine.over == [None]));
}

#[test]
fn a_cut_wire_is_noticed_at_both_ends_and_costs_one_share() {
    let (ends, machines) = run(Some(Nanos::from_secs(1)));
    let Ending::Lost { why } = &ends[0].ending else {
        panic!("{:?}", ends[0]);
    };
    assert!(
        why.contains("no sign of life") || why.contains("nothing came"),
        "{why}"
    );
    assert_eq!(ends[1].ending, Ending::Finished);
    let why = machines[0].over[0].clone().unwrap();
    assert!(why.contains("coordinator"), "{why}");
    assert_eq!(machines[1].over, [None]);
}
