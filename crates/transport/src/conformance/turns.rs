//! Turns: when they return.

use std::sync::mpsc;
use std::thread;

use ridgeline_clock::Nanos;
use ridgeline_net::Wake;

use super::{Lab, Pair};
use crate::{Limits, Transport};

/// A turn that waits without a deadline is ended by a waker on another thread, each time.
pub fn woken_from_another_thread<L: Lab>(lab: &mut L) {
    woken(&mut Pair::new(lab, Limits::data()));
}

/// Also where the receiver holds messages back.
pub fn woken_while_held<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Limits::data());
    pair.far_log.set_room(0);
    for number in 0..10 {
        pair.send_patiently(number, 1_000);
    }
    pair.settle();
    std::mem::swap(&mut pair.near_log, &mut pair.far_log);
    let far = pair.far.take();
    let near = std::mem::replace(&mut pair.near, far.expect("it is there"));
    pair.far = Some(near);
    woken(&mut pair);
    pair.near_log.set_room(u64::MAX);
    pair.until("messages", |near, _| near.messages().len() == 10);
}

fn woken<L: Lab>(pair: &mut Pair<'_, L>) {
    pair.settle();
    let waker = pair.near.waker();
    let (ask, asked) = mpsc::channel::<()>();
    let thread = thread::spawn(move || {
        for () in asked {
            waker.wake();
        }
    });
    for _ in 0..200 {
        ask.send(()).expect("the thread listens");
        // A transport's own timers may end a turn before.
        while !pair.turn_near(Nanos::MAX).woken {}
    }
    drop(ask);
    thread.join().expect("the thread does not panic");
}

/// Many wakes before a turn end one turn.
pub fn wakes_count_as_one<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Limits::data());
    pair.settle();
    let waker = pair.near.waker();
    for _ in 0..5 {
        waker.clone().wake();
    }
    assert!(pair.turn_near(Nanos::MAX).woken);
    let soon = pair.lab.now() + Nanos::from_millis(2);
    while pair.lab.now() < soon {
        assert!(!pair.turn_near(soon).woken);
    }
}

/// A turn in which nothing happens ends at its deadline.
pub fn deadline<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Limits::data());
    pair.settle();
    for span in [1, 999, 20_000, 999_999, 1_000_001, 5_000_000] {
        let end = pair.lab.now() + Nanos(span);
        let mut turn = pair.turn_near(end);
        while turn.now < end {
            turn = pair.turn_near(end);
        }
        assert_eq!((turn.messages, turn.events, turn.woken), (0, 0, false));
        assert!(turn.now <= pair.lab.now());
    }
}

/// A deadline that has passed: the turn does its work and does not wait.
pub fn passed_deadline<L: Lab>(lab: &mut L) {
    let mut pair = Pair::new(lab, Limits::data());
    pair.settle();
    for _ in 0..1_000 {
        let turn = pair.turn_near(Nanos::ZERO);
        assert_eq!((turn.messages, turn.woken), (0, false));
    }
    pair.send(0, 10).expect("there is room");
    while pair.far_log.messages().is_empty() {
        pair.turn_near(Nanos::ZERO);
        pair.turn_far(Nanos::ZERO);
        pair.turn();
    }
}
