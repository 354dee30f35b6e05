//! A segment that arrives in pieces.

use std::collections::BTreeSet;
use std::ops::Range;

use super::sources::Source;

const LEAST_PIECES: usize = 512;
const LEAST_SENDERS: usize = 8;

#[derive(Clone, Copy, PartialEq, Eq)]
struct Sender {
    source: Source,
    sequence: u64,
    stamp: u64,
}

/// The bytes of one segment as far as they have come, and who sent them.
pub(super) struct Assembly {
    bytes: Vec<u8>,
    /// What has come, by arrival; later entries lie on top. Few, or one per piece.
    pieces: Vec<(Range<u32>, u64)>,
    /// A bit a byte: what has come at all.
    covered: Vec<u64>,
    covered_bytes: u32,
    /// Beyond this many, pieces that lie under later ones are dropped from the list.
    most_pieces: usize,
    newest: u64,
    /// Who sent what is in here and not durable: those pieces must not be forgotten.
    senders: Vec<Sender>,
    /// Beyond this many, those all of whose bytes lie under later pieces are dropped from the list.
    most_senders: usize,
    /// Its bytes as of the last settle are durable as fragments.
    pub fragmented: bool,
}

impl Assembly {
    pub fn new(segment_bytes: u32) -> Self {
        Assembly {
            bytes: vec![0; segment_bytes as usize],
            pieces: Vec::new(),
            covered: vec![0; segment_bytes.div_ceil(64) as usize],
            covered_bytes: 0,
            most_pieces: LEAST_PIECES,
            newest: 0,
            senders: Vec::new(),
            most_senders: LEAST_SENDERS,
            fragmented: false,
        }
    }

    /// A segment that was whole, about to be partly overwritten; `parts` says when each part of it came.
    pub fn from_whole(bytes: &[u8], parts: &[(Range<u32>, u64)]) -> Self {
        let mut assembly = Assembly::new(bytes.len() as u32);
        for (range, stamp) in parts {
            assembly.lay(range.start, &bytes[range.start as usize..range.end as usize], *stamp);
        }
        assembly
    }

    /// What has come, in order, and when. Arrivals from `precise_below` on come in the order of their stamps, so
    /// that the newest can stand for all of them; those before it (sent again after a crash) are told apart.
    pub fn parts(&self, precise_below: u64) -> Vec<(Range<u32>, u64)> {
        if self.pieces.iter().all(|(_, stamp)| *stamp >= precise_below) {
            return self.covered_ranges().into_iter().map(|range| (range, self.newest)).collect();
        }
        let mut stamps = vec![0; self.bytes.len()];
        for (range, stamp) in &self.pieces {
            let within = &mut stamps[range.start as usize..range.end as usize];
            within.iter_mut().for_each(|at| *at = (*at).max(*stamp));
        }
        let mut parts: Vec<(Range<u32>, u64)> = Vec::new();
        for (at, stamp) in stamps.into_iter().enumerate().filter(|(_, stamp)| *stamp != 0) {
            let at = at as u32;
            match parts.last_mut() {
                Some((last, known)) if last.end == at && *known == stamp => last.end += 1,
                _ => parts.push((at..at + 1, stamp)),
            }
        }
        parts
    }

    /// Lays a piece at `offset` in the segment; bytes that a later arrival has written stay.
    pub fn lay(&mut self, offset: u32, piece: &[u8], stamp: u64) {
        let range = offset..offset + piece.len() as u32;
        if stamp >= self.newest {
            self.copy(&range, piece, offset);
        } else {
            for gap in self.older_than(stamp, &range) {
                let within = (gap.start - offset) as usize..(gap.end - offset) as usize;
                self.copy(&gap, &piece[within], gap.start);
            }
        }
        self.newest = self.newest.max(stamp);
        self.remember(range, stamp);
        self.fragmented = false;
    }

    fn copy(&mut self, range: &Range<u32>, piece: &[u8], offset: u32) {
        let start = offset as usize;
        self.bytes[start..start + piece.len()].copy_from_slice(piece);
        self.cover(range);
    }

    fn remember(&mut self, range: Range<u32>, stamp: u64) {
        match self.pieces.last_mut() {
            Some((last, last_stamp)) if *last_stamp == stamp && last.end == range.start => last.end = range.end,
            _ => self.pieces.push((range, stamp)),
        }
        if self.pieces.len() > self.most_pieces {
            self.pieces = self.parts(u64::MAX);
            self.most_pieces = LEAST_PIECES.max(2 * self.pieces.len());
        }
    }

    /// The parts of the range that no arrival later than `stamp` has written.
    fn older_than(&self, stamp: u64, range: &Range<u32>) -> Vec<Range<u32>> {
        let newer = self.pieces.iter().filter(|(_, at)| *at > stamp);
        newer.fold(vec![range.clone()], |gaps, (piece, _)| gaps.into_iter().flat_map(|gap| minus(gap, piece)).collect())
    }

    fn cover(&mut self, range: &Range<u32>) {
        let mut at = range.start;
        while at < range.end {
            let (word, bit) = ((at / 64) as usize, at % 64);
            let count = (64 - bit).min(range.end - at);
            let mask = (u64::MAX >> (64 - count)) << bit;
            self.covered_bytes += (mask & !self.covered[word]).count_ones();
            self.covered[word] |= mask;
            at += count;
        }
    }

    /// Only what lies before `end`.
    pub fn cut(&self, end: u32) -> Self {
        let mut cut = Assembly::new(self.bytes.len() as u32);
        for (range, stamp) in self.parts(u64::MAX).into_iter().filter(|(range, _)| range.start < end) {
            let range = range.start..range.end.min(end);
            cut.lay(range.start, &self.bytes[range.start as usize..range.end as usize], stamp);
        }
        cut.senders = self.senders.clone();
        cut
    }

    pub fn is_whole(&self) -> bool {
        self.covered_bytes as usize == self.bytes.len()
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub fn newest(&self) -> u64 {
        self.newest
    }

    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The ranges that have come, in order.
    pub fn covered_ranges(&self) -> Vec<Range<u32>> {
        self.covered_within(0..self.bytes.len() as u32)
    }

    /// What of the range has come, in order.
    pub fn covered_within(&self, range: Range<u32>) -> Vec<Range<u32>> {
        let mut ranges: Vec<Range<u32>> = Vec::new();
        let mut at = range.start;
        while at < range.end {
            let start = self.next(at, range.end, true);
            if start >= range.end {
                break;
            }
            at = self.next(start, range.end, false);
            ranges.push(start..at);
        }
        ranges
    }

    /// The first byte from `at` on that has come (or, with `false`, has not); `end` when there is none before it.
    fn next(&self, at: u32, end: u32, come: bool) -> u32 {
        let mut word = (at / 64) as usize;
        let mut mask = u64::MAX << (at % 64);
        while word < end.div_ceil(64) as usize {
            let bits = (if come { self.covered[word] } else { !self.covered[word] }) & mask;
            if bits != 0 {
                return (word as u32 * 64 + bits.trailing_zeros()).min(end);
            }
            (word, mask) = (word + 1, u64::MAX);
        }
        end
    }

    pub fn note_source(&mut self, source: Source, sequence: u64, stamp: u64) {
        let sender = Sender { source, sequence, stamp };
        if self.senders.contains(&sender) {
            return;
        }
        self.senders.push(sender);
        if self.senders.len() > self.most_senders {
            let visible: BTreeSet<u64> = self.parts(u64::MAX).into_iter().map(|(_, stamp)| stamp).collect();
            self.senders.retain(|sender| visible.contains(&sender.stamp));
            self.most_senders = LEAST_SENDERS.max(2 * self.senders.len());
        }
    }

    pub fn senders(&self) -> impl Iterator<Item = (Source, u64)> + '_ {
        self.senders.iter().map(|sender| (sender.source, sender.sequence))
    }

    /// All of it is durable: nobody's pieces in here hold anything back any more.
    pub fn settled(&mut self) {
        self.senders.clear();
        self.fragmented = true;
    }
}

/// What of `range` lies outside `taken`.
fn minus(range: Range<u32>, taken: &Range<u32>) -> impl Iterator<Item = Range<u32>> {
    let left = range.start..range.end.min(taken.start);
    let right = range.start.max(taken.end)..range.end;
    [left, right].into_iter().filter(|part| part.start < part.end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_in_any_order_make_the_segment_whole() {
        let mut assembly = Assembly::new(100);
        assembly.lay(40, &[2; 60], 2);
        assert!(!assembly.is_whole());
        assert!(assembly.covered_ranges().iter().eq(std::iter::once(&(40..100))));
        assembly.lay(0, &[1; 50], 3);
        assert!(assembly.is_whole());
        assert_eq!(assembly.bytes()[39..51], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 2]);
    }

    #[test]
    fn a_piece_sent_again_does_not_cover_what_came_after_it() {
        let mut assembly = Assembly::new(10);
        assembly.lay(2, &[5; 4], 9);
        assembly.lay(0, &[1; 10], 4);
        assert_eq!(assembly.bytes(), [1, 1, 5, 5, 5, 5, 1, 1, 1, 1]);
        assembly.lay(1, &[2; 2], 3);
        assert_eq!(assembly.bytes(), [1, 1, 5, 5, 5, 5, 1, 1, 1, 1]);
        assembly.lay(5, &[7; 2], 9);
        assert_eq!(assembly.bytes(), [1, 1, 5, 5, 5, 7, 7, 1, 1, 1]);
    }

    #[test]
    fn coverage_is_what_a_map_of_bytes_says() {
        let mut state = 12345u64;
        for _ in 0..200 {
            let mut assembly = Assembly::new(200);
            let mut map = vec![false; 200];
            for stamp in 0..8 {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let start = (state >> 33) as u32 % 200;
                let length = ((state >> 20) as u32 % 60).min(200 - start);
                assembly.lay(start, &vec![1; length as usize], stamp);
                map[start as usize..(start + length) as usize].fill(true);
            }
            let ranges = assembly.covered_ranges();
            let from_ranges: Vec<_> = (0..200).map(|i| ranges.iter().any(|range| range.contains(&i))).collect();
            assert_eq!(from_ranges, map);
            assert_eq!(assembly.is_whole(), map.iter().all(|covered| *covered));
        }
    }
}
