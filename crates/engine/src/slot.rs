use ridgeline_clock::{Arrival, Nanos};
use ridgeline_metrics::{Collector, GapLog, GapPool, Phase, Timeline};
use ridgeline_wire::exchange::{ContentEvent, Exchange, Observer};

use crate::limits::Limits;

/// Bytes of one slot in its slab, without its buffers.
pub(crate) const SLOT_BYTES: usize = size_of::<Slot>();

/// What a slot is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// The place is free.
    Free,
    /// Its request waits for a connection.
    Waiting,
    /// Its request is on a connection.
    Active,
}

/// A place for one request in flight.
#[derive(Debug)]
pub(crate) struct Slot {
    pub(crate) state: State,
    pub(crate) exchange: Exchange,
    pub(crate) timeline: Timeline,
    pub(crate) index: u64,
    pub(crate) sample: u32,
    /// Where the request goes.
    pub(crate) endpoint: u16,
    pub(crate) phase: Phase,
    pub(crate) retries: u32,
    /// Whether its first action (connect or send) has been taken.
    pub(crate) started: bool,
    /// The connection that carries it, while active.
    pub(crate) connection: Option<u32>,
    /// When the connection that was set up for it was up.
    pub(crate) connected: Option<Nanos>,
    /// From submitting it to the driver's word that the kernel took it.
    pub(crate) send: Option<Nanos>,
    /// When that connection's TLS handshake was over.
    pub(crate) secured: Option<Nanos>,
    /// When the request began to wait for a connection.
    pub(crate) waiting_since: Nanos,
    pub(crate) pool_wait: Nanos,
    pub(crate) cap_wait: Nanos,
    /// When the place became free: a closed loop's next request is due then.
    pub(crate) free_since: Nanos,
    /// When the whole request must be done.
    pub(crate) deadline: Nanos,
    /// Content events that had come when the last request was issued, if it was in flight then.
    pub(crate) events_at_stop: Option<u32>,
    /// Whether the plan has it cancelled.
    pub(crate) cancelled: bool,
    /// Whether that was done.
    pub(crate) given_up: bool,
    /// Whether its first token is to be told, and was not yet: only of a shard that is fed.
    pub(crate) announces: bool,
    pub(crate) seen: Seen,
}

/// What the events of one answer left behind.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) gaps: GapLog,
    pub(crate) harness_delay_max: Nanos,
    pub(crate) stamp_width_max: Nanos,
    /// Arrivals of content events, under `--save-events` only.
    pub(crate) events_at: Option<Vec<Nanos>>,
    events_saved_max: usize,
}

impl Slot {
    pub(crate) fn new(limits: &Limits, save_events: bool) -> Self {
        Self {
            state: State::Free,
            exchange: Exchange::new(&limits.exchange()),
            timeline: Timeline::default(),
            index: 0,
            sample: 0,
            endpoint: 0,
            phase: Phase::Measured,
            retries: 0,
            started: false,
            connection: None,
            connected: None,
            send: None,
            secured: None,
            waiting_since: Nanos::ZERO,
            pool_wait: Nanos::ZERO,
            cap_wait: Nanos::ZERO,
            free_since: Nanos::ZERO,
            deadline: Nanos::MAX,
            events_at_stop: None,
            cancelled: false,
            given_up: false,
            announces: false,
            seen: Seen {
                gaps: GapLog::new(),
                harness_delay_max: Nanos::ZERO,
                stamp_width_max: Nanos::ZERO,
                events_at: save_events.then(Vec::new),
                events_saved_max: limits.events_saved_max,
            },
        }
    }
}

impl Seen {
    /// Ready for the next answer.
    pub(crate) fn begin(&mut self, pool: &mut GapPool, phase: Phase) {
        self.gaps.begin(pool, phase);
        self.harness_delay_max = Nanos::ZERO;
        self.stamp_width_max = Nanos::ZERO;
        if let Some(events_at) = &mut self.events_at {
            events_at.clear();
        }
    }

    /// Bytes came for the answer: what stands between them and the numbers.
    #[inline]
    pub(crate) fn read<'a>(
        &'a mut self,
        pool: &'a mut GapPool,
        collector: &'a mut Collector,
        arrival: Arrival,
    ) -> ReadObserver<'a> {
        self.harness_delay_max = self.harness_delay_max.max(arrival.harness_delay());
        ReadObserver::new(self, pool, collector, arrival)
    }
}

/// Stands between one read and the slot it belongs to. Events of one read share one arrival: they
/// are counted here and told to the numbers once.
pub(crate) struct ReadObserver<'a> {
    seen: &'a mut Seen,
    pool: &'a mut GapPool,
    collector: &'a mut Collector,
    arrival: Arrival,
    /// Content events of this read.
    count: u32,
    /// Those of them that are still to be told.
    pending: u32,
}

impl<'a> ReadObserver<'a> {
    pub(crate) fn new(
        seen: &'a mut Seen,
        pool: &'a mut GapPool,
        collector: &'a mut Collector,
        arrival: Arrival,
    ) -> Self {
        Self {
            seen,
            pool,
            collector,
            arrival,
            count: 0,
            pending: 0,
        }
    }

    fn tell(&mut self) {
        let pending = std::mem::take(&mut self.pending);
        self.collector
            .content(&mut self.seen.gaps, self.pool, self.arrival.at, pending);
    }

    /// The read is over: its content events. `stamped`: whether arrivals are the kernel's, so that their
    /// delay is known.
    pub(crate) fn finish(mut self, stamped: bool) -> u32 {
        if self.count == 0 {
            return 0;
        }
        self.tell();
        if self.count > 1 {
            let width = self.arrival.width();
            self.seen.stamp_width_max = self.seen.stamp_width_max.max(width);
        }
        if stamped {
            self.collector.read(self.arrival, self.count);
        }
        self.count
    }
}

impl Observer for ReadObserver<'_> {
    #[inline]
    fn content(&mut self, event: ContentEvent) {
        let Some(tokens) = event.tokens else {
            return self.contents(event.arrival, 1);
        };
        self.tell();
        self.count += 1;
        let (gaps, at) = (&mut self.seen.gaps, event.arrival.at);
        self.collector.content_counted(gaps, self.pool, at, tokens);
        if let Some(events_at) = &mut self.seen.events_at {
            keep(events_at, at, 1, self.seen.events_saved_max);
        }
    }

    #[inline]
    fn contents(&mut self, arrival: Arrival, count: u32) {
        self.count += count;
        self.pending += count;
        if let Some(events_at) = &mut self.seen.events_at {
            keep(events_at, arrival.at, count, self.seen.events_saved_max);
        }
    }
}

fn keep(events_at: &mut Vec<Nanos>, at: Nanos, count: u32, most: usize) {
    let room = most.saturating_sub(events_at.len());
    events_at.extend(std::iter::repeat_n(at, room.min(count as usize)));
}
