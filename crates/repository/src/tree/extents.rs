//! Entries at offsets, the later ones on top of the earlier.

use std::collections::BTreeMap;
use std::ops::Range;

use format::{Entry, EntryKind, Root};

use super::{entries_in, narrow};
use crate::{Repository, Result};

/// Content entries by where they begin; they never overlap.
#[derive(Default, Clone)]
pub(crate) struct Extents {
    entries: BTreeMap<u64, Entry>,
}

impl Extents {
    /// Lays an entry over what is there.
    pub fn lay(&mut self, repository: &Repository, offset: u64, entry: Entry) -> Result<()> {
        self.clear(repository, offset..offset + entry.length)?;
        self.entries.insert(offset, entry);
        Ok(())
    }

    /// Lays everything a sparse manifest lists; its holes are ranges without data.
    pub fn lay_manifest(&mut self, repository: &Repository, root: &Root) -> Result<()> {
        entries_in(repository, root, 0..u64::MAX, &mut |offset, entry| match entry.kind {
            EntryKind::Hole => Ok(()),
            _ => self.lay(repository, offset, entry),
        })
    }

    /// Takes away what lies in the range, cutting what reaches over its ends.
    pub fn clear(&mut self, repository: &Repository, range: Range<u64>) -> Result<()> {
        let touched: Vec<_> = self.overlapping(range.clone()).map(|(offset, entry)| (offset, entry.length)).collect();
        for (offset, length) in touched {
            let entry = self.entries.remove(&offset).expect("it was just found");
            let end = offset + length;
            if offset < range.start {
                let kept = narrow(repository, entry, 0, range.start - offset)?;
                self.entries.insert(offset, kept);
            }
            if end > range.end {
                let kept = narrow(repository, entry, range.end - offset, end - range.end)?;
                self.entries.insert(range.end, kept);
            }
        }
        Ok(())
    }

    /// Returns the entries that overlap the range: offset and entry, in order.
    fn overlapping(&self, range: Range<u64>) -> impl Iterator<Item = (u64, Entry)> + '_ {
        let before = self.entries.range(..range.start).next_back();
        let before = before.filter(move |(offset, entry)| *offset + entry.length > range.start);
        let within = self.entries.range(range.start..range.end.max(range.start));
        before.into_iter().chain(within).map(|(offset, entry)| (*offset, *entry))
    }

    pub fn iter(&self) -> impl Iterator<Item = (u64, Entry)> + '_ {
        self.entries.iter().map(|(offset, entry)| (*offset, *entry))
    }
}
