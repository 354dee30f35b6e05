//! How many bytes a node holds for programs that outrun it.

use std::sync::{Condvar, Mutex};
use std::time::Duration;

/// Staged bytes of all seats together, and the bound that makes writers wait.
pub struct Budget {
    limit_bytes: u64,
    used: Mutex<u64>,
    freed: Condvar,
}

impl Budget {
    pub fn new(limit_bytes: u64) -> Self {
        Budget { limit_bytes, used: Mutex::new(0), freed: Condvar::new() }
    }

    pub(crate) fn take(&self, bytes: u64) {
        *self.used.lock().expect("no panic holds it") += bytes;
    }

    pub(crate) fn give_back(&self, bytes: u64) {
        let mut used = self.used.lock().expect("no panic holds it");
        *used = used.checked_sub(bytes).expect("what is given back was taken");
        self.freed.notify_all();
    }

    pub fn used_bytes(&self) -> u64 {
        *self.used.lock().expect("no panic holds it")
    }

    /// Waits until there is room again, or the time is up; says which. Who reads from a socket asks before the
    /// next piece, so that a full node stops reading and the writer waits.
    pub fn wait_for_room(&self, at_most: Duration) -> bool {
        let used = self.used.lock().expect("no panic holds it");
        let (used, _) =
            self.freed.wait_timeout_while(used, at_most, |used| *used > self.limit_bytes).expect("no panic holds it");
        *used <= self.limit_bytes
    }
}
