//! What was sent, and when: the one place that is told of every write.

use ridgeline_clock::Nanos;

use crate::answer::{Answer, Step};
use crate::id::Id;
use crate::served::Served;

/// What is in a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) tokens: u32,
    /// Events with non-empty text, reasoning or tool-call delta; 1 for a whole answer with any.
    pub(crate) content_events: u32,
}

impl Load {
    pub(crate) fn add(&mut self, step: &Step<'_>) {
        if let Step::Delta { tokens, part, .. } = step {
            self.tokens += tokens;
            self.content_events += u32::from(part.is_content());
        }
    }

    /// Of an answer that is not streamed.
    pub(crate) fn whole(answer: &Answer) -> Self {
        let tokens = answer.tokens();
        Self {
            tokens,
            content_events: u32::from(tokens > 0),
        }
    }
}

/// One send of an answer, made when it is queued. The driver says when it hands it to the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    /// When it should have been sent: the earliest time that anything in it was due.
    pub(crate) due: Nanos,
    pub(crate) load: Load,
    /// The answer's last.
    pub(crate) last: bool,
}

/// One answer, from its request's arrival until its last write is handed over.
#[derive(Clone, Copy, Debug)]
#[expect(dead_code, reason = "kept for the truth file and the metrics")]
pub(crate) struct Account {
    /// Which request of its connection: [`crate::pace::Ticket::serial`].
    pub(crate) serial: u64,
    /// The arrival of the request's last byte.
    pub(crate) arrived: Nanos,
    /// When it left the queue.
    pub(crate) started: Option<Nanos>,
    pub(crate) request_id: Id,
    /// Of the response.
    pub(crate) status: u16,
    /// When the write with the first, and the last, token so far was handed over.
    pub(crate) first_token: Option<Nanos>,
    pub(crate) last_token: Option<Nanos>,
    /// What was handed over so far.
    pub(crate) load: Load,
    pub(crate) writes: u32,
}

impl Account {
    pub(crate) fn new(serial: u64, arrived: Nanos, request_id: Id) -> Self {
        Self {
            serial,
            arrived,
            started: None,
            request_id,
            status: 200,
            first_token: None,
            last_token: None,
            load: Load::default(),
            writes: 0,
        }
    }

    fn add(&mut self, note: &Note, at: Nanos) {
        self.writes += 1;
        self.load.tokens += note.load.tokens;
        self.load.content_events += note.load.content_events;
        if note.load.tokens > 0 {
            self.first_token.get_or_insert(at);
            self.last_token = Some(at);
        }
    }
}

/// Counts what a shard does.
#[derive(Debug, Default)]
pub(crate) struct Ledger {
    pub(crate) served: Served,
}

impl Ledger {
    /// The write of `note` is handed to the kernel `at` (the clock read just before that).
    pub(crate) fn written(&mut self, account: &mut Account, note: &Note, at: Nanos) {
        account.add(note, at);
        self.served.tokens += u64::from(note.load.tokens);
        self.served.answers += u64::from(note.last);
    }

    /// The connection went away before all of the answer was handed over.
    pub(crate) fn cut(&mut self, _: &Account, _: Nanos) {
        self.served.answers_cut += 1;
    }
}
