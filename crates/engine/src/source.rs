use ridgeline_clock::Nanos;
use ridgeline_schedule::{Arrivals, Share};

use crate::feed::Feed;
use crate::plan::{Load, Plan};

/// A request that is due: its place in the global order, and when it should start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Due {
    pub(crate) index: u64,
    pub(crate) scheduled: Nanos,
}

/// One shard's share of one phase of the load: which request is next, and when it is due.
#[derive(Debug)]
pub(crate) struct Source {
    kind: Kind,
    /// Indices of this phase: `first <= index < end`, the shard's own being every `step`-th.
    next: u64,
    end: u64,
    step: u64,
    start: Nanos,
    /// Arrivals at or after this time are not produced.
    until: Nanos,
}

#[derive(Debug)]
enum Kind {
    /// Due as soon as a slot is free: the slot says since when.
    Closed,
    /// All due at the start.
    Offline,
    /// Due by the global schedule.
    Open {
        share: Box<Share>,
        peeked: Option<Nanos>,
        exhausted: bool,
    },
    /// Due when whoever feeds the shard says so.
    Fed(Box<Feed>),
}

/// The bounds of one phase.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bounds {
    /// The global index of the phase's first request.
    pub(crate) first: u64,
    /// Requests of the phase over all shards, if bounded.
    pub(crate) requests_max: Option<u64>,
    /// The start of the phase.
    pub(crate) start: Nanos,
    /// When it stops issuing; [`Nanos::MAX`]: by count alone.
    pub(crate) until: Nanos,
}

impl Source {
    /// Shard `k`'s share of a phase of the plan's load.
    pub(crate) fn new(plan: &Plan, k: u32, bounds: Bounds) -> Result<Self, crate::EngineError> {
        let kind = match &plan.load {
            Load::Closed { .. } => Kind::Closed,
            Load::Offline { .. } => Kind::Offline,
            Load::Open { schedule, .. } => Kind::Open {
                share: Box::new(Share::new(Arrivals::new(schedule)?, k, plan.shards)),
                peeked: None,
                exhausted: false,
            },
        };
        let end = bounds
            .requests_max
            .map_or(u64::MAX, |max| bounds.first.saturating_add(max));
        Ok(Self {
            kind,
            next: bounds.first + u64::from(k),
            end,
            step: u64::from(plan.shards),
            start: bounds.start,
            until: bounds.until,
        })
    }

    /// Requests from outside, from `start` on.
    pub(crate) fn fed(feed: Feed, start: Nanos) -> Self {
        Self {
            kind: Kind::Fed(Box::new(feed)),
            next: 0,
            end: u64::MAX,
            step: 1,
            start,
            until: Nanos::MAX,
        }
    }

    /// What feeds it, if it is fed.
    #[inline]
    pub(crate) fn feed(&mut self) -> Option<&mut Feed> {
        match &mut self.kind {
            Kind::Fed(feed) => Some(feed),
            Kind::Closed | Kind::Offline | Kind::Open { .. } => None,
        }
    }

    /// The next request, whether due already or not; none when the phase has no more.
    /// `free_since`: since when the slot that would take it is free.
    pub(crate) fn peek(&mut self, free_since: Nanos) -> Option<Due> {
        if self.next >= self.end {
            return None;
        }
        let scheduled = match &mut self.kind {
            Kind::Closed => free_since.max(self.start),
            Kind::Offline => self.start,
            Kind::Open {
                share,
                peeked,
                exhausted,
            } => {
                if peeked.is_none() {
                    *peeked = share.next().map(|due| self.start + due.at);
                    *exhausted = peeked.is_none();
                }
                (*peeked)?
            }
            Kind::Fed(feed) => {
                let (index, scheduled) = feed.peek()?;
                return Some(Due { index, scheduled });
            }
        };
        (scheduled < self.until).then_some(Due {
            index: self.next,
            scheduled,
        })
    }

    /// The request last peeked at has been taken.
    pub(crate) fn advance(&mut self) {
        self.next = self.next.saturating_add(self.step);
        if let Kind::Open { peeked, .. } = &mut self.kind {
            *peeked = None;
        }
    }

    /// Whether there will be no more, by count or by the schedule's end.
    pub(crate) fn is_finished(&self) -> bool {
        self.next >= self.end
            || match &self.kind {
                Kind::Closed | Kind::Offline => false,
                Kind::Open { exhausted, .. } => *exhausted,
                Kind::Fed(feed) => feed.is_over(),
            }
    }

    /// Whether times come from a schedule: then what is due and not sent can be counted.
    pub(crate) fn is_timed(&self) -> bool {
        matches!(self.kind, Kind::Open { .. })
    }

    /// Takes the next request, if it was due before `end` by a schedule.
    pub(crate) fn take_due_before(&mut self, end: Nanos) -> Option<Due> {
        if !self.is_timed() {
            return None;
        }
        let due = self.peek(end).filter(|due| due.scheduled < end)?;
        self.advance();
        Some(due)
    }
}
