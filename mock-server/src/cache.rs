use std::collections::HashMap;
use std::hash::Hash;

/// Remembers what bodies mean, in bounded memory.
#[derive(Debug)]
pub(crate) struct Cache<K, V> {
    /// By kind first, so that a body is looked up without a copy of it.
    kinds: HashMap<K, HashMap<Box<[u8]>, V>>,
    bytes: usize,
    bytes_max: usize,
}

/// What an entry takes besides its body, about.
const ENTRY_BYTES: usize = 256;

impl<K: Hash + Eq, V> Cache<K, V> {
    pub(crate) fn new(bytes_max: usize) -> Self {
        Self {
            kinds: HashMap::new(),
            bytes: 0,
            bytes_max,
        }
    }

    pub(crate) fn get(&self, kind: &K, body: &[u8]) -> Option<&V> {
        self.kinds.get(kind)?.get(body)
    }

    /// Remembers `value`, which takes `bytes`. When the memory is full everything else is
    /// forgotten; what is larger than all of it is not remembered.
    pub(crate) fn put(&mut self, kind: K, body: &[u8], value: V, bytes: usize) {
        let bytes = bytes.saturating_add(body.len()).saturating_add(ENTRY_BYTES);
        if bytes > self.bytes_max {
            return;
        }
        if self.bytes + bytes > self.bytes_max {
            self.kinds.clear();
            self.bytes = 0;
        }
        self.bytes += bytes;
        self.kinds
            .entry(kind)
            .or_default()
            .insert(body.into(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_told_apart_by_kind_and_body() {
        let mut cache = Cache::new(10_000);
        cache.put('a', b"x", 1, 0);
        cache.put('b', b"x", 2, 0);
        assert_eq!(cache.get(&'a', b"x"), Some(&1));
        assert_eq!(cache.get(&'b', b"x"), Some(&2));
        assert_eq!(cache.get(&'a', b"y"), None);
        assert_eq!(cache.get(&'c', b"x"), None);
    }

    #[test]
    fn memory_is_bounded() {
        let mut cache = Cache::new(3_000);
        for body in 0..100_u8 {
            cache.put((), &[body], body, 200);
            assert_eq!(cache.get(&(), &[body]), Some(&body));
            assert!(cache.bytes <= 3_000);
        }
        assert!(cache.kinds[&()].len() <= 6);
        cache.put((), b"large", 0, 3_000);
        assert_eq!(cache.get(&(), b"large"), None);
        assert_eq!(cache.get(&(), &[99]), Some(&99));
    }
}
