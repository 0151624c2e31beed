//! One connection that never runs dry does not keep the others waiting, and running out of
//! descriptors loses no connection.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use ridgeline_clock::{Arrival, Nanos};
use ridgeline_net::{Closed, Commands, Driver, Peer, Sink, Token};
use ridgeline_net_epoll::{EpollConfig, EpollDriver};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// One test at a time: the limit of descriptors is the process's.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts bytes by connection; answers the first of each with a byte.
#[derive(Debug, Default)]
struct Tally {
    received: Vec<usize>,
    turns_bytes: Vec<usize>,
}

impl Sink for Tally {
    fn accepted(&mut self, _: &mut Commands, _: u32, _: Nanos) -> Option<Token> {
        self.received.push(0);
        self.turns_bytes.push(0);
        let index = u32::try_from(self.received.len() - 1).expect("a few connections");
        Some(Token {
            index,
            generation: 0,
        })
    }
    fn opened(&mut self, _: &mut Commands, _: Token, _: Nanos) {}
    fn submitted(&mut self, _: Token, _: Nanos) {}
    fn sent(&mut self, _: &mut Commands, _: Token, _: Vec<u8>, _: Nanos) {}
    fn received(&mut self, commands: &mut Commands, token: Token, bytes: &[u8], _: Arrival) {
        let index = token.index as usize;
        if self.received[index] == 0 {
            commands.send(token, vec![1], Bytes::new());
        }
        self.received[index] += bytes.len();
        self.turns_bytes[index] += bytes.len();
    }
    fn ended(&mut self, _: &mut Commands, _: Token, _: Arrival) {}
    fn closed(&mut self, _: &mut Commands, _: Token, _: Closed, _: Nanos) {}
}

fn listening(config: EpollConfig) -> (EpollDriver, std::net::SocketAddr) {
    let mut driver = EpollDriver::new(config).expect("this machine has epoll");
    let any = Peer::Tcp((Ipv4Addr::LOCALHOST, 0).into());
    let Peer::Tcp(address) = driver.listen(&any).expect("a free port") else {
        panic!("TCP was asked for")
    };
    (driver, address)
}

#[test]
fn a_turn_reads_a_bounded_share_of_each_connection() {
    let _alone = alone();
    let read_buffer_bytes = 1_000;
    let config = EpollConfig {
        read_buffer_bytes,
        ..EpollConfig::default()
    };
    let (mut driver, address) = listening(config);
    let mut streams: Vec<_> = (0..3)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    for stream in &mut streams {
        stream.write_all(&[7; 20_000]).unwrap();
    }
    let mut tally = Tally::default();
    while tally.received.iter().sum::<usize>() < 60_000 {
        tally.turns_bytes.fill(0);
        let turn = driver.turn(Nanos::MAX, &mut tally).unwrap();
        assert!(turn.completions > 0);
        for bytes in &tally.turns_bytes {
            assert!(
                *bytes <= 4 * 1_000,
                "{bytes} bytes of one connection in a turn"
            );
        }
    }
    assert_eq!(tally.received, [20_000; 3]);
}

#[test]
fn connections_wait_while_there_is_no_descriptor() {
    let _alone = alone();
    let (mut driver, address) = listening(EpollConfig::default());
    let mut streams: Vec<_> = (0..4)
        .map(|_| TcpStream::connect(address).unwrap())
        .collect();
    let mut tally = Tally::default();
    let before = getrlimit(Resource::Nofile);
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(3),
            ..before
        },
    )
    .unwrap();
    for _ in 0..20 {
        let turn = driver.turn(Nanos::ZERO, &mut tally).unwrap();
        assert_eq!(turn.completions, 0);
    }
    setrlimit(Resource::Nofile, before).unwrap();
    assert_eq!(tally.received.len(), 0);
    // Another connection is another edge; those that waited are accepted with it.
    streams.push(TcpStream::connect(address).unwrap());
    for stream in &mut streams {
        stream.write_all(b"x").unwrap();
    }
    while tally.received != [1; 5] {
        driver.turn(Nanos::MAX, &mut tally).unwrap();
    }
    driver.turn(Nanos::ZERO, &mut tally).unwrap();
    for stream in &mut streams {
        stream.read_exact(&mut [0]).unwrap();
    }
}
