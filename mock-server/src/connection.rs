mod secure;

use std::collections::VecDeque;
use std::rc::Rc;
use std::sync::Arc;

use bytes::Bytes;
use ridgeline_clock::{Arrival, Nanos};
use ridgeline_net::{Close, Commands, Token};
use ridgeline_tls as tls;
use ridgeline_wire::carry::{Carry, CarryPool};
use ridgeline_wire::http1::{RequestDecoder, RequestHead, RequestPart};
use serde_json::Value;

use crate::answer::Endpoint;
use crate::composer::{Composer, Meaning, Prebuilt, Question};
use crate::config::{ApiKey, Limits};
use crate::control::Control;
use crate::exchange::{Buffers, Exchange, Means, Paced, Say, Work};
use crate::fault::{Chooser, Ending, Fault, FaultError, Wish, apply};
use crate::id::Id;
use crate::ledger::{Account, Ledger, Note, Order};
use crate::pace::{Admission, Packing, Replica, Started, Startup, Ticket, Want};
use crate::refusal::Refusal;
use crate::repeat::Repeat;
use crate::replay::{Recording, Replayer};
use crate::route::{Route, model_named};
use crate::timers::Timers;
use crate::truth;
use crate::wording::{Dialect, Reply, UnknownDialect};

/// What the connections of a shard share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) limits: Limits,
    pub(crate) api_key: Option<ApiKey>,
    pub(crate) composer: Composer,
    pub(crate) pool: CarryPool,
    pub(crate) timers: Timers,
    pub(crate) buffers: Buffers,
    pub(crate) repeat: Repeat,
    /// Answers are sent at once.
    pub(crate) is_instant: bool,
    /// What is modelled; it stays when the mode changes, for what is under way.
    pub(crate) replica: Option<Replica>,
    pub(crate) packing: Packing,
    pub(crate) startup: Startup,
    pub(crate) ledger: Ledger,
    pub(crate) chooser: Chooser,
    /// What is replayed in place of what is modelled.
    pub(crate) replayer: Option<Replayer>,
    pub(crate) control: Arc<Control>,
    /// The version of the config that is in use.
    pub(crate) version: u64,
    /// Nothing new is taken.
    pub(crate) is_draining: bool,
    /// Connections that are open.
    pub(crate) open: u64,
    /// What secures connections, where they are secured.
    pub(crate) tls: Option<tls::Server>,
    /// Where TLS is read.
    pub(crate) scratch: tls::Scratch,
}

/// One peer: the request it is sending, and the answers it is owed.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) token: Token,
    phase: Phase,
    decoder: RequestDecoder,
    carry: Carry,
    /// The request whose head was read, and whose end was not.
    reading: Option<Reading>,
    /// Its body, as far as it came in earlier reads.
    body: Vec<u8>,
    memo: Option<Memo>,
    /// Oldest first: the answer to the first is being sent, the others wait.
    /// INVARIANT: `exchanges.len() <= pipelined_max`.
    exchanges: VecDeque<Exchange>,
    /// Of the exchanges, and before them of answers whose last writes the driver still holds.
    accounts: VecDeque<Account>,
    /// Of the sends that the driver has not handed over yet, oldest first; `None`: of no answer.
    notes: VecDeque<Option<Note>>,
    /// Requests so far, over all uses of the slot.
    serial: u64,
    /// Sends that the driver still owns, and the bytes of their heads.
    sends: u32,
    queued_bytes: usize,
    /// The peer sends nothing more.
    ended: bool,
    /// What it goes through, if it goes through TLS.
    session: Option<Box<tls::Session>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// The slot is not in use.
    Free,
    Open,
    /// The last request that is read was read; its answer may be under way.
    Deaf,
    /// The last answer is sent, and so is our FIN; the peer may still be sending.
    Lingering,
    /// Nothing more is said; a reset follows the last send.
    Resetting,
    /// Closed; the driver has not said so yet.
    Closing,
}

/// What the head of a request says.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    route: Route,
    /// The model that its path names.
    model: Option<Box<str>>,
    pub(crate) reply: Reply,
    /// The one that the request names.
    dialect: Option<Result<Dialect, UnknownDialect>>,
    /// What it says about faults, if it does.
    wish: Option<Box<Result<Wish, FaultError>>>,
    /// It has the key, or needs none.
    authorized: bool,
    /// The peer waits for `100 Continue` before it sends the body.
    awaits_continue: bool,
}

impl Reading {
    /// Whether the same head says the same again on any connection, and the next request follows its
    /// body.
    pub(crate) fn is_plain(&self) -> bool {
        self.reply.keep_alive
            && self.wish.is_none()
            && self.model.is_none()
            && !self.awaits_continue
    }

    pub(crate) fn new(head: &RequestHead<'_>, api_key: Option<&ApiKey>) -> Self {
        let route = Route::of(head.method, head.target);
        let (mut request_id, mut dialect) = (None, None);
        let mut authorization = None;
        let (mut mock_fault, mut return_error) = (None, None);
        // One pass, and few comparisons: this is on the path of every request.
        for (name, value) in head.fields() {
            let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
            match name.len() {
                12 if is(b"x-request-id") => request_id = request_id.or(Some(value)),
                13 if is(b"authorization") => authorization = authorization.or(Some(value)),
                12 if is(b"x-mock-fault") => mock_fault = mock_fault.or(Some(value)),
                14 if is(b"x-mock-dialect") => dialect = dialect.or(Some(value)),
                14 if is(b"x-return-error") => return_error = return_error.or(Some(value)),
                _ => {}
            }
        }
        let wish = mock_fault
            .or(return_error)
            .map(|_| Box::new(Wish::parse(mock_fault, return_error)));
        let request_id = request_id.and_then(Id::new).unwrap_or(Id::EMPTY);
        Self {
            wish,
            route,
            model: (route == Route::Model).then(|| model_named(head.target)),
            authorized: !route.needs_key() || api_key.is_none_or(|key| bears(authorization, key)),
            reply: Reply {
                request_id,
                keep_alive: head.keep_alive,
                chunks: !head.http10,
            },
            dialect: dialect.map(Dialect::named),
            awaits_continue: head.expect_continue,
        }
    }
}

/// The body read last and what it means, for peers that repeat themselves.
#[derive(Debug)]
struct Memo {
    endpoint: Endpoint,
    dialect: Option<Dialect>,
    body: Vec<u8>,
    meaning: Meaning,
    /// The config under which it means that.
    version: u64,
}

/// When whoever asks a server that is ending may try again: by then there may be another one.
const DRAIN_RETRY_AFTER_S: u64 = 1;
/// A longer body is not remembered, and its buffer not kept.
const MEMO_BYTES_MAX: usize = 64 << 10;

impl Connection {
    /// A slot that is not in use yet.
    pub(crate) fn new(index: u32, limits: &Limits) -> Self {
        Self {
            token: Token {
                index,
                generation: 0,
            },
            phase: Phase::Free,
            decoder: decoder(limits),
            // Few heads come in pieces: those borrow from the shard's pool.
            carry: Carry::new(0),
            reading: None,
            body: Vec::new(),
            memo: None,
            exchanges: VecDeque::new(),
            accounts: VecDeque::new(),
            notes: VecDeque::new(),
            serial: 0,
            sends: 0,
            queued_bytes: 0,
            ended: false,
            session: None,
        }
    }

    /// Takes the slot into use, under a new name.
    pub(crate) fn accept(&mut self) -> Token {
        self.token.generation = self.token.generation.wrapping_add(1);
        self.phase = Phase::Open;
        self.token
    }

    /// Gives the slot back.
    pub(crate) fn release(&mut self, shared: &mut Shared, now: Nanos) {
        shared.timers.cancel(self.token.index);
        while let Some(exchange) = self.exchanges.pop_front() {
            self.leave(shared, &exchange, now);
        }
        for account in self.accounts.drain(..) {
            shared.ledger.cut(&account, now);
        }
        self.notes.clear();
        self.carry.clear(&mut shared.pool);
        self.decoder = decoder(&shared.limits);
        self.reading = None;
        self.body.clear();
        self.body.shrink_to(MEMO_BYTES_MAX);
        self.sends = 0;
        self.queued_bytes = 0;
        self.ended = false;
        self.session = None;
        self.phase = Phase::Free;
    }

    pub(crate) fn is_free(&self) -> bool {
        self.phase == Phase::Free
    }

    /// Answers that are owed.
    pub(crate) fn owed(&self) -> u64 {
        match self.phase {
            Phase::Free | Phase::Closing => 0,
            _ => self.exchanges.len() as u64,
        }
    }

    /// Closes it if nothing was begun. Else it is closed when all is answered.
    pub(crate) fn drain(&mut self, commands: &mut Commands) {
        let is_idle = self.exchanges.is_empty() && self.reading.is_none();
        if is_idle && matches!(self.phase, Phase::Open | Phase::Deaf) {
            self.hang_up(commands);
        }
    }

    /// Ends the connection now, whatever is owed; what is queued is still sent.
    pub(crate) fn hang_up(&mut self, commands: &mut Commands) {
        if !matches!(self.phase, Phase::Free | Phase::Closing) {
            self.say_goodbye(commands);
            commands.close(self.token, Close::Fin);
            self.phase = Phase::Closing;
        }
    }

    pub(crate) fn received(
        &mut self,
        shared: &mut Shared,
        commands: &mut Commands,
        bytes: &[u8],
        arrival: Arrival,
    ) {
        if self.phase == Phase::Open
            && self.reading.is_none()
            && self.decoder.idle()
            && let Some((reading, body)) = shared.repeat.recall(bytes)
        {
            self.begin(shared, reading);
            self.complete(shared, body, arrival);
            self.pump(shared, commands, arrival.reaped);
            return;
        }
        let mut input = bytes;
        // The body, where it came in one piece: it is not copied.
        let mut whole: &[u8] = &[];
        while self.phase == Phase::Open {
            let before = input;
            let is_start = self.decoder.idle();
            match self
                .decoder
                .next(&mut input, &mut self.carry, &mut shared.pool)
            {
                Ok(None) => break,
                Ok(Some(RequestPart::Head(head))) => {
                    let reading = Reading::new(&head, shared.api_key.as_ref());
                    if is_start {
                        let read = &before[..before.len() - input.len()];
                        shared.repeat.remember(read, &head, &reading);
                    }
                    self.begin(shared, reading);
                }
                Ok(Some(RequestPart::Data(data))) => {
                    let read = before.len() - input.len();
                    if data.len() == read && self.body.is_empty() && whole.is_empty() {
                        whole = &before[..read];
                    } else {
                        self.body.extend_from_slice(std::mem::take(&mut whole));
                        self.body.extend_from_slice(data);
                    }
                }
                Ok(Some(RequestPart::End)) => {
                    self.complete(shared, std::mem::take(&mut whole), arrival);
                }
                Err(error) => {
                    let refusal = Refusal::request(error.status, error.reason);
                    self.refuse(shared, &refusal, arrival);
                }
            }
        }
        self.body.extend_from_slice(whole);
        if let Some(reading) = &mut self.reading {
            // Whoever sends the body does not wait.
            reading.awaits_continue &= self.body.is_empty();
        }
        self.pump(shared, commands, arrival.reaped);
    }

    pub(crate) fn ended(&mut self, shared: &mut Shared, commands: &mut Commands, now: Nanos) {
        self.ended = true;
        if self.phase == Phase::Lingering {
            self.hang_up(commands);
        }
        self.pump(shared, commands, now);
    }

    /// The driver hands the oldest send over `at`.
    pub(crate) fn submitted(&mut self, shared: &mut Shared, at: Nanos) {
        let Some(Some(note)) = self.notes.pop_front() else {
            return;
        };
        if let Some(account) = self.accounts.front_mut() {
            shared.ledger.written(account, &note, at);
            if note.last {
                self.accounts.pop_front();
            }
        }
    }

    /// The driver is done with a send whose head had `head_bytes`.
    pub(crate) fn sent(
        &mut self,
        shared: &mut Shared,
        commands: &mut Commands,
        head_bytes: usize,
        now: Nanos,
    ) {
        let held_back = !self.may_send(&shared.limits);
        self.sends = self.sends.saturating_sub(1);
        self.queued_bytes = self.queued_bytes.saturating_sub(head_bytes);
        if self.phase == Phase::Resetting && self.sends == 0 {
            commands.close(self.token, Close::Reset);
            self.phase = Phase::Closing;
        }
        if held_back {
            self.pump(shared, commands, now);
        }
    }

    /// The deadline of this slot has come.
    pub(crate) fn due(&mut self, shared: &mut Shared, commands: &mut Commands, now: Nanos) {
        if self.phase == Phase::Lingering {
            commands.close(self.token, Close::Reset);
            self.phase = Phase::Closing;
        } else {
            self.pump(shared, commands, now);
        }
    }

    /// The turn of request `serial` has come.
    pub(crate) fn start(
        &mut self,
        shared: &mut Shared,
        commands: &mut Commands,
        (serial, started): (u64, Started),
        now: Nanos,
    ) {
        let account = self.accounts.iter_mut().find(|a| a.serial == serial);
        if let Some(account) = account {
            account.started = Some(started.at);
        }
        let exchange = self.exchanges.iter_mut().find(|e| e.serial == serial);
        if let Some(exchange) = exchange {
            exchange.start(started);
        }
        self.pump(shared, commands, now);
    }

    fn begin(&mut self, shared: &mut Shared, reading: Reading) {
        if self.exchanges.len() >= shared.limits.pipelined_max {
            self.stop_reading();
            return;
        }
        shared.ledger.served.requests += 1;
        self.reading = Some(reading);
    }

    /// The request is there, all of it. Its body is `whole`, unless it came in pieces.
    fn complete(&mut self, shared: &mut Shared, whole: &[u8], arrival: Arrival) {
        let Some(mut reading) = self.reading.take() else {
            return;
        };
        let ticket = self.ticket();
        let named = reading.dialect.and_then(Result::ok);
        let spoken = named.unwrap_or_else(|| shared.composer.dialect());
        let mut account = Account::new(ticket, arrival, reading.reply.request_id, spoken);
        let work = self.decide(shared, &mut reading, whole, (ticket, &mut account));
        let reply = reading.reply;
        let work = work.unwrap_or_else(|refusal| {
            shared.ledger.served.requests_refused += 1;
            account.status = refusal.status;
            account.order = None;
            ready(Rc::new(Prebuilt::refusal(&refusal)), arrival.at)
        });
        self.body.clear();
        self.body.shrink_to(MEMO_BYTES_MAX);
        if !reply.keep_alive {
            self.phase = Phase::Deaf;
        }
        self.owe(account, reply, false, work);
    }

    /// Changes the config.
    fn change(&self, shared: &mut Shared, whole: &[u8]) -> Result<Value, Refusal> {
        let flags = shared.control.change(self.whole_body(whole))?;
        shared.follow();
        Ok(flags)
    }

    /// What becomes of a request that is complete.
    fn decide(
        &mut self,
        shared: &mut Shared,
        reading: &mut Reading,
        whole: &[u8],
        (ticket, account): (Ticket, &mut Account),
    ) -> Result<Work, Refusal> {
        if shared.is_draining {
            reading.reply.keep_alive = false;
            let message = "This server takes no more requests: it is ending";
            return Err(Refusal::later(503, message, DRAIN_RETRY_AFTER_S));
        }
        let at = account.arrived;
        if !reading.route.is_ready_at_once()
            && let Some(left) = shared.startup.left(at)
        {
            return Err(not_ready(left));
        }
        if !reading.authorized {
            return Err(Refusal::key());
        }
        match reading.route {
            Route::Generate(endpoint) => {
                let meaning = self.understand(shared, endpoint, reading.dialect, whole)?;
                let asked = meaning.answer.stream;
                let recording = shared.next_recording();
                let recorded = recording.as_ref().and_then(|one| one.fault(asked));
                let fault = choose(shared, (reading.wish.take(), recorded), asked)?;
                let stream = fault.map_or(asked, |fault| fault.kind.stream(asked));
                let http = meaning.voice.http();
                let reply = &mut reading.reply;
                reply.keep_alive &= http.keeps_alive(stream, reply.chunks);
                let work = generate(
                    shared,
                    (meaning, recording),
                    reply,
                    ticket,
                    (&mut *account, fault),
                )?;
                if let Some(Fault { kind, .. }) = fault {
                    account.fault = Some(kind);
                    account.status = kind.status();
                    shared.ledger.served.faults.add(kind);
                }
                Ok(work)
            }
            Route::Embeddings => {
                let body = self.whole_body(whole);
                let (prebuilt, tokens) = shared.composer.reply(Question::Embeddings, body)?;
                embed(shared, prebuilt, tokens, ticket, account)
            }
            Route::Tokenize => {
                let body = self.whole_body(whole);
                let (prebuilt, _) = shared.composer.reply(Question::Tokenize, body)?;
                Ok(ready(prebuilt, at))
            }
            Route::Models => Ok(ready(shared.composer.models(), at)),
            Route::Model => {
                let name = reading.model.take().unwrap_or_default();
                Ok(ready(shared.composer.model(&name)?, at))
            }
            Route::Health => Ok(ready(shared.composer.health(), at)),
            Route::Metrics => Ok(ready(Rc::new(Prebuilt::page(shared.page())), at)),
            Route::Config => Ok(told(&shared.control.settings()?, at)),
            Route::Change => Ok(told(&self.change(shared, whole)?, at)),
            Route::Reset => Ok(told(&shared.reset()?, at)),
            Route::NoSuchPath => Err(Refusal::request(404, "There is nothing at this path")),
            Route::NoSuchMethod(allowed) => Err(Refusal::method(allowed)),
        }
    }

    /// The body, which is `whole` unless it came in pieces.
    fn whole_body<'b>(&'b self, whole: &'b [u8]) -> &'b [u8] {
        if self.body.is_empty() {
            whole
        } else {
            &self.body
        }
    }

    /// Names the next request.
    fn ticket(&mut self) -> Ticket {
        self.serial += 1;
        Ticket {
            token: self.token,
            serial: self.serial,
        }
    }

    fn owe(&mut self, account: Account, reply: Reply, broken: bool, work: Work) {
        // Most peers wait for their answer: room for one takes a quarter of what `Vec` begins with.
        if self.exchanges.capacity() == 0 {
            self.exchanges.reserve_exact(1);
            self.accounts.reserve_exact(1);
        }
        self.exchanges.push_back(Exchange {
            serial: account.serial,
            reply,
            broken,
            arrived: account.arrived,
            work,
        });
        self.accounts.push_back(account);
    }

    /// What the body says.
    fn understand<'m>(
        &'m mut self,
        shared: &mut Shared,
        endpoint: Endpoint,
        dialect: Option<Result<Dialect, UnknownDialect>>,
        whole: &[u8],
    ) -> Result<&'m mut Meaning, Refusal> {
        let dialect = dialect.transpose().map_err(|UnknownDialect| {
            Refusal::request(400, "X-Mock-Dialect names no dialect of this server")
        })?;
        let body = if self.body.is_empty() {
            whole
        } else {
            // Not by `whole_body`: the memo is changed while the body is read.
            &self.body
        };
        let version = shared.version;
        let known = self.memo.as_ref().is_some_and(|memo| {
            (memo.endpoint, memo.dialect, memo.version) == (endpoint, dialect, version)
                && memo.body == body
                && !body.is_empty()
        });
        if !known {
            let meaning = shared.composer.read(endpoint, dialect, body)?;
            let mut kept = self.memo.take().map(|memo| memo.body).unwrap_or_default();
            kept.clear();
            if body.len() <= MEMO_BYTES_MAX {
                kept.extend_from_slice(body);
            }
            self.memo = Some(Memo {
                endpoint,
                dialect,
                body: kept,
                meaning,
                version,
            });
        }
        Ok(&mut self.memo.as_mut().expect("it was known, or is now").meaning)
    }

    /// Answers an unfinished request with an error, and reads no further.
    fn refuse(&mut self, shared: &mut Shared, refusal: &Refusal, arrival: Arrival) {
        let request_id = match self.reading.take() {
            Some(reading) => reading.reply.request_id,
            None => {
                shared.ledger.served.requests += 1;
                Id::EMPTY
            }
        };
        shared.ledger.served.requests_refused += 1;
        let work = ready(Rc::new(Prebuilt::refusal(refusal)), arrival.at);
        let reply = Reply {
            request_id,
            keep_alive: false,
            chunks: true,
        };
        let mut account = Account::new(
            self.ticket(),
            arrival,
            request_id,
            shared.composer.dialect(),
        );
        account.status = refusal.status;
        self.owe(account, reply, true, work);
        self.phase = Phase::Deaf;
    }

    /// The requests that were read are answered, and nothing more is read.
    fn stop_reading(&mut self) {
        self.phase = Phase::Deaf;
        if let Some(last) = self.exchanges.back_mut() {
            last.reply.keep_alive = false;
            last.broken = true;
        }
    }

    fn may_send(&self, limits: &Limits) -> bool {
        self.sends < limits.sends_queued_max && self.queued_bytes < limits.queued_bytes_max
    }

    /// Sends what is due of the oldest answer, then of the next, as far as the limits allow. What
    /// they hold back is sent when the driver is done with an earlier send.
    fn pump(&mut self, shared: &mut Shared, commands: &mut Commands, now: Nanos) {
        if !matches!(self.phase, Phase::Open | Phase::Deaf) {
            return;
        }
        while self.may_send(&shared.limits)
            && let Some(exchange) = self.exchanges.front_mut()
        {
            let mut means = Means {
                buffers: &mut shared.buffers,
                now,
                write_bytes_max: shared.limits.write_bytes_max,
                packing: shared.packing,
                running: shared.replica.as_ref().map_or(0, Replica::running),
            };
            match exchange.say(&mut means) {
                Say::Later(at) => {
                    shared.timers.set(self.token.index, at);
                    return;
                }
                Say::Send { head, body, note } => {
                    self.send(shared, commands, (head, body), Some(note));
                    let ends_itself = matches!(
                        self.exchanges.front().map(|exchange| &exchange.work),
                        Some(Work::Scripted { .. })
                    );
                    if note.last && !ends_itself && self.finish(shared, commands, now) {
                        return;
                    }
                }
                Say::Over(ending) => {
                    if self.end(shared, commands, ending, now) {
                        return;
                    }
                }
            }
        }
        if self.exchanges.is_empty() {
            self.rest(shared, commands);
        }
    }

    fn send(
        &mut self,
        shared: &mut Shared,
        commands: &mut Commands,
        (head, body): (Vec<u8>, Bytes),
        note: Option<Note>,
    ) {
        let bytes = u32::try_from(head.len() + body.len()).unwrap_or(u32::MAX);
        self.notes
            .push_back(note.map(|note| Note { bytes, ..note }));
        let (head, body) = self.sealed(&mut shared.buffers, head, body);
        self.sends += 1;
        self.queued_bytes += head.len();
        commands.send(self.token, head, body);
    }

    /// The request needs nothing of the replica any more.
    fn leave(&self, shared: &mut Shared, exchange: &Exchange, now: Nanos) {
        if let (true, Some(replica)) = (exchange.is_seated(), &mut shared.replica) {
            let ticket = Ticket {
                token: self.token,
                serial: exchange.serial,
            };
            replica.leave(ticket, exchange.over(now));
        }
    }

    /// A script is over. Returns whether the connection is, too.
    fn end(
        &mut self,
        shared: &mut Shared,
        commands: &mut Commands,
        ending: Ending,
        now: Nanos,
    ) -> bool {
        match ending {
            Ending::KeepAlive => return self.finish(shared, commands, now),
            // Whoever ended its side waits for nothing that will come.
            Ending::Hang if self.ended => self.hang_up(commands),
            // It ends when the peer has enough of it.
            Ending::Hang => self.note_ending(truth::Ending::Peer),
            Ending::Fin => {
                self.note_ending(truth::Ending::Closed);
                self.hang_up(commands);
            }
            Ending::Reset => {
                self.note_ending(truth::Ending::Reset);
                if self.sends > 0 {
                    self.phase = Phase::Resetting;
                } else {
                    commands.close(self.token, Close::Reset);
                    self.phase = Phase::Closing;
                }
            }
        }
        true
    }

    /// A fault ends the connection so, unless the answer's line is written already.
    fn note_ending(&mut self, ending: truth::Ending) {
        let serial = self.exchanges.front().map(|exchange| exchange.serial);
        if let Some(account) = self.accounts.front_mut()
            && Some(account.serial) == serial
        {
            account.ending = Some(ending);
        }
    }

    /// The oldest answer is sent, all of it. Returns whether it was the connection's last.
    fn finish(&mut self, shared: &mut Shared, commands: &mut Commands, now: Nanos) -> bool {
        let Some(exchange) = self.exchanges.pop_front() else {
            return true;
        };
        self.leave(shared, &exchange, now);
        if exchange.broken && !self.ended {
            // Closing with input unread would reset the connection and take the answer with it
            // (RFC 9112 9.6): the peer gets time to read it and to end its side.
            self.say_goodbye(commands);
            commands.close(self.token, Close::Half);
            self.phase = Phase::Lingering;
            shared
                .timers
                .set(self.token.index, now + shared.limits.linger_max);
            return true;
        }
        if exchange.broken || !exchange.reply.keep_alive {
            self.hang_up(commands);
            return true;
        }
        false
    }

    /// Nobody is owed an answer.
    fn rest(&mut self, shared: &mut Shared, commands: &mut Commands) {
        if self.ended || (shared.is_draining && self.reading.is_none()) {
            self.hang_up(commands);
        } else if let Some(reading) = &mut self.reading
            && std::mem::take(&mut reading.awaits_continue)
        {
            // Kept back until now: it must not come before the answers to earlier requests.
            let mut head = shared.buffers.take();
            head.extend_from_slice(b"HTTP/1.1 100 Continue\r\n\r\n");
            self.send(shared, commands, (head, Bytes::new()), None);
        }
    }
}

fn decoder(limits: &Limits) -> RequestDecoder {
    RequestDecoder::new(limits.head_bytes_max, limits.body_bytes_max)
}

fn told(value: &Value, at: Nanos) -> Work {
    ready(Rc::new(Prebuilt::json(value)), at)
}

/// Whether the value of an `Authorization` field is the key.
fn bears(field: Option<&[u8]>, ApiKey(key): &ApiKey) -> bool {
    let scheme = b"Bearer ";
    field.is_some_and(|field| {
        field.len() == scheme.len() + key.len()
            && field[..scheme.len()].eq_ignore_ascii_case(scheme)
            && field[scheme.len()..] == *key.as_bytes()
    })
}

/// A reply that exists, to a request that was complete `at`.
fn ready(prebuilt: Rc<Prebuilt>, at: Nanos) -> Work {
    Work::Ready {
        prebuilt,
        next: 0,
        due: at,
        seated: false,
    }
}

/// Embeddings: a replica has read their prompt when it would have the first token of an answer.
fn embed(
    shared: &mut Shared,
    prebuilt: Rc<Prebuilt>,
    prompt_tokens: u32,
    ticket: Ticket,
    account: &mut Account,
) -> Result<Work, Refusal> {
    let at = account.arrived;
    account.order = Some(Order::reading(prompt_tokens));
    let Some(replica) = shared.replica.as_mut().filter(|_| !shared.is_instant) else {
        account.started = Some(at);
        return Ok(ready(prebuilt, at));
    };
    let want = Want {
        prompt_tokens,
        output_tokens: 0,
        sequences: 1,
        blocks: &[],
        seed: None,
    };
    let due = match replica.arrive(ticket, &want, at) {
        Admission::Refuse(refusal) => return Err(refusal),
        Admission::Wait => Nanos::MAX,
        Admission::Run(started) => {
            account.started = Some(started.at);
            started.first
        }
    };
    Ok(Work::Ready {
        prebuilt,
        next: 0,
        due,
        seated: true,
    })
}

/// The fault of a request that is understood: the one it wishes for, else the recorded one, else one
/// of the rules'.
fn choose(
    shared: &mut Shared,
    (wish, recorded): (Option<Box<Result<Wish, FaultError>>>, Option<Fault>),
    stream: bool,
) -> Result<Option<Fault>, Refusal> {
    let open = || recorded.map_or(Wish::Open, Wish::Faulty);
    let wish = wish.map_or_else(|| Ok(open()), |wish| *wish);
    wish.and_then(|wish| shared.chooser.request(wish, stream))
        .map_err(|error| Refusal::invalid(None, error.to_string()))
}

fn not_ready(left: Nanos) -> Refusal {
    let message = format!("The model is not loaded yet: ready in {left}");
    Refusal::later(503, message, left.0.div_ceil(1_000_000_000))
}

/// The answer to a request that was complete at `account.arrived`.
fn generate(
    shared: &mut Shared,
    (meaning, recording): (&mut Meaning, Option<Recording>),
    reply: &Reply,
    ticket: Ticket,
    (account, fault): (&mut Account, Option<Fault>),
) -> Result<Work, Refusal> {
    let at = account.arrived;
    let is_answered = fault.is_none_or(|fault| fault.kind.needs_answer());
    let answer = match &recording {
        Some(recording) => recording.answer(&meaning.answer, shared.limits.tokens_max)?,
        None => meaning.answer.clone(),
    };
    account.order = is_answered.then(|| Order::of(&answer));
    let is_modelled = is_answered && !shared.is_instant;
    let Some(replica) = shared.replica.as_mut().filter(|_| is_modelled) else {
        account.started = Some(at);
        let Some(fault) = fault else {
            return Ok(ready(shared.composer.prebuilt(meaning, reply, at), at));
        };
        let stamp = shared.composer.stamp(reply, at);
        let answer = fault.kind.reshape(&answer);
        let voice = Rc::clone(&meaning.voice);
        let due = at + recording.map_or(Nanos::ZERO, |recording| recording.end());
        let mut paced = Paced::new(voice, answer, stamp, reply.chunks);
        return Ok(Work::Scripted {
            script: Box::new(apply(&fault, paced.outline(reply, due, 0))),
            runs: false,
        });
    };
    let answer = match fault {
        Some(fault) => fault.kind.reshape(&answer),
        None => answer,
    };
    let want = Want {
        prompt_tokens: answer.prompt_tokens,
        output_tokens: answer.tokens_longest(),
        sequences: answer.choices(),
        blocks: &meaning.blocks,
        seed: meaning.seed,
    };
    let stamp = shared.composer.stamp(reply, at);
    let voice = Rc::clone(&meaning.voice);
    let mut paced = Paced::new(voice, answer, stamp, reply.chunks);
    paced.fault = fault;
    paced.recording = recording;
    match replica.arrive(ticket, &want, at) {
        Admission::Refuse(refusal) => return Err(refusal),
        Admission::Wait => {}
        Admission::Run(started) => {
            account.started = Some(started.at);
            paced.start(started);
        }
    }
    Ok(Work::Paced(Box::new(paced)))
}
