//! A map that drops its least recently used entries once it holds too much.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

pub struct Lru<K, V> {
    limit: usize,
    held: usize,
    clock: u64,
    values: HashMap<K, Entry<V>>,
    by_use: BTreeMap<u64, K>,
}

struct Entry<V> {
    value: V,
    cost: usize,
    used: u64,
}

impl<K: Copy + Eq + Hash, V: Clone> Lru<K, V> {
    /// Makes a map of values whose costs add up to at most `limit`; it always holds the newest one.
    pub fn new(limit: usize) -> Self {
        Lru { limit, held: 0, clock: 0, values: HashMap::new(), by_use: BTreeMap::new() }
    }

    pub fn get(&mut self, key: K) -> Option<V> {
        self.clock += 1;
        let entry = self.values.get_mut(&key)?;
        self.by_use.remove(&entry.used);
        entry.used = self.clock;
        self.by_use.insert(self.clock, key);
        Some(entry.value.clone())
    }

    pub fn insert(&mut self, key: K, value: V, cost: usize) {
        self.remove(key);
        self.clock += 1;
        self.held += cost;
        self.by_use.insert(self.clock, key);
        self.values.insert(key, Entry { value, cost, used: self.clock });
        while self.held > self.limit && self.values.len() > 1 {
            let (_, oldest) = self.by_use.first_key_value().expect("every value has its time of use");
            self.remove(*oldest);
        }
    }

    pub fn remove(&mut self, key: K) {
        if let Some(entry) = self.values.remove(&key) {
            self.held -= entry.cost;
            self.by_use.remove(&entry.used);
        }
    }

    pub fn keys(&self) -> Vec<K> {
        self.values.keys().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_not_used_for_longest_goes_first() {
        let mut lru = Lru::new(10);
        lru.insert(1, "one", 4);
        lru.insert(2, "two", 4);
        assert_eq!(lru.get(1), Some("one"));
        lru.insert(3, "three", 4);
        assert_eq!((lru.get(1), lru.get(2), lru.get(3)), (Some("one"), None, Some("three")));
        lru.insert(4, "huge", 99);
        assert_eq!((lru.get(3), lru.get(4)), (None, Some("huge")));
    }
}
