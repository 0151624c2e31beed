//! An answer as it would be without a fault, and as a fault leaves it.
use std::collections::VecDeque;

use bytes::Bytes;
use ridgeline_clock::Nanos;

use crate::ledger::Load;
use crate::wording::Dialect;

/// An answer, materialised: what would be sent, and when.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Outline {
    /// When the request was complete.
    pub(crate) arrived: Nanos,
    /// The status line and the header fields, up to and with the blank line.
    pub(crate) head: Vec<u8>,
    /// When the head is due; that of a whole answer, with its body.
    pub(crate) head_due: Nanos,
    pub(crate) framing: Framing,
    /// In the order in which they are sent, with ascending times. A whole answer has one, its body.
    pub(crate) events: Vec<Event>,
    pub(crate) is_stream: bool,
    /// The connection stays open after it.
    pub(crate) keep_alive: bool,
    pub(crate) dialect: Dialect,
}

/// How a body is framed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Framing {
    /// By `Content-Length`.
    Length,
    /// In chunks.
    Chunked,
    /// By the end of the connection.
    Close,
}

/// One event of a stream, or the body of a whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) due: Nanos,
    /// Without HTTP framing.
    pub(crate) bytes: Vec<u8>,
    pub(crate) part: Part,
    pub(crate) load: Load,
}

/// What an event is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Part {
    /// It opens a choice, or the answer.
    Open,
    /// It carries text, reasoning or a tool call.
    Content,
    /// It says why a choice ended.
    Finish,
    /// It carries the usage alone.
    Usage,
    /// `[DONE]`.
    Done,
}

/// What is sent, and when: an answer after a fault.
#[derive(Clone, Debug)]
pub(crate) struct Script {
    /// With ascending times.
    writes: VecDeque<Write>,
    /// Every write is cut into pieces of this many bytes, with this time from one to the next.
    drip: Option<(usize, Nanos)>,
    /// What is said for ever after the last write, with this time from one to the next.
    refrain: Option<(Bytes, Nanos)>,
    ending: Ending,
    /// When the last write was due.
    last_due: Nanos,
}

/// One write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Write {
    pub(crate) due: Nanos,
    pub(crate) bytes: Bytes,
    /// What is complete with it.
    pub(crate) load: Load,
}

/// What happens to the connection after the last write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    /// It is there for the next request.
    KeepAlive,
    /// It is closed in good order.
    Fin,
    /// It is reset, once everything was handed over.
    Reset,
    /// Nothing is ever sent on it again; it stays open until the peer ends it.
    Hang,
}

/// What a script says to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cue {
    /// To write this, now.
    Write {
        write: Write,
        /// Nothing comes after it.
        last: bool,
    },
    /// To come back at this time; [`Nanos::MAX`]: never.
    Later(Nanos),
    /// To end.
    End(Ending),
}

impl Script {
    pub(crate) fn new(writes: impl IntoIterator<Item = Write>, ending: Ending) -> Self {
        let writes: VecDeque<_> = writes
            .into_iter()
            .filter(|write| !write.bytes.is_empty())
            .collect();
        Self {
            writes,
            drip: None,
            refrain: None,
            ending,
            last_due: Nanos::ZERO,
        }
    }

    /// The same, a few bytes at a time. `bytes` must not be 0.
    pub(crate) fn dripping(self, bytes: usize, gap: Nanos) -> Self {
        Self {
            drip: Some((bytes, gap)),
            ..self
        }
    }

    /// The same, and then `refrain` for ever.
    pub(crate) fn with_refrain(self, refrain: Bytes, gap: Nanos) -> Self {
        Self {
            refrain: Some((refrain, gap)),
            ..self
        }
    }

    /// Whether everything but the refrain was said.
    #[cfg(test)]
    pub(crate) fn is_refrain(&self) -> bool {
        self.refrain.is_some() && self.writes.is_empty()
    }

    /// Whether everything was said.
    #[cfg(test)]
    pub(crate) fn is_written(&self) -> bool {
        self.refrain.is_none() && self.writes.is_empty()
    }

    /// What is due at `now`. Ask again after a write.
    pub(crate) fn next(&mut self, now: Nanos) -> Cue {
        let Some(write) = self.writes.front_mut() else {
            return self.after_all(now);
        };
        if write.due > now {
            return Cue::Later(write.due);
        }
        self.last_due = write.due;
        if let Some((bytes, gap)) = self.drip
            && write.bytes.len() > bytes
        {
            let piece = Write {
                due: write.due,
                bytes: write.bytes.split_to(bytes),
                load: Load::default(),
            };
            write.due += gap;
            return Cue::Write {
                write: piece,
                last: false,
            };
        }
        let Some(write) = self.writes.pop_front() else {
            return self.after_all(now);
        };
        if let (Some((_, gap)), Some(next)) = (self.drip, self.writes.front_mut()) {
            next.due = next.due.max(write.due + gap);
        }
        let last = self.writes.is_empty() && self.refrain.is_none();
        Cue::Write { write, last }
    }

    fn after_all(&mut self, now: Nanos) -> Cue {
        match (&self.refrain, self.ending) {
            (Some((refrain, gap)), _) => {
                let due = self.last_due + *gap;
                if due > now {
                    return Cue::Later(due);
                }
                self.last_due = due;
                let write = Write {
                    due,
                    bytes: refrain.clone(),
                    load: Load::default(),
                };
                Cue::Write { write, last: false }
            }
            (None, ending) => Cue::End(ending),
        }
    }
}
