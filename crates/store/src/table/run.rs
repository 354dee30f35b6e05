//! One run: a file of sorted entries, and the in-memory index that finds the page to read.
//!
//! Layout: header, entries, then for each slice its fences and its filter; the header's checksum covers what follows
//! the entries. Entries need none: the container confirms every hit.

use std::sync::Arc;

use format::{
    Reader, SegmentAddress, StoreId, TABLE_ENTRY_BYTES, TABLE_HEADER_BYTES, TABLE_PREFIX_BYTES, TableEntry,
    TableHeader, Writer, checksum,
};

use super::fences::{PAGE_ENTRIES, SLICE_ENTRIES, Slice, key_of};
use super::list::RunRecord;
use crate::files::{File, Files};
use crate::{Error, Result};

/// Entries are written and read in batches of this many (1.5 MB).
const STRETCH_ENTRIES: usize = 1 << 16;

pub struct Run {
    pub record: RunRecord,
    file: Arc<dyn File>,
    slices: Vec<Slice>,
}

impl Run {
    pub fn open(files: &dyn Files, store: StoreId, record: RunRecord) -> Result<Self> {
        let file = files.open(&record.file_name())?;
        let damaged = |why: String| Error::Corrupt { path: file.path().to_owned(), offset: 0, why };
        let length = file.length()?;
        let header = TableHeader::decode(&file.read(0, TABLE_HEADER_BYTES.min(length as usize))?)?;
        if header.store != store || header.entries != record.entries || header.filter_checksum != record.checksum {
            return Err(damaged("another run than the list means".into()));
        }
        let index_offset =
            (TABLE_HEADER_BYTES as u64).saturating_add(header.entries.saturating_mul(TABLE_ENTRY_BYTES as u64));
        if index_offset.checked_add(header.filter_bytes) != Some(length) {
            return Err(damaged("its length is not what the header says".into()));
        }
        let bytes = file.read(index_offset, header.filter_bytes as usize)?;
        if checksum(&bytes) != header.filter_checksum {
            return Err(damaged("the checksum of its filters does not match".into()));
        }
        let slices = read_slices(&bytes, header.entries as usize)?;
        Ok(Run { record, file, slices })
    }

    /// Adds the addresses of all entries with this prefix. Unreadable entries count as absent.
    pub fn find(&self, prefix: &[u8; TABLE_PREFIX_BYTES], addresses: &mut Vec<SegmentAddress>) {
        let key = key_of(prefix);
        let first = self.slices.partition_point(|slice| slice.first_key() < key).saturating_sub(1);
        for (number, slice) in self.slices.iter().enumerate().skip(first) {
            if slice.first_key() > key {
                break;
            }
            if slice.contains(key) {
                let pages = slice.pages(key);
                let start = number * SLICE_ENTRIES + pages.start * PAGE_ENTRIES;
                let end = (number * SLICE_ENTRIES + pages.end * PAGE_ENTRIES).min(self.slice_end(number));
                self.scan(start, end, prefix, addresses);
            }
        }
    }

    pub fn memory_bytes(&self) -> usize {
        self.slices.iter().map(Slice::memory_bytes).sum::<usize>() + size_of::<Self>()
    }

    /// Returns all entries, in order.
    pub fn entries(self: &Arc<Self>) -> impl Iterator<Item = Result<TableEntry>> + use<> {
        let run = self.clone();
        let count = run.record.entries as usize;
        (0..count).step_by(STRETCH_ENTRIES).flat_map(move |start| {
            match run.read(start, STRETCH_ENTRIES.min(count - start)) {
                Ok(bytes) => decode(&bytes).map(Ok).collect::<Vec<_>>(),
                Err(error) => vec![Err(error)],
            }
        })
    }

    fn slice_end(&self, number: usize) -> usize {
        ((number + 1) * SLICE_ENTRIES).min(self.record.entries as usize)
    }

    fn scan(&self, start: usize, end: usize, prefix: &[u8; TABLE_PREFIX_BYTES], addresses: &mut Vec<SegmentAddress>) {
        let mut page = [0; PAGE_ENTRIES * TABLE_ENTRY_BYTES];
        for at in (start..end).step_by(PAGE_ENTRIES) {
            let bytes = &mut page[..PAGE_ENTRIES.min(end - at) * TABLE_ENTRY_BYTES];
            let offset = TABLE_HEADER_BYTES + at * TABLE_ENTRY_BYTES;
            if self.file.read_at(offset as u64, bytes).is_err() {
                return;
            }
            let (entries, _) = bytes.as_chunks::<TABLE_ENTRY_BYTES>();
            let first = entries.partition_point(|entry| entry[..TABLE_PREFIX_BYTES] < prefix[..]);
            let same = entries[first..].iter().take_while(|entry| entry[..TABLE_PREFIX_BYTES] == prefix[..]);
            addresses.extend(same.map(|entry| TableEntry::decode(entry).address));
        }
    }

    fn read(&self, first: usize, count: usize) -> Result<Vec<u8>> {
        self.file.read((TABLE_HEADER_BYTES + first * TABLE_ENTRY_BYTES) as u64, count * TABLE_ENTRY_BYTES)
    }
}

fn decode(bytes: &[u8]) -> impl Iterator<Item = TableEntry> + '_ {
    bytes.as_chunks::<TABLE_ENTRY_BYTES>().0.iter().map(TableEntry::decode)
}

fn read_slices(bytes: &[u8], entries: usize) -> Result<Vec<Slice>> {
    let mut from = Reader::new("table run", bytes);
    let starts = (0..entries).step_by(SLICE_ENTRIES);
    let slices = starts.map(|start| Slice::read(&mut from, SLICE_ENTRIES.min(entries - start)));
    let slices = slices.collect::<format::Result<Vec<_>>>()?;
    from.end()?;
    Ok(slices)
}

/// Fills an empty file with sorted entries as run `number`; the header comes last, so that a torn run has none.
pub fn write(
    file: &dyn File,
    store: StoreId,
    number: u64,
    entries: impl Iterator<Item = TableEntry>,
) -> Result<RunRecord> {
    let mut writing = RunWriter { file, buffer: Vec::new(), entries: 0, keys: Vec::new(), index: Writer::new() };
    for entry in entries {
        writing.add(&entry)?;
    }
    writing.finish(store, number)
}

struct RunWriter<'a> {
    file: &'a dyn File,
    buffer: Vec<u8>,
    /// Number of entries written and buffered.
    entries: usize,
    /// Keys of the slice being filled.
    keys: Vec<u64>,
    index: Writer,
}

impl RunWriter<'_> {
    fn add(&mut self, entry: &TableEntry) -> Result<()> {
        self.buffer.extend_from_slice(&entry.encode());
        self.keys.push(key_of(&entry.prefix));
        self.entries += 1;
        if self.keys.len() == SLICE_ENTRIES {
            self.end_slice();
        }
        if self.buffer.len() == STRETCH_ENTRIES * TABLE_ENTRY_BYTES { self.flush() } else { Ok(()) }
    }

    fn end_slice(&mut self) {
        if !self.keys.is_empty() {
            Slice::build(std::mem::take(&mut self.keys)).write(&mut self.index);
        }
    }

    fn flush(&mut self) -> Result<()> {
        let end = TABLE_HEADER_BYTES + self.entries * TABLE_ENTRY_BYTES;
        self.file.write_at((end - self.buffer.len()) as u64, &[&self.buffer])?;
        self.buffer.clear();
        Ok(())
    }

    fn finish(mut self, store: StoreId, number: u64) -> Result<RunRecord> {
        self.end_slice();
        self.flush()?;
        let index = self.index.finish();
        let entries = self.entries as u64;
        let header =
            TableHeader { store, entries, filter_bytes: index.len() as u64, filter_checksum: checksum(&index) };
        self.file.write_at(TABLE_HEADER_BYTES as u64 + entries * TABLE_ENTRY_BYTES as u64, &[&index])?;
        self.file.write_at(0, &[&header.encode()])?;
        Ok(RunRecord { number, entries, checksum: header.filter_checksum })
    }
}
