//! How long to wait for an application that has nothing queued: learnt from its turnaround, the time from a completion
//! to its next request (anticipatory scheduling, Iyer and Druschel, SOSP 2001).

use super::Time;

/// The assumed time of a new application.
const FIRST_MEAN_NS: f64 = 2_000_000.0;
const FIRST_DEVIATION_NS: f64 = 1_000_000.0;

/// Turnarounds as TCP smooths round trips (Jacobson 1988): mean and mean deviation.
#[derive(Clone, Copy)]
pub struct TurnaroundEstimate {
    mean_ns: f64,
    deviation_ns: f64,
    waiting_since: Option<Time>,
}

impl TurnaroundEstimate {
    pub fn new() -> Self {
        TurnaroundEstimate { mean_ns: FIRST_MEAN_NS, deviation_ns: FIRST_DEVIATION_NS, waiting_since: None }
    }

    /// Notes that a request was completed.
    pub fn completed(&mut self, now: Time) {
        self.waiting_since.get_or_insert(now);
    }

    /// Notes that a request arrived. One long pause says little: it counts as twice the most we would wait.
    pub fn arrived(&mut self, now: Time, max_ns: u64) {
        if let Some(since) = self.waiting_since.take() {
            let turnaround = now.since(since).min(2 * max_ns) as f64;
            let error = turnaround - self.mean_ns;
            self.mean_ns += error / 8.0;
            self.deviation_ns += (error.abs() - self.deviation_ns) / 4.0;
        }
    }

    /// Returns the time worth waiting: 0 when the next request usually comes later than `max_ns`.
    pub fn ns(&self, max_ns: u64) -> u64 {
        if self.mean_ns > max_ns as f64 {
            return 0;
        }
        ((self.mean_ns + 4.0 * self.deviation_ns) as u64).min(max_ns)
    }
}
