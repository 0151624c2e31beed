//! Gaps between content events, held back until their request is known to have succeeded.
//!
//! A log is a list of 32-bit words in blocks of a bounded pool:
//!
//! ```text
//! 0                          padding to the end of the block
//! 0 gap:31                   one event, its token count 1 or unknown, after 1 ns .. 2.1 s
//! 10 events:30               that many events without a gap, token counts 1 or unknown
//! 110 tokens:29  gap:32      one event of so many tokens
//! 111 tokens:29  high low    the same with a gap that needs 64 bits
//! ```
//!
//! An entry never straddles blocks. The run of events without a gap that is being counted lies in the
//! log itself: a read that brings a thousand events costs one addition and, later, one word.

use ridgeline_clock::Nanos;
use serde::{Deserialize, Serialize};

use crate::{Distribution, Phase};

const BLOCK_WORDS: usize = 32;
/// An entry has at most three words: a fresh block takes any.
const _: () = assert!(BLOCK_WORDS >= 3);
const NO_BLOCK: u32 = u32::MAX;
const RUN: u32 = 0b10 << 30;
const COUNTED: u32 = 0b110 << 29;
const COUNTED_WIDE: u32 = 0b111 << 29;
const RUN_MAX: u32 = (1 << 30) - 1;
const TOKENS_MAX: u32 = (1 << 29) - 1;

/// The blocks that the [`GapLog`]s of one shard borrow. Taken once, never grown.
#[derive(Debug)]
pub struct GapPool {
    words: Vec<u32>,
    /// For each block the one after it, in its log or in the list of free ones.
    next: Vec<u32>,
    free: u32,
    free_count: u32,
}

impl GapPool {
    /// Bytes of memory for each block, which holds up to 32 gaps.
    pub const BLOCK_BYTES: usize = (BLOCK_WORDS + 1) * size_of::<u32>();

    /// A pool of `blocks`, all free. With 0 blocks every gap is committed at once.
    #[must_use]
    pub fn new(blocks: u32) -> Self {
        let next = (1..blocks)
            .chain((blocks > 0).then_some(NO_BLOCK))
            .collect();
        let free = if blocks > 0 { 0 } else { NO_BLOCK };
        Self {
            words: vec![0; blocks as usize * BLOCK_WORDS],
            next,
            free,
            free_count: blocks,
        }
    }

    /// How many blocks hold the gaps of `streams` streams of up to `events` events each.
    #[must_use]
    pub fn blocks_for(streams: u32, events: u32) -> u32 {
        streams.saturating_mul(events.div_ceil(low(BLOCK_WORDS as u64)))
    }

    /// How many blocks are free.
    #[must_use]
    pub fn free_blocks(&self) -> u32 {
        self.free_count
    }

    fn take(&mut self) -> Option<u32> {
        let block = self.free;
        self.free = *self.next.get(block as usize)?;
        self.free_count -= 1;
        self.next[block as usize] = NO_BLOCK;
        Some(block)
    }

    fn give_back(&mut self, block: u32) {
        self.next[block as usize] = self.free;
        self.free = block;
        self.free_count += 1;
    }

    fn block(&self, block: u32) -> &[u32] {
        &self.words[block as usize * BLOCK_WORDS..][..BLOCK_WORDS]
    }
}

/// Gaps of requests that succeeded, pooled over requests: the sources of ITL and ICL.
///
/// Most events carry one token, or a number that nobody knows: such a gap is the same sample of both,
/// and is recorded once.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Gaps {
    /// Before events of one token, or of an unknown number.
    single: Distribution,
    /// Before events known to carry another number of tokens.
    chunks: Distribution,
    /// The gaps of `chunks`, spread over their tokens.
    tokens: Distribution,
    /// Gaps pooled before their request ended, because the pool was empty.
    pub(crate) committed_early: u64,
}

impl Gaps {
    pub(crate) fn merge(&mut self, other: &Self) {
        self.single.merge(&other.single);
        self.chunks.merge(&other.chunks);
        self.tokens.merge(&other.tokens);
        self.committed_early += other.committed_early;
    }

    /// Whether ITL and ICL are the same samples, those of [`Gaps::single`].
    pub(crate) fn all_single(&self) -> Option<&Distribution> {
        self.chunks.is_empty().then_some(&self.single)
    }

    pub(crate) fn itl(&self) -> Distribution {
        let mut all = self.single.clone();
        all.merge(&self.tokens);
        all
    }

    pub(crate) fn icl(&self) -> Distribution {
        let mut all = self.single.clone();
        all.merge(&self.chunks);
        all
    }

    pub(crate) fn bytes(&self) -> usize {
        3 * self.single.bytes()
    }

    /// `events` events of one token each, the first after `gap_ns` and the others with it.
    fn single(&mut self, carry_ns: &mut u64, gap_ns: u64, events: u32) {
        let mut rest = u64::from(events);
        if *carry_ns > 0 {
            self.counted(carry_ns, gap_ns, 1);
            rest -= 1;
        } else if gap_ns > 0 {
            self.single.record(Nanos(gap_ns));
            rest -= 1;
        }
        self.single.record_n(Nanos::ZERO, rest);
    }

    /// One event of `tokens` tokens. The gap before an event of none (text whose tokens the server
    /// counts with the next event) is carried to the next token: no time is lost from ITL.
    fn counted(&mut self, carry_ns: &mut u64, gap_ns: u64, tokens: u32) {
        self.chunks.record(Nanos(gap_ns));
        let spread_ns = gap_ns.saturating_add(std::mem::take(carry_ns));
        if tokens == 0 {
            *carry_ns = spread_ns;
            return;
        }
        // Whole nanoseconds that add up to the gap.
        let tokens = u64::from(tokens);
        let (each_ns, longer) = (spread_ns / tokens, spread_ns % tokens);
        self.tokens.record_n(Nanos(each_ns), tokens - longer);
        self.tokens.record_n(Nanos(each_ns + 1), longer);
    }
}

/// The content events of one request in flight: the gaps between them, staged.
///
/// Filled by [`crate::Collector::content`], emptied by [`crate::Collector::finished`]. A log that is
/// dropped with gaps in it keeps its blocks from the pool: let each request finish.
#[derive(Debug)]
pub struct GapLog {
    head: u32,
    tail: u32,
    /// Words used in the tail block. INVARIANT: `used <= BLOCK_WORDS`.
    used: u32,
    /// Events without a gap, not yet written.
    run: u32,
    /// Staged events, those of `run` included.
    staged: u64,
    /// Time of events of no token, to be added to the next gap when it is committed.
    carry_ns: u64,
    first: Nanos,
    last: Nanos,
    events: u32,
    first_event_tokens: Option<u32>,
    tokens_after_first: u64,
    /// Whether gaps count: not in the warm-up.
    measured: bool,
}

impl Default for GapLog {
    fn default() -> Self {
        Self::new()
    }
}

impl GapLog {
    /// An empty log, which borrows nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self {
            head: NO_BLOCK,
            tail: NO_BLOCK,
            used: 0,
            run: 0,
            staged: 0,
            carry_ns: 0,
            first: Nanos::ZERO,
            last: Nanos::ZERO,
            events: 0,
            first_event_tokens: None,
            tokens_after_first: 0,
            measured: false,
        }
    }

    /// Begins a request: forgets what was there and gives its blocks back.
    pub fn begin(&mut self, pool: &mut GapPool, phase: Phase) {
        self.clear(pool);
        self.measured = phase == Phase::Measured;
    }

    /// Content events so far.
    #[must_use]
    pub fn events(&self) -> u32 {
        self.events
    }

    /// Tokens of the first content event, when it said so.
    #[must_use]
    pub fn first_event_tokens(&self) -> Option<u32> {
        self.first_event_tokens
    }

    /// The mean ITL of this request, ns; `None` below two events.
    #[must_use]
    pub fn itl_mean(&self) -> Option<f64> {
        let tokens = self.tokens_after_first;
        (tokens > 0).then(|| (self.last - self.first).0 as f64 / tokens as f64)
    }

    /// The mean ICL of this request, ns; `None` below two events.
    #[must_use]
    pub fn icl_mean(&self) -> Option<f64> {
        (self.events > 1).then(|| (self.last - self.first).0 as f64 / f64::from(self.events - 1))
    }

    /// `count` events came at `at`, their token counts unknown.
    #[inline]
    pub(crate) fn events_at(&mut self, gaps: &mut Gaps, pool: &mut GapPool, at: Nanos, count: u32) {
        if count == 0 {
            return;
        }
        let mut zeros = count - 1;
        if self.events == 0 {
            (self.first, self.last) = (at, at);
        } else {
            self.tokens_after_first += 1;
            match self.gap_to(at) {
                0 => zeros = count,
                gap_ns @ 1..0x8000_0000 => self.stage(gaps, pool, &[low(gap_ns)], gap_ns, 1),
                gap_ns => self.stage_counted(gaps, pool, gap_ns, 1),
            }
        }
        self.tokens_after_first += u64::from(count - 1);
        self.events = self.events.saturating_add(count);
        self.zeros(gaps, pool, zeros);
    }

    /// One event of `tokens` tokens came at `at`.
    #[inline]
    pub(crate) fn event_at(&mut self, gaps: &mut Gaps, pool: &mut GapPool, at: Nanos, tokens: u32) {
        if self.events == 0 {
            self.first_event_tokens = Some(tokens);
            (self.first, self.last, self.events) = (at, at, 1);
        } else if tokens == 1 {
            self.events_at(gaps, pool, at, 1);
        } else {
            let gap_ns = self.gap_to(at);
            self.tokens_after_first += u64::from(tokens);
            self.events = self.events.saturating_add(1);
            self.stage_counted(gaps, pool, gap_ns, tokens.min(TOKENS_MAX));
        }
    }

    /// Pools the staged gaps and gives the blocks back: the request succeeded.
    pub(crate) fn commit(&mut self, gaps: &mut Gaps, pool: &mut GapPool) {
        let mut block = self.head;
        while block != NO_BLOCK {
            let used = if block == self.tail {
                self.used as usize
            } else {
                BLOCK_WORDS
            };
            read_block(&pool.block(block)[..used], gaps, &mut self.carry_ns);
            block = pool.next[block as usize];
        }
        if self.run > 0 {
            gaps.single(&mut self.carry_ns, 0, self.run);
        }
        self.release(pool);
    }

    /// Forgets everything: the request failed, or was not measured.
    pub(crate) fn clear(&mut self, pool: &mut GapPool) {
        self.release(pool);
        *self = Self::new();
    }

    fn release(&mut self, pool: &mut GapPool) {
        while self.head != NO_BLOCK {
            let next = pool.next[self.head as usize];
            pool.give_back(self.head);
            self.head = next;
        }
        (self.tail, self.used, self.run, self.staged) = (NO_BLOCK, 0, 0, 0);
    }

    /// The gap before an event at `at`, which becomes the last. Stamps that go back count as 0.
    fn gap_to(&mut self, at: Nanos) -> u64 {
        let gap = at - self.last;
        self.last = self.last.max(at);
        gap.0
    }

    #[inline]
    fn zeros(&mut self, gaps: &mut Gaps, pool: &mut GapPool, count: u32) {
        if count == 0 || !self.measured {
            return;
        }
        if count > RUN_MAX - self.run && !self.write_run(pool) {
            self.commit_early(gaps, pool);
        }
        let fits = count.min(RUN_MAX - self.run);
        self.run += fits;
        self.staged += u64::from(fits);
        if count > fits {
            self.zeros(gaps, pool, count - fits);
        }
    }

    fn stage_counted(&mut self, gaps: &mut Gaps, pool: &mut GapPool, gap_ns: u64, tokens: u32) {
        match u32::try_from(gap_ns) {
            Ok(gap) => self.stage(gaps, pool, &[COUNTED | tokens, gap], gap_ns, tokens),
            Err(_) => {
                let words = [COUNTED_WIDE | tokens, low(gap_ns >> 32), low(gap_ns)];
                self.stage(gaps, pool, &words, gap_ns, tokens);
            }
        }
    }

    /// Writes one entry; when no block is free, pools what is staged before its time.
    #[inline]
    fn stage(
        &mut self,
        gaps: &mut Gaps,
        pool: &mut GapPool,
        words: &[u32],
        gap_ns: u64,
        tokens: u32,
    ) {
        if !self.measured {
            return;
        }
        if self.write_run(pool) && self.write(pool, words) {
            self.staged += 1;
            return;
        }
        self.commit_early(gaps, pool);
        if self.write(pool, words) {
            self.staged += 1;
            return;
        }
        gaps.committed_early += 1;
        if tokens == 1 {
            gaps.single(&mut self.carry_ns, gap_ns, 1);
        } else {
            gaps.counted(&mut self.carry_ns, gap_ns, tokens);
        }
    }

    #[cold]
    fn commit_early(&mut self, gaps: &mut Gaps, pool: &mut GapPool) {
        gaps.committed_early += self.staged;
        self.commit(gaps, pool);
    }

    fn write_run(&mut self, pool: &mut GapPool) -> bool {
        let written = self.run == 0 || self.write(pool, &[RUN | self.run]);
        if written {
            self.run = 0;
        }
        written
    }

    fn write(&mut self, pool: &mut GapPool, words: &[u32]) -> bool {
        if self.tail == NO_BLOCK || self.used as usize + words.len() > BLOCK_WORDS {
            let Some(block) = pool.take() else {
                return false;
            };
            if self.tail == NO_BLOCK {
                self.head = block;
            } else {
                let start = self.tail as usize * BLOCK_WORDS;
                pool.words[start + self.used as usize..start + BLOCK_WORDS].fill(0);
                pool.next[self.tail as usize] = block;
            }
            (self.tail, self.used) = (block, 0);
        }
        let start = self.tail as usize * BLOCK_WORDS + self.used as usize;
        pool.words[start..start + words.len()].copy_from_slice(words);
        self.used += low(words.len() as u64);
        true
    }
}

fn read_block(words: &[u32], gaps: &mut Gaps, carry_ns: &mut u64) {
    let mut words = words.iter().copied();
    while let Some(word) = words.next() {
        match word {
            0 => return,
            1..RUN => gaps.single(carry_ns, u64::from(word), 1),
            RUN..COUNTED => gaps.single(carry_ns, 0, word & RUN_MAX),
            _ => {
                let mut gap_ns = u64::from(words.next().unwrap_or(0));
                if word >= COUNTED_WIDE {
                    gap_ns = gap_ns << 32 | u64::from(words.next().unwrap_or(0));
                }
                match word & TOKENS_MAX {
                    1 => gaps.single(carry_ns, gap_ns, 1),
                    tokens => gaps.counted(carry_ns, gap_ns, tokens),
                }
            }
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the low half is what is asked for"
)]
fn low(word: u64) -> u32 {
    word as u32
}
