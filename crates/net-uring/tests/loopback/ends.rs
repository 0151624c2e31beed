use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, mpsc};
use std::thread;

use bytes::Bytes;
use ridgeline_clock::Nanos;
use ridgeline_net::{Close, Closed, Driver, DriverError, Peer, Token};
use ridgeline_net_uring::{UringConfig, UringDriver};
use socket2::SockRef;

use crate::world::{
    Event, PATIENCE, Role, World, address, driver, loopback, pattern, peer, small, token,
};

#[test]
fn a_connection_that_cannot_be_had_says_why() {
    let Some(mut driver) = driver(small(8)) else {
        return;
    };
    let nobody = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let long: Arc<Path> = Path::new(&"x".repeat(200)).into();
    let not_ours = "192.0.2.1".parse().unwrap();
    let commands = driver.commands();
    commands.open(token(0), Peer::Tcp(nobody), None);
    commands.open(
        token(1),
        Peer::Unix(Path::new("/nonexistent/socket").into()),
        None,
    );
    commands.open(token(2), Peer::Tcp(nobody), Some(not_ours));
    commands.open(token(3), Peer::Unix(long), None);
    commands.send(token(0), b"never".to_vec(), Bytes::new());
    let mut world = World::default();
    world.until(&mut driver, |world| {
        (0..4).all(|index| world.cause(token(index)).is_some())
    });
    assert_eq!(world.cause(token(0)), Some(Closed::Refused));
    assert_eq!(world.cause(token(1)), Some(Closed::Refused));
    assert_eq!(world.cause(token(2)), Some(Closed::NoPorts));
    assert_eq!(world.cause(token(3)), Some(Closed::Os(libc::EINVAL)));
    let sent = world
        .events
        .iter()
        .position(|e| *e == Event::Sent(token(0), b"never".to_vec()));
    let closed = world
        .events
        .iter()
        .position(|e| *e == Event::Closed(token(0), Closed::Refused));
    assert!(sent.is_some() && sent < closed, "{:?}", world.events);
    assert!(world.submitted.is_empty());
}

#[test]
fn a_peers_reset_is_told() {
    let Some(mut driver) = driver(small(1)) else {
        return;
    };
    let (there, thread) = peer(|mut stream| {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        SockRef::from(&stream)
            .set_linger(Some(std::time::Duration::ZERO))
            .unwrap();
    });
    driver.commands().open(token(0), there, None);
    driver
        .commands()
        .send(token(0), b"x".to_vec(), Bytes::new());
    let mut world = World::default();
    world.until(&mut driver, |world| {
        world.cause(token(0)) == Some(Closed::PeerReset)
    });
    thread.join().unwrap();
}

#[test]
fn what_came_before_a_reset_is_received_and_the_send_comes_back() {
    let Some(mut driver) = driver(small(1)) else {
        return;
    };
    // The peer answers without reading and closes: its kernel resets. The send fails half-way.
    let (there, thread) = peer(|mut stream| {
        let mut byte = [0];
        stream.read_exact(&mut byte).unwrap();
        stream.write_all(b"too large").unwrap();
    });
    driver.commands().open(token(0), there, None);
    driver
        .commands()
        .send(token(0), pattern(3, 40 << 20), Bytes::new());
    let mut world = World::default();
    world.until(&mut driver, |world| {
        world.cause(token(0)) == Some(Closed::PeerReset)
    });
    assert_eq!(world.bytes(token(0)), b"too large");
    assert_eq!(world.sends_done(token(0)), 1);
    thread.join().unwrap();
}

#[test]
fn fin_comes_after_everything_that_was_queued() {
    let Some(mut driver) = driver(small(1)) else {
        return;
    };
    let (go, wait) = mpsc::channel::<()>();
    let (there, reader) = peer(move |mut stream| {
        wait.recv_timeout(PATIENCE.into()).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        all
    });
    let data = pattern(4, 20 << 20);
    driver.commands().open(token(0), there, None);
    driver
        .commands()
        .send(token(0), b"head".to_vec(), Bytes::from(data.clone()));
    driver
        .commands()
        .send(token(0), b"tail".to_vec(), Bytes::new());
    driver.commands().close(token(0), Close::Fin);
    // Comes too late, and comes back in its turn.
    driver
        .commands()
        .send(token(0), b"late".to_vec(), Bytes::new());
    let mut world = World::default();
    world.until(&mut driver, |world| world.has(&Event::Opened(token(0))));
    go.send(()).unwrap();
    world.until(&mut driver, |world| {
        world.cause(token(0)) == Some(Closed::Local)
    });
    assert!(reader.join().unwrap() == [b"head".as_slice(), &data, b"tail"].concat());
    let heads = [b"head", b"tail", b"late"].map(|head| Event::Sent(token(0), head.to_vec()));
    assert_eq!(world.events[1..4], heads);
    assert_eq!(world.submitted[&token(0)].len(), 2);
}

#[test]
fn half_a_close_still_receives() {
    let Some(mut driver) = driver(small(1)) else {
        return;
    };
    let (there, thread) = peer(|mut stream| {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        stream.write_all(b"answer to ").unwrap();
        stream.write_all(&all).unwrap();
    });
    driver.commands().open(token(0), there, None);
    driver
        .commands()
        .send(token(0), b"question".to_vec(), Bytes::new());
    driver.commands().close(token(0), Close::Half);
    driver.commands().close(token(0), Close::Half);
    let mut world = World::default();
    world.until(&mut driver, |world| world.has(&Event::Ended(token(0))));
    assert_eq!(world.bytes(token(0)), b"answer to question");
    assert_eq!(world.cause(token(0)), None);
    thread.join().unwrap();
    driver
        .commands()
        .send(token(0), b"late".to_vec(), Bytes::new());
    world.until(&mut driver, |world| {
        world.has(&Event::Sent(token(0), b"late".to_vec()))
    });
    driver.commands().close(token(0), Close::Fin);
    world.until(&mut driver, |world| {
        world.cause(token(0)) == Some(Closed::Local)
    });
}

/// The kernel shuts down on a thread of its own, which looks for the socket when it gets to run:
/// by then the place in the file table could be the next connection's.
#[test]
fn a_shutdown_never_reaches_the_next_connection() {
    const ROUNDS: u32 = 400;
    let Some(mut driver) = driver(small(2)) else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let there = Peer::Tcp(listener.local_addr().unwrap());
    let echo = thread::spawn(move || {
        for _ in 0..ROUNDS {
            let (mut stream, _) = listener.accept().unwrap();
            let mut ping = [0; 4];
            stream.set_read_timeout(Some(PATIENCE.into())).unwrap();
            stream.read_exact(&mut ping).unwrap();
            stream.write_all(&ping).unwrap();
        }
    });
    let mut world = World::default();
    let name = |round: u32| Token {
        index: round % 2,
        generation: round,
    };
    for round in 0..ROUNDS {
        driver.commands().open(name(round), there.clone(), None);
        driver
            .commands()
            .send(name(round), b"ping".to_vec(), Bytes::new());
        world.until(&mut driver, |world| {
            let last_is_gone = round == 0 || world.cause(name(round - 1)).is_some();
            last_is_gone && world.bytes(name(round)) == b"ping"
        });
        driver.commands().close(name(round), Close::Half);
        driver.commands().close(name(round), Close::Reset);
    }
    world.until(&mut driver, |world| world.cause(name(ROUNDS - 1)).is_some());
    echo.join().unwrap();
    for round in 0..ROUNDS {
        assert_eq!(world.cause(name(round)), Some(Closed::Local));
    }
}

#[test]
fn a_reset_drops_what_is_queued_and_the_peer_sees_it() {
    let Some(mut driver) = driver(small(1)) else {
        return;
    };
    let (go, wait) = mpsc::channel::<()>();
    let (there, thread) = peer(move |mut stream| {
        wait.recv_timeout(PATIENCE.into()).unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).map_err(|error| error.kind())
    });
    driver.commands().open(token(0), there, None);
    for number in 0..3_u8 {
        driver
            .commands()
            .send(token(0), vec![number; 40 << 20], Bytes::new());
    }
    let mut world = World::default();
    world.until(&mut driver, |world| world.has(&Event::Opened(token(0))));
    driver.turn(Nanos::ZERO, &mut world).unwrap();
    driver.commands().close(token(0), Close::Reset);
    world.until(&mut driver, |world| {
        world.cause(token(0)) == Some(Closed::Local)
    });
    assert_eq!(world.sends_done(token(0)), 3);
    assert_eq!(world.submitted[&token(0)].len(), 1);
    go.send(()).unwrap();
    assert_eq!(thread.join().unwrap(), Err(ErrorKind::ConnectionReset));
}

#[test]
fn an_end_may_be_ordered_at_any_step_of_the_opening() {
    let Some(mut driver) = driver(small(1)) else {
        return;
    };
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let there = Peer::Tcp(listener.local_addr().unwrap());
    let mut world = World::default();
    let mut generation = 0;
    for how in [Close::Fin, Close::Reset] {
        for passes in 0..6 {
            let name = Token {
                index: 0,
                generation,
            };
            generation += 1;
            driver
                .commands()
                .open(name, there.clone(), Some("127.0.0.1".parse().unwrap()));
            for _ in 0..passes {
                // A deadline long gone: one pass each.
                driver.turn(Nanos(1), &mut world).unwrap();
            }
            driver.commands().close(name, how);
            world.until(&mut driver, |world| {
                world.cause(name) == Some(Closed::Local)
            });
        }
    }
    assert!(
        world
            .events
            .iter()
            .any(|event| matches!(event, Event::Opened(_)))
    );
}

#[test]
fn orders_to_the_gone_are_dropped_and_their_buffers_come_back() {
    let Some(mut driver) = driver(small(1)) else {
        return;
    };
    let mut world = World::default();
    let never = Token {
        index: 0,
        generation: 77,
    };
    driver.commands().send(never, b"a".to_vec(), Bytes::new());
    driver.commands().send(
        Token {
            index: 9_999,
            generation: 0,
        },
        b"b".to_vec(),
        Bytes::new(),
    );
    driver.commands().close(never, Close::Reset);
    world.until(&mut driver, |world| world.events.len() == 2);
    assert!(world.has(&Event::Sent(never, b"a".to_vec())));
    assert!(world.submitted.is_empty());
}

#[test]
fn a_refused_connection_is_reset() {
    let Some(mut driver) = driver(small(1)) else {
        return;
    };
    let here = address(&driver.listen(&loopback()).unwrap());
    let client = thread::spawn(move || {
        let mut stream = TcpStream::connect(here).unwrap();
        stream.set_read_timeout(Some(PATIENCE.into())).unwrap();
        stream.read(&mut [0]).map_err(|error| error.kind())
    });
    let mut world = World {
        role: Role::Refuse,
        ..World::default()
    };
    while !client.is_finished() {
        let soon = world.last_turn.reaped + Nanos::from_millis(1);
        world.last_turn = driver.turn(soon, &mut world).unwrap();
    }
    assert_eq!(client.join().unwrap(), Err(ErrorKind::ConnectionReset));
}

#[test]
fn a_dropped_driver_leaves_nothing_behind() {
    let (go, wait) = mpsc::channel::<()>();
    let (there, thread) = peer(move |mut stream| {
        wait.recv_timeout(PATIENCE.into()).unwrap();
        let mut all = Vec::new();
        let _ = stream.read_to_end(&mut all);
        all.len()
    });
    let Some(mut first) = driver(small(4)) else {
        return;
    };
    let here = first.listen(&loopback()).unwrap();
    first.commands().open(token(0), there, None);
    first.commands().open(token(1), here.clone(), None);
    first
        .commands()
        .send(token(0), pattern(8, 30 << 20), Bytes::new());
    let mut world = World {
        names: vec![token(2)],
        ..World::default()
    };
    world.until(&mut first, |world| {
        world.has(&Event::Opened(token(0))) && world.has(&Event::Accepted(token(2)))
    });
    first.turn(Nanos::ZERO, &mut world).unwrap();
    assert_eq!(world.submitted[&token(0)].len(), 1);
    drop(first);
    go.send(()).unwrap();
    assert!(
        thread.join().unwrap() < 30 << 20,
        "the rest of the send is gone"
    );
    let mut second = UringDriver::new(small(1)).unwrap();
    second.listen(&here).unwrap();
}

#[test]
fn what_cannot_be_had_is_said_at_the_start() {
    let Some(mut driver) = driver(small(1)) else {
        return;
    };
    let error = UringDriver::new(UringConfig::new(u32::MAX / 2)).unwrap_err();
    assert!(matches!(error, DriverError::Unavailable { .. }), "{error}");
    assert!(error.to_string().contains("RLIMIT_NOFILE"), "{error}");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let there = Peer::Tcp(taken.local_addr().unwrap());
    let error = driver.listen(&there).unwrap_err();
    assert!(matches!(error, DriverError::Listen { .. }), "{error}");
}
