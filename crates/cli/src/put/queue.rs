//! Units of work between the walk and the workers: bounded where the walk puts in, open where a worker gives back the
//! rest of a unit that turned out to be large. The last unit in the queue is halved when it is taken: else the worker that gave
//! back the rest of it would take it again before another worker wakes, and one core would do all the work.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use super::walk::Unit;

pub struct Queue {
    state: Mutex<State>,
    changed: Condvar,
    capacity: usize,
}

struct State {
    units: VecDeque<Unit>,
    /// The walk has ended: only what workers give back will come.
    is_closed: bool,
    /// Workers that may still give something back.
    working: usize,
    workers: usize,
}

/// No worker is left to take anything.
#[derive(Debug)]
pub struct Disconnected;

/// A worker's place at the queue.
pub struct WorkerSlot<'a> {
    queue: &'a Queue,
    is_working: bool,
}

/// The walk's end of the queue; dropped when it ends.
pub struct Sender<'a>(&'a Queue);

impl Queue {
    /// For so many workers, each of which must take its [`WorkerSlot`].
    pub fn new(capacity: usize, workers: usize) -> Self {
        let state = State { units: VecDeque::new(), is_closed: false, working: 0, workers };
        Queue { state: Mutex::new(state), changed: Condvar::new(), capacity }
    }

    pub fn sender(&self) -> Sender<'_> {
        Sender(self)
    }

    pub fn slot(&self) -> WorkerSlot<'_> {
        WorkerSlot { queue: self, is_working: false }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }
}

impl Sender<'_> {
    /// Waits while the queue is full.
    pub fn send(&self, unit: Unit) -> Result<(), Disconnected> {
        let mut state = self.0.state();
        while state.workers > 0 && state.units.len() >= self.0.capacity {
            state = self.0.wait(state);
        }
        if state.workers == 0 {
            return Err(Disconnected);
        }
        state.units.push_back(unit);
        self.0.changed.notify_all();
        Ok(())
    }
}

impl Drop for Sender<'_> {
    fn drop(&mut self) {
        self.0.state().is_closed = true;
        self.0.changed.notify_all();
    }
}

impl WorkerSlot<'_> {
    /// Returns the next unit; none when the walk has ended and no other worker can give back any more.
    pub fn take(&mut self) -> Option<Unit> {
        let mut state = self.queue.state();
        self.rest(&mut state);
        loop {
            if let Some(mut unit) = state.units.pop_front() {
                if state.units.is_empty() && state.workers > 1 {
                    state.units.extend(unit.split_half());
                }
                state.working += 1;
                self.is_working = true;
                self.queue.changed.notify_all();
                return Some(unit);
            }
            if state.is_closed && state.working == 0 {
                return None;
            }
            state = self.queue.wait(state);
        }
    }

    /// Gives the unit to the next free worker.
    pub fn give_back(&self, unit: Unit) {
        self.queue.state().units.push_front(unit);
        self.queue.changed.notify_all();
    }

    /// Whether another worker waits for a unit and none is there.
    pub fn is_another_idle(&self) -> bool {
        let state = self.queue.state();
        state.units.is_empty() && state.working < state.workers
    }

    fn rest(&mut self, state: &mut State) {
        if std::mem::take(&mut self.is_working) {
            state.working -= 1;
            self.queue.changed.notify_all();
        }
    }
}

impl Drop for WorkerSlot<'_> {
    fn drop(&mut self) {
        let queue = self.queue;
        let mut state = queue.state();
        self.rest(&mut state);
        state.workers -= 1;
        queue.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::CString;
    use std::sync::Arc;

    use format::StorePath;
    use rustix::fs::FileType;

    use super::*;
    use crate::put::walk::{Directory, Name};

    fn unit(names: usize) -> Unit {
        let directory = Directory { opened: std::fs::File::open("/").expect("/ opens").into(), path: "/".into() };
        let name = |number: usize| Name {
            name: CString::new(number.to_string()).expect("digits"),
            target: StorePath::new(number.to_string().as_bytes()).expect("digits"),
            file_type: FileType::RegularFile,
            known: None,
        };
        Unit { directory: Arc::new(directory), names: (0..names).map(name).collect() }
    }

    /// How many names each of two workers takes who take turns, each one name from each unit it takes.
    fn taken_by_turns(names: usize) -> [usize; 2] {
        let queue = Queue::new(1, 2);
        let mut slots = [queue.slot(), queue.slot()];
        queue.sender().send(unit(names)).expect("workers are left");
        let mut taken = [0; 2];
        let mut held: [Option<Unit>; 2] = [None, None];
        while taken.iter().sum::<usize>() < names {
            for worker in 0..2 {
                let is_left = !queue.state().units.is_empty();
                let Some(mut unit) = held[worker].take().or_else(|| is_left.then(|| slots[worker].take()).flatten())
                else {
                    continue;
                };
                unit.names.remove(0);
                taken[worker] += 1;
                held[worker] = (!unit.names.is_empty()).then_some(unit);
            }
        }
        taken
    }

    #[test]
    fn a_worker_that_keeps_its_unit_leaves_others_half_of_the_last() {
        assert_eq!(taken_by_turns(64), [32, 32]);
        assert_eq!(taken_by_turns(1), [1, 0]);
    }

    #[test]
    fn a_single_worker_takes_units_whole() {
        let queue = Queue::new(1, 1);
        queue.sender().send(unit(5)).expect("a worker is left");
        assert_eq!(queue.slot().take().expect("a unit").names.len(), 5);
    }
}
