//! Turns: when they return, and the times they tell.

use std::sync::mpsc;
use std::thread;

use ridgeline_clock::Nanos;

use super::{Lab, Pair, Role};
use crate::{Close, Driver, Wake};

/// A turn that waits without a deadline is ended by a waker on another thread, each time.
pub fn woken_from_another_thread<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Role::Check, Role::Check);
    pair.settle();
    let waker = pair.client.waker();
    let (ask, asked) = mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        for () in asked {
            waker.wake();
        }
    });
    for _ in 0..200 {
        ask.send(()).expect("the thread listens");
        let turn = pair.turn_client(Nanos::MAX);
        assert!(turn.woken);
        assert_eq!(turn.completions, 0);
    }
    drop(ask);
    thread.join().expect("the thread does not panic");
    pair.finish();
}

/// Many wakes before a turn end one turn.
pub fn wakes_count_as_one<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Role::Check, Role::Check);
    pair.settle();
    let waker = pair.client.waker();
    for _ in 0..5 {
        waker.clone().wake();
    }
    assert!(pair.turn_client(Nanos::MAX).woken);
    let soon = pair.lab.now() + Nanos::from_millis(2);
    let turn = pair.turn_client(soon);
    assert!(!turn.woken);
    assert!(turn.reaped >= soon);
    pair.finish();
}

/// A turn in which nothing happens returns at its deadline, not before.
pub fn deadline<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Role::Check, Role::Check);
    let _ = pair.connect();
    pair.settle();
    for span in [
        1, 999, 20_000, 150_000, 999_999, 1_000_000, 1_000_001, 2_345_678, 5_000_000,
    ] {
        let before = pair.lab.now();
        let turn = pair.turn_client(before + Nanos(span));
        assert_eq!(
            (turn.completions, turn.woken),
            (0, false),
            "after {span} ns"
        );
        assert!(
            turn.reaped >= before + Nanos(span),
            "{span} ns: {turn:?} from {before:?}"
        );
        assert!(turn.reaped <= pair.lab.now());
        assert!(turn.waited <= turn.reaped - before, "{turn:?}");
    }
    pair.finish();
}

/// A deadline that has passed: the turn does its work and does not wait.
pub fn passed_deadline<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Role::Check, Role::Check);
    let (near, far) = pair.connect();
    pair.settle();
    for _ in 0..1_000 {
        let turn = pair.turn_client(Nanos::ZERO);
        assert_eq!((turn.completions, turn.woken), (0, false));
        let now = pair.lab.now();
        assert_eq!(pair.turn_client(now).completions, 0);
    }
    pair.send(near, 10);
    pair.until("the bytes", |_, log| log.get(far).received_bytes == 10);
    pair.finish();
}

/// A request is handed over before it arrives, and its answer after that.
pub fn submitted_before_arrival<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Role::Check, Role::Check);
    for _ in 0..100 {
        let (near, far) = pair.connect();
        let before = pair.lab.now();
        pair.send(near, 300);
        pair.until("the request", |_, log| log.get(far).received_bytes == 300);
        pair.send_back(far, 3_000);
        pair.until("the answer", |log, _| log.get(near).received_bytes == 3_000);
        let slack = pair.near.slack().max(pair.far.slack());
        let (client, server) = (pair.near.get(near), pair.far.get(far));
        let (asked, answered) = (client.submitted[0], server.submitted[0]);
        let (request, _) = server.arrivals.expect("it came");
        let (_, answer) = client.arrivals.expect("it came");
        assert!(before <= asked, "{before:?} {asked:?}");
        assert!(asked <= request.at + slack, "{asked:?} {request:?}");
        assert!(request.reaped <= answered, "{request:?} {answered:?}");
        assert!(answered <= answer.at + slack, "{answered:?} {answer:?}");
        assert!(answer.reaped <= pair.lab.now());
        pair.close(near, Close::Reset);
        pair.close_back(far, Close::Reset);
        pair.until("the end", |a, b| a.live().is_empty() && b.live().is_empty());
    }
    pair.finish();
}

/// The counters agree with what the sinks saw.
pub fn counted<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Role::Echoed, Role::Echo);
    let (near, _) = pair.connect();
    pair.send(near, 123_456);
    pair.until("the echo", |log, _| log.get(near).received_bytes == 123_456);
    pair.until("sent", |log, _| log.get(near).sent == 1);
    let counters = pair.client.counters();
    assert_eq!(counters.received_bytes, 123_456);
    assert_eq!(counters.sent_bytes, 123_456);
    assert!(
        counters.reads >= 1 && counters.completions > counters.reads,
        "{counters:?}"
    );
    assert!(counters.turns >= 1, "{counters:?}");
    pair.finish();
}
