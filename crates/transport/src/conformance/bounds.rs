//! Bounds: queues that are full block their sender, and nothing is lost.

use super::{Lab, Pair};
use crate::{Limits, Refused, To, Transport};

/// The most messages that may wait.
pub fn full_at_messages<L: Lab>(lab: &mut L) {
    let limits = Limits {
        queued_messages_max: 64,
        ..Limits::data()
    };
    let mut pair = Pair::new(lab, limits);
    let mut number = 0;
    while pair.send(number, 20).is_ok() {
        number += 1;
        assert!(number <= 64, "more than 64 wait");
    }
    assert_eq!(number, 64, "fewer than may wait");
    let there = pair.there();
    assert_eq!(pair.near.queued(there).messages, 64);
    assert_eq!(pair.near.queued_all().messages, 64);
    assert_eq!(pair.send(number, 20), Err(Refused::Full));
    pair.arrived(64, |_| 20);
}

/// The most bytes that may wait.
pub fn full_at_bytes<L: Lab>(lab: &mut L) {
    let limits = Limits {
        message_bytes_max: 50_000,
        queued_bytes_max: 100_000,
        ..Limits::data()
    };
    let mut pair = Pair::new(lab, limits);
    let mut number = 0;
    while pair.send(number, 30_000).is_ok() {
        number += 1;
        assert!(number <= 3, "more than 100,000 bytes wait");
    }
    assert_eq!(number, 3, "fewer bytes than may wait");
    let waiting = pair.near.queued_all().bytes;
    assert!(
        (90_000..=100_000).contains(&waiting),
        "{waiting} bytes wait"
    );
    pair.arrived(3, |_| 30_000);
}

/// A receiver that does not turn blocks its sender; when it turns again all of it arrives.
pub fn full_until_there_is_room<L: Lab>(lab: &mut L) {
    let limits = Limits {
        message_bytes_max: 64 << 10,
        queued_bytes_max: 256 << 10,
        ..Limits::data()
    };
    for bytes in [100, 40_000] {
        let mut pair = Pair::new(lab, limits);
        let mut sent = pair.fill(0, bytes);
        for _ in 0..2_000 {
            pair.send_patiently(sent, bytes);
            sent += 1;
        }
        pair.arrived(sent, |_| bytes);
    }
}

/// So does one that turns and holds.
pub fn a_held_receiver_blocks_the_sender<L: Lab>(lab: &mut L) {
    let limits = Limits {
        message_bytes_max: 64 << 10,
        queued_bytes_max: 128 << 10,
        ..Limits::data()
    };
    let mut pair = Pair::new(lab, limits);
    pair.far_log.set_room(10);
    let mut sent = 0;
    let mut full = 0;
    // As long as the far end reads on, the queue is never full for long.
    while full < 200 {
        match pair.send(sent, 10_000) {
            Ok(()) => (sent, full) = (sent + 1, 0),
            Err(Refused::Full) => full += 1,
            Err(refused) => panic!("refused: {refused}"),
        }
        assert!(sent < 10_000, "a receiver that holds takes 100 MB");
        if full > 0 {
            pair.turn();
        }
    }
    assert_eq!(pair.far_log.messages().len(), 10);
    pair.far_log.set_room(u64::MAX);
    for _ in 0..100 {
        pair.send_patiently(sent, 10_000);
        sent += 1;
    }
    pair.arrived(sent, |_| 10_000);
}

/// A receiver that takes one message a turn gets each of them, in order.
pub fn hold_after_each<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Limits::data());
    for number in 0..500 {
        pair.send_patiently(number, 900);
    }
    let mut turns = 0;
    while pair.far_log.messages().len() < 500 {
        let before = pair.far_log.messages().len();
        pair.far_log.set_room(1);
        pair.turn();
        assert!(pair.far_log.messages().len() <= before + 1);
        turns += 1;
        assert!(turns < 1_000_000, "messages are held back for good");
    }
    pair.far_log.set_room(u64::MAX);
    pair.arrived(500, |_| 900);
}

/// A receiver without room from the start gets nothing, until it has some.
pub fn held_from_the_start<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Limits::data());
    pair.far_log.set_room(0);
    for number in 0..5 {
        pair.send_patiently(number, 50);
    }
    pair.settle();
    assert_eq!(pair.far_log.messages().len(), 0);
    pair.far_log.set_room(u64::MAX);
    pair.arrived(5, |_| 50);
}

/// A message over the limit is refused by name, and disturbs nothing.
pub fn too_long<L: Lab>(lab: &mut L) {
    let limits = Limits {
        message_bytes_max: 1_000,
        ..Limits::data()
    };
    let mut pair = Pair::new(lab, limits);
    pair.send(0, 1_000).expect("the limit itself is allowed");
    let refused = Refused::TooLong {
        bytes: 1_001,
        bytes_max: 1_000,
    };
    assert_eq!(pair.send(1, 1_001), Err(refused));
    assert_eq!(
        refused.to_string(),
        "a message of 1001 bytes is longer than the limit of 1000"
    );
    pair.send(1, 1_000).expect("there is room");
    pair.arrived(2, |_| 1_000);
}

/// A queue that is shorter than the longest message still takes it when it is empty.
pub fn the_longest_always_fits<L: Lab>(lab: &mut L) {
    let limits = Limits {
        message_bytes_max: 300_000,
        queued_bytes_max: 1_000,
        ..Limits::data()
    };
    let mut pair = Pair::new(lab, limits);
    for number in 0..20 {
        pair.send_patiently(number, 300_000);
    }
    pair.arrived(20, |_| 300_000);
}

/// What an end sends leaves although its receiver holds.
pub fn sends_go_on_while_held<L: Lab>(lab: &mut L) {
    if !lab.is_two_way() {
        return;
    }
    let mut pair = Pair::new(lab, Limits::data());
    pair.far_log.set_room(0);
    pair.send(0, 10).expect("there is room");
    pair.settle();
    for number in 0..100_u64 {
        if let Some(far) = &mut pair.far {
            far.send(To::Any, &number.to_le_bytes())
                .expect("there is room");
        }
    }
    pair.until("answers", |near, _| near.messages().len() == 100);
    assert_eq!(pair.far_log.messages().len(), 0);
}
