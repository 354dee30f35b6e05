//! What an administrator should see of things that may happen thousands of times a second: a line now and then.

use std::cell::Cell;
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_secs(10);

/// One kind of line.
#[derive(Default)]
pub(crate) struct RateLimitedLog {
    said_at: Cell<Option<Instant>>,
    left_out: Cell<u64>,
}

impl RateLimitedLog {
    /// Says it unless it was said a short time ago; then it is counted for the next time.
    pub fn say(&self, what: &dyn std::fmt::Display) {
        if self.said_at.get().is_some_and(|at| at.elapsed() < INTERVAL) {
            self.left_out.set(self.left_out.get() + 1);
            return;
        }
        self.said_at.set(Some(Instant::now()));
        match self.left_out.take() {
            0 => eprintln!("thalweg gate: {what}"),
            more => eprintln!("thalweg gate: {what} (and {more} times since this was said last)"),
        }
    }
}
