//! A sorted map from offsets in leaves of some dozen entries: neighbours lie side by side, so that a piece that comes
//! between others finds its place with one look, and many are joined in one pass.

use std::collections::BTreeMap;
use std::ops::Range;

const MAX_ENTRIES: usize = 64;

pub(super) struct Leaves<V> {
    /// By where each begins; there is always one at 0, and no other is empty.
    leaves: BTreeMap<u64, Leaf<V>>,
}

struct Leaf<V> {
    entries: Vec<(u64, V)>,
    /// Where the next leaf begins.
    until: u64,
}

impl<V> Default for Leaves<V> {
    fn default() -> Self {
        Leaves { leaves: BTreeMap::from([(0, Leaf { entries: Vec::new(), until: u64::MAX })]) }
    }
}

impl<V> Leaves<V> {
    pub fn insert(&mut self, start: u64, value: V) {
        let entries = &mut self.leaf_mut(start).1.entries;
        match entries.binary_search_by_key(&start, |(start, _)| *start) {
            Ok(at) => entries[at].1 = value,
            Err(at) => entries.insert(at, (start, value)),
        }
        self.split_if_full(start);
    }

    pub fn remove(&mut self, start: u64) -> Option<V> {
        let (key, leaf) = self.leaf_mut(start);
        let at = leaf.entries.binary_search_by_key(&start, |(start, _)| *start).ok()?;
        let (_, value) = leaf.entries.remove(at);
        if leaf.entries.is_empty() && key > 0 {
            let until = leaf.until;
            self.leaves.remove(&key);
            self.leaf_mut(key).1.until = until;
        }
        Some(value)
    }

    pub fn get(&self, start: u64) -> Option<&V> {
        let (_, leaf) = self.leaves.range(..=start).next_back()?;
        let at = leaf.entries.binary_search_by_key(&start, |(start, _)| *start).ok()?;
        Some(&leaf.entries[at].1)
    }

    /// Returns the entries around a range that lies in one leaf, with the place among them of the first that begins at
    /// or after its end; all before that place begin before the end. `None` when more than one leaf may matter.
    pub fn around(&mut self, range: &Range<u64>) -> Option<(&mut Vec<(u64, V)>, usize)> {
        let (key, leaf) = self.leaf_mut(range.start);
        let at = leaf.entries.partition_point(|(start, _)| *start < range.end);
        let is_alone = leaf.until >= range.end && (at > 0 || key == 0);
        is_alone.then_some((&mut leaf.entries, at))
    }

    /// Returns where the leaf ends that has the entry at `at`.
    pub fn leaf_end(&mut self, at: u64) -> u64 {
        self.leaf_mut(at).1.until
    }

    /// Must follow when entries were inserted otherwise, from `start` on.
    pub fn split_if_full(&mut self, start: u64) {
        let (_, leaf) = self.leaf_mut(start);
        let mut upper = Vec::new();
        while leaf.entries.len() > MAX_ENTRIES {
            let entries = leaf.entries.split_off(leaf.entries.len() - MAX_ENTRIES / 2);
            let key = entries[0].0;
            let until = std::mem::replace(&mut leaf.until, key);
            upper.push((key, Leaf { entries, until }));
        }
        if upper.len() > 1 {
            leaf.entries.shrink_to(MAX_ENTRIES);
        }
        self.leaves.extend(upper);
    }

    /// Returns the last entry that begins before `at`.
    pub fn before(&self, at: u64) -> Option<(u64, &V)> {
        let is_before = |(start, _): &(u64, V)| *start < at;
        let mut leaves = self.leaves.range(..at).rev().take(2);
        leaves.find_map(|(_, leaf)| {
            let count = leaf.entries.partition_point(is_before);
            count.checked_sub(1).map(|last| (leaf.entries[last].0, &leaf.entries[last].1))
        })
    }

    /// Returns the entries that begin in the range, in order.
    pub fn range(&self, range: Range<u64>) -> impl Iterator<Item = (u64, &V)> + '_ {
        let first = self.leaves.range(..=range.start).next_back().map_or(0, |(key, _)| *key);
        let leaves = self.leaves.range(first..range.end.max(first));
        let entries = leaves.flat_map(move |(_, leaf)| {
            let from = leaf.entries.partition_point(|(start, _)| *start < range.start);
            &leaf.entries[from..]
        });
        entries.take_while(move |(start, _)| *start < range.end).map(|(start, value)| (*start, value))
    }

    pub fn range_mut(&mut self, range: Range<u64>) -> impl Iterator<Item = (u64, &mut V)> + '_ {
        let first = self.leaves.range(..=range.start).next_back().map_or(0, |(key, _)| *key);
        let leaves = self.leaves.range_mut(first..range.end.max(first));
        let entries = leaves.flat_map(move |(_, leaf)| {
            let from = leaf.entries.partition_point(|(start, _)| *start < range.start);
            &mut leaf.entries[from..]
        });
        entries.take_while(move |(start, _)| *start < range.end).map(|(start, value)| (*start, value))
    }

    /// Hands pairs of neighbours in the range to `join`; when that takes the second into the first, it leaves. Leaves
    /// that are nearly empty then become one.
    pub fn join(&mut self, range: Range<u64>, mut join: impl FnMut((u64, &mut V), (u64, &V)) -> bool) {
        let (mut last, _) = self.leaf_mut(range.start);
        let further: Vec<u64> = self.leaves.range(last..range.end.max(last)).skip(1).map(|(key, _)| *key).collect();
        self.join_in_leaf(last, &range, &mut join);
        for key in further {
            self.join_in_leaf(key, &range, &mut join);
            let count = self.join_ends(last, key, &range, &mut join);
            if count > 0 && count + self.leaf_mut(last).1.entries.len() > MAX_ENTRIES / 2 {
                last = key;
            } else if let Some(emptied) = self.leaves.remove(&key) {
                let (_, leaf) = self.leaf_mut(last);
                leaf.entries.extend(emptied.entries);
                leaf.until = emptied.until;
                self.join_in_leaf(last, &range, &mut join);
            }
        }
    }

    /// Joins the first entry of the leaf `key` to the last of the leaf before it, `before`. Returns how many the leaf
    /// `key` has then.
    fn join_ends(
        &mut self,
        before: u64,
        key: u64,
        range: &Range<u64>,
        join: &mut impl FnMut((u64, &mut V), (u64, &V)) -> bool,
    ) -> usize {
        let entries = &mut self.leaf_mut(key).1.entries;
        if entries.first().is_some_and(|(start, _)| range.contains(start)) {
            let (next, right) = entries.remove(0);
            let left = self.leaf_mut(before).1.entries.last_mut();
            if !left.is_some_and(|(last, left)| join((*last, left), (next, &right))) {
                self.leaf_mut(key).1.entries.insert(0, (next, right));
            }
        }
        self.leaf_mut(key).1.entries.len()
    }

    fn join_in_leaf(&mut self, key: u64, range: &Range<u64>, join: &mut impl FnMut((u64, &mut V), (u64, &V)) -> bool) {
        let (_, leaf) = self.leaf_mut(key);
        leaf.entries
            .dedup_by(|(next, right), (last, left)| range.contains(next) && join((*last, left), (*next, right)));
    }

    fn leaf_mut(&mut self, at: u64) -> (u64, &mut Leaf<V>) {
        let (key, leaf) = self.leaves.range_mut(..=at).next_back().expect("one leaf begins at 0");
        (*key, leaf)
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.leaves.values().map(|leaf| leaf.entries.len()).sum()
    }
}

#[cfg(test)]
mod tests {
    use random::Random;

    use super::*;

    #[test]
    fn neighbours_in_two_leaves_are_joined_too() {
        for gap in [1, 7, 64, 1000] {
            let mut leaves = Leaves::default();
            (0..1000u64).for_each(|at| leaves.insert(at, at + 1));
            leaves.join(0..1000, |(_, end), (next, right)| {
                let is_one = next % gap != 0;
                *end = if is_one { *right } else { *end };
                is_one
            });
            let left: Vec<(u64, u64)> = leaves.range(0..1000).map(|(start, end)| (start, *end)).collect();
            let expected: Vec<(u64, u64)> =
                (0..1000).step_by(gap as usize).map(|start| (start, (start + gap).min(1000))).collect();
            assert_eq!(left, expected);
            leaves.leaves.iter().skip(1).for_each(|(_, leaf)| assert!(!leaf.entries.is_empty()));
            assert_eq!((leaves.remove(0), leaves.get(gap)), (Some(gap), (gap < 1000).then_some(&(gap * 2).min(1000))));
        }
    }

    #[test]
    fn leaves_hold_what_a_map_holds() {
        let mut random = Random::new(7);
        let (mut leaves, mut plain) = (Leaves::default(), BTreeMap::new());
        for round in 0..20_000u64 {
            let state = random.next();
            let at = (state >> 33) % 3000;
            // First it grows, then it shrinks.
            if (state >> 20) % 20_000 > round {
                leaves.insert(at, round);
                plain.insert(at, round);
            } else {
                assert_eq!(leaves.remove(at), plain.remove(&at));
            }
            assert_eq!(leaves.get(at), plain.get(&at));
            let before = plain.range(..at).next_back().map(|(start, value)| (*start, value));
            assert_eq!(leaves.before(at), before);
            if round % 64 == 0 {
                let end = at + (state >> 50) % 500;
                assert!(leaves.range(at..end).eq(plain.range(at..end).map(|(start, value)| (*start, value))));
                assert!(leaves.range_mut(at..end).map(|(start, _)| start).eq(plain.range(at..end).map(|(at, _)| *at)));
                assert_eq!(leaves.len(), plain.len());
            }
        }
    }
}
