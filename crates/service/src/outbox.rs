//! First tokens, results and errors to messages.

use std::collections::VecDeque;
use std::sync::Arc;

use ridgeline_engine::{Answered, Notice, Outcome, Outlet, Record};
use ridgeline_transport::{Flow, Left, PeerId, Receiver, Refused, To, Transport};

use crate::protocol::{Answers, NoticeFrame, ResultFrame, Totals, ended_message, error_message};
use crate::shared::Shared;

/// A message is sent when it is this long, however few results are in it: more would only wait.
const MESSAGE_BYTES: usize = 256 << 10;
/// Notices in one message.
const NOTICES_MAX: u32 = 1024;
/// Bytes of a message around its results.
const AROUND_BYTES: usize = 64;

/// Takes what comes out of the shards, and sends it. It takes no more while a message waits for room.
pub(crate) struct Outbox {
    shared: Arc<Shared>,
    outlets: Vec<Outlet>,
    /// Ready to be sent, in order.
    ready: VecDeque<Vec<u8>>,
    letters: Letters,
    errors: u64,
    /// Messages that the transport did not take at all.
    too_long: u64,
    /// Nobody was there when something was last sent.
    has_no_reader: bool,
}

/// What is being written.
#[derive(Default)]
struct Letters {
    /// Buffers of messages that were sent.
    spare: Vec<Vec<u8>>,
    notices: Option<Answers>,
    results: Option<Answers>,
    sealed: VecDeque<Vec<u8>>,
    /// Bytes that one result may have.
    result_bytes_max: usize,
    /// Whose results are written.
    answered: Vec<u64>,
    totals: Totals,
}

impl Letters {
    fn keep(&mut self, buffer: Vec<u8>) {
        if self.spare.len() < SPARE_MAX && buffer.capacity() <= SPARE_BYTES_MAX {
            self.spare.push(buffer);
        }
    }

    /// Ends what is being written, notices first.
    fn seal(&mut self) {
        let (notices, results) = (self.notices.take(), self.results.take());
        let messages = notices.into_iter().chain(results);
        self.sealed.extend(messages.map(Answers::into_message));
    }
}

impl Answered for Letters {
    fn first_token(&mut self, notice: Notice) {
        let spare = &mut self.spare;
        let notices = self
            .notices
            .get_or_insert_with(|| Answers::notices(spare.pop().unwrap_or_default()));
        notices.notice(&NoticeFrame::from(&notice));
        if notices.count() >= NOTICES_MAX {
            self.seal();
        }
    }

    fn result(&mut self, record: Record) {
        let totals = &mut self.totals;
        totals.queries += 1;
        *match record.outcome {
            Outcome::Ok => &mut totals.ok,
            Outcome::Error(_) => &mut totals.failed,
            Outcome::Cancelled => &mut totals.cancelled,
        } += 1;
        self.answered.push(record.index);
        let result = ResultFrame::from(&record);
        let spare = &mut self.spare;
        let results = self
            .results
            .get_or_insert_with(|| Answers::results(spare.pop().unwrap_or_default()));
        results.result(&result, self.result_bytes_max);
        if results.bytes() >= MESSAGE_BYTES {
            self.seal();
        }
    }
}

/// Buffers of this many messages are kept, each of at most so many bytes.
const SPARE_MAX: usize = 8;
const SPARE_BYTES_MAX: usize = 2 * MESSAGE_BYTES;

impl Outbox {
    pub(crate) fn new(shared: Arc<Shared>, outlets: Vec<Outlet>) -> Self {
        let limits = &shared.limits;
        Self {
            letters: Letters {
                answered: Vec::with_capacity(limits.results_max),
                // Not added to a message of the usual length, one of them still fits.
                result_bytes_max: limits.message_bytes_max - MESSAGE_BYTES - AROUND_BYTES,
                ..Letters::default()
            },
            shared,
            outlets,
            ready: VecDeque::new(),
            errors: 0,
            too_long: 0,
            has_no_reader: false,
        }
    }

    /// Whether something could be collected.
    pub(crate) fn has_more(&self) -> bool {
        self.shared.has_troubles() || self.outlets.iter().any(|outlet| !outlet.is_empty())
    }

    /// Whether nothing is left and nothing will come.
    pub(crate) fn is_over(&self) -> bool {
        // The shards first: they end after the intake, which makes the errors.
        self.outlets.iter().all(Outlet::is_over)
            && self.ready.is_empty()
            && !self.shared.has_troubles()
    }

    /// Whether no message waits to be sent.
    pub(crate) fn has_none_ready(&self) -> bool {
        self.ready.is_empty()
    }

    pub(crate) fn totals(&self) -> Totals {
        Totals {
            errors: self.errors,
            ..self.letters.totals
        }
    }

    /// Makes messages of what is there, unless some wait already.
    pub(crate) fn collect(&mut self) {
        if !self.has_none_ready() {
            return;
        }
        for trouble in self.shared.troubles() {
            self.errors += 1;
            self.ready.push_back(error_message(&trouble));
        }
        let results_max = self.shared.limits.results_max;
        for outlet in &mut self.outlets {
            outlet.take(results_max, &mut self.letters);
            self.letters.seal();
        }
        self.ready.append(&mut self.letters.sealed);
        if !self.letters.answered.is_empty() {
            self.shared.answered(&self.letters.answered);
            self.letters.answered.clear();
        }
    }

    /// Sends what is ready, as far as there is room. Whether all of it was.
    pub(crate) fn send<T: Transport>(&mut self, transport: &mut T) -> bool {
        while let Some(message) = self.ready.pop_front() {
            match transport.send(To::Any, &message) {
                Ok(()) => self.letters.keep(message),
                // By the limits of a service no message is, unless its transport's are lower.
                Err(Refused::TooLong { .. }) => self.too_long += 1,
                Err(refused @ (Refused::Full | Refused::NoPeer | Refused::Gone)) => {
                    self.has_no_reader = refused == Refused::NoPeer;
                    self.ready.push_front(message);
                    return false;
                }
            }
        }
        true
    }

    /// Whether a message waits because nobody is there to take it.
    pub(crate) fn has_no_reader(&self) -> bool {
        self.has_no_reader && !self.ready.is_empty()
    }

    pub(crate) fn too_long(&self) -> u64 {
        self.too_long
    }

    /// The last message.
    pub(crate) fn say_goodbye(&mut self) {
        self.ready.push_back(ended_message(&self.totals()));
    }

    /// Lets go of the messages that are ready: nobody takes them.
    pub(crate) fn give_up(&mut self) -> u64 {
        let count = self.ready.len() as u64;
        self.ready.clear();
        count
    }
}

/// What the peers of the outbox do. They only listen.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    /// Messages that were on their way to a peer that left.
    pub(crate) lost: u64,
}

impl Receiver for Readers {
    fn joined(&mut self, _: PeerId, _: &str) {}

    fn message(&mut self, _: PeerId, _: &[u8]) -> Flow {
        Flow::More
    }

    fn left(&mut self, _: PeerId, left: &Left) {
        self.lost += left.unsent.messages;
    }
}
