//! Tasks that a worker is told beyond its usual number, because all it knows wait for input.
//!
//! Tasks of one input follow each other. A worker that knew only such tasks would ask the store for nothing else until that
//! input has come and the first of them has ended. So of its own part of a batch it is told as far as the next input that
//! it has to ask for.

use policy::cache::{Holding, WorkerId};
use policy::placement::TaskId;

use crate::pace::MOST_AHEAD;
use crate::plan::Plan;
use crate::tasks::Worker;

impl Plan {
    /// One task more for each such worker. Gives whether there is any.
    pub(crate) fn foresee(&mut self) -> bool {
        let waiting = (0..self.workers.len() as u32).map(WorkerId).filter(|&worker| self.is_all_waiting(worker));
        let waiting: Vec<WorkerId> = waiting.collect();
        for &worker in &waiting {
            self.scheduler.widen(worker, 1);
            self.workers[worker.0 as usize].depth += 1;
        }
        !waiting.is_empty()
    }

    fn is_all_waiting(&self, worker: WorkerId) -> bool {
        let Worker { slots, depth, reined, assigned, is_open, .. } = &self.workers[worker.0 as usize];
        let may_know_more = *is_open && *reined == 0 && *depth < slots * (1 + MOST_AHEAD);
        may_know_more
            && self.scheduler.prepared_for(worker) > 0
            && self.scheduler.free_slots_of(worker) == 0
            && self.gate.has_none_waiting(worker)
            && assigned.iter().all(|&task| self.lacks_input(worker, task))
    }

    fn lacks_input(&self, worker: WorkerId, task: TaskId) -> bool {
        let inputs = &self.tasks[task.0 as usize].inputs;
        inputs.iter().any(|&item| self.scheduler.index().holding(worker, item) != Some(Holding::Here))
    }
}
