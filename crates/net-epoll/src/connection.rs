//! One connection: its socket, its queue of sends, and what is known of its readiness.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::mem;

use bytes::Bytes;
use ridgeline_clock::Nanos;
use ridgeline_net::{Closed, Token};

use crate::socket::Stream;

/// Sends that go out with one `writev`.
const SENDS_MAX: usize = 16;

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) token: Token,
    /// None if it could not even be made.
    pub(crate) stream: Option<Stream>,
    /// The handshake is done.
    pub(crate) up: bool,
    /// Sends not written yet, oldest first.
    pub(crate) queue: VecDeque<Sending>,
    pub(crate) finish: Finish,
    /// Closed by the owner: nothing is received any more.
    pub(crate) deaf: bool,
    /// The owner wants nothing to be read for now.
    pub(crate) paused: bool,
    /// There may be something to read. Edge-triggered: cleared only by a read that says so.
    pub(crate) readable: bool,
    /// There may be room to write. The same.
    pub(crate) writable: bool,
    /// The last event said that a FIN or an error is there: a short read is not the last then.
    pub(crate) ending: bool,
    /// FIN came and was told.
    pub(crate) ended: bool,
    /// Sending failed. What has arrived is still read; then `closed` is told.
    pub(crate) broken: Option<Closed>,
    /// `closed` is to be told.
    pub(crate) dead: Option<Closed>,
    /// Whether the kernel stamps what it receives.
    pub(crate) stamped: bool,
    /// No byte of the next read came before this: the last stamp.
    pub(crate) floor: Nanos,
    /// When the last send was handed over.
    pub(crate) submitted: Nanos,
    /// In the driver's list of connections to look at after the wait.
    pub(crate) in_work: bool,
    /// In the driver's list of connections with something to hand over.
    pub(crate) in_flush: bool,
}

#[derive(Debug)]
pub(crate) struct Sending {
    pub(crate) head: Vec<u8>,
    pub(crate) body: Bytes,
    /// How much is written.
    pub(crate) written: usize,
    pub(crate) submitted: bool,
}

impl Sending {
    fn left(&self) -> usize {
        self.head.len() + self.body.len() - self.written
    }

    /// What is left of head and body. Either may be empty.
    fn parts(&self) -> [&[u8]; 2] {
        let of_head = self.written.min(self.head.len());
        let of_body = self.written - of_head;
        [&self.head[of_head..], &self.body[of_body..]]
    }
}

/// Where a connection is with its FIN.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finish {
    /// None asked for.
    No,
    /// After the queued sends, then receive on.
    Half,
    /// After the queued sends, then gone.
    Full,
    /// Sent.
    Done,
}

impl Connection {
    pub(crate) fn new(token: Token, stream: Stream, up: bool) -> Self {
        Self {
            stream: Some(stream),
            up,
            writable: up,
            ..Self::failed(token, None)
        }
    }

    /// One that is over before it began.
    pub(crate) fn failed(token: Token, cause: Option<Closed>) -> Self {
        Self {
            token,
            stream: None,
            up: false,
            queue: VecDeque::new(),
            finish: Finish::No,
            deaf: false,
            paused: false,
            readable: false,
            writable: false,
            ending: false,
            ended: false,
            broken: None,
            dead: cause,
            stamped: false,
            floor: Nanos::ZERO,
            submitted: Nanos::ZERO,
            in_work: false,
            in_flush: false,
        }
    }

    /// Whether a send, or the FIN after the last one, can be tried.
    pub(crate) fn can_flush(&self) -> bool {
        self.up && self.writable && self.dead.is_none() && self.broken.is_none()
    }

    /// Whether something waits for room to write.
    pub(crate) fn is_unfinished(&self) -> bool {
        !self.queue.is_empty() || matches!(self.finish, Finish::Half | Finish::Full)
    }

    /// Writes as much as goes at `now`; `submitted` is told of each send before its first byte is written,
    /// `done` is given the head of each send that is written. Returns the bytes written.
    pub(crate) fn flush(
        &mut self,
        now: Nanos,
        mut submitted: impl FnMut(),
        mut done: impl FnMut(Vec<u8>),
    ) -> u64 {
        let mut total = 0;
        while self.can_flush() {
            for sending in self.queue.iter_mut().take(SENDS_MAX) {
                if !mem::replace(&mut sending.submitted, true) {
                    self.submitted = now;
                    submitted();
                }
            }
            match self.queue.front() {
                None => break,
                Some(sending) if sending.left() > 0 => {}
                Some(_) => {
                    if let Some(sending) = self.queue.pop_front() {
                        done(sending.head);
                    }
                    continue;
                }
            }
            match self.write() {
                Ok(0) => self.break_off(Closed::PeerReset),
                Ok(count) => {
                    self.advance(count);
                    total += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => self.writable = false,
                Err(error) => self.break_off(Closed::of(&error)),
            }
        }
        total
    }

    fn write(&mut self) -> io::Result<usize> {
        let Some(stream) = &mut self.stream else {
            return Ok(0);
        };
        let mut slices = [IoSlice::new(&[]); 2 * SENDS_MAX];
        let mut count = 0;
        let parts = self.queue.iter().take(SENDS_MAX).flat_map(Sending::parts);
        for part in parts.filter(|part| !part.is_empty()) {
            slices[count] = IoSlice::new(part);
            count += 1;
        }
        stream.write(&slices[..count])
    }

    /// `count` more bytes are written.
    fn advance(&mut self, mut count: usize) {
        for sending in &mut self.queue {
            let of_this = sending.left().min(count);
            sending.written += of_this;
            count -= of_this;
            if count == 0 {
                return;
            }
        }
    }

    /// Sending is over. A peer may have answered before it closed, so reading goes on to its end.
    fn break_off(&mut self, cause: Closed) {
        if self.ended || self.deaf || self.paused {
            self.dead = Some(cause);
        } else {
            self.broken = Some(cause);
            self.readable = true;
            self.ending = true;
        }
    }
}
