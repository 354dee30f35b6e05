//! Which task runs before which: tasks that read and write the same run in the order in which they were submitted. A
//! reader needs the output of the last writer before it; a writer waits for the readers and the writer before it,
//! whatever becomes of them.

use std::collections::{BTreeMap, HashSet};

use policy::cache::ItemId;
use policy::placement::TaskId;

use crate::plan::Plan;
use crate::tasks::{State, Task};

/// A task that waits for another one's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Follower {
    task: TaskId,
    /// It reads what the other one is to write.
    is_reader: bool,
}

/// A task's reads and writes, as it is submitted.
#[derive(Clone, Copy, Debug, Default)]
pub struct Accesses<'a> {
    pub inputs: &'a [ItemId],
    /// Items that the inputs overlap, and others have yet to write.
    pub awaited: &'a [ItemId],
    pub outputs: &'a [ItemId],
    /// Items that the outputs overlap, and others may read or write.
    pub displaced: &'a [ItemId],
}

impl Plan {
    /// Makes the task follow those that are to end before it. Gives how many these are.
    pub(crate) fn follow_others(&mut self, task: TaskId, accesses: &Accesses) -> u32 {
        let mut before: BTreeMap<TaskId, bool> = BTreeMap::new();
        for &item in accesses.outputs.iter().chain(accesses.displaced) {
            let entry = self.items.get(item);
            before.extend(entry.readers.iter().chain(&entry.writer).map(|&other| (other, false)));
        }
        for &item in accesses.inputs.iter().chain(accesses.awaited) {
            before.extend(self.items.get(item).writer.map(|other| (other, true)));
        }
        before.retain(|&other, _| self.is_under_way(other));
        for (&other, &is_reader) in &before {
            self.tasks[other.0 as usize].followers.push(Follower { task, is_reader });
        }
        for &item in accesses.inputs {
            self.add_reader(item, task);
        }
        for &item in accesses.outputs {
            let entry = self.items.get_mut(item);
            entry.writer = Some(task);
            entry.readers.clear();
        }
        before.len() as u32
    }

    /// Those that have ended are removed now and then, so that a run without end does not grow.
    fn add_reader(&mut self, item: ItemId, task: TaskId) {
        let mut readers = std::mem::take(&mut self.items.get_mut(item).readers);
        if readers.len() == readers.capacity() {
            readers.retain(|&other| self.is_under_way(other));
            readers.reserve(readers.len());
        }
        readers.push(task);
        self.items.get_mut(item).readers = readers;
    }

    fn is_under_way(&self, task: TaskId) -> bool {
        self.tasks.get(task.0 as usize).is_some_and(|task| task.state != State::Ended)
    }

    /// Notes that the task is done, its outputs are where they belong: those that waited for it may run.
    pub fn done(&mut self, now_s: f64, task: TaskId) {
        for follower in self.conclude(task) {
            self.unblock(now_s, follower.task);
        }
    }

    /// Drops a task that will not be done. Returns those that will not be either, because they wait for its outputs.
    pub fn abandon(&mut self, now_s: f64, task: TaskId) -> Vec<TaskId> {
        let mut abandoned = vec![task];
        let mut known = HashSet::new();
        let mut at = 0;
        while at < abandoned.len() {
            for follower in self.conclude(abandoned[at]) {
                if !follower.is_reader {
                    self.unblock(now_s, follower.task);
                } else if self.is_blocked(follower.task) && known.insert(follower.task) {
                    abandoned.push(follower.task);
                }
            }
            at += 1;
        }
        abandoned.remove(0);
        abandoned
    }

    /// Notes that one of those that it waits for has ended.
    fn unblock(&mut self, now_s: f64, task: TaskId) {
        // Abandoned for another one, if it is not there any more.
        let Some(entry) = self.tasks.get_mut(task.0 as usize) else { return };
        match entry.state {
            State::Blocked(1) => {
                entry.state = State::Waiting;
                self.scheduler.submit(now_s, task, &entry.inputs);
            }
            State::Blocked(left) => entry.state = State::Blocked(left - 1),
            _ => {}
        }
    }

    fn is_blocked(&self, task: TaskId) -> bool {
        let entry = self.tasks.get(task.0 as usize);
        entry.is_some_and(|Task { state, .. }| matches!(state, State::Blocked(_)))
    }

    /// Returns the tasks that waited for it.
    fn conclude(&mut self, task: TaskId) -> Vec<Follower> {
        let entry = &mut self.tasks[task.0 as usize];
        entry.end();
        let followers = std::mem::take(&mut entry.followers);
        self.tasks.forget_ended();
        followers
    }
}
