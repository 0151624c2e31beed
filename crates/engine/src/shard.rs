use std::sync::Arc;

use ridgeline_clock::Nanos;
use ridgeline_metrics::{Collector, GapPool, Phase, Stopped, Timeline};
use ridgeline_net::{Close, Commands};
use ridgeline_tls::Scratch;
use ridgeline_wire::exchange::Shared;
use ridgeline_wire::exchange::{Asked, ErrorKind};
use rtrb::Producer;

use crate::EngineError;
use crate::connection::{self, Connection};
use crate::control::{Control, LiveTotals};
use crate::feed::Feed;
use crate::list::List;
use crate::plan::{Load, Plan};
use crate::record::Record;
use crate::requests::Requests;
use crate::sessions::Sessions;
use crate::slot::{self, Slot};
use crate::source::{Bounds, Source};
use crate::spread::Endpoints;
use crate::streams::Http2Counts;
use crate::timers::Timers;

/// How often a shard publishes its counts.
const PUBLISH_EVERY: Nanos = Nanos::from_millis(100);

/// One phase of a run, as one shard sees it.
#[derive(Debug)]
pub(crate) struct PhaseState {
    pub(crate) phase: Phase,
    pub(crate) start: Nanos,
    until: Nanos,
    /// The end of the span in which submissions count for the achieved rate.
    pub(crate) window_end: Nanos,
    pub(crate) source: Source,
    pub(crate) issuing: bool,
    drain_until: Nanos,
}

/// What ran out during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exhausted {
    /// Local ports: connecting failed with EADDRNOTAVAIL.
    pub ports: bool,
    /// Descriptors or kernel memory.
    pub descriptors: bool,
    /// Slots of an open loop without a concurrency cap.
    pub slots: bool,
    /// What the shard lends to connections whose cut event is large.
    pub buffers: bool,
}

/// One share of the load on one core: takes time and completions, gives orders to a driver.
///
/// [`Shard::step`] and the [`ridgeline_net::Sink`] callbacks are all there is; neither reads a
/// clock or touches a socket. Once every buffer has been used nothing is allocated for a request that
/// succeeds, unless its text or events are to be saved.
#[derive(Debug)]
pub struct Shard {
    pub(crate) k: u32,
    pub(crate) plan: Arc<Plan>,
    pub(crate) requests: Arc<Requests>,
    pub(crate) control: Arc<Control>,
    pub(crate) slots: Vec<Slot>,
    pub(crate) connections: Vec<Connection>,
    /// Slots without a request, longest free first.
    pub(crate) free_slots: List,
    /// Slots whose request waits for a connection.
    pub(crate) waiting: List,
    /// Active and waiting slots by deadline: the timeout is one span, so order of start is order
    /// of deadline.
    pub(crate) deadlines: List,
    pub(crate) timers: Timers,
    pub(crate) free_connections: Vec<u32>,
    pub(crate) endpoints: Endpoints,
    pub(crate) sessions: Sessions,
    /// Connections being set up.
    pub(crate) connecting: u32,
    /// What connections of HTTP/2 counted that are gone.
    pub(crate) http2: Http2Counts,
    pub(crate) back_off_until: Nanos,
    pub(crate) connections_opened: u64,
    /// Buffers for heads of requests that no request has now: as many as were ever sent at one time.
    pub(crate) heads: Vec<Vec<u8>>,
    pub(crate) shared: Shared,
    /// Where TLS is read: nothing is in it while connections are in the clear.
    pub(crate) scratch: Scratch,
    /// Where requests are written that go through TLS.
    pub(crate) request: Vec<u8>,
    pub(crate) gap_pool: GapPool,
    pub(crate) collector: Collector,
    pub(crate) records: Option<Producer<Record>>,
    pub(crate) records_dropped: u64,
    pub(crate) state: PhaseState,
    pub(crate) in_flight: u32,
    /// Measured requests in flight that were submitted.
    pub(crate) occupied: u64,
    /// Whether arrivals carry the kernel's stamps.
    pub(crate) stamped: bool,
    /// From one content event of a stream to its next, in the mean of the latest streams.
    pub(crate) gap: Option<Nanos>,
    /// Since when what is due finds no slot.
    pub(crate) blocked_since: Option<Nanos>,
    pub(crate) never_sent: u64,
    pub(crate) submitted_in_window: u64,
    pub(crate) last_issue: Nanos,
    pub(crate) last_done: Nanos,
    pub(crate) exhausted: Exhausted,
    publish_at: Nanos,
}

/// What a shard hands back when it is done.
#[derive(Debug)]
pub struct ShardResult {
    /// Everything measured.
    pub collector: Collector,
    /// Requests due and never sent.
    pub never_sent: u64,
    /// Requests handed to the kernel before the end of the window.
    pub submitted_in_window: u64,
    /// When the last request was issued.
    pub last_issue: Nanos,
    /// When the last response ended.
    pub last_done: Nanos,
    /// Records that found their queue full.
    pub records_dropped: u64,
    /// Heads of cut events copied into a carry.
    pub carry_copies: u64,
    /// Connections set up.
    pub connections_opened: u64,
    /// What those of HTTP/2 counted.
    pub http2: Http2Counts,
    /// What ran out.
    pub exhausted: Exhausted,
}

impl Exhausted {
    /// Adds what ran out elsewhere.
    pub const fn merge(&mut self, other: Self) {
        self.ports |= other.ports;
        self.descriptors |= other.descriptors;
        self.slots |= other.slots;
        self.buffers |= other.buffers;
    }
}

impl Shard {
    /// Shard `k` of the plan, with its slabs. `records`: where finished requests go.
    ///
    /// # Errors
    /// When the plan's schedule can't be walked.
    pub fn new(
        k: u32,
        plan: Arc<Plan>,
        requests: Arc<Requests>,
        control: Arc<Control>,
        records: Option<Producer<Record>>,
    ) -> Result<Self, EngineError> {
        let slot_count = plan.slots_of(k);
        let limits = &plan.limits;
        let connection_count = plan.connections_of(k);
        let mut free_slots = List::new(slot_count);
        (0..slot_count).for_each(|slot| free_slots.push_back(slot));
        let nothing = Bounds {
            first: 0,
            requests_max: Some(0),
            start: Nanos::ZERO,
            until: Nanos::ZERO,
        };
        Ok(Self {
            k,
            slots: (0..slot_count)
                .map(|_| Slot::new(limits, plan.save_events))
                .collect(),
            connections: (0..connection_count)
                .map(|_| Connection::new(limits))
                .collect(),
            free_slots,
            waiting: List::new(slot_count),
            deadlines: List::new(slot_count),
            timers: Timers::new(&plan.waits, slot_count),
            free_connections: (0..connection_count).rev().collect(),
            endpoints: Endpoints::new(&plan.target, connection_count),
            sessions: Sessions::new(plan.connections, connection_count),
            connecting: 0,
            http2: Http2Counts::default(),
            back_off_until: Nanos::ZERO,
            connections_opened: 0,
            heads: Vec::with_capacity(connection_count as usize),
            shared: Shared::new(limits.carry_pool_bytes_max, limits.familiar_bytes_max),
            scratch: Scratch::default(),
            request: Vec::new(),
            gap_pool: GapPool::new(GapPool::blocks_for(slot_count, limits.gap_events)),
            collector: if plan.count_later {
                plan.collector().counting_later()
            } else {
                plan.collector()
            },
            records,
            records_dropped: 0,
            state: PhaseState {
                phase: Phase::Warmup,
                start: Nanos::ZERO,
                until: Nanos::ZERO,
                window_end: Nanos::ZERO,
                source: Source::new(&plan, k, nothing)?,
                issuing: false,
                drain_until: Nanos::MAX,
            },
            in_flight: 0,
            occupied: 0,
            stamped: plan.rx_timestamps,
            gap: None,
            blocked_since: None,
            never_sent: 0,
            submitted_in_window: 0,
            last_issue: Nanos::ZERO,
            last_done: Nanos::ZERO,
            exhausted: Exhausted::default(),
            publish_at: Nanos::ZERO,
            plan,
            requests,
            control,
        })
    }

    /// Begins the warm-up, to be drained before the measured phase.
    ///
    /// # Errors
    /// When the plan's schedule can't be walked.
    pub fn begin_warmup(&mut self, start: Nanos) -> Result<(), EngineError> {
        let bounds = Bounds {
            first: self.plan.first_index,
            requests_max: Some(self.plan.warmup_requests),
            start,
            until: Nanos::MAX,
        };
        self.begin(Phase::Warmup, bounds, Nanos::MAX)
    }

    /// Begins the measured phase. `window`: the span in which submissions count for the achieved
    /// rate (see [`crate::window`]).
    ///
    /// # Errors
    /// When the plan's schedule can't be walked.
    pub fn begin_measured(&mut self, start: Nanos, window: Nanos) -> Result<(), EngineError> {
        let bounds = Bounds {
            first: self
                .plan
                .first_index
                .saturating_add(self.plan.warmup_requests),
            requests_max: self.plan.stop.requests_max,
            start,
            until: self
                .plan
                .stop
                .duration
                .map_or(Nanos::MAX, |span| start + span),
        };
        self.begin(Phase::Measured, bounds, start + window)
    }

    fn begin(
        &mut self,
        phase: Phase,
        bounds: Bounds,
        window_end: Nanos,
    ) -> Result<(), EngineError> {
        self.state = PhaseState {
            phase,
            start: bounds.start,
            until: bounds.until,
            window_end,
            source: Source::new(&self.plan, self.k, bounds)?,
            issuing: true,
            drain_until: Nanos::MAX,
        };
        if phase == Phase::Measured {
            // Fewer requests than slots can't fill them.
            let share = |total| self.plan.share(total, self.k);
            let slots = share(self.plan.load.concurrency().unwrap_or(0).into());
            let requests = bounds.requests_max.map_or(u64::MAX, share);
            self.collector.begin(bounds.start, slots.min(requests));
        }
        Ok(())
    }

    /// Begins to do what `feed` says, until it is over. The plan's load says how many may be in flight,
    /// and nothing more; its samples are not used.
    pub fn begin_fed(&mut self, start: Nanos, mut feed: Feed) {
        self.records = feed.results.take();
        self.state = PhaseState {
            phase: Phase::Measured,
            start,
            until: Nanos::MAX,
            window_end: Nanos::MAX,
            source: Source::fed(feed, start),
            issuing: true,
            drain_until: Nanos::MAX,
        };
        self.collector.begin(start, 0);
    }

    /// Whether the phase has issued all it may and nothing is in flight.
    #[must_use]
    pub fn is_done(&self) -> bool {
        !self.state.issuing && self.in_flight == 0
    }

    /// From one content event of a stream to its next, in the mean, where arrivals carry the kernel's stamps.
    pub(crate) fn stamped_gap(&self) -> Option<Nanos> {
        self.gap.filter(|_| self.stamped)
    }

    /// Does what is due at `now`; answers with the time at which something is due again.
    pub fn step(&mut self, now: Nanos, commands: &mut Commands) -> Nanos {
        if let Some(feed) = self.state.source.feed() {
            feed.pull();
        }
        self.expire(now, commands);
        self.end_waits(now, commands);
        self.heed(now, commands);
        if now < self.state.start {
            return self.state.start;
        }
        self.serve_waiting(now, commands);
        let next_due = self.issue(now, commands);
        self.publish(now);
        let deadline = self.next_deadline(now, next_due);
        self.settle(now, deadline)
    }

    fn next_deadline(&self, now: Nanos, next_due: Nanos) -> Nanos {
        let expiry = self
            .deadlines
            .first()
            .map_or(Nanos::MAX, |slot| self.slots[slot as usize].deadline);
        // Connections being set up wake the shard themselves; only a pause needs a time.
        let pausing = self.back_off_until > now && !self.waiting.is_empty();
        let back_off = if pausing {
            self.back_off_until
        } else {
            Nanos::MAX
        };
        let stop = if self.state.issuing {
            self.state.until
        } else {
            self.state.drain_until
        };
        next_due
            .min(expiry)
            .min(self.timers.next())
            .min(self.retires_at())
            .min(back_off)
            .min(stop)
            .min(self.publish_at)
    }

    /// Fails requests whose deadline has passed.
    fn expire(&mut self, now: Nanos, commands: &mut Commands) {
        while let Some(slot_index) = self.deadlines.first() {
            let slot = &mut self.slots[slot_index as usize];
            if slot.deadline > now {
                return;
            }
            let connection = slot.connection.map(|c| &self.connections[c as usize]);
            let connecting = connection.is_none_or(|c| c.state == connection::State::Connecting);
            let (kind, message) = if connecting {
                let secure = connection.and_then(|c| c.secure.as_ref());
                (
                    ErrorKind::ConnectTimeout,
                    if secure.is_some_and(|secure| secure.has_begun()) {
                        "the TLS handshake was not over within the timeout of the request"
                    } else {
                        "no connection within the timeout of the request"
                    },
                )
            } else {
                (
                    ErrorKind::Timeout,
                    "the answer was not complete within the timeout",
                )
            };
            slot.exchange.fail(kind, message, now);
            self.mark_started(slot_index, now);
            self.give_up(slot_index, now, commands);
            self.finish(slot_index, now, false);
        }
    }

    /// Looks at what the run and the user want: the end of issuing, the end of the drain.
    fn heed(&mut self, now: Nanos, commands: &mut Commands) {
        let wish = self.control.wish();
        if self.state.source.feed().is_some() {
            return self.heed_fed(wish, now, commands);
        }
        if self.state.issuing && now >= self.state.until && !wish.stop {
            self.issue_last(now, commands);
        }
        if self.state.issuing && (now >= self.state.until || wish.stop) {
            self.drop_unstarted();
            let stopped = if wish.stop {
                Stopped::Interrupt
            } else {
                Stopped::Duration
            };
            self.stop_issuing(now.min(self.state.until), stopped);
        }
        if !self.state.issuing {
            if wish.stop {
                let brief = self.control.drain_until();
                self.state.drain_until = self.state.drain_until.min(brief);
            }
            if wish.cancel || now >= self.state.drain_until {
                self.cancel_all(now, commands);
            }
        }
    }

    /// Starts what a schedule had due between the last look and the end: a shard that looks late is late with
    /// it, as it is at any other time. What waited for a slot then has missed its time.
    fn issue_last(&mut self, now: Nanos, commands: &mut Commands) {
        if self.state.source.is_timed() && self.blocked_since.is_none() {
            self.issue(now, commands);
        }
    }

    fn stop_issuing(&mut self, at: Nanos, stopped: Stopped) {
        self.state.issuing = false;
        self.state.drain_until = at + self.plan.drain_timeout;
        if self.state.phase == Phase::Measured {
            while let Some(due) = self.state.source.take_due_before(at) {
                self.miss(due.scheduled);
            }
            self.collector.stop(at, stopped);
        }
        if stopped != Stopped::Requests {
            for slot in self
                .slots
                .iter_mut()
                .filter(|slot| slot.state == slot::State::Active)
            {
                slot.events_at_stop = Some(slot.exchange.answer().content_events);
            }
        }
    }

    /// A request that was due at `scheduled` will not be sent any more.
    fn miss(&mut self, scheduled: Nanos) {
        self.never_sent += 1;
        self.collector.due(1);
        self.collector.never_sent(scheduled);
    }

    /// Lets go of requests that have a slot but whose first action is still to come: due, and not
    /// sent before the end.
    fn drop_unstarted(&mut self) {
        for slot_index in 0..u32::try_from(self.slots.len()).unwrap_or(u32::MAX) {
            let slot = &mut self.slots[slot_index as usize];
            if slot.state != slot::State::Waiting || slot.started {
                continue;
            }
            slot.state = slot::State::Free;
            self.endpoints.get_mut(slot.endpoint).in_flight -= 1;
            let (phase, scheduled) = (slot.phase, slot.timeline.scheduled);
            if phase == Phase::Measured {
                self.miss(scheduled);
            }
            self.waiting.remove(slot_index);
            self.deadlines.remove(slot_index);
            self.free_slots.push_back(slot_index);
            self.in_flight -= 1;
        }
    }

    fn cancel_all(&mut self, now: Nanos, commands: &mut Commands) {
        self.drop_unstarted();
        while let Some(slot_index) = self.deadlines.first() {
            self.give_up(slot_index, now, commands);
            self.finish(slot_index, now, true);
        }
    }

    /// Takes the connection of a slot away and resets it: an answer that nobody waits for.
    pub(crate) fn give_up(&mut self, slot_index: u32, now: Nanos, commands: &mut Commands) {
        self.waiting.remove(slot_index);
        let Some(index) = self.slots[slot_index as usize].connection.take() else {
            return;
        };
        let connection = &self.connections[index as usize];
        if connection.streams.is_some() && connection.state != connection::State::Connecting {
            self.give_up_stream(slot_index, index, now, commands);
        } else {
            self.close(index, Close::Reset, commands);
        }
    }

    /// Starts what is due. Returns when the next request is due, as far as it can be started then.
    fn issue(&mut self, now: Nanos, commands: &mut Commands) -> Nanos {
        while self.state.issuing && self.can_answer_more() {
            let Some(slot_index) = self.free_slots.first() else {
                // The next request waits for a slot. Whether it is due already is for the blocked
                // time to say; a completion will wake the shard.
                let due = self.state.source.peek(now);
                if due.is_some_and(|due| due.scheduled <= now) {
                    self.blocked_since.get_or_insert(now);
                } else if let Some(due) = due {
                    return due.scheduled;
                } else {
                    self.stop_if_exhausted(now);
                }
                return Nanos::MAX;
            };
            let free_since = self.slots[slot_index as usize].free_since;
            let Some(due) = self.state.source.peek(free_since) else {
                self.stop_if_exhausted(now);
                return Nanos::MAX;
            };
            if due.scheduled > now {
                self.blocked_since = None;
                return due.scheduled;
            }
            self.state.source.advance();
            self.free_slots.remove(slot_index);
            self.take(slot_index, due.index, due.scheduled, now);
            self.serve_waiting(now, commands);
        }
        Nanos::MAX
    }

    /// No more requests: by count, or by the schedule's end.
    pub(crate) fn stop_if_exhausted(&mut self, now: Nanos) {
        if self.state.source.is_finished() {
            self.stop_issuing(now, Stopped::Requests);
        }
    }

    /// Puts a request into a slot; it waits for a connection.
    pub(crate) fn take(&mut self, slot_index: u32, index: u64, scheduled: Nanos, now: Nanos) {
        let timed = self.state.source.is_timed();
        let cancelled = self.is_cancelled(index);
        let slot = &mut self.slots[slot_index as usize];
        let waited = self
            .blocked_since
            .map_or(Nanos::ZERO, |since| now - since.max(scheduled));
        let capped = matches!(
            self.plan.load,
            Load::Open {
                concurrency_cap: Some(_),
                ..
            }
        );
        slot.cap_wait = if timed && capped { waited } else { Nanos::ZERO };
        self.exhausted.slots |= timed && !capped && waited > Nanos::ZERO;
        slot.state = slot::State::Waiting;
        slot.timeline = Timeline {
            scheduled,
            ..Timeline::default()
        };
        slot.index = index;
        slot.sample = self.plan.order.sample_of(index, self.requests.samples());
        let session = self.requests.session(slot.sample);
        slot.endpoint = self.endpoints.of(index, session);
        self.endpoints.get_mut(slot.endpoint).in_flight += 1;
        slot.phase = self.state.phase;
        slot.retries = 0;
        slot.cancelled = cancelled;
        slot.given_up = false;
        slot.started = false;
        slot.connection = None;
        slot.connected = None;
        slot.send = None;
        slot.secured = None;
        slot.waiting_since = now;
        slot.pool_wait = Nanos::ZERO;
        slot.events_at_stop = None;
        slot.deadline = now + self.plan.timeout;
        slot.seen.begin(&mut self.gap_pool, self.state.phase);
        let fed = self.state.source.feed();
        let fed = fed.and_then(|feed| feed.place(slot_index));
        slot.announces = fed.is_some_and(|asked| asked.streaming);
        slot.exchange.begin(fed.unwrap_or(Asked {
            endpoint: self.plan.endpoint,
            streaming: self.plan.streaming,
            save_text: self.plan.save_text,
        }));
        self.deadlines.push_back(slot_index);
        self.waiting.push_back(slot_index);
        self.in_flight += 1;
    }

    fn publish(&mut self, now: Nanos) {
        if now < self.publish_at {
            return;
        }
        self.publish_at = now + PUBLISH_EVERY;
        let counts = self.collector.counts(Phase::Measured);
        let totals = LiveTotals {
            issued: counts.issued,
            completed: counts.completed,
            failed: counts.failed + counts.cancelled,
            content_events: self.collector.content_events(),
            in_flight: u64::from(self.in_flight),
        };
        let place = self.k.saturating_sub(self.plan.own_shards.start);
        self.control.publish(place, &totals);
    }

    /// Ends the shard.
    #[must_use]
    pub fn into_result(mut self) -> ShardResult {
        self.publish_at = Nanos::ZERO;
        self.publish(Nanos::ZERO);
        for index in 0..u32::try_from(self.connections.len()).unwrap_or(u32::MAX) {
            self.forget_streams(index);
        }
        self.exhausted.buffers = self.shared.pool.refused() > 0;
        ShardResult {
            collector: self.collector,
            never_sent: self.never_sent,
            submitted_in_window: self.submitted_in_window,
            last_issue: self.last_issue,
            last_done: self.last_done,
            records_dropped: self.records_dropped,
            carry_copies: self.shared.pool.copies(),
            connections_opened: self.connections_opened,
            http2: self.http2,
            exhausted: self.exhausted,
        }
    }
}
