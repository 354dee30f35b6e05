//! Background work: commits and detaches that continue after the call returned, with acknowledgement at `received`.

use std::sync::{Condvar, Mutex};

use crate::{Error, Result};

#[derive(Default)]
pub(super) struct Background {
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    running: usize,
    failure: Option<Error>,
}

impl Background {
    pub fn begin(&self) {
        self.state.lock().expect("counting does not panic").running += 1;
    }

    pub fn end(&self, result: Result<()>) {
        let mut state = self.state.lock().expect("counting does not panic");
        state.running -= 1;
        if let Err(error) = result {
            state.failure.get_or_insert(error);
        }
        self.ended.notify_all();
    }

    /// Waits until no background work is left.
    pub fn wait(&self) {
        let state = self.state.lock().expect("counting does not panic");
        drop(self.ended.wait_while(state, |state| state.running > 0).expect("counting does not panic"));
    }

    /// Waits until no background work is left, and reports the first failure, once.
    pub fn finish(&self) -> Result<()> {
        let state = self.state.lock().expect("counting does not panic");
        let mut state = self.ended.wait_while(state, |state| state.running > 0).expect("counting does not panic");
        state.failure.take().map_or(Ok(()), Err)
    }
}
