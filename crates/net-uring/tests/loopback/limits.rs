use std::io::Write;
use std::net::TcpListener;
use std::thread;

use bytes::Bytes;
use ridgeline_clock::Nanos;
use ridgeline_net::{Close, Closed, Driver, Peer, Token, Wake};
use ridgeline_net_uring::UringConfig;

use crate::world::{PATIENCE, Role, World, driver, loopback, pattern, small, token};

#[test]
fn eight_tiny_buffers_lose_nothing() {
    const STREAMS: u32 = 48;
    const BYTES: usize = 60_000;
    for rx_timestamps in [false, true] {
        let tiny = UringConfig {
            buffers_count: 8,
            buffer_bytes: 64,
            ..small(STREAMS)
        };
        let Some(mut driver) = driver(UringConfig {
            rx_timestamps,
            ..tiny
        }) else {
            return;
        };
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let there = Peer::Tcp(listener.local_addr().unwrap());
        let writers = thread::spawn(move || {
            let streams: Vec<_> = (0..STREAMS).map(|_| listener.accept().unwrap().0).collect();
            thread::scope(|scope| {
                for mut stream in streams {
                    scope.spawn(move || {
                        stream.set_write_timeout(Some(PATIENCE.into())).unwrap();
                        let port = u64::from(stream.peer_addr().unwrap().port());
                        stream.write_all(&port.to_ne_bytes()).unwrap();
                        stream.write_all(&pattern(port, BYTES)).unwrap();
                    });
                }
            });
        });
        for index in 0..STREAMS {
            driver.commands().open(token(index), there.clone(), None);
        }
        let mut world = World::default();
        let whole = BYTES + 8;
        world.until(&mut driver, |world| {
            (0..STREAMS).all(|index| world.bytes(token(index)).len() == whole)
        });
        writers.join().unwrap();
        for index in 0..STREAMS {
            let (port, bytes) = world.bytes(token(index)).split_first_chunk().unwrap();
            assert!(
                bytes == pattern(u64::from_ne_bytes(*port), BYTES),
                "stream {index}"
            );
        }
        let counters = driver.counters();
        assert!(counters.out_of_buffers > 0, "{counters:?}");
        assert_eq!(counters.received_bytes, u64::from(STREAMS) * whole as u64);
    }
}

#[test]
fn a_completion_queue_of_64_loses_nothing() {
    const PAIRS: u32 = 300;
    let tight = UringConfig {
        sq_entries: 64,
        cq_entries: 64,
        ..UringConfig::new(2 * PAIRS)
    };
    let Some(mut driver) = driver(tight) else {
        return;
    };
    let here = driver.listen(&loopback()).unwrap();
    let mut world = World {
        role: Role::Echo,
        names: (PAIRS..2 * PAIRS).map(token).collect(),
        ..World::default()
    };
    for index in 0..PAIRS {
        driver.commands().open(token(index), here.clone(), None);
    }
    for round in 1..=5_u64 {
        for index in 0..PAIRS {
            let seed = round << 32 | u64::from(index);
            driver
                .commands()
                .send(token(index), pattern(seed, 3_000), Bytes::new());
        }
        let whole = usize::try_from(round).unwrap() * 3_000;
        world.until(&mut driver, |world| {
            (0..PAIRS).all(|index| world.bytes(token(index)).len() == whole)
        });
    }
    for index in 0..PAIRS {
        for round in 1..=5_usize {
            let seed = (round as u64) << 32 | u64::from(index);
            let part = &world.bytes(token(index))[(round - 1) * 3_000..round * 3_000];
            assert!(
                part == pattern(seed, 3_000),
                "connection {index}, round {round}"
            );
        }
    }
    let counters = driver.counters();
    assert!(counters.completions_overflowed > 0, "{counters:?}");
    assert!(
        counters.completions_overflowed < counters.completions,
        "{counters:?}"
    );
}

#[test]
fn a_thousand_connections_come_and_go() {
    const SLOTS: u32 = 50;
    const ROUNDS: u32 = 20;
    let Some(mut driver) = driver(small(2 * SLOTS)) else {
        return;
    };
    let here = driver.listen(&loopback()).unwrap();
    let mut world = World {
        role: Role::Echo,
        ..World::default()
    };
    for generation in 0..ROUNDS {
        let name = |index| Token { index, generation };
        world.names = (SLOTS..2 * SLOTS).map(name).collect();
        for index in 0..SLOTS {
            driver.commands().open(name(index), here.clone(), None);
            driver.commands().send(
                name(index),
                format!("{generation}/{index}").into(),
                Bytes::new(),
            );
        }
        world.until(&mut driver, |world| {
            (0..SLOTS).all(|index| world.bytes(name(index)).len() >= 3)
        });
        for index in 0..SLOTS {
            let how = if index % 5 == 0 {
                Close::Reset
            } else {
                Close::Fin
            };
            driver.commands().close(name(index), how);
        }
        world.until(&mut driver, |world| {
            (0..2 * SLOTS).all(|index| world.cause(name(index)).is_some())
        });
        for index in 0..SLOTS {
            let said = format!("{generation}/{index}");
            let echo = world.bytes(name(index));
            assert!(said.as_bytes().starts_with(echo), "{said} {echo:?}");
            assert_eq!(world.cause(name(index)), Some(Closed::Local));
        }
        world.events.clear();
    }
}

#[test]
fn more_peers_than_names_are_refused_and_the_rest_served() {
    const NAMES: u32 = 4;
    let Some(mut driver) = driver(small(NAMES)) else {
        return;
    };
    let Peer::Tcp(here) = driver.listen(&loopback()).unwrap() else {
        panic!("a TCP listener")
    };
    // Three times what the file table holds. An accept that finds no file ends, and the kernel
    // closes what it accepted: not all of them are told.
    let clients = thread::spawn(move || {
        let connect = |_| std::net::TcpStream::connect(here);
        (0..200).map(connect).filter(Result::is_ok).count()
    });
    let mut world = World {
        names: (0..NAMES).map(token).collect(),
        ..World::default()
    };
    while !clients.is_finished() || !world.names.is_empty() {
        let soon = world.last_turn.reaped + Nanos::from_millis(1);
        world.last_turn = driver.turn(soon, &mut world).unwrap();
    }
    assert!(clients.join().unwrap() > 0);
    // The accept has gone on.
    let told = world.refused;
    let late = std::net::TcpStream::connect(here).unwrap();
    world.until(&mut driver, |world| world.refused > told);
    drop(late);
}

/// A thread has 16 places for registered rings, and a driver gives its own back.
#[test]
fn a_thread_makes_many_drivers_and_holds_many() {
    let mut held = Vec::new();
    for _ in 0..40 {
        let Some(mut one) = driver(small(1)) else {
            return;
        };
        one.turn(Nanos::ZERO, &mut World::default()).unwrap();
    }
    for _ in 0..20 {
        held.extend(driver(small(1)));
    }
    let mut world = World::default();
    for driver in &mut held {
        driver.waker().wake();
        assert!(driver.turn(Nanos::MAX, &mut world).unwrap().woken);
    }
}
