//! The budget of waiting: of the server's full rate, at most a small share may be lost while something is queued.
//!
//! No model of the server predicts the cost of a wait; it is measured. The balance, in nanoseconds of the server's
//! time, gains what completions were worth at the full rate and loses (1 - share) of the time that passes.

use super::Time;

/// The most saved up (two of the longest waits, so many of the largest requests, or of the lulls of a server that
/// works in bursts), and the part of it that must have come back before waiting begins again.
const MAX_NS: f64 = 40_000_000.0;
const MAX_REQUESTS: f64 = 8.0;
const MAX_LULLS: f64 = 2.0;
const LONGEST_LULL_NS: u64 = 200_000_000;
const RESUME_PART: f64 = 0.25;

pub struct Budget {
    share: f64,
    left_ns: f64,
    max_ns: f64,
    updated_at: Time,
    exhausted: bool,
}

impl Budget {
    pub fn new(share: f64) -> Self {
        Budget { share, left_ns: MAX_NS, max_ns: MAX_NS, updated_at: Time(0), exhausted: false }
    }

    /// Accounts the time since the last call. `busy`: something was queued throughout.
    pub fn update(&mut self, now: Time, busy: bool) {
        if busy {
            self.left_ns -= (1.0 - self.share) * now.since(self.updated_at) as f64;
        }
        self.updated_at = self.updated_at.max(now);
    }

    /// Notes that a request was completed while something was queued; it was worth this much of the server's time.
    /// `lull_ns`: how long the server may complete nothing at its full rate.
    pub fn completed(&mut self, worth_ns: f64, lull_ns: u64) {
        let lull_ns = lull_ns.min(LONGEST_LULL_NS) as f64;
        self.max_ns = MAX_NS.max(MAX_REQUESTS * worth_ns).max(MAX_LULLS * lull_ns);
        self.left_ns += worth_ns;
    }

    /// Whether a wait may begin or go on.
    pub fn allows(&mut self) -> bool {
        self.left_ns = self.left_ns.clamp(-self.max_ns, self.max_ns);
        if self.left_ns <= 0.0 {
            self.exhausted = true;
        } else if self.left_ns > RESUME_PART * self.max_ns {
            self.exhausted = false;
        }
        !self.exhausted
    }

    /// Returns the part of all service that waiting may cost.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// Returns how long it lasts if nothing completes.
    pub fn lasts_ns(&self) -> u64 {
        (self.left_ns / (1.0 - self.share)).max(10_000.0) as u64
    }
}
