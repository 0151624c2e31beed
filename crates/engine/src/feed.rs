//! A load that comes from outside: queries in, first tokens and results out.
//!
//! [`feed`] makes the three ends of one shard: a [`Supply`] for whoever has queries, an [`Outlet`] for
//! whoever wants the answers, and the [`Feed`] that the shard holds ([`crate::Shard::begin_fed`],
//! [`crate::serve`]). Both ways are rings of one writer and one reader; whoever waits at the other end
//! is woken by a [`Bell`]. Nothing is lost: the shard takes a query up only while there is room for
//! all that it will have to say.

use std::cmp::{Ordering, Reverse};
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{self, AtomicBool};

use bytes::Bytes;
use ridgeline_clock::Nanos;
use ridgeline_wire::exchange::Asked;
use ridgeline_wire::http1::RequestTemplate;
use rtrb::{Consumer, Producer, RingBuffer};

use crate::bell::Bell;
use crate::record::Record;
use crate::requests::write_request;

/// One request from outside.
#[derive(Clone, Debug)]
pub struct Query {
    /// Its name: [`Record::index`] of its record, and the number in its `X-Request-Id`.
    pub id: u64,
    /// When it should start, on the machine's monotonic clock. A time that has passed means at once;
    /// the record shows how late that was.
    pub due: Nanos,
    /// What it begins with, by the endpoint that it goes to: one for each of [`crate::Target::endpoints`].
    pub heads: Arc<[RequestTemplate]>,
    /// The rest of it.
    pub body: Bytes,
    /// What the answer will look like, and whether its text is kept.
    pub asked: Asked,
}

/// The first token of a streamed answer has come. Its record follows when it is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Notice {
    /// The query.
    pub id: u64,
    /// When it was to start.
    pub scheduled: Nanos,
    /// When its bytes were handed to the kernel.
    pub submitted: Nanos,
    /// When the first event with text, reasoning or a tool call came.
    pub first_token: Nanos,
}

/// The three ends of a shard that is fed. `queries_max`: queries that may be on their way or wait for
/// their time. `slots`: queries in flight (`Plan::slots_of`). `told`: is rung when something comes out.
#[must_use]
pub fn feed(queries_max: usize, slots: u32, told: Arc<Bell>) -> (Supply, Feed, Outlet) {
    let slots = slots as usize;
    let (queries_in, queries) = RingBuffer::new(queries_max.max(1));
    // A query in flight has a place in each; as many again may wait to be taken out.
    let (notices, notices_out) = RingBuffer::new(2 * slots.max(RESULTS_TAKEN));
    let (results, results_out) = RingBuffer::new(2 * slots.max(RESULTS_TAKEN));
    let bell = Arc::new(Bell::default());
    let starved = Arc::new(AtomicBool::new(false));
    let feed = Feed {
        queries,
        notices,
        results: Some(results),
        backlog: Backlog::new(queries_max),
        taken: (0..slots).map(|_| None).collect(),
        bell: bell.clone(),
        told: Told {
            bell: told,
            any: false,
        },
        starved: starved.clone(),
    };
    let supply = Supply {
        queries: queries_in,
        bell: Parting(bell.clone()),
    };
    let outlet = Outlet {
        notices: notices_out,
        results: results_out,
        bell,
        starved,
    };
    (supply, feed, outlet)
}

/// Results that may be taken out at one time: what is in flight may be few.
const RESULTS_TAKEN: usize = 256;

/// Where queries go in. Dropping it says that no more come: the shard ends when it has done them all.
#[derive(Debug)]
pub struct Supply {
    queries: Producer<Query>,
    // After the queries: a shard that wakes finds them abandoned.
    bell: Parting,
}

/// A bell that is rung once more when it is let go of.
#[derive(Debug)]
struct Parting(Arc<Bell>);

impl Drop for Parting {
    fn drop(&mut self) {
        self.0.ring();
    }
}

impl Supply {
    /// Hands a query to the shard.
    ///
    /// # Errors
    /// Gives the query back when as many as were agreed on are on their way.
    pub fn push(&mut self, query: Query) -> Result<(), Query> {
        self.queries
            .push(query)
            .map_err(|rtrb::PushError::Full(query)| query)
    }

    /// Wakes the shard, if it sleeps: to be called after the last of several queries.
    pub fn ring(&self) {
        self.bell.0.ring();
    }
}

/// Told of what comes out.
pub trait Answered {
    /// The first token of an answer has come.
    fn first_token(&mut self, notice: Notice);

    /// A query is over.
    fn result(&mut self, record: Record);
}

/// Where first tokens and results come out.
#[derive(Debug)]
pub struct Outlet {
    notices: Consumer<Notice>,
    results: Consumer<Record>,
    bell: Arc<Bell>,
    starved: Arc<AtomicBool>,
}

impl Outlet {
    /// Takes out what is there, at most `results_max` results: first tokens first, so that none comes
    /// after its own result. How many results that were.
    pub fn take(&mut self, results_max: usize, reader: &mut impl Answered) -> usize {
        // Counted before the notices are read: those of these results are all there then.
        let count = self.results.slots().min(results_max);
        if let Ok(chunk) = self.notices.read_chunk(self.notices.slots()) {
            chunk
                .into_iter()
                .for_each(|notice| reader.first_token(notice));
        }
        if let Ok(chunk) = self.results.read_chunk(count) {
            chunk.into_iter().for_each(|record| reader.result(record));
        }
        atomic::fence(atomic::Ordering::SeqCst);
        if self.starved.swap(false, atomic::Ordering::SeqCst) {
            self.bell.ring();
        }
        count
    }

    /// Whether nothing is there.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.results.is_empty() && self.notices.is_empty()
    }

    /// Whether nothing is there and nothing will come.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.results.is_abandoned() && self.is_empty()
    }
}

/// The shard's end.
#[derive(Debug)]
pub struct Feed {
    queries: Consumer<Query>,
    notices: Producer<Notice>,
    /// Until the shard takes it.
    pub(crate) results: Option<Producer<Record>>,
    backlog: Backlog,
    /// By slot: the queries in flight, which own their bodies.
    taken: Vec<Option<Query>>,
    bell: Arc<Bell>,
    told: Told,
    /// Set when queries wait for room to answer them.
    starved: Arc<AtomicBool>,
}

#[derive(Debug)]
struct Told {
    bell: Arc<Bell>,
    /// Something came out since it was last rung.
    any: bool,
}

impl Feed {
    /// Rung when queries come, or when there is room for results again. The driver's waker belongs there.
    #[must_use]
    pub fn bell(&self) -> &Arc<Bell> {
        &self.bell
    }

    /// Rung when something came out.
    #[must_use]
    pub fn told(&self) -> &Arc<Bell> {
        &self.told.bell
    }

    /// Takes in what has come. At the start of a step.
    pub(crate) fn pull(&mut self) {
        self.bell.wakes();
        let count = self.queries.slots().min(self.backlog.room());
        if let Ok(chunk) = self.queries.read_chunk(count) {
            chunk.into_iter().for_each(|query| self.backlog.push(query));
        }
    }

    /// The next query, and when it is due.
    pub(crate) fn peek(&self) -> Option<(u64, Nanos)> {
        self.backlog.peek().map(|query| (query.id, query.due))
    }

    /// Puts the next query into a slot. What was asked.
    pub(crate) fn place(&mut self, slot: u32) -> Option<Asked> {
        let query = self.backlog.pop()?;
        let asked = query.asked;
        self.taken[slot as usize] = Some(query);
        Some(asked)
    }

    /// Writes the request of a slot, which goes to an endpoint, over `head` and returns what follows it.
    pub(crate) fn write(
        &self,
        slot: u32,
        endpoint: u16,
        head: &mut Vec<u8>,
        inline_bytes: usize,
    ) -> Bytes {
        let Some(query) = &self.taken[slot as usize] else {
            return Bytes::new();
        };
        let template = &query.heads[usize::from(endpoint)];
        write_request(template, query.id, &query.body, inline_bytes, head)
    }

    /// A first token has come.
    pub(crate) fn announce(&mut self, notice: Notice) {
        // There is room: it was looked for before the query was taken up.
        let pushed = self.notices.push(notice);
        debug_assert!(
            pushed.is_ok() || self.notices.is_abandoned(),
            "a notice without room"
        );
        self.told.any = true;
    }

    /// The query of a slot is over.
    pub(crate) fn release(&mut self, slot: u32) {
        self.taken[slot as usize] = None;
        self.told.any = true;
    }

    /// Whether one more than `in_flight` can be answered.
    pub(crate) fn has_room(&self, results: &Producer<Record>, in_flight: u32) -> bool {
        let needed = in_flight as usize + 1;
        has_slots(&self.notices, needed) && has_slots(results, needed)
    }

    /// Whether nothing is left and nothing will come.
    pub(crate) fn is_over(&self) -> bool {
        // Abandoned first: what was pushed before that is seen.
        self.queries.is_abandoned() && self.queries.is_empty() && self.backlog.is_empty()
    }

    /// At the end of a step: tells what came out, and whether the shard may sleep. Not when queries came
    /// meanwhile, or room did for one that waits for it.
    pub(crate) fn settle(&mut self, results: &Producer<Record>, in_flight: u32) -> bool {
        if std::mem::take(&mut self.told.any) {
            self.told.bell.ring();
        }
        let starved = !self.backlog.is_empty() && !self.has_room(results, in_flight);
        if starved {
            self.starved.store(true, atomic::Ordering::SeqCst);
        }
        self.bell.sleeps();
        let came = !self.queries.is_empty() && self.backlog.room() > 0;
        let awake = came || starved && self.has_room(results, in_flight);
        if awake {
            self.bell.wakes();
        }
        !awake
    }
}

/// Whether a ring has room for so many. Its other end is asked only when that is not known; one that is
/// gone holds nobody up.
fn has_slots<T>(ring: &Producer<T>, needed: usize) -> bool {
    ring.cached_slots() >= needed || ring.slots() >= needed || ring.is_abandoned()
}

/// Queries that wait for their time or for a slot. Those that come in order of their time stand in a
/// queue; only others in a heap.
#[derive(Debug)]
struct Backlog {
    in_order: VecDeque<Query>,
    early: BinaryHeap<Reverse<ByDue>>,
    count_max: usize,
}

#[derive(Debug)]
struct ByDue(Query);

impl Ord for ByDue {
    fn cmp(&self, other: &Self) -> Ordering {
        let key = |query: &Query| (query.due, query.id);
        key(&self.0).cmp(&key(&other.0))
    }
}

impl PartialOrd for ByDue {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for ByDue {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for ByDue {}

impl Backlog {
    fn new(count_max: usize) -> Self {
        Self {
            in_order: VecDeque::with_capacity(count_max),
            early: BinaryHeap::with_capacity(count_max),
            count_max,
        }
    }

    fn room(&self) -> usize {
        self.count_max - self.in_order.len() - self.early.len()
    }

    fn is_empty(&self) -> bool {
        self.in_order.is_empty() && self.early.is_empty()
    }

    fn push(&mut self, query: Query) {
        match self.in_order.back() {
            Some(last) if last.due > query.due => self.early.push(Reverse(ByDue(query))),
            _ => self.in_order.push_back(query),
        }
    }

    /// Whether the next one stands in the heap.
    fn is_early_next(&self) -> bool {
        match (self.early.peek(), self.in_order.front()) {
            (Some(Reverse(ByDue(early))), Some(front)) => early.due < front.due,
            (early, _) => early.is_some(),
        }
    }

    fn peek(&self) -> Option<&Query> {
        if self.is_early_next() {
            self.early.peek().map(|Reverse(ByDue(query))| query)
        } else {
            self.in_order.front()
        }
    }

    fn pop(&mut self) -> Option<Query> {
        if self.is_early_next() {
            self.early.pop().map(|Reverse(ByDue(query))| query)
        } else {
            self.in_order.pop_front()
        }
    }
}

#[cfg(test)]
mod tests {
    use ridgeline_wire::http1::{Method, RequestOptions};
    use ridgeline_wire::openai::EndpointType;

    use super::*;

    fn query(id: u64, due: u64) -> Query {
        let head = RequestTemplate::new(&RequestOptions {
            method: Method::Post,
            target: "/",
            host: "h",
            accept: "*/*",
            api_key: None,
            id_prefix: "",
            headers: &[],
        });
        Query {
            id,
            due: Nanos(due),
            heads: Arc::new([head.unwrap()]),
            body: Bytes::new(),
            asked: Asked {
                endpoint: EndpointType::Chat,
                streaming: true,
                save_text: false,
            },
        }
    }

    #[test]
    fn a_backlog_gives_what_is_due_first_and_keeps_ties_in_order() {
        let mut backlog = Backlog::new(8);
        for (id, due) in [(1, 5), (2, 5), (3, 9), (4, 2), (5, 7), (6, 9), (7, 2)] {
            backlog.push(query(id, due));
        }
        assert_eq!(backlog.room(), 1);
        let mut ids = Vec::new();
        while let Some(next) = backlog.peek().map(|query| query.id) {
            assert_eq!(backlog.pop().unwrap().id, next);
            ids.push(next);
        }
        assert_eq!(ids, [4, 7, 1, 2, 5, 3, 6]);
        assert!(backlog.is_empty() && backlog.pop().is_none());
    }

    #[test]
    fn a_full_ring_gives_the_query_back_and_an_empty_one_lets_the_shard_sleep() {
        let told = Arc::new(Bell::default());
        let (mut supply, mut feed, outlet) = feed(2, 1, told);
        let results = feed.results.take().unwrap();
        assert!(feed.settle(&results, 0));
        for id in 0..2 {
            supply.push(query(id, 0)).unwrap();
        }
        assert_eq!(supply.push(query(9, 0)).unwrap_err().id, 9);
        assert!(!feed.settle(&results, 0), "queries came");
        feed.pull();
        assert!(feed.settle(&results, 0));
        // The backlog is as full as was agreed on: what comes waits in the ring, and is no news.
        supply.push(query(2, 0)).unwrap();
        feed.pull();
        assert!(feed.settle(&results, 0));
        drop(supply);
        assert!(!feed.is_over() && !outlet.is_over());
        for slot in [0, 0, 0] {
            assert!(feed.place(slot).is_some());
            feed.pull();
        }
        assert!(feed.is_over());
        drop((feed, results));
        assert!(outlet.is_over());
    }
}
