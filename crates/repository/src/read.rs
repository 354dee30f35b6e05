//! Reading a file's content: any range, every byte checked on the way.

use std::ops::Range;

use format::{Entry, EntryKind, Root, Run};

use crate::tree::entries_in;
use crate::{Repository, Result};

/// Segments decoded and held at once.
const SEGMENTS_AT_ONCE: u32 = 64;

/// A stretch of a file.
pub enum Piece<'a> {
    Data(&'a [u8]),
    /// Zeros that were written.
    Zeros(u64),
    /// Never written; reads as zeros.
    Hole(u64),
}

impl Piece<'_> {
    fn bytes(&self) -> u64 {
        match self {
            Piece::Data(bytes) => bytes.len() as u64,
            Piece::Zeros(bytes) | Piece::Hole(bytes) => *bytes,
        }
    }
}

/// One version of a file.
pub struct FileReader<'a> {
    repository: &'a Repository,
    root: &'a Root,
    size: u64,
}

impl Repository {
    pub fn reader<'a>(&'a self, root: &'a Root, size: u64) -> FileReader<'a> {
        FileReader { repository: self, root, size }
    }
}

impl FileReader<'_> {
    /// Fills `into` from `offset` on; returns how many bytes the file had there.
    pub fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        let end = self.size.min(offset.saturating_add(into.len() as u64));
        if offset >= end {
            return Ok(0);
        }
        let mut filled = 0;
        self.pieces(offset..end, |piece| {
            filled += fill(&mut into[filled..], piece);
            Ok(())
        })?;
        Ok(filled)
    }

    /// Hands over the range piece by piece, in order; it is cut at the file's end.
    pub fn pieces(&self, range: Range<u64>, mut take: impl FnMut(Piece) -> Result<()>) -> Result<()> {
        let range = range.start..range.end.min(self.size);
        if range.is_empty() {
            return Ok(());
        }
        let mut left = range.end - range.start;
        entries_in(self.repository, self.root, range.clone(), &mut |offset, entry| {
            let start = range.start.max(offset) - offset;
            let end = range.end.min(offset + entry.length) - offset;
            self.repository.entry_pieces(entry, start..end, &mut |piece| {
                left = left.saturating_sub(piece.bytes());
                take(piece)
            })
        })?;
        if left > 0 {
            let why = format!("it ends {left} bytes before the file does");
            return Err(format::Error::Corrupt { what: "manifest", why }.into());
        }
        Ok(())
    }
}

/// Copies a piece to the front of `into`; returns its length.
pub(crate) fn fill(into: &mut [u8], piece: Piece) -> usize {
    match piece {
        Piece::Data(bytes) => {
            into[..bytes.len()].copy_from_slice(bytes);
            bytes.len()
        }
        Piece::Zeros(length) | Piece::Hole(length) => {
            into[..length as usize].fill(0);
            length as usize
        }
    }
}

impl Repository {
    /// Hands over part of an entry (`range` counts from the entry's start).
    pub(crate) fn entry_pieces(
        &self,
        entry: Entry,
        range: Range<u64>,
        take: &mut dyn FnMut(Piece) -> Result<()>,
    ) -> Result<()> {
        match entry.kind {
            EntryKind::Zero => take(Piece::Zeros(range.end - range.start)),
            EntryKind::Hole => take(Piece::Hole(range.end - range.start)),
            EntryKind::Page { .. } => unreachable!("only content entries are handed over"),
            EntryKind::Data { run, skip, digest } => {
                let lengths = self.checked_entries(run, &digest)?;
                let wanted = skip as u64 + range.start..skip as u64 + range.end;
                let mut offset = 0;
                let mut first = None;
                let mut last = 0;
                for (i, segment) in lengths.iter().enumerate() {
                    let end = offset + segment.bytes as u64;
                    if end > wanted.start && offset < wanted.end {
                        first.get_or_insert((i as u32, offset));
                        last = i as u32;
                    }
                    offset = end;
                }
                let Some((first, at)) = first else { return Ok(()) };
                let needed = Run { container: run.container, first: run.first + first, count: last - first + 1 };
                self.run_pieces(needed, at, wanted, take)
            }
        }
    }

    /// `at` is where the run's first segment begins, in the same measure as `wanted`.
    fn run_pieces(
        &self,
        run: Run,
        mut at: u64,
        wanted: Range<u64>,
        take: &mut dyn FnMut(Piece) -> Result<()>,
    ) -> Result<()> {
        for first in (run.first..run.first + run.count).step_by(SEGMENTS_AT_ONCE as usize) {
            let count = SEGMENTS_AT_ONCE.min(run.first + run.count - first);
            let part = Run { container: run.container, first, count };
            for segment in self.segments(part)? {
                let start = wanted.start.saturating_sub(at).min(segment.len() as u64);
                let end = wanted.end.saturating_sub(at).min(segment.len() as u64);
                at += segment.len() as u64;
                if start < end {
                    take(Piece::Data(&segment[start as usize..end as usize]))?;
                }
            }
        }
        Ok(())
    }
}
