//! What waiting may cost: a bucket of nanoseconds of the server's time, filled at a small share of the time in which
//! something is queued, drained by holding requests back while the server has too little to do.

use super::Time;

/// The most saved up: two of the longest waits.
const MOST_NS: f64 = 40_000_000.0;

pub struct Budget {
    share: f64,
    left_ns: f64,
    settled: Time,
    /// While holding: the share of the server that idles.
    missing: Option<f64>,
}

impl Budget {
    pub fn new(share: f64) -> Self {
        Budget { share, left_ns: MOST_NS, settled: Time(0), missing: None }
    }

    /// Accounts the time since the last call. `busy`: something was queued.
    pub fn settle(&mut self, now: Time, busy: bool) {
        let ns = now.since(self.settled) as f64;
        self.settled = self.settled.max(now);
        let gained = if busy { ns * self.share } else { 0.0 };
        self.left_ns = (self.left_ns + gained - ns * self.missing.unwrap_or(0.0)).min(MOST_NS);
    }

    /// Whether to hold (or go on holding) at this loss. To begin needs what the wait is expected to cost.
    pub fn allows(&self, missing: f64, expected_ns: f64) -> bool {
        let needed = if self.missing.is_some() { 0.0 } else { missing * expected_ns };
        missing <= 0.0 || self.left_ns > needed
    }

    /// From now on this share of the server idles on purpose.
    pub fn hold(&mut self, missing: f64) {
        self.missing = Some(missing);
    }

    pub fn release(&mut self) {
        self.missing = None;
    }

    /// How long the bucket lasts at this loss.
    pub fn lasts_ns(&self, missing: f64) -> u64 {
        let net = missing - self.share;
        if net <= 0.0 { u64::MAX } else { (self.left_ns.max(0.0) / net) as u64 }
    }
}
