use std::num::NonZeroU32;
use std::rc::Rc;

use bytes::Bytes;
use ridgeline_clock::Nanos;

use crate::answer::{Answer, Step, Walk};
use crate::composer::Prebuilt;
use crate::fault::{self, Cue, Ending, Fault, Outline, Part, Script, apply};
use crate::ledger::{Load, Note};
use crate::pace::{Next, Packing, Rounds, Started};
use crate::refusal::Advice;
use crate::replay::Recording;
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
    /// Bytes that exist, from write number `next` on, not before `due`.
    Ready {
        prebuilt: Rc<Prebuilt>,
        next: usize,
        due: Nanos,
        /// The replica knows of it.
        seated: bool,
    },
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
    rounds: Option<Rounds>,
    /// What rounds brought whose words their dialect says later.
    held_back: Load,
    /// What is left of a write that is cut into several.
    pieces: Option<Pieces>,
    /// What will go wrong, when it has its times.
    pub(crate) fault: Option<Fault>,
    /// What it repeats, until it has its times.
    pub(crate) recording: Option<Recording>,
}

/// A write that leaves in pieces.
#[derive(Debug)]
struct Pieces {
    bytes: Vec<u8>,
    /// How many of the bytes, and in how many of the pieces, left already.
    sent_bytes: usize,
    sent: usize,
    /// Of the write: what it brings is there with the last piece.
    note: Note,
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
    /// Model mode: how events and writes go together.
    pub(crate) packing: Packing,
    /// Sequences that run on this shard's replica.
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
            if paced.rounds.is_none() {
                return Say::Later(Nanos::MAX);
            }
            let script = apply(&fault, paced.outline(reply, self.arrived, means.running));
            self.work = Work::Scripted {
                script: Box::new(script),
                runs: true,
            };
        }
        match &mut self.work {
            Work::Ready { due, .. } if *due > means.now => Say::Later(*due),
            Work::Ready {
                prebuilt,
                next,
                due,
                ..
            } => {
                let mut out = Vec::new();
                if *next == 0 {
                    out = means.buffers.take();
                    let status = (prebuilt.status, prebuilt.advice);
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
                    due: *due,
                    load,
                    bytes: 0,
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
    pub(crate) fn start(&mut self, started: Started) {
        match &mut self.work {
            Work::Paced(paced) => paced.start(started),
            Work::Ready { due, .. } => *due = started.first,
            Work::Scripted { .. } => {}
        }
    }

    /// When it needs nothing of the replica any more: at `now`, or when its last token was due.
    pub(crate) fn over(&self, now: Nanos) -> Nanos {
        match &self.work {
            Work::Paced(paced) => paced.over().map_or(now, |at| at.min(now)),
            _ => now,
        }
    }

    /// Whether the replica knows of it.
    pub(crate) fn is_seated(&self) -> bool {
        match self.work {
            Work::Paced(_) => true,
            Work::Ready { seated, .. } => seated,
            Work::Scripted { runs, .. } => runs,
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
            rounds: None,
            held_back: Load::default(),
            pieces: None,
            fault: None,
            recording: None,
        }
    }

    /// Gives it its times.
    pub(crate) fn start(&mut self, started: Started) {
        let started = match self.recording.take() {
            Some(recording) => recording.start(started, self.answer.stream),
            None => started,
        };
        self.answer.cached_tokens = started.cached_tokens;
        self.rounds = Some(Rounds::new(started, self.answer.tokens_longest()));
    }

    /// When the last token was due, if it is said.
    fn over(&self) -> Option<Nanos> {
        let said = self.walk.is_over() || self.framing.is_none();
        self.rounds.as_ref().filter(|_| said).map(Rounds::last_due)
    }

    fn stream(
        &mut self,
        means: &mut Means<'_>,
        reply: &Reply,
        arrived: Nanos,
        framing: Framing,
    ) -> Say {
        if let Some(piece) = self.piece(means) {
            return piece;
        }
        let http = self.voice.http();
        let mut note = Note {
            due: arrived,
            load: std::mem::take(&mut self.held_back),
            bytes: 0,
            last: false,
        };
        let mut out = means.buffers.take();
        let mut start = 0;
        let head_first = !std::mem::replace(&mut self.head_sent, true);
        if head_first {
            let form = (Content::Events, framing);
            head(&mut out, http, (200, Advice::default()), form, reply);
            start = out.len();
            http.event(&mut out, framing, &mut self.telling, |out, telling| {
                self.voice.greeting(out, telling, &self.stamp, &self.answer);
            });
        }
        let later = self.rounds(&mut out, means, framing, &mut note);
        if out.is_empty() && !self.walk.is_over() {
            self.held_back = note.load;
            means.buffers.put(out);
            return Say::Later(later);
        }
        if head_first {
            note.due = arrived;
        }
        http.write(&mut out, framing, &mut self.telling, start);
        if self.walk.is_over() {
            note.last = true;
            http.end(&mut out, framing);
        }
        if means.packing.writes_per_event > NonZeroU32::MIN && note.load.tokens > 0 {
            self.pieces = Some(Pieces {
                bytes: std::mem::take(&mut out),
                sent_bytes: 0,
                sent: 0,
                note,
            });
        }
        self.piece(means).unwrap_or(Say::Send {
            head: out,
            body: Bytes::new(),
            note,
        })
    }

    /// The next piece of a write that is cut.
    fn piece(&mut self, means: &mut Means<'_>) -> Option<Say> {
        let (say, left) = self.pieces.as_mut()?.next(means);
        if !left && let Some(pieces) = self.pieces.take() {
            means.buffers.put(pieces.bytes);
        }
        Some(say)
    }

    /// Says the rounds that are due now: those of one write where it is cut into pieces, else up to
    /// about `write_bytes_max`. Returns when to go on.
    fn rounds(
        &mut self,
        out: &mut Vec<u8>,
        means: &Means<'_>,
        framing: Framing,
        note: &mut Note,
    ) -> Nanos {
        let Some(rounds) = &mut self.rounds else {
            return Nanos::MAX;
        };
        let Packing {
            events_per_write,
            writes_per_event,
        } = means.packing;
        let http = self.voice.http();
        let mut said = false;
        while !self.walk.is_over()
            && (out.is_empty() || out.len() < means.write_bytes_max)
            && (!said || out.is_empty() || writes_per_event == NonZeroU32::MIN)
        {
            let due = match rounds.next(events_per_write, means.now, means.running) {
                Next::Due(due) if due <= means.now => due,
                Next::Due(at) | Next::Ask(at) => return at,
            };
            if !std::mem::replace(&mut said, true) {
                note.due = due;
            }
            for tokens in rounds.take() {
                self.walk.advance(tokens);
                while let Some(step) = self.walk.step(&self.answer) {
                    note.load.add(&step, self.voice.dialect());
                    http.event(out, framing, &mut self.telling, |out, telling| {
                        self.voice
                            .event(out, telling, &self.stamp, &self.answer, &step);
                    });
                }
            }
        }
        means.now
    }

    /// All of it at once, for a fault to change; without times of its own, when its request
    /// arrived. As many requests run meanwhile as do now.
    pub(crate) fn outline(&mut self, reply: &Reply, arrived: Nanos, running: u32) -> Outline {
        let http = self.voice.http();
        let is_stream = self.answer.stream;
        let mut events = if is_stream {
            self.events(arrived, running)
        } else {
            self.body(arrived, running)
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
        let form = (content, framing);
        head(&mut bytes, http, (200, Advice::default()), form, reply);
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
    fn body(&mut self, arrived: Nanos, running: u32) -> Vec<fault::Event> {
        let due = match &mut self.rounds {
            Some(rounds) => rounds.end_at_once(running),
            None => arrived,
        };
        let mut bytes = Vec::new();
        self.voice
            .complete(&mut bytes, &self.stamp, &self.answer, |_| {});
        vec![fault::Event {
            due,
            bytes,
            part: Part::Content,
            load: Load::whole(&self.answer, self.voice.dialect()),
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
            let (due, tokens) = match &mut self.rounds {
                Some(rounds) => rounds.next_at_once(running),
                None => (arrived, 1),
            };
            self.walk.advance(tokens);
            while let Some(step) = self.walk.step(answer) {
                let mut bytes = Vec::new();
                voice.event(&mut bytes, telling, stamp, answer, &step);
                let mut load = Load::default();
                load.add(&step, voice.dialect());
                events.push(fault::Event {
                    due,
                    bytes,
                    part: part(&step),
                    load,
                });
            }
        }
        events.retain(|event| !event.bytes.is_empty());
        events
    }

    fn whole(&mut self, means: &mut Means<'_>, reply: &Reply) -> Say {
        let Some(rounds) = &mut self.rounds else {
            return Say::Later(Nanos::MAX);
        };
        let due = match rounds.end(means.now, means.running) {
            Next::Due(due) if due <= means.now => due,
            Next::Due(at) | Next::Ask(at) => return Say::Later(at),
        };
        let mut body = means.buffers.take();
        let mut load = Load::default();
        let dialect = self.voice.dialect();
        let content = self
            .voice
            .complete(&mut body, &self.stamp, &self.answer, |step| {
                load.add(step, dialect)
            });
        if content == Content::Json {
            load = Load::whole(&self.answer, dialect);
        }
        let http = self.voice.http();
        let framing = http.complete(&mut body, content, reply.chunks);
        let mut out = means.buffers.take();
        let form = (content, framing);
        head(&mut out, http, (200, Advice::default()), form, reply);
        out.extend_from_slice(&body);
        means.buffers.put(body);
        Say::Send {
            head: out,
            body: Bytes::new(),
            note: Note {
                due,
                load,
                bytes: 0,
                last: true,
            },
        }
    }
}

impl Pieces {
    /// The next piece, and whether others are left. They are of the same length, give or take a
    /// byte, and none is empty.
    fn next(&mut self, means: &mut Means<'_>) -> (Say, bool) {
        let all = self.bytes.len();
        let pieces = all.min(means.packing.writes_per_event.get() as usize);
        self.sent += 1;
        let end = if self.sent < pieces {
            all * self.sent / pieces
        } else {
            all
        };
        let mut head = means.buffers.take();
        head.extend_from_slice(&self.bytes[self.sent_bytes..end]);
        self.sent_bytes = end;
        let left = end < all;
        let note = if left {
            Note {
                due: self.note.due,
                load: Load::default(),
                bytes: 0,
                last: false,
            }
        } else {
            self.note
        };
        let say = Say::Send {
            head,
            body: Bytes::new(),
            note,
        };
        (say, left)
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
                bytes: 0,
                last,
            },
        },
    }
}
