//! Bytes of an unfinished unit (header line, event, JSON body), kept between two reads.
//!
//! A unit that lies in one read is never copied. One that reads split is copied once into the
//! connection's [`Carry`]: a small inline buffer, and for more a buffer borrowed from the shard's
//! [`CarryPool`], whose total is bounded. The pool counts the copies, so that "zero-copy" is a
//! number and not a claim.

use std::mem;

use thiserror::Error;

/// The pool has no room for a larger buffer; the bytes were not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("no carry memory is left")]
pub struct CarryFull;

/// The smallest buffer that the pool lends, bytes.
const LENT_BYTES_MIN: usize = 1024;

/// Buffers of one shard for units that outgrow the inline buffer of their connection.
///
/// Capacities are powers of two from 1 KiB. A buffer that comes back is kept for the next borrower, and freed
/// only when its memory is needed for another size.
#[derive(Debug)]
pub struct CarryPool {
    /// Buffers that came back, by the logarithm of their capacity.
    idle: Vec<Vec<Vec<u8>>>,
    idle_bytes: usize,
    lent_bytes: usize,
    /// INVARIANT: `idle_bytes + lent_bytes <= bytes_max`.
    bytes_max: usize,
    copies: u64,
    copied_bytes: u64,
    refused: u64,
}

impl CarryPool {
    /// A pool whose buffers, lent and idle, never exceed `bytes_max` bytes together. It starts
    /// empty.
    #[must_use]
    pub fn new(bytes_max: usize) -> Self {
        let mut idle = Vec::new();
        idle.resize_with(usize::BITS as usize, Vec::new);
        Self {
            idle,
            idle_bytes: 0,
            lent_bytes: 0,
            bytes_max,
            copies: 0,
            copied_bytes: 0,
            refused: 0,
        }
    }

    /// How many times received bytes were copied into a carry.
    #[must_use]
    pub fn copies(&self) -> u64 {
        self.copies
    }

    /// Bytes copied: those pushed, and those moved when a carry changed to a larger buffer.
    #[must_use]
    pub fn copied_bytes(&self) -> u64 {
        self.copied_bytes
    }

    /// How many times a larger buffer was refused because `bytes_max` was reached.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Bytes of the buffers that exist now, lent and idle.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.idle_bytes + self.lent_bytes
    }

    fn lend(&mut self, len: usize) -> Result<Vec<u8>, CarryFull> {
        let capacity = len.max(LENT_BYTES_MIN).checked_next_power_of_two();
        let Some(capacity) = capacity.filter(|&bytes| self.make_room(bytes)) else {
            self.refused += 1;
            return Err(CarryFull);
        };
        let buffer = if let Some(buffer) = self.idle[class(capacity)].pop() {
            self.idle_bytes -= buffer.capacity();
            buffer
        } else {
            Vec::with_capacity(capacity)
        };
        self.lent_bytes += buffer.capacity();
        Ok(buffer)
    }

    /// Whether a buffer of `capacity` bytes can be lent; idle ones of other sizes make way.
    fn make_room(&mut self, capacity: usize) -> bool {
        if !self.idle[class(capacity)].is_empty() {
            return true;
        }
        if capacity > self.bytes_max - self.lent_bytes {
            return false;
        }
        let spare = self.bytes_max - self.lent_bytes - capacity;
        for buffers in self.idle.iter_mut().rev() {
            while self.idle_bytes > spare
                && let Some(buffer) = buffers.pop()
            {
                self.idle_bytes -= buffer.capacity();
            }
        }
        true
    }

    fn take_back(&mut self, mut buffer: Vec<u8>) {
        buffer.clear();
        self.lent_bytes -= buffer.capacity();
        self.idle_bytes += buffer.capacity();
        self.idle[class(buffer.capacity())].push(buffer);
    }
}

fn class(capacity: usize) -> usize {
    capacity.ilog2() as usize
}

/// The unfinished unit of one connection. It has one user at a time: `http1` while a head is read,
/// then the event scanner or the JSON body.
///
/// A carry that borrowed from a pool is cleared into the same pool before it is dropped; else its
/// bytes count as lent for ever.
#[derive(Debug)]
pub struct Carry {
    bytes: Vec<u8>,
    /// The size of the inline buffer, which is there from its first use on.
    inline_bytes: usize,
    /// The inline buffer while `bytes` is a borrowed one.
    parked: Option<Vec<u8>>,
}

impl Carry {
    /// An empty carry that keeps up to `inline_bytes` without a pool. A connection whose reads cut nothing
    /// never needs them.
    #[must_use]
    pub fn new(inline_bytes: usize) -> Self {
        Self {
            bytes: Vec::new(),
            inline_bytes,
            parked: None,
        }
    }

    /// The bytes kept.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes
    }

    /// Whether nothing is kept.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Bytes kept.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Appends `bytes`, moving to a larger buffer of `pool` when the present one is too small.
    ///
    /// # Errors
    /// [`CarryFull`] when the pool's limit is reached; what was kept before stays as it was.
    #[inline]
    pub fn push(&mut self, pool: &mut CarryPool, bytes: &[u8]) -> Result<(), CarryFull> {
        if bytes.len() > self.bytes.capacity() - self.bytes.len() {
            self.grow(pool, bytes.len())?;
        }
        pool.copies += 1;
        pool.copied_bytes += bytes.len() as u64;
        self.bytes.extend_from_slice(bytes);
        Ok(())
    }

    /// Keeps only the first `len` bytes.
    pub(crate) fn truncate(&mut self, len: usize) {
        self.bytes.truncate(len);
    }

    /// Forgets the bytes and gives a borrowed buffer back.
    #[inline]
    pub fn clear(&mut self, pool: &mut CarryPool) {
        self.bytes.clear();
        if let Some(inline) = self.parked.take() {
            pool.take_back(mem::replace(&mut self.bytes, inline));
        }
    }

    #[cold]
    fn grow(&mut self, pool: &mut CarryPool, more: usize) -> Result<(), CarryFull> {
        let len = self.bytes.len().checked_add(more).ok_or(CarryFull)?;
        if self.bytes.capacity() == 0 && len <= self.inline_bytes {
            self.bytes.reserve_exact(self.inline_bytes);
            return Ok(());
        }
        let mut larger = pool.lend(len)?;
        larger.extend_from_slice(&self.bytes);
        pool.copied_bytes += self.bytes.len() as u64;
        let mut smaller = mem::replace(&mut self.bytes, larger);
        if self.parked.is_some() {
            pool.take_back(smaller);
        } else {
            smaller.clear();
            self.parked = Some(smaller);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutate;

    #[test]
    fn small_units_stay_inline() {
        let (mut carry, mut pool) = (Carry::new(8), CarryPool::new(0));
        carry.push(&mut pool, b"1234").unwrap();
        carry.push(&mut pool, b"5678").unwrap();
        assert_eq!(carry.as_slice(), b"12345678");
        assert_eq!(carry.push(&mut pool, b"9"), Err(CarryFull));
        assert_eq!(carry.as_slice(), b"12345678");
        assert_eq!(
            (pool.copies(), pool.copied_bytes(), pool.refused()),
            (2, 8, 1)
        );
    }

    #[test]
    fn larger_units_borrow_and_give_back() {
        let (mut carry, mut pool) = (Carry::new(8), CarryPool::new(64 << 10));
        carry.push(&mut pool, b"abc").unwrap();
        carry.push(&mut pool, &[b'x'; 5000]).unwrap();
        assert_eq!(carry.len(), 5003);
        assert!(carry.as_slice().starts_with(b"abcxx"));
        assert_eq!(pool.held_bytes(), 8192);
        assert_eq!((pool.copies(), pool.copied_bytes()), (2, 3 + 5000 + 3));
        carry.clear(&mut pool);
        assert!(carry.is_empty());
        // The next borrower gets the same buffer.
        carry.push(&mut pool, &[b'y'; 8192]).unwrap();
        assert_eq!(pool.held_bytes(), 8192);
        // After that, growth by one byte needs the next size; the old buffer comes back idle.
        carry.push(&mut pool, b"z").unwrap();
        assert_eq!(pool.held_bytes(), 8192 + 16384);
        assert_eq!(carry.as_slice()[8190..], *b"yyz");
    }

    #[test]
    fn the_bound_holds_and_idle_buffers_make_way() {
        let mut pool = CarryPool::new(8192);
        let mut carries: Vec<Carry> = (0..4).map(|_| Carry::new(0)).collect();
        for carry in &mut carries {
            carry.push(&mut pool, &[0; 2048]).unwrap();
        }
        assert_eq!(carries[0].push(&mut pool, &[0]), Err(CarryFull));
        assert_eq!(carries[0].len(), 2048);
        for carry in &mut carries {
            carry.clear(&mut pool);
        }
        assert_eq!(pool.held_bytes(), 8192);
        carries[0].push(&mut pool, &[0; 8192]).unwrap();
        assert_eq!(pool.held_bytes(), 8192);
        assert_eq!(carries[1].push(&mut pool, &[0]), Err(CarryFull));
        assert_eq!(pool.refused(), 2);
        assert_eq!(
            carries[0].push(&mut pool, &[0; usize::BITS as usize]),
            Err(CarryFull)
        );
    }

    /// Random pushes and clears of several connections against plain vectors.
    #[test]
    fn mutated_use_keeps_the_bytes_and_the_bound() {
        mutate::rounds(2_000, |seed, rng| {
            let bytes_max = 1024 << rng.below(6);
            let mut pool = CarryPool::new(bytes_max);
            let mut carries: Vec<_> = (0..4).map(|_| (Carry::new(100), Vec::new())).collect();
            for step in 0..60_u8 {
                let (carry, expected) = &mut carries[rng.below(4)];
                if rng.below(4) == 0 {
                    carry.clear(&mut pool);
                    expected.clear();
                } else {
                    let bytes = vec![step; rng.below(3000)];
                    let refused = pool.refused();
                    match carry.push(&mut pool, &bytes) {
                        Ok(()) => expected.extend_from_slice(&bytes),
                        Err(CarryFull) => assert_eq!(pool.refused(), refused + 1),
                    }
                }
                assert!(pool.held_bytes() <= bytes_max, "seed {seed}");
                for (carry, expected) in &carries {
                    assert_eq!(carry.as_slice(), *expected, "seed {seed}");
                }
            }
            for (carry, _) in &mut carries {
                carry.clear(&mut pool);
                assert!(carry.is_empty());
            }
            assert_eq!(pool.lent_bytes, 0, "seed {seed}");
        });
    }
}
