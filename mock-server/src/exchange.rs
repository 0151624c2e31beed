use std::rc::Rc;

use bytes::Bytes;
use ridgeline_clock::Nanos;

use crate::ask::Ask;
use crate::composer::Prebuilt;
use crate::voice::{Framing, Reply, Stamp, Voice, head};

/// One request that is complete, and its answer as far as it is sent.
#[derive(Debug)]
pub(crate) struct Exchange {
    pub(crate) reply: Reply,
    /// The request was not read to its end: what else comes on this connection means nothing.
    pub(crate) broken: bool,
    pub(crate) work: Work,
}

/// What is left to send.
#[derive(Debug)]
pub(crate) enum Work {
    /// Bytes that exist, from write number `next` on.
    Ready { prebuilt: Rc<Prebuilt>, next: usize },
    /// An event stream, token by token, from token `next` on.
    Stream {
        paced: Paced,
        head_sent: bool,
        next: u32,
    },
    /// A whole answer, when its last token is due.
    Whole { paced: Paced },
}

/// A modelled answer.
#[derive(Debug)]
pub(crate) struct Paced {
    pub(crate) voice: Rc<Voice>,
    pub(crate) ask: Ask,
    pub(crate) stamp: Stamp,
    /// When the first token is due.
    pub(crate) first: Nanos,
    /// From one token to the next.
    pub(crate) gap: Nanos,
}

/// What an exchange has to say now.
#[derive(Debug)]
pub(crate) enum Say {
    /// Send these; if `last`, that was all.
    Send {
        head: Vec<u8>,
        body: Bytes,
        tokens: u32,
        last: bool,
    },
    /// Nothing before this time.
    Later(Nanos),
}

/// Buffers that modelled answers and heads are written to. They travel to the driver and back.
#[derive(Debug, Default)]
pub(crate) struct Buffers {
    idle: Vec<Vec<u8>>,
}

/// A buffer that grew beyond this is not kept.
const BUFFER_BYTES_MAX: usize = 64 << 10;
const BUFFER_BYTES_MIN: usize = 1 << 10;
/// Idle buffers that are kept.
const BUFFERS_MAX: usize = 4_096;

impl Buffers {
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.idle
            .pop()
            .unwrap_or_else(|| Vec::with_capacity(BUFFER_BYTES_MIN))
    }

    pub(crate) fn put(&mut self, mut buffer: Vec<u8>) {
        let kept = BUFFER_BYTES_MIN..=BUFFER_BYTES_MAX;
        if kept.contains(&buffer.capacity()) && self.idle.len() < BUFFERS_MAX {
            buffer.clear();
            self.idle.push(buffer);
        }
    }
}

impl Exchange {
    /// The next write: everything that is due at `now`, up to about `write_bytes_max`.
    pub(crate) fn say(&mut self, buffers: &mut Buffers, now: Nanos, write_bytes_max: usize) -> Say {
        let reply = &self.reply;
        match &mut self.work {
            Work::Ready { prebuilt, next } => {
                let mut out = Vec::new();
                if *next == 0 {
                    out = buffers.take();
                    head(
                        &mut out,
                        (prebuilt.status, prebuilt.allow),
                        prebuilt.framing,
                        reply,
                    );
                }
                let (body, last) = prebuilt.write(*next);
                *next += 1;
                let tokens = if last { prebuilt.tokens } else { 0 };
                Say::Send {
                    head: out,
                    body,
                    tokens,
                    last,
                }
            }
            Work::Stream {
                paced,
                head_sent,
                next,
            } => {
                let due = paced.due(*next);
                if *head_sent && due > now {
                    return Say::Later(due);
                }
                let mut out = buffers.take();
                if !std::mem::replace(head_sent, true) {
                    let framing = if reply.chunks {
                        Framing::Chunked
                    } else {
                        Framing::Close
                    };
                    head(&mut out, (200, None), framing, reply);
                }
                let start = *next;
                paced.events(&mut out, reply.chunks, next, now, write_bytes_max);
                let last = *next == paced.ask.tokens;
                Say::Send {
                    head: out,
                    body: Bytes::new(),
                    tokens: *next - start,
                    last,
                }
            }
            Work::Whole { paced } => {
                let due = paced.due(paced.ask.tokens - 1);
                if due > now {
                    return Say::Later(due);
                }
                let out = paced.whole(buffers, reply);
                Say::Send {
                    head: out,
                    body: Bytes::new(),
                    tokens: paced.ask.tokens,
                    last: true,
                }
            }
        }
    }
}

impl Paced {
    fn due(&self, token: u32) -> Nanos {
        self.first + self.gap * u64::from(token)
    }

    fn events(
        &self,
        out: &mut Vec<u8>,
        chunked: bool,
        next: &mut u32,
        now: Nanos,
        write_bytes_max: usize,
    ) {
        let tokens = self.ask.tokens;
        while *next < tokens
            && self.due(*next) <= now
            && (out.is_empty() || out.len() < write_bytes_max)
        {
            if *next == 0 {
                self.voice.opening(out, chunked, &self.stamp);
            }
            self.voice.token(out, chunked, &self.stamp, *next);
            *next += 1;
            if *next == tokens {
                self.voice
                    .closing(out, chunked, &self.stamp, &self.ask, drop);
            }
        }
    }

    fn whole(&self, buffers: &mut Buffers, reply: &Reply) -> Vec<u8> {
        let mut body = buffers.take();
        self.voice.whole(&mut body, &self.stamp, &self.ask);
        let mut out = buffers.take();
        head(&mut out, (200, None), Framing::Length(body.len()), reply);
        out.extend_from_slice(&body);
        buffers.put(body);
        out
    }
}
