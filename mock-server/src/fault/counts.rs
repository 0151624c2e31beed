use std::collections::BTreeMap;
use std::fmt;

use super::catalogue::Kind;

/// How often each fault was injected.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FaultCounts(BTreeMap<Kind, u64>);

impl FaultCounts {
    pub(crate) fn add(&mut self, kind: Kind) {
        *self.0.entry(kind).or_default() += 1;
    }

    /// Adds the counts of another shard.
    pub fn merge(&mut self, other: &Self) {
        for (kind, count) in &other.0 {
            *self.0.entry(*kind).or_default() += count;
        }
    }

    /// The names of the faults that were injected, and how often each was.
    pub fn iter(&self) -> impl Iterator<Item = (String, u64)> {
        self.0
            .iter()
            .map(|(kind, count)| (kind.to_string(), *count))
    }

    /// All faults together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.values().sum()
    }
}

/// `3 status-500, 1 drip`.
impl fmt::Display for FaultCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (kind, count)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{count} {kind}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_shards_add_up_by_name() {
        let mut counts = FaultCounts::default();
        assert_eq!((counts.to_string(), counts.total()), (String::new(), 0));
        counts.add(Kind::Status(500));
        counts.add(Kind::Drip);
        let other = counts.clone();
        counts.add(Kind::Status(500));
        counts.merge(&other);
        assert_eq!(counts.to_string(), "3 status-500, 2 drip");
        assert_eq!(counts.total(), 5);
        assert_eq!(counts.iter().last(), Some(("drip".to_owned(), 2)));
    }
}
