//! Bytes: whole, in order, as they were sent.

use ::bytes::Bytes;
use ridgeline_clock::Nanos;

use super::{Lab, Pair, Role, pattern};
use crate::Token;

/// One send larger than any socket buffer, to a peer that does not read for a while.
pub fn larger_than_the_socket_buffer<L: Lab>(lab: &mut L) {
    const BYTES: usize = 16 << 20;
    let mut pair = Pair::new(lab, Role::Check, Role::Check);
    let (near, far) = pair.connect();
    let (log, commands) = pair.near();
    log.send_pattern(commands, near, 1_000, BYTES);
    for _ in 0..50 {
        pair.turn_client(Nanos::ZERO);
    }
    pair.until("all bytes", |_, log| {
        log.get(far).received_bytes == BYTES as u64
    });
    pair.until("sent", |log, _| log.get(near).sent == 1);
    assert_eq!(pair.near.get(near).submitted.len(), 1);
    pair.finish();
}

/// Sends queued at once go out in order, head before body, whichever is empty.
pub fn queued_sends_keep_order<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Role::Check, Role::Check);
    let (near, far) = pair.connect();
    let mut bytes = 0;
    for number in 0..100_usize {
        let (head, body) = (number % 3 * 50, number % 4 * 3_000 + 1);
        let (log, commands) = pair.near();
        log.send_pattern(commands, near, head, head + body);
        bytes += head + body;
    }
    pair.until("all sent", |log, _| log.get(near).sent == 100);
    pair.until("all bytes", |_, log| {
        log.get(far).received_bytes == bytes as u64
    });
    assert_eq!(pair.near.get(near).submitted.len(), 100);
    pair.finish();
}

/// A send of nothing is told like any other.
pub fn empty_sends<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Role::Check, Role::Check);
    let (near, far) = pair.connect();
    for bytes in [0, 10, 0, 0, 10, 0] {
        pair.send(near, bytes);
    }
    pair.until("all sent", |log, _| log.get(near).sent == 6);
    pair.until("all bytes", |_, log| log.get(far).received_bytes == 20);
    assert_eq!(pair.near.get(near).submitted.len(), 6);
    pair.finish();
}

/// Sends ordered with the connection go out when it is up, not before.
pub fn sent_before_opened<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Role::Check, Role::Check);
    let address = pair.address.clone();
    let token = pair.open(&address);
    pair.send(token, 10);
    pair.send(token, 20);
    pair.until("all sent", |log, _| log.get(token).sent == 2);
    pair.until("all bytes", |_, log| {
        log.accepted_all()
            .first()
            .is_some_and(|&far| log.get(far).received_bytes == 30)
    });
    let seen = pair.near.get(token);
    assert!(
        seen.opened
            .is_some_and(|opened| opened <= seen.submitted[0]),
        "{seen:?}"
    );
    pair.finish();
}

/// Sends of every size up to 64 KiB (each to 512, then in steps, and around powers of two).
pub fn lent_in_every_size<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Role::Check, Role::Check);
    let (near, far) = pair.connect();
    let around = (9..=16)
        .map(|power| 1_usize << power)
        .flat_map(|p| [p - 1, p, p + 1]);
    let mut expected = 0;
    for size in (1..=512).chain((513..65_536).step_by(509)).chain(around) {
        expected += size as u64;
        pair.send(near, size);
        pair.until("the bytes", |_, log| {
            log.get(far).received_bytes == expected
        });
    }
    pair.finish();
}

/// Several connections at once, both directions, none mixed up.
pub fn echoed_in_order<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Role::Echoed, Role::Echo);
    let tokens: Vec<Token> = (0..32).map(|_| pair.connect().0).collect();
    for round in 1..=10_usize {
        for (number, &token) in tokens.iter().enumerate() {
            pair.send(token, round * 100 + number * 777);
        }
        pair.turn();
    }
    pair.until("the echo", |near, _| {
        tokens
            .iter()
            .all(|&token| near.get(token).received_bytes == near.get(token).queued_bytes())
    });
    pair.finish();
}

/// Many connections have bytes waiting when the receiver turns again: nothing is lost, whatever
/// buffers the driver has.
pub fn many_receive_at_once<L: Lab>(lab: &mut L) {
    const CONNECTIONS: u32 = 300;
    const BYTES: usize = 64 << 10;
    let address = lab.tcp();
    let roles = (Role::Check, Role::Flood(BYTES));
    let mut pair = Pair::at(lab, &address, roles, CONNECTIONS);
    let address = pair.address.clone();
    let tokens: Vec<Token> = (0..CONNECTIONS).map(|_| pair.open(&address)).collect();
    pair.until("connections", |near, far| {
        near.live()
            .iter()
            .all(|&token| near.get(token).opened.is_some())
            && far.accepted_all().len() == CONNECTIONS as usize
    });
    for _ in 0..100 {
        pair.turn_server(Nanos::ZERO);
    }
    pair.until("all bytes", |near, _| {
        tokens
            .iter()
            .all(|&token| near.get(token).received_bytes == BYTES as u64)
    });
    // And each connection still receives.
    for token in pair.far.live() {
        let more = (0..100)
            .map(|offset| pattern(0, BYTES as u64 + offset))
            .collect();
        let (log, commands) = pair.far();
        log.send(commands, token, more, Bytes::new());
    }
    pair.until("more bytes", |near, _| {
        tokens
            .iter()
            .all(|&token| near.get(token).received_bytes == BYTES as u64 + 100)
    });
    pair.finish();
}
