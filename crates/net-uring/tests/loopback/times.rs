use std::io::{Read, Write};
use std::thread;

use bytes::Bytes;
use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use ridgeline_net::{Driver, Wake};
use ridgeline_net_uring::UringConfig;

use crate::world::{PATIENCE, World, driver, peer, small, token};

#[test]
fn a_stamp_lies_between_the_request_and_its_reaping() {
    const ROUNDS: usize = 200;
    let Some(mut driver) = driver(UringConfig {
        rx_timestamps: true,
        ..small(1)
    }) else {
        return;
    };
    let (there, echo) = peer(|mut stream| {
        let mut bytes = [0; 64];
        stream.set_nodelay(true).unwrap();
        for _ in 0..ROUNDS {
            stream.read_exact(&mut bytes).unwrap();
            stream.write_all(&bytes[..32]).unwrap();
            stream.write_all(&bytes[32..]).unwrap();
        }
    });
    driver.commands().open(token(0), there, None);
    let mut world = World::default();
    for round in 0..ROUNDS {
        let before = MonotonicClock.now();
        driver.commands().send(token(0), vec![7; 64], Bytes::new());
        world.until(&mut driver, |world| {
            world.bytes(token(0)).len() == 64 * (round + 1)
        });
        let submitted = world.submitted[&token(0)][round];
        assert!(before <= submitted);
        let reads = world.arrivals.remove(&token(0)).unwrap();
        let mut last = submitted;
        for read in reads {
            assert!(last <= read.not_before, "{last:?} {read:?}");
            assert!(
                read.not_before <= read.at && read.at <= read.reaped,
                "{read:?}"
            );
            last = read.at;
        }
    }
    echo.join().unwrap();
    let counters = driver.counters();
    assert_eq!(counters.stamps_discarded, 0, "{counters:?}");
    assert!(counters.stamp_error_max > Nanos::ZERO);
}

#[test]
fn bytes_that_waited_carry_the_time_they_came() {
    let Some(mut driver) = driver(UringConfig {
        rx_timestamps: true,
        ..small(1)
    }) else {
        return;
    };
    let (there, writer) = peer(|mut stream| {
        let before = MonotonicClock.now();
        stream.write_all(b"early").unwrap();
        // The stream stays open: a FIN close behind would lend its stamp to the bytes.
        (before, MonotonicClock.now(), stream)
    });
    driver.commands().open(token(0), there, None);
    let mut world = World::default();
    // Connecting is begun; nothing is reaped until the peer has written.
    for _ in 0..2 {
        driver.turn(Nanos::ZERO, &mut world).unwrap();
    }
    let written = writer.join().unwrap();
    let late = MonotonicClock.now();
    world.until(&mut driver, |world| world.bytes(token(0)).len() == 5);
    let read = world.arrivals[&token(0)][0];
    assert_eq!(driver.counters().stamps_discarded, 0);
    assert!(
        written.0 <= read.at + driver.counters().stamp_error_max,
        "{written:?} {read:?}"
    );
    assert!(
        read.at <= written.1 + driver.counters().stamp_error_max,
        "{written:?} {read:?}"
    );
    assert!(read.at < late && late <= read.reaped, "{read:?} {late:?}");
}

#[test]
fn a_turn_ends_at_its_deadline_and_not_before() {
    for spin in [Nanos::ZERO, Nanos::from_micros(300), Nanos::from_secs(1)] {
        let Some(mut driver) = driver(UringConfig { spin, ..small(1) }) else {
            return;
        };
        let mut world = World::default();
        for micros in [0, 1, 50, 2_000] {
            let now = MonotonicClock.now();
            let deadline = now + Nanos::from_micros(micros);
            let turn = driver.turn(deadline, &mut world).unwrap();
            assert!(turn.reaped >= deadline, "{turn:?} {deadline:?}");
            assert!(turn.completions == 0 && !turn.woken, "{turn:?}");
            assert!(turn.waited <= turn.reaped - now, "{turn:?}");
        }
        let turn = driver.turn(Nanos::ZERO, &mut world).unwrap();
        assert_eq!(turn.waited, Nanos::ZERO);
    }
}

#[test]
fn any_thread_wakes_a_waiting_driver() {
    let Some(mut driver) = driver(small(1)) else {
        return;
    };
    let mut world = World::default();
    let waker = driver.waker();
    for _ in 0..50 {
        let other = waker.clone();
        let thread = thread::spawn(move || other.wake());
        let turn = driver.turn(Nanos::MAX, &mut world).unwrap();
        assert!(turn.woken, "{turn:?}");
        thread.join().unwrap();
    }
}

#[test]
fn wakes_before_a_turn_count_as_one() {
    let Some(mut driver) = driver(small(1)) else {
        return;
    };
    let mut world = World::default();
    let waker = driver.waker();
    for _ in 0..10 {
        waker.wake();
    }
    assert!(
        driver
            .turn(MonotonicClock.now() + PATIENCE, &mut world)
            .unwrap()
            .woken
    );
    let soon = MonotonicClock.now() + Nanos::from_millis(1);
    assert!(!driver.turn(soon, &mut world).unwrap().woken);
    waker.wake();
    assert!(
        driver
            .turn(MonotonicClock.now() + PATIENCE, &mut world)
            .unwrap()
            .woken
    );
    drop(driver);
    waker.wake();
}
