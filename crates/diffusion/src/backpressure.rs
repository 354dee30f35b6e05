//! Backpressure from a worker's cache: limits how many tasks it is sent beyond those it can run at once.
//!
//! Inputs of tasks that wait are pinned. If they filled the cache, the next would find no room, and its input be
//! fetched for it alone, every time: so a worker whose pins fill half of its cache gets no more than it can run at
//! once.

use policy::cache::WorkerId;

use crate::plan::Plan;
use crate::tasks::Worker;

impl Plan {
    /// Restores the slots of workers whose pins have fallen below half of the cache.
    pub(crate) fn resume(&mut self) {
        for at in 0..self.workers.len() {
            let worker = WorkerId(at as u32);
            if self.workers[at].held_back > 0 && !self.is_overcommitted(worker) {
                for _ in 0..std::mem::take(&mut self.workers[at].held_back) {
                    self.scheduler.vacate(worker);
                }
            }
        }
    }

    /// Withholds free slots from a worker whose pins fill half of its cache, after it was assigned a task.
    pub(crate) fn apply_backpressure(&mut self, worker: WorkerId) {
        if self.is_overcommitted(worker) {
            let free = self.scheduler.free_slots_of(worker);
            (0..free).for_each(|_| self.scheduler.occupy(worker));
            self.workers[worker.0 as usize].held_back += free;
        }
    }

    fn is_overcommitted(&self, worker: WorkerId) -> bool {
        let Worker { slots, assigned, is_open, .. } = &self.workers[worker.0 as usize];
        let index = self.scheduler.index();
        *is_open && assigned.len() > *slots as usize && 2 * index.pinned_bytes(worker) > index.capacity_bytes(worker)
    }
}
