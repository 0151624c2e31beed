use std::collections::VecDeque;
use std::fmt;
use std::io;
use std::mem;
use std::os::fd::OwnedFd;
use std::rc::Rc;
use std::task::{Context, Poll};

use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use ridgeline_net::{Closed, Commands, Counters, DriverError, Peer, Sink, Token, Turn};

use crate::bell::TasksWaker;
use crate::connection::{Connection, Sending};
use crate::events::{Event, Events, Nudge};
use crate::link::Link;
use crate::runtime::Runtime;
use crate::sockets::Listener;
use crate::work;

/// How a driver on a runtime is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TasksConfig {
    /// Tokens have indexes below it.
    pub connections_max: u32,
    /// The longest read. Every open connection has a buffer of this size.
    pub read_buffer_bytes: usize,
    /// Whether other drivers may listen on the same TCP port (`SO_REUSEPORT`), each getting a share
    /// of the connections.
    pub reuse_port: bool,
}

impl Default for TasksConfig {
    /// 4,096 connections, reads of up to 16 KiB, ports of its own.
    fn default() -> Self {
        Self {
            connections_max: 4_096,
            read_buffer_bytes: 16 << 10,
            reuse_port: false,
        }
    }
}

/// See the crate's page.
///
/// Everything but [`Tasks::commands`], [`Tasks::waker`] and what only looks is called while the
/// runtime runs something on this thread: tasks are spawned and woken.
pub struct Tasks<R: Runtime> {
    pub(crate) config: TasksConfig,
    pub(crate) events: Rc<Events<R::Socket>>,
    pub(crate) slots: Vec<Slot<R::Socket>>,
    pub(crate) listeners: Vec<Rc<Listener>>,
    pub(crate) commands: Commands,
    /// Sends that are over without a task: they are told after the wait like all others.
    pub(crate) told: VecDeque<(Token, Vec<u8>)>,
    /// Connections with something to hand over.
    pub(crate) flush: VecDeque<u32>,
    /// Connections that are over.
    pub(crate) dead: Vec<u32>,
    /// An empty queue to exchange for the one of events.
    pub(crate) spare: VecDeque<Event<R::Socket>>,
    /// Read buffers of nobody.
    pub(crate) buffers: Vec<Vec<u8>>,
    /// Write buffers of nobody.
    pub(crate) parcels: Vec<Vec<u8>>,
    pub(crate) counters: Counters,
    waker: TasksWaker,
    bell: Option<Rc<Link<R::Socket>>>,
}

pub(crate) struct Slot<S> {
    pub(crate) generation: u32,
    pub(crate) connection: Option<Connection<S>>,
    /// The queue of the slot's last connection, for the next one.
    pub(crate) queue: VecDeque<Sending>,
}

impl<S> Default for Slot<S> {
    fn default() -> Self {
        Self {
            generation: 0,
            connection: None,
            queue: VecDeque::new(),
        }
    }
}

impl<R: Runtime> fmt::Debug for Tasks<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tasks")
            .field("config", &self.config)
            .field("events", &self.events)
            .field("counters", &self.counters)
            .finish_non_exhaustive()
    }
}

impl<R: Runtime> Tasks<R> {
    /// The half of a driver.
    ///
    /// # Errors
    /// When there is no pair of sockets for the waker.
    pub fn new(config: TasksConfig) -> io::Result<Self> {
        let (waker, end) = TasksWaker::new()?;
        let mut tasks = Self {
            config,
            events: Events::new(),
            slots: Vec::new(),
            listeners: Vec::new(),
            commands: Commands::with_capacity(64),
            told: VecDeque::with_capacity(64),
            flush: VecDeque::with_capacity(64),
            dead: Vec::with_capacity(64),
            spare: VecDeque::with_capacity(256),
            buffers: Vec::new(),
            parcels: Vec::new(),
            counters: Counters::default(),
            waker,
            bell: None,
        };
        tasks.hang_bell(end.into())?;
        Ok(tasks)
    }

    fn hang_bell(&mut self, end: OwnedFd) -> io::Result<()> {
        let link = Rc::new(Link::new(R::adopt(end)?));
        let (waker, alive) = (self.waker.clone(), self.events.task());
        R::spawn(work::listen(Rc::clone(&link), waker, alive));
        self.bell = Some(link);
        Ok(())
    }

    /// Listens, see [`Driver::listen`](ridgeline_net::Driver::listen).
    ///
    /// # Errors
    /// [`DriverError::Listen`].
    pub fn listen(&mut self, peer: &Peer) -> Result<Peer, DriverError> {
        let failed = |source| DriverError::Listen {
            peer: peer.clone(),
            source,
        };
        let (listener, bound) = Listener::bind(peer, self.config.reuse_port).map_err(failed)?;
        let number = u32::try_from(self.listeners.len()).unwrap_or(u32::MAX);
        let listener = Rc::new(listener);
        let alive = self.events.task();
        R::spawn(work::accept::<R>(Rc::clone(&listener), number, alive));
        self.listeners.push(listener);
        Ok(bound)
    }

    /// Listens no longer, see [`Driver::stop_listening`](ridgeline_net::Driver::stop_listening).
    pub fn stop_listening(&mut self) {
        for listener in &self.listeners {
            listener.stop();
        }
    }

    /// The queue of orders.
    pub fn commands(&mut self) -> &mut Commands {
        &mut self.commands
    }

    /// A handle for other threads.
    #[must_use]
    pub fn waker(&self) -> TasksWaker {
        self.waker.clone()
    }

    /// What was counted so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// What ends a wait, for a task of the runtime's driver. It counts as a task.
    #[must_use]
    pub fn nudge(&self) -> Nudge<R::Socket> {
        Nudge(self.events.task())
    }

    /// Tasks that have not ended.
    #[must_use]
    pub fn running(&self) -> usize {
        self.events.tasks()
    }

    /// The first half of a turn: applies orders and hands sends over to their tasks, which run when the runtime
    /// does. The time of handing over.
    pub fn begin<S: Sink>(&mut self, sink: &mut S) -> Nanos {
        self.apply_all();
        let now = MonotonicClock.now();
        self.hand_over(sink, now);
        now
    }

    /// Whether there is nothing to tell yet: the runtime may wait.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.told.is_empty() && self.dead.is_empty() && self.events.is_empty()
    }

    /// Ready when a task has left something.
    pub fn poll(&self, context: &Context<'_>) -> Poll<()> {
        self.events.poll(context)
    }

    /// The second half: tells the sink what happened, and the turn what it did. Whether the turn is over.
    pub fn end<S: Sink>(&mut self, sink: &mut S, deadline: Nanos, turn: &mut Turn) -> bool {
        turn.reaped = MonotonicClock.now();
        self.tell(sink, turn);
        let over = turn.completions > 0 || turn.woken || turn.reaped >= deadline;
        if over {
            self.counters.turns += 1;
            self.counters.completions += u64::from(turn.completions);
        }
        over
    }

    /// Ends every task, so that the runtime can close what is open. Nothing is told any more.
    pub fn stop(&mut self) {
        for slot in mem::take(&mut self.slots) {
            if let Some(link) = slot.connection.and_then(|connection| connection.link) {
                link.stop();
            }
        }
        self.stop_listening();
        self.listeners.clear();
        if let Some(bell) = self.bell.take() {
            bell.stop();
        }
        drop(self.events.take(VecDeque::new()));
    }

    pub(crate) fn connection(&mut self, index: u32) -> Option<&mut Connection<R::Socket>> {
        self.slots.get_mut(index as usize)?.connection.as_mut()
    }

    /// The connection that a token names, if it is in use.
    pub(crate) fn named(&mut self, token: Token) -> Option<&mut Connection<R::Socket>> {
        self.connection(token.index)
            .filter(|connection| connection.token == token)
    }

    pub(crate) fn list_flush(&mut self, index: u32) {
        if let Some(connection) = self.connection(index)
            && !mem::replace(&mut connection.in_flush, true)
        {
            self.flush.push_back(index);
        }
    }

    pub(crate) fn die(&mut self, index: u32, cause: Closed) {
        if let Some(connection) = self.connection(index)
            && connection.dead.is_none()
        {
            connection.dead = Some(cause);
            self.dead.push(index);
        }
    }

    /// Lets the reader read, if it is to.
    pub(crate) fn let_read(&mut self, index: u32) {
        let bytes = self.config.read_buffer_bytes.max(1);
        let slot = self.slots.get_mut(index as usize);
        let Some(connection) = slot.and_then(|slot| slot.connection.as_mut()) else {
            return;
        };
        if let Some(link) = connection
            .link
            .as_ref()
            .filter(|_| connection.wants_bytes())
        {
            let buffer = self.buffers.pop().unwrap_or_else(|| vec![0; bytes]);
            link.reads.put(buffer);
            connection.reading = true;
        }
    }
}
