//! How long a peer may take for one record: one that sends it drop by drop must not hold memory for ever.

use std::time::Duration;

use tokio::time::Instant;

/// How long a record may be under way, besides what its bytes need at the least rate.
pub const RECORD_TIMEOUT: Duration = Duration::from_secs(30);
/// The least rate of a record that takes longer (bytes a second).
const MIN_BYTES_PER_S: u64 = 64 << 10;

/// Counts the time in which the gate waits for a peer; not that in which the peer waits for the gate.
#[derive(Default)]
pub struct Pace {
    waited: Duration,
}

impl Pace {
    /// Returns how long to wait for the next bytes, when so many have come.
    pub fn left(&self, bytes: usize) -> Duration {
        (RECORD_TIMEOUT + Duration::from_millis(bytes as u64 * 1000 / MIN_BYTES_PER_S)).saturating_sub(self.waited)
    }

    pub fn waited_since(&mut self, began: Instant) {
        self.waited += began.elapsed();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_record_that_drips_is_given_up_and_a_slow_one_is_not() {
        let after = |seconds| Pace { waited: Duration::from_secs(seconds) };
        assert!(after(29).left(29) > Duration::ZERO);
        assert_eq!(after(31).left(31), Duration::ZERO);
        assert!(after(100).left(100 * (64 << 10)) > Duration::ZERO);
        assert_eq!(after(600).left(600 * (32 << 10)), Duration::ZERO);
    }
}
