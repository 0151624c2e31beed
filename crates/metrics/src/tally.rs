use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

/// How many different names are told apart.
const NAMES_MAX: usize = 32;

/// The longest name that is told apart, bytes.
const NAME_BYTES_MAX: usize = 47;

/// Under which name the rest is counted.
const REST: &str = "other";

/// Counts by name. Names may come from the peer: how many and how long they are is bounded, and what
/// is beyond counts as `other`. Counting allocates nothing.
#[derive(Clone)]
pub struct Tally {
    /// INVARIANT: `len <= NAMES_MAX`, its capacity.
    names: Vec<(Name, u64)>,
    rest: u64,
}

#[derive(Clone, Copy)]
struct Name {
    bytes: [u8; NAME_BYTES_MAX],
    len: u8,
}

impl Name {
    fn new(text: &str) -> Option<Self> {
        let len = u8::try_from(text.len()).ok()?;
        let mut bytes = [0; NAME_BYTES_MAX];
        bytes
            .get_mut(..text.len())?
            .copy_from_slice(text.as_bytes());
        Some(Self { bytes, len })
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    fn as_str(&self) -> &str {
        str::from_utf8(self.bytes()).expect("made from a str, whole")
    }
}

impl Default for Tally {
    fn default() -> Self {
        Self {
            names: Vec::with_capacity(NAMES_MAX),
            rest: 0,
        }
    }
}

impl Tally {
    /// Counts one more of `name`.
    pub fn add(&mut self, name: &str) {
        self.add_n(name, 1);
    }

    fn add_n(&mut self, name: &str, times: u64) {
        let known = self
            .names
            .iter_mut()
            .find(|(known, _)| known.bytes() == name.as_bytes());
        if let Some((_, count)) = known {
            *count += times;
        } else if let Some(name) = Name::new(name).filter(|_| self.names.len() < NAMES_MAX) {
            self.names.push((name, times));
        } else {
            self.rest += times;
        }
    }

    /// Adds the counts of another tally.
    pub fn merge(&mut self, other: &Self) {
        other
            .names
            .iter()
            .for_each(|(name, count)| self.add_n(name.as_str(), *count));
        self.rest += other.rest;
    }

    /// The sum of all counts.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.names.iter().map(|(_, count)| count).sum::<u64>() + self.rest
    }

    /// The counts by name.
    #[must_use]
    pub fn to_map(&self) -> BTreeMap<String, u64> {
        let mut map: BTreeMap<String, u64> = self
            .names
            .iter()
            .map(|(name, count)| (name.as_str().to_owned(), *count))
            .collect();
        if self.rest > 0 {
            *map.entry(REST.to_owned()).or_default() += self.rest;
        }
        map
    }
}

/// Equal when the counts by name are, in whatever order the names came.
impl PartialEq for Tally {
    fn eq(&self, other: &Self) -> bool {
        self.to_map() == other.to_map()
    }
}

impl fmt::Debug for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.to_map().fmt(f)
    }
}

/// As a map from name to count, the shape of `errors` and `finish_reasons` in a report.
impl Serialize for Tally {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.to_map().serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Tally {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut this = Self::default();
        let map = BTreeMap::<String, u64>::deserialize(deserializer)?;
        map.iter()
            .for_each(|(name, &count)| this.add_n(name, count));
        Ok(this)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_counted_and_merged() {
        let mut tally = Tally::default();
        ["stop", "length", "stop", ""]
            .iter()
            .for_each(|name| tally.add(name));
        let mut other = Tally::default();
        ["length", "tool_calls"]
            .iter()
            .for_each(|name| other.add(name));
        tally.merge(&other);
        let map = tally.to_map();
        assert_eq!(map["stop"], 2);
        assert_eq!(map["length"], 2);
        assert_eq!(map[""], 1);
        assert_eq!(tally.total(), 6);
    }

    #[test]
    fn a_peer_that_invents_names_takes_no_memory() {
        let mut tally = Tally::default();
        (0..1_000).for_each(|i| tally.add(&format!("reason {i}")));
        tally.add(&"x".repeat(48));
        tally.add(&"é".repeat(150));
        assert_eq!(tally.names.capacity(), NAMES_MAX);
        assert_eq!(tally.to_map().len(), NAMES_MAX + 1);
        assert_eq!(tally.to_map()["other"], 1_000 - 32 + 2);
        assert_eq!(tally.total(), 1_002);
    }
}
