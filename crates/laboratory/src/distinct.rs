//! How many bytes are different among many segments, in bounded memory.
//!
//! Segments are sampled by their hash and not by their place: those are kept whose hash falls into 1/2^level of all values,
//! and the level rises when they are too many. Whether a segment is kept does not depend on how often it occurs, so that
//! what is kept, times 2^level, is an unbiased estimate (Horvitz and Thompson 1952; Gibbons and Tirthapura 2001 for the
//! rising level). Of segments drawn by place, most would miss their duplicates.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Kept hashes, in about 9 MiB. The estimate is then within 0.6 % in 95 of 100 cases.
const MAX_ENTRIES: usize = 1 << 18;

/// Hashes of segments.
#[derive(Debug)]
pub struct DistinctSample {
    /// Lengths by hash.
    kept: HashMap<u64, u64, BuildHasherDefault<HashIsKey>>,
    level: u32,
    max_entries: usize,
}

/// What a sample says of all segments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Distinct {
    pub unique_bytes: f64,
    pub unique_segments: f64,
    /// Two standard deviations of the bytes; 0 where all segments were kept.
    pub error_bytes: f64,
}

impl Default for DistinctSample {
    fn default() -> Self {
        DistinctSample::with_entries(MAX_ENTRIES)
    }
}

impl DistinctSample {
    pub fn with_entries(max_entries: usize) -> Self {
        DistinctSample { kept: HashMap::default(), level: 0, max_entries }
    }

    /// Adds a segment by its hash, whose upper bits must be evenly distributed.
    pub fn add(&mut self, hash: u64, bytes: u64) {
        if !is_kept(hash, self.level) {
            return;
        }
        self.kept.insert(hash, bytes);
        while self.kept.len() > self.max_entries {
            self.level += 1;
            let level = self.level;
            self.kept.retain(|hash, _| is_kept(*hash, level));
        }
    }

    pub fn estimate(&self) -> Distinct {
        let times = 2f64.powi(self.level as i32);
        let bytes: u64 = self.kept.values().sum();
        // Of nothing a sum of fractions is -0.
        let squares = self.kept.values().fold(0.0, |squares, bytes| squares + (*bytes as f64).powi(2));
        let variance = squares * times * (times - 1.0);
        Distinct {
            unique_bytes: bytes as f64 * times,
            unique_segments: self.kept.len() as f64 * times,
            error_bytes: 2.0 * variance.sqrt(),
        }
    }
}

/// Keys are hashes already, and need none of their own.
#[derive(Clone, Copy, Debug, Default)]
struct HashIsKey(u64);

impl Hasher for HashIsKey {
    fn write_u64(&mut self, key: u64) {
        // Upper bits are zeros when the level is high, and the map looks at both ends.
        self.0 = key.rotate_left(32) ^ key;
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are numbers of 64 bits")
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

fn is_kept(hash: u64, level: u32) -> bool {
    hash.leading_zeros() >= level
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A million segments, of which a fifth are different: each content occurs as often as its number's last digit says.
    fn sample(max_entries: usize, seed: u64) -> (Distinct, f64) {
        let (mut sample, mut random) = (DistinctSample::with_entries(max_entries), random::Random::new(seed));
        let mut unique_bytes = 0.0;
        for number in 0..200_000u64 {
            let (hash, bytes) = (random.next(), 1000 + number % 7000);
            unique_bytes += bytes as f64;
            (0..=number % 10).for_each(|_| sample.add(hash, bytes));
        }
        (sample.estimate(), unique_bytes)
    }

    #[test]
    fn few_segments_are_counted_exactly() {
        let (found, unique_bytes) = sample(1 << 18, 1);
        assert_eq!((found.unique_bytes, found.error_bytes, found.unique_segments), (unique_bytes, 0.0, 200_000.0));
    }

    #[test]
    fn of_many_the_estimate_is_within_its_error_in_nineteen_of_twenty_cases() {
        let mut within = 0;
        let mut sum = 0.0;
        for seed in 0..40 {
            let (found, unique_bytes) = sample(2000, seed);
            assert!(found.error_bytes / unique_bytes < 0.08, "{found:?}");
            within += usize::from((found.unique_bytes - unique_bytes).abs() <= found.error_bytes);
            sum += found.unique_bytes / unique_bytes / 40.0;
        }
        assert!(within >= 34, "{within} of 40");
        assert!((sum - 1.0).abs() < 0.02, "the mean is {sum} of the truth");
    }
}
