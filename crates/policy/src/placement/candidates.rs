//! The tasks of the window that a worker has input for, the best first.
//!
//! Most workers have a dozen at a time, a few thousand at the most: a sorted ring, in which whatever is near either
//! end moves little.

use std::collections::VecDeque;

/// A task as one worker sees it; what is less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    /// `u64::MAX` less the rank: a full hit before all others, then by files or bytes that are here.
    pub lack: u64,
    /// Place in the queue: among equals the one that waits longest.
    pub sequence: u64,
    pub slot: u32,
}

/// Nothing of the task's input is missing.
pub(super) const FULL: u64 = u64::MAX;

#[derive(Default)]
pub(super) struct Candidates(VecDeque<Candidate>);

impl Candidates {
    pub fn best(&self) -> Option<Candidate> {
        self.0.front().copied()
    }

    pub fn insert(&mut self, candidate: Candidate) {
        let at = self.0.partition_point(|other| *other < candidate);
        self.0.insert(at, candidate);
    }

    /// Removes it if it is there.
    pub fn remove(&mut self, candidate: &Candidate) {
        if let Ok(at) = self.0.binary_search(candidate) {
            self.0.remove(at);
        }
    }
}
