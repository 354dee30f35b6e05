//! Files and byte ranges as items.
//!
//! A file is one item, or, when parts of it will be asked for, one item for each aligned stretch of `stretch_bytes`.
//! A range means all items it touches, so that ranges that overlap share what they have in common.

use std::ops::Range;

use super::ItemId;

/// A file of the batch; numbered from 0 without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub u32);

#[derive(Clone, Copy, Debug)]
struct File {
    first: u32,
    bytes: u64,
    stretch_bytes: u64,
}

/// Numbers the items of files; the numbers are those [`super::Index::add_item`] gives when called in the same order.
#[derive(Default)]
pub struct Items {
    files: Vec<File>,
    count: u32,
}

impl Items {
    pub fn new() -> Self {
        Items::default()
    }

    /// A file held whole or not at all. Gives the length of its one item.
    pub fn add_whole(&mut self, bytes: u64) -> (FileId, Vec<u64>) {
        self.add(bytes, bytes.max(1))
    }

    /// A file of which ranges are held. Gives the lengths of its items, in order.
    pub fn add_in_ranges(&mut self, bytes: u64, stretch_bytes: u64) -> (FileId, Vec<u64>) {
        assert!(stretch_bytes > 0, "a stretch has a length");
        self.add(bytes, stretch_bytes)
    }

    fn add(&mut self, bytes: u64, stretch_bytes: u64) -> (FileId, Vec<u64>) {
        let file = File { first: self.count, bytes, stretch_bytes };
        let lengths: Vec<u64> =
            (0..file.items()).map(|ordinal| stretch_bytes.min(bytes - u64::from(ordinal) * stretch_bytes)).collect();
        self.count = self.count.checked_add(file.items()).expect("fewer than 2^32 items");
        self.files.push(file);
        (FileId(self.files.len() as u32 - 1), lengths)
    }

    /// All of a file.
    pub fn whole(&self, file: FileId) -> impl Iterator<Item = ItemId> + use<> {
        let file = self.files[file.0 as usize];
        (file.first..file.first + file.items()).map(ItemId)
    }

    /// The items a range touches; what lies behind the file's end is nothing.
    pub fn range(&self, file: FileId, range: Range<u64>) -> impl Iterator<Item = ItemId> + use<> {
        let file = self.files[file.0 as usize];
        let end = range.end.min(file.bytes);
        let touched = if range.start < end {
            (range.start / file.stretch_bytes) as u32..end.div_ceil(file.stretch_bytes) as u32
        } else {
            0..0
        };
        touched.map(move |ordinal| ItemId(file.first + ordinal))
    }
}

impl File {
    /// An empty file is one item too: it is held or not.
    fn items(&self) -> u32 {
        u32::try_from(self.bytes.div_ceil(self.stretch_bytes).max(1)).expect("fewer than 2^32 items")
    }
}
