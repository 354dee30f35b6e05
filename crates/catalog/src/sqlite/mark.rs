//! The journal's high-water mark: how far any catalog of the store has ever counted, in a small file beside the
//! containers. A catalog that has counted less is an older copy.
//!
//! The file has 64 slots of 16 bytes: a sequence and a checksum over it and the store's id. Transaction `n` writes slot
//! `n mod 64` after it is durable in the catalog, in one system call and without a lock: two processes never write
//! one slot at the same time unless 64 transactions lie between them, and a reader takes the highest whole slot. The
//! mark is not synced: after a power loss it may be older than the catalog, never newer.

use std::fs::File;
use std::os::unix::fs::FileExt;

use format::{StoreId, checksum};

const SLOTS: u64 = 64;
const SLOT_BYTES: usize = 16;

pub(super) struct Mark {
    file: File,
    store: StoreId,
}

impl Mark {
    /// The mark in a file that may be empty, or may be one that can only be read.
    pub fn new(file: File, store: StoreId) -> Self {
        // All slots are there from the beginning, so that a full disk refuses no later write.
        if file.metadata().is_ok_and(|found| found.len() == 0) {
            let _ = file.write_all_at(&[0; SLOTS as usize * SLOT_BYTES], 0);
        }
        Mark { file, store }
    }

    /// The highest sequence that was noted; 0 for none.
    pub fn read(&self) -> u64 {
        let mut bytes = [0; SLOTS as usize * SLOT_BYTES];
        let mut filled = 0;
        while let Ok(count @ 1..) = self.file.read_at(&mut bytes[filled..], filled as u64) {
            filled += count;
        }
        let slots = bytes[..filled].chunks_exact(SLOT_BYTES);
        slots.filter_map(|slot| self.decode(slot)).max().unwrap_or(0)
    }

    /// Notes that the catalog has counted to `sequence`. What cannot be noted is left out: the transaction is durable,
    /// and a mark that lags only fails to notice one older copy.
    pub fn note(&self, sequence: u64) {
        let _ = self.file.write_all_at(&self.encode(sequence), sequence % SLOTS * SLOT_BYTES as u64);
    }

    fn encode(&self, sequence: u64) -> [u8; SLOT_BYTES] {
        let mut slot = [0; SLOT_BYTES];
        slot[..8].copy_from_slice(&sequence.to_le_bytes());
        slot[8..].copy_from_slice(&self.checksum(sequence).to_le_bytes());
        slot
    }

    fn decode(&self, slot: &[u8]) -> Option<u64> {
        let (sequence, found) = slot.split_at(8);
        let sequence = u64::from_le_bytes(sequence.try_into().ok()?);
        (found == self.checksum(sequence).to_le_bytes()).then_some(sequence)
    }

    fn checksum(&self, sequence: u64) -> u64 {
        let mut bytes = [0; 24];
        bytes[..16].copy_from_slice(&self.store.0);
        bytes[16..].copy_from_slice(&sequence.to_le_bytes());
        checksum(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    #[test]
    fn the_mark_is_the_highest_whole_slot_of_its_store() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("mark");
        let open = || OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
        let mark = Mark::new(open(), StoreId([1; 16]));
        assert_eq!(mark.read(), 0);
        for sequence in [3, 70, 69, 71] {
            mark.note(sequence);
        }
        assert_eq!(mark.read(), 71);
        mark.file.write_all_at(b"torn", 71 % SLOTS * SLOT_BYTES as u64).unwrap();
        assert_eq!(mark.read(), 70, "a torn slot does not count");
        assert_eq!(Mark::new(open(), StoreId([2; 16])).read(), 0, "another store's mark");
    }
}
