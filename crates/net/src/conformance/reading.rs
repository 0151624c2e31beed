//! Reading: stopped and gone on with.

use ridgeline_clock::Nanos;

use super::{Lab, Pair, Role};
use crate::{Close, Driver};

/// As much as no driver and no pair of sockets keeps between two ends.
const BYTES: usize = 24 << 20;

/// A connection that is not read from blocks its peer; when reading goes on, all of it arrives.
pub fn stopped_reading_blocks_the_sender<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Role::Check, Role::Check);
    let (near, far) = pair.connect();
    pair.server.commands().read(far, false);
    pair.settle();
    let (log, commands) = pair.near();
    log.send_pattern(commands, near, 0, BYTES);
    for _ in 0..300 {
        pair.turn();
    }
    assert_eq!(pair.near.get(near).sent, 0, "nobody reads it");
    let received = pair.far.get(far).received_bytes;
    assert_eq!(received, 0, "reading had been stopped before");
    pair.server.commands().read(far, true);
    pair.until("all bytes", |_, log| {
        log.get(far).received_bytes == BYTES as u64
    });
    pair.until("sent", |log, _| log.get(near).sent == 1);
    pair.finish();
}

/// Stopped and begun again all the time, at any moment of a long send.
pub fn on_and_off_loses_nothing<L: Lab>(lab: &mut L) {
    const BYTES: usize = 3 << 20;
    let mut pair = Pair::new(lab, Role::Check, Role::Check);
    let (near, far) = pair.connect();
    let (log, commands) = pair.near();
    log.send_pattern(commands, near, 0, BYTES);
    for number in 0..2_000_u32 {
        let on = number % 5 != 0;
        pair.server.commands().read(far, on);
        if number % 7 == 0 {
            // Both in one turn.
            pair.server.commands().read(far, false);
            pair.server.commands().read(far, on);
        }
        pair.turn();
    }
    pair.server.commands().read(far, true);
    pair.until("all bytes", |_, log| {
        log.get(far).received_bytes == BYTES as u64
    });
    pair.finish();
}

/// The end of the stream is told after its bytes, and both when reading goes on.
pub fn fin_waits_for_reading<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Role::Check, Role::Check);
    let (near, far) = pair.connect();
    pair.server.commands().read(far, false);
    pair.settle();
    pair.send(near, 1_000);
    pair.close(near, Close::Half);
    pair.until("sent", |log, _| log.get(near).sent == 1);
    for _ in 0..50 {
        pair.turn();
    }
    let connection = pair.far.get(far);
    assert_eq!((connection.received_bytes, connection.ended), (0, false));
    pair.server.commands().read(far, true);
    pair.until("end", |_, log| log.get(far).ended);
    assert_eq!(pair.far.get(far).received_bytes, 1_000);
    pair.finish();
}

/// The owner can close what it does not read, in any way.
pub fn closed_while_not_reading<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Role::Check, Role::Check);
    for how in [Close::Fin, Close::Reset] {
        let (near, far) = pair.connect();
        pair.server.commands().read(far, false);
        pair.settle();
        pair.send(near, 5_000);
        pair.settle();
        pair.close_back(far, how);
        pair.until("closed", |_, log| log.get(far).closed.is_some());
        pair.server.commands().read(far, true);
        pair.settle();
        pair.close(near, Close::Reset);
        pair.until("closed", |log, _| log.get(near).closed.is_some());
    }
    pair.finish();
}

/// Told with the order to connect: nothing is read until it is wanted.
pub fn off_from_the_start<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Role::Check, Role::Flood(2_000));
    let address = pair.address.clone();
    let near = pair.open(&address);
    pair.client.commands().read(near, false);
    pair.until("opened", |log, _| log.get(near).opened.is_some());
    for _ in 0..50 {
        pair.turn();
    }
    assert_eq!(pair.near.get(near).received_bytes, 0);
    pair.client.commands().read(near, true);
    pair.until("bytes", |log, _| log.get(near).received_bytes == 2_000);
    pair.finish();
}

/// What is not read from can still be sent to.
pub fn sends_go_on<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Role::Check, Role::Check);
    let (near, far) = pair.connect();
    pair.client.commands().read(near, false);
    pair.turn_client(Nanos::ZERO);
    for _ in 0..20 {
        pair.send(near, 100_000);
    }
    pair.until("all bytes", |_, log| {
        log.get(far).received_bytes == 2_000_000
    });
    pair.finish();
}
