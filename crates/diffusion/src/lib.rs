//! The plan of a run of data diffusion: events in (tasks came, a worker joined, bytes arrived, a task ended), orders out.
//!
//! `policy::placement` decides which task runs where and where its input comes from; this crate tracks those decisions:
//! attempts, pins, transfers that wait behind others, outputs that others wait for. No I/O and no clock: times are the
//! caller's seconds. Reports that are late, doubled, or about items the worker no longer has are ignored, so that
//! messages may cross.

mod backpressure;
mod balance;
mod items;
mod pace;
mod plan;
mod precedence;
mod store_admission;
mod tasks;
#[cfg(test)]
mod tests;
mod transfers;

pub use plan::{Plan, Settings};
pub use precedence::Accesses;

use policy::cache::{ItemId, WorkerId};
use policy::placement::TaskId;

/// A task and the number of its attempt.
pub type Attempt = (TaskId, u32);

/// An instruction to a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Run this attempt when all input is there; `coming` is not yet, and fetches follow.
    Run { worker: WorkerId, task: TaskId, attempt: u32, coming: Vec<ItemId> },
    /// Bring the item, from a peer or else from the store. An item that is not kept is for one attempt alone.
    Fetch { worker: WorkerId, item: ItemId, from: Option<WorkerId>, only_for: Option<Attempt> },
    /// These leave the cache.
    Evict { worker: WorkerId, items: Vec<ItemId> },
    /// Give the attempt back if it has not begun.
    Recall { worker: WorkerId, task: TaskId, attempt: u32 },
}
