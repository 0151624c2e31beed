use std::collections::VecDeque;
use std::ops::Range;

use ridgeline_clock::Nanos;
use ridgeline_engine::LiveTotals;
use ridgeline_metrics::Phase;

use crate::message::{Finished, ToWorker, WorkerHello, encode};
use crate::offset::Clocks;
use crate::{ClockOffset, Ending, FleetLimits, MemberEnd};

/// A place for a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Seat {
    /// What it is called by: its address.
    pub name: String,
    /// Its shards of the run.
    pub shards: Range<u32>,
    /// The cores of these; `None`: the worker decides.
    pub cores: Option<Vec<u32>>,
    /// Where its records go, where it has this machine's file system.
    pub folder: Option<String>,
}

/// How far a worker is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// No link yet.
    Absent,
    /// It was greeted.
    Greeted,
    /// Its clock is being compared.
    Syncing,
    /// It builds its share of the run.
    Preparing,
    /// It waits for the start of a phase.
    Ready(Phase),
    /// It was given the start of a phase.
    Running(Phase),
    /// Its numbers are there.
    Finished,
    /// It is out.
    Lost,
}

/// How much of a worker's records is here.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Fetched {
    pub(crate) asked: u64,
    pub(crate) came: u64,
    /// By when the next part must be there.
    pub(crate) by: Nanos,
    /// Whether all of them are.
    pub(crate) whole: bool,
}

/// A worker, as the coordinator sees it.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) seat: Seat,
    pub(crate) state: State,
    /// When the state began.
    pub(crate) since: Nanos,
    /// When it last said something.
    pub(crate) heard: Nanos,
    pub(crate) hello: Option<WorkerHello>,
    pub(crate) clocks: Clocks,
    same_clock: bool,
    sequence: u64,
    pub(crate) ping_at: Nanos,
    pub(crate) queue: VecDeque<Vec<u8>>,
    /// The file that is being sent, and how much of it was.
    pub(crate) file: (usize, usize),
    pub(crate) totals: LiveTotals,
    pub(crate) driver: String,
    pub(crate) leaving: Option<String>,
    pub(crate) finished: Option<Finished>,
    pub(crate) fetched: Fetched,
    /// Why it is lost, or, of one whose numbers are there, gone.
    pub(crate) gone: Option<String>,
    /// What was last heard of its link before it answered.
    pub(crate) link: Option<String>,
}

impl Member {
    pub(crate) fn new(seat: Seat, now: Nanos) -> Self {
        Self {
            seat,
            state: State::Absent,
            since: now,
            heard: now,
            hello: None,
            clocks: Clocks::default(),
            same_clock: false,
            sequence: 0,
            ping_at: Nanos::MAX,
            queue: VecDeque::new(),
            file: (0, 0),
            totals: LiveTotals::default(),
            driver: String::new(),
            leaving: None,
            finished: None,
            fetched: Fetched::default(),
            gone: None,
            link: None,
        }
    }

    pub(crate) fn enter(&mut self, state: State, now: Nanos) {
        (self.state, self.since) = (state, now);
    }

    pub(crate) fn say(&mut self, message: &ToWorker) {
        self.queue.push_back(encode(message));
    }

    /// Asks for its clock, unless it has not even read what it was sent before.
    pub(crate) fn ping(&mut self, now: Nanos, beat: Nanos) {
        self.ping_at = now + beat;
        if self.queue.is_empty() {
            self.sequence += 1;
            self.say(&ToWorker::Ping {
                sequence: self.sequence,
                sent_ns: now.0,
            });
        }
    }

    /// The answer to a ping; whether it is to the last one.
    pub(crate) fn pong(
        &mut self,
        sequence: u64,
        sent_ns: u64,
        at_ns: u64,
        now: Nanos,
        limits: &FleetLimits,
    ) -> bool {
        if sequence == self.sequence {
            let offset = ClockOffset::of_round_trip(Nanos(sent_ns), Nanos(at_ns), now);
            self.clocks.take(offset, limits.clock_samples);
        }
        sequence <= self.sequence
    }

    /// It reads the coordinator's own clock.
    pub(crate) fn has_same_clock(&mut self) {
        self.same_clock = true;
    }

    pub(crate) fn clock(&self) -> Option<ClockOffset> {
        if self.same_clock {
            return Some(ClockOffset::SAME);
        }
        self.clocks.offset()
    }

    /// Whether the coordinator still expects something of it.
    pub(crate) fn is_here(&self) -> bool {
        self.state != State::Lost && self.gone.is_none()
    }

    /// Whether it was given a share that it has not handed back.
    pub(crate) fn is_at_work(&self) -> bool {
        matches!(
            self.state,
            State::Preparing | State::Ready(_) | State::Running(_)
        )
    }

    /// It is gone: with its numbers, unless they are here.
    pub(crate) fn lose(&mut self, why: String, now: Nanos) {
        if !self.is_here() {
            return;
        }
        self.gone = Some(why);
        self.queue.clear();
        // Should it still be there after all, it is not to go on.
        self.say(&ToWorker::Cancel);
        self.say(&ToWorker::Release { gathered: false });
        if self.finished.is_none() {
            self.enter(State::Lost, now);
        }
    }

    pub(crate) fn end(self) -> MemberEnd {
        let ending = match (self.state, self.leaving, &self.gone) {
            (State::Lost, _, why) => Ending::Lost {
                why: why.clone().unwrap_or_default(),
            },
            (_, Some(why), _) => Ending::Left { why },
            _ => Ending::Finished,
        };
        let same = self.same_clock;
        MemberEnd {
            clock: if same {
                Some(ClockOffset::SAME)
            } else {
                self.clocks.offset()
            },
            clock_drift_ns: self.clocks.drift_ns().filter(|_| !same),
            name: self.seat.name,
            hello: self.hello,
            shards: self.seat.shards,
            driver: self.driver,
            ending,
            ended: self.since,
            totals: self.totals,
            finished: self.finished,
        }
    }
}
