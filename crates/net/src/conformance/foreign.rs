//! Real drivers and sockets that are not theirs. Elsewhere there is nothing to check.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, TcpListener, TcpStream};

use ridgeline_clock::Nanos;

use super::{Lab, Pair, Role, pattern};
use crate::{Closed, Peer};

/// A connection to a foreign server carries what was sent, and what comes back.
pub fn server<L: Lab>(lab: &mut L) {
    const BYTES: usize = 1 << 20;
    if !lab.is_real() {
        return;
    }
    let mut pair = Pair::new(lab, Role::Check, Role::Check);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let peer = Peer::Tcp(
        listener
            .local_addr()
            .expect("a bound listener has an address"),
    );
    let token = pair.open(&peer);
    pair.send(token, BYTES);
    pair.until("opened", |log, _| log.get(token).opened.is_some());
    let (mut stream, _) = listener
        .accept()
        .expect("opened means that it can be accepted");
    let got = exchange(&mut pair, &mut stream, BYTES);
    assert_is_pattern(&got);
    write_pattern(&mut pair, &mut stream, BYTES);
    drop(stream);
    pair.until("the end", |log, _| log.get(token).ended);
    assert_eq!(pair.near.get(token).received_bytes, BYTES as u64);
    pair.finish();
}

/// A foreign client is accepted and answered.
pub fn client<L: Lab>(lab: &mut L) {
    const BYTES: usize = 300_000;
    if !lab.is_real() {
        return;
    }
    let mut pair = Pair::new(lab, Role::Check, Role::Echo);
    let Peer::Tcp(address) = pair.address else {
        return;
    };
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_nonblocking(true).expect("a socket option");
    write_pattern(&mut pair, &mut stream, BYTES);
    let got = exchange(&mut pair, &mut stream, BYTES);
    assert_is_pattern(&got);
    drop(stream);
    let far = pair.far.accepted_all()[0];
    pair.until("the end", |_, log| log.get(far).ended);
    pair.finish();
}

/// A foreign peer that closes with bytes unread resets the connection.
pub fn resets<L: Lab>(lab: &mut L) {
    if !lab.is_real() {
        return;
    }
    let mut pair = Pair::new(lab, Role::Check, Role::Check);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let peer = Peer::Tcp(
        listener
            .local_addr()
            .expect("a bound listener has an address"),
    );
    let token = pair.open(&peer);
    pair.send(token, 100);
    pair.until("sent", |log, _| log.get(token).sent == 1);
    let (stream, _) = listener
        .accept()
        .expect("sent means that it can be accepted");
    // Bytes that were sent before the reset are received before it is told.
    (&stream)
        .write_all(&[pattern(0, 0), pattern(0, 1)])
        .expect("two bytes fit");
    let mut byte = [0];
    stream
        .peek(&mut byte)
        .expect("sent on loopback means arrived");
    drop(stream);
    pair.until("closed", |log, _| log.get(token).closed.is_some());
    let seen = pair.near.get(token);
    assert_eq!(
        (seen.closed, seen.received_bytes),
        (Some(Closed::PeerReset), 2)
    );
    pair.finish();
}

/// The local address is the one asked for.
pub fn source_address<L: Lab>(lab: &mut L) {
    if !lab.is_real() {
        return;
    }
    let mut pair = Pair::new(lab, Role::Check, Role::Check);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
    let peer = Peer::Tcp(
        listener
            .local_addr()
            .expect("a bound listener has an address"),
    );
    for last in [1, 2, 77] {
        let source = IpAddr::V4(Ipv4Addr::new(127, 0, 0, last));
        let (log, commands) = pair.near();
        let token = log.open(commands, &peer, Some(source));
        pair.until("opened", |log, _| log.get(token).opened.is_some());
        let (_, from) = listener
            .accept()
            .expect("opened means that it can be accepted");
        assert_eq!(from.ip(), source);
    }
    pair.finish();
}

/// Turns both drivers while `stream` reads `bytes` bytes.
fn exchange<L: Lab>(pair: &mut Pair<'_, L>, stream: &mut TcpStream, bytes: usize) -> Vec<u8> {
    stream.set_nonblocking(true).expect("a socket option");
    let (mut got, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    pair.until("bytes at the foreign end", |_, _| {
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => got.extend_from_slice(&buffer[..count]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => panic!("the foreign end: {error}"),
            }
        }
        got.len() >= bytes
    });
    got
}

/// Turns both drivers while `stream` writes `bytes` bytes.
fn write_pattern<L: Lab>(pair: &mut Pair<'_, L>, stream: &mut TcpStream, bytes: usize) {
    let all: Vec<u8> = (0..bytes as u64).map(|offset| pattern(0, offset)).collect();
    let mut written = 0;
    pair.until_within(Nanos::from_secs(20), "room at the foreign end", |_, _| {
        match stream.write(&all[written..]) {
            Ok(count) => written += count,
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => panic!("the foreign end: {error}"),
        }
        written == bytes
    });
}

fn assert_is_pattern(bytes: &[u8]) {
    let wrong = (0..)
        .zip(bytes)
        .find(|(offset, byte)| pattern(0, *offset) != **byte);
    assert_eq!(wrong, None, "the first wrong byte (offset, value)");
}
