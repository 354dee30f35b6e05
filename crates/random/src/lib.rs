//! Numbers that repeat for the same seed, on every machine: for tests, measurements and the simulator. Nothing here is
//! unguessable.
//!
//! The sequence of a seed never changes: frozen cut points and the figures of docs/simulation.md rest on it.

use std::time::{SystemTime, UNIX_EPOCH};

/// xorshift64* (Vigna, 2016).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// Another seed every time, or that of THALWEG_TEST_SEED. Prints it, so that a failure can be had again.
    pub fn fresh() -> Self {
        let requested = std::env::var("THALWEG_TEST_SEED").ok().and_then(|seed| seed.parse().ok());
        let clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |since| since.as_nanos() as u64);
        let seed = requested.unwrap_or_else(clock);
        println!("THALWEG_TEST_SEED={seed}");
        Random::new(seed)
    }

    #[expect(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Returns a number below the limit; 0 below 0.
    pub fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 11) % limit.max(1)
    }

    /// Returns an index into something of this length.
    pub fn index(&mut self, length: usize) -> usize {
        self.below(length as u64) as usize
    }

    /// Returns a number from 0 to 1, without 1.
    pub fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns bytes that neither compress nor repeat.
    pub fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }

    /// Returns zeros, one byte again and again, or [`Random::bytes`], so that duplicates and zero segments occur.
    pub fn mixed_bytes(&mut self, count: usize) -> Vec<u8> {
        match self.below(4) {
            0 => vec![0; count],
            1 => vec![self.below(3) as u8; count],
            _ => self.bytes(count),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn the_sequence_of_a_seed_is_frozen() {
        let mut random = Random::new(1);
        assert_eq!([random.next(), random.next()], FROZEN);
        assert_eq!(Random::new(1).bytes(8), FROZEN[0].to_le_bytes());
    }

    const FROZEN: [u64; 2] = [0x0d83_b3e2_9a21_487a, 0x54c4_4c79_f1fe_9d67];
}
