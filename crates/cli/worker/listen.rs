use std::collections::HashMap;
use std::io::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use ridgeline_clock::{Clock, MonotonicClock, Nanos, Timebase};
use ridgeline_fleet::message::{Assignment, WorkerHello};
use ridgeline_fleet::{FleetLimits, Host, Order, Worker};
use ridgeline_transport::{Flow, Left, PeerId, Receiver, Refused, To, Transport, Wake};
use ridgeline_transport_zmq::Address;

use super::WorkerArgs;
use super::job::{Job, Told};
use crate::complaint::Complaint;
use crate::fleet::{self, Router};
use crate::{machine, signals, terminal};

/// The run and the user's wish are looked at this often, whatever the link brings.
const LOOK_EVERY: Nanos = Nanos::from_millis(100);

/// How long the last messages may take on their way.
const FLUSH_MAX: Nanos = Nanos::from_secs(1);

/// Serves one coordinator after the other.
pub(super) fn listen(args: &WorkerArgs, address: &Address) -> Result<u8, Complaint> {
    let token = fleet::token(args.listen.token_file.as_deref())?;
    fleet::refuse_open(address, token.as_ref())?;
    let mut router = fleet::router(token.as_ref())?;
    let bound = router.bind(address)?;
    let signals = Arc::new(AtomicU32::new(0));
    let (seen, waker) = (signals.clone(), router.waker());
    signals::heed(move |count| {
        seen.store(count, Ordering::Release);
        waker.wake();
        if count > 2 {
            std::process::exit(130);
        }
    })
    .map_err(|error| Complaint::new(format!("cannot wait for signals: {error}")))?;
    if !args.quiet {
        let mut out = terminal::Results::new();
        writeln!(out, "listening on {bound}")?;
        out.flush()?;
    }
    let worker = Worker::new(
        Host {
            hello: hello()?,
            token,
        },
        FleetLimits::default(),
        MonotonicClock.now(),
    );
    let mut serving = Serving {
        worker,
        router,
        links: Links::default(),
        held: None,
        job: None,
        args,
        served: 0,
    };
    serving.serve(&signals)?;
    Ok(0)
}

fn hello() -> Result<WorkerHello, Complaint> {
    let base = Timebase::read();
    Ok(WorkerHello {
        revision: fleet::revision(),
        host: fleet::host_name(),
        pid: std::process::id(),
        cores: u32::try_from(machine::allowed_cores()?.len()).unwrap_or(u32::MAX),
        boot_id: base.boot_id,
        time_namespace: base.time_namespace,
    })
}

struct Serving<'a> {
    worker: Worker,
    router: Router,
    links: Links,
    /// A message that a full link did not take.
    held: Option<(u64, Vec<u8>)>,
    job: Option<Job>,
    args: &'a WorkerArgs,
    /// Runs that are over.
    served: u32,
}

impl Serving<'_> {
    fn serve(&mut self, signals: &AtomicU32) -> Result<(), Complaint> {
        let (mut heard, mut flush_by) = (0, Nanos::MAX);
        loop {
            let count = signals.load(Ordering::Acquire);
            if count > heard {
                heard = count;
                self.leave(count);
            }
            self.hear_job();
            let now = MonotonicClock.now();
            let totals = self.job.as_ref().map(Job::totals);
            let due = self.worker.step(totals.unwrap_or_default(), now);
            self.obey();
            let waiting = self.send();
            let done = heard > 0 || self.args.listen.once && self.served > 0;
            if done && self.worker.is_free() && self.job.is_none() {
                flush_by = flush_by.min(now + FLUSH_MAX);
                if !waiting || now >= flush_by {
                    return Ok(());
                }
            }
            let mut told = Inbox {
                worker: &mut self.worker,
                links: &mut self.links,
            };
            let until = due.min(now + LOOK_EVERY).min(flush_by);
            self.router.turn(until, &mut told)?;
        }
    }

    /// A signal came.
    fn leave(&mut self, count: u32) {
        if count == 1 {
            self.note("told to end: what is in flight has 2 s; again to end at once");
            self.worker.leave("it was told to end by a signal");
        } else if let Some(job) = &mut self.job {
            job.cancel();
        }
    }

    fn note(&self, what: &str) {
        if !self.args.quiet {
            terminal::note(what);
        }
    }

    /// What the run says.
    fn hear_job(&mut self) {
        let Some(job) = &mut self.job else {
            return;
        };
        while let Some(told) = job.hear() {
            match told {
                Told::Ready { phase, driver } => self.worker.ready(phase, driver),
                Told::Finished(finished) => self.worker.finished(*finished),
                Told::Failed(why) => {
                    terminal::note(&format!("error: {why}"));
                    self.worker.failed(&why);
                }
            }
        }
    }

    fn obey(&mut self) {
        while let Some(order) = self.worker.order() {
            match order {
                Order::Assigned(assignment) => self.assigned(*assignment),
                Order::Over { why, gathered } => self.over(why.as_deref(), gathered),
                Order::Read { offset, bytes } => {
                    let part = self.job.as_mut().map(|job| job.read(offset, bytes));
                    self.worker.part(offset, part.unwrap_or_default());
                }
                order => {
                    if let Some(job) = &mut self.job {
                        pass_on(job, order);
                    }
                }
            }
        }
    }

    fn assigned(&mut self, assignment: Assignment) {
        self.note(&format!(
            "run {:08x}: worker {} of {}, {} of the shards, from {}",
            assignment.run_id,
            assignment.worker,
            assignment.workers,
            assignment.shards,
            assignment.first_shard
        ));
        let waker = self.router.waker();
        let wake = move || waker.wake();
        self.job = Some(Job::new(assignment, self.args, Box::new(wake)));
    }

    fn over(&mut self, why: Option<&str>, gathered: bool) {
        self.served += 1;
        let Some(job) = self.job.take() else {
            return;
        };
        let kept = job.end(gathered);
        let kept = kept.map_or_else(String::new, |folder| {
            format!("; its records are in {}", folder.display())
        });
        match why {
            // Said whatever was asked for: nobody else may say it.
            Some(why) => terminal::note(&format!("the run ended early: {why}{kept}")),
            None => self.note(&format!("the run is over{kept}")),
        }
    }

    /// Sends what there is to say; whether something of it still waits.
    fn send(&mut self) -> bool {
        while let Some((number, message)) = self.held.take().or_else(|| self.worker.outgoing()) {
            let Some(&peer) = self.links.peers.get(&number) else {
                continue;
            };
            match self.router.send(To::Peer(peer), &message) {
                Ok(()) | Err(Refused::Gone | Refused::NoPeer) => {}
                Err(Refused::Full) => {
                    self.held = Some((number, message));
                    return true;
                }
                Err(error @ Refused::TooLong { .. }) => {
                    self.worker.left(number, &error.to_string())
                }
            }
        }
        let mut peers = self.links.peers.values();
        peers.any(|peer| self.router.queued(*peer).messages > 0)
    }
}

/// An order that is the run's alone.
fn pass_on(job: &mut Job, order: Order) {
    match order {
        Order::File { place, bytes } => job.file(place, &bytes),
        Order::Prepare => job.prepare(),
        Order::Start { at, .. } => job.start(at),
        Order::Stop { drain } => job.stop(MonotonicClock.now() + drain),
        Order::Cancel => job.cancel(),
        Order::Assigned(_) | Order::Read { .. } | Order::Over { .. } => {}
    }
}

#[derive(Default)]
struct Links {
    peers: HashMap<u64, PeerId>,
}

struct Inbox<'a> {
    worker: &'a mut Worker,
    links: &'a mut Links,
}

impl Receiver for Inbox<'_> {
    fn joined(&mut self, peer: PeerId, _who: &str) {
        self.links.peers.insert(fleet::number(peer), peer);
    }

    fn message(&mut self, peer: PeerId, message: &[u8]) -> Flow {
        let now = MonotonicClock.now();
        self.worker.message(fleet::number(peer), message, now);
        Flow::More
    }

    fn left(&mut self, peer: PeerId, left: &Left) {
        let number = fleet::number(peer);
        self.links.peers.remove(&number);
        self.worker.left(number, &left.to_string());
    }
}
