//! Keeps what must not overtake a write behind it: COMMIT, FSYNC, truncation, release.
//!
//! A client that waits for its writes' replies first, as most do, never sees a difference; one that does not gets from
//! the gate what it gets from a server that takes calls in the order they come.

use std::collections::VecDeque;

/// `T` is what waits.
pub struct WriteOrder<T> {
    next: u64,
    /// Writes that were queued and not sent, in order.
    unsent: VecDeque<u64>,
    /// Items that wait for all writes before this number.
    waiting: VecDeque<(u64, T)>,
}

impl<T> WriteOrder<T> {
    pub fn new() -> Self {
        WriteOrder { next: 0, unsent: VecDeque::new(), waiting: VecDeque::new() }
    }

    /// Queues a write: returns the number to name it by when it is sent.
    pub fn queued(&mut self) -> u64 {
        self.next += 1;
        self.unsent.push_back(self.next);
        self.next
    }

    /// Takes what follows all writes queued so far; gives it back at once when none is left unsent.
    pub fn follow(&mut self, follower: T) -> Option<T> {
        if self.unsent.is_empty() && self.waiting.is_empty() {
            return Some(follower);
        }
        self.waiting.push_back((self.next, follower));
        None
    }

    /// Notes that the write was sent: returns the items that waited for it and for no other.
    pub fn sent(&mut self, number: u64) -> Vec<T> {
        self.unsent.retain(|unsent| *unsent != number);
        let first = self.unsent.front().copied().unwrap_or(u64::MAX);
        let ready = self.waiting.iter().take_while(|(after, _)| *after < first).count();
        self.waiting.drain(..ready).map(|(_, follower)| follower).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn followers_wait_for_the_writes_before_them_and_no_others() {
        let mut order = WriteOrder::new();
        assert_eq!(order.follow("first"), Some("first"));
        let (one, two) = (order.queued(), order.queued());
        assert_eq!(order.follow("both"), None);
        let three = order.queued();
        assert_eq!(order.follow("all"), None);
        assert!(order.sent(two).is_empty());
        assert_eq!(order.sent(one), ["both"]);
        assert_eq!(order.sent(three), ["all"]);
        assert_eq!(order.follow("last"), Some("last"));
    }
}
