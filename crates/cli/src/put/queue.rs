//! Units of work between the walk and the workers: bounded where the walk puts in, open where a worker gives back the
//! rest of a unit that turned out to be large, so that another core takes it up.

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
            if let Some(unit) = state.units.pop_front() {
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
