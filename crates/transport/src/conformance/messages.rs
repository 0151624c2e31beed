//! Messages: whole, once, in order.

use ::bytes::Bytes;

use super::{Lab, Pair, pattern};
use crate::{Limits, To, Transport};

/// Ten thousand messages arrive in the order in which they were sent.
pub fn in_order<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Limits::data());
    for number in 0..10_000 {
        pair.send_patiently(number, 100);
    }
    pair.arrived(10_000, |_| 100);
}

/// Every length around those at which something changes, up to the limit.
pub fn every_size<L: Lab>(lab: &mut L) {
    const SIZES: [usize; 24] = [
        0, 1, 2, 7, 8, 127, 128, 253, 254, 255, 256, 257, 4_095, 4_096, 8_191, 16_384, 65_533,
        65_534, 65_535, 65_536, 65_537, 262_144, 1_048_575, 1_048_576,
    ];
    let limits = Limits {
        message_bytes_max: 1 << 20,
        ..Limits::data()
    };
    let mut pair = Pair::new(lab, limits);
    for (number, bytes) in (0..).zip(SIZES) {
        pair.send_patiently(number, bytes);
    }
    let size = |number: u64| SIZES[usize::try_from(number).unwrap_or(0)];
    pair.arrived(SIZES.len() as u64, size);
}

/// Both ends send, and neither's messages disturb the other's.
pub fn both_ways<L: Lab>(lab: &mut L) {
    if !lab.is_two_way() {
        return;
    }
    let mut pair = Pair::new(lab, Limits::data());
    for number in 0..1_000 {
        pair.send_patiently(number, 300);
        if let Some(far) = &mut pair.far {
            far.send(To::Any, &pattern(number, 200))
                .expect("there is room");
        }
        pair.turn();
    }
    pair.arrived(1_000, |_| 300);
    pair.until("answers", |near, _| near.messages().len() == 1_000);
    for (number, message) in (0..).zip(pair.near_log.messages()) {
        assert!(message == pattern(number, 200), "message {number}");
    }
}

/// Shared bytes are messages like others, and keep their place among them.
pub fn shared<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Limits::data());
    let bytes = |number: u64| usize::try_from(number * 1_021 % 90_001).unwrap_or(0);
    for number in 0..200 {
        while pair.near.queued_all().bytes > 1 << 20 {
            pair.turn();
        }
        let message = pattern(number, bytes(number));
        let sent = if number % 2 == 0 {
            pair.near.send_shared(To::Any, Bytes::from(message))
        } else {
            pair.near.send(To::Any, &message)
        };
        sent.expect("there is room");
    }
    pair.arrived(200, bytes);
}

/// Long messages between short ones.
pub fn large_and_small<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Limits::data());
    let bytes = |number: u64| if number % 10 == 3 { 700_000 } else { 33 };
    for number in 0..100 {
        pair.send_patiently(number, bytes(number));
    }
    pair.arrived(100, bytes);
}

/// A message for one peer, by its name.
pub fn named_peer<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Limits::data());
    let there = pair.there();
    for number in 0..10 {
        let sent = pair.near.send(To::Peer(there), &pattern(number, 10));
        sent.expect("there is room");
    }
    pair.arrived(10, |_| 10);
    assert_eq!(pair.near.queued(there).messages, 0, "all handed over");
}
