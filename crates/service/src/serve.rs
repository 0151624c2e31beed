use std::sync::Arc;
use std::sync::mpsc;
use std::thread;

use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use ridgeline_engine::{Bell, EngineError, Feed, Outlet, Supply, feed};
use ridgeline_transport::{Transport, TransportError};

use crate::heads::{HeadOptions, Heads};
use crate::intake::Intake;
use crate::outbox::{Outbox, Readers};
use crate::protocol::Totals;
use crate::shared::Shared;
use crate::{Limits, ServiceError};

/// How long the last messages may take to leave.
const FLUSH_MAX: Nanos = Nanos::from_secs(10);

/// What a service is.
#[derive(Clone, Debug)]
pub struct Options {
    /// Its bounds.
    pub limits: Limits,
    /// What its requests begin with.
    pub heads: HeadOptions,
    /// Queries in flight, of each shard.
    pub slots: Vec<u32>,
}

/// How a service went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// What was told in the last message.
    pub totals: Totals,
    /// Messages that nobody got: they were on their way to a client that left, or nobody was there to
    /// take them in the time that was given.
    pub messages_lost: u64,
}

/// Ends a service from another thread.
#[derive(Clone, Debug)]
pub struct Stop {
    shared: Arc<Shared>,
    /// Woken to see it.
    intake: Arc<Bell>,
    outbox: Arc<Bell>,
}

impl Stop {
    /// Takes no more queries. What was taken is done; results that nobody has taken by `give_up_at` are
    /// let go.
    pub fn stop(&self, give_up_at: Nanos) {
        self.shared.stop(give_up_at);
        self.intake.ring();
        self.outbox.ring();
    }
}

/// A service that is made, and not yet run.
#[derive(Debug)]
pub struct Service {
    shared: Arc<Shared>,
    heads: Heads,
    supplies: Vec<Supply>,
    feeds: Vec<Feed>,
    outlets: Vec<Outlet>,
    /// Wakes the outbox.
    told: Arc<Bell>,
    /// Wakes the intake, to stop.
    stopping: Arc<Bell>,
}

impl Service {
    /// A service with one feed for each of its shards.
    ///
    /// # Errors
    /// When requests can't begin as they are to.
    pub fn new(options: Options) -> Result<Self, ServiceError> {
        let Options {
            limits,
            heads,
            slots,
        } = options;
        let told = Arc::new(Bell::default());
        let (mut supplies, mut feeds, mut outlets) = (Vec::new(), Vec::new(), Vec::new());
        for slots in slots {
            // Any one of the shards may get them all.
            let (supply, feed, outlet) = feed(limits.unanswered_max(), slots, told.clone());
            supplies.push(supply);
            feeds.push(feed);
            outlets.push(outlet);
        }
        Ok(Self {
            heads: Heads::new(heads, limits.endpoints_max)?,
            shared: Arc::new(Shared::new(limits)),
            supplies,
            feeds,
            outlets,
            told,
            stopping: Arc::default(),
        })
    }

    /// A handle to end it with.
    #[must_use]
    pub fn stop(&self) -> Stop {
        Stop {
            shared: self.shared.clone(),
            intake: self.stopping.clone(),
            outbox: self.told.clone(),
        }
    }

    /// Serves until a client says `end` or it is [stopped](Service::stop). `requests` and `responses`
    /// make the two ends, each on its thread; `ready` is called when both are there. `engine` runs the
    /// shards of the feeds, until those are over, on this thread.
    ///
    /// # Errors
    /// When an end can't be had or can't go on, or when the engine can't.
    pub fn run<I: Transport, O: Transport>(
        self,
        requests: impl FnOnce() -> Result<I, TransportError> + Send,
        responses: impl FnOnce() -> Result<O, TransportError> + Send,
        ready: impl FnOnce(),
        engine: impl FnOnce(Vec<Feed>) -> Result<(), EngineError>,
    ) -> Result<Served, ServiceError> {
        let stop = self.stop();
        let Self {
            shared,
            heads,
            supplies,
            feeds,
            outlets,
            told,
            stopping,
        } = self;
        let intake = Intake::new(
            MonotonicClock,
            shared.clone(),
            heads,
            supplies,
            told.clone(),
        );
        let outbox = Outbox::new(shared.clone(), outlets);
        let (is_there, both) = mpsc::channel();
        thread::scope(|scope| {
            let (there, in_shared) = (is_there.clone(), shared.clone());
            let taking = thread::Builder::new()
                .name("requests".to_owned())
                .spawn_scoped(scope, move || {
                    take(requests, intake, &in_shared, &stopping, there)
                })
                .map_err(ServiceError::Thread)?;
            let stopping_all = stop.clone();
            let telling = thread::Builder::new()
                .name("responses".to_owned())
                .spawn_scoped(scope, move || {
                    let told = tell(responses, outbox, &shared, &told, is_there);
                    if told.is_err() {
                        // Nobody hears of results any more: what was taken is done, and no more is.
                        stopping_all.stop(MonotonicClock.now());
                    }
                    told
                })
                .map_err(ServiceError::Thread);
            // One that can't be there ends its thread, and with it the channel's other end.
            if telling.is_ok() && both.iter().take(2).count() == 2 {
                ready();
            } else {
                stop.stop(MonotonicClock.now());
            }
            let ran = engine(feeds);
            // In case no shard was there to tell of its end.
            stop.outbox.ring();
            if ran.is_err() {
                stop.stop(MonotonicClock.now());
            }
            let taken = taking.join().map_err(|_| ServiceError::Panicked)?;
            let told = telling?.join().map_err(|_| ServiceError::Panicked)?;
            taken?;
            let served = told?;
            ran?;
            Ok(served)
        })
    }
}

/// Says that an end is there, and lets go of the channel.
fn arrive(is_there: mpsc::Sender<()>) {
    // Nobody listens any more when the service can't start, which ends this thread, too.
    let _ = is_there.send(());
}

/// The thread that takes queries.
fn take<T: Transport>(
    make: impl FnOnce() -> Result<T, TransportError>,
    mut intake: Intake<MonotonicClock>,
    shared: &Shared,
    stopping: &Bell,
    is_there: mpsc::Sender<()>,
) -> Result<(), ServiceError> {
    let mut transport = make()?;
    shared.room.wakes_by(transport.waker());
    stopping.wakes_by(transport.waker());
    arrive(is_there);
    loop {
        stopping.sleeps();
        if intake.has_ended() || shared.is_stopped() {
            return Ok(());
        }
        // While there is no room the turn reads nothing, and a bell ends it.
        if shared.is_full() {
            shared.room.sleeps();
        }
        if !shared.is_full() {
            shared.room.wakes();
        }
        transport.turn(Nanos::MAX, &mut intake)?;
        intake.ring();
    }
}

/// The thread that sends first tokens, results and errors.
fn tell<T: Transport>(
    make: impl FnOnce() -> Result<T, TransportError>,
    mut outbox: Outbox,
    shared: &Shared,
    told: &Bell,
    is_there: mpsc::Sender<()>,
) -> Result<Served, ServiceError> {
    let mut transport = make()?;
    told.wakes_by(transport.waker());
    arrive(is_there);
    let mut readers = Readers::default();
    let mut given_up = 0;
    while !outbox.is_over() {
        outbox.collect();
        let all_sent = outbox.send(&mut transport);
        if !all_sent && MonotonicClock.now() >= shared.give_up_at() {
            given_up += outbox.give_up();
        }
        told.sleeps();
        // What came meanwhile is looked at at once; a bell from here on ends the turn.
        let is_news = outbox.has_more() && outbox.has_none_ready();
        let deadline = if is_news || outbox.is_over() {
            Nanos::ZERO
        } else {
            shared.give_up_at()
        };
        transport.turn(deadline, &mut readers)?;
        told.wakes();
    }
    outbox.say_goodbye();
    let until = shared.give_up_at().min(MonotonicClock.now()) + FLUSH_MAX;
    let lost = flush(&mut transport, &mut outbox, &mut readers, until)?;
    Ok(Served {
        totals: outbox.totals(),
        messages_lost: given_up + lost + readers.lost + outbox.too_long(),
    })
}

/// Waits until everything has left, at most until a time. How many messages have not; the last one, which
/// is ready, is not waited for where nobody is there to hear it.
fn flush<T: Transport>(
    transport: &mut T,
    outbox: &mut Outbox,
    readers: &mut Readers,
    until: Nanos,
) -> Result<u64, ServiceError> {
    loop {
        let all_sent = outbox.send(transport);
        let queued = transport.queued_all().messages;
        if queued == 0 && (all_sent || outbox.has_no_reader()) {
            return Ok(0);
        }
        if MonotonicClock.now() >= until {
            return Ok(queued + outbox.give_up());
        }
        transport.turn(until, readers)?;
    }
}
