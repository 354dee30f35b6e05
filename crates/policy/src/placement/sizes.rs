//! Sizes that become known late: often a file's size is unknown until it has been read.

use crate::cache::{ItemId, WorkerId};

use super::Scheduler;
use super::queue::Locality;

impl Scheduler {
    /// Corrects the item's size. From now on everything is as if that had been known from the start, but decisions that
    /// were taken stand. Caches that it overfills say with [`Scheduler::overflow`] what leaves.
    pub fn resize(&mut self, item: ItemId, bytes: u64) {
        let slots: Vec<u32> = self.queue.wanting(&self.index, item).collect();
        let pairs: Vec<(u32, WorkerId)> =
            self.index.here(item).flat_map(|worker| slots.iter().map(move |&slot| (slot, worker))).collect();
        for &(slot, worker) in &pairs {
            if let Some(old) = self.candidate(slot, worker, item, true) {
                self.workers.withdraw(worker, &old, &self.queue);
            }
        }
        self.index.resize(item, bytes);
        for &(slot, worker) in &pairs {
            if let Some(new) = self.candidate(slot, worker, item, true) {
                self.workers.offer(worker, new, &self.queue);
            }
        }
        for slot in slots {
            if let Locality::Held { since_s, .. } = self.queue.standing(slot) {
                self.stand(slot, self.held_since(since_s, slot));
            }
        }
    }

    /// Returns the items that leave a cache that holds more than it has room for. Pinned items stay, even if they are
    /// too many.
    pub fn overflow(&mut self, now_s: f64, worker: WorkerId) -> Vec<ItemId> {
        let mut evicted = Vec::new();
        while self.index.used_bytes(worker) > self.index.capacity_bytes(worker) {
            let Some(victim) = self.evict(now_s, worker) else { break };
            evicted.push(victim);
        }
        evicted
    }
}
