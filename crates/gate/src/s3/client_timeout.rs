//! How long a client may keep the gate waiting before others have what it was granted.
//!
//! A client may be late for good reasons, but each that is keeps a part of the depth meanwhile: hundreds of them, one
//! after the other, would keep others of their application waiting for minutes. So each halves the time that the next
//! one has, and every second without any doubles it.

use std::cell::Cell;
use std::time::Duration;

use policy::fairness::Time;

const MAX_TIMEOUT: Duration = Duration::from_millis(200);
const MIN_TIMEOUT: Duration = Duration::from_millis(5);
const DOUBLING_NS: u64 = 1_000_000_000;

/// That of one application's clients.
pub(crate) struct ClientTimeout {
    after_last: Cell<Duration>,
    last_late_at: Cell<Time>,
}

impl Default for ClientTimeout {
    fn default() -> Self {
        ClientTimeout { after_last: Cell::new(MAX_TIMEOUT), last_late_at: Cell::default() }
    }
}

impl ClientTimeout {
    pub fn get(&self, now: Time) -> Duration {
        let doublings = (now.since(self.last_late_at.get()) / DOUBLING_NS).min(16) as u32;
        (self.after_last.get() * 2_u32.pow(doublings)).min(MAX_TIMEOUT)
    }

    /// Notes that a client was late.
    pub fn note_late(&self, now: Time) {
        self.after_last.set((self.get(now) / 2).max(MIN_TIMEOUT));
        self.last_late_at.set(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_late_clients_take_little_more_time_than_a_few_and_are_forgotten_in_seconds() {
        let timeout = ClientTimeout::default();
        let mut now = Time(DOUBLING_NS);
        let began = now;
        for _ in 0..100 {
            now = now.after(timeout.get(now).as_nanos() as u64);
            timeout.note_late(now);
        }
        assert!(now.since(began) < DOUBLING_NS, "{:?}", Duration::from_nanos(now.since(began)));
        assert_eq!(timeout.get(now), MIN_TIMEOUT);
        assert_eq!(timeout.get(now.after(6 * DOUBLING_NS)), MAX_TIMEOUT);
    }
}
