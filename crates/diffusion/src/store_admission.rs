//! Admission of transfers from the store: how many run at once, and which is next.
//!
//! Readers beyond the store's rate only slow each other down: all inputs come late instead of the first ones early. So
//! transfers from the store queue here, and the worker with the fewest under way is next.

use std::collections::{HashMap, VecDeque};

use crate::transfers::TransferKey;

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(u64, TransferKey)>,
    under_way: u32,
}

#[derive(Default)]
pub(crate) struct StoreAdmission {
    /// One for each worker.
    queues: Vec<Queue>,
    /// Since when.
    under_way: HashMap<TransferKey, f64>,
    waiting: usize,
    entered: u64,
}

impl StoreAdmission {
    pub fn enter(&mut self, key: TransferKey) {
        let at = key.worker.0 as usize;
        if self.queues.len() <= at {
            self.queues.resize_with(at + 1, Queue::default);
        }
        self.queues[at].waiting.push_back((self.entered, key));
        self.entered += 1;
        self.waiting += 1;
    }

    /// Returns the next to begin, while fewer than `limit` are under way.
    pub fn next(&mut self, now_s: f64, limit: usize) -> Option<TransferKey> {
        if self.waiting == 0 || self.under_way.len() >= limit {
            return None;
        }
        let queues = self.queues.iter_mut().filter(|queue| !queue.waiting.is_empty());
        let queue = queues.min_by_key(|queue| (queue.under_way, queue.waiting[0].0))?;
        let (_, key) = queue.waiting.pop_front()?;
        queue.under_way += 1;
        self.waiting -= 1;
        self.under_way.insert(key, now_s);
        Some(key)
    }

    /// Returns when it began.
    pub fn since_s(&self, key: &TransferKey) -> Option<f64> {
        self.under_way.get(key).copied()
    }

    pub fn is_idle(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Notes that it ended, or will not begin.
    pub fn leave(&mut self, key: &TransferKey) {
        let Some(queue) = self.queues.get_mut(key.worker.0 as usize) else { return };
        if self.under_way.remove(key).is_some() {
            queue.under_way -= 1;
        } else if let Some(at) = queue.waiting.iter().position(|(_, other)| other == key) {
            queue.waiting.remove(at);
            self.waiting -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use policy::cache::{ItemId, WorkerId};

    use super::*;

    fn key(worker: u32, item: u32) -> TransferKey {
        TransferKey { worker: WorkerId(worker), item: ItemId(item), only_for: None }
    }

    #[test]
    fn the_worker_with_fewest_transfers_under_way_is_next() {
        let mut admission = StoreAdmission::default();
        [(0, 0), (0, 1), (0, 2), (1, 3)].into_iter().for_each(|(worker, item)| admission.enter(key(worker, item)));
        let begun: Vec<u32> = std::iter::from_fn(|| admission.next(0.0, 3)).map(|key| key.item.0).collect();
        assert_eq!(begun, [0, 3, 1]);
        admission.leave(&key(0, 2));
        admission.leave(&key(0, 0));
        assert_eq!(admission.next(0.0, 3), None);
        admission.enter(key(1, 4));
        assert_eq!(admission.next(0.0, 3), Some(key(1, 4)));
    }
}
