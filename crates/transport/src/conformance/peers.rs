//! Peers: who is there, and who is not any more.

use super::{Lab, Log, Pair, pattern};
use crate::{Cause, Limits, Queued, Refused, To, Transport};

/// Each end is told of the other, once.
pub fn joined<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Limits::data());
    pair.settle();
    assert_eq!(pair.near_log.joined().len(), 1);
    assert_eq!(pair.far_log.joined().len(), 1);
}

/// Where nobody is, a message is refused and not kept.
pub fn nobody_there<L: Lab>(lab: &mut L) {
    let mut end = lab.alone(Limits::data());
    let mut log = Log::default();
    assert_eq!(end.send(To::Any, b"anybody?"), Err(Refused::NoPeer));
    let soon = lab.now() + ridgeline_clock::Nanos::from_millis(1);
    end.turn(soon, &mut log).expect("a turn");
    assert_eq!(end.send(To::Any, b"anybody?"), Err(Refused::NoPeer));
    assert_eq!(end.queued_all(), Queued::default());
    assert_eq!(log.joined(), []);
}

/// An end that is dropped is told to its peer.
pub fn dropped_end<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Limits::data());
    let there = pair.there();
    pair.far = None;
    pair.until("end", |near, _| near.left().is_some());
    let cause = pair
        .near_log
        .seen(there)
        .left
        .as_ref()
        .map(|left| &left.cause);
    assert!(
        matches!(cause, Some(Cause::Closed | Cause::Reset)),
        "{cause:?}"
    );
}

/// An end that lets its peer go: both are told, and what was queued before arrives.
pub fn parted<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Limits::data());
    let there = pair.there();
    for number in 0..50 {
        pair.send_patiently(number, 5_000);
    }
    pair.near.part(there);
    assert_eq!(
        pair.near.send(To::Peer(there), b"too late"),
        Err(Refused::Gone)
    );
    pair.until("parting", |near, far| {
        near.left().is_some() && far.left().is_some()
    });
    let near = pair.near_log.left().map(|left| &left.cause);
    let far = pair.far_log.left().map(|left| &left.cause);
    assert_eq!(near, Some(&Cause::Local));
    assert_eq!(far, Some(&Cause::Closed));
    pair.far = None;
    pair.arrived(50, |_| 5_000);
}

/// Whoever is gone gets nothing any more.
pub fn gone_is_refused<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Limits::data());
    let there = pair.there();
    pair.far = None;
    pair.until("end", |near, _| near.left().is_some());
    assert_eq!(pair.near.send(To::Peer(there), b"?"), Err(Refused::Gone));
    assert_eq!(pair.send(0, 1), Err(Refused::NoPeer));
    assert_eq!(pair.near.queued(there), Queued::default());
}

/// What an end sent and handed over before it was dropped is delivered first.
pub fn what_was_sent_before_leaving_arrives<L: Lab>(lab: &mut L) {
    if !lab.is_two_way() {
        return;
    }
    let mut pair = Pair::new(lab, Limits::data());
    if let Some(far) = &mut pair.far {
        for number in 0..20 {
            far.send(To::Any, &pattern(number, 700))
                .expect("there is room");
        }
    }
    let turned = pair.turn_far(ridgeline_clock::Nanos::ZERO);
    assert_eq!(turned.messages, 0);
    while pair
        .far
        .as_ref()
        .is_some_and(|far| far.queued_all().messages > 0)
        && pair.near_log.messages().len() < 20
    {
        pair.turn();
    }
    pair.far = None;
    pair.until("end", |near, _| near.left().is_some());
    assert_eq!(pair.near_log.messages().len(), 20);
}

/// What could not be handed over to a peer that is gone is counted.
pub fn unsent_is_counted<L: Lab>(lab: &mut L) {
    let limits = Limits {
        message_bytes_max: 64 << 10,
        queued_bytes_max: 1 << 20,
        ..Limits::data()
    };
    let mut pair = Pair::new(lab, limits);
    pair.fill(0, 10_000);
    pair.far = None;
    pair.until("end", |near, _| near.left().is_some());
    let unsent = pair.near_log.left().map(|left| left.unsent);
    assert!(
        unsent.is_some_and(|unsent| unsent.messages >= 50 && unsent.bytes >= 500_000),
        "{unsent:?}"
    );
}
