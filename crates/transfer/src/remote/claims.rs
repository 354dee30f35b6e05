//! Which connection each claimant uses, and whether what the node still held in memory may have been lost.
//!
//! At the node a claim belongs to a connection. A claimant therefore keeps its lane while it has claims open;
//! without any it may use whichever is free.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use format::Fingerprint;
use store::Claimant;

use super::lane::Lane;

#[derive(Default)]
pub(super) struct Desks {
    desks: Mutex<HashMap<Claimant, Arc<Mutex<Desk>>>>,
}

/// A claimant's place: its lane, and the segments it has promised to put.
#[derive(Default)]
pub(super) struct Desk {
    pub lane: Option<Lane>,
    pub claims: HashSet<Fingerprint>,
}

impl Desks {
    /// Calls of one claimant take turns here.
    pub fn at<T>(&self, claimant: Claimant, work: impl FnOnce(&mut Desk) -> T) -> T {
        let desk = self.lock().entry(claimant).or_default().clone();
        let done = work(&mut desk.lock().unwrap_or_else(PoisonError::into_inner));
        self.clear_away(claimant, desk);
        done
    }

    /// A desk without claims is dropped, unless another thread stands at it: desks are only handed out under the lock.
    fn clear_away(&self, claimant: Claimant, desk: Arc<Mutex<Desk>>) {
        let mut desks = self.lock();
        let alone = Arc::strong_count(&desk) == 2;
        if alone && desk.lock().unwrap_or_else(PoisonError::into_inner).claims.is_empty() {
            desks.remove(&claimant);
        }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Claimant, Arc<Mutex<Desk>>>> {
        self.desks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Since the last `make_durable`, callers may rely on segments that only the memory of one node process holds. When
/// another process answers at the address, those may be gone, and nothing after that may call them durable.
#[derive(Default)]
pub(super) struct Reliance {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    holder: Option<u64>,
    /// Counts what was relied on, to tell whether something came while a `make_durable` was under way.
    count: u64,
    lost: bool,
}

impl State {
    fn allows(&mut self, holder: u64) -> bool {
        self.lost |= self.holder.is_some_and(|relied| relied != holder);
        !self.lost
    }
}

impl Reliance {
    /// Whether this node process may be asked to hold more, or to make durable what it holds. It may not when another
    /// one was relied on: then all is lost.
    pub fn allows(&self, holder: u64) -> bool {
        self.lock().allows(holder)
    }

    /// Something was put at, or found at, this node process. False when another one was relied on.
    pub fn begin(&self, holder: u64) -> bool {
        let mut state = self.lock();
        state.count += 1;
        let allowed = state.allows(holder);
        state.holder = state.holder.or(Some(holder));
        allowed
    }

    /// What to give to [`Reliance::end`] when what has begun until now is durable.
    pub fn count(&self) -> u64 {
        self.lock().count
    }

    /// Everything up to `count` is durable.
    pub fn end(&self, count: u64) {
        let mut state = self.lock();
        if state.count == count {
            state.holder = None;
        }
    }

    pub fn is_lost(&self) -> bool {
        self.lock().lost
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_dead_node_held_is_never_called_durable() {
        let reliance = Reliance::default();
        assert!(reliance.begin(1));
        let count = reliance.count();
        assert!(reliance.allows(1));
        reliance.end(count);
        assert!(reliance.begin(2), "all was durable, so another process may go on");
        assert!(!reliance.allows(3) && !reliance.begin(2) && reliance.is_lost());
    }

    #[test]
    fn what_comes_while_the_rest_becomes_durable_is_still_relied_on() {
        let reliance = Reliance::default();
        reliance.begin(1);
        let count = reliance.count();
        reliance.begin(1);
        reliance.end(count);
        assert!(!reliance.begin(2));
    }
}
