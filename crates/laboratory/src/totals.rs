//! What each encoding gives when it takes all blocks, and which of them no other one beats.

use format::{BLOCK_HEADER_BYTES, SEGMENT_ENTRY_BYTES};
use policy::Compression;
use policy::compression::{CANDIDATES, Outcome};

use crate::{Measured, Measurement};

/// What a container has beside a block's bytes: it counts for whoever encodes.
pub const HEADER_BYTES: usize = BLOCK_HEADER_BYTES + SEGMENT_ENTRY_BYTES;

/// A sum over blocks. Times are those of one core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Total {
    pub raw_bytes: u64,
    /// With the blocks' headers.
    pub stored_bytes: u64,
    pub encode_ns: u64,
    pub decode_ns: u64,
}

impl Total {
    pub fn add(&mut self, raw_bytes: usize, measured: &Measured) {
        self.raw_bytes += raw_bytes as u64;
        self.stored_bytes += (measured.stored_bytes + HEADER_BYTES) as u64;
        self.encode_ns += measured.encode_ns;
        self.decode_ns += measured.decode_ns;
    }

    pub fn ratio(&self) -> f64 {
        self.raw_bytes as f64 / self.stored_bytes.max(1) as f64
    }

    /// In 10^6 bytes a second.
    pub fn encode_mb_per_s(&self) -> f64 {
        self.raw_bytes as f64 * 1e3 / self.encode_ns.max(1) as f64
    }

    pub fn decode_mb_per_s(&self) -> f64 {
        self.raw_bytes as f64 * 1e3 / self.decode_ns.max(1) as f64
    }

    /// For each raw byte.
    pub fn outcome(&self) -> Outcome {
        let each = |sum: u64| (sum as f64 / self.raw_bytes.max(1) as f64) as f32;
        Outcome { share: each(self.stored_bytes), encode_ns: each(self.encode_ns), decode_ns: each(self.decode_ns) }
    }
}

/// Returns the total of each candidate; a block for which it has no meaning (of zeros, without numbers) is encoded as [`unfiltered`].
pub fn candidate_totals(measurements: &[Measurement]) -> Vec<Total> {
    let mut totals = vec![Total::default(); CANDIDATES.len()];
    for measurement in measurements {
        for (candidate, total) in totals.iter_mut().enumerate() {
            let [of_any, as_it_is] = [unfiltered(candidate), 0].map(|other| measurement.measured[other]);
            let measured = measurement.measured[candidate].or(of_any).or(as_it_is);
            total.add(measurement.raw_bytes, &measured.expect("any block can be stored as it is"));
        }
    }
    totals
}

/// Returns the candidate of the same codec that takes any bytes; zstd:1 where there is none.
fn unfiltered(candidate: usize) -> usize {
    let takes_any =
        |of: Compression| CANDIDATES.iter().position(|other| other.filters() == [None; 4] && other.compression == of);
    let of_codec = takes_any(CANDIDATES[candidate].compression);
    of_codec.or_else(|| takes_any(Compression::Zstd { level: 1 })).expect("zstd:1 is a candidate")
}

/// Returns those than which no other one is both smaller and encoded faster, the fastest first.
pub fn pareto_front(totals: &[Total]) -> Vec<usize> {
    let mut by_speed: Vec<usize> = (0..totals.len()).collect();
    by_speed.sort_unstable_by_key(|number| (totals[*number].encode_ns, totals[*number].stored_bytes));
    let mut least = u64::MAX;
    by_speed.retain(|number| {
        let is_smaller = totals[*number].stored_bytes < least;
        least = least.min(totals[*number].stored_bytes);
        is_smaller
    });
    by_speed
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::made::{MEASURED, measurement};

    #[test]
    fn what_has_no_meaning_for_a_block_encodes_it_without_filters() {
        let measurements =
            [measurement(1000, &[(0, 1000), (3, 400), (9, 300)]), measurement(1000, &[(0, 1000), (3, 10)])];
        let totals = candidate_totals(&measurements);
        assert_eq!(totals[9].stored_bytes as usize, 310 + 2 * HEADER_BYTES);
        assert_eq!(totals[13].stored_bytes, totals[3].stored_bytes);
        assert_eq!(totals[5].stored_bytes, totals[0].stored_bytes);
        assert!(totals.iter().all(|total| total.raw_bytes == 2000));
    }

    #[test]
    fn only_what_is_not_beaten_is_on_the_front() {
        let total = |encode_ns: u64, stored_bytes: u64| Total { raw_bytes: 100, stored_bytes, encode_ns, decode_ns: 1 };
        let totals = [total(90, 20), total(10, 100), total(20, 50), total(30, 60), total(20, 55), total(95, 20)];
        assert_eq!(pareto_front(&totals), [1, 2, 0]);
        assert!(pareto_front(&[]).is_empty());
    }

    #[test]
    fn rates_are_of_raw_bytes() {
        let mut total = Total::default();
        total.add(1_000_000, &Measured { encode_ns: 10_000_000, decode_ns: 1_000_000, ..MEASURED });
        assert_eq!((total.encode_mb_per_s(), total.decode_mb_per_s()), (100.0, 1000.0));
    }
}
