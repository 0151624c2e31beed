//! Conversations between an end of this crate and a foreign one on a thread of its own.

use std::path::Path;
use std::sync::mpsc;
use std::thread;

use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use ridgeline_net_epoll::{EpollConfig, EpollDriver};
use ridgeline_transport::conformance::{Log, pattern};
use ridgeline_transport::{Limits, Refused, To, Transport};
use ridgeline_transport_zmq::{Address, Kind, Zmq};

/// How long a conversation may take: far more than it takes.
const PATIENCE: Nanos = Nanos::from_secs(120);

/// Every kind of header and several reads, then many.
const SIZES: [usize; 11] = [
    0,
    1,
    254,
    255,
    256,
    257,
    4_096,
    65_535,
    65_536,
    262_145,
    1 << 20,
];
const SMALL: u64 = 3_000;

/// Messages of a conversation.
pub(crate) const MESSAGES: u64 = SIZES.len() as u64 + SMALL;

/// Message `number` of every conversation.
pub(crate) fn message(number: u64) -> Vec<u8> {
    let bytes = usize::try_from(number).unwrap();
    pattern(number, SIZES.get(bytes).copied().unwrap_or(100))
}

/// What the foreign end does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Job {
    /// Receives all messages as a PULL.
    Pull,
    /// Sends all messages as a PUSH.
    Push,
    /// Sends every message back as a ROUTER.
    RouterEcho,
    /// Sends every message back as a DEALER.
    DealerEcho,
}

impl Job {
    const ALL: [Self; 4] = [Self::Pull, Self::Push, Self::RouterEcho, Self::DealerEcho];

    /// What this crate's end is.
    fn ours(self) -> Kind {
        match self {
            Self::Pull => Kind::Push,
            Self::Push => Kind::Pull,
            Self::RouterEcho => Kind::Dealer,
            Self::DealerEcho => Kind::Router,
        }
    }
}

/// Where the foreign end is.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// It listens there, and says where that really is.
    Bind(String),
    /// It connects there.
    Connect(String),
}

/// What a foreign end is told, and tells.
#[derive(Debug)]
pub(crate) struct Line {
    /// Where it listens, if it does.
    pub(crate) address: mpsc::Sender<String>,
    /// Hung up when everything has come: what a library still sends behind its own back is sent by then.
    pub(crate) over: mpsc::Receiver<()>,
}

/// A foreign end, to the end of its job.
pub(crate) type Foreign = fn(Job, &Place, &Line);

fn ours(kind: Kind) -> Zmq<EpollDriver, MonotonicClock> {
    let config = EpollConfig {
        connections_max: 8,
        ..EpollConfig::default()
    };
    let limits = Limits {
        message_bytes_max: 2 << 20,
        peers_max: 8,
        ..Limits::control()
    };
    let driver = EpollDriver::new(config).unwrap();
    Zmq::new(driver, MonotonicClock, kind, limits).named("ours")
}

/// Every job, in both roles, on both kinds of addresses.
pub(crate) fn converse(foreign: Foreign) {
    let folder = tempfile::tempdir().unwrap();
    for (number, job) in Job::ALL.into_iter().enumerate() {
        for we_bind in [true, false] {
            let path = folder.path().join(format!("{number}-{we_bind}.sock"));
            for address in [ipc(&path), "tcp://127.0.0.1:0".to_owned()] {
                one(foreign, job, we_bind, &address);
            }
        }
    }
}

fn ipc(path: &Path) -> String {
    format!("ipc://{}", path.display())
}

fn one(foreign: Foreign, job: Job, we_bind: bool, address: &str) {
    let mut end = ours(job.ours());
    let (address_to, told) = mpsc::channel();
    let (hold, over) = mpsc::channel();
    let line = Line {
        address: address_to,
        over,
    };
    let place = if we_bind {
        let address: Address = address.parse().unwrap();
        Place::Connect(end.bind(&address).unwrap().to_string())
    } else {
        Place::Bind(address.to_owned())
    };
    let theirs = thread::spawn(move || foreign(job, &place, &line));
    if !we_bind {
        let there: Address = told.recv().unwrap().parse().unwrap();
        end.connect(&there).unwrap();
    }
    let mut log = Log::default();
    let mut us = Us {
        end: &mut end,
        log: &mut log,
        until: MonotonicClock.now() + PATIENCE,
    };
    us.turn_while(|us| us.log.peer().is_none());
    if job.ours().sends() {
        (0..MESSAGES).for_each(|number| us.send(number));
    }
    if job.ours().receives() {
        us.turn_while(|us| (us.log.messages().len() as u64) < MESSAGES);
    } else {
        us.turn_while(|us| us.end.queued_all().messages > 0);
    }
    drop(hold);
    theirs.join().unwrap();
    for (number, came) in (0..).zip(log.messages()) {
        assert!(
            came == message(number),
            "{job:?}: message {number} is another"
        );
    }
}

struct Us<'a> {
    end: &'a mut Zmq<EpollDriver, MonotonicClock>,
    log: &'a mut Log,
    until: Nanos,
}

impl Us<'_> {
    fn turn_while(&mut self, more: impl Fn(&Self) -> bool) {
        while more(self) {
            let now = MonotonicClock.now();
            assert!(
                now < self.until,
                "no end after {PATIENCE}: {:?}",
                self.log.unmet()
            );
            let soon = now + Nanos::from_millis(20);
            self.end.turn(soon, self.log).unwrap();
            let left = self.log.left();
            assert!(left.is_none() || !more(self), "{left:?}");
        }
    }

    fn send(&mut self, number: u64) {
        let there = self.log.peer().unwrap();
        // Not too many under way: an echo that can't send does not receive.
        let lead = |us: &Self| number.saturating_sub(us.log.messages().len() as u64);
        if self.end_receives() {
            self.turn_while(|us| lead(us) > 20);
        }
        while let Err(refused) = self.end.send(To::Peer(there), &message(number)) {
            assert_eq!(refused, Refused::Full);
            self.turn_while(|us| us.end.queued_all().bytes > 1 << 20);
        }
    }

    fn end_receives(&self) -> bool {
        self.end.kind().receives()
    }
}
