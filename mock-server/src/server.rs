use std::sync::Arc;

use ridgeline_clock::{Arrival, Nanos};
use ridgeline_net::{Closed, Commands, Driver, DriverError, Sink, Token};
use ridgeline_tls as tls;
use ridgeline_wire::carry::CarryPool;
use serde_json::{Value, json};

use crate::args::MockServerArgs;
use crate::composer::Composer;
use crate::config::{Mode, ServerConfig};
use crate::connection::{Connection, Shared};
use crate::control::{Control, Phase};
use crate::exchange::Buffers;
use crate::fault::Chooser;
use crate::gauges::Family;
use crate::ledger::Ledger;
use crate::pace::{Lateness, Packing, Replica, Started, Startup, Ticket};
use crate::refusal::Refusal;
use crate::repeat::Repeat;
use crate::replay::{Recording, Replayer};
use crate::run::{ServerError, Stopper};
use crate::served::Served;
use crate::timers::Timers;
use crate::truth::Recorder;

/// One shard of the server: the connections of one driver, and their answers.
///
/// It knows no clock and no socket: a driver tells it what came and when ([`Sink`]), and
/// [`Server::step`] what time it is. [`serve`] is the loop around both.
#[derive(Debug)]
pub struct Server {
    connections: Vec<Connection>,
    /// Slots that are not in use, the one to use next last.
    free: Vec<u32>,
    shared: Shared,
}

impl Server {
    /// A shard without connections. `epoch` is what to add to the driver's clock to get the time
    /// since 1970: the `created` of answers.
    #[must_use]
    pub fn new(config: &ServerConfig, epoch: Nanos) -> Self {
        Self::of(Control::new(config.clone(), None, 1), 0, epoch)
    }

    /// The same, alone, for what flags ask for: then `/admin/config` can change it.
    ///
    /// # Errors
    /// As [`MockServerArgs::config`].
    pub fn with_flags(args: &MockServerArgs, epoch: Nanos) -> Result<Self, ServerError> {
        let settings = Some(args.settings.clone());
        let control = Control::new(args.config()?, settings, 1);
        Ok(Self::of(control, 0, epoch))
    }

    /// Shard number `number` of those that share `control`.
    pub(crate) fn of(control: Arc<Control>, number: usize, epoch: Nanos) -> Self {
        let version = control.version();
        let config = &*control.config();
        let limits = config.limits.clone();
        let pace = match &config.mode {
            Mode::Instant { .. } => None,
            Mode::Model(pace) => Some(pace),
        };
        Self {
            connections: Vec::new(),
            free: Vec::new(),
            shared: Shared {
                api_key: config.api_key.clone(),
                composer: Composer::new(config, epoch),
                pool: CarryPool::new(limits.carry_bytes_max),
                timers: Timers::new(limits.connections_max),
                buffers: Buffers::default(),
                repeat: Repeat::default(),
                is_instant: pace.is_none(),
                replica: pace.map(|pace| Replica::new(pace, number)),
                packing: pace.map_or_else(Packing::default, |pace| pace.packing),
                startup: Startup::new(config.startup),
                ledger: Ledger::new(Arc::clone(&control), number, config.late_over),
                chooser: Chooser::new(&config.faults, number as u64),
                replayer: config
                    .replay
                    .as_ref()
                    .map(|replay| Replayer::new(replay, number, control.shards())),
                version,
                is_draining: false,
                open: 0,
                tls: None,
                scratch: tls::Scratch::default(),
                control,
                limits,
            },
        }
    }

    /// Has every request and write told to `recorder`.
    pub(crate) fn record(&mut self, recorder: Option<Recorder>) {
        self.shared.ledger.truth = recorder;
    }

    /// Has connections that are accepted from now on go through TLS, where there is `tls`.
    pub fn secure(&mut self, tls: Option<tls::Server>) {
        self.shared.tls = tls;
    }

    /// Does everything that is due at `now`. Returns when the next thing will be;
    /// [`Nanos::MAX`]: when something arrives, not before.
    pub fn step(&mut self, now: Nanos, commands: &mut Commands) -> Nanos {
        self.shared.follow();
        while let Some(slot) = self.shared.timers.pop(now) {
            self.connections[slot as usize].due(&mut self.shared, commands, now);
        }
        self.shared.startup.left(now);
        while let Some((ticket, started)) = self.admit() {
            if let Some((connection, shared)) = self.connection(ticket.token) {
                connection.start(shared, commands, (ticket.serial, started), now);
            }
        }
        self.shared.publish();
        self.shared.timers.next()
    }

    /// A handle to end it with.
    #[must_use]
    pub fn stopper(&self) -> Stopper {
        Stopper::new(&self.shared.control)
    }

    /// Takes nothing more: connections are refused, those that owe no answer are closed, the others
    /// once they have answered; a request that is not complete yet gets 503.
    pub fn drain(&mut self, commands: &mut Commands) {
        self.shared.is_draining = true;
        for connection in &mut self.connections {
            connection.drain(commands);
        }
    }

    /// The next request that waited for its turn and can have it now.
    fn admit(&mut self) -> Option<(Ticket, Started)> {
        self.shared.replica.as_mut()?.admit()
    }

    /// Ends every connection; what is queued is still sent. For the server's own end.
    pub fn hang_up(&mut self, commands: &mut Commands) {
        self.shared.ledger.stopping = true;
        for connection in &mut self.connections {
            self.shared.ledger.served.answers_abandoned += connection.owed();
            connection.hang_up(commands);
        }
    }

    /// Connections that are open now.
    #[must_use]
    pub fn open(&self) -> usize {
        self.connections.len() - self.free.len()
    }

    /// What was counted so far.
    #[must_use]
    pub fn served(&self) -> Served {
        let ledger = &self.shared.ledger;
        Served {
            lateness: ledger.lateness.tally(),
            ..ledger.served.clone()
        }
    }

    /// How late writes were so far. Other threads may look at it while the shard counts.
    #[must_use]
    pub fn lateness(&self) -> Arc<Lateness> {
        Arc::clone(&self.shared.ledger.lateness)
    }

    /// The connection of `token`, unless it is gone.
    fn connection(&mut self, token: Token) -> Option<(&mut Connection, &mut Shared)> {
        let connection = self.connections.get_mut(token.index as usize)?;
        let current = connection.token == token && !connection.is_free();
        current.then_some((connection, &mut self.shared))
    }
}

impl Sink for Server {
    fn accepted(&mut self, _: &mut Commands, _: u32, _: Nanos) -> Option<Token> {
        let served = &mut self.shared.ledger.served;
        if self.shared.is_draining {
            served.connections_refused += 1;
            return None;
        }
        if let Some(fault) = self.shared.chooser.connection() {
            served.faults.add(fault.kind);
            return None;
        }
        let session = match &self.shared.tls {
            None => None,
            // A machine without random numbers can secure nothing.
            Some(tls) => Some(tls.session().ok()?),
        };
        let index = match self.free.pop() {
            Some(index) => index,
            None => {
                let index = u32::try_from(self.connections.len()).ok();
                let limits = &self.shared.limits;
                let Some(index) = index.filter(|index| *index < limits.connections_max) else {
                    served.connections_refused += 1;
                    return None;
                };
                self.connections.push(Connection::new(index, limits));
                index
            }
        };
        served.connections += 1;
        self.shared.open += 1;
        let connection = &mut self.connections[index as usize];
        if let Some(session) = session {
            connection.secure(session);
        }
        Some(connection.accept())
    }

    fn opened(&mut self, _: &mut Commands, _: Token, _: Nanos) {}

    fn submitted(&mut self, token: Token, at: Nanos) {
        if let Some((connection, shared)) = self.connection(token) {
            connection.submitted(shared, at);
        }
    }

    fn sent(&mut self, commands: &mut Commands, token: Token, head: Vec<u8>, at: Nanos) {
        if let Some((connection, shared)) = self.connection(token) {
            connection.sent(shared, commands, head.len(), at);
        }
        self.shared.buffers.put(head);
    }

    fn received(&mut self, commands: &mut Commands, token: Token, bytes: &[u8], arrival: Arrival) {
        self.shared.follow();
        if let Some((connection, shared)) = self.connection(token) {
            if connection.is_secure() {
                connection.received_secure(shared, commands, bytes, arrival);
            } else {
                connection.received(shared, commands, bytes, arrival);
            }
        }
    }

    fn ended(&mut self, commands: &mut Commands, token: Token, arrival: Arrival) {
        if let Some((connection, shared)) = self.connection(token) {
            connection.ended(shared, commands, arrival.reaped);
        }
    }

    fn closed(&mut self, _: &mut Commands, token: Token, _: Closed, at: Nanos) {
        if let Some((connection, shared)) = self.connection(token) {
            connection.release(shared, at);
            shared.open -= 1;
            self.free.push(token.index);
        }
    }
}

impl Shared {
    /// Takes up the config if it was changed.
    #[inline]
    pub(crate) fn follow(&mut self) {
        let version = self.control.version();
        if version != self.version {
            self.version = version;
            let config = self.control.config();
            self.take_up(&config);
        }
    }

    /// What is answered from now on is answered by `config`; what is under way stays as it is.
    fn take_up(&mut self, config: &ServerConfig) {
        self.composer.take_up(config);
        self.chooser.take_up(&config.faults);
        self.limits = config.limits.clone();
        if self.api_key != config.api_key {
            self.api_key.clone_from(&config.api_key);
            // What it knows of the last head includes whether that had the key.
            self.repeat = Repeat::default();
        }
        self.is_instant = matches!(config.mode, Mode::Instant { .. });
        self.ledger.lateness.call_late_over(config.late_over);
        if let Mode::Model(pace) = &config.mode {
            self.packing = pace.packing;
            let number = self.ledger.number;
            match &mut self.replica {
                Some(replica) => replica.take_up(pace),
                None => self.replica = Some(Replica::new(pace, number)),
            }
        }
    }

    /// What the next generating request repeats, in replay mode.
    pub(crate) fn next_recording(&mut self) -> Option<Recording> {
        let replayer = self.replayer.as_mut().filter(|_| !self.is_instant);
        replayer.map(Replayer::next)
    }

    /// `/metrics`, this shard's own numbers up to date.
    pub(crate) fn page(&self) -> String {
        self.publish();
        self.control.page()
    }

    /// Counts from 0 from now on, for `/metrics`.
    pub(crate) fn reset(&self) -> Result<Value, Refusal> {
        self.publish();
        self.control.reset()?;
        Ok(json!({"reset": true}))
    }

    /// Shows what is counted elsewhere than in the gauges.
    fn publish(&self) {
        let (gauges, served) = (self.ledger.gauges(), &self.ledger.served);
        let replica = self.replica.as_ref();
        let (queries, hits) = replica.map_or((0, 0), Replica::prefix_tokens);
        for (family, value) in [
            (Family::Running, replica.map_or(0, Replica::running).into()),
            (Family::Waiting, replica.map_or(0, Replica::waiting).into()),
            (Family::KvUsage, replica.map_or(0, Replica::kv_usage_ppm)),
            (Family::PrefixQueries, queries),
            (Family::PrefixHits, hits),
            (Family::Connections, self.open),
            (Family::ConnectionsAccepted, served.connections),
            (Family::ConnectionsRefused, served.connections_refused),
            (Family::Requests, served.requests),
            (Family::RequestsRefused, served.requests_refused),
            (Family::Answers, served.answers),
            (Family::AnswersCut, served.answers_cut),
        ] {
            gauges.set(family, value);
        }
        let faults = served.faults.total();
        if faults != gauges.value(Family::Faults) {
            gauges.set(Family::Faults, faults);
            self.control
                .show_faults(self.ledger.number(), &served.faults);
        }
    }
}

/// How long connections get to end in good order when the server ends.
const HANG_UP_MAX: Nanos = Nanos::from_millis(250);

/// Serves until its [`Stopper`] says otherwise: drains first, or ends every connection at once.
///
/// # Errors
/// When the driver can't go on.
pub fn serve<D: Driver>(driver: &mut D, server: &mut Server) -> Result<(), DriverError> {
    let control = Arc::clone(&server.shared.control);
    // Nothing is due yet: the first turn only tells the time.
    let mut now = driver.turn(Nanos::ZERO, server)?.reaped;
    while control.phase() == Phase::Serving {
        let deadline = server.step(now, driver.commands());
        now = driver.turn(deadline, server)?.reaped;
    }
    driver.stop_listening()?;
    if control.phase() == Phase::Draining {
        server.drain(driver.commands());
        now = driver.turn(Nanos::ZERO, server)?.reaped;
        let end = now + control.config().drain_max;
        while control.phase() == Phase::Draining && server.open() > 0 && now < end {
            let deadline = server.step(now, driver.commands()).min(end);
            now = driver.turn(deadline, server)?.reaped;
        }
    }
    server.hang_up(driver.commands());
    let deadline = now + HANG_UP_MAX;
    while server.open() > 0 && now < deadline {
        now = driver.turn(deadline, server)?.reaped;
    }
    server.shared.publish();
    Ok(())
}
