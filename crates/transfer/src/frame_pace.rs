//! How fast a frame must arrive once it has begun: a peer that trickles is no better than a silent one.

use std::time::{Duration, Instant};

const MIN_BYTES_PER_S: u64 = 16 << 10;

/// The frame at hand may stay behind the pace by `timeout`. Time is passed in.
pub(crate) struct FramePace {
    timeout: Duration,
    /// From the frame's first byte on.
    deadline: Option<Instant>,
}

impl FramePace {
    pub fn new(timeout: Duration) -> Self {
        FramePace { timeout, deadline: None }
    }

    /// Notes that bytes of a frame have arrived. Received bytes count, not announced ones, which cost a hostile peer
    /// nothing; and they count for a while only, so that no peer can stop after a large part.
    pub fn arrived(&mut self, bytes: usize, now: Instant) {
        let earned = Duration::from_secs(1).mul_f64(bytes as f64 / MIN_BYTES_PER_S as f64);
        let latest = now + self.timeout;
        self.deadline = Some(self.deadline.map_or(latest, |deadline| (deadline + earned).min(latest)));
    }

    /// Discounts time for which nothing was read.
    pub fn wait_longer(&mut self, waited: Duration) {
        self.deadline = self.deadline.map(|deadline| deadline + waited);
    }

    /// Notes that the frame is whole.
    pub fn end(&mut self) {
        self.deadline = None;
    }

    pub fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    pub fn is_late(&self, now: Instant) -> bool {
        self.deadline.is_some_and(|deadline| now > deadline)
    }

    /// Explains why a peer with a late frame is given up.
    pub fn why(timeout: Duration) -> String {
        format!("it drips: fewer than {MIN_BYTES_PER_S} bytes a second for {} s", timeout.as_secs())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_that_drips_is_late_and_a_slow_one_is_not() {
        let begun = Instant::now();
        let at = |ms: u64| begun + Duration::from_millis(ms);
        let mut pace = FramePace::new(Duration::from_secs(2));
        (0..100).for_each(|step| pace.arrived(16 << 10, at(1000 * step)));
        assert!(!pace.is_late(at(100_000)) && pace.is_late(at(101_001)));
        pace.end();
        assert!(!pace.is_late(at(1_000_000)), "no frame has begun");
        (0..100).for_each(|step| pace.arrived(8 << 10, at(1000 * step)));
        assert!(pace.is_late(at(99_000)), "it stays half a second behind in each");
        pace.wait_longer(Duration::from_secs(100));
        assert!(!pace.is_late(at(99_000)));
    }
}
