//! `--limit-rate`: how fast a command that works through a store may read it.

use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use crate::byte_size;

/// Parses bytes a second. A number alone is refused: other tools take it for KiB or for bytes.
pub fn rate(text: &str) -> anyhow::Result<u64> {
    let has_unit = text.ends_with(|last: char| last.is_ascii_alphabetic());
    let bytes_per_s = byte_size::parse(text).filter(|_| has_unit);
    let refuse = || format!("{text:?} is no rate: write 512K, 10M or 1.5G (KiB, MiB, GiB a second)");
    match bytes_per_s.with_context(refuse)? {
        0 => bail!("{text} would never end"),
        bytes_per_s => Ok(bytes_per_s),
    }
}

/// Lets a command go on no faster than at a rate. What it was slower for a while is not made up for.
pub struct Pace {
    bytes_per_s: Option<u64>,
    /// When what was counted until now may be done.
    due: Instant,
}

impl Pace {
    pub fn new(bytes_per_s: Option<u64>) -> Self {
        Pace { bytes_per_s, due: Instant::now() }
    }

    /// Counts bytes, and waits as long as they may take.
    pub fn spend(&mut self, bytes: u64) {
        let now = Instant::now();
        self.due = self.due_after(now, bytes);
        std::thread::sleep(self.due.saturating_duration_since(now));
    }

    fn due_after(&self, now: Instant, bytes: u64) -> Instant {
        let seconds = self.bytes_per_s.map_or(0.0, |rate| bytes as f64 / rate as f64);
        self.due.max(now) + Duration::from_secs_f64(seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_have_units_and_are_not_zero() {
        assert_eq!((rate("50M").unwrap(), rate("512K").unwrap()), (50 << 20, 512 << 10));
        for text in ["", "100", "0M", "M", "10M/s"] {
            assert!(rate(text).is_err(), "{text}");
        }
    }

    #[test]
    fn bytes_take_their_time_and_idle_time_earns_nothing() {
        let mut pace = Pace::new(Some(1000));
        let begun = pace.due;
        pace.due = pace.due_after(begun, 500);
        assert_eq!(pace.due - begun, Duration::from_millis(500));
        let later = begun + Duration::from_secs(60);
        assert_eq!(pace.due_after(later, 1000) - later, Duration::from_secs(1));
        assert_eq!(Pace::new(None).due_after(later, u64::MAX), later);
    }
}
