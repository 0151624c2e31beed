//! The bare client: a closed loop that counts bytes, and events in them, and parses nothing.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsFd as _;
use std::time::Duration;

use memchr::memmem::{self, Finder};
use ridgeline_clock::{Clock, MonotonicClock, Nanos};
use serde::{Deserialize, Serialize};

use crate::machine::{self, Cpu};
use crate::payload::{self, EVENT};
use crate::ring::{Completion, Limits, Queues, Report, Ring};
use crate::stamp::{self, Stamping};

/// When a run ends. What is in flight then is waited for and counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// After this many requests.
    Requests(u64),
    /// After this time.
    After(Nanos),
}

/// What a run of the bare client is.
#[derive(Clone, Debug)]
pub struct Load {
    /// The server.
    pub address: SocketAddr,
    /// The bytes of each request.
    pub request: Vec<u8>,
    /// Whether events are counted in the answers.
    pub stream: bool,
    /// Connections, each with one request in flight at a time.
    pub connections: u32,
    /// When to stop.
    pub stop: Stop,
    /// Whether the kernel stamps what comes, and the stamps are read.
    pub timestamps: bool,
    /// Receive buffers, a power of two.
    pub buffers: u16,
    /// The size of each.
    pub buffer_bytes: u32,
}

/// What a run did. Printed as one line of JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Requests sent and answered in full.
    pub requests: u64,
    /// `data: ` in the answers; 0 unless events are counted.
    pub events: u64,
    /// Head, body and framing of each answer.
    pub response_bytes: u64,
    /// Reads, that is receive completions.
    pub reads: u64,
    /// Reads that carried a kernel stamp.
    pub stamped: u64,
    /// Receives that ended because no buffer was free; each was armed again.
    pub out_of_buffers: u64,
    /// From the first send to the last byte.
    pub elapsed_ns: u64,
    /// CPU time in user space over that time.
    pub user_ns: u64,
    /// CPU time in the kernel over that time.
    pub system_ns: u64,
    /// `requests` per second.
    pub requests_per_s: f64,
    /// `events` per second.
    pub events_per_s: f64,
    /// CPU time per request.
    pub cpu_ns_per_request: f64,
    /// CPU time per event; 0 unless events are counted.
    pub cpu_ns_per_event: f64,
}

/// The length of an answer and the events in it, learned by asking once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probe {
    /// Head, body and framing.
    pub response_bytes: u64,
    /// `data: ` in it.
    pub events: u64,
}

const STATUS: &[u8] = b"HTTP/1.1 200";
const PROBE_BYTES_MAX: usize = 256 << 20;

/// Asks once over a connection of its own, and tells how long the answer is.
///
/// # Errors
/// As [`ask`].
pub fn probe(address: SocketAddr, request: &[u8]) -> io::Result<Probe> {
    let answer = ask(address, request)?;
    Ok(Probe {
        response_bytes: answer.len() as u64,
        events: memmem::find_iter(&answer, EVENT).count() as u64,
    })
}

/// Asks once over a connection of its own. Gives the bytes of the answer, head and framing included.
///
/// # Errors
/// When the server does not answer with status 200 and a length that can be told.
pub fn ask(address: SocketAddr, request: &[u8]) -> io::Result<Vec<u8>> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(Duration::from_secs(30)))?;
    socket.write_all(request)?;
    let mut answer = Vec::new();
    let mut piece = [0; 65536];
    while !is_whole(&answer)? {
        let length = socket.read(&mut piece)?;
        if length == 0 || answer.len() > PROBE_BYTES_MAX {
            return Err(refused("the answer does not end by its own framing"));
        }
        answer.extend_from_slice(&piece[..length]);
    }
    if !answer.starts_with(STATUS) {
        return Err(refused("the status is not 200"));
    }
    Ok(answer)
}

fn is_whole(answer: &[u8]) -> io::Result<bool> {
    let Some(end) = memmem::find(answer, b"\r\n\r\n").map(|at| at + 4) else {
        return Ok(false);
    };
    let head = String::from_utf8_lossy(&answer[..end]).to_ascii_lowercase();
    if head.contains("transfer-encoding: chunked") {
        return Ok(answer.ends_with(b"\r\n0\r\n\r\n"));
    }
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length:"));
    match length.map(|text| text.trim().parse::<usize>()) {
        Some(Ok(length)) => Ok(answer.len() >= end + length),
        _ => Err(refused("the answer has no length")),
    }
}

fn refused(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.to_owned())
}

/// Runs a load to its end: every connection sends, waits for the whole answer, sends again.
///
/// # Errors
/// When a connection breaks, or an answer differs in length or status from the first.
pub fn run(load: &Load) -> io::Result<Outcome> {
    let probe = probe(load.address, &load.request)?;
    let mut ring = Ring::new(Limits {
        entries: load.connections.next_power_of_two().clamp(64, 4096),
        files: load.connections,
        buffers: load.buffers,
        buffer_bytes: load.buffer_bytes,
    })?;
    let mut queues = ring.start()?;
    let _stamping = load.timestamps.then(Stamping::start).transpose()?;
    connect(load, &queues)?;
    let mut client = Client {
        request: payload::leak(load.request.clone()),
        response_bytes: probe.response_bytes,
        find: load.stream.then(|| Finder::new(EVENT)),
        timestamps: load.timestamps,
        answers: vec![Answer::default(); load.connections as usize],
        outcome: Outcome {
            response_bytes: probe.response_bytes,
            ..Outcome::default()
        },
    };
    let (cpu, start) = (machine::own_cpu()?, MonotonicClock.now());
    client.drive(&mut queues, load.stop, start)?;
    let elapsed = MonotonicClock.now() - start;
    let cpu = machine::own_cpu()?.since(cpu);
    Ok(client.outcome.over(elapsed, cpu))
}

/// Connects and hands the sockets to the ring, so that no process descriptor stays open.
fn connect(load: &Load, queues: &Queues<'_>) -> io::Result<()> {
    for slot in 0..load.connections {
        let socket = TcpStream::connect(load.address)?;
        socket.set_nodelay(true)?;
        if load.timestamps {
            stamp::enable(socket.as_fd())?;
        }
        queues.adopt(slot, socket.as_fd())?;
    }
    Ok(())
}

/// A connection's current answer.
#[derive(Clone, Copy, Debug, Default)]
struct Answer {
    /// Bytes still to come; 0 when none is asked for.
    left: u64,
    /// The last bytes of the last read that may be the start of `data: `.
    partial: u8,
}

#[derive(Debug)]
struct Client {
    request: &'static [u8],
    response_bytes: u64,
    find: Option<Finder<'static>>,
    timestamps: bool,
    answers: Vec<Answer>,
    outcome: Outcome,
}

/// Set in the name of a send; a receive is named by its slot alone.
const SEND: u64 = 1 << 32;

impl Client {
    fn drive(&mut self, queues: &mut Queues<'_>, stop: Stop, start: Nanos) -> io::Result<()> {
        let (mut to_send, deadline) = match stop {
            Stop::Requests(count) => (count, None),
            Stop::After(span) => (u64::MAX, Some(start + span)),
        };
        let mut in_flight = 0_u64;
        for slot in 0..u32::try_from(self.answers.len()).expect("made from a u32") {
            self.arm(queues, slot)?;
            if to_send > 0 {
                self.send(queues, slot)?;
                to_send -= 1;
                in_flight += 1;
            }
        }
        while in_flight > 0 {
            // A passed deadline would end every wait at once: while draining there is none.
            queues.wait(deadline.filter(|_| to_send > 0))?;
            if deadline.is_some_and(|at| to_send > 0 && MonotonicClock.now() >= at) {
                to_send = 0;
            }
            while let Some(completion) = queues.take() {
                let Some(slot) = self.complete(queues, completion)? else {
                    continue;
                };
                self.outcome.requests += 1;
                if to_send > 0 {
                    self.send(queues, slot)?;
                    to_send -= 1;
                } else {
                    in_flight -= 1;
                }
            }
        }
        Ok(())
    }

    /// The slot whose answer is whole by this completion, if it is one's.
    #[inline]
    fn complete(
        &mut self,
        queues: &mut Queues<'_>,
        completion: Completion,
    ) -> io::Result<Option<u32>> {
        if completion.name >= SEND {
            return Err(completion
                .error()
                .unwrap_or_else(|| refused("a short send")));
        }
        let slot = u32::try_from(completion.name).expect("the name of a receive is a slot");
        if !completion.goes_on() {
            self.arm(queues, slot)?;
        }
        let Some(buffer) = completion.buffer() else {
            if completion.result == -libc::ENOBUFS {
                self.outcome.out_of_buffers += 1;
                return Ok(None);
            }
            return Err(completion
                .error()
                .unwrap_or_else(|| refused("the server hung up")));
        };
        let bytes = if self.timestamps {
            let (bytes, stamp) = queues.stamped(buffer, completion.result);
            self.outcome.stamped += u64::from(stamp.is_some());
            bytes
        } else {
            queues.received(buffer, completion.result)
        };
        self.outcome.reads += 1;
        let answer = &mut self.answers[slot as usize];
        let length = bytes.len() as u64;
        if answer.left == self.response_bytes && !is_good_start(bytes) {
            return Err(refused("the status is not 200"));
        }
        if length > answer.left {
            return Err(refused("more bytes than the first answer had"));
        }
        answer.left -= length;
        if let Some(find) = &self.find {
            self.outcome.events += count(find, &mut answer.partial, bytes);
        }
        queues.provide(buffer);
        Ok((answer.left == 0).then_some(slot))
    }

    #[inline]
    fn send(&mut self, queues: &mut Queues<'_>, slot: u32) -> io::Result<()> {
        self.answers[slot as usize] = Answer {
            left: self.response_bytes,
            partial: 0,
        };
        queues.send(slot, self.request, SEND | u64::from(slot), Report::Failure)
    }

    fn arm(&self, queues: &mut Queues<'_>, slot: u32) -> io::Result<()> {
        if self.timestamps {
            queues.receive_stamped(slot, u64::from(slot))
        } else {
            queues.receive(slot, u64::from(slot))
        }
    }
}

/// Whether the first read of an answer starts as one of status 200, as far as it goes.
#[inline]
fn is_good_start(bytes: &[u8]) -> bool {
    let length = bytes.len().min(STATUS.len());
    bytes[..length] == STATUS[..length]
}

/// Counts the events of a stream that comes in pieces. `partial` is how many bytes of `data: ` the
/// piece before ended with; no proper prefix of it occurs in it again, so one number suffices.
#[inline]
fn count(find: &Finder<'_>, partial: &mut u8, bytes: &[u8]) -> u64 {
    let mut events = 0;
    let mut known = usize::from(*partial);
    if known > 0 {
        let rest = &EVENT[known..];
        let length = rest.len().min(bytes.len());
        if bytes[..length] == rest[..length] {
            known += length;
            if known < EVENT.len() {
                *partial = u8::try_from(known).expect("below 6");
                return 0;
            }
            events = 1;
        }
    }
    events += find.find_iter(bytes).count() as u64;
    // The first byte occurs once in the marker, so its last place decides.
    let tail = &bytes[bytes.len().saturating_sub(EVENT.len() - 1)..];
    *partial = match memchr::memrchr(EVENT[0], tail) {
        Some(at) if EVENT.starts_with(&tail[at..]) => u8::try_from(tail.len() - at).expect("1..6"),
        _ => 0,
    };
    events
}

impl Outcome {
    #[expect(clippy::cast_precision_loss, reason = "rates of counts far below 2^53")]
    fn over(mut self, elapsed: Nanos, cpu: Cpu) -> Self {
        let per = |total: u64, count: u64| match count {
            0 => 0.0,
            _ => total as f64 / count as f64,
        };
        let seconds = elapsed.as_secs_f64().max(1e-9);
        (self.user_ns, self.system_ns) = (cpu.user_ns, cpu.system_ns);
        self.elapsed_ns = elapsed.0;
        self.requests_per_s = self.requests as f64 / seconds;
        self.events_per_s = self.events as f64 / seconds;
        self.cpu_ns_per_request = per(cpu.total_ns(), self.requests);
        self.cpu_ns_per_event = per(cpu.total_ns(), self.events);
        self
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn counted(pieces: &[&[u8]]) -> u64 {
        let (find, mut partial) = (Finder::new(EVENT), 0);
        pieces
            .iter()
            .map(|piece| count(&find, &mut partial, piece))
            .sum()
    }

    #[test]
    fn every_split_counts_the_same() {
        let text = b"ddata: a\ndatdata: \ndata:data: b dat";
        let whole = memmem::find_iter(text, EVENT).count() as u64;
        assert_eq!(whole, 3);
        for i in 0..=text.len() {
            let (a, b) = text.split_at(i);
            assert_eq!(counted(&[a, b]), whole, "split at {i}");
        }
        let single: Vec<&[u8]> = text.chunks(1).collect();
        assert_eq!(counted(&single), whole);
    }

    proptest! {
        #[test]
        fn pieces_count_as_the_whole(text in "[dat: x]{0,60}", cuts in prop::collection::vec(0..61_usize, 0..6)) {
            let bytes = text.as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(bytes.len())).collect();
            cuts.sort_unstable();
            let mut pieces = Vec::new();
            let mut from = 0;
            for cut in cuts {
                pieces.push(&bytes[from..cut]);
                from = cut;
            }
            pieces.push(&bytes[from..]);
            prop_assert_eq!(counted(&pieces), memmem::find_iter(bytes, EVENT).count() as u64);
        }
    }

    #[test]
    fn an_answer_is_whole_when_its_framing_says_so() {
        assert!(!is_whole(b"HTTP/1.1 200 OK\r\nContent-Le").unwrap());
        assert!(!is_whole(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab").unwrap());
        assert!(is_whole(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc").unwrap());
        let chunked = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\n";
        assert!(is_whole(chunked).unwrap());
        assert!(!is_whole(&chunked[..chunked.len() - 2]).unwrap());
        assert!(is_whole(b"HTTP/1.1 200 OK\r\n\r\n").is_err());
    }
}
