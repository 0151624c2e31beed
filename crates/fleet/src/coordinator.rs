mod gather;

use std::collections::VecDeque;

use ridgeline_clock::{Nanos, Timebase};
use ridgeline_engine::LiveTotals;
use ridgeline_metrics::Phase;
use serde_bytes::ByteBuf;

use crate::brief::{Brief, Event};
use crate::member::{Member, Seat, State};
use crate::message::{
    Assignment, FileHead, Finished, RecordsTold, ToCoordinator, ToWorker, WorkerHello, decode,
    encode,
};
use crate::{FleetError, FleetLimits, MemberEnd};

/// The end of the protocol that leads. It is told the time, the links, the messages and the user's wish;
/// it answers with messages ([`outgoing`](Self::outgoing)), events, and the time at which it wants to be
/// [stepped](Self::step) again.
#[derive(Debug)]
pub struct Coordinator {
    members: Vec<Member>,
    brief: Brief,
    limits: FleetLimits,
    created: Nanos,
    stepped: Nanos,
    begun: Option<Nanos>,
    measured: Option<Nanos>,
    /// By when every worker's numbers must be there.
    end_by: Nanos,
    /// The worker whose records are being fetched.
    gathering: Option<usize>,
    released: bool,
    failed: Option<FleetError>,
    events: VecDeque<Event>,
}

impl Coordinator {
    /// Of a run with these workers.
    #[must_use]
    pub fn new(seats: Vec<Seat>, brief: Brief, limits: FleetLimits, now: Nanos) -> Self {
        Self {
            members: seats
                .into_iter()
                .map(|seat| Member::new(seat, now))
                .collect(),
            brief,
            limits,
            created: now,
            stepped: now,
            begun: None,
            measured: None,
            end_by: Nanos::MAX,
            gathering: None,
            released: false,
            failed: None,
            events: VecDeque::new(),
        }
    }

    // What it is told.

    /// There is a link to worker number `worker`.
    pub fn joined(&mut self, worker: usize, now: Nanos) {
        let hello = ToWorker::Hello {
            revision: self.brief.revision.clone(),
            host: self.brief.host.clone(),
            token: self.brief.token.clone(),
        };
        let Some(member) = self.members.get_mut(worker) else {
            return;
        };
        if member.state == State::Absent {
            member.say(&hello);
            member.heard = now;
            member.enter(State::Greeted, now);
        }
    }

    /// The link to a worker is gone.
    pub fn left(&mut self, worker: usize, why: &str, now: Nanos) {
        let Some(member) = self.members.get_mut(worker) else {
            return;
        };
        match member.state {
            // It may come up yet.
            State::Absent | State::Greeted => {
                member.link = Some(why.to_owned());
                member.queue.clear();
                member.enter(State::Absent, now);
            }
            _ => self.lose(worker, format!("the link to it ended: {why}"), now),
        }
    }

    /// The link to a worker does not come up, so far.
    pub fn unmet(&mut self, worker: usize, why: &str) {
        if let Some(member) = self.members.get_mut(worker) {
            member.link = Some(why.to_owned());
        }
    }

    /// It is known that a worker is gone: a process that ended.
    pub fn died(&mut self, worker: usize, why: &str, now: Nanos) {
        if worker < self.members.len() {
            self.lose(worker, why.to_owned(), now);
        }
    }

    /// A message of a worker.
    pub fn message(&mut self, worker: usize, bytes: &[u8], now: Nanos) {
        let Some(member) = self.members.get_mut(worker).filter(|m| m.is_here()) else {
            return;
        };
        member.heard = member.heard.max(now);
        match decode::<ToCoordinator>(bytes) {
            Ok(message) => self.hear(worker, message, now),
            Err(error) => self.lose(worker, error.to_string(), now),
        }
    }

    /// The user wants the run to end: what is in flight has until `drain` from now.
    pub fn stop(&mut self, drain: Nanos, now: Nanos) {
        if self.begun.is_none() {
            self.fail(FleetError::Interrupted);
            return;
        }
        self.end_by = self.end_by.min(now + drain + self.limits.finish);
        self.say_all(&ToWorker::Stop { drain_ns: drain.0 });
    }

    /// The user wants the run to end now.
    pub fn cancel(&mut self, now: Nanos) {
        if self.begun.is_none() {
            self.fail(FleetError::Interrupted);
            return;
        }
        self.end_by = self.end_by.min(now + self.limits.finish);
        self.say_all(&ToWorker::Cancel);
    }

    /// Does what is due at `now`; answers with the time at which something is due again.
    pub fn step(&mut self, now: Nanos) -> Nanos {
        // Whoever stood still itself can't tell how long others were silent: their words wait.
        let away = now - self.stepped;
        self.stepped = now;
        if away > self.limits.silence / 2 {
            self.members.iter_mut().for_each(|m| m.heard += away);
        }
        for worker in 0..self.members.len() {
            if let Some(why) = self.overdue(worker, now) {
                self.lose(worker, why, now);
            }
            let member = &mut self.members[worker];
            if member.is_here() && now >= member.ping_at {
                member.ping(now, self.limits.beat);
            }
        }
        self.start_if_ready(now);
        self.gather(now);
        self.release_if_over();
        now + self.limits.beat / 4
    }

    // What it answers.

    /// The next message for worker number `worker`, which is taken to be on its way then.
    pub fn outgoing(&mut self, worker: usize) -> Option<Vec<u8>> {
        let member = self.members.get_mut(worker)?;
        if let Some(message) = member.queue.pop_front() {
            return Some(message);
        }
        if member.state != State::Preparing {
            return None;
        }
        let (place, sent) = member.file;
        let file = self.brief.files.get(place)?;
        let rest = &file.bytes[sent..];
        let part = &rest[..rest.len().min(self.limits.part_bytes as usize)];
        member.file = if part.len() == rest.len() {
            (place + 1, 0)
        } else {
            (place, sent + part.len())
        };
        Some(encode(&ToWorker::File {
            place: u32::try_from(place).unwrap_or(u32::MAX),
            bytes: ByteBuf::from(part),
        }))
    }

    /// The next thing that happened.
    pub fn event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// The live counts of worker number `worker`.
    #[must_use]
    pub fn totals(&self, worker: usize) -> LiveTotals {
        self.members
            .get(worker)
            .map_or_else(LiveTotals::default, |member| member.totals)
    }

    /// What worker number `worker` says of its records, once it has handed over its numbers.
    #[must_use]
    pub fn records(&self, worker: usize) -> Option<&RecordsTold> {
        let finished = self.members.get(worker)?.finished.as_ref()?;
        finished.records.as_ref()
    }

    /// Whether everything is said: what is still [outgoing](Self::outgoing) may be sent, and need not be
    /// waited for long.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.released
    }

    /// When the first phase and the measured one began, where they did.
    #[must_use]
    pub fn starts(&self) -> (Option<Nanos>, Option<Nanos>) {
        (self.begun, self.measured)
    }

    /// What became of the workers.
    ///
    /// # Errors
    /// Why the run was not begun, if it was not.
    pub fn into_ends(self) -> Result<Vec<MemberEnd>, FleetError> {
        match self.failed {
            Some(error) => Err(error),
            None => Ok(self.members.into_iter().map(Member::end).collect()),
        }
    }

    // Inside.

    fn hear(&mut self, worker: usize, message: ToCoordinator, now: Nanos) {
        let limits = self.limits;
        let member = &mut self.members[worker];
        match (member.state, message) {
            (State::Greeted, ToCoordinator::Hello(hello)) => self.greeted(worker, *hello, now),
            (
                State::Syncing
                | State::Preparing
                | State::Ready(_)
                | State::Running(_)
                | State::Finished,
                ToCoordinator::Pong {
                    sequence,
                    sent_ns,
                    at_ns,
                },
            ) if member.pong(sequence, sent_ns, at_ns, now, &limits) => {
                if member.state == State::Syncing {
                    self.synced(worker, now);
                }
            }
            (_, ToCoordinator::Snapshot(totals))
                if member.is_at_work() || member.state == State::Finished =>
            {
                member.totals = totals.into();
            }
            (State::Preparing, ToCoordinator::Ready { phase, driver })
                if phase == self.brief.first_phase() =>
            {
                member.driver = driver;
                member.enter(State::Ready(phase), now);
                self.start_if_ready(now);
            }
            (
                State::Running(Phase::Warmup),
                ToCoordinator::Ready {
                    phase: Phase::Measured,
                    ..
                },
            ) => {
                member.enter(State::Ready(Phase::Measured), now);
                self.start_if_ready(now);
            }
            (_, ToCoordinator::Leaving { why }) if member.is_at_work() => self.leaves(worker, why),
            (_, ToCoordinator::Finished(finished)) if member.is_at_work() => {
                self.finished(worker, *finished, now);
            }
            (State::Finished, ToCoordinator::Part { offset, bytes }) => {
                self.part(worker, offset, bytes.into_vec(), now);
            }
            (_, ToCoordinator::Refused { why }) if self.begun.is_none() => {
                let name = member.seat.name.clone();
                self.fail(FleetError::Refused { name, why });
            }
            (_, ToCoordinator::Refused { why } | ToCoordinator::Failed { why }) => {
                self.lose(worker, why, now);
            }
            (state, message) => {
                let why = format!("it said `{}` out of turn ({state:?})", message.name());
                self.lose(worker, why, now);
            }
        }
    }

    fn greeted(&mut self, worker: usize, hello: WorkerHello, now: Nanos) {
        let note = (hello.revision != self.brief.revision).then(|| {
            format!(
                "its program is of commit {}, and this one of {}: the same schedule is certain only \
                 with the same program",
                hello.revision, self.brief.revision
            )
        });
        self.events.push_back(Event::Joined { worker, note });
        let theirs = Timebase {
            boot_id: hello.boot_id.clone(),
            time_namespace: hello.time_namespace.clone(),
        };
        let same_clock = theirs.is_that_of(&self.brief.timebase);
        let member = &mut self.members[worker];
        member.hello = Some(hello);
        if same_clock {
            member.has_same_clock();
            self.plan(worker, now);
        } else {
            member.enter(State::Syncing, now);
            member.ping(now, self.limits.beat);
        }
    }

    /// One more round trip, or enough of them.
    fn synced(&mut self, worker: usize, now: Nanos) {
        if self.members[worker].clocks.count() < self.limits.clock_samples {
            self.members[worker].ping(now, self.limits.beat);
        } else {
            self.plan(worker, now);
        }
    }

    fn plan(&mut self, worker: usize, now: Nanos) {
        let files = self.brief.files.iter().map(|file| FileHead {
            key: file.key.clone(),
            name: file.name.clone(),
            bytes: file.bytes.len() as u64,
        });
        let files = files.collect();
        let count = u32::try_from(self.members.len()).unwrap_or(u32::MAX);
        let member = &mut self.members[worker];
        let shards = &member.seat.shards;
        let assignment = Assignment {
            run_id: self.brief.run_id,
            worker: u32::try_from(worker).unwrap_or(u32::MAX),
            workers: count,
            first_shard: shards.start,
            shards: shards.end.saturating_sub(shards.start),
            cores: member.seat.cores.clone(),
            config: self.brief.config.clone(),
            api_key: self.brief.api_key.clone(),
            folder: member.seat.folder.clone(),
            files,
            silence_ns: self.limits.silence.0,
        };
        member.say(&ToWorker::Plan(Box::new(assignment)));
        member.ping_at = now + self.limits.beat;
        member.enter(State::Preparing, now);
    }

    /// Begins a phase when every worker that is left waits for it.
    fn start_if_ready(&mut self, now: Nanos) {
        if self.failed.is_some() {
            return;
        }
        let mut phase = None;
        let mut error_max = Nanos::ZERO;
        for member in self.members.iter().filter(|m| m.state != State::Lost) {
            let State::Ready(ready) = member.state else {
                if member.state == State::Finished {
                    continue;
                }
                return;
            };
            phase = Some(ready);
            let error = member.clock().map_or(0, |clock| clock.error_ns);
            error_max = error_max.max(Nanos(error));
        }
        let Some(phase) = phase else {
            return;
        };
        // Half a round trip is the error: the start arrives two round trips before it is due.
        let at = now + self.limits.start_ahead + error_max * 4;
        self.begun.get_or_insert(at);
        if phase == Phase::Measured {
            self.measured = Some(at);
            let span = self.brief.span_max.map(|span| span + self.limits.finish);
            let by = span.map_or(Nanos::MAX, |span| at + span);
            self.end_by = self.end_by.min(by);
        }
        for member in &mut self.members {
            if member.state == State::Ready(phase) {
                let there = member.clock().unwrap_or_default().there(at);
                member.say(&ToWorker::Start {
                    phase,
                    at_ns: there.0,
                });
                member.enter(State::Running(phase), now);
            }
        }
        self.events.push_back(Event::Begins { phase, at });
    }

    fn leaves(&mut self, worker: usize, why: String) {
        let member = &mut self.members[worker];
        if self.begun.is_none() {
            let name = member.seat.name.clone();
            self.fail(FleetError::Lost { name, why });
            return;
        }
        member.leaving = Some(why.clone());
        self.events.push_back(Event::Gone { worker, why });
    }

    fn finished(&mut self, worker: usize, finished: Finished, now: Nanos) {
        if self.begun.is_none() {
            let why = "it ended before the run began".to_owned();
            self.lose(worker, why, now);
            return;
        }
        let member = &mut self.members[worker];
        member.finished = Some(finished);
        member.enter(State::Finished, now);
    }

    /// Why a worker has had its time, if so.
    fn overdue(&self, worker: usize, now: Nanos) -> Option<String> {
        let (member, limits) = (&self.members[worker], &self.limits);
        if !member.is_here() || self.released {
            return None;
        }
        let silent = now - member.heard;
        let fetching = self.gathering == Some(worker) && now >= member.fetched.by;
        match member.state {
            State::Absent | State::Greeted | State::Syncing => {
                (now - self.created >= limits.join).then(|| "no answer".to_owned())
            }
            _ if silent >= limits.silence => Some(format!("no sign of life for {silent}")),
            State::Preparing if now - member.since >= limits.prepare => {
                Some(format!("it was not ready within {}", limits.prepare))
            }
            State::Preparing | State::Ready(_) | State::Running(_) if now >= self.end_by => {
                Some("its numbers did not come in time".to_owned())
            }
            State::Finished if fetching => Some("its records did not come in time".to_owned()),
            _ => None,
        }
    }

    fn lose(&mut self, worker: usize, why: String, now: Nanos) {
        let member = &mut self.members[worker];
        if !member.is_here() {
            return;
        }
        let name = member.seat.name.clone();
        if self.begun.is_some() {
            member.lose(why.clone(), now);
            self.events.push_back(Event::Gone { worker, why });
            return;
        }
        let late = now - self.created >= self.limits.join;
        let error = if member.hello.is_none() && !late {
            FleetError::Refused {
                name,
                why: why.clone(),
            }
        } else if member.hello.is_none() {
            let link = member.link.take().map(|link| format!(": {link}"));
            FleetError::NoAnswer {
                name,
                within: self.limits.join,
                why: link.unwrap_or_default(),
            }
        } else {
            FleetError::Lost {
                name,
                why: why.clone(),
            }
        };
        member.lose(why, now);
        self.fail(error);
    }

    /// There will be no run.
    fn fail(&mut self, error: FleetError) {
        if self.failed.is_none() && self.begun.is_none() {
            self.failed = Some(error);
            self.say_all(&ToWorker::Cancel);
            self.release();
        }
    }

    fn say_all(&mut self, message: &ToWorker) {
        for member in self.members.iter_mut().filter(|m| m.is_at_work()) {
            member.say(message);
        }
    }
}
