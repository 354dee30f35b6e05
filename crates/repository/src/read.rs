//! Reading a file's content: any range, every byte checked on the way; several ranges, or a long one, on a few threads.

use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;

use catalog::FileEntry;
use format::{Entry, EntryKind, Root, Run, SegmentAddress, SegmentEntry, StorePath, VersionRecord};

use crate::known_runs::{EntryEnds, Stretch};
use crate::recipe::DroppedContent;
use crate::tree::entries_in;
use crate::{Repository, Result};

/// Segments decoded and held at once.
pub(crate) const SEGMENTS_AT_ONCE: usize = 64;

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
    pub(crate) repository: &'a Repository,
    pub(crate) root: &'a Root,
    size: u64,
    ends: EntryEnds,
}

impl Repository {
    pub fn reader<'a>(&'a self, root: &'a Root, size: u64) -> FileReader<'a> {
        FileReader { repository: self, root, size, ends: EntryEnds::Anywhere }
    }

    /// A version whose record is known is read past lost segments, too.
    pub fn version_reader<'a>(&'a self, version: &'a VersionRecord) -> FileReader<'a> {
        FileReader { ends: EntryEnds::of(version), ..self.reader(&version.root, version.size) }
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

    /// Hands over the range piece by piece, in order; it is cut at the file's end. What comes next is fetched meanwhile, if
    /// the store is far.
    pub fn pieces(&self, range: Range<u64>, mut take: impl FnMut(Piece) -> Result<()>) -> Result<()> {
        let range = range.start..range.end.min(self.size);
        if range.is_empty() {
            return Ok(());
        }
        match self.repository.is_far() {
            true => self.pieces_ahead(range, take),
            false => self.pieces_in_order(range, &mut take),
        }
    }

    /// As [`FileReader::pieces`] of a range that is not empty and lies in the file.
    pub(crate) fn pieces_in_order(&self, range: Range<u64>, take: &mut dyn FnMut(Piece) -> Result<()>) -> Result<()> {
        let mut left = range.end - range.start;
        entries_in(self.repository, self.root, range.clone(), &mut |offset, entry| {
            let start = range.start.max(offset) - offset;
            let end = range.end.min(offset + entry.length) - offset;
            self.repository.entry_pieces(entry, self.ends, start..end, &mut |piece| {
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
        ends: EntryEnds,
        range: Range<u64>,
        take: &mut dyn FnMut(Piece) -> Result<()>,
    ) -> Result<()> {
        match entry.kind {
            EntryKind::Zero => take(Piece::Zeros(range.end - range.start)),
            EntryKind::Hole => take(Piece::Hole(range.end - range.start)),
            EntryKind::Page { .. } => unreachable!("only content entries are handed over"),
            EntryKind::Dropped { output, recipe } => {
                self.dropped_pieces(DroppedContent { recipe, output }, entry.length, range, take)
            }
            EntryKind::Data { run, skip, digest } => {
                let known = self.known_run(run, &digest, u64::from(skip) + entry.length, ends)?;
                let wanted = skip as u64 + range.start..skip as u64 + range.end;
                let read = self.stretch_pieces(run, &known.stretch_with(&wanted)?, wanted, take);
                read.inspect_err(|_| self.forget_run(run, &digest))
            }
        }
    }

    /// Hands over bytes of a run that the stretch holds.
    pub(crate) fn stretch_pieces(
        &self,
        run: Run,
        stretch: &Stretch,
        wanted: Range<u64>,
        take: &mut dyn FnMut(Piece) -> Result<()>,
    ) -> Result<()> {
        let wanted = wanted.start - stretch.start..wanted.end - stretch.start;
        let Some((entries, first, at)) = stretch.segments.holding(&wanted) else { return Ok(()) };
        let from = SegmentAddress::new(run.container, run.first + stretch.first + first as u32);
        self.run_pieces(from, entries, (at, wanted), take)
    }

    /// Hands over the segments from a place on, which are to be those of `entries`. `at` is where the first begins, in
    /// the same measure as `wanted`.
    fn run_pieces(
        &self,
        mut from: SegmentAddress,
        entries: &[SegmentEntry],
        (mut at, wanted): (u64, Range<u64>),
        take: &mut dyn FnMut(Piece) -> Result<()>,
    ) -> Result<()> {
        for entries in entries.chunks(SEGMENTS_AT_ONCE) {
            let part = Run { container: from.container, first: from.ordinal, count: entries.len() as u32 };
            from.ordinal += part.count;
            for segment in self.named_segments(part, entries)? {
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

/// More than a few only wait for each other: for cores near a store, for connections far from it.
const THREADS: usize = 8;
/// A long range is read in such pieces (bytes): some blocks each, so that few are decoded for two.
const PIECE_BYTES: usize = 2 << 20;

impl Repository {
    /// Returns the entry of each name.
    pub fn entries(&self, paths: &[StorePath]) -> Vec<Result<Option<FileEntry>>> {
        side_by_side(paths, |path| Ok(self.catalog.entry(path)?))
    }

    /// Returns the bytes of each range, cut at its version's end.
    pub fn read_many(&self, wanted: &[(&VersionRecord, Range<u64>)]) -> Vec<Result<Vec<u8>>> {
        side_by_side(wanted, |(version, range)| {
            let end = range.end.min(version.size);
            let mut bytes = vec![0; end.saturating_sub(range.start) as usize];
            let count = self.version_reader(version).read_at(range.start, &mut bytes)?;
            bytes.truncate(count);
            Ok(bytes)
        })
    }
}

impl FileReader<'_> {
    /// As `read_at`, on several threads where the range is long. A far store's is fetched by several in any case.
    pub fn read_at_side_by_side(&self, offset: u64, into: &mut [u8]) -> Result<usize> {
        if self.repository.is_far() {
            return self.read_at(offset, into);
        }
        let starts = (offset..).step_by(PIECE_BYTES);
        let pieces: Vec<_> = starts.zip(into.chunks_mut(PIECE_BYTES).map(Mutex::new)).collect();
        let read = side_by_side(&pieces, |(start, piece)| {
            self.read_at(*start, &mut piece.lock().expect("each piece is one thread's"))
        });
        read.into_iter().sum()
    }
}

/// Does the work for each item, on up to [`THREADS`] threads; results in the order of the items.
pub(crate) fn side_by_side<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let share = || {
        let mut done = Vec::new();
        while let Some((at, item)) =
            Some(next.fetch_add(1, Ordering::Relaxed)).and_then(|at| Some((at, items.get(at)?)))
        {
            done.push((at, work(item)));
        }
        done
    };
    let mut done = std::thread::scope(|scope| {
        // Where there are no more threads, fewer do the work.
        let others = (1..THREADS.min(items.len())).map_while(|_| Builder::new().spawn_scoped(scope, share).ok());
        let others: Vec<_> = others.collect();
        let mut done = share();
        for other in others {
            done.extend(other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
        }
        done
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        let items: Vec<u64> = (0..1000).collect();
        assert_eq!(side_by_side(&items, |item| item * 2), items.iter().map(|item| item * 2).collect::<Vec<_>>());
        assert!(side_by_side(&[0; 0], |item: &i32| *item).is_empty());
    }
}
