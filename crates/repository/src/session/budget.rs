//! How many bytes a node holds for programs that outrun it.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// Staged bytes of all stripe sets together, and the bound that makes writers wait.
pub struct Budget {
    limit_bytes: u64,
    used: Mutex<u64>,
    freed: Condvar,
}

impl Budget {
    pub fn new(limit_bytes: u64) -> Self {
        Budget { limit_bytes, used: Mutex::new(0), freed: Condvar::new() }
    }

    /// A stripe set that held `from` bytes holds `to` now.
    pub(crate) fn change(&self, from: u64, to: u64) {
        if from == to {
            return;
        }
        let mut used = self.used.lock().expect("no panic holds it");
        *used = (*used + to).checked_sub(from).expect("what is given back was taken");
        if to < from {
            self.freed.notify_all();
        }
    }

    /// Whether more than half of it is used: what can be given up is.
    pub(crate) fn is_hinted(&self) -> bool {
        self.used_bytes() > self.limit_bytes / 2
    }

    pub fn used_bytes(&self) -> u64 {
        *self.used.lock().expect("no panic holds it")
    }

    /// Waits until there is room again, or the time is up; says which. A task that reads from a socket asks before the
    /// next piece, so that a full node stops reading and the writer waits.
    pub fn wait_for_room(&self, at_most: Duration) -> bool {
        let used = self.used.lock().expect("no panic holds it");
        let (used, _) =
            self.freed.wait_timeout_while(used, at_most, |used| *used > self.limit_bytes).expect("no panic holds it");
        *used <= self.limit_bytes
    }
}
