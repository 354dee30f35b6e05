//! Where in the file the bytes lie that were asked for ahead.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use super::piece::Piece;
use super::request_ahead::RequestAhead;

/// Ranges of the file that do not overlap, by their beginning.
#[derive(Default)]
pub(super) struct ReadAheadRanges(BTreeMap<u64, ReadAheadRange>);

struct ReadAheadRange {
    end: u64,
    request: Arc<RequestAhead>,
    /// Its place in the request's answer.
    at: usize,
}

/// Bytes of a read that are there, or under way.
pub(super) struct ReadAheadPiece {
    pub request: Arc<RequestAhead>,
    /// Their place in the request's answer.
    pub at: usize,
    pub target: Piece,
}

impl ReadAheadRanges {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn clear(&mut self) {
        self.0.clear();
    }

    /// Adds the ranges that the request asks for, in its order.
    pub fn insert(&mut self, ranges: &[Piece], request: &Arc<RequestAhead>) {
        let mut at = 0;
        for range in ranges {
            self.0.insert(range.offset(), ReadAheadRange { end: range.end(), request: request.clone(), at });
            at += range.bytes() as usize;
        }
    }

    /// Returns what of the piece is kept, and adds the rest to `missing`.
    pub fn find(&self, piece: &Piece, missing: &mut Vec<Piece>) -> Vec<ReadAheadPiece> {
        let (mut taken, mut offset) = (Vec::new(), piece.offset());
        for (start, kept) in self.overlapping(piece.offset()..piece.end()) {
            let within = start.max(offset)..kept.end.min(piece.end());
            if offset < within.start {
                missing.push(piece.within(offset..within.start));
            }
            let at = kept.at + (within.start - start) as usize;
            taken.push(ReadAheadPiece { request: kept.request.clone(), at, target: piece.within(within.clone()) });
            offset = within.end;
        }
        if offset < piece.end() {
            missing.push(piece.within(offset..piece.end()));
        }
        taken
    }

    /// Drops the ranges that a read of the piece has come to the end of.
    pub fn drop_read(&mut self, piece: &Piece) {
        self.remove(piece.offset()..piece.end(), |kept| kept.end <= piece.end());
    }

    /// Drops the ranges of which something lies in this one.
    pub fn drop_overlapping(&mut self, range: Range<u64>) {
        self.remove(range, |_| true);
    }

    fn remove(&mut self, range: Range<u64>, is_due: impl Fn(&ReadAheadRange) -> bool) {
        let due = self.overlapping(range).filter(|(_, kept)| is_due(kept)).map(|(start, _)| start);
        due.collect::<Vec<_>>().into_iter().for_each(|start| drop(self.0.remove(&start)));
    }

    fn overlapping(&self, range: Range<u64>) -> impl Iterator<Item = (u64, &ReadAheadRange)> {
        let first = self.0.range(..=range.start).next_back();
        let first = first.filter(|(_, kept)| kept.end > range.start && !range.is_empty());
        let begin = first.map_or(range.start, |(start, _)| *start);
        self.0.range(begin..range.end).map(|(start, kept)| (*start, kept))
    }
}

#[cfg(test)]
mod tests {
    use super::super::request_ahead::ReadAheadMemory;
    use super::*;

    fn kept(ranges: &[(u64, u64)]) -> ReadAheadRanges {
        let memory = Arc::new(ReadAheadMemory::new(1000));
        let pieces: Vec<Piece> = ranges.iter().map(|(start, end)| Piece::without_memory(*start..*end)).collect();
        let mut kept = ReadAheadRanges::default();
        kept.insert(&pieces, &RequestAhead::new(memory.charge(1).unwrap()));
        kept
    }

    /// Place in the answer, beginning and end in the file.
    type Place = (usize, u64, u64);

    /// What is found of a read, and what is missing.
    fn found(kept: &ReadAheadRanges, range: Range<u64>) -> (Vec<Place>, Vec<(u64, u64)>) {
        let mut missing = Vec::new();
        let taken = kept.find(&Piece::without_memory(range), &mut missing);
        let taken = taken.iter().map(|taken| (taken.at, taken.target.offset(), taken.target.end()));
        (taken.collect(), missing.iter().map(|piece| (piece.offset(), piece.end())).collect())
    }

    #[test]
    fn a_read_finds_what_is_kept_of_it_and_what_is_missing() {
        let kept = kept(&[(100, 200), (300, 400), (400, 450)]);
        assert_eq!(found(&kept, 0..100), (vec![], vec![(0, 100)]));
        assert_eq!(found(&kept, 150..160), (vec![(50, 150, 160)], vec![]));
        let parts = vec![(0, 100, 200), (100, 300, 400), (200, 400, 420)];
        assert_eq!(found(&kept, 50..420), (parts, vec![(50, 100), (200, 300)]));
        assert_eq!(found(&kept, 440..500), (vec![(240, 440, 450)], vec![(450, 500)]));
        assert_eq!(found(&kept, 200..300), (vec![], vec![(200, 300)]));
    }

    #[test]
    fn what_was_read_to_its_end_or_written_is_kept_no_longer() {
        let mut kept = kept(&[(100, 200), (200, 300), (300, 400)]);
        kept.drop_read(&Piece::without_memory(0..250));
        assert_eq!(found(&kept, 0..400).1, [(0, 200)]);
        kept.drop_overlapping(299..300);
        assert_eq!(found(&kept, 0..400).1, [(0, 300)]);
        kept.drop_overlapping(400..500);
        kept.drop_overlapping(350..350);
        assert_eq!(found(&kept, 300..400).1, []);
        kept.drop_overlapping(399..1000);
        assert!(kept.is_empty());
    }
}
