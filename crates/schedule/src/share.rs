use crate::{Arrivals, Due};

/// Shard `shard` of `of`: every arrival whose index leaves `shard` when divided by `of`.
///
/// All shards walk the same global schedule, so the union of their shares is the schedule itself,
/// whatever their number.
#[derive(Clone, Debug)]
pub struct Share {
    arrivals: Arrivals,
    /// Arrivals of other shards to leave out before the next own one.
    skip: usize,
    of: u32,
}

impl Share {
    /// The share of shard `shard`, `0..of`, of a schedule that has not been walked yet.
    ///
    /// # Panics
    /// When `shard` is not below `of`.
    #[must_use]
    pub fn new(arrivals: Arrivals, shard: u32, of: u32) -> Self {
        assert!(shard < of, "shard {shard} of {of}");
        Self {
            arrivals,
            skip: shard as usize,
            of,
        }
    }
}

impl Iterator for Share {
    type Item = Due;

    fn next(&mut self) -> Option<Due> {
        let due = self.arrivals.nth(self.skip);
        self.skip = self.of as usize - 1;
        due
    }
}

/// How many of `total` things (slots, connections, requests) fall to shard `shard` of `of`.
///
/// The shares add up to `total` exactly. Those of the first shards are larger by one where it does
/// not divide evenly, and a share may be 0: rounding it up would exceed the total.
///
/// # Panics
/// When `shard` is not below `of`.
#[must_use]
pub fn share_of(total: u64, shard: u32, of: u32) -> u64 {
    assert!(shard < of, "shard {shard} of {of}");
    let of = u64::from(of);
    total / of + u64::from(u64::from(shard) < total % of)
}
