//! Who runs, who waits, and who is turned away.

use std::collections::HashMap;
use std::num::NonZeroU32;
use std::rc::Rc;

use ridgeline_clock::Nanos;
use ridgeline_net::Token;
use ridgeline_schedule::Source;

use super::blocks::{Blocks, Hold, Room};
use super::load::LoadFactor;
use super::{KvCache, Latency, PaceConfig, Prefill, TokensPerEvent};
use crate::refusal::Refusal;
use crate::replay::Recording;

/// Names one request of a shard: its connection, and which request of that connection it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Ticket {
    pub(crate) token: Token,
    pub(crate) serial: u64,
}

/// What a request asks of a replica.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Want<'a> {
    pub(crate) prompt_tokens: u32,
    /// Of each sequence.
    pub(crate) output_tokens: u32,
    /// Choices: each is a sequence of its own.
    pub(crate) sequences: u32,
    /// For each full block of the prompt, a hash of all tokens up to its end.
    pub(crate) blocks: &'a [u64],
    /// The request's own seed: requests with the same one get the same times.
    pub(crate) seed: Option<u64>,
}

/// What becomes of a request that arrives.
#[derive(Debug)]
pub(crate) enum Admission {
    Run(Started),
    /// [`Replica::admit`] names it when it can run.
    Wait,
    /// It is not even queued.
    Refuse(Refusal),
}

/// A request that runs.
#[derive(Debug)]
pub(crate) struct Started {
    /// When it left the queue.
    pub(crate) at: Nanos,
    pub(crate) cached_tokens: u32,
    /// When its first token is due.
    pub(crate) first: Nanos,
    pub(crate) pace: Pace,
}

/// The times of an answer's events after the first.
#[derive(Clone, Debug)]
pub(crate) enum Pace {
    Modelled(Modelled),
    Recorded(Recording),
}

impl Pace {
    /// From one event's time to the next one's, while `running` sequences run.
    #[inline]
    pub(crate) fn gap(&mut self, running: u32) -> Nanos {
        match self {
            Self::Modelled(modelled) => modelled.gap(running),
            Self::Recorded(recording) => recording.gap(),
        }
    }

    /// How many tokens the next event brings, at least one unless the answer has none.
    #[inline]
    pub(crate) fn tokens(&mut self) -> u32 {
        match self {
            Self::Modelled(modelled) => modelled.tokens(),
            Self::Recorded(recording) => recording.tokens(),
        }
    }

    /// Whether gaps depend on what else runs, so that none can be known before its time.
    pub(crate) fn feels_load(&self) -> bool {
        match self {
            Self::Modelled(modelled) => !modelled.times.factor.is_one(),
            Self::Recorded(_) => false,
        }
    }
}

/// Times that are drawn.
#[derive(Clone, Debug)]
pub(crate) struct Modelled {
    times: Rc<Times>,
    source: Source,
    /// What rounding left of the gaps so far, ns: their sum is that of the exact gaps.
    rest_ns: f64,
}

impl Modelled {
    #[inline]
    fn gap(&mut self, running: u32) -> Nanos {
        let factor = self.times.factor.at(running);
        let exact_ns = self.times.gap.draw_ns(&mut self.source) * factor + self.rest_ns;
        let gap = floor(exact_ns);
        self.rest_ns = exact_ns - gap.0 as f64;
        gap
    }

    #[inline]
    fn tokens(&mut self) -> u32 {
        self.times.tokens_per_event.draw(&mut self.source)
    }
}

/// A span that is longer than the clock goes on for is as good as endless.
#[inline]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative, and a cast saturates"
)]
fn floor(ns: f64) -> Nanos {
    Nanos(ns as u64)
}

/// What decides the times of requests that start.
#[derive(Debug)]
struct Times {
    prefill: Prefill,
    gap: Latency,
    tokens_per_event: TokensPerEvent,
    factor: LoadFactor,
    seed: u64,
}

impl Times {
    fn new(config: &PaceConfig) -> Self {
        Self {
            prefill: config.prefill,
            gap: config.gap,
            tokens_per_event: config.tokens_per_event,
            factor: LoadFactor::new(config.factor_under_load, config.sequences_max),
            seed: config.seed,
        }
    }

    /// The random numbers of request number `number`, or of a seed of the request's own.
    fn source(&self, seed: Option<u64>, number: u64) -> Source {
        match seed {
            // Not the streams of requests without: seed 3 is not request 3.
            Some(seed) => Source::new(!self.seed, seed),
            None => Source::new(self.seed, number),
        }
    }
}

/// One model replica with a queue: what a shard of the server plays. It knows no clock.
///
/// A request takes one of the `sequences_max` places for each of its choices (all of them, if it has
/// more) and the KV blocks of its prompt and of all it may answer. Where one of both is missing it
/// waits, and whoever comes later waits behind it.
#[derive(Debug)]
pub(crate) struct Replica {
    times: Rc<Times>,
    sequences_max: Option<NonZeroU32>,
    waiting_max: Option<u32>,
    kv: Option<Blocks>,
    kv_config: Option<KvCache>,
    /// How often the KV memory was replaced.
    kv_number: u32,
    members: Vec<Member>,
    /// Where in `members` they are.
    seats: HashMap<Ticket, u32>,
    /// Members that are not in use.
    spare: Vec<u32>,
    /// The queue, a list through `members`.
    first: u32,
    last: u32,
    waiting: u32,
    /// Sequences, not requests.
    running: u32,
    /// Requests so far: the number of each one's stream of random numbers.
    arrived: u64,
    /// When room was last made.
    freed: Nanos,
}

const NONE: u32 = u32::MAX;

/// A request that runs or waits, or room for one.
#[derive(Debug)]
struct Member {
    ticket: Ticket,
    sequences: u32,
    state: State,
    hold: Hold,
    /// The number of the KV memory that it holds blocks of.
    kv_number: u32,
    /// What it asked for, while it waits.
    wish: Option<Wish>,
    /// Its neighbours in the queue.
    before: u32,
    behind: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting,
    Running,
}

#[derive(Debug)]
struct Wish {
    prompt_tokens: u32,
    output_tokens: u32,
    blocks: Vec<u64>,
    source: Source,
    arrived: Nanos,
}

impl Replica {
    /// A replica that does nothing yet. `shard` keeps the random numbers of replicas apart.
    pub(crate) fn new(config: &PaceConfig, shard: usize) -> Self {
        Self {
            times: Rc::new(Times::new(config)),
            sequences_max: config.sequences_max,
            waiting_max: config.waiting_max,
            kv: config.kv_cache.map(Blocks::new),
            kv_config: config.kv_cache,
            kv_number: 0,
            members: Vec::new(),
            seats: HashMap::new(),
            spare: Vec::new(),
            first: NONE,
            last: NONE,
            waiting: 0,
            running: 0,
            arrived: (shard as u64) << 40,
            freed: Nanos::ZERO,
        }
    }

    /// What starts from now on does so by `config`. If that has another KV memory, it is an empty
    /// one: what runs does not count in it.
    pub(crate) fn take_up(&mut self, config: &PaceConfig) {
        self.times = Rc::new(Times::new(config));
        self.sequences_max = config.sequences_max;
        self.waiting_max = config.waiting_max;
        if self.kv_config != config.kv_cache {
            self.kv = config.kv_cache.map(Blocks::new);
            self.kv_config = config.kv_cache;
            self.kv_number += 1;
        }
    }

    /// A request that was complete `at`.
    pub(crate) fn arrive(&mut self, ticket: Ticket, want: &Want<'_>, at: Nanos) -> Admission {
        let sequences = want.sequences.clamp(1, self.places());
        let room = Room {
            prompt_tokens: want.prompt_tokens,
            output_tokens: want.output_tokens,
            sequences,
            prefixes: want.blocks,
        };
        if self.kv.as_ref().is_some_and(|kv| !kv.can_ever_fit(room)) {
            return Admission::Refuse(never_fits());
        }
        let source = self.times.source(want.seed, self.arrived);
        self.arrived += 1;
        if self.waiting == 0
            && let Some(hold) = self.take(room)
        {
            let started = self.start(hold.cached_tokens, want.prompt_tokens, source, at);
            let index = self.member(ticket, sequences, State::Running);
            self.members[index as usize].hold = hold;
            return Admission::Run(started);
        }
        if self.waiting_max.is_some_and(|max| self.waiting >= max) {
            return Admission::Refuse(queue_full(self.waiting));
        }
        let wish = Wish {
            prompt_tokens: want.prompt_tokens,
            output_tokens: want.output_tokens,
            blocks: want.blocks.to_vec(),
            source,
            arrived: at,
        };
        self.queue(ticket, sequences, wish);
        Admission::Wait
    }

    /// A request is done, failed or gone: running or waiting, it makes room. `at` is when its last
    /// token was due, for one that is done: who starts in its place is not late because a turn was.
    /// Whoever was refused, or has left, is not known any more.
    pub(crate) fn leave(&mut self, ticket: Ticket, at: Nanos) {
        let Some(index) = self.seats.remove(&ticket) else {
            return;
        };
        let member = &mut self.members[index as usize];
        let hold = std::mem::take(&mut member.hold);
        match member.state {
            State::Running => {
                self.running -= member.sequences;
                if member.kv_number == self.kv_number
                    && let Some(kv) = &mut self.kv
                {
                    kv.give_back(hold);
                }
            }
            State::Waiting => {
                member.wish = None;
                self.unlink(index);
            }
        }
        self.freed = at;
        self.spare.push(index);
    }

    /// The first of the queue, if it can run. To be asked after every [`Replica::leave`], until there
    /// is none.
    pub(crate) fn admit(&mut self) -> Option<(Ticket, Started)> {
        let (index, places) = (self.first, self.places());
        let member = self.members.get_mut(index as usize)?;
        let wish = member.wish.as_ref()?;
        // Places and memory may be fewer than when it came.
        member.sequences = member.sequences.min(places);
        let mut room = Room {
            prompt_tokens: wish.prompt_tokens,
            output_tokens: wish.output_tokens,
            sequences: member.sequences,
            prefixes: &wish.blocks,
        };
        if self.kv.as_ref().is_some_and(|kv| !kv.can_ever_fit(room)) {
            (room.prompt_tokens, room.output_tokens) = (0, 0);
        }
        let hold = fit(
            self.sequences_max,
            &mut self.running,
            self.kv.as_mut(),
            room,
        )?;
        self.unlink(index);
        let member = &mut self.members[index as usize];
        let cached_tokens = hold.cached_tokens;
        (member.state, member.hold) = (State::Running, hold);
        member.kv_number = self.kv_number;
        let (ticket, wish) = (member.ticket, member.wish.take()?);
        let at = self.freed.max(wish.arrived);
        Some((
            ticket,
            self.start(cached_tokens, wish.prompt_tokens, wish.source, at),
        ))
    }

    /// Sequences that run now: a request counts once for each of its choices.
    pub(crate) fn running(&self) -> u32 {
        self.running
    }

    /// Requests that wait now.
    pub(crate) fn waiting(&self) -> u32 {
        self.waiting
    }

    /// The part of the KV blocks that running requests hold, millionths; 0 where there is no limit.
    pub(crate) fn kv_usage_ppm(&self) -> u64 {
        self.kv.as_ref().map_or(0, Blocks::usage_ppm)
    }

    /// Tokens of prompts looked up in the prefix cache, and those found there.
    pub(crate) fn prefix_tokens(&self) -> (u64, u64) {
        let kv = self.kv.as_ref();
        kv.map_or((0, 0), |kv| (kv.queried_tokens, kv.hit_tokens))
    }

    fn places(&self) -> u32 {
        self.sequences_max.map_or(u32::MAX, NonZeroU32::get)
    }

    fn take(&mut self, room: Room<'_>) -> Option<Hold> {
        fit(
            self.sequences_max,
            &mut self.running,
            self.kv.as_mut(),
            room,
        )
    }

    /// A request begins to run at `at`; it counts among those that run already.
    fn start(
        &self,
        cached_tokens: u32,
        prompt_tokens: u32,
        mut source: Source,
        at: Nanos,
    ) -> Started {
        let uncached_tokens = prompt_tokens - cached_tokens.min(prompt_tokens);
        let prefill_ns = self.times.prefill.draw_ns(uncached_tokens, &mut source);
        let factor = self.times.factor.at(self.running);
        Started {
            at,
            cached_tokens,
            first: at + floor(prefill_ns * factor),
            pace: Pace::Modelled(Modelled {
                times: Rc::clone(&self.times),
                source,
                rest_ns: 0.0,
            }),
        }
    }

    /// A member's place, to be filled.
    fn member(&mut self, ticket: Ticket, sequences: u32, state: State) -> u32 {
        let member = Member {
            ticket,
            sequences,
            state,
            hold: Hold::default(),
            kv_number: self.kv_number,
            wish: None,
            before: NONE,
            behind: NONE,
        };
        let index = match self.spare.pop() {
            Some(index) => {
                self.members[index as usize] = member;
                index
            }
            None => {
                self.members.push(member);
                u32::try_from(self.members.len() - 1).expect("fewer than u32 requests at a time")
            }
        };
        self.seats.insert(ticket, index);
        index
    }

    fn queue(&mut self, ticket: Ticket, sequences: u32, wish: Wish) {
        let index = self.member(ticket, sequences, State::Waiting);
        let last = std::mem::replace(&mut self.last, index);
        let member = &mut self.members[index as usize];
        member.wish = Some(wish);
        (member.before, member.behind) = (last, NONE);
        match self.members.get_mut(last as usize) {
            Some(last) => last.behind = index,
            None => self.first = index,
        }
        self.waiting += 1;
    }

    fn unlink(&mut self, index: u32) {
        let Member { before, behind, .. } = self.members[index as usize];
        match self.members.get_mut(before as usize) {
            Some(member) => member.behind = behind,
            None => self.first = behind,
        }
        match self.members.get_mut(behind as usize) {
            Some(member) => member.before = before,
            None => self.last = before,
        }
        self.waiting -= 1;
    }
}

fn never_fits() -> Refusal {
    Refusal::invalid(
        None,
        "The prompt and the answer need more KV blocks than there are",
    )
}

/// How long to wait is not known: requests differ. A second is what servers say.
const RETRY_AFTER_S: u64 = 1;

fn queue_full(waiting: u32) -> Refusal {
    let message = format!("{waiting} requests are waiting already, and no more may");
    Refusal::later(429, message, RETRY_AFTER_S)
}

/// Takes places and blocks for a request, all or none.
fn fit(
    sequences_max: Option<NonZeroU32>,
    running: &mut u32,
    kv: Option<&mut Blocks>,
    room: Room<'_>,
) -> Option<Hold> {
    let then = running.checked_add(room.sequences)?;
    if sequences_max.is_some_and(|max| then > max.get()) {
        return None;
    }
    let hold = match kv {
        Some(kv) => kv.take(room)?,
        None => Hold::default(),
    };
    *running = then;
    Some(hold)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pace::Law;
    use proptest::prelude::*;

    fn ticket(serial: u64) -> Ticket {
        let token = Token {
            index: 0,
            generation: 0,
        };
        Ticket { token, serial }
    }

    fn want(sequences: u32) -> Want<'static> {
        Want {
            prompt_tokens: 10,
            output_tokens: 5,
            sequences,
            blocks: &[],
            seed: None,
        }
    }

    fn places(sequences_max: u32, waiting_max: Option<u32>) -> PaceConfig {
        PaceConfig {
            sequences_max: NonZeroU32::new(sequences_max),
            waiting_max,
            ..PaceConfig::default()
        }
    }

    fn run(admission: Admission) -> Started {
        match admission {
            Admission::Run(started) => started,
            other => panic!("{other:?}"),
        }
    }

    fn status(admission: Admission) -> u16 {
        match admission {
            Admission::Run(_) => 200,
            Admission::Wait => 100,
            Admission::Refuse(refusal) => refusal.status,
        }
    }

    const MS: Nanos = Nanos::from_millis(1);

    #[test]
    fn who_waits_starts_when_room_is_made_and_not_when_it_is_noticed() {
        let mut replica = Replica::new(&places(1, Some(1)), 0);
        let started = run(replica.arrive(ticket(0), &want(1), MS));
        assert_eq!((started.at, started.first), (MS, MS * 21));
        assert_eq!(status(replica.arrive(ticket(1), &want(1), MS * 2)), 100);
        assert!(replica.admit().is_none());
        let refused = replica.arrive(ticket(2), &want(1), MS * 3);
        assert_eq!(status(refused), 429);
        // It is not known, and leaves nothing behind.
        replica.leave(ticket(2), MS * 3);
        assert_eq!((replica.running(), replica.waiting()), (1, 1));
        replica.leave(ticket(0), MS * 40);
        let (who, started) = replica.admit().unwrap();
        assert_eq!(
            (who, started.at, started.first),
            (ticket(1), MS * 40, MS * 60)
        );
        assert_eq!((replica.running(), replica.waiting()), (1, 0));
        // Room that was made before a request came does not start it earlier.
        replica.leave(ticket(1), MS * 50);
        let started = run(replica.arrive(ticket(3), &want(1), MS * 70));
        assert_eq!(started.at, MS * 70);
        replica.leave(ticket(3), MS * 71);
        assert_eq!(replica.running(), 0);
    }

    #[test]
    fn whoever_is_gone_is_skipped_wherever_it_waited() {
        let mut replica = Replica::new(&places(1, None), 0);
        run(replica.arrive(ticket(0), &want(1), MS));
        for serial in 1..6 {
            assert_eq!(status(replica.arrive(ticket(serial), &want(1), MS)), 100);
        }
        for gone in [1, 3, 5] {
            replica.leave(ticket(gone), MS);
        }
        replica.leave(ticket(0), MS * 2);
        assert_eq!(replica.admit().unwrap().0, ticket(2));
        assert!(replica.admit().is_none());
        replica.leave(ticket(2), MS * 3);
        assert_eq!(replica.admit().unwrap().0, ticket(4));
        replica.leave(ticket(4), MS * 4);
        assert!(replica.admit().is_none());
        assert_eq!((replica.running(), replica.waiting()), (0, 0));
    }

    #[test]
    fn every_choice_takes_a_place_and_more_than_there_are_take_all() {
        let mut replica = Replica::new(&places(4, None), 0);
        run(replica.arrive(ticket(0), &want(3), MS));
        assert_eq!(status(replica.arrive(ticket(1), &want(2), MS)), 100);
        // It would fit, but others came before it.
        assert_eq!(status(replica.arrive(ticket(2), &want(1), MS)), 100);
        assert_eq!(status(replica.arrive(ticket(3), &want(9), MS)), 100);
        replica.leave(ticket(0), MS * 2);
        assert_eq!(replica.admit().unwrap().0, ticket(1));
        assert_eq!(replica.admit().unwrap().0, ticket(2));
        assert!(replica.admit().is_none());
        assert_eq!(replica.running(), 3);
        replica.leave(ticket(1), MS * 3);
        assert!(replica.admit().is_none());
        replica.leave(ticket(2), MS * 3);
        assert_eq!(replica.admit().unwrap().0, ticket(3));
        assert_eq!(replica.running(), 4);
        replica.leave(ticket(3), MS * 4);
    }

    #[test]
    fn the_load_slows_the_first_token_once_and_gaps_at_each_token() {
        let config = PaceConfig {
            factor_under_load: 3.0,
            ..places(5, None)
        };
        let mut replica = Replica::new(&config, 0);
        let mut alone = run(replica.arrive(ticket(0), &want(1), Nanos::ZERO));
        assert_eq!(alone.first, MS * 20);
        let with_two = run(replica.arrive(ticket(1), &want(2), Nanos::ZERO));
        assert_eq!(with_two.first, MS * 40);
        assert!(alone.pace.feels_load());
        let gaps = [1, 2, 3, 5].map(|running| alone.pace.gap(running));
        let expected = [5_000, 7_500, 10_000, 15_000].map(Nanos::from_micros);
        assert_eq!(gaps, expected);
    }

    #[test]
    fn ten_thousand_gaps_sum_up_to_ten_thousand_times_the_mean() {
        let config = PaceConfig {
            gap: Latency::fixed(Nanos(1_000_003)),
            factor_under_load: 2.0,
            ..places(4, None)
        };
        let mut replica = Replica::new(&config, 0);
        let mut started = run(replica.arrive(ticket(0), &want(1), Nanos::ZERO));
        let sum = |running, pace: &mut Pace| {
            (0..10_000).fold(Nanos::ZERO, |sum, _| sum + pace.gap(running))
        };
        assert_eq!(sum(1, &mut started.pace), Nanos(10_000_030_000));
        // A factor of 4/3: no gap is a whole number, and still nothing is lost.
        let slow = sum(2, &mut started.pace).0;
        assert!(slow.abs_diff(13_333_373_333) <= 1, "{slow}");
    }

    #[test]
    fn times_depend_on_the_number_or_the_seed_of_a_request_alone() {
        let config = PaceConfig {
            prefill: Prefill::Whole(Latency::new(Law::Gamma, MS * 20, MS * 5).unwrap()),
            gap: Latency::new(Law::Lognormal, MS * 5, MS).unwrap(),
            tokens_per_event: TokensPerEvent::new(Law::Normal, 2.5, 0.5).unwrap(),
            ..PaceConfig::default()
        };
        let times = |replica: &mut Replica, seed| {
            let want = Want { seed, ..want(1) };
            let mut started = run(replica.arrive(ticket(0), &want, Nanos::ZERO));
            let events = (0..50).map(|_| (started.pace.tokens(), started.pace.gap(1)));
            (started.first, events.collect::<Vec<_>>())
        };
        let mut all = Vec::new();
        for (shard, seed) in [(0, 0), (0, 1), (1, 0)] {
            let mut replica = Replica::new(
                &PaceConfig {
                    seed,
                    ..config.clone()
                },
                shard,
            );
            all.extend((0..4).map(|_| times(&mut replica, None)));
            let own = times(&mut replica, Some(3));
            // Again, later: the same, whatever came between.
            assert_eq!(times(&mut replica, Some(3)), own);
            all.push(own);
            let mut again = Replica::new(
                &PaceConfig {
                    seed,
                    ..config.clone()
                },
                shard,
            );
            assert_eq!(times(&mut again, None), all[all.len() - 5]);
        }
        // A request's own seed means the same on every shard of a server.
        assert_eq!(all[4], all[14]);
        all.remove(14);
        for (index, one) in all.iter().enumerate() {
            assert!(all[..index].iter().all(|other| other != one), "{index}");
        }
    }

    #[test]
    fn a_request_waits_for_blocks_and_one_too_large_is_refused() {
        let config = PaceConfig {
            kv_cache: Some(KvCache {
                blocks: 10,
                block_tokens: 4,
                prefix_caching: true,
            }),
            ..PaceConfig::default()
        };
        let mut replica = Replica::new(&config, 0);
        let of = |prompt_tokens, output_tokens, blocks| Want {
            prompt_tokens,
            output_tokens,
            sequences: 1,
            blocks,
            seed: None,
        };
        assert_eq!(status(replica.arrive(ticket(0), &of(20, 21, &[]), MS)), 400);
        let started = run(replica.arrive(ticket(1), &of(12, 12, &[1, 2, 3]), MS));
        assert_eq!(
            (started.cached_tokens, replica.kv_usage_ppm()),
            (0, 600_000)
        );
        assert_eq!(
            status(replica.arrive(ticket(2), &of(16, 4, &[5, 6, 7, 8]), MS * 2)),
            100
        );
        // It would fit, but others came before it.
        assert_eq!(
            status(replica.arrive(ticket(3), &of(13, 3, &[1, 2, 3]), MS * 3)),
            100
        );
        replica.leave(ticket(1), MS * 9);
        let (who, started) = replica.admit().unwrap();
        assert_eq!((who, started.cached_tokens), (ticket(2), 0));
        let (who, started) = replica.admit().unwrap();
        assert_eq!(
            (who, started.cached_tokens, started.at),
            (ticket(3), 12, MS * 9)
        );
        assert_eq!(replica.prefix_tokens(), (12 + 16 + 13, 12));
        replica.leave(ticket(2), MS * 10);
        replica.leave(ticket(3), MS * 10);
        assert_eq!(replica.kv_usage_ppm(), 0);
    }

    #[test]
    fn what_changes_while_it_runs_counts_from_then_on() {
        let config = |sequences_max, blocks| PaceConfig {
            kv_cache: Some(KvCache {
                blocks,
                block_tokens: 4,
                prefix_caching: true,
            }),
            ..places(sequences_max, None)
        };
        let mut replica = Replica::new(&config(4, 10), 0);
        run(replica.arrive(ticket(0), &want(4), MS));
        assert_eq!(replica.kv_usage_ppm(), 1_000_000);
        for serial in 1..3 {
            assert_eq!(status(replica.arrive(ticket(serial), &want(4), MS)), 100);
        }
        // Fewer places than run, and less memory than one request needs.
        replica.take_up(&config(2, 3));
        assert!(replica.admit().is_none());
        assert_eq!((replica.running(), replica.kv_usage_ppm()), (4, 0));
        replica.leave(ticket(0), MS * 2);
        assert_eq!(replica.admit().unwrap().0, ticket(1));
        assert_eq!((replica.running(), replica.kv_usage_ppm()), (2, 0));
        assert_eq!(status(replica.arrive(ticket(3), &want(1), MS * 3)), 400);
        replica.leave(ticket(1), MS * 4);
        assert_eq!(replica.admit().unwrap().0, ticket(2));
        replica.leave(ticket(2), MS * 5);
        assert_eq!((replica.running(), replica.waiting()), (0, 0));
    }

    #[test]
    fn tokens_found_in_the_cache_are_not_computed() {
        let config = PaceConfig {
            prefill: Prefill::PerToken {
                overhead: MS,
                per_token: Nanos::from_micros(10),
                std_dev: Nanos::ZERO,
                law: Law::Normal,
            },
            kv_cache: Some(KvCache {
                blocks: 100,
                block_tokens: 16,
                prefix_caching: true,
            }),
            ..PaceConfig::default()
        };
        let mut replica = Replica::new(&config, 0);
        let want = Want {
            prompt_tokens: 100,
            output_tokens: 1,
            sequences: 1,
            blocks: &[1, 2, 3, 4, 5, 6],
            seed: None,
        };
        let cold = run(replica.arrive(ticket(0), &want, Nanos::ZERO));
        assert_eq!((cold.cached_tokens, cold.first), (0, Nanos::from_millis(2)));
        let warm = run(replica.arrive(ticket(1), &want, Nanos::ZERO));
        assert_eq!(
            (warm.cached_tokens, warm.first),
            (96, Nanos::from_micros(1_040))
        );
    }

    #[derive(Clone, Debug)]
    enum Op {
        Arrive(u32),
        Leave(prop::sample::Index),
    }

    fn op() -> impl Strategy<Value = Op> {
        prop_oneof![
            (1_u32..5).prop_map(Op::Arrive),
            any::<prop::sample::Index>().prop_map(Op::Leave),
        ]
    }

    proptest! {
        #[test]
        fn behaves_like_a_list_of_who_waits(
            places_max in 1_u32..6,
            waiting_max in proptest::option::of(0_u32..4),
            ops in proptest::collection::vec(op(), 0..150),
        ) {
            let mut replica = Replica::new(&places(places_max, waiting_max), 0);
            // The naive ones: who runs, who waits, and how many places each takes.
            let mut running: Vec<(u64, u32)> = Vec::new();
            let mut waiting: Vec<(u64, u32)> = Vec::new();
            let mut known: Vec<u64> = Vec::new();
            for (number, op) in ops.into_iter().enumerate() {
                let number = number as u64;
                let taken = |running: &[(u64, u32)]| running.iter().map(|one| one.1).sum::<u32>();
                let now = MS * (number + 1);
                match op {
                    Op::Arrive(sequences) => {
                        let takes = sequences.min(places_max);
                        let full = waiting_max.is_some_and(|max| waiting.len() >= max as usize);
                        match replica.arrive(ticket(number), &want(sequences), now) {
                            Admission::Run(started) => {
                                prop_assert!(waiting.is_empty());
                                running.push((number, takes));
                                prop_assert!(taken(&running) <= places_max);
                                prop_assert_eq!(started.at, now);
                                known.push(number);
                            }
                            Admission::Wait => {
                                let fits = taken(&running) + takes <= places_max;
                                prop_assert!(!fits || !waiting.is_empty());
                                prop_assert!(!full);
                                waiting.push((number, takes));
                                known.push(number);
                            }
                            Admission::Refuse(why) => {
                                prop_assert!(full && why.status == 429);
                            }
                        }
                    }
                    Op::Leave(index) if !known.is_empty() => {
                        let gone = known.swap_remove(index.index(known.len()));
                        replica.leave(ticket(gone), now);
                        running.retain(|one| one.0 != gone);
                        waiting.retain(|one| one.0 != gone);
                    }
                    Op::Leave(_) => {}
                }
                while let Some(next) = waiting.first().copied()
                    && taken(&running) + next.1 <= places_max
                {
                    let (who, started) = replica.admit().unwrap();
                    prop_assert_eq!(who, ticket(next.0));
                    prop_assert_eq!(started.at, now);
                    running.push(waiting.remove(0));
                }
                prop_assert!(replica.admit().is_none());
                prop_assert_eq!(replica.running(), taken(&running));
                prop_assert_eq!(replica.waiting() as usize, waiting.len());
            }
        }
    }
}
