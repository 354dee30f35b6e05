//! Tasks and workers as the plan remembers them.

use std::collections::VecDeque;
use std::ops::{Index, IndexMut};

use policy::cache::{ItemId, WorkerId};
use policy::placement::TaskId;

use crate::precedence::Follower;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// So many tasks are to end before.
    Blocked(u32),
    /// Will not run; so many tasks are to end before those that follow it may.
    Abandoned(u32),
    Waiting,
    Assigned(WorkerId),
    Ended,
}

pub(crate) struct Task {
    pub inputs: Box<[ItemId]>,
    pub state: State,
    /// Attempts so far; the newest is the one that counts.
    pub attempt: u32,
    pub is_recalled: bool,
    /// Inputs that the plan pinned in its worker's cache.
    pub pinned: Vec<ItemId>,
    pub followers: Vec<Follower>,
}

impl Task {
    pub fn new(inputs: &[ItemId]) -> Self {
        Task {
            inputs: inputs.into(),
            state: State::Waiting,
            attempt: 0,
            is_recalled: false,
            pinned: Vec::new(),
            followers: Vec::new(),
        }
    }

    pub fn is_on(&self, worker: WorkerId) -> bool {
        self.state == State::Assigned(worker)
    }

    /// Ends the task; its description is dropped.
    pub fn end(&mut self) {
        self.state = State::Ended;
        self.inputs = Box::default();
        self.pinned = Vec::new();
    }
}

/// Tasks by number. The oldest are forgotten when they have ended, so that a run without end does not grow.
#[derive(Default)]
pub(crate) struct Tasks {
    forgotten: usize,
    there: VecDeque<Task>,
}

impl Tasks {
    /// Returns the tasks that ever were; the next one's number.
    pub fn ever(&self) -> usize {
        self.forgotten + self.there.len()
    }

    pub fn push(&mut self, task: Task) {
        self.there.push_back(task);
    }

    /// None for one that was forgotten, or never was.
    pub fn get(&self, number: usize) -> Option<&Task> {
        self.there.get(number.checked_sub(self.forgotten)?)
    }

    pub fn get_mut(&mut self, number: usize) -> Option<&mut Task> {
        self.there.get_mut(number.checked_sub(self.forgotten)?)
    }

    pub fn forget_ended(&mut self) {
        while self.there.front().is_some_and(|task| task.state == State::Ended) {
            self.there.pop_front();
            self.forgotten += 1;
        }
    }

    /// Returns the tasks that are remembered.
    #[cfg(test)]
    pub fn remembered(&self) -> usize {
        self.there.len()
    }
}

impl Index<usize> for Tasks {
    type Output = Task;

    fn index(&self, number: usize) -> &Task {
        &self.there[number - self.forgotten]
    }
}

impl IndexMut<usize> for Tasks {
    fn index_mut(&mut self, number: usize) -> &mut Task {
        &mut self.there[number - self.forgotten]
    }
}

pub(crate) struct Worker {
    /// Tasks it runs at once.
    pub slots: u32,
    /// Tasks it may know at once.
    pub depth: u32,
    /// Of those, how many are kept from it while its cache is laden.
    pub held_back: u32,
    /// In the order they were assigned.
    pub assigned: Vec<TaskId>,
    /// Recalls it has not answered.
    pub recalls: u32,
    pub is_open: bool,
}

impl Worker {
    /// Returns the tasks it could run at once and does not have.
    pub fn idle_slots(&self) -> u32 {
        if self.is_open { self.slots.saturating_sub(self.assigned.len() as u32) } else { 0 }
    }

    /// Returns the tasks that wait there for others to end, less those that were recalled.
    pub fn surplus(&self) -> u32 {
        (self.assigned.len() as u32).saturating_sub(self.slots + self.recalls)
    }
}
