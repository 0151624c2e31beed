use std::rc::Rc;

use bytes::Bytes;
use ridgeline_clock::Nanos;

use crate::answer::{Answer, Walk};
use crate::composer::Prebuilt;
use crate::fault::{Ending, Script};
use crate::ledger::{Load, Note};
use crate::pace::{Pace, Started};
use crate::wording::{Content, Framing, Reply, Stamp, Telling, Voice, head};

/// One request that is complete, and its answer as far as it is sent.
#[derive(Debug)]
pub(crate) struct Exchange {
    /// Which request of its connection.
    pub(crate) serial: u64,
    pub(crate) reply: Reply,
    /// The request was not read to its end: what else comes on this connection means nothing.
    pub(crate) broken: bool,
    /// When the request was complete.
    pub(crate) arrived: Nanos,
    pub(crate) work: Work,
}

/// What is left to send.
#[derive(Debug)]
pub(crate) enum Work {
    /// Bytes that exist, from write number `next` on.
    Ready { prebuilt: Rc<Prebuilt>, next: usize },
    /// A modelled answer.
    Paced(Box<Paced>),
    /// Bytes with times, from write number `next` on, and an end of their own.
    #[expect(dead_code, reason = "faults make scripts")]
    Scripted { script: Box<Script>, next: usize },
}

/// A modelled answer.
#[derive(Debug)]
pub(crate) struct Paced {
    pub(crate) voice: Rc<Voice>,
    pub(crate) answer: Answer,
    pub(crate) stamp: Stamp,
    /// Of a stream that is sent as it comes; none of what is sent when it is complete.
    framing: Option<Framing>,
    walk: Walk,
    telling: Telling,
    head_sent: bool,
    /// Nothing while it waits for its turn.
    times: Option<Times>,
}

#[derive(Debug)]
struct Times {
    /// When the next round is due; of a whole answer, its last.
    due: Nanos,
    pace: Pace,
}

/// What an exchange has to say now.
#[derive(Debug)]
pub(crate) enum Say {
    /// Send these.
    Send {
        head: Vec<u8>,
        body: Bytes,
        note: Note,
    },
    /// Nothing before this time; [`Nanos::MAX`]: until something else happens.
    Later(Nanos),
    /// All was sent.
    Over(Ending),
}

/// What an exchange may use to say it.
#[derive(Debug)]
pub(crate) struct Means<'a> {
    pub(crate) buffers: &'a mut Buffers,
    pub(crate) now: Nanos,
    /// Events that are due together share one write up to this size.
    pub(crate) write_bytes_max: usize,
    /// Requests that run on this shard's replica.
    pub(crate) running: u32,
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
    /// The next write: everything that is due now, up to about `write_bytes_max`.
    pub(crate) fn say(&mut self, means: &mut Means<'_>) -> Say {
        let reply = &self.reply;
        match &mut self.work {
            Work::Ready { prebuilt, next } => {
                let mut out = Vec::new();
                if *next == 0 {
                    out = means.buffers.take();
                    let status = (prebuilt.status, prebuilt.allow);
                    let form = (prebuilt.content, prebuilt.framing);
                    head(&mut out, prebuilt.http, status, form, reply);
                }
                let (body, load, last) = prebuilt.write(*next);
                *next += 1;
                let note = Note {
                    due: self.arrived,
                    load,
                    last,
                };
                Say::Send {
                    head: out,
                    body,
                    note,
                }
            }
            Work::Paced(paced) => match paced.framing {
                Some(framing) => paced.stream(means, reply, self.arrived, framing),
                None => paced.whole(means, reply),
            },
            Work::Scripted { script, next } => play(script, next, means),
        }
    }

    /// The answer's turn has come.
    pub(crate) fn start(&mut self, started: Started, running: u32) {
        if let Work::Paced(paced) = &mut self.work {
            paced.start(started, running);
        }
    }
}

impl Paced {
    /// `chunks`: whether the peer takes them.
    pub(crate) fn new(voice: Rc<Voice>, answer: Answer, stamp: Stamp, chunks: bool) -> Self {
        let framing = voice.http().stream_framing(chunks);
        Self {
            voice,
            framing: framing.filter(|_| answer.stream),
            answer,
            stamp,
            walk: Walk::new(),
            telling: Telling::default(),
            head_sent: false,
            times: None,
        }
    }

    /// Gives it its times, while `running` requests run. Those of a whole answer are gone through
    /// at once: only the last counts.
    pub(crate) fn start(&mut self, started: Started, running: u32) {
        self.answer.cached_tokens = started.cached_tokens;
        let (mut due, mut pace) = (started.first, started.pace);
        if self.framing.is_none() {
            let tokens = self.answer.tokens_longest();
            let mut said = pace.tokens();
            while said < tokens {
                due += pace.gap(running);
                said = said.saturating_add(pace.tokens());
            }
        }
        self.times = Some(Times { due, pace });
    }

    fn due(&self) -> Nanos {
        self.times.as_ref().map_or(Nanos::MAX, |times| times.due)
    }

    fn stream(
        &mut self,
        means: &mut Means<'_>,
        reply: &Reply,
        arrived: Nanos,
        framing: Framing,
    ) -> Say {
        let mut note = Note {
            due: self.due(),
            load: Load::default(),
            last: false,
        };
        if self.head_sent && note.due > means.now {
            return Say::Later(note.due);
        }
        let http = self.voice.http();
        let telling = &mut self.telling;
        let mut out = means.buffers.take();
        let mut start = 0;
        if !std::mem::replace(&mut self.head_sent, true) {
            note.due = arrived;
            let form = (Content::Events, framing);
            head(&mut out, http, (200, None), form, reply);
            start = out.len();
            http.event(&mut out, framing, telling, |out, telling| {
                self.voice.greeting(out, telling, &self.stamp, &self.answer);
            });
        }
        while !self.walk.is_over()
            && let Some(times) = &mut self.times
            && times.due <= means.now
            && (out.is_empty() || out.len() < means.write_bytes_max)
        {
            self.walk.advance(times.pace.tokens());
            while let Some(step) = self.walk.step(&self.answer) {
                note.load.add(&step);
                http.event(&mut out, framing, telling, |out, telling| {
                    self.voice
                        .event(out, telling, &self.stamp, &self.answer, &step);
                });
            }
            times.due += times.pace.gap(means.running);
        }
        http.write(&mut out, framing, telling, start);
        if self.walk.is_over() {
            note.last = true;
            http.end(&mut out, framing);
        }
        Say::Send {
            head: out,
            body: Bytes::new(),
            note,
        }
    }

    fn whole(&mut self, means: &mut Means<'_>, reply: &Reply) -> Say {
        let due = self.due();
        if due > means.now {
            return Say::Later(due);
        }
        let mut body = means.buffers.take();
        let content = self
            .voice
            .complete(&mut body, &self.stamp, &self.answer, |_| {});
        let http = self.voice.http();
        let framing = http.complete(&mut body, content, reply.chunks);
        let mut out = means.buffers.take();
        head(&mut out, http, (200, None), (content, framing), reply);
        out.extend_from_slice(&body);
        means.buffers.put(body);
        Say::Send {
            head: out,
            body: Bytes::new(),
            note: Note {
                due,
                load: Load::whole(&self.answer),
                last: true,
            },
        }
    }
}

/// The next write of a script. Each is a send of its own, however late it is.
fn play(script: &mut Script, next: &mut usize, means: &Means<'_>) -> Say {
    let last = *next + 1 == script.writes.len();
    let Some(write) = script.writes.get_mut(*next) else {
        return if script.ending == Ending::Hang || script.ends > means.now {
            let hangs = script.ending == Ending::Hang;
            Say::Later(if hangs { Nanos::MAX } else { script.ends })
        } else {
            Say::Over(script.ending)
        };
    };
    if write.at > means.now {
        return Say::Later(write.at);
    }
    *next += 1;
    Say::Send {
        head: std::mem::take(&mut write.bytes),
        body: Bytes::new(),
        note: Note {
            due: write.at,
            load: write.load,
            last,
        },
    }
}
