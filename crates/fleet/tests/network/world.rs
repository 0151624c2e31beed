//! A coordinator and its workers on a virtual network, in virtual time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use ridgeline_clock::{Nanos, Timebase};
use ridgeline_engine::{Exhausted, LiveTotals, RunResult};
use ridgeline_fleet::message::{Finished, RecordsTold, Secret, WorkerHello};
use ridgeline_fleet::{
    Brief, Coordinator, Event, FleetLimits, Host, Order, PlanFile, Seat, Share, Worker,
};
use ridgeline_metrics::{Collector, Phase};

pub(crate) const MS: u64 = 1_000_000;

/// The link and the machine of one worker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Path {
    /// The way there and the way back, ns; jitter is added to both.
    pub(crate) out: u64,
    pub(crate) back: u64,
    pub(crate) jitter: u64,
    /// What its clock says more than the coordinator's.
    pub(crate) offset: i64,
    /// Messages vanish.
    pub(crate) cut: bool,
    /// It does nothing (SIGSTOP).
    pub(crate) frozen: bool,
    /// Its link takes no messages.
    pub(crate) full: bool,
}

impl Default for Path {
    fn default() -> Self {
        Self {
            out: MS / 10,
            back: MS / 10,
            jitter: MS / 20,
            offset: 0,
            cut: false,
            frozen: false,
            full: false,
        }
    }
}

/// What a worker's machine does for the protocol: a run that is only pretended.
#[derive(Debug)]
pub(crate) struct Machine {
    pub(crate) worker: Worker,
    pub(crate) path: Path,
    pub(crate) files: Vec<Vec<u8>>,
    pub(crate) assigned: Option<u32>,
    /// True times at which it was told to begin.
    pub(crate) starts: Vec<(Phase, u64)>,
    pub(crate) over: Vec<Option<String>>,
    pub(crate) records: Vec<u8>,
    phase: Option<Phase>,
    ready_at: Option<u64>,
    ends_at: Option<u64>,
    began_at: u64,
    step_at: u64,
}

/// How a run is pretended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Run {
    pub(crate) prepare: u64,
    pub(crate) warms_up: bool,
    pub(crate) length: u64,
    pub(crate) per_ms: u64,
}

pub(crate) struct World {
    pub(crate) now: u64,
    pub(crate) coordinator: Coordinator,
    pub(crate) coordinator_dead: bool,
    pub(crate) machines: Vec<Machine>,
    pub(crate) events: Vec<Event>,
    pub(crate) gathered: Vec<Vec<u8>>,
    pub(crate) run: Run,
    /// Tells links of one coordinator from those of the next.
    peers: u64,
    step_at: u64,
    /// Messages under way: by when they arrive, and in which order they were sent.
    wire: BinaryHeap<Reverse<Sent>>,
    sent: u64,
    random: u64,
}

type Sent = (u64, u64, End, Vec<u8>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum End {
    Worker(usize, u64),
    Coordinator(usize, u64),
}

pub(crate) fn limits() -> FleetLimits {
    FleetLimits {
        prepare: Nanos::from_secs(20),
        part_bytes: 100,
        ..FleetLimits::default()
    }
}

pub(crate) fn brief(run: &Run) -> Brief {
    Brief {
        run_id: 9,
        config: "url: http://h\n".to_owned(),
        api_key: None,
        token: None,
        files: Vec::new(),
        warms_up: run.warms_up,
        span_max: Some(Nanos(run.length + 1_000 * MS)),
        gathers: true,
        revision: "r".to_owned(),
        host: "here".to_owned(),
        timebase: timebase(0),
    }
}

fn timebase(offset: i64) -> Timebase {
    Timebase {
        boot_id: Some(format!("boot-{offset}")),
        time_namespace: None,
    }
}

pub(crate) fn host(path: &Path, token: Option<&str>) -> Host {
    let base = timebase(path.offset);
    Host {
        hello: WorkerHello {
            revision: "r".to_owned(),
            host: "there".to_owned(),
            pid: 1,
            cores: 2,
            boot_id: base.boot_id,
            time_namespace: None,
        },
        token: token.map(|token| Secret(token.to_owned())),
    }
}

pub(crate) const RUN: Run = Run {
    prepare: 300 * MS,
    warms_up: false,
    length: 3_000 * MS,
    per_ms: 2,
};

impl World {
    pub(crate) fn new(paths: &[Path], run: Run) -> Self {
        Self::with(paths, run, brief(&run), None)
    }

    pub(crate) fn with(paths: &[Path], run: Run, brief: Brief, token: Option<&str>) -> Self {
        let machines = paths.iter().map(|path| Machine {
            worker: Worker::new(host(path, token), limits(), local(path, 1_000 * MS)),
            path: *path,
            files: Vec::new(),
            assigned: None,
            starts: Vec::new(),
            over: Vec::new(),
            records: (b'a'..=b'z').cycle().take(955).collect(),
            phase: None,
            ready_at: None,
            ends_at: None,
            began_at: 0,
            step_at: 0,
        });
        let machines: Vec<Machine> = machines.collect();
        let mut world = Self {
            now: 1_000 * MS,
            coordinator: coordinator(paths.len(), brief, 1_000 * MS),
            coordinator_dead: false,
            gathered: vec![Vec::new(); machines.len()],
            machines,
            events: Vec::new(),
            run,
            peers: 0,
            step_at: 0,
            wire: BinaryHeap::new(),
            sent: 0,
            random: 1,
        };
        world.connect();
        world
    }

    fn connect(&mut self) {
        let now = Nanos(self.now);
        for worker in 0..self.machines.len() {
            if !self.machines[worker].path.cut {
                self.coordinator.joined(worker, now);
            }
        }
    }

    /// Another coordinator comes in the place of one that is dead.
    pub(crate) fn next_coordinator(&mut self) {
        self.peers += 1;
        self.coordinator = coordinator(self.machines.len(), brief(&self.run), self.now);
        self.coordinator_dead = false;
        self.events.clear();
        self.gathered = vec![Vec::new(); self.machines.len()];
        self.connect();
    }

    /// The process of a worker is gone, and its end of the link with it.
    pub(crate) fn kill(&mut self, worker: usize) {
        self.machines[worker].path.frozen = true;
        self.machines[worker].path.cut = true;
        self.coordinator
            .left(worker, "the connection was closed", Nanos(self.now));
    }

    /// Goes on until `done`, or for so long; whether it was done.
    pub(crate) fn until(&mut self, most: u64, done: impl Fn(&Self) -> bool) -> bool {
        let end = self.now + most;
        while !done(self) {
            if self.now >= end {
                return false;
            }
            self.turn(end);
        }
        true
    }

    pub(crate) fn over(&mut self, most: u64) -> bool {
        let over = self.until(most, |world| world.coordinator.is_over());
        // What was said last still arrives.
        self.until(50 * MS, |_| false);
        over
    }

    pub(crate) fn lost(&self) -> Vec<(usize, String)> {
        let lost = self.events.iter().filter_map(|event| match event {
            Event::Gone { worker, why } => Some((*worker, why.clone())),
            _ => None,
        });
        lost.collect()
    }

    fn turn(&mut self, end: u64) {
        let mut next = end;
        if !self.coordinator_dead {
            if self.now >= self.step_at {
                self.step_at = self.coordinator.step(Nanos(self.now)).0;
            }
            next = next.min(self.step_at);
        }
        for place in 0..self.machines.len() {
            next = next.min(self.machines[place].act(self.now, self.run));
        }
        self.send();
        if let Some(Reverse((at, ..))) = self.wire.peek() {
            next = next.min(*at);
        }
        self.now = next.max(self.now + 1);
        self.deliver();
    }

    fn send(&mut self) {
        for worker in 0..self.machines.len() {
            while !self.coordinator_dead && !self.machines[worker].path.full {
                let Some(bytes) = self.coordinator.outgoing(worker) else {
                    break;
                };
                let to = End::Worker(worker, self.peers);
                self.transmit(to, self.machines[worker].path, bytes);
            }
            while !self.machines[worker].path.frozen {
                let Some((peer, bytes)) = self.machines[worker].worker.outgoing() else {
                    break;
                };
                let to = End::Coordinator(worker, peer);
                self.transmit(to, self.machines[worker].path, bytes);
            }
        }
        while let Some(event) = self.coordinator.event() {
            if let Event::Part { worker, bytes } = &event {
                self.gathered[*worker].extend_from_slice(bytes);
            }
            self.events.push(event);
        }
    }

    fn transmit(&mut self, to: End, path: Path, bytes: Vec<u8>) {
        if path.cut {
            return;
        }
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005) + 1;
        let jitter = (self.random >> 33) % (path.jitter + 1);
        let trip = match to {
            End::Worker(..) => path.out,
            End::Coordinator(..) => path.back,
        };
        self.sent += 1;
        // Order is kept: a link has no overtaking.
        let last = self
            .wire
            .iter()
            .filter(|sent| sent.0.2 == to)
            .map(|s| s.0.0);
        let at = (self.now + trip + jitter).max(last.max().unwrap_or(0));
        self.wire.push(Reverse((at, self.sent, to, bytes)));
    }

    fn deliver(&mut self) {
        let mut kept = Vec::new();
        while self.wire.peek().is_some_and(|sent| sent.0.0 <= self.now) {
            let Some(Reverse((at, order, to, bytes))) = self.wire.pop() else {
                return;
            };
            match to {
                End::Worker(worker, _) if self.machines[worker].path.frozen => {
                    kept.push(Reverse((at, order, to, bytes)));
                }
                End::Worker(worker, peer) => {
                    let machine = &mut self.machines[worker];
                    let now = local(&machine.path, self.now);
                    machine.worker.message(peer, &bytes, now);
                    machine.step_at = 0;
                }
                End::Coordinator(worker, peer) if peer == self.peers && !self.coordinator_dead => {
                    self.coordinator.message(worker, &bytes, Nanos(self.now));
                }
                End::Coordinator(..) => {}
            }
        }
        for mut sent in kept {
            sent.0.0 = self.now + MS;
            self.wire.push(sent);
        }
    }
}

fn coordinator(count: usize, mut brief: Brief, now: u64) -> Coordinator {
    if brief.files.is_empty() {
        brief.files.push(PlanFile {
            key: "dataset".to_owned(),
            name: "prompts.jsonl".to_owned(),
            bytes: (0..=250).cycle().take(1_234).collect(),
        });
    }
    let seat = |k: usize| Seat {
        name: format!("w{k}"),
        shards: u32::try_from(k).unwrap()..u32::try_from(k + 1).unwrap(),
        cores: None,
        folder: None,
    };
    Coordinator::new((0..count).map(seat).collect(), brief, limits(), Nanos(now))
}

/// What a worker's clock says at a true time.
pub(crate) fn local(path: &Path, now: u64) -> Nanos {
    Nanos(now.saturating_add_signed(path.offset))
}

impl Machine {
    /// Does what is due; when something is due again.
    fn act(&mut self, now: u64, run: Run) -> u64 {
        if self.path.frozen {
            return u64::MAX;
        }
        let mut next = u64::MAX;
        if now >= self.step_at {
            let totals = self.totals(now, run);
            self.worker.step(totals, local(&self.path, now));
            self.step_at = now + 20 * MS;
        }
        if self.ready_at.is_some_and(|at| now >= at) {
            self.ready_at = None;
            let phase = if run.warms_up {
                Phase::Warmup
            } else {
                Phase::Measured
            };
            self.worker.ready(phase, "io_uring");
        }
        if self.ends_at.is_some_and(|at| now >= at) {
            self.ends_at = None;
            if self.phase == Some(Phase::Warmup) {
                self.worker.ready(Phase::Measured, "io_uring");
            } else {
                self.finish(now, run);
            }
        }
        while let Some(order) = self.worker.order() {
            self.obey(order, now, run);
        }
        for at in [self.ready_at, self.ends_at].into_iter().flatten() {
            next = next.min(at);
        }
        next.min(self.step_at)
    }

    fn obey(&mut self, order: Order, now: u64, run: Run) {
        match order {
            Order::Assigned(assignment) => {
                self.assigned = Some(assignment.worker);
                self.files = vec![Vec::new(); assignment.files.len()];
            }
            Order::File { place, bytes } => self.files[place].extend(bytes),
            Order::Prepare => self.ready_at = Some(now + run.prepare),
            Order::Start { phase, at } => {
                let at = at.0.saturating_add_signed(-self.path.offset);
                self.starts.push((phase, at));
                self.phase = Some(phase);
                self.began_at = at;
                let length = if phase == Phase::Warmup {
                    500 * MS
                } else {
                    run.length
                };
                self.ends_at = Some(at.max(now) + length);
            }
            Order::Stop { drain } => {
                if let Some(end) = &mut self.ends_at {
                    *end = (*end).min(now + drain.0 / 2);
                }
            }
            Order::Cancel => {
                if self.ready_at.take().is_some() || self.phase.is_none() {
                    self.worker.failed("cancelled");
                } else {
                    self.ends_at = None;
                    self.finish(now, run);
                }
            }
            Order::Read { offset, bytes } => {
                let from = usize::try_from(offset).unwrap().min(self.records.len());
                let to = (from + bytes).min(self.records.len());
                self.worker.part(offset, self.records[from..to].to_vec());
            }
            Order::Over { why, .. } => {
                self.over.push(why);
                self.phase = None;
                (self.ready_at, self.ends_at) = (None, None);
            }
        }
    }

    fn totals(&self, now: u64, run: Run) -> LiveTotals {
        let done = if self.phase == Some(Phase::Measured) {
            now.saturating_sub(self.began_at) / MS * run.per_ms
        } else {
            0
        };
        LiveTotals {
            issued: done,
            completed: done,
            ..LiveTotals::default()
        }
    }

    fn finish(&mut self, now: u64, run: Run) {
        let start = local(&self.path, self.began_at);
        let mut collector = Collector::new(&[]);
        collector.begin(start, 1);
        for _ in 0..self.totals(now, run).issued {
            collector.issued(Phase::Measured);
        }
        let ended = local(&self.path, now);
        let share = Share::of(RunResult {
            started: start,
            measured: start,
            window_end: ended,
            last_issue: ended,
            last_done: ended,
            ended,
            collector,
            never_sent: 1,
            submitted_in_window: 2,
            records_dropped: 0,
            exhausted: Exhausted::default(),
            interrupted: false,
            shards: Vec::new(),
        });
        let records = Some(RecordsTold {
            bytes: self.records.len() as u64,
            ..RecordsTold::default()
        });
        self.worker.finished(Finished { share, records });
    }
}
