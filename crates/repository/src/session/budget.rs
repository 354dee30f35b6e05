//! How many bytes a node holds for programs that outrun it.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Staged bytes of all stripe sets together, and the bound that makes writers wait.
pub struct Budget {
    limit_bytes: u64,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    used_bytes: u64,
    /// Of pieces that are let in and not staged yet.
    incoming_bytes: u64,
}

/// A piece that was let in. Dropped when it is staged, and counted by its stripe set.
pub struct Incoming<'a> {
    budget: &'a Budget,
    bytes: u64,
}

impl Drop for Incoming<'_> {
    fn drop(&mut self) {
        self.budget.lock().incoming_bytes -= self.bytes;
        self.budget.freed.notify_all();
    }
}

impl Budget {
    pub fn new(limit_bytes: u64) -> Self {
        Budget { limit_bytes, state: Mutex::default(), freed: Condvar::new() }
    }

    /// Notes that a stripe set that held `from` bytes holds `to` now.
    pub(crate) fn change(&self, from: u64, to: u64) {
        if from == to {
            return;
        }
        let mut state = self.lock();
        state.used_bytes = (state.used_bytes + to).checked_sub(from).expect("what is given back was taken");
        if to < from {
            self.freed.notify_all();
        }
    }

    /// Whether more than half of it is used, so that memory should be released where it can be.
    pub(crate) fn is_short(&self) -> bool {
        self.used_bytes() > self.limit_bytes / 2
    }

    pub fn used_bytes(&self) -> u64 {
        self.lock().used_bytes
    }

    /// Waits until there is room again, or the time is up; says which. A task that reads from a socket asks before the
    /// next piece, so that a full node stops reading and the writer waits.
    pub fn wait_for_room(&self, timeout: Duration) -> bool {
        self.lock_with_room(timeout).is_some()
    }

    /// Lets a piece in that will take so many bytes of memory, when there is room: only one is let in beyond the limit,
    /// however many connections bring theirs at once. None when the time is up.
    pub fn admit(&self, bytes: u64, timeout: Duration) -> Option<Incoming<'_>> {
        self.lock_with_room(timeout)?.incoming_bytes += bytes;
        Some(Incoming { budget: self, bytes })
    }

    fn lock_with_room(&self, timeout: Duration) -> Option<MutexGuard<'_, State>> {
        let is_full = |state: &State| state.used_bytes.saturating_add(state.incoming_bytes) > self.limit_bytes;
        let waited = self.freed.wait_timeout_while(self.lock(), timeout, |state| is_full(state));
        let (state, _) = waited.expect("no panic holds it");
        (!is_full(&state)).then_some(state)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic holds it")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_piece_is_let_in_beyond_the_limit_and_no_other_before_it_is_stored() {
        let budget = Budget::new(100);
        let first = budget.admit(1000, Duration::ZERO).expect("there is room");
        assert!(budget.admit(1, Duration::ZERO).is_none() && !budget.wait_for_room(Duration::ZERO));
        budget.change(0, 1000);
        drop(first);
        assert!(budget.admit(1, Duration::ZERO).is_none(), "it is staged");
        budget.change(1000, 100);
        assert!(budget.admit(1, Duration::ZERO).is_some());
        assert_eq!(budget.used_bytes(), 100);
    }
}
