//! In-process ends on threads of their own: nothing is lost however the two overlap.
#![expect(clippy::unwrap_used, reason = "a test")]

use std::thread;

use ridgeline_clock::Nanos;
use ridgeline_transport::{
    Flow, InProcess, Left, Limits, PeerId, Receiver, Refused, To, Transport,
};

/// Sums what comes, and checks its order.
#[derive(Debug, Default)]
struct Sum {
    next: u64,
    over: bool,
}

impl Receiver for Sum {
    fn joined(&mut self, _: PeerId, _: &str) {}

    fn message(&mut self, _: PeerId, message: &[u8]) -> Flow {
        let number = u64::from_le_bytes(message[..8].try_into().unwrap());
        assert_eq!(number, self.next);
        self.next += 1;
        Flow::More
    }

    fn left(&mut self, _: PeerId, _: &Left) {
        self.over = true;
    }
}

/// A queue that is nearly always full or empty, so that both sides sleep and wake each other.
#[test]
fn two_threads_wake_each_other() {
    const MESSAGES: u64 = 100_000;
    let limits = Limits {
        message_bytes_max: 64,
        queued_messages_max: 3,
        queued_bytes_max: 100,
        ..Limits::data()
    };
    let (mut near, mut far) = InProcess::pair(limits);
    let reader = thread::spawn(move || {
        let mut sum = Sum::default();
        while !sum.over {
            far.turn(Nanos::MAX, &mut sum).unwrap();
        }
        sum.next
    });
    let mut sum = Sum::default();
    for number in 0..MESSAGES {
        let length = 8 + usize::try_from(number % 30).unwrap();
        let mut message = number.to_le_bytes().to_vec();
        message.resize(length, 0);
        while let Err(refused) = near.send(To::Any, &message) {
            assert_eq!(refused, Refused::Full);
            near.turn(Nanos::MAX, &mut sum).unwrap();
        }
    }
    drop(near);
    assert_eq!(reader.join().unwrap(), MESSAGES);
}

/// One end with several peers gives each its share, and passes by one that does not read.
#[test]
fn a_full_peer_holds_up_nobody() {
    let limits = Limits {
        queued_messages_max: 4,
        ..Limits::data()
    };
    let mut hub = InProcess::new(limits);
    let mut ends: Vec<InProcess> = (0..3).map(|_| InProcess::new(limits)).collect();
    for (number, end) in ends.iter_mut().enumerate() {
        hub.link(end, "hub", &format!("worker {number}")).unwrap();
    }
    let mut seen = [Sum::default(), Sum::default(), Sum::default()];
    // The first never turns: 4 messages wait for it, and all others pass it by.
    let mut next = [0_u64; 3];
    for _ in 0..100 {
        for (number, next) in next.iter_mut().enumerate() {
            let peer = PeerId {
                index: u32::try_from(number).unwrap(),
                generation: 0,
            };
            match hub.send(To::Peer(peer), &next.to_le_bytes()) {
                Ok(()) => *next += 1,
                Err(refused) => assert_eq!((number, refused), (0, Refused::Full)),
            }
        }
        for (end, sum) in ends.iter_mut().zip(&mut seen).skip(1) {
            end.turn(Nanos::ZERO, sum).unwrap();
        }
    }
    assert_eq!(next, [4, 100, 100]);
    assert_eq!([seen[1].next, seen[2].next], [100, 100]);
}

/// As many peers as the limits allow, and no more.
#[test]
fn places_are_bounded_and_used_again() {
    let limits = Limits {
        peers_max: 2,
        ..Limits::data()
    };
    let mut hub = InProcess::new(limits);
    let mut first = InProcess::new(limits);
    let mut second = InProcess::new(limits);
    let mut third = InProcess::new(limits);
    hub.link(&mut first, "hub", "first").unwrap();
    hub.link(&mut second, "hub", "second").unwrap();
    assert_eq!(hub.link(&mut third, "hub", "third"), None);
    drop(first);
    let mut sum = Sum::default();
    while !sum.over {
        hub.turn(Nanos::MAX, &mut sum).unwrap();
    }
    let (there, _) = hub.link(&mut third, "hub", "third").unwrap();
    assert_eq!(
        there,
        PeerId {
            index: 0,
            generation: 1
        }
    );
}
