//! The segments that claim owners have yet to put, and whether segments that the node still held in memory may have been lost.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};

use format::Fingerprint;
use store::ClaimOwner;

/// The open claims of this process's claim owners, as far as they know: the node has only to be asked to release where
/// there are some.
#[derive(Default)]
pub(super) struct OpenClaims {
    claims: Mutex<HashMap<ClaimOwner, HashSet<Fingerprint>>>,
}

impl OpenClaims {
    pub fn add(&self, owner: ClaimOwner, fingerprints: impl Iterator<Item = Fingerprint>) {
        let mut fingerprints = fingerprints.peekable();
        if fingerprints.peek().is_some() {
            self.lock().entry(owner).or_default().extend(fingerprints);
        }
    }

    pub fn resolve(&self, owner: ClaimOwner, fingerprints: impl Iterator<Item = Fingerprint>) {
        let mut claims = self.lock();
        if let Some(open) = claims.get_mut(&owner) {
            fingerprints.for_each(|fingerprint| {
                open.remove(&fingerprint);
            });
            if open.is_empty() {
                claims.remove(&owner);
            }
        }
    }

    /// Forgets the claims of an owner; returns whether it had any.
    pub fn forget(&self, owner: ClaimOwner) -> bool {
        self.lock().remove(&owner).is_some()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ClaimOwner, HashSet<Fingerprint>>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Since the last `make_durable`, callers may rely on segments that only the memory of one node process holds. When
/// another process answers at the address, those may be gone, and none of them may be reported durable.
#[derive(Default)]
pub(super) struct IncarnationGuard {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    incarnation: Option<u64>,
    /// Counts uses relied on, to see whether one was added while a `make_durable` was under way.
    count: u64,
    lost: bool,
}

impl State {
    fn allows(&mut self, incarnation: u64) -> bool {
        self.lost |= self.incarnation.is_some_and(|relied| relied != incarnation);
        !self.lost
    }
}

impl IncarnationGuard {
    /// Returns whether this node process may take more segments, or sync those it holds. It may not when another one
    /// was relied on: then all is lost.
    pub fn allows(&self, incarnation: u64) -> bool {
        self.lock().allows(incarnation)
    }

    /// Notes that something was put at, or found at, this node process. False when another one was relied on.
    pub fn begin(&self, incarnation: u64) -> bool {
        let mut state = self.lock();
        state.count += 1;
        let allowed = state.allows(incarnation);
        state.incarnation = state.incarnation.or(Some(incarnation));
        allowed
    }

    /// Returns what to pass to [`IncarnationGuard::end`] once everything begun until now is durable.
    pub fn count(&self) -> u64 {
        self.lock().count
    }

    /// Notes that everything up to `count` is durable.
    pub fn end(&self, count: u64) {
        let mut state = self.lock();
        if state.count == count {
            state.incarnation = None;
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
        let guard = IncarnationGuard::default();
        assert!(guard.begin(1));
        let count = guard.count();
        assert!(guard.allows(1));
        guard.end(count);
        assert!(guard.begin(2), "all was durable, so another process may go on");
        assert!(!guard.allows(3) && !guard.begin(2) && guard.is_lost());
    }

    #[test]
    fn what_comes_while_the_rest_becomes_durable_is_still_relied_on() {
        let guard = IncarnationGuard::default();
        guard.begin(1);
        let count = guard.count();
        guard.begin(1);
        guard.end(count);
        assert!(!guard.begin(2));
    }
}
