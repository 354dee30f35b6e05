//! Tasks and workers as the plan remembers them.

use policy::cache::{ItemId, WorkerId};
use policy::placement::TaskId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// So many of its inputs are yet to be written.
    Blocked(u32),
    Waiting,
    Assigned(WorkerId),
    Ended,
}

pub(crate) struct Task {
    pub inputs: Box<[ItemId]>,
    pub outputs: Box<[ItemId]>,
    pub state: State,
    /// Attempts so far; the newest is the one that counts.
    pub attempt: u32,
    pub is_recalled: bool,
    /// Inputs that the plan pinned in its worker's cache.
    pub pinned: Vec<ItemId>,
}

impl Task {
    pub fn new(inputs: &[ItemId], outputs: &[ItemId]) -> Self {
        Task {
            inputs: inputs.into(),
            outputs: outputs.into(),
            state: State::Waiting,
            attempt: 0,
            is_recalled: false,
            pinned: Vec::new(),
        }
    }

    pub fn is_on(&self, worker: WorkerId) -> bool {
        self.state == State::Assigned(worker)
    }

    /// Nothing more will come of it; its description is let go.
    pub fn end(&mut self) {
        self.state = State::Ended;
        self.inputs = Box::default();
        self.pinned = Vec::new();
    }
}

pub(crate) struct Worker {
    /// Tasks it runs at once.
    pub slots: u32,
    /// Tasks it may know at once.
    pub depth: u32,
    /// Of those, how many are kept from it while its cache is laden.
    pub reined: u32,
    /// In the order they were assigned.
    pub assigned: Vec<TaskId>,
    /// Recalls it has not answered.
    pub recalls: u32,
    pub is_open: bool,
}

impl Worker {
    /// Tasks it could run at once and does not have.
    pub fn idle_slots(&self) -> u32 {
        if self.is_open { self.slots.saturating_sub(self.assigned.len() as u32) } else { 0 }
    }

    /// Tasks that wait there for others to end, less those that were recalled.
    pub fn surplus(&self) -> u32 {
        (self.assigned.len() as u32).saturating_sub(self.slots + self.recalls)
    }
}
