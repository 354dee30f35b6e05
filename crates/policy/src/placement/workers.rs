//! Workers as the scheduler sees them: slots, which are free and for how long, which have candidates.

use std::collections::BTreeSet;

use crate::cache::WorkerId;

use super::candidates::{Candidate, Candidates};
use super::queue::Queue;

const NONE: u32 = u32::MAX;

/// The fields that a new task needs of each holder of its input lie in the first cache line, the offer in the second.
#[derive(Default)]
#[repr(C, align(64))]
pub(super) struct Worker {
    candidates: Candidates,
    pub free: u32,
    pub slots: u32,
    /// Readers it serves, or will when the items they wait for are there.
    pub serving: u32,
    /// Items it waits for.
    pub awaiting: u32,
    previous: u32,
    next: u32,
    is_idle: bool,
    is_closed: bool,
    /// Its best candidate at the last check; none without a free slot.
    offer: Option<Candidate>,
}

/// All workers that ever joined; the free ones in a list, the one free longest first.
pub(super) struct Workers {
    all: Vec<Worker>,
    idle: (u32, u32),
    /// All of them; one whose task another worker took stands there until it comes to the front.
    offers: BTreeSet<(Candidate, WorkerId)>,
    pub slots: u32,
    pub busy: u32,
}

impl Workers {
    pub fn new() -> Self {
        Workers { all: Vec::new(), idle: (NONE, NONE), offers: BTreeSet::new(), slots: 0, busy: 0 }
    }

    pub fn get(&self, worker: WorkerId) -> &Worker {
        &self.all[worker.at()]
    }

    pub fn get_mut(&mut self, worker: WorkerId) -> &mut Worker {
        &mut self.all[worker.at()]
    }

    pub fn join(&mut self, slots: u32) -> WorkerId {
        let worker = WorkerId(self.all.len() as u32);
        self.all.push(Worker { slots, free: slots, previous: NONE, next: NONE, ..Worker::default() });
        self.slots += slots;
        if slots > 0 {
            self.append(worker);
        }
        worker
    }

    /// Tasks that ran there are lost; the caller submits them again.
    pub fn leave(&mut self, worker: WorkerId, queue: &Queue) {
        let Worker { slots, free, is_idle, .. } = self.all[worker.at()];
        self.slots -= slots;
        self.busy -= slots - free;
        if is_idle {
            self.unlink(worker);
        }
        let left = &mut self.all[worker.at()];
        left.slots = 0;
        left.free = 0;
        self.refresh(worker, queue);
    }

    /// Closes the worker: it gets no more tasks; its slots count no longer.
    pub fn close(&mut self, worker: WorkerId, queue: &Queue) {
        let Worker { free, is_idle, .. } = self.all[worker.at()];
        if is_idle {
            self.unlink(worker);
        }
        let closed = &mut self.all[worker.at()];
        closed.slots -= free;
        closed.free = 0;
        closed.is_closed = true;
        self.slots -= free;
        self.refresh(worker, queue);
    }

    /// Returns those that take tasks.
    pub fn open(&self) -> impl Iterator<Item = WorkerId> + '_ {
        let open = self.all.iter().enumerate().filter(|(_, worker)| worker.slots > 0 && !worker.is_closed);
        open.map(|(at, _)| WorkerId(at as u32))
    }

    /// Returns the worker free longest.
    pub fn first_idle(&self) -> Option<WorkerId> {
        (self.idle.0 != NONE).then_some(WorkerId(self.idle.0))
    }

    /// Returns the best pair of a free worker and a task.
    pub fn best_offer(&mut self, queue: &Queue) -> Option<(Candidate, WorkerId)> {
        loop {
            let &(candidate, worker) = self.offers.first()?;
            if queue.is_there(candidate) {
                return Some((candidate, worker));
            }
            self.refresh(worker, queue);
        }
    }

    /// Notes that the worker has input for a task.
    pub fn offer(&mut self, worker: WorkerId, candidate: Candidate, queue: &Queue) {
        let entry = &mut self.all[worker.at()];
        entry.candidates.insert(candidate, queue);
        if entry.free > 0 {
            self.refresh(worker, queue);
        }
    }

    /// Notes that it has none any more, or sees the task otherwise.
    pub fn withdraw(&mut self, worker: WorkerId, candidate: &Candidate, queue: &Queue) {
        let entry = &mut self.all[worker.at()];
        entry.candidates.remove(candidate);
        if entry.free > 0 {
            self.refresh(worker, queue);
        }
    }

    /// Notes that one slot is taken; with another free the worker stands last among the idle.
    pub fn occupy(&mut self, worker: WorkerId, queue: &Queue) {
        self.unlink(worker);
        self.all[worker.at()].free -= 1;
        self.busy += 1;
        if self.all[worker.at()].free > 0 {
            self.append(worker);
        }
        self.refresh(worker, queue);
    }

    /// Adds so many slots.
    pub fn widen(&mut self, worker: WorkerId, slots: u32, queue: &Queue) {
        let widened = &mut self.all[worker.at()];
        if widened.is_closed || slots == 0 {
            return;
        }
        widened.slots += slots;
        widened.free += slots;
        self.slots += slots;
        if !self.all[worker.at()].is_idle {
            self.append(worker);
        }
        self.refresh(worker, queue);
    }

    pub fn vacate(&mut self, worker: WorkerId, queue: &Queue) {
        let vacated = &mut self.all[worker.at()];
        assert!(vacated.free < vacated.slots, "a slot that is freed was taken");
        if vacated.is_closed {
            vacated.slots -= 1;
            self.slots -= 1;
            self.busy -= 1;
            return;
        }
        vacated.free += 1;
        self.busy -= 1;
        if !vacated.is_idle {
            self.append(worker);
        }
        self.refresh(worker, queue);
    }

    /// After the worker's candidates or its slots changed.
    fn refresh(&mut self, worker: WorkerId, queue: &Queue) {
        let entry = &mut self.all[worker.at()];
        let offer = if entry.free > 0 { entry.candidates.best(queue) } else { None };
        if offer == entry.offer {
            return;
        }
        if let Some(old) = std::mem::replace(&mut entry.offer, offer) {
            self.offers.remove(&(old, worker));
        }
        if let Some(new) = offer {
            self.offers.insert((new, worker));
        }
    }

    fn append(&mut self, worker: WorkerId) {
        let last = self.idle.1;
        let entry = &mut self.all[worker.at()];
        (entry.previous, entry.next, entry.is_idle) = (last, NONE, true);
        match last {
            NONE => self.idle.0 = worker.0,
            _ => self.all[last as usize].next = worker.0,
        }
        self.idle.1 = worker.0;
    }

    fn unlink(&mut self, worker: WorkerId) {
        let Worker { previous, next, .. } = self.all[worker.at()];
        match previous {
            NONE => self.idle.0 = next,
            _ => self.all[previous as usize].next = next,
        }
        match next {
            NONE => self.idle.1 = previous,
            _ => self.all[next as usize].previous = previous,
        }
        self.all[worker.at()].is_idle = false;
    }
}
