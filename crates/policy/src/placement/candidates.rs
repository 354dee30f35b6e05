//! The tasks of the window that a worker has input for, the best first.
//!
//! Most workers have a dozen at a time, a few thousand at the most: a sorted ring, in which entries near either end
//! move little. A task that left the window stays in the rings of all workers with its input until it comes to their
//! front or the ring is full, so that a decision touches one worker instead of all holders.

use std::collections::VecDeque;

use super::queue::Queue;

/// A task as one worker sees it; less is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Candidate {
    /// `u64::MAX` less the rank: a full hit before all others, then by files or bytes that are here.
    pub missing: u64,
    /// Place in the queue: among equals the one that waits longest.
    pub sequence: u64,
    pub slot: u32,
}

/// Nothing of the task's input is missing.
pub(super) const FULL: u64 = u64::MAX;

#[derive(Default)]
pub(super) struct Candidates(VecDeque<Candidate>);

impl Candidates {
    pub fn best(&mut self, queue: &Queue) -> Option<Candidate> {
        while let Some(&candidate) = self.0.front() {
            if queue.is_there(candidate) {
                return Some(candidate);
            }
            self.0.pop_front();
        }
        None
    }

    pub fn insert(&mut self, candidate: Candidate, queue: &Queue) {
        if self.0.len() == self.0.capacity() {
            self.make_room(queue);
        }
        if self.0.back().is_none_or(|last| *last < candidate) {
            self.0.push_back(candidate);
            return;
        }
        let at = self.0.partition_point(|other| *other < candidate);
        self.0.insert(at, candidate);
    }

    /// Removes it if it is there.
    pub fn remove(&mut self, candidate: &Candidate) {
        if let Ok(at) = self.0.binary_search(candidate) {
            self.0.remove(at);
        }
    }

    /// Each sweep is paid for by as many insertions as it examines.
    fn make_room(&mut self, queue: &Queue) {
        self.0.retain(|candidate| queue.is_there(*candidate));
        if self.0.len() > self.0.capacity() / 2 {
            self.0.reserve_exact(self.0.capacity());
        }
    }
}
