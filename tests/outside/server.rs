//! A server that plays scripts over real sockets: the "model" field of a request picks the case.
//!
//! One thread turns one driver. Each connection has its own queue of operations and the time at
//! which the next one is due, so that a case that waits holds up no other.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use bytes::Bytes;
use ridgeline_clock::{Arrival, Clock, MonotonicClock, Nanos};
use ridgeline_net::{Close, Closed, Commands, Driver, Peer, Sink, Token, Wake};
use ridgeline_net_epoll::{EpollConfig, EpollDriver, EpollWaker};

use crate::replay::{Case, Op};

/// A request as it came over the wire.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// The "model" field of its body.
    pub(crate) model: String,
    /// Which connection brought it; no two of a server have the same number.
    pub(crate) connection: u32,
    /// The request line.
    pub(crate) line: String,
    /// The fields of the head, names in lower case.
    pub(crate) fields: Vec<(String, String)>,
    /// The body, null when it is not JSON.
    pub(crate) body: serde_json::Value,
}

/// A running server. It stops when dropped.
pub(crate) struct Server {
    /// Its base URL.
    pub(crate) url: String,
    seen: Arc<Mutex<Vec<Seen>>>,
    stop: Arc<AtomicBool>,
    waker: EpollWaker,
    thread: Option<thread::JoinHandle<()>>,
}

impl Server {
    /// Serves the cases on a port that the system chose.
    pub(crate) fn start(cases: &[Case]) -> Self {
        let seen = Arc::default();
        let stop = Arc::new(AtomicBool::new(false));
        let mut scripts = Scripts {
            cases: cases
                .iter()
                .map(|case| (case.name.clone(), (case.scripts.clone(), 0)))
                .collect(),
            connections: HashMap::new(),
            accepted: 0,
            seen: Arc::clone(&seen),
        };
        let (ready, started) = mpsc::channel();
        let stopped = Arc::clone(&stop);
        let thread = thread::spawn(move || {
            let mut driver = EpollDriver::new(EpollConfig::default()).expect("epoll");
            let loopback = Peer::Tcp(([127, 0, 0, 1], 0).into());
            let bound = driver.listen(&loopback).expect("a free port");
            ready
                .send((bound, driver.waker()))
                .expect("the test still runs");
            while !stopped.load(Ordering::Acquire) {
                let deadline = scripts.step(driver.commands(), MonotonicClock.now());
                driver.turn(deadline, &mut scripts).expect("a turn");
            }
        });
        let (bound, waker) = started.recv().expect("the server started");
        Self {
            url: format!("http://{bound}"),
            seen,
            stop,
            waker,
            thread: Some(thread),
        }
    }

    /// The requests for a model so far.
    pub(crate) fn seen(&self, model: &str) -> Vec<Seen> {
        let seen = self.seen.lock().expect("the server runs");
        let of_model = seen.iter().filter(|request| request.model == model);
        of_model.cloned().collect()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            // A panic of the server has failed the cases that it served.
            let _ = thread.join();
        }
    }
}

/// What one connection still has to play.
#[derive(Debug, Default)]
struct Playing {
    unread: Vec<u8>,
    ops: VecDeque<Op>,
    /// The next operation waits for a request.
    listening: bool,
    /// A write is not finished yet; the pause after it.
    unsent: Option<Nanos>,
    /// When the next operation is due, once nothing above holds it up.
    due: Nanos,
}

#[derive(Debug)]
struct Scripts {
    /// The scripts of each case, and how many requests were answered by them.
    cases: HashMap<String, (Vec<Vec<Op>>, usize)>,
    connections: HashMap<u32, (Token, Playing)>,
    accepted: u32,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Scripts {
    /// Plays what is due; when the next operation is.
    fn step(&mut self, commands: &mut Commands, now: Nanos) -> Nanos {
        let mut next = Nanos::MAX;
        for (token, playing) in self.connections.values_mut() {
            loop {
                if let Some(due) = playing.step(*token, commands, now) {
                    next = next.min(due);
                }
                let asked = playing.listening;
                let Some(seen) = asked.then(|| playing.take_request(token.index)).flatten() else {
                    break;
                };
                if playing.ops.is_empty() {
                    playing.ops = answer(&mut self.cases, &seen.model);
                }
                playing.listening = false;
                playing.due = now;
                self.seen.lock().expect("no panic while locked").push(seen);
            }
        }
        next
    }
}

/// What is played to a request for a model.
fn answer(cases: &mut HashMap<String, (Vec<Vec<Op>>, usize)>, model: &str) -> VecDeque<Op> {
    let Some((scripts, played)) = cases.get_mut(model) else {
        let bytes = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec();
        return VecDeque::from([Op::Send { bytes, gap_ms: 0 }]);
    };
    *played += 1;
    scripts[(*played - 1) % scripts.len()].clone().into()
}

impl Playing {
    /// Plays up to the next write or wait; when the operation after it is due, where known.
    fn step(&mut self, token: Token, commands: &mut Commands, now: Nanos) -> Option<Nanos> {
        loop {
            if self.listening || self.unsent.is_some() {
                return None;
            }
            if self.due > now {
                return Some(self.due);
            }
            match self.ops.pop_front() {
                Some(Op::Send { bytes, gap_ms }) => {
                    commands.send(token, bytes, Bytes::new());
                    self.unsent = Some(Nanos::from_millis(gap_ms));
                }
                Some(Op::Sleep { ms }) => self.due += Nanos::from_millis(ms),
                Some(Op::Close { fin }) => {
                    commands.close(token, if fin { Close::Fin } else { Close::Reset });
                    self.ops.clear();
                    self.listening = true;
                }
                Some(Op::WaitRequest) | None => {
                    self.listening = true;
                }
            }
        }
    }

    /// The first request of what the connection brought, taken out when all of it is there.
    fn take_request(&mut self, connection: u32) -> Option<Seen> {
        let unread = &mut self.unread;
        let end = unread.windows(4).position(|four| four == b"\r\n\r\n")? + 4;
        let head = String::from_utf8_lossy(&unread[..end]).into_owned();
        let mut lines = head.split_terminator("\r\n");
        let line = lines.next()?.to_owned();
        let fields: Vec<(String, String)> = lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
            .collect();
        let length = fields
            .iter()
            .find(|(name, _)| name == "content-length")
            .map_or(0, |(_, value)| value.parse().expect("a length in digits"));
        if unread.len() < end + length {
            return None;
        }
        let body: serde_json::Value =
            serde_json::from_slice(&unread[end..end + length]).unwrap_or_default();
        unread.drain(..end + length);
        Some(Seen {
            model: body["model"].as_str().unwrap_or_default().to_owned(),
            connection,
            line,
            fields,
            body,
        })
    }
}

impl Sink for Scripts {
    fn accepted(&mut self, _: &mut Commands, _: u32, _: Nanos) -> Option<Token> {
        let token = Token {
            index: self.accepted,
            generation: 0,
        };
        self.accepted += 1;
        let playing = Playing {
            listening: true,
            ..Playing::default()
        };
        self.connections.insert(token.index, (token, playing));
        Some(token)
    }

    fn opened(&mut self, _: &mut Commands, _: Token, _: Nanos) {}

    fn submitted(&mut self, _: Token, _: Nanos) {}

    fn sent(&mut self, _: &mut Commands, token: Token, _: Vec<u8>, at: Nanos) {
        if let Some((_, playing)) = self.connections.get_mut(&token.index)
            && let Some(gap) = playing.unsent.take()
        {
            playing.due = at + gap;
        }
    }

    fn received(&mut self, _: &mut Commands, token: Token, bytes: &[u8], _: Arrival) {
        if let Some((_, playing)) = self.connections.get_mut(&token.index) {
            playing.unread.extend_from_slice(bytes);
        }
    }

    fn ended(&mut self, commands: &mut Commands, token: Token, _: Arrival) {
        commands.close(token, Close::Fin);
        self.connections.remove(&token.index);
    }

    fn closed(&mut self, _: &mut Commands, token: Token, _: Closed, _: Nanos) {
        self.connections.remove(&token.index);
    }
}
