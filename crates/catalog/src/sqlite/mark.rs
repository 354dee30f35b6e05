//! The journal's high-water mark: how far any catalog of the store has ever counted, in a small file beside the
//! containers. A catalog that has counted less is an older copy.
//!
//! The file has 64 slots of 64 bytes: the numbers and a checksum over them and the store's id. Transaction `n` writes slot
//! `n mod 64` after it is durable in the catalog, in one system call and without a lock: two processes never write
//! one slot at the same time unless 64 transactions lie between them, and a reader takes the highest number of all whole
//! slots. The mark is not synced: after a power loss it may be older than the catalog, never newer.

use std::fs::File;
use std::os::unix::fs::FileExt;

use format::{StoreId, checksum};

use crate::NumbersGiven;

const SLOTS: u64 = 64;
const SLOT_BYTES: usize = 64;
const FILE_BYTES: usize = SLOTS as usize * SLOT_BYTES;
const CHECKSUM_AT: usize = SLOT_BYTES - 8;

/// What a transaction leaves in the mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Noted {
    pub transaction: u64,
    pub given: NumbersGiven,
}

pub(super) struct Mark {
    file: File,
    store: StoreId,
}

impl Mark {
    /// The mark in a file that may be empty, or may be one that can only be read.
    pub fn new(file: File, store: StoreId) -> Self {
        // All slots are there from the beginning, so that a full disk refuses no later write.
        match file.metadata().map(|found| found.len()) {
            Ok(0) => drop(file.write_all_at(&[0; FILE_BYTES], 0)),
            Ok(length) if length < FILE_BYTES as u64 => drop(file.set_len(FILE_BYTES as u64)),
            _ => {}
        }
        Mark { file, store }
    }

    /// The highest numbers that were noted.
    pub fn read(&self) -> Noted {
        let mut bytes = [0; FILE_BYTES];
        let mut filled = 0;
        while let Ok(count @ 1..) = self.file.read_at(&mut bytes[filled..], filled as u64) {
            filled += count;
        }
        let slots = bytes[..filled].chunks_exact(SLOT_BYTES).filter_map(|slot| self.decode(slot));
        slots.fold(Noted::default(), |highest, noted| Noted {
            transaction: highest.transaction.max(noted.transaction),
            given: highest.given.max(&noted.given),
        })
    }

    /// Notes how far the catalog has counted. What cannot be noted is left out: the transaction is durable, and a mark
    /// that lags only fails to notice one older copy.
    pub fn note(&self, noted: &Noted) {
        let _ = self.file.write_all_at(&self.encode(noted), noted.transaction % SLOTS * SLOT_BYTES as u64);
    }

    fn encode(&self, noted: &Noted) -> [u8; SLOT_BYTES] {
        let Noted { transaction, given: NumbersGiven { sequence, container, session, file } } = *noted;
        let mut slot = [0; SLOT_BYTES];
        for (at, number) in [transaction, sequence, container, session, file].into_iter().enumerate() {
            slot[at * 8..][..8].copy_from_slice(&number.to_le_bytes());
        }
        let sum = self.checksum(&slot);
        slot[CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
        slot
    }

    fn decode(&self, slot: &[u8]) -> Option<Noted> {
        let number = |at: usize| Some(u64::from_le_bytes(slot.get(at..at + 8)?.try_into().ok()?));
        let given =
            NumbersGiven { sequence: number(8)?, container: number(16)?, session: number(24)?, file: number(32)? };
        (number(CHECKSUM_AT)? == self.checksum(slot)).then_some(Noted { transaction: number(0)?, given })
    }

    fn checksum(&self, slot: &[u8]) -> u64 {
        let mut bytes = [0; 16 + CHECKSUM_AT];
        bytes[..16].copy_from_slice(&self.store.0);
        bytes[16..].copy_from_slice(&slot[..CHECKSUM_AT]);
        checksum(&bytes)
    }
}

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;

    use super::*;

    fn noted(transaction: u64, sequence: u64, container: u64) -> Noted {
        Noted { transaction, given: NumbersGiven { sequence, container, ..Default::default() } }
    }

    #[test]
    fn the_mark_is_the_highest_of_the_whole_slots_of_its_store() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("mark");
        let open = || OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
        let mark = Mark::new(open(), StoreId([1; 16]));
        assert_eq!(mark.read(), Noted::default());
        for transaction in [3, 70, 69, 71] {
            mark.note(&noted(transaction, transaction / 10, 5));
        }
        assert_eq!(mark.read(), noted(71, 7, 5));
        mark.file.write_all_at(b"torn", 71 % SLOTS * SLOT_BYTES as u64).unwrap();
        assert_eq!(mark.read(), noted(70, 7, 5), "a torn slot does not count");
        assert_eq!(Mark::new(open(), StoreId([2; 16])).read(), Noted::default(), "another store's mark");
    }

    #[test]
    fn a_mark_of_the_former_length_grows() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("mark");
        std::fs::write(&path, [7; 1024]).unwrap();
        let mark = Mark::new(OpenOptions::new().read(true).write(true).open(&path).unwrap(), StoreId([1; 16]));
        assert_eq!(mark.read(), Noted::default());
        mark.note(&noted(63, 2, 1));
        assert_eq!(mark.read(), noted(63, 2, 1));
    }
}
