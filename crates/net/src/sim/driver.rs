use std::cell::RefCell;
use std::io;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use ridgeline_clock::{Arrival, Clock, Nanos, SimClock};

use super::config::{Fate, Shape, SimConfig};
use super::link::End;
use super::network::{Network, Ready};
use super::script::SimPeer;
use super::wire::Lent;
use crate::{Commands, Counters, Driver, DriverError, Peer, Sink, Turn, Wake};

/// A virtual network. Clones are the same network; it lives on one thread.
#[derive(Clone, Debug)]
pub struct SimNet(Rc<RefCell<Network>>);

impl SimNet {
    /// An empty network whose clock shows 0.
    #[must_use]
    pub fn new(config: SimConfig) -> Self {
        Self(Rc::new(RefCell::new(Network::new(config))))
    }

    /// The network's clock.
    #[must_use]
    pub fn clock(&self) -> SimClock {
        self.0.borrow().clock.clone()
    }

    /// A driver on this network, for up to `connections_max` connections.
    #[must_use]
    pub fn driver(&self, connections_max: u32) -> SimDriver {
        let id = self.0.borrow_mut().add_driver(connections_max);
        SimDriver {
            net: self.clone(),
            id,
            commands: Commands::with_capacity(64),
            buffer: Vec::with_capacity(self.0.borrow().config.read_bytes_max as usize),
            counters: Counters::default(),
            flag: Arc::default(),
        }
    }

    /// Puts a scripted peer at an address. Port 0 asks for any free port; the address is returned.
    ///
    /// # Errors
    /// [`DriverError::Listen`] when somebody listens there already.
    pub fn listen(&self, peer: &Peer, script: impl SimPeer) -> Result<Peer, DriverError> {
        let mut net = self.0.borrow_mut();
        let script = net.add_script(Box::new(script));
        net.listen_script(script, peer).ok_or_else(|| in_use(peer))
    }

    /// How bytes travel on connections made to `peer` from now on.
    pub fn shape(&self, peer: &Peer, shape: Shape) {
        self.0.borrow_mut().set_shape(peer, shape);
    }

    /// What happens to connection attempts to `peer` from now on.
    pub fn fate(&self, peer: &Peer, fate: Fate) {
        self.0.borrow_mut().set_fate(peer, fate);
    }

    /// Cuts the wire of every connection made to `peer` so far: what is sent from now on never arrives, and
    /// nobody is told. New attempts go by their [`Fate`].
    pub fn sever(&self, peer: &Peer) {
        self.0.borrow_mut().sever(peer);
    }

    /// Lets time pass until the next event or until `limit`, whichever is first. With neither, it
    /// stays what it is. Returns the new time.
    pub fn advance(&self, limit: Nanos) -> Nanos {
        let mut net = self.0.borrow_mut();
        net.run_due();
        if net.clock.now() < limit && net.wait(limit) {
            net.run_due();
            net.wake();
        }
        net.clock.now()
    }

    /// Events so far: a segment that arrived, a handshake, a timer.
    #[must_use]
    pub fn events(&self) -> u64 {
        self.0.borrow().happened
    }
}

/// One round of two drivers on one network: a turn of each without waiting. When neither had
/// anything to tell, the clock moves to the next event or to `deadline`. Returns the time.
///
/// # Errors
/// Those of [`Driver::turn`].
pub fn lockstep<A: Sink, B: Sink>(
    (a, sink_a): (&mut SimDriver, &mut A),
    (b, sink_b): (&mut SimDriver, &mut B),
    deadline: Nanos,
) -> Result<Nanos, DriverError> {
    let first = a.turn(Nanos::ZERO, sink_a)?;
    let second = b.turn(Nanos::ZERO, sink_b)?;
    if first.completions + second.completions == 0 {
        return Ok(a.net.advance(deadline));
    }
    Ok(second.reaped)
}

/// The virtual network as one program sees it: a [`Driver`].
///
/// A turn that waits moves the network's clock. It allocates nothing once its queues and the
/// network's have grown to the traffic.
#[derive(Debug)]
pub struct SimDriver {
    net: SimNet,
    id: u32,
    commands: Commands,
    /// Where the bytes of several segments are joined for one read.
    buffer: Vec<u8>,
    counters: Counters,
    flag: Arc<Flag>,
}

impl SimDriver {
    fn hand_over<S: Sink>(&mut self, sink: &mut S) {
        let now = {
            let mut net = self.net.0.borrow_mut();
            net.run_due();
            for order in self.commands.drain() {
                net.apply(self.id, order);
            }
            net.clock.now()
        };
        loop {
            let next = self.net.0.borrow_mut().submission(self.id);
            let Some((end, token)) = next else { return };
            sink.submitted(token, now);
            self.net.0.borrow_mut().pump(end);
        }
    }

    /// Lets time pass until there is something to tell. Returns the time that passed, and whether
    /// a waker ended it.
    fn wait(&mut self, deadline: Nanos) -> Result<(Nanos, bool), DriverError> {
        let mut net = self.net.0.borrow_mut();
        let start = net.clock.now();
        let mut waited = false;
        let woken = loop {
            net.run_due();
            if self.flag.take() {
                break true;
            }
            if !net.desks[self.id as usize].ready.is_empty() || net.clock.now() >= deadline {
                break false;
            }
            waited = true;
            if !net.wait(deadline) {
                if Arc::strong_count(&self.flag) == 1 {
                    let source = io::Error::other("nothing would ever happen");
                    return Err(DriverError::Os {
                        call: "turn",
                        source,
                    });
                }
                self.flag.block();
            }
        };
        if waited {
            net.wake();
        }
        Ok((net.clock.now() - start, woken))
    }

    fn tell<S: Sink>(&mut self, ready: Ready, at: Nanos, sink: &mut S) -> u32 {
        let commands = &mut self.commands;
        match ready {
            Ready::Accepted { end, listener } => {
                if !self.net.0.borrow().is_unclaimed(end) {
                    return 0;
                }
                let token = sink.accepted(commands, listener, at);
                self.net.0.borrow_mut().claim(end, token);
            }
            Ready::Opened { end } => {
                let Some(token) = self.net.0.borrow_mut().opened(end) else {
                    return 0;
                };
                sink.opened(commands, token, at);
            }
            Ready::Read { end } => return self.read(end, sink),
            Ready::Ended { end } => {
                let Some(token) = self.net.0.borrow_mut().ended(end) else {
                    return 0;
                };
                sink.ended(commands, token, Arrival::reaped(at));
            }
            Ready::Sent { token, head } => sink.sent(commands, token, head, at),
            Ready::Closed { end, token, cause } => {
                self.net.0.borrow_mut().bury(self.id, end, token);
                sink.closed(commands, token, cause, at);
            }
        }
        1
    }

    fn read<S: Sink>(&mut self, end: End, sink: &mut S) -> u32 {
        let mut reads = 0;
        loop {
            let next = self.net.0.borrow_mut().read(end, &mut self.buffer);
            let Some((token, lent, arrival)) = next else {
                return reads;
            };
            let bytes = match &lent {
                Lent::Segment(payload) => payload.bytes(),
                Lent::Joined => &self.buffer,
            };
            self.counters.received_bytes += bytes.len() as u64;
            self.counters.reads += 1;
            reads += 1;
            sink.received(&mut self.commands, token, bytes, arrival);
            if let Lent::Segment(payload) = lent {
                self.net.0.borrow_mut().pool.give(payload);
            }
        }
    }
}

impl Drop for SimDriver {
    /// As when a program ends: its connections are reset, and nobody listens any more.
    fn drop(&mut self) {
        // A network that panicked half-way is left as it is.
        if let Ok(mut net) = self.net.0.try_borrow_mut() {
            net.remove_driver(self.id);
        }
    }
}

impl Driver for SimDriver {
    type Waker = SimWaker;

    fn listen(&mut self, peer: &Peer) -> Result<Peer, DriverError> {
        self.net
            .0
            .borrow_mut()
            .listen_driver(self.id, peer)
            .ok_or_else(|| in_use(peer))
    }

    fn stop_listening(&mut self) -> Result<(), DriverError> {
        self.net.0.borrow_mut().remove_listeners(self.id);
        Ok(())
    }

    fn commands(&mut self) -> &mut Commands {
        &mut self.commands
    }

    fn turn<S: Sink>(&mut self, deadline: Nanos, sink: &mut S) -> Result<Turn, DriverError> {
        self.hand_over(sink);
        let (waited, woken) = self.wait(deadline)?;
        let reaped = self.net.0.borrow().clock.now();
        let mut completions = 0;
        loop {
            let next = self.net.0.borrow_mut().desks[self.id as usize]
                .ready
                .pop_front();
            let Some(ready) = next else { break };
            completions += self.tell(ready, reaped, sink);
        }
        self.counters.turns += 1;
        self.counters.completions += u64::from(completions);
        Ok(Turn {
            completions,
            woken,
            waited,
            reaped,
        })
    }

    fn waker(&self) -> SimWaker {
        SimWaker(Arc::clone(&self.flag))
    }

    fn counters(&self) -> Counters {
        let sent_bytes = self.net.0.borrow().desks[self.id as usize].sent_bytes;
        Counters {
            sent_bytes,
            ..self.counters
        }
    }
}

fn in_use(peer: &Peer) -> DriverError {
    DriverError::Listen {
        peer: peer.clone(),
        source: io::ErrorKind::AddrInUse.into(),
    }
}

/// Wakes a [`SimDriver`].
///
/// Virtual time does not wait for other threads: a turn ends at its virtual deadline, however soon
/// that is. Only a turn with no deadline, on a network where nothing is planned, really waits.
#[derive(Clone, Debug)]
pub struct SimWaker(Arc<Flag>);

impl Wake for SimWaker {
    fn wake(&self) {
        self.0.raised.store(true, Ordering::Release);
        // Taking the lock orders this after a `block` that has seen the flag down and not slept yet.
        drop(self.0.lock.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.bell.notify_all();
    }
}

#[derive(Debug, Default)]
struct Flag {
    raised: AtomicBool,
    lock: Mutex<()>,
    bell: Condvar,
}

impl Flag {
    fn take(&self) -> bool {
        self.raised.load(Ordering::Relaxed) && self.raised.swap(false, Ordering::Acquire)
    }

    fn block(&self) {
        let mut guard = self.lock.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.raised.load(Ordering::Acquire) {
            guard = self
                .bell
                .wait(guard)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}
