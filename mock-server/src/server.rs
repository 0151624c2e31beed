use std::sync::atomic::{AtomicBool, Ordering};

use ridgeline_clock::{Arrival, Nanos};
use ridgeline_net::{Closed, Commands, Driver, DriverError, Sink, Token};
use ridgeline_wire::carry::CarryPool;

use crate::composer::Composer;
use crate::config::{Mode, ServerConfig};
use crate::connection::{Connection, Shared};
use crate::exchange::Buffers;
use crate::ledger::Ledger;
use crate::pace::{Replica, Started, Ticket};
use crate::served::Served;
use crate::timers::Timers;

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
        let limits = config.limits.clone();
        Self {
            connections: Vec::new(),
            free: Vec::new(),
            shared: Shared {
                composer: Composer::new(config, epoch),
                pool: CarryPool::new(limits.carry_bytes_max),
                timers: Timers::new(limits.connections_max),
                buffers: Buffers::default(),
                replica: match &config.mode {
                    Mode::Instant { .. } => None,
                    Mode::Model(pace) => Some(Replica::new(pace.clone())),
                },
                ledger: Ledger::default(),
                limits,
            },
        }
    }

    /// Does everything that is due at `now`. Returns when the next thing will be;
    /// [`Nanos::MAX`]: when something arrives, not before.
    pub fn step(&mut self, now: Nanos, commands: &mut Commands) -> Nanos {
        while let Some(slot) = self.shared.timers.pop(now) {
            self.connections[slot as usize].due(&mut self.shared, commands, now);
        }
        while let Some((ticket, started)) = self.admit(now) {
            if let Some((connection, shared)) = self.connection(ticket.token) {
                connection.start(shared, commands, (ticket.serial, started), now);
            }
        }
        self.shared.timers.next()
    }

    /// The next request that waited for its turn and can have it now.
    fn admit(&mut self, now: Nanos) -> Option<(Ticket, Started)> {
        self.shared.replica.as_mut()?.admit(now)
    }

    /// Ends every connection; what is queued is still sent. For the server's own end.
    pub fn hang_up(&mut self, commands: &mut Commands) {
        for connection in &mut self.connections {
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
        self.shared.ledger.served
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
        Some(self.connections[index as usize].accept())
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
        if let Some((connection, shared)) = self.connection(token) {
            connection.received(shared, commands, bytes, arrival);
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
            self.free.push(token.index);
        }
    }
}

/// How long connections get to end in good order when the server ends.
const HANG_UP_MAX: Nanos = Nanos::from_millis(250);

/// Serves until `stop` is set (set it, then wake the driver), then ends every connection.
///
/// # Errors
/// When the driver can't go on.
pub fn serve<D: Driver>(
    driver: &mut D,
    server: &mut Server,
    stop: &AtomicBool,
) -> Result<(), DriverError> {
    // Nothing is due yet: the first turn tells the time.
    let mut now = Nanos::ZERO;
    while !stop.load(Ordering::Acquire) {
        let deadline = server.step(now, driver.commands());
        now = driver.turn(deadline, server)?.reaped;
    }
    server.hang_up(driver.commands());
    let deadline = now + HANG_UP_MAX;
    while server.open() > 0 && now < deadline {
        now = driver.turn(deadline, server)?.reaped;
    }
    Ok(())
}
