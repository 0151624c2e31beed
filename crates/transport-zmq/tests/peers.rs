//! Peers that come, go, fall silent or talk nonsense, on the virtual network: all times are exact.
#![expect(clippy::unwrap_used, reason = "a test")]

use ridgeline_clock::{Clock, Nanos, SimClock};
use ridgeline_net::sim::{Actions, Fate, SimConfig, SimDriver, SimNet, SimPeer};
use ridgeline_net::{Driver, Peer};
use ridgeline_transport::conformance::Log;
use ridgeline_transport::{Cause, Limits, Refused, To, Transport};
use ridgeline_transport_zmq::zmtp::{Rules, Security, Session, command, frame};
use ridgeline_transport_zmq::{Address, Kind, Zmq};

type End = Zmq<SimDriver, SimClock>;

/// An end and what it saw.
struct Side {
    end: End,
    log: Log,
}

struct World {
    net: SimNet,
    clock: SimClock,
}

impl World {
    fn new() -> Self {
        let net = SimNet::new(SimConfig::default());
        let clock = net.clock();
        Self { net, clock }
    }

    fn side(&self, kind: Kind, limits: Limits) -> Side {
        let driver = self.net.driver(limits.peers_max);
        Side {
            end: Zmq::new(driver, self.clock.clone(), kind, limits),
            log: Log::default(),
        }
    }

    /// Turns all of them, and lets time pass, until it is so or this time has come.
    fn until(&self, sides: &mut [&mut Side], end: Nanos, done: impl Fn(&[&mut Side]) -> bool) {
        while !done(sides) && self.clock.now() < end {
            let mut busy = false;
            for side in &mut *sides {
                let turn = side.end.turn(Nanos::ZERO, &mut side.log).unwrap();
                busy |= turn.messages > 0 || turn.events > 0;
            }
            if !busy {
                let step = self.clock.now() + Nanos::from_millis(5);
                self.net.advance(step.min(end));
            }
        }
    }

    fn run(&self, sides: &mut [&mut Side], span: Nanos) {
        self.until(sides, self.clock.now() + span, |_| false);
    }
}

fn any() -> Address {
    "tcp://127.0.0.1:0".parse().unwrap()
}

const SECOND: Nanos = Nanos::from_secs(1);
const MINUTE: Nanos = Nanos::from_secs(60);

/// A router and a dealer that have met.
fn met(world: &World, limits: Limits) -> (Side, Side, Address) {
    let (mut router, mut dealer) = (
        world.side(Kind::Router, limits),
        world.side(Kind::Dealer, limits),
    );
    dealer.end = dealer.end.named("worker 7");
    let address = router.end.bind(&any()).unwrap();
    dealer.end.connect(&address).unwrap();
    world.until(&mut [&mut router, &mut dealer], MINUTE, |sides| {
        sides.iter().all(|side| side.log.peer().is_some())
    });
    (router, dealer, address)
}

fn cause(side: &Side) -> Option<&Cause> {
    side.log.left().map(|left| &left.cause)
}

#[test]
fn peers_are_named() {
    let world = World::new();
    let (router, dealer, address) = met(&world, Limits::control());
    let name = |side: &Side| side.log.seen(side.log.peer().unwrap()).who.clone();
    assert_eq!(name(&router), "worker 7");
    assert_eq!(name(&dealer), address.to_string());
}

#[test]
fn a_peer_that_stops_is_silent() {
    let world = World::new();
    let (router, mut dealer, _) = met(&world, Limits::control());
    let before = world.clock.now();
    // The router's process is stopped: it is there, and does nothing.
    world.until(&mut [&mut dealer], before + MINUTE, |sides| {
        sides[0].log.left().is_some()
    });
    let took = world.clock.now() - before;
    let limit = Limits::control().silence_max;
    assert!(took >= limit && took < limit + SECOND, "{took}");
    assert!(
        matches!(cause(&dealer), Some(Cause::Silent(_))),
        "{:?}",
        cause(&dealer)
    );
    drop(router);
}

#[test]
fn pings_keep_idle_peers() {
    let world = World::new();
    let (mut router, mut dealer, _) = met(&world, Limits::control());
    world.run(&mut [&mut router, &mut dealer], Nanos::from_secs(100));
    assert_eq!((cause(&router), cause(&dealer)), (None, None));
}

#[test]
fn data_ends_ask_nobody() {
    let world = World::new();
    let (router, mut dealer, _) = met(&world, Limits::data());
    world.run(&mut [&mut dealer], Nanos::from_secs(100));
    assert_eq!(cause(&dealer), None);
    drop(router);
}

#[test]
fn a_cut_wire_is_noticed_at_both_ends_and_mended() {
    let world = World::new();
    let (mut router, mut dealer, address) = met(&world, Limits::control());
    let there = address.resolve().unwrap();
    world.net.sever(&there);
    world.net.fate(&there, Fate::Silent);
    let first = dealer.log.peer().unwrap();
    let end = world.clock.now() + MINUTE;
    world.until(&mut [&mut router, &mut dealer], end, |sides| {
        sides.iter().all(|side| side.log.left().is_some())
    });
    for side in [&router, &dealer] {
        assert!(
            matches!(cause(side), Some(Cause::Silent(_))),
            "{:?}",
            cause(side)
        );
    }
    // Attempts that nobody answers are given up, too, and told once.
    world.run(&mut [&mut router, &mut dealer], Nanos::from_secs(30));
    let unmet = dealer.log.unmet();
    assert_eq!(unmet.len(), 1, "{unmet:?}");
    assert_eq!(unmet[0].0, address.to_string());
    world.net.fate(&there, Fate::Answered);
    let end = world.clock.now() + MINUTE;
    world.until(&mut [&mut router, &mut dealer], end, |sides| {
        sides.iter().all(|side| side.log.peer().is_some())
    });
    let again = dealer.log.peer().unwrap();
    assert_ne!(again, first);
    assert_eq!(dealer.end.send(To::Peer(first), b"x"), Err(Refused::Gone));
    dealer.end.send(To::Peer(again), b"back").unwrap();
    world.run(&mut [&mut router, &mut dealer], SECOND);
    assert_eq!(router.log.messages(), [b"back"]);
}

#[test]
fn an_end_that_comes_back_is_connected_to_again() {
    let world = World::new();
    let (router, mut dealer, address) = met(&world, Limits::control());
    drop(router);
    world.run(&mut [&mut dealer], Nanos::from_secs(10));
    assert_eq!(
        dealer.log.left().map(|left| &left.cause),
        Some(&Cause::Reset)
    );
    let unreachable = &dealer.log.unmet()[0].1;
    assert_eq!(
        unreachable.to_string(),
        "it can't be reached: nobody listens there"
    );
    assert_eq!(dealer.log.unmet().len(), 1);
    let mut router = world.side(Kind::Router, Limits::control());
    router.end.bind(&address).unwrap();
    let before = world.clock.now();
    world.until(&mut [&mut router, &mut dealer], before + MINUTE, |sides| {
        sides.iter().all(|side| side.log.peer().is_some())
    });
    let took = world.clock.now() - before;
    assert!(took <= Limits::control().reconnect_max + SECOND, "{took}");
}

#[test]
fn whoever_was_let_go_is_not_connected_to_again() {
    let world = World::new();
    let (mut router, mut dealer, _) = met(&world, Limits::control());
    let there = dealer.log.peer().unwrap();
    dealer.end.send(To::Any, b"the last words").unwrap();
    dealer.end.part(there);
    world.run(&mut [&mut router, &mut dealer], Nanos::from_secs(20));
    assert_eq!(cause(&dealer), Some(&Cause::Local));
    assert_eq!(cause(&router), Some(&Cause::Closed));
    assert_eq!(router.log.messages(), [b"the last words"]);
    assert_eq!(
        (dealer.log.joined().len(), router.log.joined().len()),
        (1, 1)
    );
}

#[test]
fn a_slow_peer_holds_up_nobody() {
    let world = World::new();
    let limits = Limits {
        message_bytes_max: 10_000,
        queued_bytes_max: 100_000,
        ..Limits::data()
    };
    let mut push = world.side(Kind::Push, limits);
    let mut slow = world.side(Kind::Pull, limits);
    let mut fast = world.side(Kind::Pull, limits);
    for pull in [&mut slow, &mut fast] {
        let address = pull.end.bind(&any()).unwrap();
        push.end.connect(&address).unwrap();
    }
    world.until(&mut [&mut push, &mut slow, &mut fast], MINUTE, |sides| {
        sides[0].log.joined().len() == 2
    });
    let (mut sent, mut full) = (0_usize, 0);
    while sent < 2_000 {
        match push.end.send(To::Any, &[5; 5_000]) {
            Ok(()) => sent += 1,
            Err(refused) => {
                assert_eq!(refused, Refused::Full);
                full += 1;
                assert!(full < 100_000, "the slow one stalls the fast one");
                world.run(&mut [&mut push, &mut fast], Nanos::from_micros(50));
            }
        }
    }
    world.run(&mut [&mut push, &mut fast], SECOND);
    let fast = fast.log.messages().len();
    assert!(fast > 1_900, "{fast} of 2000 went to the one that reads");
    // What the slow one did not take waits within its bounds.
    assert!(push.end.queued_all().bytes <= 100_000);
}

#[test]
fn one_peer_too_many_waits_for_a_place() {
    let world = World::new();
    let limits = Limits {
        peers_max: 2,
        ..Limits::control()
    };
    let mut router = world.side(Kind::Router, limits);
    let address = router.end.bind(&any()).unwrap();
    let mut dealers: Vec<Side> = (0..3)
        .map(|_| world.side(Kind::Dealer, Limits::control()))
        .collect();
    for dealer in &mut dealers {
        dealer.end.connect(&address).unwrap();
    }
    let [first, second, third] = &mut dealers[..] else {
        panic!("there are three");
    };
    world.run(&mut [&mut router, first, second, third], SECOND);
    assert_eq!(router.log.joined().len(), 2);
    let here = [&*first, second, third].map(|dealer| dealer.log.peer().is_some());
    assert_eq!(here.iter().filter(|here| **here).count(), 2);
    let there = router.log.peer().unwrap();
    router.end.part(there);
    world.run(
        &mut [&mut router, first, second, third],
        Nanos::from_secs(10),
    );
    assert!(router.log.joined().len() > 2, "a place was free");
}

/// A peer that answers every connection with these bytes.
#[derive(Debug)]
struct Says(Vec<u8>);

impl SimPeer for Says {
    fn on_accept(&mut self, _: u32, actions: &mut Actions) {
        if !self.0.is_empty() {
            actions.send(&self.0);
        }
    }

    fn on_bytes(&mut self, _: u32, _: &[u8], _: &mut Actions) {}
}

/// A peer that shakes hands, asks whether this end is there all the time, and reads nothing.
#[derive(Debug)]
struct Asks;

impl SimPeer for Asks {
    fn on_accept(&mut self, _: u32, actions: &mut Actions) {
        let rules = Rules {
            kind: Kind::Router,
            identity: Vec::new(),
            message_bytes_max: 0,
            security: Security::Null,
        };
        let mut bytes = Session::new(rules).greeting().to_vec();
        let mut properties = Vec::new();
        command::put_property(&mut properties, "Socket-Type", b"ROUTER");
        let ready = command::body("READY", &properties);
        frame::put(&mut bytes, frame::COMMAND, &ready);
        for _ in 0..200_000 {
            frame::put(
                &mut bytes,
                frame::COMMAND,
                b"\x04PING\0\x05sixteen bytes ..",
            );
        }
        actions.send(&bytes).hold();
    }

    fn on_bytes(&mut self, _: u32, _: &[u8], _: &mut Actions) {}
}

#[test]
fn answers_that_nobody_reads_are_bounded() {
    let world = World::new();
    let place = Peer::Tcp(([127, 0, 0, 1], 9).into());
    world.net.listen(&place, Asks).unwrap();
    let limits = Limits {
        message_bytes_max: 1_000,
        queued_bytes_max: 50_000,
        ..Limits::control()
    };
    let mut dealer = world.side(Kind::Dealer, limits);
    dealer
        .end
        .connect(&"tcp://127.0.0.1:9".parse().unwrap())
        .unwrap();
    let start = world.clock.now();
    while world.clock.now() < start + SECOND {
        world.run(&mut [&mut dealer], Nanos::from_millis(1));
        let waiting = dealer.end.queued_all().bytes;
        assert!(waiting <= 70_000, "{waiting} bytes of answers wait");
    }
    assert_eq!(dealer.log.joined().len(), 1);
    // All of them would be 4.6 MB.
    let sent_bytes = dealer.end.driver().counters().sent_bytes;
    assert!(
        (10_000..500_000).contains(&sent_bytes),
        "{sent_bytes} bytes of answers"
    );
}

/// What a receiver that holds makes both sides keep: the sender's queue, what the network holds, and what
/// was read before reading stopped.
#[test]
fn a_receiver_that_holds_keeps_what_was_read_and_no_more() {
    let world = World::new();
    let limits = Limits {
        message_bytes_max: 10_000,
        queued_bytes_max: 100_000,
        ..Limits::data()
    };
    let (mut near, mut far, _) = met(&world, limits);
    near.log.set_room(0);
    let mut taken = 0_u64;
    for _ in 0..3_000 {
        while far.end.send(To::Any, &[1; 5_000]).is_ok() {
            taken += 5_000;
        }
        world.run(&mut [&mut near, &mut far], Nanos::from_micros(100));
    }
    let network = u64::from(SimConfig::default().shape.send_buffer_bytes);
    let bound = 100_000 + 2 * network + u64::from(SimConfig::default().read_bytes_max);
    assert!(taken > network, "{taken} bytes");
    assert!(
        taken <= bound,
        "{taken} bytes taken, at most {bound} may be kept"
    );
    assert_eq!(near.log.messages().len(), 0);
}

#[test]
fn strangers_are_told_by_name() {
    let greeting = |version: u8, mechanism: &[u8]| {
        let mut bytes = vec![0; 64];
        (bytes[0], bytes[9], bytes[10]) = (0xFF, 0x7F, version);
        bytes[12..12 + mechanism.len()].copy_from_slice(mechanism);
        bytes
    };
    for (bytes, word) in [
        (
            b"HTTP/1.1 400 Bad Request\r\n".to_vec(),
            "does not speak ZMTP",
        ),
        (greeting(1, b""), "ZMTP 2.0"),
        (greeting(3, b"PLAIN"), "PLAIN"),
        // Says nothing: given up after a while.
        (Vec::new(), "nothing came from it"),
    ] {
        let world = World::new();
        let place = Peer::Tcp(([127, 0, 0, 1], 9).into());
        world.net.listen(&place, Says(bytes)).unwrap();
        let mut push = world.side(Kind::Push, Limits::data());
        let address: Address = "tcp://127.0.0.1:9".parse().unwrap();
        push.end.connect(&address).unwrap();
        world.run(&mut [&mut push], MINUTE);
        let unmet = push.log.unmet();
        assert_eq!(unmet.len(), 1, "{unmet:?}");
        assert_eq!(unmet[0].0, "tcp://127.0.0.1:9");
        assert!(unmet[0].1.to_string().contains(word), "{}", unmet[0].1);
        assert_eq!(push.end.send(To::Any, b"x"), Err(Refused::NoPeer));
    }
}

#[test]
fn kinds_that_do_not_fit_refuse_each_other() {
    let world = World::new();
    let mut router = world.side(Kind::Router, Limits::control());
    let mut push = world.side(Kind::Push, Limits::data());
    let address = router.end.bind(&any()).unwrap();
    push.end.connect(&address).unwrap();
    world.run(&mut [&mut router, &mut push], SECOND);
    for (side, theirs) in [(&router, "PUSH"), (&push, "ROUTER")] {
        assert_eq!(side.log.joined(), []);
        let said = side.log.unmet()[0].1.to_string();
        assert!(
            said.starts_with("refused: ") && said.contains(theirs),
            "{said}"
        );
    }
}

#[test]
fn only_this_machine_can_be_listened_on() {
    let world = World::new();
    let mut pull = world.side(Kind::Pull, Limits::data());
    for text in [
        "tcp://*:0",
        "tcp://0.0.0.0:7000",
        "tcp://[::]:7000",
        "tcp://10.0.0.1:7000",
    ] {
        let address: Address = text.parse().unwrap();
        let error = pull.end.bind(&address).unwrap_err().to_string();
        assert!(
            error.starts_with(text) && error.contains("anybody could connect"),
            "{error}"
        );
    }
}

/// A message that is longer than the receiver allows ends the connection, by name.
#[test]
fn a_message_longer_than_the_other_side_takes_is_named() {
    let world = World::new();
    let small = Limits {
        message_bytes_max: 100,
        ..Limits::control()
    };
    let mut router = world.side(Kind::Router, small);
    let mut dealer = world.side(Kind::Dealer, Limits::control());
    let address = router.end.bind(&any()).unwrap();
    dealer.end.connect(&address).unwrap();
    world.until(&mut [&mut router, &mut dealer], MINUTE, |sides| {
        sides.iter().all(|side| side.log.peer().is_some())
    });
    dealer.end.send(To::Any, &[0; 101]).unwrap();
    world.run(&mut [&mut router, &mut dealer], Nanos::from_millis(10));
    let expected = Cause::TooLong {
        bytes: 101,
        bytes_max: 100,
    };
    assert_eq!(cause(&router), Some(&expected));
    assert_eq!(cause(&dealer), Some(&Cause::Reset));
}
