use std::io::{Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::Arc;
use std::thread;

use bytes::Bytes;
use ridgeline_net::{Close, Closed, Driver, Peer};
use ridgeline_net_uring::UringConfig;

use crate::world::{
    Event, PATIENCE, Role, World, address, driver, loopback, pattern, peer, small, token,
};

#[test]
fn more_than_the_socket_buffers_hold_comes_back_whole() {
    for rx_timestamps in [false, true] {
        let Some(mut driver) = driver(UringConfig {
            rx_timestamps,
            ..small(1)
        }) else {
            return;
        };
        let (there, echo) = peer(|mut stream| {
            let mut back = stream.try_clone().unwrap();
            std::io::copy(&mut stream, &mut back).unwrap()
        });
        let (head, body) = (pattern(1, 3 << 20), pattern(2, 9 << 20));
        let whole = [head.clone(), body.clone()].concat();
        driver.commands().open(token(0), there, None);
        driver
            .commands()
            .send(token(0), head.clone(), Bytes::from(body));
        driver.commands().close(token(0), Close::Half);
        let mut world = World::default();
        world.until(&mut driver, |world| world.has(&Event::Ended(token(0))));
        assert!(
            world.bytes(token(0)) == whole,
            "{} bytes",
            world.bytes(token(0)).len()
        );
        assert!(world.has(&Event::Sent(token(0), head)));
        assert_eq!(echo.join().unwrap(), whole.len() as u64);
        driver.commands().close(token(0), Close::Fin);
        world.until(&mut driver, |world| {
            world.cause(token(0)) == Some(Closed::Local)
        });
        assert_eq!(driver.counters().sent_bytes, whole.len() as u64);
        assert_eq!(driver.counters().received_bytes, whole.len() as u64);
    }
}

#[test]
fn sends_go_out_in_order_even_those_from_before_it_is_up() {
    let Some(mut driver) = driver(small(1)) else {
        return;
    };
    let (there, reader) = peer(|mut stream| {
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        all
    });
    driver.commands().open(token(0), there, None);
    let mut expected = Vec::new();
    for number in 0..500_u32 {
        let (head, body) = match number % 4 {
            0 => (number.to_ne_bytes().to_vec(), Bytes::new()),
            1 => (Vec::new(), Bytes::from(pattern(u64::from(number), 300))),
            2 => (Vec::new(), Bytes::new()),
            _ => (
                number.to_ne_bytes().to_vec(),
                Bytes::from(pattern(u64::from(number), 70_000)),
            ),
        };
        expected.extend_from_slice(&head);
        expected.extend_from_slice(&body);
        driver.commands().send(token(0), head, body);
    }
    driver.commands().close(token(0), Close::Fin);
    let mut world = World::default();
    world.until(&mut driver, |world| world.cause(token(0)).is_some());
    assert!(reader.join().unwrap() == expected);
    assert_eq!(world.events.first(), Some(&Event::Opened(token(0))));
    assert_eq!(world.sends_done(token(0)), 500);
    assert_eq!(world.submitted[&token(0)].len(), 500);
    assert!(world.submitted[&token(0)].is_sorted());
    let heads: Vec<u32> = world
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Sent(_, head) => head.as_slice().try_into().ok().map(u32::from_ne_bytes),
            _ => None,
        })
        .collect();
    let tagged: Vec<u32> = (0..500)
        .filter(|number| matches!(number % 4, 0 | 3))
        .collect();
    assert_eq!(heads, tagged);
}

#[test]
fn a_driver_serves_peers_of_the_standard_library() {
    let Some(mut driver) = driver(small(2)) else {
        return;
    };
    let here = driver.listen(&loopback()).unwrap();
    let here = address(&here);
    assert_ne!(here.port(), 0);
    let data = pattern(5, 1 << 20);
    let client = thread::spawn({
        let data = data.clone();
        move || {
            let mut stream = std::net::TcpStream::connect(here).unwrap();
            stream.set_read_timeout(Some(PATIENCE.into())).unwrap();
            let mut writer = stream.try_clone().unwrap();
            let writing = thread::spawn(move || {
                writer.write_all(&data).unwrap();
                writer.shutdown(std::net::Shutdown::Write).unwrap();
            });
            let mut all = Vec::new();
            stream.read_to_end(&mut all).unwrap();
            writing.join().unwrap();
            all
        }
    });
    let mut world = World {
        role: Role::Echo,
        names: vec![token(1)],
        ..World::default()
    };
    world.until(&mut driver, |world| {
        world.cause(token(1)) == Some(Closed::Local)
    });
    assert!(client.join().unwrap() == data);
}

#[test]
fn unix_sockets_carry_bytes_both_ways() {
    // Stamps are asked for and not to be had.
    let Some(mut driver) = driver(UringConfig {
        rx_timestamps: true,
        ..small(2)
    }) else {
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let path: Arc<Path> = folder.path().join("socket").into();
    let here = driver.listen(&Peer::Unix(path.clone())).unwrap();
    assert_eq!(here, Peer::Unix(path.clone()));
    let data = pattern(9, 700_000);
    driver.commands().open(token(0), here, None);
    driver
        .commands()
        .send(token(0), Vec::new(), Bytes::from(data.clone()));
    driver.commands().close(token(0), Close::Half);
    let mut world = World {
        role: Role::Echo,
        names: vec![token(1)],
        ..World::default()
    };
    world.until(&mut driver, |world| world.has(&Event::Ended(token(0))));
    assert!(world.bytes(token(0)) == data);
    assert_eq!(driver.counters().stamps_discarded, 0);

    let listener = UnixListener::bind(folder.path().join("other")).unwrap();
    let path: Arc<Path> = folder.path().join("other").into();
    let reader = thread::spawn(move || {
        let (mut stream, _): (UnixStream, _) = listener.accept().unwrap();
        let mut all = Vec::new();
        stream.read_to_end(&mut all).unwrap();
        all
    });
    driver.commands().close(token(0), Close::Fin);
    world.until(&mut driver, |world| world.cause(token(0)).is_some());
    let next = ridgeline_net::Token {
        index: 0,
        generation: 2,
    };
    driver.commands().open(next, Peer::Unix(path), None);
    driver
        .commands()
        .send(next, b"hello".to_vec(), Bytes::new());
    driver.commands().close(next, Close::Fin);
    world.until(&mut driver, |world| world.cause(next).is_some());
    assert_eq!(reader.join().unwrap(), b"hello");
}

#[test]
fn a_source_address_is_what_the_peer_sees() {
    let Some(mut driver) = driver(small(1)) else {
        return;
    };
    let (there, seen) = peer(|stream| stream.peer_addr().unwrap());
    driver
        .commands()
        .open(token(0), there, Some("127.0.0.9".parse().unwrap()));
    let mut world = World::default();
    world.until(&mut driver, |world| world.has(&Event::Opened(token(0))));
    assert_eq!(seen.join().unwrap().ip().to_string(), "127.0.0.9");
}

#[test]
fn a_slot_carries_one_connection_after_another() {
    let Some(mut driver) = driver(small(1)) else {
        return;
    };
    let mut world = World::default();
    // Each peer floods until it is reset: bytes of one connection are in flight when it ends, and
    // none of them may reach the next.
    for generation in 0..60_u32 {
        let name = ridgeline_net::Token {
            index: 0,
            generation,
        };
        let byte = u8::try_from(generation).unwrap();
        let (there, flood) = peer(move |mut stream| {
            let bytes = vec![byte; 10_000];
            while stream.write_all(&bytes).is_ok() {}
        });
        driver.commands().open(name, there, None);
        let some = usize::try_from(generation).unwrap() * 1_000 + 1;
        world.until(&mut driver, |world| world.bytes(name).len() >= some);
        let how = if generation % 2 == 0 {
            Close::Reset
        } else {
            Close::Fin
        };
        driver.commands().close(name, how);
        world.until(&mut driver, |world| {
            world.cause(name) == Some(Closed::Local)
        });
        flood.join().unwrap();
        assert!(world.bytes(name).iter().all(|received| *received == byte));
    }
}
