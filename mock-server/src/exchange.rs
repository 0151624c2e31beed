use std::rc::Rc;

use bytes::Bytes;
use ridgeline_clock::Nanos;

use crate::answer::{Answer, Step, Walk};
use crate::composer::Prebuilt;
use crate::fault::{self, Cue, Ending, Fault, Outline, Part, Script, apply};
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
    /// Bytes with times, and an end of their own.
    Scripted {
        script: Box<Script>,
        /// It is a modelled answer, which takes part in what is modelled.
        runs: bool,
    },
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
    /// What will go wrong, when it has its times.
    pub(crate) fault: Option<Fault>,
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
/// A body up to this size is copied behind its head: for the kernel one part is cheaper than two.
const BODY_BYTES_COPIED_MAX: usize = 2 << 10;
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
        if let Work::Paced(paced) = &mut self.work
            && let Some(fault) = paced.fault
        {
            if paced.times.is_none() {
                return Say::Later(Nanos::MAX);
            }
            let script = apply(&fault, paced.outline(reply, self.arrived, means.running));
            self.work = Work::Scripted {
                script: Box::new(script),
                runs: true,
            };
        }
        match &mut self.work {
            Work::Ready { prebuilt, next } => {
                let mut out = Vec::new();
                if *next == 0 {
                    out = means.buffers.take();
                    let status = (prebuilt.status, prebuilt.allow);
                    let form = (prebuilt.content, prebuilt.framing);
                    head(&mut out, prebuilt.http, status, form, reply);
                }
                let (mut body, load, last) = prebuilt.write(*next);
                if *next == 0 && body.len() <= BODY_BYTES_COPIED_MAX {
                    out.extend_from_slice(&body);
                    body = Bytes::new();
                }
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
            Work::Scripted { script, .. } => play(script, means.now),
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
            fault: None,
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

    /// All of it at once, for a fault to change; without times of its own, when its request
    /// arrived. As many requests run meanwhile as do now.
    pub(crate) fn outline(&mut self, reply: &Reply, arrived: Nanos, running: u32) -> Outline {
        let http = self.voice.http();
        let is_stream = self.answer.stream;
        let mut events = if is_stream {
            self.events(arrived, running)
        } else {
            self.body(arrived)
        };
        let body_bytes = events.iter().map(|event| event.bytes.len()).sum();
        let (content, framing) = match self.framing {
            Some(framing) => (Content::Events, framing),
            None if is_stream => (Content::Events, Framing::Length(body_bytes)),
            None => {
                let mut body = vec![0; body_bytes];
                let framing = http.complete(&mut body, Content::Json, reply.chunks);
                (Content::Json, framing)
            }
        };
        let mut head_due = arrived;
        if self.framing.is_none() {
            // It is sent when it is complete.
            head_due = events.last().map_or(arrived, |event| event.due);
            events.iter_mut().for_each(|event| event.due = head_due);
        }
        let mut bytes = Vec::new();
        head(&mut bytes, http, (200, None), (content, framing), reply);
        Outline {
            arrived,
            head: bytes,
            head_due,
            framing: match framing {
                Framing::Length(_) => fault::Framing::Length,
                Framing::Chunked => fault::Framing::Chunked,
                Framing::Close => fault::Framing::Close,
            },
            events,
            is_stream,
            keep_alive: reply.keep_alive,
            dialect: self.voice.dialect(),
        }
    }

    /// The body of a whole answer, as one event.
    fn body(&self, arrived: Nanos) -> Vec<fault::Event> {
        let mut bytes = Vec::new();
        self.voice
            .complete(&mut bytes, &self.stamp, &self.answer, |_| {});
        vec![fault::Event {
            due: self.times.as_ref().map_or(arrived, |times| times.due),
            bytes,
            part: Part::Content,
            load: Load::whole(&self.answer),
        }]
    }

    /// All events of a stream, with their times.
    fn events(&mut self, arrived: Nanos, running: u32) -> Vec<fault::Event> {
        let (voice, stamp, answer) = (&self.voice, &self.stamp, &self.answer);
        let telling = &mut self.telling;
        let mut greeting = Vec::new();
        voice.greeting(&mut greeting, telling, stamp, answer);
        let mut events = vec![fault::Event {
            due: arrived,
            bytes: greeting,
            part: Part::Open,
            load: Load::default(),
        }];
        while !self.walk.is_over() {
            let due = self.times.as_ref().map_or(arrived, |times| times.due);
            let tokens = self.times.as_mut().map_or(1, |times| times.pace.tokens());
            self.walk.advance(tokens);
            while let Some(step) = self.walk.step(answer) {
                let mut bytes = Vec::new();
                voice.event(&mut bytes, telling, stamp, answer, &step);
                let mut load = Load::default();
                load.add(&step);
                events.push(fault::Event {
                    due,
                    bytes,
                    part: part(&step),
                    load,
                });
            }
            if let Some(times) = &mut self.times {
                times.due += times.pace.gap(running);
            }
        }
        events.retain(|event| !event.bytes.is_empty());
        events
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

/// What a fault takes a step for.
fn part(step: &Step<'_>) -> Part {
    match step {
        Step::Delta { part, .. } if part.is_content() => Part::Content,
        Step::Open { .. } | Step::Delta { .. } => Part::Open,
        Step::Finish { .. } => Part::Finish,
        Step::Usage(_) => Part::Usage,
        Step::Done => Part::Done,
    }
}

/// The next write of a script. Each is a send of its own, however late it is.
fn play(script: &mut Script, now: Nanos) -> Say {
    match script.next(now) {
        Cue::Later(at) => Say::Later(at),
        Cue::End(ending) => Say::Over(ending),
        Cue::Write { write, last } => Say::Send {
            head: Vec::new(),
            body: write.bytes,
            note: Note {
                due: write.due,
                load: write.load,
                last,
            },
        },
    }
}
