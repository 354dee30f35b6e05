//! Earliest deadline first (Liu and Layland 1973), whatever the weights. Requests without a deadline come last, in
//! order of arrival. A late request is reported on completion, with its lateness.
//!
//! The server is not preempted: a request waits for those outstanding already, at most the depth. `fits` is the
//! processor-demand test (Baruah, Rosier and Howell 1990) with that blocking: a load that passes misses nothing.

use super::in_order::InOrder;
use super::{Depth, Settings};

/// Outstanding bytes when the depth is automatic: small, since all of it blocks.
const DEFAULT_DEPTH_BYTES: u64 = 128 << 10;

/// Most deadlines that `fits` checks.
const MAX_DEADLINES: f64 = 1e6;

pub fn deadline(settings: &Settings) -> InOrder {
    let depth_bytes = match settings.depth {
        Depth::Auto => DEFAULT_DEPTH_BYTES,
        Depth::Bytes(bytes) => bytes,
    };
    InOrder::new(settings, depth_bytes, |cell| cell.deadline)
}

/// A flow that asks for at most `bytes` every `period_ns`, each time to be complete within `within_ns`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    pub bytes: u64,
    pub period_ns: u64,
    pub within_ns: u64,
}

/// Whether a server of this rate meets every deadline of these flows under EDF, when up to `blocking_bytes` (the
/// depth, or one request if that is more) with later deadlines can be at the server already.
///
/// For every t at which a deadline can fall: blocking + Σ (⌊(t − dᵢ) / pᵢ⌋ + 1) cᵢ ≤ rate · t. Only t up to
/// (blocking + Σ max(0, pᵢ − dᵢ) cᵢ / pᵢ) / (rate − Σ cᵢ / pᵢ) can fail. A load that takes the whole rate, or
/// so nearly that more than a million deadlines would have to be checked, is refused.
pub fn fits(demands: &[Demand], rate_bytes_per_s: f64, blocking_bytes: u64) -> bool {
    let rate = rate_bytes_per_s / 1e9;
    let asked: f64 = demands.iter().map(|demand| demand.bytes as f64 / demand.period_ns.max(1) as f64).sum();
    if demands.is_empty() {
        return true;
    }
    if asked >= rate {
        return false;
    }
    let ahead: f64 = demands.iter().map(|demand| demand.surplus_bytes()).sum();
    let horizon_ns = (blocking_bytes as f64 + ahead) / (rate - asked);
    let to_look_at: f64 = demands.iter().map(|demand| horizon_ns / demand.period_ns.max(1) as f64).sum();
    if to_look_at > MAX_DEADLINES {
        return false;
    }
    let first = demands.iter().map(|demand| demand.within_ns).min().unwrap_or(0);
    let last = horizon_ns.max(first as f64) as u64;
    demands.iter().all(|demand| demand.deadlines_until(last).all(|at| holds_at(demands, at, rate, blocking_bytes)))
}

fn holds_at(demands: &[Demand], at_ns: u64, rate_bytes_per_ns: f64, blocking_bytes: u64) -> bool {
    let due: f64 = demands.iter().map(|demand| demand.due_bytes(at_ns)).sum();
    blocking_bytes as f64 + due <= rate_bytes_per_ns * at_ns as f64
}

impl Demand {
    fn surplus_bytes(&self) -> f64 {
        self.period_ns.saturating_sub(self.within_ns) as f64 / self.period_ns.max(1) as f64 * self.bytes as f64
    }

    /// Returns the bytes due by `at_ns` when it asks first at 0, and as often as it may.
    fn due_bytes(&self, at_ns: u64) -> f64 {
        match at_ns.checked_sub(self.within_ns) {
            None => 0.0,
            Some(room) => (room / self.period_ns.max(1) + 1) as f64 * self.bytes as f64,
        }
    }

    fn deadlines_until(&self, last_ns: u64) -> impl Iterator<Item = u64> {
        (self.within_ns..=last_ns.max(self.within_ns)).step_by(self.period_ns.max(1) as usize)
    }
}
