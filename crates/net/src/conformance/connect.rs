//! Connections that come up, and those that do not.

use ridgeline_clock::Nanos;

use super::{Lab, Pair, Role};
use crate::{Close, Closed, Driver, DriverError, Peer, Token};

/// Both ends are told of a connection.
pub fn opened<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Role::Check, Role::Check);
    let before = pair.lab.now();
    let (near, _) = pair.connect();
    let at = pair.near.get(near).opened.expect("connect waits for it");
    assert!(before <= at && at <= pair.lab.now());
    pair.finish();
}

/// Nobody listens there.
pub fn refused<L: Lab>(lab: &mut L) {
    let deserted = lab.deserted();
    closes_with(lab, &deserted, Closed::Refused);
}

/// No such socket in the file system.
pub fn unix_deserted<L: Lab>(lab: &mut L) {
    let deserted = lab.unix();
    closes_with(lab, &deserted, Closed::Refused);
}

fn closes_with<L: Lab>(lab: &mut L, peer: &Peer, cause: Closed) {
    let mut pair = Pair::new(lab, Role::Check, Role::Check);
    let token = pair.open(peer);
    pair.send(token, 100);
    pair.until("closed", |near, _| near.get(token).closed.is_some());
    let seen = pair.near.get(token);
    assert_eq!(
        (seen.closed, seen.opened, seen.sent),
        (Some(cause), None, 1)
    );
    assert!(seen.submitted.is_empty(), "nothing was handed over");
    pair.finish();
}

/// An attempt that is never answered is given up. Only where that is worth waiting for.
pub fn timed_out<L: Lab>(lab: &mut L) {
    let (Some(silent), Some(limit)) = (lab.silent(), lab.times_out_after()) else {
        return;
    };
    let mut pair = Pair::new(lab, Role::Check, Role::Check);
    let token = pair.open(&silent);
    let limit = limit + Nanos::from_secs(1);
    pair.until_within(limit, "closed", |near, _| near.get(token).closed.is_some());
    assert_eq!(pair.near.get(token).closed, Some(Closed::TimedOut));
    assert_eq!(pair.near.get(token).opened, None);
    pair.finish();
}

/// A listener that answers `None` resets the connection.
pub fn listener_refuses<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Role::Check, Role::Refuse);
    let address = pair.address.clone();
    let token = pair.open(&address);
    pair.until("closed", |near, _| near.get(token).closed.is_some());
    assert_eq!(pair.near.get(token).closed, Some(Closed::PeerReset));
    pair.finish();
}

/// Two listeners cannot have one address.
pub fn address_in_use<L: Lab>(lab: &mut L) {
    let path = lab.unix();
    let mut first = lab.driver(1);
    let mut second = lab.driver(1);
    assert_eq!(first.listen(&path).expect("the path is free"), path);
    let error = second.listen(&path).expect_err("the path is taken");
    assert!(matches!(error, DriverError::Listen { peer, .. } if peer == path));
}

/// Once a driver has stopped listening its address refuses, and the connections that it has live on.
pub fn stopped_listening<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Role::Echoed, Role::Echo);
    let (kept, _) = pair.connect();
    pair.server.stop_listening().expect("the loop goes on");
    pair.server.stop_listening().expect("once more is nothing");
    pair.settle();
    let address = pair.address.clone();
    let late = pair.open(&address);
    pair.until("closed", |near, _| near.get(late).closed.is_some());
    assert_eq!(pair.near.get(late).closed, Some(Closed::Refused));
    assert_eq!(pair.near.get(late).opened, None);
    pair.send(kept, 10_000);
    pair.until("the echo", |near, _| {
        near.get(kept).received_bytes == near.get(kept).queued_bytes()
    });
    pair.finish();
}

/// An attempt in progress can be given up, orderly or not, with sends waiting or not.
pub fn cancelled<L: Lab>(lab: &mut L) {
    let Some(silent) = lab.silent() else { return };
    let mut pair = Pair::new(lab, Role::Check, Role::Check);
    for (bytes, how) in [
        (None, Close::Reset),
        (None, Close::Fin),
        (Some(100), Close::Reset),
    ] {
        let token = pair.open(&silent);
        if let Some(bytes) = bytes {
            pair.send(token, bytes);
        }
        pair.settle();
        assert_eq!(pair.near.get(token).closed, None, "nothing has answered");
        pair.close(token, how);
        pair.until("closed", |near, _| near.get(token).closed.is_some());
        assert_eq!(pair.near.get(token).closed, Some(Closed::Local), "{how:?}");
        assert_eq!(pair.near.get(token).opened, None);
    }
    pair.finish();
}

/// An attempt can be given up in the same breath, whoever listens there.
pub fn cancelled_at_once<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Role::Check, Role::Check);
    let address = pair.address.clone();
    for how in [Close::Reset, Close::Fin].repeat(20) {
        let token = pair.open(&address);
        pair.close(token, how);
        pair.until("closed", |near, _| near.get(token).closed.is_some());
        assert_eq!(pair.near.get(token).closed, Some(Closed::Local), "{how:?}");
        // The server may see each for a moment, and has to let go of it.
        pair.settle();
        for token in pair.far.live() {
            pair.close_back(token, Close::Fin);
        }
    }
    pair.finish();
}

/// 1,000 short connections, 50 at a time.
pub fn churn<L: Lab>(lab: &mut L) {
    const CONNECTIONS: usize = 1_000;
    let address = lab.tcp();
    let mut pair = Pair::at(lab, &address, (Role::Echoed, Role::Echo), 128);
    let address = pair.address.clone();
    let mut live: Vec<Token> = Vec::new();
    let (mut started, end) = (0, pair.lab.now() + Nanos::from_secs(60));
    while started < CONNECTIONS || !live.is_empty() {
        assert!(
            pair.lab.now() < end,
            "{started} started, {} not done",
            live.len()
        );
        while live.len() < 50 && started < CONNECTIONS {
            let token = pair.open(&address);
            pair.send(token, 1 + started);
            live.push(token);
            started += 1;
        }
        pair.turn();
        let mut closing = Vec::new();
        live.retain(|&token| {
            let seen = pair.near.get(token);
            let done = seen.received_bytes == seen.queued_bytes();
            if done {
                closing.push(token);
            }
            !done
        });
        for (number, token) in closing.into_iter().enumerate() {
            let how = if number % 2 == 0 {
                Close::Fin
            } else {
                Close::Reset
            };
            pair.close(token, how);
        }
        for token in pair.far.live() {
            if pair.far.get(token).ended {
                pair.close_back(token, Close::Fin);
            }
        }
    }
    assert_eq!(pair.far.accepted_all().len(), CONNECTIONS);
    pair.finish();
}

/// Sockets of the file system carry bytes both ways.
pub fn unix<L: Lab>(lab: &mut L) {
    let path = lab.unix();
    let mut pair = Pair::at(lab, &path, (Role::Echoed, Role::Echo), 8);
    assert_eq!(pair.address, path);
    let tokens: Vec<Token> = (0..4).map(|_| pair.connect().0).collect();
    for (number, &token) in tokens.iter().enumerate() {
        pair.send(token, 50_000 * (number + 1));
    }
    pair.until("the echo", |near, _| {
        tokens
            .iter()
            .all(|&token| near.get(token).received_bytes == near.get(token).queued_bytes())
    });
    pair.finish();
}
