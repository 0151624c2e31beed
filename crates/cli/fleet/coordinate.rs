use std::collections::HashMap;
use std::io;
use std::mem;
use std::path::Path;
use std::sync::Arc;

use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use ridgeline_engine::Control;
use ridgeline_fleet::message::Secret;
use ridgeline_fleet::{Coordinator, Event, FleetLimits, MemberEnd};
use ridgeline_report::records::Gathering;
use ridgeline_transport::{Cause, Flow, Left, PeerId, Receiver, Refused, To, Transport};
use ridgeline_transport_zmq::Address;

use super::brief::{brief, gathers};
use super::children::Children;
use super::link::{Router, refuse_open, router};
use super::names;
use super::outcome::{self, Gathered};
use super::token::token;
use super::workers::Workers;
use crate::bench::Ended;
use crate::complaint::Complaint;
use crate::progress::Progress;
use crate::setup::Setup;
use crate::{signals, terminal};

/// The user's wish, and whether processes have ended, are looked at this often.
const LOOK_EVERY: Nanos = Nanos::from_millis(100);

/// How long a process that ended, or whose link did, may still have words on the way, or a better reason.
const GRACE: Nanos = Nanos::from_millis(200);

/// How long the last messages may take on their way.
const FLUSH_MAX: Nanos = Nanos::from_secs(1);

/// The run itself, where others drive the load.
pub(crate) fn drive(setup: &Setup, folder: &Path, quiet: bool) -> Result<Ended, Complaint> {
    let Some(workers) = &setup.config.workers else {
        return Err(Complaint::new("the run has no workers"));
    };
    let since = MonotonicClock.now();
    let token = token(setup.config.token_file.as_deref())?;
    let brief = brief(setup, token.clone())?;
    let mut children = None;
    let addresses = match workers {
        Workers::Here(count) => {
            let started = Children::start(*count, setup.plan.run_id)?;
            children.insert(started).addresses()
        }
        Workers::At(addresses) => addresses.clone(),
    };
    let control = Arc::new(Control::new(workers.count()));
    let cannot = |what: &'static str| {
        move |error: io::Error| Complaint::new(format!("cannot {what}: {error}"))
    };
    signals::watch(control.clone()).map_err(cannot("wait for signals"))?;
    let mut limits = FleetLimits::default();
    limits.join = setup.config.join_timeout.map_or(limits.join, |span| span.0);
    names::wait(&addresses, since + limits.join, &control, quiet)?;
    let gathering = gathers(&setup.config)
        .then(|| Gathering::start(folder))
        .transpose()?;
    let seats = outcome::seats(setup, &addresses, folder, children.is_some());
    let router = linked(&addresses, token.as_ref())?;
    let names = seats.iter().map(|seat| seat.name.clone()).collect();
    let coordinator = Coordinator::new(seats, brief, limits, since);
    let links = Links::of(&addresses);
    let mut run = Run::new(coordinator, router, links, names, quiet);
    (run.children, run.gathering) = (children, gathering);
    let progress = (!quiet)
        .then(|| Progress::start(&setup.plan, control.clone()))
        .transpose()
        .map_err(cannot("start a thread"))?;
    let driven = run.drive(&control);
    drop(progress);
    driven?;
    run.into_ended(setup, &control, folder)
}

/// An end that connects to all workers.
fn linked(addresses: &[Address], token: Option<&Secret>) -> Result<Router, Complaint> {
    let mut router = router(token)?;
    for address in addresses {
        refuse_open(address, token)?;
        router.connect(address)?;
    }
    Ok(router)
}

/// A run under way.
struct Run {
    coordinator: Coordinator,
    router: Router,
    links: Links,
    children: Option<Children>,
    gathering: Option<Gathering>,
    gathered: Vec<Gathered>,
    names: Vec<String>,
    quiet: bool,
    /// What the user wanted so far.
    stopped: bool,
    cancelled: bool,
}

impl Run {
    fn new(
        coordinator: Coordinator,
        router: Router,
        links: Links,
        names: Vec<String>,
        quiet: bool,
    ) -> Self {
        Self {
            coordinator,
            router,
            links,
            children: None,
            gathering: None,
            gathered: vec![Gathered::default(); names.len()],
            names,
            quiet,
            stopped: false,
            cancelled: false,
        }
    }

    /// Until everything is said.
    fn drive(&mut self, control: &Control) -> Result<(), Complaint> {
        let mut flush_by = Nanos::MAX;
        loop {
            let now = MonotonicClock.now();
            self.heed(control, now);
            self.tell_ends(now);
            let due = self.coordinator.step(now);
            self.publish(control);
            let waiting = self.send(now);
            if self.coordinator.is_over() {
                flush_by = flush_by.min(now + FLUSH_MAX);
                if !waiting || now >= flush_by {
                    return Ok(());
                }
            }
            let mut told = Told {
                coordinator: &mut self.coordinator,
                links: &mut self.links,
            };
            let until = due.min(now + LOOK_EVERY).min(flush_by);
            self.router.turn(until, &mut told)?;
        }
    }

    /// What the user wants.
    fn heed(&mut self, control: &Control, now: Nanos) {
        if control.is_cancelled() && !self.cancelled {
            self.cancelled = true;
            self.coordinator.cancel(now);
        } else if control.is_stopped() && !self.stopped {
            self.stopped = true;
            self.coordinator.stop(signals::DRAIN, now);
        }
    }

    /// Tells of links and processes that have ended; what was on its way has arrived by then.
    fn tell_ends(&mut self, now: Nanos) {
        if self.coordinator.is_over() {
            return;
        }
        for worker in 0..self.names.len() {
            let ended = self.children.as_mut().and_then(|c| c.ended(worker));
            let gone = &mut self.links.gone[worker];
            if ended.is_some() && gone.is_none() {
                *gone = Some((now, String::new()));
            }
            let Some((since, link)) = gone else {
                continue;
            };
            if now - *since < GRACE {
                continue;
            }
            match ended {
                Some(why) => self.coordinator.died(worker, &why, now),
                None => {
                    self.coordinator.left(worker, link, now);
                    *gone = None;
                }
            }
        }
    }

    /// Live counts to whoever shows them, and what happened to whoever looks.
    fn publish(&mut self, control: &Control) {
        for (place, worker) in (0..).zip(0..self.names.len()) {
            control.publish(place, &self.coordinator.totals(worker));
        }
        for (worker, why) in mem::take(&mut self.links.unmet) {
            // Processes that were just started always come a moment later, and their end is told.
            if self.children.is_none() && self.coordinator.starts().0.is_none() {
                self.say(worker, &format!("no answer yet ({why})"));
            }
        }
        while let Some(event) = self.coordinator.event() {
            match event {
                Event::Joined { worker, note } => {
                    if let Some(note) = note {
                        self.say(worker, &note);
                    }
                }
                Event::Begins { at, .. } => control.start(at),
                Event::Gone { worker, why } => self.say(worker, &why),
                Event::Part { bytes, .. } => {
                    if let Some(gathering) = &mut self.gathering {
                        gathering.append(&bytes);
                    }
                }
                Event::Gathered { worker, missing } => self.gathered(worker, missing),
            }
        }
    }

    fn gathered(&mut self, worker: usize, missing: Option<String>) {
        self.gathered[worker].whole = missing.is_none();
        self.gathered[worker].missing.clone_from(&missing);
        let told = self.coordinator.records(worker);
        if let (Some(gathering), Some(told)) = (&mut self.gathering, told) {
            let elsewhere = outcome::elsewhere(&self.names[worker], told);
            gathering.end_worker(&elsewhere, missing.as_deref());
        }
    }

    fn say(&self, worker: usize, what: &str) {
        if !self.quiet {
            terminal::note(&format!("note: worker {}: {what}", self.names[worker]));
        }
    }

    /// Sends what there is to say; whether something of it still waits.
    fn send(&mut self, now: Nanos) -> bool {
        let mut waiting = false;
        for worker in 0..self.names.len() {
            let Some(peer) = self.links.peers[worker] else {
                // Nobody to hear it.
                while self.coordinator.is_over() && self.coordinator.outgoing(worker).is_some() {}
                continue;
            };
            let held = &mut self.links.held[worker];
            while let Some(message) = held.take().or_else(|| self.coordinator.outgoing(worker)) {
                match self.router.send(To::Peer(peer), &message) {
                    Ok(()) => {}
                    Err(Refused::Full) => {
                        *held = Some(message);
                        break;
                    }
                    Err(Refused::Gone | Refused::NoPeer) => break,
                    Err(error @ Refused::TooLong { .. }) => {
                        self.coordinator.died(worker, &error.to_string(), now);
                        break;
                    }
                }
            }
            waiting |= held.is_some() || self.router.queued(peer).messages > 0;
        }
        waiting
    }

    fn into_ended(
        self,
        setup: &Setup,
        control: &Control,
        folder: &Path,
    ) -> Result<Ended, Complaint> {
        let Self {
            coordinator,
            children,
            gathering,
            gathered,
            ..
        } = self;
        let (begun, measured) = coordinator.starts();
        let ends: Vec<MemberEnd> = coordinator.into_ends()?;
        let local = children.is_some();
        // They have ended before their folders are looked at.
        drop(children);
        let begun = begun.unwrap_or(Nanos::ZERO);
        outcome::Outcome {
            ends,
            begun,
            measured: measured.unwrap_or(begun),
            written: gathering.map(Gathering::finish),
            gathered,
            local,
        }
        .into_ended(setup, control, folder)
    }
}

/// The links to the workers.
struct Links {
    /// Workers by address.
    places: HashMap<String, usize>,
    peers: Vec<Option<PeerId>>,
    /// The message that a full link did not take.
    held: Vec<Option<Vec<u8>>>,
    /// Links, or processes, that have ended: since when, and why.
    gone: Vec<Option<(Nanos, String)>>,
    /// Workers that do not answer, and why, until that is told.
    unmet: Vec<(usize, String)>,
}

impl Links {
    /// To the workers at these addresses, none of which is there yet.
    fn of(addresses: &[Address]) -> Self {
        let places = addresses.iter().enumerate();
        Self {
            places: places.map(|(place, at)| (at.to_string(), place)).collect(),
            peers: vec![None; addresses.len()],
            held: vec![None; addresses.len()],
            gone: vec![None; addresses.len()],
            unmet: Vec::new(),
        }
    }

    fn place(&self, peer: PeerId) -> Option<usize> {
        self.peers.iter().position(|known| *known == Some(peer))
    }
}

/// Takes what a turn of the link brings.
struct Told<'a> {
    coordinator: &'a mut Coordinator,
    links: &'a mut Links,
}

impl Receiver for Told<'_> {
    fn joined(&mut self, peer: PeerId, who: &str) {
        if let Some(&worker) = self.links.places.get(who) {
            let now = MonotonicClock.now();
            if let Some((_, why)) = self.links.gone[worker].take() {
                self.coordinator.left(worker, &why, now);
            }
            self.links.peers[worker] = Some(peer);
            self.coordinator.joined(worker, now);
        }
    }

    fn message(&mut self, peer: PeerId, message: &[u8]) -> Flow {
        if let Some(worker) = self.links.place(peer) {
            self.coordinator
                .message(worker, message, MonotonicClock.now());
        }
        Flow::More
    }

    fn left(&mut self, peer: PeerId, left: &Left) {
        if let Some(worker) = self.links.place(peer) {
            self.links.peers[worker] = None;
            self.links.held[worker] = None;
            self.links.gone[worker] = Some((MonotonicClock.now(), left.to_string()));
        }
    }

    fn unmet(&mut self, who: &str, cause: &Cause) {
        if let Some(&worker) = self.links.places.get(who) {
            let why = cause.to_string();
            match cause {
                // Trying again changes nothing.
                Cause::Refused(_) | Cause::Malformed(_) => {
                    self.coordinator.died(worker, &why, MonotonicClock.now());
                }
                _ => {
                    self.coordinator.unmet(worker, &why);
                    self.links.unmet.push((worker, why));
                }
            }
        }
    }
}
