//! A histogram of durations in logarithmic buckets: four a doubling, from 1 µs to beyond an hour, without allocation.
//!
//! A quantile is right to a bucket's width, 19 %.

use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;

/// Buckets a doubling.
const FINENESS: u32 = 4;
const BUCKETS: usize = 32 * FINENESS as usize;

#[derive(Debug)]
pub struct Histogram {
    counts: [Cell<u64>; BUCKETS],
    total: Cell<Duration>,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: [const { Cell::new(0) }; BUCKETS], total: Cell::default() }
    }
}

impl Histogram {
    pub fn note(&self, duration: Duration) {
        let count = &self.counts[bucket_of(duration)];
        count.set(count.get() + 1);
        self.total.set(self.total.get().saturating_add(duration));
    }

    /// Returns the sum of all noted durations.
    pub fn total(&self) -> Duration {
        self.total.get()
    }

    /// Returns the counts of the buckets, as of now.
    pub fn counts(&self) -> Rc<[u64]> {
        self.counts.iter().map(Cell::get).collect()
    }

    /// Returns the upper ends and the counts of the buckets, for those that show all of it.
    pub fn buckets(&self) -> impl Iterator<Item = (Duration, u64)> + '_ {
        self.counts.iter().enumerate().map(|(at, count)| (upper_end(at), count.get()))
    }
}

/// Returns the upper end of the bucket below which this share (0 to 1) of the durations lies, of a histogram's counts
/// or of the difference of two; `None` when there are none.
pub fn quantile(counts: &[u64], share: f64) -> Option<Duration> {
    let count: u64 = counts.iter().sum();
    if count == 0 {
        return None;
    }
    let wanted = ((count as f64 * share).ceil() as u64).clamp(1, count);
    let mut seen = 0;
    let found = counts.iter().position(|bucket| {
        seen += bucket;
        seen >= wanted
    });
    found.map(upper_end)
}

/// Within a doubling the buckets are of equal width.
fn bucket_of(duration: Duration) -> usize {
    let scaled = u64::try_from(duration.as_micros()).unwrap_or(u64::MAX).saturating_mul(u64::from(FINENESS));
    if scaled < u64::from(FINENESS) {
        return 0;
    }
    let doubling = scaled.ilog2() - FINENESS.ilog2();
    let within = (scaled >> doubling) - u64::from(FINENESS);
    let at = u64::from(doubling * FINENESS) + within;
    usize::try_from(at).unwrap_or(BUCKETS).min(BUCKETS - 1)
}

fn upper_end(bucket: usize) -> Duration {
    let bucket = bucket as u64;
    let (doubling, within) = (bucket / u64::from(FINENESS), bucket % u64::from(FINENESS));
    let quarters = (u64::from(FINENESS) + within + 1) << doubling;
    Duration::from_nanos(quarters.saturating_mul(1000) / u64::from(FINENESS))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_lies_below_the_end_of_its_bucket_and_near_it() {
        for micros in [1_u64, 2, 3, 5, 17, 100, 999, 12_345, 1_000_000, 3_600_000_000] {
            let duration = Duration::from_micros(micros);
            let end = upper_end(bucket_of(duration));
            assert!(end > duration && end <= duration.mul_f64(1.26) + Duration::from_micros(1), "{micros}: {end:?}");
        }
    }

    #[test]
    fn quantiles_are_right_to_a_bucket() {
        let histogram = Histogram::default();
        assert_eq!(quantile(&histogram.counts(), 0.5), None);
        (1..=1000).for_each(|micros| histogram.note(Duration::from_micros(micros)));
        for (share, micros) in [(0.5, 500.0), (0.99, 990.0), (1.0, 1000.0)] {
            let found = quantile(&histogram.counts(), share).expect("there are durations").as_secs_f64() * 1e6;
            assert!((micros..micros * 1.26).contains(&found), "{share}: {found}");
        }
        assert_eq!(histogram.counts().iter().sum::<u64>(), 1000);
    }

    #[test]
    fn the_longest_duration_has_a_bucket() {
        let histogram = Histogram::default();
        histogram.note(Duration::MAX);
        assert_eq!(histogram.counts().iter().sum::<u64>(), 1);
    }
}
