//! Tasks that wait at one worker while another idles are given back and go there.
//!
//! A worker knows tasks ahead of its slots so that it never waits for the next. When nothing waits here any more, that
//! does harm: a worker that is done idles beside another's store of tasks. The newest of them are recalled, as far as
//! waiting there costs more than fetching their input elsewhere.

use policy::cache::WorkerId;
use policy::placement::TaskId;

use crate::Order;
use crate::plan::Plan;
use crate::tasks::State;

impl Plan {
    /// Notes that the worker had not begun the attempt and gives it back.
    pub fn returned(&mut self, now_s: f64, worker: WorkerId, task: TaskId, attempt: u32) {
        self.answered(worker);
        if !self.is_current(worker, task, attempt) {
            return;
        }
        self.unassign(worker, task);
        self.tasks[task.0 as usize].state = State::Waiting;
        match self.idlest_for(task) {
            Some(idle) => {
                self.scheduler.occupy(idle);
                self.start(now_s, task, idle);
            }
            None => {
                let inputs = self.tasks[task.0 as usize].inputs.clone();
                self.scheduler.submit(now_s, task, &inputs);
            }
        }
    }

    /// Notes that the worker had begun it, or ended it, or gives back one that was cancelled.
    pub fn answered(&mut self, worker: WorkerId) {
        let recalls = &mut self.workers[worker.0 as usize].recalls;
        *recalls = recalls.saturating_sub(1);
    }

    /// Recalls as many as would find a slot at once.
    pub(crate) fn balance(&mut self) {
        if self.scheduler.waiting() > 0 {
            return;
        }
        let idle: u32 = self.workers.iter().map(|worker| worker.idle_slots()).sum();
        let recalls: u32 = self.workers.iter().filter(|worker| worker.is_open).map(|worker| worker.recalls).sum();
        for _ in recalls..idle {
            let Some((worker, task)) = self.longest_waiting() else { break };
            self.recall(worker, task);
        }
    }

    pub(crate) fn recall(&mut self, worker: WorkerId, task: TaskId) {
        let entry = &mut self.tasks[task.0 as usize];
        entry.is_recalled = true;
        let attempt = entry.attempt;
        self.workers[worker.0 as usize].recalls += 1;
        self.orders.push(Order::Recall { worker, task, attempt });
    }

    /// Returns the newest task of the worker with most to do, if it is better off elsewhere.
    fn longest_waiting(&self) -> Option<(WorkerId, TaskId)> {
        let loaded = self.workers.iter().enumerate().filter(|(_, worker)| worker.is_open && worker.surplus() > 0);
        let (at, worker) = loaded.max_by_key(|(_, worker)| worker.surplus() * 64 / worker.slots.max(1))?;
        let newest = worker.assigned.iter().rev().copied();
        let task = newest.take(worker.surplus() as usize).find(|task| !self.tasks[task.0 as usize].is_recalled)?;
        let turns = f64::from(worker.surplus()) / f64::from(worker.slots.max(1));
        let wait_s = self.pace.task_s().map_or(f64::INFINITY, |task_s| task_s * turns);
        (wait_s > self.move_s(task)).then_some((WorkerId(at as u32), task))
    }

    fn move_s(&self, task: TaskId) -> f64 {
        let inputs = self.tasks[task.0 as usize].inputs.iter();
        let bytes: u64 = inputs.map(|&item| self.scheduler.index().bytes(item)).sum();
        self.costs.max_wait_s(bytes)
    }

    /// Of the workers with an idle slot the one that has most of the task's input.
    fn idlest_for(&self, task: TaskId) -> Option<WorkerId> {
        let idle = (0..self.workers.len() as u32).map(WorkerId).filter(|&worker| self.can_take(worker));
        let local_bytes = |worker: WorkerId| -> u64 {
            let inputs = self.tasks[task.0 as usize].inputs.iter();
            let here = inputs.filter(|&&item| self.scheduler.index().is_here(worker, item));
            here.map(|&item| self.scheduler.index().bytes(item)).sum()
        };
        idle.max_by_key(|&worker| (local_bytes(worker), self.workers[worker.0 as usize].idle_slots()))
    }

    fn can_take(&self, worker: WorkerId) -> bool {
        self.workers[worker.0 as usize].idle_slots() > 0 && self.scheduler.free_slots_of(worker) > 0
    }
}
