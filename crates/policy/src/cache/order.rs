//! A cache's replicas by priority: a binary heap that knows where each replica stands, so that one can be moved.
//!
//! It holds slots only; priority and position live in the replica itself, which keeps a place at four bytes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::index::Replica;

#[derive(Default)]
pub(super) struct Order(Vec<u32>);

impl Order {
    pub fn push(&mut self, replicas: &mut [Replica], slot: u32) {
        self.0.push(slot);
        self.rise(replicas, self.0.len() - 1);
    }

    pub fn remove(&mut self, replicas: &mut [Replica], slot: u32) {
        let position = replicas[slot as usize].position as usize;
        let last = self.0.pop().expect("the replica stands in the order");
        if last != slot {
            self.put(replicas, position, last);
            self.settle(replicas, position);
        }
    }

    /// After the replica's priority changed.
    pub fn moved(&mut self, replicas: &mut [Replica], slot: u32) {
        self.settle(replicas, replicas[slot as usize].position as usize);
    }

    pub fn slots(&self) -> &[u32] {
        &self.0
    }

    /// Slots from the lowest priority upwards, each at the price of a small heap's step.
    pub fn ascending<'a>(&'a self, replicas: &'a [Replica]) -> impl Iterator<Item = u32> + 'a {
        let mut frontier = BinaryHeap::new();
        let reach = move |frontier: &mut BinaryHeap<_>, position: usize| {
            if let Some(&slot) = self.0.get(position) {
                frontier.push(Reverse((replicas[slot as usize].priority, position)));
            }
        };
        reach(&mut frontier, 0);
        std::iter::from_fn(move || {
            let Reverse((_, position)) = frontier.pop()?;
            reach(&mut frontier, 2 * position + 1);
            reach(&mut frontier, 2 * position + 2);
            Some(self.0[position])
        })
    }

    fn settle(&mut self, replicas: &mut [Replica], position: usize) {
        let position = self.rise(replicas, position);
        self.sink(replicas, position);
    }

    fn rise(&mut self, replicas: &mut [Replica], mut position: usize) -> usize {
        let slot = self.0[position];
        let priority = replicas[slot as usize].priority;
        while position > 0 {
            let above = (position - 1) / 2;
            if replicas[self.0[above] as usize].priority <= priority {
                break;
            }
            self.put(replicas, position, self.0[above]);
            position = above;
        }
        self.put(replicas, position, slot);
        position
    }

    fn sink(&mut self, replicas: &mut [Replica], mut position: usize) {
        let slot = self.0[position];
        let priority = replicas[slot as usize].priority;
        loop {
            let mut below = 2 * position + 1;
            if below >= self.0.len() {
                break;
            }
            let right = below + 1;
            let at = |position: usize| replicas[self.0[position] as usize].priority;
            if right < self.0.len() && at(right) < at(below) {
                below = right;
            }
            if priority <= at(below) {
                break;
            }
            self.put(replicas, position, self.0[below]);
            position = below;
        }
        self.put(replicas, position, slot);
    }

    fn put(&mut self, replicas: &mut [Replica], position: usize, slot: u32) {
        self.0[position] = slot;
        replicas[slot as usize].position = position as u32;
    }
}
