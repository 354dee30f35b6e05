//! Random numbers that repeat for the same seed, on every machine.

/// SplitMix64 (Steele, Lea, Flood, 2014).
pub(super) struct Draws(u64);

impl Draws {
    pub(super) fn new(seed: u64) -> Self {
        Draws(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below the limit, which is not 0.
    pub(super) fn below(&mut self, limit: usize) -> usize {
        ((u128::from(self.next()) * limit as u128) >> 64) as usize
    }

    pub(super) fn shuffle<T>(&mut self, items: &mut [T]) {
        for end in (1..items.len()).rev() {
            items.swap(end, self.below(end + 1));
        }
    }

    /// Draws as many numbers below `limit`, with repetition; returns them in order.
    pub(super) fn bag(&mut self, limit: usize) -> Vec<u32> {
        let mut drawn: Vec<u32> = (0..limit).map(|_| self.below(limit) as u32).collect();
        drawn.sort_unstable();
        drawn
    }
}
