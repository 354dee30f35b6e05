//! How far ahead of its slots a worker is told its tasks, by what its cache holds for them.
//!
//! Inputs of tasks that wait are pinned. If they filled the cache, the next would find no room, and its input be fetched for
//! it alone, each time anew: so a worker whose pins fill half of its cache gets no more than it can run at once.

use policy::cache::WorkerId;

use crate::plan::Plan;
use crate::tasks::Worker;

impl Plan {
    /// Those that were held in and have room again may have more.
    pub(crate) fn slacken(&mut self) {
        for at in 0..self.workers.len() {
            let worker = WorkerId(at as u32);
            if self.workers[at].reined > 0 && !self.is_laden(worker) {
                for _ in 0..std::mem::take(&mut self.workers[at].reined) {
                    self.scheduler.vacate(worker);
                }
            }
        }
    }

    /// After it was given a task.
    pub(crate) fn rein_in(&mut self, worker: WorkerId) {
        if self.is_laden(worker) {
            let free = self.scheduler.free_slots_of(worker);
            (0..free).for_each(|_| self.scheduler.occupy(worker));
            self.workers[worker.0 as usize].reined += free;
        }
    }

    fn is_laden(&self, worker: WorkerId) -> bool {
        let Worker { slots, assigned, is_open, .. } = &self.workers[worker.0 as usize];
        let index = self.scheduler.index();
        *is_open && assigned.len() > *slots as usize && 2 * index.pinned_bytes(worker) > index.capacity_bytes(worker)
    }
}
