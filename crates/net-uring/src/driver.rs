use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem;
use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use io_uring::cqueue;
use ridgeline_clock::{Arrival, Clock, MonotonicClock, Nanos, realtime_bracket};
use ridgeline_net::{
    Close, Closed, Command, Commands, Counters, Driver, DriverError, Peer, Sink, Token, Turn,
};
use socket2::{SockAddr, Socket};

use crate::buffers::{Buffers, GROUP};
use crate::config::UringConfig;
use crate::listen::{self, LISTENERS_MAX, Listener};
use crate::message;
use crate::ops::{self, Call, LISTENER_FILES};
use crate::probe;
use crate::ring::Ring;
use crate::slot::{INDEX_MAX, Message, NO_FILE, Op, Phase, Receiving, Sending, Slot, Tag};
use crate::stamps::StampMap;
use crate::waker::UringWaker;

/// Entries of the file table that are not connections' own: the waker, the listeners, and
/// connections the kernel has accepted that are not named yet.
const FILES_EXTRA: u32 = 64;

/// The driver on io_uring. Made on the thread that turns it: the ring belongs to that thread.
///
/// Field order is drop order: the ring goes before the memory its entries point to (see the
/// invariant in `ring.rs`).
pub struct UringDriver {
    pub(crate) ring: Ring,
    pub(crate) slots: Box<[Slot]>,
    pub(crate) calls: Box<[Call]>,
    buffers: Buffers,
    pub(crate) template: Box<libc::msghdr>,
    pub(crate) wake_cell: Box<u64>,
    pub(crate) waker: UringWaker,

    config: UringConfig,
    commands: Commands,
    /// Slots whose front send goes out at the next enter.
    ready: Vec<u32>,
    /// Receives to arm again, in the order in which they ended.
    hungry: VecDeque<Token>,
    /// Heads of sends that are dropped, to be given back.
    dropped: Vec<(Token, Vec<u8>)>,
    /// Slots whose connection is gone, to be told.
    finished: Vec<u32>,
    pub(crate) listeners: Vec<Listener>,
    /// Whether a place of the file table became free since an accept found none.
    files_freed: bool,
    stamps: Option<StampMap>,
    /// Keeps the kernel's stamping on.
    _stamping: Option<Socket>,
    /// Whether completions in the kernel's overflow list come at the next enter.
    overflowed: bool,
    counters: Counters,
}

impl fmt::Debug for UringDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UringDriver")
            .field("config", &self.config)
            .field("in_flight", &self.ring.outstanding())
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl UringDriver {
    /// A driver of the calling thread.
    ///
    /// # Errors
    /// [`DriverError::Unavailable`] when the kernel lacks something or the file table can't hold
    /// `connections_max` connections.
    pub fn new(config: UringConfig) -> Result<Self, DriverError> {
        let files = files_of(&config)?;
        let cq_entries = config.cq_entries.max(2);
        let sq_entries = config.sq_entries.clamp(1, cq_entries);
        let mut ring = Ring::new(sq_entries, cq_entries, config.spin > Nanos::ZERO)
            .map_err(|error| probe::refused(&error))?;
        probe::check(&ring)?;
        let submitter = ring.io().submitter();
        submitter
            .register_files_sparse(files)
            .map_err(|error| probe::lacks("a file table (5.19)", &error))?;
        ring.reserve_files(LISTENER_FILES + LISTENERS_MAX, files)
            .map_err(|error| probe::lacks("FILE_ALLOC_RANGE (6.0)", &error))?;
        probe::check_options(&mut ring)?;

        let overhead = if config.rx_timestamps {
            message::OVERHEAD
        } else {
            0
        };
        let stride = overhead + config.buffer_bytes.max(1) as usize;
        let count = config.buffers_count.clamp(1, 1 << 15).next_power_of_two();
        let buffers = Buffers::new(ring.io(), count, stride)
            .map_err(|error| probe::lacks("provided buffer rings (5.19)", &error))?;
        let connections = config.connections_max as usize;
        let waker = UringWaker::new().map_err(os("eventfd"))?;
        let stamping = config
            .rx_timestamps
            .then(listen::stamping_socket)
            .transpose();
        let mut driver = Self {
            ring,
            slots: (0..connections).map(|_| Slot::free()).collect(),
            calls: (0..connections).map(|_| Call::new()).collect(),
            buffers,
            template: Box::new(ops::header(message::CONTROL)),
            wake_cell: Box::new(0),
            waker,
            commands: Commands::with_capacity(2 * connections),
            ready: Vec::with_capacity(connections),
            hungry: VecDeque::with_capacity(connections),
            dropped: Vec::new(),
            finished: Vec::with_capacity(connections),
            listeners: Vec::new(),
            files_freed: false,
            stamps: config
                .rx_timestamps
                .then(|| StampMap::new(realtime_bracket())),
            _stamping: stamping.map_err(os("setsockopt"))?,
            overflowed: false,
            counters: Counters::default(),
            config,
        };
        driver.register_waker().map_err(os("io_uring_register"))?;
        driver.arm_wake().map_err(os("io_uring_enter"))?;
        Ok(driver)
    }

    /// Whether this machine has what the driver needs; the error is one line that says what is
    /// missing.
    ///
    /// # Errors
    /// [`DriverError::Unavailable`].
    pub fn probe() -> Result<(), DriverError> {
        let small = UringConfig {
            buffers_count: 1,
            buffer_bytes: 64,
            ..UringConfig::new(1)
        };
        Self::new(UringConfig {
            sq_entries: 8,
            cq_entries: 16,
            ..small
        })
        .map(drop)
    }

    pub(crate) fn config(&self) -> &UringConfig {
        &self.config
    }
}

fn files_of(config: &UringConfig) -> Result<u32, DriverError> {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
    let files = config.connections_max.saturating_add(FILES_EXTRA);
    if limit.is_some_and(|limit| u64::from(files) > limit) || files > INDEX_MAX {
        let most = limit.unwrap_or(0).saturating_sub(u64::from(FILES_EXTRA));
        return Err(DriverError::Unavailable {
            what: format!(
                "{} connections on one ring do not fit RLIMIT_NOFILE, which allows {most}",
                config.connections_max
            ),
            remedy: "raise it (ulimit -n), or spread the connections over more shards",
        });
    }
    Ok(files)
}

/// What went wrong in a system call.
pub(crate) fn os(call: &'static str) -> impl Fn(io::Error) -> DriverError {
    move |source| DriverError::Os { call, source }
}

impl Driver for UringDriver {
    type Waker = UringWaker;

    fn listen(&mut self, peer: &Peer) -> Result<Peer, DriverError> {
        self.open_listener(peer)
            .map_err(|source| DriverError::Listen {
                peer: peer.clone(),
                source,
            })
    }

    #[inline]
    fn commands(&mut self) -> &mut Commands {
        &mut self.commands
    }

    fn turn<S: Sink>(&mut self, deadline: Nanos, sink: &mut S) -> Result<Turn, DriverError> {
        let mut turn = Turn::default();
        self.counters.turns += 1;
        self.apply().map_err(os("io_uring_enter"))?;
        loop {
            self.pass(deadline, sink, &mut turn)
                .map_err(os("io_uring_enter"))?;
            // A pass may have taken only steps inside the driver (a socket made, a receive armed
            // again).
            if turn.completions > 0 || turn.woken || turn.reaped >= deadline {
                return Ok(turn);
            }
        }
    }

    fn waker(&self) -> UringWaker {
        self.waker.clone()
    }

    fn counters(&self) -> Counters {
        let stamp_error_max = self
            .stamps
            .as_ref()
            .map_or(Nanos::ZERO, StampMap::error_max);
        Counters {
            stamp_error_max,
            ..self.counters
        }
    }
}

/// One pass: hand over, enter, reap.
impl UringDriver {
    #[inline]
    fn pass<S: Sink>(&mut self, deadline: Nanos, sink: &mut S, turn: &mut Turn) -> io::Result<()> {
        self.resume()?;
        let now = self.hand_over(sink)?;
        let unreaped = self.ring.ready();
        let waits = deadline > now
            && unreaped == 0
            && !self.overflowed
            && self.dropped.is_empty()
            && self.finished.is_empty()
            && self.hungry.is_empty();
        if !waits {
            self.ring.enter()?;
        } else if self.config.spin == Nanos::ZERO || deadline == Nanos::MAX {
            self.ring.enter_and_wait(deadline, now)?;
        } else {
            self.wait_and_spin(deadline, now)?;
        }
        turn.reaped = MonotonicClock.now();
        if waits {
            turn.waited += turn.reaped - now;
        }
        self.reap(unreaped, sink, turn)
    }

    /// Leaves the kernel a little before the deadline, and watches the queue from there.
    fn wait_and_spin(&mut self, deadline: Nanos, now: Nanos) -> io::Result<()> {
        let edge = deadline - self.config.spin;
        if now < edge {
            self.ring.enter_and_wait(edge, now)?;
        } else {
            self.ring.enter()?;
        }
        if self.ring.ready() == 0 && MonotonicClock.now() >= edge {
            self.ring.spin(deadline);
            self.ring.enter()?;
        }
        Ok(())
    }

    /// Arms again what ended for want of buffers or files.
    #[inline]
    fn resume(&mut self) -> io::Result<()> {
        if !self.hungry.is_empty() {
            self.feed()?;
        }
        if self.listeners.iter().any(|listener| !listener.armed) {
            self.resume_accepts()?;
        }
        Ok(())
    }

    /// At most one receive for each buffer: more would only end again at once.
    fn feed(&mut self) -> io::Result<()> {
        for _ in 0..self.hungry.len().min(usize::from(self.buffers.count())) {
            let Some(token) = self.hungry.pop_front() else {
                break;
            };
            let slot = &self.slots[token.index as usize];
            let waits = slot.receiving == Receiving::Queued && slot.generation == token.generation;
            if waits && slot.carries() {
                self.arm_receive(token.index)?;
            }
        }
        Ok(())
    }

    fn resume_accepts(&mut self) -> io::Result<()> {
        for number in 0..self.listeners.len() {
            let listener = &mut self.listeners[number];
            if listener.armed || (listener.starved && !self.files_freed) {
                continue;
            }
            (listener.armed, listener.starved) = (true, false);
            self.arm_accept(u32::try_from(number).map_err(io::Error::other)?)?;
        }
        self.files_freed = false;
        Ok(())
    }

    /// Reads the clock and hands over the sends that are ready. A full queue is entered and the
    /// clock read again: `submitted` is never older than the enter before.
    #[inline]
    fn hand_over<S: Sink>(&mut self, sink: &mut S) -> io::Result<Nanos> {
        let mut now = MonotonicClock.now();
        for place in 0..self.ready.len() {
            let index = self.ready[place];
            if self.ring.is_full() {
                self.ring.flush()?;
                now = MonotonicClock.now();
            }
            let slot = &mut self.slots[index as usize];
            let Some(message) = &slot.front else { continue };
            if slot.sending != Sending::Ready {
                continue;
            }
            self.counters.sent_bytes += (message.head.len() + message.body.len()) as u64;
            slot.sending = Sending::InFlight;
            slot.submitted = now;
            sink.submitted(slot.token(index), now);
            self.push_send(index)?;
        }
        self.ready.clear();
        Ok(now)
    }

    #[inline]
    fn reap<S: Sink>(&mut self, unreaped: usize, sink: &mut S, turn: &mut Turn) -> io::Result<()> {
        if let Some(stamps) = &mut self.stamps
            && stamps.is_due(turn.reaped)
        {
            stamps.read(realtime_bracket());
        }
        self.report(sink, turn);
        let ready = self.ring.ready();
        self.counters.completions += ready as u64;
        if self.overflowed {
            // While the list is not empty the kernel puts every completion there first.
            self.counters.completions_overflowed += ready.saturating_sub(unreaped) as u64;
        }
        self.overflowed = self.ring.overflowed();
        for _ in 0..ready {
            let Some(completion) = self.ring.pop() else {
                break;
            };
            let tag = Tag::unpack(completion.user_data());
            match tag.op {
                Op::Receive => self.on_receive(tag, &completion, sink, turn)?,
                Op::Send => self.on_send(tag, completion.result(), sink, turn)?,
                _ => self.on_rare(tag, &completion, sink, turn)?,
            }
        }
        self.report(sink, turn);
        Ok(())
    }

    /// Gives back dropped sends and tells of connections that are gone.
    #[inline]
    fn report<S: Sink>(&mut self, sink: &mut S, turn: &mut Turn) {
        for (token, head) in self.dropped.drain(..) {
            turn.completions += 1;
            sink.sent(&mut self.commands, token, head, turn.reaped);
        }
        for index in self.finished.drain(..) {
            let slot = &mut self.slots[index as usize];
            let token = slot.token(index);
            while let Some(message) = slot.take_front() {
                turn.completions += 1;
                sink.sent(&mut self.commands, token, message.head, turn.reaped);
            }
            slot.phase = Phase::Free;
            turn.completions += 1;
            let cause = slot.cause.unwrap_or(Closed::Local);
            sink.closed(&mut self.commands, token, cause, turn.reaped);
        }
    }
}

/// Commands.
impl UringDriver {
    #[inline]
    fn apply(&mut self) -> io::Result<()> {
        if self.commands.is_empty() {
            return Ok(());
        }
        let mut orders = mem::take(&mut self.commands);
        for order in orders.drain() {
            match order {
                Command::Send { token, head, body } => self.order_send(token, head, body)?,
                Command::Open {
                    token,
                    peer,
                    source,
                } => self.order_open(token, &peer, source)?,
                Command::Close { token, how } => self.order_close(token, how)?,
            }
        }
        // Nothing was queued meanwhile: the vector and its room come back.
        self.commands = orders;
        Ok(())
    }

    #[inline]
    fn find(&mut self, token: Token) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(token.index as usize)?;
        (slot.generation == token.generation && slot.phase != Phase::Free).then_some(slot)
    }

    #[inline]
    fn order_send(&mut self, token: Token, head: Vec<u8>, body: Bytes) -> io::Result<()> {
        let Some(slot) = self.find(token) else {
            self.dropped.push((token, head));
            return Ok(());
        };
        let dropped =
            slot.close.is_some() || matches!(slot.phase, Phase::Draining | Phase::Closing);
        slot.enqueue(Message {
            head,
            body,
            dropped,
        });
        if slot.sending == Sending::Idle && slot.phase == Phase::Open {
            self.send_next(token.index)?;
        }
        Ok(())
    }

    fn order_open(&mut self, token: Token, peer: &Peer, source: Option<IpAddr>) -> io::Result<()> {
        let stamped = self.config.rx_timestamps && matches!(peer, Peer::Tcp(_));
        let slot = &mut self.slots[token.index as usize];
        slot.start(token.generation, Phase::Opening, NO_FILE, stamped);
        let call = &mut self.calls[token.index as usize];
        call.source = source.map(|address| SocketAddr::new(address, 0).into());
        match address_of(peer) {
            Ok(address) => {
                call.peer = Some(address);
                self.push_socket(token.index)
            }
            Err(error) => self.fail(token.index, &error),
        }
    }

    fn order_close(&mut self, token: Token, how: Close) -> io::Result<()> {
        let Some(slot) = self.find(token) else {
            return Ok(());
        };
        if slot.phase == Phase::Closing {
            return Ok(());
        }
        match (how, slot.close) {
            (Close::Reset, _) => {
                slot.close = Some(Close::Reset);
                self.tear_down(token.index)
            }
            (Close::Fin, None | Some(Close::Half)) => {
                slot.close = Some(Close::Fin);
                self.settle_close(token.index)
            }
            (Close::Half, None) => {
                slot.close = Some(Close::Half);
                self.settle_close(token.index)
            }
            _ => Ok(()),
        }
    }

    /// Makes the front send ready, past those that are dropped.
    #[inline]
    fn send_next(&mut self, index: u32) -> io::Result<()> {
        let slot = &mut self.slots[index as usize];
        let token = slot.token(index);
        while let Some(message) = &slot.front {
            if !message.dropped {
                slot.sending = Sending::Ready;
                self.ready.push(index);
                return Ok(());
            }
            self.dropped
                .extend(slot.take_front().map(|message| (token, message.head)));
        }
        if slot.close.is_some() {
            self.settle_close(index)
        } else {
            Ok(())
        }
    }

    /// Carries out the close that was asked for, once nothing is left to send.
    fn settle_close(&mut self, index: u32) -> io::Result<()> {
        let slot = &mut self.slots[index as usize];
        if slot.front.is_some() && matches!(slot.phase, Phase::Opening | Phase::Open) {
            return Ok(());
        }
        match (slot.close, slot.phase) {
            (Some(Close::Half), Phase::Open) => self.push_shutdown(index, libc::SHUT_WR),
            (Some(Close::Fin | Close::Reset), _) => self.tear_down(index),
            _ => Ok(()),
        }
    }

    /// Ends a connection for a cause that is not the owner's.
    fn fail(&mut self, index: u32, error: &io::Error) -> io::Result<()> {
        self.slots[index as usize]
            .cause
            .get_or_insert_with(|| cause_of(error));
        self.tear_down(index)
    }

    /// Cancels what is in flight and closes the socket. What is cancelled and closed holds the file
    /// until its completion; the connection is told gone after the last of them.
    fn tear_down(&mut self, index: u32) -> io::Result<()> {
        let slot = &mut self.slots[index as usize];
        slot.phase = Phase::Closing;
        slot.cause.get_or_insert(Closed::Local);
        if slot.sending == Sending::Ready {
            slot.sending = Sending::Idle;
        }
        let (file, busy) = (slot.file, slot.in_flight > 0);
        let resets = slot.close == Some(Close::Reset);
        if file != NO_FILE {
            if resets {
                self.set_linger_none(file)?;
            }
            if busy {
                self.cancel(file)?;
            }
            self.push_close(index)?;
            self.slots[index as usize].file = NO_FILE;
        } else if !busy {
            self.finished.push(index);
        }
        Ok(())
    }
}

/// Completions.
impl UringDriver {
    #[inline]
    fn on_receive<S: Sink>(
        &mut self,
        tag: Tag,
        completion: &cqueue::Entry,
        sink: &mut S,
        turn: &mut Turn,
    ) -> io::Result<()> {
        let (flags, mut result) = (completion.flags(), completion.result());
        let slot = &mut self.slots[tag.index as usize];
        debug_assert_eq!(
            slot.generation, tag.generation,
            "a slot outlives its operations"
        );
        if let Some(buffer) = cqueue::buffer_select(flags) {
            let lent = self
                .buffers
                .bytes(buffer, usize::try_from(result).unwrap_or(0));
            let (stamp, bytes) = if slot.stamped {
                message::parse(lent)
            } else {
                (None, lent)
            };
            if bytes.is_empty() {
                result = 0;
            } else if slot.delivers() {
                let arrival = match &mut self.stamps {
                    Some(stamps) if slot.stamped => {
                        let at = stamp.and_then(|wall| stamps.map(wall, turn.reaped));
                        self.counters.stamps_discarded += u64::from(at.is_none());
                        arrival(slot, at, turn.reaped)
                    }
                    _ => Arrival::reaped(turn.reaped),
                };
                self.counters.reads += 1;
                self.counters.received_bytes += bytes.len() as u64;
                turn.completions += 1;
                sink.received(&mut self.commands, slot.token(tag.index), bytes, arrival);
            }
            self.buffers.give(buffer);
        }
        if cqueue::more(flags) {
            return Ok(());
        }
        self.ring.retire();
        slot.in_flight -= 1;
        slot.receiving = Receiving::Off;
        self.on_receive_end(tag.index, result, sink, turn)
    }

    /// A multishot receive is over: for lack of something (`result` above 0, or an error that says
    /// so), at the end of the stream (0), or by an error.
    fn on_receive_end<S: Sink>(
        &mut self,
        index: u32,
        result: i32,
        sink: &mut S,
        turn: &mut Turn,
    ) -> io::Result<()> {
        let slot = &mut self.slots[index as usize];
        if !slot.carries() {
            self.settle(index);
            return Ok(());
        }
        match -result {
            wants if wants < 0 || matches!(wants, libc::ENOBUFS | libc::EAGAIN | libc::EINTR) => {
                self.counters.out_of_buffers += u64::from(wants == libc::ENOBUFS);
                slot.receiving = Receiving::Queued;
                self.hungry.push_back(slot.token(index));
                Ok(())
            }
            _ if slot.phase == Phase::Draining => self.tear_down(index),
            0 => {
                slot.ended = true;
                if slot.delivers() {
                    turn.completions += 1;
                    let (token, at) = (slot.token(index), Arrival::reaped(turn.reaped));
                    sink.ended(&mut self.commands, token, at);
                }
                Ok(())
            }
            errno => self.fail(index, &io::Error::from_raw_os_error(errno)),
        }
    }

    #[inline]
    fn on_send<S: Sink>(
        &mut self,
        tag: Tag,
        result: i32,
        sink: &mut S,
        turn: &mut Turn,
    ) -> io::Result<()> {
        self.ring.retire();
        let slot = &mut self.slots[tag.index as usize];
        slot.in_flight -= 1;
        let left = slot.front.as_ref().map_or(0, |message| {
            (message.head.len() + message.body.len()).saturating_sub(slot.offset)
        });
        match usize::try_from(result) {
            Ok(sent) if sent >= left => {
                let Some(message) = slot.take_front() else {
                    return Ok(());
                };
                let token = slot.token(tag.index);
                turn.completions += 1;
                sink.sent(&mut self.commands, token, message.head, turn.reaped);
                if slot.phase != Phase::Open {
                    self.settle(tag.index);
                    return Ok(());
                }
                if slot.front.is_some() || slot.close.is_some() {
                    return self.send_next(tag.index);
                }
                Ok(())
            }
            Ok(sent) if sent > 0 && slot.phase == Phase::Open => {
                slot.offset += sent;
                self.push_send(tag.index)
            }
            _ => self.on_send_error(tag.index, result),
        }
    }

    /// A send failed, and with it the connection. Bytes that came before the failure are still in
    /// the socket, perhaps the peer's reason: shut down, the receive delivers them and ends.
    #[cold]
    fn on_send_error(&mut self, index: u32, result: i32) -> io::Result<()> {
        let slot = &mut self.slots[index as usize];
        slot.sending = Sending::Idle;
        if slot.phase != Phase::Open {
            self.settle(index);
            return Ok(());
        }
        // A send of more than nothing that sends nothing: no error has a name for it.
        let errno = if result < 0 { -result } else { libc::EIO };
        let error = io::Error::from_raw_os_error(errno);
        if slot.ended {
            return self.fail(index, &error);
        }
        slot.cause.get_or_insert_with(|| cause_of(&error));
        slot.phase = Phase::Draining;
        self.push_shutdown(index, libc::SHUT_RDWR)
    }

    /// Tells of a closing slot that nothing is in flight any more.
    #[inline]
    fn settle(&mut self, index: u32) {
        let slot = &self.slots[index as usize];
        if slot.phase == Phase::Closing && slot.in_flight == 0 {
            self.finished.push(index);
        }
    }

    fn on_rare<S: Sink>(
        &mut self,
        tag: Tag,
        completion: &cqueue::Entry,
        sink: &mut S,
        turn: &mut Turn,
    ) -> io::Result<()> {
        match tag.op {
            Op::Accept => return self.on_accept(tag.index, completion, sink, turn),
            Op::Wake => {
                self.ring.retire();
                turn.woken = true;
                self.waker.heard();
                return self.arm_wake();
            }
            Op::Silent | Op::Receive | Op::Send => return Ok(()),
            Op::Socket | Op::Bind | Op::Connect | Op::Shutdown | Op::Close => {}
        }
        self.ring.retire();
        let slot = &mut self.slots[tag.index as usize];
        slot.in_flight -= 1;
        if tag.op == Op::Socket && completion.result() >= 0 {
            slot.file = completion.result().cast_unsigned();
        }
        self.files_freed |= tag.op == Op::Close;
        match slot.phase {
            Phase::Closing if slot.file != NO_FILE => self.tear_down(tag.index),
            Phase::Closing => {
                self.settle(tag.index);
                Ok(())
            }
            Phase::Opening => self.on_step(tag, completion.result(), sink, turn),
            // A shutdown: its failure means that the connection is gone, which the receive tells.
            _ => Ok(()),
        }
    }

    /// A step on the way to an open connection.
    fn on_step<S: Sink>(
        &mut self,
        tag: Tag,
        result: i32,
        sink: &mut S,
        turn: &mut Turn,
    ) -> io::Result<()> {
        if result < 0 {
            return self.fail(tag.index, &io::Error::from_raw_os_error(-result));
        }
        let slot = &mut self.slots[tag.index as usize];
        slot.floor = turn.reaped;
        let call = &self.calls[tag.index as usize];
        let is_tcp = call.peer.as_ref().is_some_and(|peer| !peer.is_unix());
        match tag.op {
            Op::Socket => {
                let binds = is_tcp && call.source.is_some();
                if is_tcp {
                    self.set_options(tag.index)?;
                }
                if binds {
                    self.push_bind(tag.index)
                } else {
                    self.push_connect(tag.index)
                }
            }
            Op::Bind => self.push_connect(tag.index),
            _ => {
                slot.phase = Phase::Open;
                turn.completions += 1;
                sink.opened(&mut self.commands, slot.token(tag.index), turn.reaped);
                self.arm_receive(tag.index)?;
                self.send_next(tag.index)
            }
        }
    }

    fn on_accept<S: Sink>(
        &mut self,
        number: u32,
        completion: &cqueue::Entry,
        sink: &mut S,
        turn: &mut Turn,
    ) -> io::Result<()> {
        let result = completion.result();
        let listener = &mut self.listeners[number as usize];
        if !cqueue::more(completion.flags()) {
            self.ring.retire();
            listener.armed = false;
            listener.starved = matches!(-result, libc::ENFILE | libc::EMFILE | libc::ENOMEM);
        }
        let Ok(file) = u32::try_from(result) else {
            return Ok(());
        };
        let stamped = listener.stamped;
        turn.completions += 1;
        let Some(token) = sink.accepted(&mut self.commands, number, turn.reaped) else {
            self.files_freed = true;
            return self.refuse(file);
        };
        let slot = &mut self.slots[token.index as usize];
        slot.start(token.generation, Phase::Open, file, stamped);
        self.arm_receive(token.index)
    }
}

/// When a stamped read came: `at` is its last segment's stamp, and earlier segments came after the
/// stream's stamp before. If it can be the answer to what was sent last, it came after that.
#[inline]
fn arrival(slot: &mut Slot, at: Option<Nanos>, reaped: Nanos) -> Arrival {
    let Some(at) = at else {
        return Arrival::reaped(reaped);
    };
    // Two readings of the clocks may disagree by a little: a stream's stamps don't go back.
    let at = at.max(slot.floor);
    let mut not_before = slot.floor;
    if slot.submitted <= at {
        not_before = not_before.max(slot.submitted);
    }
    if not_before == Nanos::ZERO {
        not_before = at;
    }
    slot.floor = at;
    Arrival {
        at,
        not_before,
        reaped,
    }
}

fn address_of(peer: &Peer) -> io::Result<SockAddr> {
    match peer {
        Peer::Tcp(address) => Ok((*address).into()),
        Peer::Unix(path) => SockAddr::unix(path),
    }
}

fn cause_of(error: &io::Error) -> Closed {
    match error.raw_os_error() {
        Some(libc::ECONNRESET | libc::EPIPE) => Closed::PeerReset,
        Some(libc::ECONNREFUSED | libc::ENOENT) => Closed::Refused,
        Some(libc::ETIMEDOUT) => Closed::TimedOut,
        Some(libc::EHOSTUNREACH | libc::ENETUNREACH) => Closed::Unreachable,
        Some(libc::EADDRNOTAVAIL | libc::EADDRINUSE) => Closed::NoPorts,
        Some(libc::EMFILE | libc::ENFILE | libc::ENOBUFS | libc::ENOMEM) => Closed::NoResources,
        Some(errno) => Closed::Os(errno),
        // An address that no socket can have: a unix path that is too long.
        None => Closed::Os(libc::EINVAL),
    }
}

/// How long the kernel has to give back what is in flight.
const QUIET_AFTER: Nanos = Nanos::from_secs(1);

impl Drop for UringDriver {
    fn drop(&mut self) {
        if self.quiesce().is_ok_and(|()| self.ring.outstanding() == 0) {
            // Closing them with the ring would happen later, on a kernel thread: ports would stay
            // taken after this returns.
            let files = self.ring.io().submitter().unregister_files();
            let buffers = self.ring.io().submitter().unregister_buf_ring(GROUP);
            debug_assert!(files.is_ok() && buffers.is_ok(), "{files:?} {buffers:?}");
            return;
        }
        // The invariant: what the kernel may still read or write is never freed.
        mem::forget(mem::take(&mut self.slots));
        mem::forget(mem::take(&mut self.calls));
        self.buffers.leak();
        mem::forget(mem::replace(&mut self.template, Box::new(ops::header(0))));
        mem::forget(mem::take(&mut self.wake_cell));
    }
}

impl UringDriver {
    /// Cancels everything and reaps what comes back.
    fn quiesce(&mut self) -> io::Result<()> {
        let deadline = MonotonicClock.now() + QUIET_AFTER;
        self.cancel_everything()?;
        while self.ring.outstanding() > 0 {
            let now = MonotonicClock.now();
            if now >= deadline {
                break;
            }
            self.ring.enter_and_wait(deadline, now)?;
            while let Some(completion) = self.ring.pop() {
                let tag = Tag::unpack(completion.user_data());
                if tag.op != Op::Silent && !cqueue::more(completion.flags()) {
                    self.ring.retire();
                }
            }
        }
        Ok(())
    }
}
