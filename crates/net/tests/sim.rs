//! The virtual network: times to the nanosecond, faults as asked for, and the same again from the
//! same seed.

use bytes::Bytes;
use proptest::prelude::*;
use ridgeline_clock::{Arrival, Clock, Nanos};
use ridgeline_net::sim::{
    Actions, Ended, Fate, Shape, SimConfig, SimDriver, SimNet, SimPeer, lockstep,
};
use ridgeline_net::{Close, Closed, Commands, Driver, DriverError, Peer, Sink, Token};

/// Everything a sink is told, in order.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    Opened(u32, Nanos),
    Submitted(u32, Nanos),
    Sent(u32, Nanos),
    Received(u32, Vec<u8>, Arrival),
    Ended(u32, Nanos),
    Closed(u32, Closed, Nanos),
}

/// Sends a request on every connection that comes up; keeps what it is told.
#[derive(Debug, Default)]
struct Trace {
    request: &'static [u8],
    told: Vec<Told>,
}

impl Trace {
    fn received(&self, index: u32) -> Vec<u8> {
        let of = |told: &Told| match told {
            Told::Received(i, bytes, _) if *i == index => bytes.clone(),
            _ => Vec::new(),
        };
        self.told.iter().flat_map(of).collect()
    }

    fn arrivals(&self) -> Vec<Arrival> {
        let of = |told: &Told| match told {
            Told::Received(_, _, arrival) => Some(*arrival),
            _ => None,
        };
        self.told.iter().filter_map(of).collect()
    }

    fn closed(&self, index: u32) -> Option<(Closed, Nanos)> {
        self.told.iter().find_map(|told| match told {
            Told::Closed(i, cause, at) if *i == index => Some((*cause, *at)),
            _ => None,
        })
    }
}

impl Sink for Trace {
    fn accepted(&mut self, _: &mut Commands, _: u32, _: Nanos) -> Option<Token> {
        None
    }
    fn opened(&mut self, commands: &mut Commands, token: Token, at: Nanos) {
        self.told.push(Told::Opened(token.index, at));
        if !self.request.is_empty() {
            commands.send(token, self.request.to_vec(), Bytes::new());
        }
    }
    fn submitted(&mut self, token: Token, at: Nanos) {
        self.told.push(Told::Submitted(token.index, at));
    }
    fn sent(&mut self, _: &mut Commands, token: Token, _: Vec<u8>, at: Nanos) {
        self.told.push(Told::Sent(token.index, at));
    }
    fn received(&mut self, _: &mut Commands, token: Token, bytes: &[u8], arrival: Arrival) {
        self.told
            .push(Told::Received(token.index, bytes.to_vec(), arrival));
    }
    fn ended(&mut self, commands: &mut Commands, token: Token, arrival: Arrival) {
        self.told.push(Told::Ended(token.index, arrival.at));
        commands.close(token, Close::Fin);
    }
    fn closed(&mut self, _: &mut Commands, token: Token, cause: Closed, at: Nanos) {
        self.told.push(Told::Closed(token.index, cause, at));
    }
}

/// Answers the first bytes of a connection with `events` sends, `pace` apart, then FIN.
#[derive(Debug)]
struct Streamer {
    first: Nanos,
    pace: Nanos,
    events: usize,
}

impl Streamer {
    fn event(number: usize) -> Vec<u8> {
        format!("data: {number:0>width$}\n\n", width = 1 + number % 40).into_bytes()
    }

    fn text(&self) -> Vec<u8> {
        (0..self.events).flat_map(Self::event).collect()
    }
}

impl SimPeer for Streamer {
    fn on_bytes(&mut self, _: u32, _: &[u8], actions: &mut Actions) {
        actions.wait(self.first);
        for number in 0..self.events {
            actions.send(&Self::event(number)).wait(self.pace);
        }
        actions.fin();
    }
}

const SERVER: ([u8; 4], u16) = ([10, 0, 0, 1], 80);

fn server() -> Peer {
    Peer::Tcp(SERVER.into())
}

fn token(index: u32) -> Token {
    Token {
        index,
        generation: 0,
    }
}

/// Turns until nothing would ever happen.
fn run(driver: &mut SimDriver, sink: &mut Trace) {
    loop {
        match driver.turn(Nanos::MAX, sink) {
            Ok(_) => {}
            Err(DriverError::Os { call: "turn", .. }) => return,
            Err(error) => panic!("{error}"),
        }
    }
}

/// A run of `connections` against a streamer; what was told, and when it was over.
fn streamed(config: SimConfig, connections: u32, events: usize) -> (Vec<Told>, Nanos, u64) {
    let net = SimNet::new(config);
    let (first, pace) = (Nanos::from_millis(2), Nanos::from_micros(300));
    let script = Streamer {
        first,
        pace,
        events,
    };
    let peer = net.listen(&server(), script).expect("a free address");
    let mut driver = net.driver(connections);
    for index in 0..connections {
        driver.commands().open(token(index), peer.clone(), None);
    }
    let mut sink = Trace {
        request: b"GET",
        ..Trace::default()
    };
    run(&mut driver, &mut sink);
    (sink.told, net.clock().now(), net.events())
}

#[test]
fn every_time_is_what_the_shape_says() {
    let shape = Shape {
        latency: Nanos::from_micros(100),
        ..Shape::default()
    };
    let (told, _, _) = streamed(
        SimConfig {
            shape,
            ..SimConfig::default()
        },
        1,
        2,
    );
    let us = Nanos::from_micros;
    let stamp = |at, not_before| Arrival {
        at,
        not_before,
        reaped: at,
    };
    assert_eq!(
        told,
        [
            Told::Opened(0, us(200)),
            Told::Submitted(0, us(200)),
            Told::Sent(0, us(200)),
            // One way there, 2 ms, one way back.
            Told::Received(0, Streamer::event(0), stamp(us(2_400), us(200))),
            Told::Received(0, Streamer::event(1), stamp(us(2_700), us(2_400))),
            Told::Ended(0, us(3_000)),
            Told::Closed(0, Closed::Local, us(3_000)),
        ]
    );
}

#[test]
fn a_program_told_late_reads_several_segments_and_knows_the_width() {
    let config = SimConfig {
        wake_delay: Nanos::from_micros(700),
        ..SimConfig::default()
    };
    let net = SimNet::new(config);
    let script = Streamer {
        first: Nanos::from_millis(2),
        pace: Nanos::from_micros(300),
        events: 5,
    };
    let expected = script.text();
    let peer = net.listen(&server(), script).expect("a free address");
    let mut driver = net.driver(1);
    driver.commands().open(token(0), peer, None);
    let mut sink = Trace {
        request: b"GET",
        ..Trace::default()
    };
    run(&mut driver, &mut sink);
    assert_eq!(sink.received(0), expected);
    // Events 0, 1, 2 within 700 us of the first, then 3 and 4.
    let arrivals = sink.arrivals();
    assert_eq!(arrivals.len(), 2);
    assert_eq!(arrivals[0].harness_delay(), Nanos::from_micros(100));
    assert_eq!(arrivals[1].not_before, arrivals[0].at);
    assert_eq!(arrivals[1].width(), Nanos::from_micros(600));
}

#[test]
fn each_fate_has_its_cause_and_its_time() {
    let config = SimConfig {
        ports_max: 1,
        connections_max: 5,
        ..SimConfig::default()
    };
    let net = SimNet::new(config);
    let at = |port| Peer::Tcp(([10, 0, 0, 2], port).into());
    net.fate(&at(1), Fate::Silent);
    net.fate(&at(2), Fate::Unreachable);
    net.fate(&at(3), Fate::Refused);
    let script = Streamer {
        first: Nanos::ZERO,
        pace: Nanos::ZERO,
        events: 0,
    };
    net.listen(&at(3), script).unwrap();
    let script = Streamer {
        first: Nanos::ZERO,
        pace: Nanos::ZERO,
        events: 0,
    };
    net.listen(&at(4), script).unwrap();
    let mut driver = net.driver(8);
    for (index, port) in [1, 2, 3, 4, 4, 4].into_iter().enumerate() {
        let index = u32::try_from(index).unwrap();
        driver.commands().open(token(index), at(port), None);
    }
    let mut sink = Trace::default();
    driver.turn(Nanos::ZERO, &mut sink).unwrap();
    assert_eq!(sink.closed(4), Some((Closed::NoPorts, Nanos::ZERO)));
    assert_eq!(sink.closed(5), Some((Closed::NoResources, Nanos::ZERO)));
    run(&mut driver, &mut sink);
    let us = Nanos::from_micros;
    assert_eq!(
        sink.closed(0),
        Some((Closed::TimedOut, Nanos::from_secs(127)))
    );
    assert_eq!(sink.closed(1), Some((Closed::Unreachable, us(10))));
    assert_eq!(sink.closed(2), Some((Closed::Refused, us(20))));
    assert_eq!(sink.closed(3), None, "it is up");
}

/// Reads nothing for a while, then everything; counts.
#[derive(Debug)]
struct Slow {
    until: Nanos,
    seen: u64,
    expected: u64,
}

impl SimPeer for Slow {
    fn on_accept(&mut self, _: u32, actions: &mut Actions) {
        actions.hold().wait(self.until).timer();
    }
    fn on_timer(&mut self, _: u32, actions: &mut Actions) {
        actions.resume();
    }
    fn on_bytes(&mut self, _: u32, bytes: &[u8], actions: &mut Actions) {
        assert!(actions.now() >= self.until, "it does not read before");
        self.seen += bytes.len() as u64;
    }
    fn on_end(&mut self, _: u32, ended: Ended, actions: &mut Actions) {
        assert_eq!((self.seen, ended), (self.expected, Ended::Fin));
        actions.send(b"all").fin();
    }
}

#[test]
fn a_send_larger_than_the_buffer_waits_for_its_reader() {
    let net = SimNet::new(SimConfig::default());
    let (until, expected) = (Nanos::from_secs(3), 3 << 20);
    let script = Slow {
        until,
        seen: 0,
        expected,
    };
    let peer = net.listen(&server(), script).expect("a free address");
    let mut driver = net.driver(1);
    let body = Bytes::from(vec![7; 3 << 20]);
    driver.commands().open(token(0), peer, None);
    driver.commands().send(token(0), Vec::new(), body);
    driver.commands().close(token(0), Close::Half);
    let mut sink = Trace::default();
    while driver.turn(until, &mut sink).unwrap().reaped < until {}
    let buffered = u64::from(Shape::default().send_buffer_bytes);
    assert_eq!(driver.counters().sent_bytes, buffered);
    run(&mut driver, &mut sink);
    assert_eq!(driver.counters().sent_bytes, expected);
    assert_eq!(sink.received(0), b"all");
    assert_eq!(sink.closed(0).map(|(cause, _)| cause), Some(Closed::Local));
}

#[test]
fn a_script_may_reset_and_be_reset() {
    #[derive(Debug)]
    struct Resets;
    impl SimPeer for Resets {
        fn on_bytes(&mut self, _: u32, _: &[u8], actions: &mut Actions) {
            actions.send(b"he").wait(Nanos::from_millis(1)).rst();
        }
    }
    let net = SimNet::new(SimConfig::default());
    let peer = net.listen(&server(), Resets).unwrap();
    let mut driver = net.driver(1);
    driver.commands().open(token(0), peer, None);
    let mut sink = Trace {
        request: b"GET",
        ..Trace::default()
    };
    run(&mut driver, &mut sink);
    assert_eq!(sink.received(0), b"he");
    let at = Nanos::from_micros(40) + Nanos::from_millis(1);
    assert_eq!(sink.closed(0), Some((Closed::PeerReset, at)));
}

#[test]
fn two_listeners_cannot_share_an_address() {
    let net = SimNet::new(SimConfig::default());
    let mut driver = net.driver(1);
    driver.listen(&server()).unwrap();
    let script = Streamer {
        first: Nanos::ZERO,
        pace: Nanos::ZERO,
        events: 0,
    };
    assert!(matches!(
        net.listen(&server(), script),
        Err(DriverError::Listen { .. })
    ));
}

fn config() -> impl Strategy<Value = SimConfig> {
    let faults = (0..400_000_u32, 0..800_000_u32, 0..20_000_u32, 0..20_000_u32);
    let sizes = (1..3_000_u32, 1..4_000_u32, 1..5_000_u32);
    let times = (0..200_000_u64, 0..200_000_u64, 0..500_000_u64);
    (any::<u64>(), faults, sizes, times, any::<bool>()).prop_map(
        |(
            seed,
            (split_ppm, merge_ppm, stall_ppm, reset_ppm),
            sizes,
            (latency, jitter, wake),
            rx_timestamps,
        )| SimConfig {
            seed,
            shape: Shape {
                latency: Nanos(latency),
                jitter: Nanos(jitter),
                segment_bytes_max: sizes.0,
                split_ppm,
                merge_ppm,
                stall_ppm,
                reset_ppm,
                send_buffer_bytes: sizes.1,
                ..Shape::default()
            },
            wake_jitter: Nanos(wake),
            rx_timestamps,
            read_bytes_max: sizes.2,
            ..SimConfig::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn the_same_seed_tells_the_same_story(config in config()) {
        let first = streamed(config, 8, 20);
        let second = streamed(config, 8, 20);
        prop_assert_eq!(first, second);
    }

    #[test]
    fn whatever_the_shape_all_bytes_come_in_order_or_a_reset_is_told(config in config()) {
        let (told, ..) = streamed(config, 8, 20);
        let trace = Trace { told, ..Trace::default() };
        let whole = Streamer { first: Nanos::ZERO, pace: Nanos::ZERO, events: 20 }.text();
        for index in 0..8 {
            let got = trace.received(index);
            let (cause, _) = trace.closed(index).expect("every connection ends");
            if cause == Closed::Local {
                prop_assert_eq!(&got, &whole);
            } else {
                prop_assert_eq!(cause, Closed::PeerReset);
                prop_assert!(whole.starts_with(&got));
            }
        }
        for arrival in trace.arrivals() {
            prop_assert!(arrival.not_before <= arrival.at && arrival.at <= arrival.reaped);
        }
    }
}

#[test]
fn another_seed_tells_another_story() {
    let run = |seed| {
        let jitter = Nanos::from_micros(50);
        let shape = Shape {
            jitter,
            ..Shape::default()
        };
        streamed(
            SimConfig {
                seed,
                shape,
                ..SimConfig::default()
            },
            8,
            20,
        )
    };
    assert_ne!(run(1), run(2));
}

/// Accepts everybody and sends back what comes.
#[derive(Debug, Default)]
struct Echo {
    accepted: u32,
}

impl Sink for Echo {
    fn accepted(&mut self, _: &mut Commands, _: u32, _: Nanos) -> Option<Token> {
        self.accepted += 1;
        Some(token(self.accepted - 1))
    }
    fn opened(&mut self, _: &mut Commands, _: Token, _: Nanos) {}
    fn submitted(&mut self, _: Token, _: Nanos) {}
    fn sent(&mut self, _: &mut Commands, _: Token, _: Vec<u8>, _: Nanos) {}
    fn received(&mut self, commands: &mut Commands, token: Token, bytes: &[u8], _: Arrival) {
        commands.send(token, bytes.to_vec(), Bytes::new());
        commands.close(token, Close::Fin);
    }
    fn ended(&mut self, _: &mut Commands, _: Token, _: Arrival) {}
    fn closed(&mut self, _: &mut Commands, _: Token, _: Closed, _: Nanos) {}
}

#[test]
fn two_drivers_in_lockstep_see_one_time() {
    let net = SimNet::new(SimConfig::default());
    let (mut client, mut server) = (net.driver(1), net.driver(1));
    let peer = server
        .listen(&Peer::Tcp(([10, 0, 0, 1], 0).into()))
        .unwrap();
    client.commands().open(token(0), peer, None);
    let request: &[u8] = b"GET";
    let mut near = Trace {
        request,
        ..Trace::default()
    };
    let mut far = Echo::default();
    let deadline = Nanos::from_millis(5);
    let mut now = Nanos::ZERO;
    while now < deadline {
        let later = lockstep((&mut client, &mut near), (&mut server, &mut far), deadline).unwrap();
        assert!(later >= now);
        now = later;
    }
    assert_eq!(now, deadline, "the clock stops where it is told to");
    let us = Nanos::from_micros;
    let arrival = Arrival {
        at: us(40),
        not_before: us(20),
        reaped: us(40),
    };
    assert_eq!(
        near.told,
        [
            Told::Opened(0, us(20)),
            Told::Submitted(0, us(20)),
            Told::Sent(0, us(20)),
            Told::Received(0, b"GET".to_vec(), arrival),
            Told::Ended(0, us(40)),
            Told::Closed(0, Closed::Local, us(40)),
        ]
    );
}
