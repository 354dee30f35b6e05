//! The journal's high-water mark: how far any catalog of the store has ever counted, in a small file beside the
//! containers. A catalog that has counted less is an older copy, and one with another record than the journal's last
//! has diverged from the containers.
//!
//! The file has 64 slots of 64 bytes: the numbers and a checksum over them and the store's id. Transaction `n` writes slot
//! `n mod 64` after it is durable in the catalog, in one system call and without a lock: two processes never write
//! one slot at the same time unless 64 transactions lie between them, and a reader takes the highest number of all whole
//! slots. The mark is not synced: after a power loss it may be older than the catalog, never newer.

use std::fs::File;
use std::os::unix::fs::FileExt;

use format::{StoreId, checksum};

use crate::IssuedNumbers;

const SLOTS: u64 = 64;
const SLOT_BYTES: usize = 64;
const FILE_BYTES: usize = SLOTS as usize * SLOT_BYTES;
const RECORD_AT: usize = 40;
const CHECKSUM_AT: usize = SLOT_BYTES - 8;
const _: () = assert!(RECORD_AT + 16 == CHECKSUM_AT && CHECKSUM_AT == 56, "docs/format.md, journal.mark");

/// The values a transaction leaves in the mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct MarkUpdate {
    pub transaction: u64,
    pub given: IssuedNumbers,
    /// [`format::JournalRecord::checksum_of`] the record with the last sequence; 0 where that is not known.
    pub record: u64,
}

impl MarkUpdate {
    /// Returns the order of two marks. Of two that know a record of one sequence the later one counts: a rebuild may
    /// have found another.
    fn age(&self) -> (u64, u64) {
        (self.given.sequence, self.transaction)
    }
}

pub(super) struct Mark {
    file: File,
    store: StoreId,
}

impl Mark {
    /// Opens the mark in a file that may be empty, or read-only.
    pub fn new(file: File, store: StoreId) -> Self {
        // All slots exist from the beginning, so that a full disk refuses no later write.
        match file.metadata().map(|found| found.len()) {
            Ok(0) => drop(file.write_all_at(&[0; FILE_BYTES], 0)),
            Ok(length) if length < FILE_BYTES as u64 => drop(file.set_len(FILE_BYTES as u64)),
            _ => {}
        }
        Mark { file, store }
    }

    /// Returns the highest numbers that were noted.
    pub fn read(&self) -> MarkUpdate {
        let mut bytes = [0; FILE_BYTES];
        let mut filled = 0;
        while let Ok(count @ 1..) = self.file.read_at(&mut bytes[filled..], filled as u64) {
            filled += count;
        }
        let slots = bytes[..filled].chunks_exact(SLOT_BYTES).filter_map(|slot| self.decode(slot));
        slots.fold(MarkUpdate::default(), |highest, noted| MarkUpdate {
            transaction: highest.transaction.max(noted.transaction),
            given: highest.given.max(&noted.given),
            record: if noted.age() > highest.age() { noted.record } else { highest.record },
        })
    }

    /// Notes how far the catalog has counted. Failures are ignored: the transaction is durable, and a mark that lags
    /// only fails to detect one older copy.
    pub fn note(&self, noted: &MarkUpdate) {
        let _ = self.file.write_all_at(&self.encode(noted), noted.transaction % SLOTS * SLOT_BYTES as u64);
    }

    fn encode(&self, noted: &MarkUpdate) -> [u8; SLOT_BYTES] {
        let MarkUpdate { transaction, given: IssuedNumbers { sequence, container, session, file }, record } = *noted;
        let mut slot = [0; SLOT_BYTES];
        for (at, number) in [transaction, sequence, container, session, file, record].into_iter().enumerate() {
            slot[at * 8..][..8].copy_from_slice(&number.to_le_bytes());
        }
        let sum = self.checksum(&slot);
        slot[CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
        slot
    }

    fn decode(&self, slot: &[u8]) -> Option<MarkUpdate> {
        let number = |at: usize| Some(u64::from_le_bytes(slot.get(at..at + 8)?.try_into().ok()?));
        let given =
            IssuedNumbers { sequence: number(8)?, container: number(16)?, session: number(24)?, file: number(32)? };
        let noted = MarkUpdate { transaction: number(0)?, given, record: number(RECORD_AT)? };
        (number(CHECKSUM_AT)? == self.checksum(slot)).then_some(noted)
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

    fn noted(transaction: u64, sequence: u64, container: u64) -> MarkUpdate {
        let record = sequence.wrapping_mul(0x9E37_79B9_7F4A_7C15);
        MarkUpdate { transaction, given: IssuedNumbers { sequence, container, ..Default::default() }, record }
    }

    #[test]
    fn the_mark_is_the_highest_of_the_whole_slots_of_its_store() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("mark");
        let open = || OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path).unwrap();
        let mark = Mark::new(open(), StoreId([1; 16]));
        assert_eq!(mark.read(), MarkUpdate::default());
        for transaction in [3, 70, 69, 71] {
            mark.note(&noted(transaction, transaction / 10, 5));
        }
        assert_eq!(mark.read(), noted(71, 7, 5));
        mark.file.write_all_at(b"torn", 71 % SLOTS * SLOT_BYTES as u64).unwrap();
        assert_eq!(mark.read(), noted(70, 7, 5), "a torn slot does not count");
        assert_eq!(Mark::new(open(), StoreId([2; 16])).read(), MarkUpdate::default(), "another store's mark");
    }

    #[test]
    fn the_record_is_that_of_the_last_sequence_as_it_was_noted_last() {
        let scratch = tempfile::tempdir().unwrap();
        let options = &mut OpenOptions::new();
        let file =
            options.read(true).write(true).create(true).truncate(false).open(scratch.path().join("mark")).unwrap();
        let mark = Mark::new(file, StoreId([1; 16]));
        let note = |transaction, sequence, record| mark.note(&MarkUpdate { record, ..noted(transaction, sequence, 5) });
        note(3, 2, 22);
        note(65, 3, 33);
        assert_eq!(mark.read().record, 33);
        note(66, 3, 34);
        assert_eq!(mark.read().record, 34, "what counts is the transaction, not the slot");
        note(67, 3, 0);
        assert_eq!(
            mark.read(),
            MarkUpdate { record: 0, ..noted(67, 3, 5) },
            "a rebuilt catalog may not have that record"
        );
    }

    #[test]
    fn a_mark_of_the_former_length_grows() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("mark");
        std::fs::write(&path, [7; 1024]).unwrap();
        let mark = Mark::new(OpenOptions::new().read(true).write(true).open(&path).unwrap(), StoreId([1; 16]));
        assert_eq!(mark.read(), MarkUpdate::default());
        mark.note(&noted(63, 2, 1));
        assert_eq!(mark.read(), noted(63, 2, 1));
    }
}
