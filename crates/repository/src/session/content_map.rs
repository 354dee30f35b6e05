//! The content of a file being written: one map from ranges to their newest content.
//!
//! Extents never overlap; where there is none, the path's head shows. Writing, reading, checkpointing and cutting all work
//! on this map, so that the order of overlapping content is decided in one place: by stamps, the higher on top.

use std::ops::Range;
use std::sync::Arc;

use format::{Entry, EntryKind, Fingerprint, SegmentAddress};

use super::leaves::Leaves;

/// A segment in the store.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct StoredSegment {
    pub address: SegmentAddress,
    pub fingerprint: Fingerprint,
    pub bytes: u32,
}

#[derive(Clone, Debug)]
pub(super) enum Content {
    /// In the segment's buffer and nowhere else.
    Staged,
    /// From `skip` bytes into a stored segment on.
    Segment {
        segment: Arc<StoredSegment>,
        skip: u32,
    },
    Zeros,
    /// From `from` bytes into an entry of a recorded checkpoint on.
    Entry {
        entry: Arc<Entry>,
        from: u64,
    },
}

/// How far an extent is on its way into a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CheckpointState {
    Pending,
    /// A checkpoint has copied it and records it now.
    Underway,
    Recorded,
}

#[derive(Clone, Debug)]
pub(super) struct Extent {
    pub end: u64,
    /// When it arrived.
    pub stamp: u64,
    /// How often bytes had been taken out for storing when it came: later takes include it.
    pub takes: u64,
    /// The segment's buffer has these bytes.
    pub is_buffered: bool,
    pub listing: CheckpointState,
    pub content: Content,
}

/// The part of a buffer that other content was laid over.
#[derive(Debug)]
pub(super) struct Overwritten {
    pub range: Range<u64>,
    /// Nothing else had these bytes.
    pub was_staged: bool,
}

/// The changes from laying an extent; kept by the caller and used again, since there are many.
#[derive(Default)]
pub(super) struct Change {
    /// Where it lies now: all of its range but what is newer.
    pub laid: Vec<Range<u64>>,
    pub covered: Vec<Overwritten>,
}

#[derive(Default)]
pub(super) struct ContentMap {
    extents: Leaves<Extent>,
    staged_extents: usize,
}

impl Extent {
    pub fn new(content: Content, stamp: u64, takes: u64) -> Self {
        let is_buffered = matches!(content, Content::Staged);
        Extent { end: 0, stamp, takes, is_buffered, listing: CheckpointState::Pending, content }
    }

    /// Makes an entry of a checkpoint that is recorded already.
    pub fn recorded(entry: Entry) -> Self {
        let content = match entry.kind {
            EntryKind::Zero => Content::Zeros,
            _ => Content::Entry { entry: Arc::new(entry), from: 0 },
        };
        Extent { listing: CheckpointState::Recorded, ..Extent::new(content, 0, 0) }
    }

    pub fn is_staged(&self) -> bool {
        matches!(self.content, Content::Staged)
    }

    /// Returns the part of it from `start` to `end`; it begins at `own_start`.
    fn cut(&self, own_start: u64, start: u64, end: u64) -> Extent {
        let by = start - own_start;
        let content = match &self.content {
            Content::Segment { segment, skip } => Content::Segment { segment: segment.clone(), skip: skip + by as u32 },
            Content::Entry { entry, from } => Content::Entry { entry: entry.clone(), from: from + by },
            other => other.clone(),
        };
        Extent { end, content, ..*self }
    }

    fn is_one_arrival(&self, other: &Extent) -> bool {
        self.stamp == other.stamp && self.takes == other.takes
    }

    /// Whether `next`, which begins where this one (`length` bytes long) ends, goes on with the same content.
    fn continues_in(&self, length: u64, next: &Extent) -> bool {
        let same_state = self.is_buffered == next.is_buffered && self.listing == next.listing;
        same_state
            && match (&self.content, &next.content) {
                (Content::Staged, Content::Staged) | (Content::Zeros, Content::Zeros) => true,
                (Content::Segment { segment, skip }, Content::Segment { segment: other, skip: at }) => {
                    Arc::ptr_eq(segment, other) && *skip as u64 + length == *at as u64
                }
                (Content::Entry { entry, from }, Content::Entry { entry: other, from: at }) => {
                    Arc::ptr_eq(entry, other) && from + length == *at
                }
                _ => false,
            }
    }
}

impl ContentMap {
    /// Lays an extent over those as old as it or older; newer ones stay on top. Notes the changes in `change`.
    pub fn lay(&mut self, range: Range<u64>, new: Extent, change: &mut Change) {
        if range.is_empty() {
            return;
        }
        match self.insert_if_free(range.clone(), new) {
            None => change.laid.push(range),
            Some(new) => self.lay_over(range, new, change),
        }
    }

    /// Lays pieces of one arrival, which come in order, where there is nothing yet: with one look as many as go into
    /// one leaf. Returns how many; none when something is in the way or may be.
    pub fn lay_free(&mut self, pieces: &[(u64, u64)], new: &Extent) -> usize {
        let Some((start, _)) = pieces.first() else { return 0 };
        let leaf_end = self.extents.leaf_end(*start);
        let count = pieces.iter().take_while(|(offset, bytes)| offset + bytes <= leaf_end).count();
        let pieces = &pieces[..count];
        let Some((last, bytes)) = pieces.last() else { return 0 };
        let span = *start..last + bytes;
        let Some((entries, to)) = self.extents.around(&span) else { return 0 };
        let from = entries[..to].partition_point(|(start, _)| *start < span.start);
        if entries[..from].last().is_some_and(|(_, before)| before.end > span.start) {
            return 0;
        }
        if !are_apart(&entries[from..to], pieces) {
            return 0;
        }
        let mut merged = Vec::with_capacity(to - from + pieces.len());
        let mut there = entries.drain(from..to).peekable();
        for (offset, bytes) in pieces {
            while let Some(before) = there.next_if(|(start, _)| start < offset) {
                merged.push(before);
            }
            merged.push((*offset, Extent { end: offset + bytes, ..new.clone() }));
        }
        merged.extend(there);
        entries.splice(from..from, merged);
        self.staged_extents += if new.is_staged() { pieces.len() } else { 0 };
        self.extents.split_if_full(span.start);
        count
    }

    /// Inserts it as one with neighbours of the same arrival. Gives it back when something else lies in the range, or
    /// may do.
    fn insert_if_free(&mut self, range: Range<u64>, mut new: Extent) -> Option<Extent> {
        let Some((entries, at)) = self.extents.around(&range) else { return Some(new) };
        let (before, after) = entries.split_at_mut(at);
        let mut before = before.last_mut();
        // Extents do not overlap, so that the last one that begins before the end also ends last.
        if before.as_ref().is_some_and(|(_, last)| last.end > range.start) {
            return Some(new);
        }
        new.end = range.end;
        let before = before.take_if(|(start, last)| {
            last.end == range.start && last.is_one_arrival(&new) && last.continues_in(range.start - *start, &new)
        });
        let after = after.first_mut().filter(|(start, next)| {
            *start == range.end && new.is_one_arrival(next) && new.continues_in(range.end - range.start, next)
        });
        match (before, after) {
            (Some((_, last)), None) => last.end = range.end,
            (None, Some(next)) => {
                new.end = next.1.end;
                *next = (range.start, new);
            }
            (Some((_, last)), Some((start, next))) => {
                last.end = next.end;
                let start = *start;
                self.remove(start);
            }
            (None, None) => {
                self.staged_extents += new.is_staged() as usize;
                entries.insert(at, (range.start, new));
                self.extents.split_if_full(range.start);
            }
        }
        None
    }

    /// Lays an extent over whatever is there.
    pub fn replace(&mut self, range: Range<u64>, new: Extent) {
        let mut change = Change::default();
        self.starts_in(&range).into_iter().for_each(|start| self.take_away(start, &range, &mut change));
        self.insert(range, new);
    }

    fn lay_over(&mut self, range: Range<u64>, new: Extent, change: &mut Change) {
        let mut at = range.start;
        let first = change.laid.len();
        for start in self.starts_in(&range) {
            let (newer, end) = {
                let Some(old) = self.extents.get(start) else { continue };
                (old.stamp > new.stamp, old.end)
            };
            if newer {
                if at < start {
                    change.laid.push(at..start);
                }
                at = end.min(range.end);
            } else {
                self.take_away(start, &range, change);
            }
        }
        if at < range.end {
            change.laid.push(at..range.end);
        }
        for i in first..change.laid.len() {
            let part = change.laid[i].clone();
            self.insert(part.clone(), new.cut(range.start, part.start, part.end));
        }
    }

    /// Removes what of the extent lies in the range.
    fn take_away(&mut self, start: u64, range: &Range<u64>, change: &mut Change) {
        let Some(old) = self.remove(start) else { return };
        if start < range.start {
            self.put(start, old.cut(start, start, range.start));
        }
        if old.end > range.end {
            self.put(range.end, old.cut(start, range.end, old.end));
        }
        if old.is_buffered {
            let range = start.max(range.start)..old.end.min(range.end);
            change.covered.push(Overwritten { range, was_staged: old.is_staged() });
        }
    }

    /// Returns where the extents begin that overlap the range.
    fn starts_in(&self, range: &Range<u64>) -> Vec<u64> {
        self.overlapping(range.clone()).map(|(start, _)| start).collect()
    }

    /// Inserts where nothing is.
    fn insert(&mut self, range: Range<u64>, new: Extent) {
        if let Some(new) = self.insert_if_free(range.clone(), new) {
            self.put(range.start, Extent { end: range.end, ..new });
        }
    }

    fn put(&mut self, start: u64, extent: Extent) {
        self.staged_extents += extent.is_staged() as usize;
        self.extents.insert(start, extent);
    }

    fn remove(&mut self, start: u64) -> Option<Extent> {
        let extent = self.extents.remove(start)?;
        self.staged_extents -= extent.is_staged() as usize;
        Some(extent)
    }

    /// Changes the extents of a range in place, cutting those that reach over its ends. `change` is given where each
    /// begins.
    pub fn update(&mut self, range: Range<u64>, mut change: impl FnMut(u64, &mut Extent)) {
        self.split(range.start);
        self.split(range.end);
        for (start, extent) in self.extents.range_mut(range) {
            let before = extent.is_staged();
            change(start, extent);
            self.staged_extents -= before as usize;
            self.staged_extents += extent.is_staged() as usize;
        }
    }

    fn split(&mut self, at: u64) {
        let Some((start, extent)) = self.extents.before(at).filter(|(_, extent)| extent.end > at) else { return };
        let (left, right) = (extent.cut(start, start, at), extent.cut(start, at, extent.end));
        self.remove(start);
        self.put(start, left);
        self.put(at, right);
    }

    /// Joins neighbours of the range that go on with each other's content; `alike` says whether it does not matter
    /// which of them is which, the first of which begins where its first argument says. The higher stamp stands for
    /// both.
    pub fn join(&mut self, range: Range<u64>, alike: impl Fn(u64, &Extent, &Extent) -> bool) {
        let staged_extents = &mut self.staged_extents;
        self.extents.join(range, |(start, left), (next, right)| {
            let is_one = left.end == next && left.continues_in(next - start, right) && alike(start, left, right);
            if is_one {
                (left.end, left.stamp, left.takes) =
                    (right.end, left.stamp.max(right.stamp), left.takes.max(right.takes));
                *staged_extents -= right.is_staged() as usize;
            }
            is_one
        });
    }

    /// Returns the extents that overlap the range, in order.
    pub fn overlapping(&self, range: Range<u64>) -> impl Iterator<Item = (u64, &Extent)> + '_ {
        let before = self.extents.before(range.start).filter(|(_, extent)| extent.end > range.start);
        before.into_iter().chain(self.extents.range(range.start..range.end.max(range.start)))
    }

    /// The range piece by piece, in order, with the extent that each is part of and where that begins; `None` where
    /// nothing was written.
    pub fn pieces(&self, range: Range<u64>, mut visit: impl FnMut(Range<u64>, Option<(u64, &Extent)>)) {
        let mut at = range.start;
        for (start, extent) in self.overlapping(range.clone()) {
            if at < start {
                visit(at..start, None);
            }
            let part = start.max(range.start)..extent.end.min(range.end);
            at = part.end;
            visit(part, Some((start, extent)));
        }
        if at < range.end {
            visit(at..range.end, None);
        }
    }

    /// Returns how many extents stand for bytes that are in buffers alone.
    pub fn staged_extents(&self) -> usize {
        self.staged_extents
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.extents.len()
    }
}

/// Whether no piece overlaps an extent; both come in order.
fn are_apart(extents: &[(u64, Extent)], pieces: &[(u64, u64)]) -> bool {
    let mut at = 0;
    pieces.iter().all(|(offset, bytes)| {
        while at < extents.len() && extents[at].0 < *offset {
            if extents[at].1.end > *offset {
                return false;
            }
            at += 1;
        }
        extents.get(at).is_none_or(|(start, _)| *start >= offset + bytes)
    })
}

#[cfg(test)]
mod tests {
    use random::Random;

    use super::*;

    fn lay(map: &mut ContentMap, range: Range<u64>, stamp: u64) -> Change {
        let mut change = Change::default();
        map.lay(range, Extent::new(Content::Staged, stamp, 0), &mut change);
        change
    }

    fn found(map: &ContentMap) -> Vec<(u64, u64, u64)> {
        map.overlapping(0..u64::MAX).map(|(start, extent)| (start, extent.end, extent.stamp)).collect()
    }

    #[test]
    fn later_content_stays_on_top() {
        let mut map = ContentMap::default();
        lay(&mut map, 10..20, 5);
        let change = lay(&mut map, 0..30, 3);
        assert_eq!((change.laid, change.covered.len()), (vec![0..10, 20..30], 0));
        assert_eq!(found(&map), [(0, 10, 3), (10, 20, 5), (20, 30, 3)]);
        let change = lay(&mut map, 5..15, 6);
        assert!(change.laid.into_iter().eq(std::iter::once(5..15)));
        assert_eq!(change.covered.iter().map(|covered| covered.range.clone()).collect::<Vec<_>>(), [5..10, 10..15]);
        assert_eq!(found(&map), [(0, 5, 3), (5, 15, 6), (15, 20, 5), (20, 30, 3)]);
    }

    #[test]
    fn a_piece_sent_again_covers_its_equals_and_nothing_later() {
        let mut map = ContentMap::default();
        lay(&mut map, 2..6, 9);
        assert_eq!(lay(&mut map, 0..10, 4).laid, [0..2, 6..10]);
        assert_eq!(lay(&mut map, 1..3, 3).laid, []);
        assert!(lay(&mut map, 5..7, 9).laid.into_iter().eq(std::iter::once(5..7)));
        assert_eq!(found(&map), [(0, 2, 4), (2, 7, 9), (7, 10, 4)]);
    }

    #[test]
    fn content_of_one_arrival_is_one_extent_whatever_its_order() {
        let mut map = ContentMap::default();
        for start in [30, 10, 0, 20] {
            lay(&mut map, start..start + 10, 7);
        }
        assert_eq!(found(&map), [(0, 40, 7)]);
        assert_eq!((map.len(), map.staged_extents()), (1, 1));
    }

    #[test]
    fn the_map_is_what_an_array_of_stamps_says() {
        let mut random = Random::new(7);
        for _ in 0..300 {
            let mut map = ContentMap::default();
            let mut plain = [0u64; 200];
            for _ in 0..40 {
                let state = random.next();
                let start = (state >> 33) % 200;
                let end = (start + (state >> 20) % 60 + 1).min(200);
                let stamp = (state >> 50) % 30 + 1;
                let pieces = [(start, 2), (start + 4, 3), (start + 9, 1)];
                let is_free =
                    pieces.iter().all(|(at, bytes)| (*at..at + bytes).all(|at| plain.get(at as usize) == Some(&0)));
                if start + 10 < 200 {
                    let count = map.lay_free(&pieces, &Extent::new(Content::Staged, stamp, 0));
                    assert!(is_free || count == 0);
                    let all = pieces[..count].iter().flat_map(|(at, bytes)| *at..at + bytes);
                    all.for_each(|at| plain[at as usize] = stamp);
                }
                let change = lay(&mut map, start..end, stamp);
                let expected: Vec<u64> = (start..end).filter(|at| plain[*at as usize] <= stamp).collect();
                assert_eq!(change.laid.into_iter().flatten().collect::<Vec<_>>(), expected);
                expected.iter().for_each(|at| plain[*at as usize] = stamp);
                let mut seen = [0; 200];
                map.pieces(0..200, |range, extent| {
                    let stamp = extent.map_or(0, |(_, extent)| extent.stamp);
                    range.for_each(|at| seen[at as usize] = stamp);
                });
                assert_eq!(seen, plain);
                assert_eq!(map.staged_extents(), map.len());
            }
        }
    }
}
