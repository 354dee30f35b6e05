//! Fingerprint → segment, four bytes a slot: an open-addressed table of indices into the segment list.

use format::{Fingerprint, SegmentEntry};

/// A hash table of segment indices. Never more than three of four slots are taken.
#[derive(Default)]
pub struct Slots {
    /// Index + 1; 0 is free. The length is a power of two.
    slots: Vec<u32>,
    taken: usize,
}

impl Slots {
    /// Makes room for `count` segments in all.
    pub fn reserve(&mut self, count: usize, segments: &[SegmentEntry]) {
        let wanted = (count * 4 / 3 + 1).next_power_of_two();
        if wanted > self.slots.len() {
            self.slots = vec![0; wanted];
            self.taken = 0;
            segments.iter().enumerate().for_each(|(index, segment)| self.insert(index as u32, &segment.fingerprint));
        }
    }

    /// Inserts a segment. There must be room: see [`Slots::reserve`].
    pub fn insert(&mut self, index: u32, fingerprint: &Fingerprint) {
        let mask = self.slots.len() - 1;
        let mut slot = self.first(fingerprint);
        while self.slots[slot] != 0 {
            slot = (slot + 1) & mask;
        }
        self.slots[slot] = index + 1;
        self.taken += 1;
        assert!(self.taken < self.slots.len(), "a free slot must be left to end a search");
    }

    /// Returns the segments that may have this fingerprint; the caller compares.
    pub fn candidates(&self, fingerprint: &Fingerprint) -> impl Iterator<Item = u32> + '_ {
        let mask = self.slots.len().wrapping_sub(1);
        let mut slot = if self.slots.is_empty() { 0 } else { self.first(fingerprint) };
        std::iter::from_fn(move || {
            let found = self.slots.get(slot)?.checked_sub(1)?;
            slot = (slot + 1) & mask;
            Some(found)
        })
    }

    pub fn memory_bytes(&self) -> usize {
        self.slots.len() * size_of::<u32>()
    }

    fn first(&self, fingerprint: &Fingerprint) -> usize {
        let other = u64::from_le_bytes(fingerprint.0[8..16].try_into().expect("eight of 32 bytes"));
        // Multiplying by 2^64 / golden ratio spreads even fingerprints that are no digests.
        let mixed = (fingerprint.low() ^ other.rotate_left(32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize & (self.slots.len() - 1)
    }
}
