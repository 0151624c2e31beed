use std::collections::VecDeque;
use std::io;
use std::mem;
use std::net::IpAddr;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mio::{Events, Interest, Poll, Waker};
use ridgeline_clock::{Arrival, Clock, MonotonicClock, Nanos};
use ridgeline_net::{
    Close, Closed, Command, Commands, Counters, Driver, DriverError, Peer, Sink, Token, Turn,
};

use crate::connection::{Connection, Finish, Sending};
use crate::socket::{Listener, Stream, cause, is_exhaustion};
use crate::wait::{self, EpollWaker};

/// How an [`EpollDriver`] is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpollConfig {
    /// Tokens have indexes below it.
    pub connections_max: u32,
    /// The longest read. One buffer of this size serves the whole driver.
    pub read_buffer_bytes: u32,
    /// Whether the kernel's receive stamps are wanted. This driver has none: reads carry the time
    /// of reaping either way, and each one counts as `stamps_discarded` if they are.
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
/// Reads of one connection before the next one has its turn.
const READS_MAX: u32 = 4;
/// Connections accepted from one listener before others have their turn.
const ACCEPTS_MAX: u32 = 64;
/// Reads of what nobody wants any more, so that the close is a FIN and not a reset.
const DRAIN_MAX: u32 = 16;

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
    listener: Listener,
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

/// Orders.
impl EpollDriver {
    fn apply_all(&mut self) {
        let mut orders = mem::take(&mut self.commands);
        for order in orders.drain() {
            match order {
                Command::Open {
                    token,
                    peer,
                    source,
                } => self.open(token, &peer, source),
                Command::Send { token, head, body } => self.send(token, head, body),
                Command::Close { token, how } => self.close(token, how),
            }
        }
        self.commands = orders;
    }

    /// Puts a connection into its slot and watches its socket.
    ///
    /// # Panics
    /// When the owner uses a slot out of range, twice, or with an old generation: the rules of
    /// [`Token`] are the caller's to keep, and breaking them would mix two connections.
    fn insert(&mut self, mut connection: Connection) {
        let Token { index, generation } = connection.token;
        let max = self.config.connections_max.min(LISTENER_FIRST);
        assert!(
            index < max,
            "slot {index} of a driver with {max} connections"
        );
        if self.slots.len() <= index as usize {
            self.slots.resize_with(index as usize + 1, Slot::default);
        }
        let slot = &mut self.slots[index as usize];
        assert!(slot.connection.is_none(), "slot {index} is in use");
        assert!(
            slot.generation <= generation,
            "slot {index} goes back a generation"
        );
        slot.generation = generation;
        if let Some(stream) = &mut connection.stream {
            let interest = Interest::READABLE | Interest::WRITABLE;
            let name = name(index, generation);
            let watched = self
                .poll
                .registry()
                .register(stream.source(), name, interest);
            connection.dead = watched.err().map(|error| cause(&error));
        }
        let over = connection.dead.is_some();
        connection.queue = mem::take(&mut slot.queue);
        slot.connection = Some(connection);
        if over {
            self.list_work(index);
        }
    }

    fn open(&mut self, token: Token, peer: &Peer, source: Option<IpAddr>) {
        let connection = match Stream::connect(peer, source) {
            Ok(stream) => Connection::new(token, stream, false),
            Err(error) => Connection::failed(token, Some(cause(&error))),
        };
        self.insert(connection);
    }

    fn send(&mut self, token: Token, head: Vec<u8>, body: Bytes) {
        let Some(connection) = self.named(token) else {
            return self.told.push_back((token, head));
        };
        let mut sending = Sending {
            head,
            body,
            written: 0,
            submitted: false,
        };
        if connection.finish != Finish::No {
            // Nothing can follow a FIN; the order of the heads is kept.
            if connection.queue.is_empty() {
                return self.told.push_back((token, sending.head));
            }
            sending.body = Bytes::new();
            sending.written = sending.head.len();
            sending.submitted = true;
        }
        connection.queue.push_back(sending);
        self.list_flush(token.index);
    }

    fn close(&mut self, token: Token, how: Close) {
        let Some(connection) = self.named(token) else {
            return;
        };
        connection.deaf |= how != Close::Half;
        if connection.dead.is_some() {
            return;
        }
        match how {
            Close::Reset => self.reset(token.index),
            Close::Half if connection.finish == Finish::No => {
                connection.finish = Finish::Half;
                self.list_flush(token.index);
            }
            Close::Half => {}
            Close::Fin if connection.finish == Finish::Done => {
                self.drain(token.index);
                self.die(token.index, Closed::Local);
            }
            Close::Fin if !connection.up && connection.queue.is_empty() => {
                self.reset(token.index);
            }
            Close::Fin => {
                connection.finish = Finish::Full;
                if let Some(cause) = connection.broken {
                    self.die(token.index, cause);
                }
                self.list_flush(token.index);
            }
        }
    }

    fn reset(&mut self, index: u32) {
        if let Some(stream) = self.connection(index).and_then(|c| c.stream.as_ref()) {
            stream.abort();
        }
        self.die(index, Closed::Local);
    }
}

/// Before the wait: sends are handed over.
impl EpollDriver {
    fn hand_over<S: Sink>(&mut self, sink: &mut S) {
        if self.flush.is_empty() {
            return;
        }
        let now = MonotonicClock.now();
        while let Some(index) = self.flush.pop_front() {
            let slot = self.slots.get_mut(index as usize);
            let Some(connection) = slot.and_then(|slot| slot.connection.as_mut()) else {
                continue;
            };
            connection.in_flush = false;
            let (token, told) = (connection.token, &mut self.told);
            let written = connection.flush(
                || sink.submitted(token, now),
                |head| told.push_back((token, head)),
            );
            self.counters.sent_bytes += written;
            let (broken, dead) = (connection.broken.is_some(), connection.dead.is_some());
            if connection.can_flush() && connection.queue.is_empty() {
                self.finish(index);
            } else if broken || dead {
                self.list_work(index);
            }
        }
    }

    /// All sends are written: the FIN goes out, if one is asked for.
    fn finish(&mut self, index: u32) {
        let Some(connection) = self.connection(index) else {
            return;
        };
        let finish = connection.finish;
        if !matches!(finish, Finish::Half | Finish::Full) {
            return;
        }
        connection.finish = Finish::Done;
        // Fails only if the connection is gone, which its next read says.
        let _ = connection.stream.as_ref().map(Stream::finish);
        if finish == Finish::Full {
            self.drain(index);
            self.die(index, Closed::Local);
        }
    }

    /// Throws away what has arrived: a socket closed with bytes unread sends a reset, which may
    /// overtake what was sent.
    fn drain(&mut self, index: u32) {
        let slot = self.slots.get_mut(index as usize);
        let Some(connection) = slot.and_then(|slot| slot.connection.as_mut()) else {
            return;
        };
        let Some(stream) = connection.stream.as_mut().filter(|_| !connection.ended) else {
            return;
        };
        for _ in 0..DRAIN_MAX {
            match stream.read(&mut self.buffer) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
        }
    }
}

/// After the wait: what the kernel said, told.
impl EpollDriver {
    /// Notes what each event says. Returns whether a waker was among them.
    fn take_events(&mut self) -> bool {
        let events = mem::replace(&mut self.events, Events::with_capacity(0));
        let mut woken = false;
        for event in &events {
            if event.token() == WAKER {
                woken = true;
                continue;
            }
            let (index, generation) = parts(event.token());
            if let Some(listening) = index
                .checked_sub(LISTENER_FIRST)
                .and_then(|i| self.listeners.get_mut(i as usize))
            {
                listening.ready = true;
                continue;
            }
            let token = Token { index, generation };
            let Some(connection) = self.named(token) else {
                continue;
            };
            let ending = event.is_read_closed() || event.is_error();
            connection.ending |= ending;
            connection.readable |= event.is_readable() || ending;
            let writable = event.is_writable() || event.is_write_closed() || event.is_error();
            connection.writable |= writable;
            let flush = writable && connection.up;
            if flush {
                self.list_flush(index);
            }
            self.list_work(index);
        }
        self.events = events;
        woken
    }

    fn tell<S: Sink>(&mut self, sink: &mut S, reaped: Nanos) -> u32 {
        let mut completions = 0;
        while let Some((token, head)) = self.told.pop_front() {
            sink.sent(&mut self.commands, token, head, reaped);
            completions += 1;
        }
        for index in 0..self.listeners.len() {
            completions += self.accept(index, sink);
        }
        for _ in 0..self.work.len() {
            let Some(index) = self.work.pop_front() else {
                break;
            };
            let Some(connection) = self.connection(index) else {
                continue;
            };
            connection.in_work = false;
            if connection.dead.is_none() && !connection.up {
                completions += self.come_up(index, sink);
            }
            completions += self.read(index, sink);
            completions += self.bury(index, sink);
        }
        completions
    }

    fn accept<S: Sink>(&mut self, index: usize, sink: &mut S) -> u32 {
        let mut completions = 0;
        for _ in 0..ACCEPTS_MAX {
            let listening = &mut self.listeners[index];
            if !listening.ready {
                break;
            }
            match listening.listener.accept() {
                Ok(stream) => {
                    let at = MonotonicClock.now();
                    let number = u32::try_from(index).unwrap_or(u32::MAX);
                    completions += 1;
                    match sink.accepted(&mut self.commands, number, at) {
                        Some(token) => {
                            self.insert(Connection::new(token, stream, true));
                            self.list_flush(token.index);
                        }
                        None => stream.abort(),
                    }
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => listening.ready = false,
                Err(error) => {
                    let errno = rustix::io::Errno::from_io_error(&error);
                    if errno.is_some_and(is_exhaustion) {
                        listening.ready = false;
                        listening.starved = true;
                    }
                    // Else the connection was gone before it was accepted: the next one.
                }
            }
        }
        completions
    }

    /// Looks whether the handshake is done.
    fn come_up<S: Sink>(&mut self, index: u32, sink: &mut S) -> u32 {
        let Some(connection) = self.connection(index) else {
            return 0;
        };
        let Some(stream) = &connection.stream else {
            return 0;
        };
        match stream.is_up() {
            Ok(None) => 0,
            Ok(Some(())) => {
                connection.up = true;
                connection.writable = true;
                let token = connection.token;
                sink.opened(&mut self.commands, token, MonotonicClock.now());
                self.list_flush(index);
                1
            }
            Err(error) => {
                self.die(index, cause(&error));
                0
            }
        }
    }

    /// Reads what there is, up to the fair share of one connection.
    fn read<S: Sink>(&mut self, index: u32, sink: &mut S) -> u32 {
        let slot = self.slots.get_mut(index as usize);
        let Some(connection) = slot.and_then(|slot| slot.connection.as_mut()) else {
            return 0;
        };
        let wants = connection.up && !connection.deaf && connection.dead.is_none();
        let Some(stream) = connection.stream.as_mut().filter(|_| wants) else {
            return 0;
        };
        if connection.ended {
            if connection.ending
                && let Ok(Some(error)) = stream.take_error()
            {
                connection.dead = Some(cause(&error));
            }
            return 0;
        }
        let mut completions = 0;
        for _ in 0..READS_MAX {
            if !connection.readable {
                break;
            }
            let read = stream.read(&mut self.buffer);
            let now = MonotonicClock.now();
            match read {
                Ok(0) => {
                    connection.readable = false;
                    connection.ending = false;
                    connection.ended = true;
                    connection.dead = connection.broken;
                    completions += 1;
                    sink.ended(&mut self.commands, connection.token, Arrival::reaped(now));
                }
                Ok(count) => {
                    // A read that leaves room has emptied the socket, unless its end is there too.
                    connection.readable = count == self.buffer.len() || connection.ending;
                    completions += 1;
                    self.counters.reads += 1;
                    self.counters.stamps_discarded += u64::from(self.config.rx_timestamps);
                    self.counters.received_bytes += count as u64;
                    let bytes = &self.buffer[..count];
                    let (token, arrival) = (connection.token, Arrival::reaped(now));
                    sink.received(&mut self.commands, token, bytes, arrival);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    connection.readable = false;
                    connection.ending = false;
                    connection.dead = connection.broken;
                }
                Err(error) => {
                    connection.readable = false;
                    connection.dead = Some(connection.broken.unwrap_or_else(|| cause(&error)));
                }
            }
        }
        if connection.readable {
            self.list_work(index);
        }
        completions
    }

    /// Tells the end of a connection that is over, and lets go of it.
    fn bury<S: Sink>(&mut self, index: u32, sink: &mut S) -> u32 {
        let slot = self.slots.get_mut(index as usize);
        let Some(slot) = slot else { return 0 };
        let Some(connection) = slot.connection.take_if(|c| c.dead.is_some()) else {
            return 0;
        };
        let Connection {
            token,
            stream,
            mut queue,
            dead,
            ..
        } = connection;
        // Closes the socket, which takes it off the epoll too.
        drop(stream);
        let at = MonotonicClock.now();
        let mut completions = 1;
        for sending in queue.drain(..) {
            completions += 1;
            sink.sent(&mut self.commands, token, sending.head, at);
        }
        slot.queue = queue;
        sink.closed(&mut self.commands, token, dead.unwrap_or(Closed::Local), at);
        for listening in &mut self.listeners {
            listening.ready |= mem::take(&mut listening.starved);
        }
        completions
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
            listener,
            ready: false,
            starved: false,
        });
        Ok(bound)
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
        self.counters
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
