//! Which segments came before, in bounded memory: a Bloom filter (Bloom 1970) of two bits a segment.
//!
//! It never takes a segment that came before for a new one. Of new ones it takes some for known, whatever they hold: 3 in 100
//! after 100 GB of segments of 8 KiB, and more the longer it goes. What it says is new is a fair sample of all that is.

/// 16 MiB.
const BITS: u64 = 1 << 27;

pub struct SeenFilter {
    words: Vec<u64>,
}

impl SeenFilter {
    pub fn new() -> Self {
        SeenFilter { words: vec![0; (BITS / 64) as usize] }
    }

    /// Adds a segment by its hash, and tells whether it is new for certain.
    pub fn add(&mut self, hash: u64) -> bool {
        let is_set = [hash, hash >> 32].map(|half| self.set(half % BITS));
        is_set != [true, true]
    }

    /// Sets a bit, and tells whether it was set before.
    fn set(&mut self, bit: u64) -> bool {
        let (word, mask) = (&mut self.words[(bit / 64) as usize], 1 << (bit % 64));
        let was_set = *word & mask != 0;
        *word |= mask;
        was_set
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_before_is_never_new_and_what_is_new_seldom_passes_for_known() {
        let (mut filter, mut random) = (SeenFilter::new(), random::Random::new(3));
        let hashes: Vec<u64> = (0..1_000_000).map(|_| random.next()).collect();
        let new = hashes.iter().filter(|hash| filter.add(**hash)).count();
        assert!(new > 999_000, "{new}");
        assert!(hashes.iter().all(|hash| !filter.add(*hash)));
    }
}
