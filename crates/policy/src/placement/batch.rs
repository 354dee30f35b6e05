//! A batch that is known beforehand: ordered so that neighbours share input, and cut into one run a worker.
//!
//! The order is Hilbert's curve over (first input, last input). Tasks of one input come file by file; all pairs of two
//! sets come in near-square tiles, so that P workers together read about 2·N·√P files instead of 2·N·P. A worker takes
//! from the front of its run, and when that is empty the back half of the longest other run.

use std::collections::HashMap;

use crate::cache::{ItemId, WorkerId};

use super::{TaskId, hilbert};

#[derive(Clone, Copy, Default)]
struct Run {
    start: u32,
    end: u32,
    slots: u32,
}

impl Run {
    fn len(self) -> u32 {
        self.end - self.start
    }
}

/// Tasks in order, and which part of them is whose.
#[derive(Default)]
pub struct Batch {
    order: Vec<TaskId>,
    /// One for each worker that ever joined.
    runs: Vec<Run>,
    /// What nobody has taken over: the runs of workers that left, and all of it before the first worker joins.
    orphans: Vec<Run>,
    remaining: usize,
}

impl Batch {
    pub fn len(&self) -> usize {
        self.remaining
    }

    pub fn is_empty(&self) -> bool {
        self.remaining == 0
    }

    /// Workers join in the order of their numbers. One that joins late begins by taking over from others.
    pub fn join(&mut self, worker: WorkerId, slots: u32) {
        assert_eq!(worker.at(), self.runs.len(), "workers are numbered as they join");
        self.runs.push(Run { slots, ..Run::default() });
    }

    pub fn leave(&mut self, worker: WorkerId) {
        let run = std::mem::take(&mut self.runs[worker.at()]);
        if run.len() > 0 {
            self.orphans.push(run);
        }
    }

    /// Takes tasks in addition to those it has, and cuts them by the workers' slots.
    pub fn fill<'a>(&mut self, tasks: impl Iterator<Item = (TaskId, &'a [ItemId])>) {
        let rest: Vec<Run> =
            self.runs.iter_mut().map(|run| Run { slots: 0, start: run.start, end: take(run) }).collect();
        self.orphans.extend(rest.into_iter().filter(|run| run.len() > 0));
        let first = self.order.len() as u32;
        self.order.extend(ordered(tasks));
        let added = self.order.len() as u32 - first;
        self.remaining += added as usize;
        let slots: u64 = self.runs.iter().map(|run| u64::from(run.slots)).sum();
        if slots == 0 {
            self.orphans.push(Run { start: first, end: first + added, slots: 0 });
            return;
        }
        let mut before = 0;
        let share = |slots_before: u64| first + (u64::from(added) * slots_before / slots) as u32;
        for run in &mut self.runs {
            run.start = share(before);
            before += u64::from(run.slots);
            run.end = share(before);
        }
    }

    /// The worker's next task.
    pub fn take(&mut self, worker: WorkerId) -> Option<TaskId> {
        if self.remaining == 0 {
            return None;
        }
        if self.runs[worker.at()].len() == 0 {
            self.take_over(worker);
        }
        let run = &mut self.runs[worker.at()];
        let task = self.order[run.start as usize];
        run.start += 1;
        self.remaining -= 1;
        Some(task)
    }

    /// An orphaned run, else the back half of the longest.
    fn take_over(&mut self, worker: WorkerId) {
        let slots = self.runs[worker.at()].slots;
        if let Some(orphan) = self.orphans.pop() {
            self.runs[worker.at()] = Run { slots, ..orphan };
            return;
        }
        let longest = self.runs.iter_mut().max_by_key(|run| run.len()).expect("there is a worker");
        let end = longest.end;
        let middle = end - longest.len().div_ceil(2);
        longest.end = middle;
        self.runs[worker.at()] = Run { start: middle, end, slots };
    }
}

/// Empties a run and gives where it ended.
fn take(run: &mut Run) -> u32 {
    let end = run.end;
    (run.start, run.end) = (0, 0);
    end
}

/// Along the curve; inputs are numbered in the order they are met, at each of the two places by itself.
fn ordered<'a>(tasks: impl Iterator<Item = (TaskId, &'a [ItemId])>) -> impl Iterator<Item = TaskId> {
    let (mut columns, mut rows) = (HashMap::new(), HashMap::new());
    let mut cells: Vec<(u32, u32, TaskId)> = Vec::new();
    for (task, inputs) in tasks {
        let column = inputs.first().map_or(0, |&item| number(&mut columns, item));
        let row = if inputs.len() > 1 { number(&mut rows, inputs[inputs.len() - 1]) } else { 0 };
        cells.push((column, row, task));
    }
    let side = columns.len().max(rows.len()).max(1) as u32;
    let bits = side.next_power_of_two().ilog2();
    let mut keyed: Vec<(u64, TaskId)> =
        cells.into_iter().map(|(column, row, task)| (hilbert::distance(bits, column, row), task)).collect();
    keyed.sort_unstable();
    keyed.into_iter().map(|(_, task)| task)
}

fn number(numbers: &mut HashMap<ItemId, u32>, item: ItemId) -> u32 {
    let next = numbers.len() as u32;
    *numbers.entry(item).or_insert(next)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn all_pairs(side: u32) -> Vec<[ItemId; 2]> {
        (0..side * side).map(|pair| [ItemId(pair / side), ItemId(side + pair % side)]).collect()
    }

    fn filled(workers: u32, tasks: &[[ItemId; 2]]) -> Batch {
        let mut batch = Batch::default();
        (0..workers).for_each(|worker| batch.join(WorkerId(worker), 2));
        batch.fill(tasks.iter().enumerate().map(|(at, inputs)| (TaskId(at as u32), inputs.as_slice())));
        batch
    }

    #[test]
    fn all_pairs_come_in_tiles() {
        let pairs = all_pairs(64);
        let workers = 16;
        let mut batch = filled(workers, &pairs);
        let mut read = 0;
        for worker in 0..workers {
            let mine: BTreeSet<ItemId> =
                (0..256).flat_map(|_| pairs[batch.take(WorkerId(worker)).expect("an even share").0 as usize]).collect();
            read += mine.len();
        }
        // 2·N·√P, exactly: sixteen squares of sixteen.
        assert_eq!(read, 2 * 64 * 4);
    }

    #[test]
    fn each_task_is_taken_once_whoever_joins_and_leaves() {
        let pairs = all_pairs(20);
        let mut batch = filled(3, &pairs);
        let mut taken = BTreeSet::new();
        for turn in 0.. {
            let Some(task) = batch.take(WorkerId(if turn <= 50 { turn % 3 } else { 1 + turn % 3 })) else { break };
            assert!(taken.insert(task), "{task:?} was taken twice");
            if turn == 50 {
                batch.join(WorkerId(3), 2);
                batch.leave(WorkerId(0));
            }
        }
        assert_eq!(taken.len(), 400);
        assert!(batch.is_empty());
    }

    #[test]
    fn tasks_of_one_file_are_neighbours() {
        let inputs: Vec<[ItemId; 1]> = (0..300).map(|at| [ItemId(at % 30)]).collect();
        let mut batch = Batch::default();
        batch.join(WorkerId(0), 1);
        batch.fill(inputs.iter().enumerate().map(|(at, inputs)| (TaskId(at as u32), inputs.as_slice())));
        let files: Vec<u32> = (0..300).map(|_| batch.take(WorkerId(0)).expect("300 tasks").0 % 30).collect();
        assert_eq!(files.windows(2).filter(|pair| pair[0] != pair[1]).count(), 29);
    }
}
