//! What was sent, and when: the one place that is told of every write.

use std::sync::Arc;

use ridgeline_clock::{Arrival, Nanos};
use ridgeline_net::Token;

use crate::answer::{Answer, Finish, Step};
use crate::control::Control;
use crate::fault::Kind;
use crate::gauges::{Family, Finished, Gauges};
use crate::id::Id;
use crate::pace::{Lateness, Ticket};
use crate::served::Served;
use crate::truth::{Begun, Ended, Ending, Entry, Recorder, Wrote};
use crate::wording::Dialect;

/// What is in a write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Load {
    pub(crate) tokens: u32,
    /// Events with non-empty text, reasoning or tool-call delta of choice 0, which clients count; 1 for a
    /// whole answer with any.
    pub(crate) content_events: u32,
}

impl Load {
    pub(crate) fn add(&mut self, step: &Step<'_>, dialect: Dialect) {
        if let Step::Delta {
            choice,
            tokens,
            part,
            ..
        } = step
        {
            self.tokens += tokens;
            self.content_events += u32::from(*choice == 0 && dialect.says(part));
        }
    }

    /// Of an answer that is not streamed.
    pub(crate) fn whole(answer: &Answer, dialect: Dialect) -> Self {
        let is_content = answer.tokens() > 0 && dialect.says_of(answer.output(0));
        Self {
            tokens: answer.tokens(),
            content_events: u32::from(is_content),
        }
    }
}

/// One send of an answer, made when it is queued. The driver says when it hands it to the kernel.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Note {
    /// When it should have been sent: the earliest time that anything in it was due.
    pub(crate) due: Nanos,
    pub(crate) load: Load,
    /// Its length; known when it is sent.
    pub(crate) bytes: u32,
    /// The answer's last.
    pub(crate) last: bool,
}

/// One answer, from its request's arrival until its last write is handed over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Account {
    pub(crate) connection: Token,
    /// Which request of its connection: [`crate::pace::Ticket::serial`].
    pub(crate) serial: u64,
    /// The arrival of the request's last byte.
    pub(crate) arrived: Nanos,
    /// When that was taken from the kernel.
    pub(crate) reaped: Nanos,
    /// When it left the queue.
    pub(crate) started: Option<Nanos>,
    pub(crate) request_id: Id,
    pub(crate) dialect: Dialect,
    /// Of the response.
    pub(crate) status: u16,
    /// What was wrong with it on purpose.
    pub(crate) fault: Option<Kind>,
    /// When the write with the first, and the last, token so far was handed over.
    pub(crate) first_token: Option<Nanos>,
    pub(crate) last_token: Option<Nanos>,
    /// What was handed over so far.
    pub(crate) load: Load,
    pub(crate) writes: u32,
    /// What was asked for, if that was understood and is answered.
    pub(crate) order: Option<Order>,
    /// How the fault ends it, if it does more than to stop.
    pub(crate) ending: Option<Ending>,
    /// Its line in the truth file.
    entry: Option<Entry>,
}

/// What of an answer is known beforehand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Order {
    stream: bool,
    prompt_tokens: u32,
    choices: u32,
    /// Of the longest choice.
    tokens_longest: u32,
    /// Of the first choice.
    finish: Finish,
}

impl Order {
    /// Of embeddings: a prompt is read, nothing is generated.
    pub(crate) fn reading(prompt_tokens: u32) -> Self {
        Self {
            stream: false,
            prompt_tokens,
            choices: 0,
            tokens_longest: 0,
            finish: Finish::Stop,
        }
    }

    pub(crate) fn of(answer: &Answer) -> Self {
        Self {
            stream: answer.stream,
            prompt_tokens: answer.prompt_tokens,
            choices: answer.choices(),
            tokens_longest: answer.tokens_longest(),
            finish: answer.output(0).finish,
        }
    }
}

impl Account {
    pub(crate) fn new(ticket: Ticket, arrival: Arrival, request_id: Id, dialect: Dialect) -> Self {
        Self {
            connection: ticket.token,
            serial: ticket.serial,
            arrived: arrival.at,
            reaped: arrival.reaped,
            dialect,
            started: None,
            request_id,
            status: 200,
            fault: None,
            first_token: None,
            last_token: None,
            load: Load::default(),
            writes: 0,
            order: None,
            ending: None,
            entry: None,
        }
    }

    fn add(&mut self, note: &Note, at: Nanos) {
        self.writes += 1;
        self.load.tokens += note.load.tokens;
        self.load.content_events += note.load.content_events;
        if note.load.content_events > 0 {
            self.first_token.get_or_insert(at);
            self.last_token = Some(at);
        }
    }

    /// Writes down that `note` was handed over, and the end of the answer with its last write.
    fn record(&mut self, recorder: &mut Recorder, note: &Note, at: Nanos) {
        let mut entry = self.entry(recorder);
        let wrote = Wrote {
            at,
            due: note.due,
            bytes: note.bytes,
            tokens: note.load.tokens,
            content_events: note.load.content_events,
        };
        recorder.write(&mut entry, &wrote);
        self.entry = Some(entry);
        if note.last {
            self.close(recorder, Ending::Complete);
        }
    }

    /// Writes down how the answer ended.
    fn close(&self, recorder: &mut Recorder, ending: Ending) {
        let ended = Ended {
            started: self.started,
            status: (self.writes > 0).then_some(self.status),
            dialect: self.dialect,
            fault: self.fault,
            ending: self.ending.unwrap_or(ending),
        };
        let entry = self.entry(recorder);
        recorder.end(entry, &ended);
    }

    fn entry(&self, recorder: &mut Recorder) -> Entry {
        let begun = Begun {
            request_id: self.request_id.as_bytes(),
            connection: self.connection,
            arrival: self.arrived,
            reaped: self.reaped,
        };
        self.entry.unwrap_or_else(|| recorder.begin(&begun))
    }
}

/// Counts what a shard does.
#[derive(Debug)]
pub(crate) struct Ledger {
    pub(crate) served: Served,
    pub(crate) lateness: Arc<Lateness>,
    control: Arc<Control>,
    /// Which of the shards.
    pub(crate) number: usize,
    /// Where everything is written down, if it is.
    pub(crate) truth: Option<Recorder>,
    /// The server ends: what is cut off now, it cuts off itself.
    pub(crate) stopping: bool,
}

impl Ledger {
    /// Of shard number `number`. A write is late when it is later than `late_over`.
    pub(crate) fn new(control: Arc<Control>, number: usize, late_over: Nanos) -> Self {
        Self {
            served: Served::default(),
            lateness: Arc::new(Lateness::new(late_over)),
            control,
            number,
            truth: None,
            stopping: false,
        }
    }

    pub(crate) fn number(&self) -> usize {
        self.number
    }

    pub(crate) fn gauges(&self) -> &Gauges {
        self.control.gauges(self.number)
    }

    /// The write of `note` is handed to the kernel `at` (the clock read just before that).
    pub(crate) fn written(&mut self, account: &mut Account, note: &Note, at: Nanos) {
        let before = (account.first_token, account.last_token);
        account.add(note, at);
        self.served.tokens += u64::from(note.load.tokens);
        self.served.answers += u64::from(note.last);
        if let Some(recorder) = &mut self.truth {
            account.record(recorder, note, at);
        }
        // What is due when its request arrives has no time of its own: it is sent at once.
        if note.due > account.arrived {
            let is_late = self.lateness.count(note.due, at);
            let gauges = self.gauges();
            gauges.observe(Family::Lateness, (at - note.due).0, 1);
            gauges.add(Family::LateWrites, is_late.into());
        }
        if let Some(order) = account.order.filter(|order| order.choices == 0) {
            self.prompt_read(account, order, at);
        } else if let Some(order) = account.order {
            self.tokens(account.arrived, before, order, note.load, at);
            if note.last && account.fault.is_none() {
                self.finished(account, order);
            }
        }
    }

    /// Counts an answer to a prompt that was only read.
    fn prompt_read(&self, account: &Account, order: Order, at: Nanos) {
        let (gauges, prompt) = (self.gauges(), order.prompt_tokens.into());
        gauges.add(Family::PromptTokens, prompt);
        gauges.add_by(Family::Success, Finished::Stop as usize);
        gauges.observe(Family::RequestPrompt, prompt, 1);
        gauges.observe(Family::Latency, (at - account.arrived).0, 1);
    }

    /// Counts what is in a write, and the times between tokens. `first` and `last` are the times of
    /// the tokens before it.
    fn tokens(
        &self,
        arrived: Nanos,
        (first, last): (Option<Nanos>, Option<Nanos>),
        order: Order,
        load: Load,
        at: Nanos,
    ) {
        let gauges = self.gauges();
        gauges.add(Family::GenerationTokens, load.tokens.into());
        if load.content_events == 0 {
            return;
        }
        if first.is_none() {
            gauges.add(Family::PromptTokens, order.prompt_tokens.into());
        }
        if !order.stream {
            return;
        }
        let events = u64::from(load.content_events);
        gauges.add(Family::Events, events);
        match last {
            None => gauges.observe(Family::FirstToken, (at - arrived).0, 1),
            Some(last) => gauges.observe(Family::BetweenTokens, (at - last).0, 1),
        }
        // What shares a write has no time between.
        if events > 1 {
            gauges.observe(Family::BetweenTokens, 0, events - 1);
        }
    }

    /// Counts an answer that was sent as a whole, and as it should be.
    fn finished(&self, account: &Account, order: Order) {
        let gauges = self.gauges();
        let reason = match order.finish {
            Finish::Stop | Finish::ToolCalls => Finished::Stop,
            Finish::Length => Finished::Length,
        };
        gauges.add_by(Family::Success, reason as usize);
        for (family, value) in [
            (Family::RequestPrompt, order.prompt_tokens),
            (Family::RequestGeneration, account.load.tokens),
            (Family::RequestGenerationMax, order.tokens_longest),
            (Family::RequestChoices, order.choices),
        ] {
            gauges.observe(family, value.into(), 1);
        }
        if reason == Finished::Length {
            gauges.observe(Family::RequestMaxTokens, order.tokens_longest.into(), 1);
        }
        let started = account.started.unwrap_or(account.arrived);
        let Some((first, last)) = account.first_token.zip(account.last_token) else {
            return;
        };
        gauges.observe(Family::Latency, (last - account.arrived).0, 1);
        gauges.observe(Family::QueueTime, (started - account.arrived).0, 1);
        gauges.observe(Family::InferenceTime, (last - started).0, 1);
        if !order.stream {
            return;
        }
        gauges.observe(Family::PrefillTime, (first - started).0, 1);
        gauges.observe(Family::DecodeTime, (last - first).0, 1);
        // As vLLM has it: the first event's tokens but one count as later ones.
        if account.load.tokens > 1 {
            let per_token = (last - first).0 / u64::from(account.load.tokens - 1);
            gauges.observe(Family::PerToken, per_token, 1);
        }
    }

    /// The connection went away before all of the answer was handed over.
    pub(crate) fn cut(&mut self, account: &Account, _: Nanos) {
        self.served.answers_cut += 1;
        if let Some(recorder) = &mut self.truth {
            let ending = if self.stopping {
                Ending::Stopped
            } else {
                Ending::Peer
            };
            account.close(recorder, ending);
        }
        if account.order.is_some() && account.fault.is_none() {
            self.gauges()
                .add_by(Family::Success, Finished::Abort as usize);
        }
    }
}
