//! Which waiting task runs on which worker, so that tasks meet their input where it already lies.
//!
//! Two choices make one decision: a task looks for the worker that has most of its input, and a freed worker looks
//! through a *window* of waiting tasks for the one it serves best (Raicu 2010; his release notifies a worker for the
//! queue's head and lets that worker choose). Run to rest after each event, both come to one rule: **the best pair of a
//! free worker and a task of the window goes first; when no free worker has anything of the window, the rule says
//! whether a task may run away from its data or is held.** In the source that is one threshold on the share of busy
//! slots: FA, MCH, MCU and GCC are one algorithm (`rule`). Ours asks instead what waiting and fetching cost.

mod batch;
mod candidates;
mod costs;
mod fetching;
mod hilbert;
mod line;
mod nearness;
mod queue;
mod rule;
mod scheduler;
mod sizes;
#[cfg(test)]
mod tests;
mod wants;
mod workers;

pub use batch::Batch;
pub use costs::Costs;
pub use fetching::{Fetch, Source};
pub use rule::Rule;
pub use scheduler::{Scheduler, Settings};

use crate::cache::WorkerId;

/// The caller's name for a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u32);

/// A decision: this task takes one of this worker's slots.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Assignment {
    pub task: TaskId,
    pub worker: WorkerId,
}
