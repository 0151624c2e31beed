//! A relay that hands on what comes after a while: the kernel here need not know how to delay.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;

use bytes::Bytes;
use ridgeline_clock::{Arrival, Clock as _, MonotonicClock, Nanos};
use ridgeline_net::{Close, Closed, Commands, Driver as _, Peer, Sink, Token, Wake as _};
use ridgeline_net_epoll::{EpollConfig, EpollDriver, EpollWaker};

use crate::network::{Network, ROUTER, address};

/// How long bytes are kept.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Delay {
    /// On their way from who connects.
    pub(crate) there: Nanos,
    /// On their way back.
    pub(crate) back: Nanos,
}

/// A running relay on the router. It stops when dropped.
#[derive(Debug)]
pub(crate) struct Relay {
    /// Where it listens.
    pub(crate) address: SocketAddr,
    stop: Arc<AtomicBool>,
    waker: EpollWaker,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Relays whatever connects to `to`.
    pub(crate) fn start(network: &Network, to: SocketAddr, delay: Delay) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let (ready, started) = mpsc::channel();
        let thread = network.thread(ROUTER, move || {
            let mut driver = EpollDriver::new(EpollConfig::default()).expect("epoll");
            let here = Peer::Tcp((address(ROUTER), 0).into());
            let bound = driver.listen(&here).expect("a free port");
            let Peer::Tcp(bound) = bound else {
                panic!("it listens at an address")
            };
            ready.send((bound, driver.waker())).expect("the test waits");
            let mut links = Links {
                to,
                delay,
                ends: HashMap::new(),
                accepted: 0,
            };
            while !stopped.load(Ordering::Acquire) {
                let deadline = links.step(driver.commands(), MonotonicClock.now());
                driver.turn(deadline, &mut links).expect("a turn");
            }
        });
        let (address, waker) = started.recv().expect("the relay starts");
        Self {
            address,
            stop,
            waker,
            thread: Some(thread),
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of the relay has failed what went through it.
            let _ = thread.join();
        }
    }
}

/// One end of a relayed connection, named by its token's index: those that connected are even, and the
/// next number is the connection that was opened for it.
#[derive(Debug)]
struct End {
    token: Token,
    is_open: bool,
    /// What it is still to be told, and when.
    queue: VecDeque<(Nanos, Told)>,
}

#[derive(Debug)]
enum Told {
    Bytes(Vec<u8>),
    End,
}

#[derive(Debug)]
struct Links {
    to: SocketAddr,
    delay: Delay,
    ends: HashMap<u32, End>,
    accepted: u32,
}

impl Links {
    /// Hands on what is due; when the next of it is.
    fn step(&mut self, commands: &mut Commands, now: Nanos) -> Nanos {
        let mut next = Nanos::MAX;
        for end in self.ends.values_mut().filter(|end| end.is_open) {
            while let Some((due, _)) = end.queue.front() {
                if *due > now {
                    next = next.min(*due);
                    break;
                }
                match end.queue.pop_front() {
                    Some((_, Told::Bytes(bytes))) => commands.send(end.token, bytes, Bytes::new()),
                    Some((_, Told::End)) => commands.close(end.token, Close::Fin),
                    None => break,
                }
            }
        }
        next
    }

    /// Tells the other end of the connection, when it has been on its way long enough.
    fn tell(&mut self, from: Token, at: Nanos, told: Told) {
        let way = if from.index.is_multiple_of(2) {
            self.delay.there
        } else {
            self.delay.back
        };
        if let Some(end) = self.ends.get_mut(&(from.index ^ 1)) {
            end.queue.push_back((at + way, told));
        }
    }

    fn add(&mut self, index: u32, is_open: bool) -> Token {
        let token = Token {
            index,
            generation: 0,
        };
        let end = End {
            token,
            is_open,
            queue: VecDeque::new(),
        };
        self.ends.insert(index, end);
        token
    }
}

impl Sink for Links {
    fn accepted(&mut self, commands: &mut Commands, _: u32, _: Nanos) -> Option<Token> {
        let index = self.accepted * 2;
        self.accepted += 1;
        let token = self.add(index, true);
        let other = self.add(index + 1, false);
        commands.open(other, Peer::Tcp(self.to), None);
        Some(token)
    }

    fn opened(&mut self, _: &mut Commands, token: Token, _: Nanos) {
        if let Some(end) = self.ends.get_mut(&token.index) {
            end.is_open = true;
        }
    }

    fn submitted(&mut self, _: Token, _: Nanos) {}

    fn sent(&mut self, _: &mut Commands, _: Token, _: Vec<u8>, _: Nanos) {}

    fn received(&mut self, _: &mut Commands, token: Token, bytes: &[u8], arrival: Arrival) {
        self.tell(token, arrival.at, Told::Bytes(bytes.to_vec()));
    }

    fn ended(&mut self, _: &mut Commands, token: Token, arrival: Arrival) {
        self.tell(token, arrival.at, Told::End);
    }

    fn closed(&mut self, _: &mut Commands, token: Token, _: Closed, at: Nanos) {
        self.tell(token, at, Told::End);
        self.ends.remove(&token.index);
    }
}
