//! Which task runs before which: tasks that read and write the same run in the order in which they were submitted. A
//! reader needs the output of the last writer before it; a writer waits for the readers and the writer before it,
//! whatever becomes of them.

use std::collections::BTreeMap;

use policy::cache::ItemId;
use policy::placement::TaskId;

use crate::plan::Plan;
use crate::tasks::State;

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
        self.conclude(now_s, task);
    }

    /// Drops a task that will not be done. Returns those that will not be either, because they wait for its outputs. Those
    /// that follow one of them still wait for what it waited for: they may know of that through it alone.
    pub fn abandon(&mut self, now_s: f64, task: TaskId) -> Vec<TaskId> {
        let waits = self.abandon_blocked(task);
        let mut abandoned = vec![task];
        let mut at = 0;
        while at < abandoned.len() {
            for follower in self.tasks[abandoned[at].0 as usize].followers.clone() {
                if follower.is_reader && self.abandon_blocked(follower.task) {
                    abandoned.push(follower.task);
                }
            }
            at += 1;
        }
        if !waits {
            self.conclude(now_s, task);
        }
        abandoned.remove(0);
        abandoned
    }

    /// Returns whether it is blocked; then it will not run, and ends after those before it.
    fn abandon_blocked(&mut self, task: TaskId) -> bool {
        let entry = &mut self.tasks[task.0 as usize];
        let State::Blocked(left) = entry.state else { return false };
        entry.state = State::Abandoned(left);
        entry.inputs = Box::default();
        true
    }

    /// Ends a task, and the abandoned ones that waited for nothing else.
    fn conclude(&mut self, now_s: f64, task: TaskId) {
        let mut ended = vec![task];
        while let Some(task) = ended.pop() {
            let entry = &mut self.tasks[task.0 as usize];
            entry.end();
            for follower in std::mem::take(&mut entry.followers) {
                if self.unblock(now_s, follower.task) {
                    ended.push(follower.task);
                }
            }
        }
        self.tasks.forget_ended();
    }

    /// Notes that one of those that it waits for has ended. Returns whether an abandoned one waits for no other.
    fn unblock(&mut self, now_s: f64, task: TaskId) -> bool {
        let entry = &mut self.tasks[task.0 as usize];
        match entry.state {
            State::Blocked(1) => {
                entry.state = State::Waiting;
                self.scheduler.submit(now_s, task, &entry.inputs);
            }
            State::Blocked(left) => entry.state = State::Blocked(left - 1),
            State::Abandoned(1) => return true,
            State::Abandoned(left) => entry.state = State::Abandoned(left - 1),
            _ => unreachable!("it waits for one that has just ended"),
        }
        false
    }
}
