//! A batch that is known beforehand: ordered so that neighbours share input, and cut into one run a worker.
//!
//! The order is Hilbert's curve over (first input, last input), both numbered by nearness: tasks of one input come file
//! by file; all pairs of two sets come in near-square tiles, so that P workers together read about 2·N·√P files instead
//! of 2·N·P. Where that reads less it is the order of the numbers: neighbouring pairs come along their band. A worker
//! takes from the front of its run, and when that is empty the back half of the longest other run.

use std::collections::HashMap;

use crate::cache::{ItemId, WorkerId};

use super::{TaskId, hilbert, nearness};

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
    /// Runs without a worker: those of workers that left, and all of them before the first worker joins.
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
        let parts = self.runs.iter().filter(|run| run.slots > 0).count().max(1);
        self.order.extend(ordered(tasks, parts));
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

    /// Returns the worker's next task.
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

    /// Returns an orphaned run, else the back half of the longest.
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

/// Along Hilbert's curve, or along the band that neighbours make: whichever has the parts read less.
fn ordered<'a>(tasks: impl Iterator<Item = (TaskId, &'a [ItemId])>, parts: usize) -> impl Iterator<Item = TaskId> {
    let (names, inputs): (Vec<TaskId>, Vec<&[ItemId]>) = tasks.unzip();
    let places = nearness::places(&inputs);
    let orders = [sorted(&curve(&inputs, &places)), sorted(&band(&inputs, &places))];
    let best = orders.into_iter().min_by_key(|order| reads(order, &inputs, places.len(), parts));
    best.unwrap_or_default().into_iter().map(move |at| names[at as usize])
}

/// Returns where each task lies on the curve over (first input, last input): tiles, when all pairs are there.
fn curve(inputs: &[&[ItemId]], places: &[Option<u32>]) -> Vec<u64> {
    let columns = ranks(inputs.iter().filter_map(|inputs| inputs.first()), places);
    let rows = ranks(inputs.iter().filter(|inputs| inputs.len() > 1).filter_map(|inputs| inputs.last()), places);
    let side = columns.len().max(rows.len()).max(1) as u32;
    let bits = side.next_power_of_two().ilog2();
    let rank = |ranks: &HashMap<ItemId, u32>, item: Option<&ItemId>| item.map_or(0, |item| ranks[item]);
    let distance = |inputs: &&[ItemId]| {
        let row = if inputs.len() > 1 { rank(&rows, inputs.last()) } else { 0 };
        hilbert::distance(bits, rank(&columns, inputs.first()), row)
    };
    inputs.iter().map(distance).collect()
}

/// Returns how far down the items each task lies, when only near ones are read together.
fn band(inputs: &[&[ItemId]], places: &[Option<u32>]) -> Vec<u64> {
    let place = |item: Option<&ItemId>| u64::from(item.and_then(|item| places[item.at()]).unwrap_or(0));
    inputs.iter().map(|inputs| place(inputs.first()) + place(inputs.last())).collect()
}

fn sorted(keys: &[u64]) -> Vec<u32> {
    let mut order: Vec<u32> = (0..keys.len() as u32).collect();
    order.sort_by_key(|&at| keys[at as usize]);
    order
}

/// Returns the items that so many equal parts of the order read, each counted once a part.
fn reads(order: &[u32], inputs: &[&[ItemId]], items: usize, parts: usize) -> usize {
    let mut last_part = vec![usize::MAX; items];
    let mut reads = 0;
    for (turn, &at) in order.iter().enumerate() {
        let part = turn * parts / order.len();
        for item in inputs[at as usize] {
            reads += usize::from(std::mem::replace(&mut last_part[item.at()], part) != part);
        }
    }
    reads
}

/// Returns the items without repeats, numbered by their places.
fn ranks<'a>(items: impl Iterator<Item = &'a ItemId>, places: &[Option<u32>]) -> HashMap<ItemId, u32> {
    let mut placed: Vec<ItemId> = items.copied().collect();
    placed.sort_unstable_by_key(|item| places[item.at()]);
    placed.dedup();
    placed.into_iter().zip(0..).collect()
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
    fn shuffled_neighbours_are_neighbours_again() {
        let (files, workers) = (160, 8);
        let mut pairs: Vec<[ItemId; 2]> =
            (0..files * 4).map(|at| [at / 4, (at / 4 + at % 4 + 1) % files].map(ItemId)).collect();
        let mut state = 1_u64;
        for at in (1..pairs.len()).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            pairs.swap(at, (state >> 33) as usize % (at + 1));
        }
        let mut batch = filled(workers, &pairs);
        for worker in 0..workers {
            let mine: BTreeSet<ItemId> =
                (0..80).flat_map(|_| pairs[batch.take(WorkerId(worker)).expect("an even share").0 as usize]).collect();
            // Twenty tiles from both sides of where the numbers begin, and four beyond each of their ends.
            assert!(mine.len() <= 20 + 4 * 4, "worker {worker} reads {} of {files} files", mine.len());
        }
    }

    #[test]
    fn each_task_is_taken_once_while_workers_join_and_leave() {
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
