use std::collections::VecDeque;

use ridgeline_clock::Nanos;
use ridgeline_engine::LiveTotals;
use ridgeline_metrics::Phase;
use serde_bytes::ByteBuf;

use crate::FleetLimits;
use crate::message::{
    Assignment, Finished, Secret, ToCoordinator, ToWorker, WorkerHello, decode, encode,
};

/// Messages that may wait for a slow link; beyond that the coordinator asks for more than it takes.
const OUTBOX_MAX: usize = 64;

/// Who this worker is, and whom it works for.
#[derive(Clone, Debug)]
pub struct Host {
    /// What it says of itself.
    pub hello: WorkerHello,
    /// What a coordinator must know; `None`: nothing.
    pub token: Option<Secret>,
}

/// What whoever runs the load is to do.
#[derive(Clone, Debug, PartialEq)]
pub enum Order {
    /// A run was given; files may follow.
    Assigned(Box<Assignment>),
    /// The next bytes of a file of the run.
    File {
        /// Which, by its place in the assignment.
        place: usize,
        /// Its bytes.
        bytes: Vec<u8>,
    },
    /// Everything is there: build it, and have the shards wait. Then [`Worker::ready`].
    Prepare,
    /// A phase begins.
    Start {
        /// Which.
        phase: Phase,
        /// When, on this machine's clock.
        at: Nanos,
    },
    /// Issue no more; what is in flight has this long.
    Stop {
        /// How long.
        drain: Nanos,
    },
    /// Give up what is in flight.
    Cancel,
    /// Read from the records, and tell [`Worker::part`].
    Read {
        /// Where it begins.
        offset: u64,
        /// How long it is at the most.
        bytes: usize,
    },
    /// The run is over, and its threads have ended: the worker is free.
    Over {
        /// Why it did not end as planned, if so.
        why: Option<String>,
        /// Whether the coordinator has all of the records.
        gathered: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// Nobody to work for.
    Free,
    /// A coordinator said hello.
    Greeted,
    /// The files of a run are coming: which, and how much of it.
    Receiving { place: usize, came: u64 },
    /// The run is being built.
    Preparing,
    /// The shards wait for a phase.
    Waiting(Phase),
    /// A phase goes on.
    Running,
    /// The numbers are sent.
    Finished,
    /// The run is to end, and nobody waits for it.
    Abandoned,
}

/// The end of the protocol that is led. `Peer` numbers name links; whoever owns those chooses them.
///
/// It is told the time, the links, the messages, and what the run does; it answers with messages
/// ([`outgoing`](Self::outgoing)) and [orders](Order).
#[derive(Debug)]
pub struct Worker {
    host: Host,
    limits: FleetLimits,
    stage: Stage,
    peer: Option<u64>,
    heard: Nanos,
    silence: Nanos,
    stepped: Nanos,
    beat_at: Nanos,
    files: Vec<u64>,
    leaving: Option<String>,
    /// Why the run did not end as planned.
    why: Option<String>,
    outbox: VecDeque<Out>,
    orders: VecDeque<Order>,
}

#[derive(Debug)]
struct Out {
    peer: u64,
    /// A later pong or snapshot takes its place.
    kind: Kind,
    bytes: Vec<u8>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Pong,
    Snapshot,
    Refusal,
    Once,
}

impl Worker {
    /// A worker that is free.
    #[must_use]
    pub fn new(host: Host, limits: FleetLimits, now: Nanos) -> Self {
        Self {
            host,
            limits,
            stage: Stage::Free,
            peer: None,
            heard: now,
            silence: limits.silence,
            stepped: now,
            beat_at: Nanos::MAX,
            files: Vec::new(),
            leaving: None,
            why: None,
            outbox: VecDeque::new(),
            orders: VecDeque::new(),
        }
    }

    // What it is told of the links.

    /// A message came over link `peer`.
    pub fn message(&mut self, peer: u64, bytes: &[u8], now: Nanos) {
        let is_coordinator = self.peer == Some(peer);
        if is_coordinator {
            self.heard = self.heard.max(now);
        }
        match decode::<ToWorker>(bytes) {
            Ok(ToWorker::Hello { token, host, .. }) if !is_coordinator => {
                self.greet(peer, token.as_ref(), &host, now);
            }
            Ok(message) if is_coordinator => self.hear(peer, message, now),
            Ok(_) => self.refuse(peer, "a coordinator says hello first"),
            Err(error) => {
                self.refuse(peer, &error.to_string());
                if is_coordinator {
                    self.abandon(format!("its coordinator is broken: {error}"));
                }
            }
        }
    }

    /// Link `peer` is gone.
    pub fn left(&mut self, peer: u64, why: &str) {
        self.outbox.retain(|out| out.peer != peer);
        if self.peer == Some(peer) {
            self.abandon(format!("the link to its coordinator ended: {why}"));
        }
    }

    /// Does what is due at `now`; answers with the time at which something is due again. `totals`: the live
    /// counts of the run.
    pub fn step(&mut self, totals: LiveTotals, now: Nanos) -> Nanos {
        // Whoever stood still itself can't tell how long others were silent: their words wait.
        let away = now - self.stepped;
        self.stepped = now;
        if away > self.silence / 2 {
            self.heard += away;
        }
        if self.peer.is_some() && now - self.heard >= self.silence {
            let silent = now - self.heard;
            let why = format!("its coordinator is gone: no sign of life for {silent}");
            self.abandon(why);
        }
        if now >= self.beat_at {
            self.beat_at = now + self.limits.beat;
            self.say(Kind::Snapshot, &ToCoordinator::Snapshot(totals.into()));
        }
        now + self.limits.beat / 4
    }

    /// This worker is to end (a signal): what it has is handed over in order. Whether it is free already is
    /// for [`is_free`](Self::is_free) to say.
    pub fn leave(&mut self, why: &str) {
        if self.leaving.is_some() {
            return;
        }
        self.leaving = Some(why.to_owned());
        let why = why.to_owned();
        match self.stage {
            Stage::Free | Stage::Finished | Stage::Abandoned => {}
            Stage::Greeted | Stage::Receiving { .. } => {
                self.refuse_own(&why);
                self.abandon(why);
            }
            Stage::Preparing | Stage::Waiting(_) => {
                self.say(Kind::Once, &ToCoordinator::Leaving { why });
                self.orders.push_back(Order::Cancel);
            }
            Stage::Running => {
                self.say(Kind::Once, &ToCoordinator::Leaving { why });
                let drain = self.limits.orphan_drain;
                self.orders.push_back(Order::Stop { drain });
            }
        }
    }

    // What it is told of the run.

    /// The shards wait for `phase`; `driver` drives their sockets.
    pub fn ready(&mut self, phase: Phase, driver: &str) {
        if matches!(self.stage, Stage::Preparing | Stage::Running) {
            self.stage = Stage::Waiting(phase);
            let driver = driver.to_owned();
            self.say(Kind::Once, &ToCoordinator::Ready { phase, driver });
        }
    }

    /// The run is over, and its threads have ended.
    pub fn finished(&mut self, finished: Finished) {
        match self.stage {
            Stage::Preparing | Stage::Waiting(_) | Stage::Running => {
                self.stage = Stage::Finished;
                self.say(Kind::Once, &ToCoordinator::Finished(Box::new(finished)));
            }
            _ => self.over(false),
        }
    }

    /// The run can't be made or can't go on, and its threads have ended.
    pub fn failed(&mut self, why: &str) {
        if self.stage != Stage::Abandoned {
            let message = ToCoordinator::Failed {
                why: why.to_owned(),
            };
            self.say(Kind::Once, &message);
            self.why = Some(why.to_owned());
        }
        self.over(false);
    }

    /// A part of the records, as it was [ordered](Order::Read).
    pub fn part(&mut self, offset: u64, bytes: Vec<u8>) {
        let bytes = ByteBuf::from(bytes);
        self.say(Kind::Once, &ToCoordinator::Part { offset, bytes });
    }

    // What it answers.

    /// The next message, and the link that it is for.
    pub fn outgoing(&mut self) -> Option<(u64, Vec<u8>)> {
        let out = self.outbox.pop_front()?;
        Some((out.peer, out.bytes))
    }

    /// The next order.
    pub fn order(&mut self) -> Option<Order> {
        self.orders.pop_front()
    }

    /// Whether it works for nobody, and nothing is left of an earlier run.
    #[must_use]
    pub fn is_free(&self) -> bool {
        self.stage == Stage::Free && self.orders.is_empty()
    }

    // Inside.

    fn greet(&mut self, peer: u64, token: Option<&Secret>, host: &str, now: Nanos) {
        let knows = match &self.host.token {
            None => true,
            Some(own) => token.is_some_and(|token| same(&token.0, &own.0)),
        };
        if !knows {
            return self.refuse(
                peer,
                "it asks for a token, and the coordinator has none or another one: give both the same \
                 (--token-file, or RIDGELINE_TOKEN)",
            );
        }
        if let Some(why) = &self.leaving {
            let why = format!("it is about to end: {why}");
            return self.refuse(peer, &why);
        }
        match self.stage {
            Stage::Free => {
                self.stage = Stage::Greeted;
                self.peer = Some(peer);
                self.heard = now;
                self.silence = self.limits.silence;
                self.why = None;
                let hello = Box::new(self.host.hello.clone());
                self.say(Kind::Once, &ToCoordinator::Hello(hello));
            }
            Stage::Abandoned => self.refuse(
                peer,
                "it still ends the run of a coordinator that is gone: try again in a few seconds",
            ),
            _ => {
                let why = format!("it works for another coordinator; this one is on {host}");
                self.refuse(peer, &why);
            }
        }
    }

    fn hear(&mut self, peer: u64, message: ToWorker, now: Nanos) {
        match (self.stage, message) {
            (_, ToWorker::Ping { sequence, sent_ns }) => {
                let pong = ToCoordinator::Pong {
                    sequence,
                    sent_ns,
                    at_ns: now.0,
                };
                self.say(Kind::Pong, &pong);
            }
            (Stage::Greeted, ToWorker::Plan(assignment)) => self.assigned(*assignment),
            (Stage::Receiving { place, came }, ToWorker::File { place: of, bytes })
                if of as usize == place =>
            {
                self.receive(place, came, bytes.into_vec());
            }
            (Stage::Waiting(waiting), ToWorker::Start { phase, at_ns }) if phase == waiting => {
                self.stage = Stage::Running;
                let at = Nanos(at_ns);
                self.orders.push_back(Order::Start { phase, at });
            }
            // It crossed the end of the run here.
            (Stage::Finished, ToWorker::Start { .. }) => {}
            (_, ToWorker::Stop { drain_ns }) => {
                let drain = Nanos(drain_ns);
                self.orders.push_back(Order::Stop { drain });
            }
            (_, ToWorker::Cancel) => self.orders.push_back(Order::Cancel),
            (Stage::Finished, ToWorker::Fetch { offset, bytes })
                if self.outbox.len() < OUTBOX_MAX =>
            {
                let bytes = bytes.min(self.limits.part_bytes) as usize;
                self.orders.push_back(Order::Read { offset, bytes });
            }
            (Stage::Finished, ToWorker::Release { gathered }) => self.over(gathered),
            (_, ToWorker::Release { .. }) => {
                self.abandon("its coordinator ended the run".to_owned());
            }
            (stage, message) => {
                let why = format!("`{}` came out of turn ({stage:?})", message.name());
                self.refuse(peer, &why);
                self.abandon(format!("its coordinator is broken: {why}"));
            }
        }
    }

    fn assigned(&mut self, assignment: Assignment) {
        let plain = |name: &str| {
            !name.is_empty() && name != "." && name != ".." && !name.contains(['/', '\\', '\0'])
        };
        if let Some(file) = assignment.files.iter().find(|file| !plain(&file.name)) {
            let why = format!("the plan names a file `{}`, which is none", file.name);
            self.refuse_own(&why);
            return self.abandon(why);
        }
        let asked = Nanos(assignment.silence_ns);
        self.silence = asked.clamp(self.limits.beat * 2, self.limits.silence * 12);
        self.beat_at = Nanos::ZERO;
        self.files = assignment.files.iter().map(|file| file.bytes).collect();
        self.orders.push_back(Order::Assigned(Box::new(assignment)));
        self.stage = Stage::Receiving { place: 0, came: 0 };
        self.prepare_if_complete();
    }

    fn receive(&mut self, place: usize, came: u64, bytes: Vec<u8>) {
        let length = self.files.get(place).copied().unwrap_or(0);
        let came = came + bytes.len() as u64;
        if came > length {
            let why = "a file is longer than its plan says".to_owned();
            self.refuse_own(&why);
            return self.abandon(why);
        }
        self.orders.push_back(Order::File { place, bytes });
        self.stage = if came == length {
            Stage::Receiving {
                place: place + 1,
                came: 0,
            }
        } else {
            Stage::Receiving { place, came }
        };
        self.prepare_if_complete();
    }

    fn prepare_if_complete(&mut self) {
        if matches!(self.stage, Stage::Receiving { place, .. } if place >= self.files.len()) {
            self.stage = Stage::Preparing;
            self.orders.push_back(Order::Prepare);
        }
    }

    /// Nobody waits for this run any more.
    fn abandon(&mut self, why: String) {
        self.why.get_or_insert(why);
        self.peer = None;
        self.beat_at = Nanos::MAX;
        match self.stage {
            Stage::Preparing | Stage::Waiting(_) => {
                self.stage = Stage::Abandoned;
                self.orders.push_back(Order::Cancel);
            }
            Stage::Running => {
                self.stage = Stage::Abandoned;
                let drain = self.limits.orphan_drain;
                self.orders.push_back(Order::Stop { drain });
            }
            Stage::Greeted | Stage::Receiving { .. } | Stage::Finished => self.over(false),
            Stage::Free | Stage::Abandoned => {}
        }
    }

    fn over(&mut self, gathered: bool) {
        self.stage = Stage::Free;
        self.peer = None;
        self.beat_at = Nanos::MAX;
        let why = self.why.take();
        self.orders.push_back(Order::Over { why, gathered });
    }

    fn say(&mut self, kind: Kind, message: &ToCoordinator) {
        if let Some(peer) = self.peer {
            self.put(peer, kind, message);
        }
    }

    fn refuse(&mut self, peer: u64, why: &str) {
        let why = why.to_owned();
        self.put(peer, Kind::Refusal, &ToCoordinator::Refused { why });
    }

    fn refuse_own(&mut self, why: &str) {
        if let Some(peer) = self.peer {
            self.refuse(peer, why);
        }
    }

    fn put(&mut self, peer: u64, kind: Kind, message: &ToCoordinator) {
        let is_old = |out: &Out| kind != Kind::Once && out.peer == peer && out.kind == kind;
        if kind == Kind::Refusal {
            // The first says why; and strangers that read nothing may be many.
            let refusals = self.outbox.iter().filter(|out| out.kind == kind);
            if self.outbox.iter().any(is_old) || refusals.count() >= OUTBOX_MAX {
                return;
            }
        }
        self.outbox.retain(|out| !is_old(out));
        let bytes = encode(message);
        self.outbox.push_back(Out { peer, kind, bytes });
    }
}

/// Compares without telling by the time it takes where two texts begin to differ.
fn same(a: &str, b: &str) -> bool {
    let differing = a
        .bytes()
        .zip(b.bytes())
        .fold(0, |all, (a, b)| all | (a ^ b));
    a.len() == b.len() && differing == 0
}
