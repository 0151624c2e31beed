//! The ring between threads, with both ends on one: the cost of its own steps and copies; and ZeroMQ's
//! protocol: frames written and read.

mod support;

use std::hint::black_box;

use criterion::{Criterion, Throughput};
use ridgeline_roofline::passes::ring::Alone;
use ridgeline_transport::Flow;
use ridgeline_transport_zmq::Kind;
use ridgeline_transport_zmq::zmtp::{Events, Met, Rules, Security, Session, command, frame};

use crate::support::CpuTime;

const MESSAGES: u64 = 1_000;

fn main() {
    let mut criterion = support::criterion();
    transport(&mut criterion);
    zmtp(&mut criterion);
    criterion.final_summary();
}

fn transport(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("transport");
    group.throughput(Throughput::Elements(MESSAGES));
    for (name, bytes) in [("32_bytes", 32), ("2_kib", 2 << 10), ("32_kib", 32 << 10)] {
        let mut ring = Alone::new(bytes);
        assert_eq!(ring.pass(MESSAGES), MESSAGES);
        group.bench_function(name, |bencher| {
            bencher.iter(|| ring.pass(black_box(MESSAGES)));
        });
    }
    group.finish();
}

/// Bytes of frames that are written or read at a time, as a driver lends or takes them.
const BATCH_BYTES: usize = 64 << 10;

fn zmtp(criterion: &mut Criterion<CpuTime>) {
    let mut group = criterion.benchmark_group("zmtp");
    for (name, bytes) in [("128_bytes", 128), ("4_kib", 4 << 10)] {
        let message = vec![7; bytes];
        let count = BATCH_BYTES / bytes;
        let mut frames = Vec::with_capacity(2 * BATCH_BYTES);
        let write = |frames: &mut Vec<u8>| {
            frames.clear();
            (0..count).for_each(|_| frame::put(frames, 0, black_box(&message)));
        };
        group.throughput(Throughput::Elements(count as u64));
        group.bench_function(format!("write_{name}"), |bencher| {
            bencher.iter(|| write(&mut frames));
        });
        let (mut session, mut seen) = met();
        let mut read = |frames: &[u8]| {
            seen.messages = 0;
            let flow = session.receive(black_box(frames), Flow::More, &mut seen);
            assert_eq!((flow, seen.messages), (Ok(Flow::More), count));
        };
        read(&frames);
        group.bench_function(format!("read_{name}"), |bencher| {
            bencher.iter(|| read(&frames));
        });
    }
    group.finish();
}

#[derive(Default)]
struct Seen {
    messages: usize,
    sum: u64,
}

impl Events for Seen {
    fn met(&mut self, _: &Met<'_>) {}

    #[inline]
    fn message(&mut self, message: &[u8]) -> Flow {
        self.messages += 1;
        self.sum += u64::from(message[0]);
        Flow::More
    }

    fn answer(&mut self, _: &[u8]) {}
}

/// A receiving session whose handshake is done.
fn met() -> (Session, Seen) {
    let mut session = Session::new(Rules {
        kind: Kind::Pull,
        identity: Vec::new(),
        message_bytes_max: 1 << 20,
        security: Security::Null,
    });
    let mut handshake = session.greeting().to_vec();
    let mut properties = Vec::new();
    command::put_property(&mut properties, "Socket-Type", b"PUSH");
    let ready = command::body("READY", &properties);
    frame::put(&mut handshake, frame::COMMAND, &ready);
    let mut seen = Seen::default();
    let flow = session.receive(&handshake, Flow::More, &mut seen);
    assert_eq!(flow, Ok(Flow::More));
    (session, seen)
}
