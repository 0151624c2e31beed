//! How connections end, and what stays true while they do.

use ::bytes::Bytes;
use ridgeline_clock::Nanos;

use super::{Lab, Pair, Role};
use crate::{Close, Closed, Token};

/// One side finishes its sending and receives on.
pub fn half_close<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Role::Check, Role::Check);
    let (near, far) = pair.connect();
    pair.send(near, 100_000);
    pair.close(near, Close::Half);
    pair.until("the end", |_, log| log.get(far).ended);
    assert_eq!(pair.far.get(far).received_bytes, 100_000);
    assert_eq!(pair.near.get(near).closed, None);
    pair.send_back(far, 200_000);
    pair.close_back(far, Close::Fin);
    pair.until("the other end", |log, _| log.get(near).ended);
    assert_eq!(pair.near.get(near).received_bytes, 200_000);
    pair.until("closed", |_, log| {
        log.get(far).closed == Some(Closed::Local)
    });
    pair.settle();
    assert_eq!(
        pair.near.get(near).closed,
        None,
        "its owner has not closed it"
    );
    pair.close(near, Close::Fin);
    pair.until("closed", |log, _| {
        log.get(near).closed == Some(Closed::Local)
    });
    pair.finish();
}

/// A peer that ended is still sent to, as much as it wants.
pub fn ended_then_sending<L: Lab>(lab: &mut L) {
    const BYTES: usize = 4 << 20;
    let mut pair = Pair::new(lab, Role::Check, Role::Check);
    let (near, far) = pair.connect();
    pair.close(near, Close::Half);
    pair.until("the end", |_, log| log.get(far).ended);
    for number in 1..=4 {
        pair.send_back(far, BYTES);
        pair.until("the bytes", |log, _| {
            log.get(near).received_bytes == (number * BYTES) as u64
        });
    }
    assert_eq!(pair.far.get(far).closed, None);
    pair.finish();
}

/// FIN comes after everything that was queued, however much.
pub fn fin_flushes<L: Lab>(lab: &mut L) {
    const BYTES: usize = 4 << 20;
    let mut pair = Pair::new(lab, Role::Check, Role::Check);
    let (near, far) = pair.connect();
    pair.send(near, BYTES);
    pair.send(near, BYTES);
    pair.close(near, Close::Fin);
    pair.until("closed", |log, _| log.get(near).closed.is_some());
    assert_eq!(pair.near.get(near).closed, Some(Closed::Local));
    assert!(!pair.near.get(near).dropped, "both were handed over");
    pair.until("the end", |_, log| log.get(far).ended);
    assert_eq!(pair.far.get(far).received_bytes, 2 * BYTES as u64);
    assert_eq!(pair.far.get(far).closed, None);
    pair.finish();
}

/// A reset is seen by both sides.
pub fn reset<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Role::Check, Role::Check);
    let (near, far) = pair.connect();
    pair.close(near, Close::Reset);
    pair.until("closed", |log, _| log.get(near).closed.is_some());
    pair.until("closed there", |_, log| log.get(far).closed.is_some());
    assert_eq!(pair.near.get(near).closed, Some(Closed::Local));
    assert_eq!(pair.far.get(far).closed, Some(Closed::PeerReset));
    assert!(!pair.far.get(far).ended, "a reset is no FIN");
    pair.finish();
}

/// A reset does not wait for queued sends, and gives them back.
pub fn reset_drops_sends<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Role::Check, Role::Check);
    let (near, far) = pair.connect();
    for _ in 0..4 {
        pair.send(near, 8 << 20);
    }
    pair.turn_client(Nanos::ZERO);
    pair.send(near, 10);
    pair.close(near, Close::Reset);
    // The peer never reads, and the client is not held up by that.
    for _ in 0..200 {
        let rest = pair.lab.now() + Nanos::from_micros(100);
        pair.turn_client(rest);
    }
    let seen = pair.near.get(near);
    assert_eq!((seen.closed, seen.sent), (Some(Closed::Local), 5));
    pair.until("closed there", |_, log| log.get(far).closed.is_some());
    assert_eq!(pair.far.get(far).closed, Some(Closed::PeerReset));
    pair.finish();
}

/// A FIN that cannot come because the peer does not read can still become a reset.
pub fn reset_of_a_stuck_fin<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Role::Check, Role::Check);
    let (near, _) = pair.connect();
    pair.send(near, 32 << 20);
    pair.close(near, Close::Fin);
    for _ in 0..50 {
        pair.turn_client(Nanos::ZERO);
    }
    assert_eq!(
        pair.near.get(near).closed,
        None,
        "32 MiB do not fit the socket buffers"
    );
    pair.close(near, Close::Reset);
    for _ in 0..200 {
        let rest = pair.lab.now() + Nanos::from_micros(100);
        pair.turn_client(rest);
    }
    let seen = pair.near.get(near);
    assert_eq!((seen.closed, seen.sent), (Some(Closed::Local), 1));
    pair.finish();
}

/// Closing while the peer sends: nothing is received any more, and the peer learns of it.
pub fn close_with_data_in_flight<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Role::Check, Role::Flood(16 << 20));
    for how in [Close::Fin, Close::Reset] {
        let (near, far) = pair.connect();
        pair.until("some bytes", |log, _| log.get(near).received_bytes > 0);
        pair.close(near, how);
        pair.until("closed", |log, _| log.get(near).closed.is_some());
        assert_eq!(pair.near.get(near).closed, Some(Closed::Local), "{how:?}");
        assert!(pair.near.get(near).received_bytes < 16 << 20);
        pair.until("closed there", |_, log| log.get(far).closed.is_some());
        assert_eq!(pair.far.get(far).closed, Some(Closed::PeerReset), "{how:?}");
        assert_eq!(pair.far.get(far).sent, 1);
    }
    pair.finish();
}

/// A slot used again at once never sees what belonged to its earlier use.
pub fn token_reuse<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Role::Echoed, Role::Echo);
    let address = pair.address.clone();
    let mut token = pair.open(&address);
    for generation in 0..50 {
        assert_eq!((token.index, token.generation), (0, generation));
        pair.send(token, 200_000);
        pair.until("some echo", |log, _| log.get(token).received_bytes > 0);
        let how = if generation % 2 == 0 {
            Close::Reset
        } else {
            Close::Fin
        };
        pair.close(token, how);
        pair.until("closed", |log, _| log.get(token).closed.is_some());
        // Orders for the earlier use must not reach the new one.
        let old = token;
        token = pair.open(&address);
        pair.send(old, 1_000);
        pair.close(old, Close::Reset);
    }
    pair.send(token, 1_000);
    pair.until("the echo", |log, _| log.get(token).received_bytes == 1_000);
    pair.finish();
}

/// A send to a connection that is gone comes back, and nothing else happens.
pub fn dead_token<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Role::Check, Role::Check);
    let (near, _) = pair.connect();
    pair.close(near, Close::Reset);
    pair.until("closed", |log, _| log.get(near).closed.is_some());
    let (log, commands) = pair.near();
    log.send(
        commands,
        near,
        b"late".to_vec(),
        Bytes::from_static(b"body"),
    );
    log.send(commands, near, Vec::new(), Bytes::from_static(b"body"));
    pair.until("the sends back", |log, _| log.get(near).sent == 2);
    assert!(pair.near.get(near).submitted.is_empty());
    // A send ordered after a close of the same breath comes back too.
    let (near, _) = pair.connect();
    pair.close(near, Close::Reset);
    pair.send(near, 10);
    pair.until("closed", |log, _| log.get(near).closed.is_some());
    pair.until("the send back", |log, _| log.get(near).sent == 1);
    pair.finish();
}

/// However often and in whatever way it is closed, and whoever else closes it.
pub fn closed_once<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Role::Check, Role::Check);
    let ways = [Close::Fin, Close::Reset, Close::Half];
    for (first, second) in ways.iter().flat_map(|a| ways.iter().map(move |b| (*a, *b))) {
        let (near, far) = pair.connect();
        pair.send(near, 1_000);
        pair.close(near, first);
        pair.close_back(far, second);
        pair.close(near, second);
        pair.close(near, Close::Fin);
        pair.close_back(far, Close::Fin);
        pair.until("closed", |a, b| {
            a.get(near).closed.is_some() && b.get(far).closed.is_some()
        });
        pair.close(near, Close::Reset);
        pair.close_back(far, Close::Fin);
        pair.settle();
    }
    pair.finish();
}

/// Sockets of the file system end in the same ways. They know no reset: the peer may see a FIN.
pub fn unix_ends<L: Lab>(lab: &mut L) {
    let path = lab.unix();
    let mut pair = Pair::at(lab, &path, (Role::Check, Role::Check), 8);
    for how in [Close::Fin, Close::Half, Close::Reset] {
        let (near, far) = pair.connect();
        pair.send(near, 100_000);
        pair.until("the bytes", |_, log| log.get(far).received_bytes == 100_000);
        pair.close(near, how);
        pair.until("the end", |_, log| {
            log.get(far).ended || log.get(far).closed.is_some()
        });
        if how != Close::Reset {
            assert_eq!(pair.far.get(far).closed, None, "{how:?}");
        }
        pair.close(near, Close::Fin);
        pair.until("closed", |log, _| {
            log.get(near).closed == Some(Closed::Local)
        });
    }
    pair.finish();
}

/// Drops a driver in the middle of everything: its peer sees the connections end.
pub fn dropped_driver<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Role::Check, Role::Check);
    let (near, far): (Vec<Token>, Vec<Token>) = (0..3).map(|_| pair.connect()).unzip();
    pair.send(near[0], 8 << 20);
    pair.turn_client(Nanos::ZERO);
    pair.client = pair.lab.driver(64);
    pair.until("the ends", |_, log| {
        far.iter()
            .all(|&token| log.get(token).ended || log.get(token).closed.is_some())
    });
}
