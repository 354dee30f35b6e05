//! A workload: files, and tasks with the times they are submitted.
//!
//! The built-in workloads are the source's (Raicu 2010); where his slide and his release disagree, the release that
//! reproduces his ideal times counts. One file a workload.

mod all_pairs;
mod monotonic;
mod profile;
mod sine;
mod stacking;
mod trace;

pub use all_pairs::all_pairs;
pub use monotonic::monotonic;
pub use profile::profile;
pub use sine::sine;
pub use stacking::{STACKING, stacking};
pub use trace::{TraceError, trace};

use policy::cache::ItemId;

/// The longest time a workload may name: a run computes every second.
pub const MAX_SECONDS: f64 = 1e7;

/// Files and tasks; tasks in the order they are submitted.
#[derive(Clone, Debug, Default)]
pub struct Workload {
    pub name: String,
    /// Of each file, by its number.
    pub file_bytes: Vec<u64>,
    /// Whether all tasks are known from the start, so that they may be reordered.
    pub is_batch: bool,
    tasks: Vec<Stored>,
    files: Vec<ItemId>,
}

#[derive(Clone, Copy, Debug)]
struct Stored {
    submitted_s: f64,
    compute_s: f32,
    first: u32,
    inputs: u16,
    outputs: u16,
}

/// One task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct WorkloadTask<'a> {
    pub submitted_s: f64,
    pub compute_s: f64,
    pub inputs: &'a [ItemId],
    pub outputs: &'a [ItemId],
}

impl Workload {
    /// Without tasks yet.
    pub fn new(name: &str, file_bytes: Vec<u64>) -> Self {
        Workload { name: name.to_owned(), file_bytes, ..Workload::default() }
    }

    pub fn push(&mut self, task: WorkloadTask<'_>) {
        let first = self.files.len() as u32;
        self.files.extend_from_slice(task.inputs);
        self.files.extend_from_slice(task.outputs);
        self.tasks.push(Stored {
            submitted_s: task.submitted_s,
            compute_s: task.compute_s as f32,
            first,
            inputs: task.inputs.len() as u16,
            outputs: task.outputs.len() as u16,
        });
    }

    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    pub fn task(&self, at: usize) -> WorkloadTask<'_> {
        let Stored { submitted_s, compute_s, first, inputs, outputs } = self.tasks[at];
        let middle = first as usize + usize::from(inputs);
        WorkloadTask {
            submitted_s,
            compute_s: f64::from(compute_s),
            inputs: &self.files[first as usize..middle],
            outputs: &self.files[middle..middle + usize::from(outputs)],
        }
    }

    pub fn tasks(&self) -> impl Iterator<Item = WorkloadTask<'_>> {
        (0..self.len()).map(|at| self.task(at))
    }

    pub fn input_bytes(&self, task: &WorkloadTask<'_>) -> u64 {
        task.inputs.iter().map(|file| self.file_bytes[file.0 as usize]).sum()
    }

    /// Returns the bytes of all files that any task reads, each once.
    pub fn unique_bytes(&self) -> u64 {
        let mut read = vec![false; self.file_bytes.len()];
        self.tasks().for_each(|task| task.inputs.iter().for_each(|file| read[file.0 as usize] = true));
        self.file_bytes.iter().zip(read).filter(|(_, read)| *read).map(|(bytes, _)| bytes).sum()
    }
}
