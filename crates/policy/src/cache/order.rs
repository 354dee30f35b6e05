//! A cache's replicas by priority: a binary heap that knows where each replica stands, so that one can be removed.
//!
//! A replica that is used only rises, and most are used often before anything has to leave. So its new priority is
//! noted in the replica and the heap keeps the old one, its *key*, until the replica comes to the top. An entry is
//! twelve bytes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::index::Replica;

#[derive(Clone, Copy)]
struct HeapEntry {
    key_high: u32,
    key_low: u32,
    slot: u32,
}

impl HeapEntry {
    fn new(key: u64, slot: u32) -> Self {
        HeapEntry { key_high: (key >> 32) as u32, key_low: key as u32, slot }
    }

    fn key(self) -> u64 {
        u64::from(self.key_high) << 32 | u64::from(self.key_low)
    }
}

#[derive(Default)]
pub(super) struct Order(Vec<HeapEntry>);

impl Order {
    pub fn push(&mut self, replicas: &mut [Replica], slot: u32) {
        if self.0.len() == self.0.capacity() {
            // Doubling would leave half of it unused.
            self.0.reserve_exact(self.0.len() / 8 + 4);
        }
        self.0.push(HeapEntry::new(replicas[slot as usize].priority, slot));
        self.rise(replicas, self.0.len() - 1);
    }

    pub fn remove(&mut self, replicas: &mut [Replica], slot: u32) {
        let position = replicas[slot as usize].position as usize;
        let last = self.0.pop().expect("the replica stands in the order");
        if last.slot != slot {
            self.put(replicas, position, last);
            let position = self.rise(replicas, position);
            self.sink(replicas, position);
        }
    }

    pub fn slots(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().map(|place| place.slot)
    }

    /// Puts where they belong those at the top that have risen since: each use is paid for once.
    pub fn sift_top(&mut self, replicas: &mut [Replica]) {
        while let Some(&HeapEntry { slot, .. }) = self.0.first()
            && self.0[0].key() != replicas[slot as usize].priority
        {
            self.0[0] = HeapEntry::new(replicas[slot as usize].priority, slot);
            self.sink(replicas, 0);
        }
    }

    /// Slots from the lowest priority upwards, each at the price of a small heap's step.
    pub fn ascending<'a>(&'a self, replicas: &'a [Replica]) -> impl Iterator<Item = u32> + 'a {
        let places = &self.0;
        let mut frontier = BinaryHeap::new();
        let reach = move |frontier: &mut BinaryHeap<_>, position: usize| {
            if let Some(place) = places.get(position) {
                frontier.push(Reverse((place.key(), position)));
            }
        };
        reach(&mut frontier, 0);
        std::iter::from_fn(move || {
            loop {
                let Reverse((key, position)) = frontier.pop()?;
                let HeapEntry { slot, .. } = places[position];
                let priority = replicas[slot as usize].priority;
                if key == places[position].key() {
                    reach(&mut frontier, 2 * position + 1);
                    reach(&mut frontier, 2 * position + 2);
                }
                if key == priority {
                    return Some(slot);
                }
                frontier.push(Reverse((priority, position)));
            }
        })
    }

    fn rise(&mut self, replicas: &mut [Replica], mut position: usize) -> usize {
        let place = self.0[position];
        while position > 0 {
            let above = (position - 1) / 2;
            if self.0[above].key() <= place.key() {
                break;
            }
            self.put(replicas, position, self.0[above]);
            position = above;
        }
        self.put(replicas, position, place);
        position
    }

    fn sink(&mut self, replicas: &mut [Replica], mut position: usize) {
        let place = self.0[position];
        loop {
            let mut below = 2 * position + 1;
            if below >= self.0.len() {
                break;
            }
            let right = below + 1;
            if right < self.0.len() && self.0[right].key() < self.0[below].key() {
                below = right;
            }
            if place.key() <= self.0[below].key() {
                break;
            }
            self.put(replicas, position, self.0[below]);
            position = below;
        }
        self.put(replicas, position, place);
    }

    fn put(&mut self, replicas: &mut [Replica], position: usize, entry: HeapEntry) {
        self.0[position] = entry;
        replicas[entry.slot as usize].position = position as u32;
    }
}
