mod orders;
mod reap;

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use mio::{Events, Interest, Poll, Waker};
use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use ridgeline_net::{Closed, Commands, Counters, Driver, DriverError, Peer, Sink, Token, Turn};

use crate::connection::{Connection, Sending};
use crate::socket::Listener;
use crate::stamps::Stamps;
use crate::wait::{self, EpollWaker};

/// How an [`EpollDriver`] is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpollConfig {
    /// Tokens have indexes below it.
    pub connections_max: u32,
    /// The longest read. One buffer of this size serves the whole driver.
    pub read_buffer_bytes: u32,
    /// Whether received bytes carry the kernel's receive stamps (`SO_TIMESTAMPNS`), at the cost of a control
    /// message for each read. Sockets of the file system have none: their reads carry the time of reaping.
    pub rx_timestamps: bool,
    /// Whether other drivers may listen on the same TCP port (`SO_REUSEPORT`), each getting a share
    /// of the connections.
    pub reuse_port: bool,
}

impl Default for EpollConfig {
    /// 4,096 connections, reads of up to 64 KiB, no stamps, ports of its own.
    fn default() -> Self {
        Self {
            connections_max: 4_096,
            read_buffer_bytes: 64 << 10,
            rx_timestamps: false,
            reuse_port: false,
        }
    }
}

/// Events taken from the kernel at once.
const EVENTS_MAX: usize = 1_024;

/// Event names: connections carry their index and generation, these two kinds the rest of the
/// range of indexes.
const WAKER: mio::Token = mio::Token(usize::MAX);
const LISTENER_FIRST: u32 = u32::MAX - LISTENERS_MAX;
const LISTENERS_MAX: u32 = 1_024;

/// See the crate's page.
#[derive(Debug)]
pub struct EpollDriver {
    config: EpollConfig,
    poll: Poll,
    events: Events,
    waker: Arc<Waker>,
    slots: Vec<Slot>,
    listeners: Vec<Listening>,
    commands: Commands,
    /// Completions of orders: they are told after the wait like all others.
    told: VecDeque<(Token, Vec<u8>)>,
    /// Connections to look at after the wait: with something to read, coming up, or over.
    work: VecDeque<u32>,
    /// Connections with something to hand over before it.
    flush: VecDeque<u32>,
    buffer: Box<[u8]>,
    /// Where stamps are wanted.
    stamps: Option<Stamps>,
    counters: Counters,
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    connection: Option<Connection>,
    /// The queue of the slot's last connection, for the next one.
    queue: VecDeque<Sending>,
}

#[derive(Debug)]
struct Listening {
    /// `None`: it was closed.
    listener: Option<Listener>,
    /// Connections may be waiting.
    ready: bool,
    /// They are, but there was no descriptor for them: tried again when one is free.
    starved: bool,
}

impl EpollDriver {
    /// A driver for the calling thread, whose timer slack becomes 1 ns.
    ///
    /// # Errors
    /// [`DriverError::Os`] when the kernel gives no epoll or event descriptor.
    pub fn new(config: EpollConfig) -> Result<Self, DriverError> {
        let poll = Poll::new().map_err(|error| wait::failed("epoll_create1", error))?;
        let waker = Waker::new(poll.registry(), WAKER);
        let waker = waker.map_err(|error| wait::failed("eventfd", error))?;
        let stamps = config.rx_timestamps.then(Stamps::start).transpose();
        let stamps = stamps.map_err(|error| wait::failed("SO_TIMESTAMPNS", error))?;
        // A sandbox may forbid it; deadlines are 50 us less exact then.
        let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
        Ok(Self {
            config,
            poll,
            events: Events::with_capacity(EVENTS_MAX),
            waker: Arc::new(waker),
            slots: Vec::new(),
            listeners: Vec::new(),
            commands: Commands::with_capacity(64),
            told: VecDeque::with_capacity(64),
            work: VecDeque::with_capacity(64),
            flush: VecDeque::with_capacity(64),
            buffer: vec![0; config.read_buffer_bytes.max(1) as usize].into_boxed_slice(),
            stamps,
            counters: Counters::default(),
        })
    }

    fn connection(&mut self, index: u32) -> Option<&mut Connection> {
        self.slots.get_mut(index as usize)?.connection.as_mut()
    }

    /// The connection that a token names, if it is in use.
    fn named(&mut self, token: Token) -> Option<&mut Connection> {
        self.connection(token.index)
            .filter(|connection| connection.token == token)
    }

    fn list_work(&mut self, index: u32) {
        if let Some(connection) = self.connection(index)
            && !mem::replace(&mut connection.in_work, true)
        {
            self.work.push_back(index);
        }
    }

    fn list_flush(&mut self, index: u32) {
        if let Some(connection) = self.connection(index)
            && !mem::replace(&mut connection.in_flush, true)
        {
            self.flush.push_back(index);
        }
    }

    fn die(&mut self, index: u32, cause: Closed) {
        if let Some(connection) = self.connection(index) {
            connection.dead.get_or_insert(cause);
            self.list_work(index);
        }
    }
}

impl Driver for EpollDriver {
    type Waker = EpollWaker;

    fn listen(&mut self, peer: &Peer) -> Result<Peer, DriverError> {
        let failed = |source| DriverError::Listen {
            peer: peer.clone(),
            source,
        };
        let (mut listener, bound) = Listener::bind(peer, self.config.reuse_port).map_err(failed)?;
        let number = u32::try_from(self.listeners.len()).unwrap_or(LISTENERS_MAX);
        if number >= LISTENERS_MAX {
            return Err(failed(io::ErrorKind::QuotaExceeded.into()));
        }
        let name = name(LISTENER_FIRST + number, 0);
        let registry = self.poll.registry();
        registry
            .register(listener.source(), name, Interest::READABLE)
            .map_err(failed)?;
        self.listeners.push(Listening {
            listener: Some(listener),
            ready: false,
            starved: false,
        });
        Ok(bound)
    }

    fn stop_listening(&mut self) -> Result<(), DriverError> {
        for listening in &mut self.listeners {
            // Closing the descriptor takes it out of the kernel's list.
            listening.listener = None;
            (listening.ready, listening.starved) = (false, false);
        }
        Ok(())
    }

    fn commands(&mut self) -> &mut Commands {
        &mut self.commands
    }

    fn turn<S: Sink>(&mut self, deadline: Nanos, sink: &mut S) -> Result<Turn, DriverError> {
        self.apply_all();
        let mut waited = Nanos::ZERO;
        loop {
            self.hand_over(sink);
            let busy = !self.told.is_empty()
                || !self.work.is_empty()
                || self.listeners.iter().any(|listening| listening.ready);
            let before = MonotonicClock.now();
            if busy || before >= deadline {
                wait::enter(&mut self.poll, &mut self.events, Some(Duration::ZERO))?;
            } else {
                wait::wait(&mut self.poll, &mut self.events, deadline)?;
                waited += MonotonicClock.now() - before;
            }
            let woken = self.take_events();
            let completions = self.tell(sink, MonotonicClock.now());
            let reaped = MonotonicClock.now();
            if completions > 0 || woken || reaped >= deadline {
                self.counters.turns += 1;
                self.counters.completions += u64::from(completions);
                return Ok(Turn {
                    completions,
                    woken,
                    waited,
                    reaped,
                });
            }
        }
    }

    fn waker(&self) -> EpollWaker {
        EpollWaker(Arc::clone(&self.waker))
    }

    fn counters(&self) -> Counters {
        let error = self.stamps.as_ref().map(|stamps| stamps.map.error_max());
        Counters {
            stamp_error_max: error.unwrap_or(Nanos::ZERO),
            ..self.counters
        }
    }
}

/// How events name a connection: 64 bits hold a whole token.
fn name(index: u32, generation: u32) -> mio::Token {
    const {
        assert!(
            usize::BITS == 64,
            "an event's name holds an index and a generation"
        )
    };
    mio::Token((generation as usize) << 32 | index as usize)
}

fn parts(name: mio::Token) -> (u32, u32) {
    let low = |bits: usize| u32::try_from(bits & 0xFFFF_FFFF).unwrap_or(0);
    (low(name.0), low(name.0 >> 32))
}
