//! Finds where one segment ends and the next begins.
//!
//! One file per algorithm, all with the same small signature; `fixed` is the plain baseline. Boundaries depend on the
//! bytes alone, never on how they arrive, and are frozen: data cut differently tomorrow no longer deduplicates against
//! data stored today.

mod content;
mod fixed;
#[cfg(test)]
mod oracle;
mod several;

use format::{ChunkerKind, MAX_SEGMENT_BYTES};

pub use content::ContentCutter;
pub use fixed::FixedCutter;
pub use several::SeveralCutter;

/// Finds segment boundaries in bytes that its caller keeps, so that nothing need be copied.
///
/// The caller holds the bytes from the start of the current segment on and calls [`Cutter::next`]; given a length, it
/// removes that many bytes and calls again; given `None`, it appends more.
#[derive(Clone, Debug)]
pub enum Cutter {
    Fixed(FixedCutter),
    Content(ContentCutter),
}

impl Cutter {
    /// Makes a cutter; `segment_bytes` is the length (fixed) or mean length (content-defined) and is not used for whole
    /// files: each is one segment, or several of the longest that the format allows.
    ///
    /// Panics when it is not within what `format::Settings::check` accepts.
    pub fn new(kind: ChunkerKind, segment_bytes: u32) -> Self {
        match kind {
            ChunkerKind::Fixed => Cutter::Fixed(FixedCutter::new(segment_bytes)),
            ChunkerKind::Cdc => Cutter::Content(ContentCutter::new(segment_bytes)),
            ChunkerKind::File => Cutter::Fixed(FixedCutter::new(MAX_SEGMENT_BYTES)),
        }
    }

    /// Returns the length of the segment at the start of `buffered` (bytes), or `None` when more bytes are needed to
    /// know.
    ///
    /// After `None`, the next call must see the same bytes with more behind them, or `end_of_input`. At the end of the
    /// input the rest is a segment, however short; no rest is `None`.
    pub fn next(&mut self, buffered: &[u8], end_of_input: bool) -> Option<usize> {
        match self {
            Cutter::Fixed(cutter) => cutter.next(buffered, end_of_input),
            Cutter::Content(cutter) => cutter.next(buffered, end_of_input),
        }
    }

    /// Returns the number of buffered bytes with which [`Cutter::next`] always knows.
    pub fn max_segment_bytes(&self) -> usize {
        match self {
            Cutter::Fixed(cutter) => cutter.max_segment_bytes(),
            Cutter::Content(cutter) => cutter.max_segment_bytes(),
        }
    }

    /// Returns the lengths of all segments of `bytes`, for input that is in memory as a whole.
    pub fn cut_whole(&mut self, bytes: &[u8]) -> Vec<usize> {
        let mut lengths = Vec::new();
        let mut rest = bytes;
        while let Some(length) = self.next(rest, true) {
            lengths.push(length);
            rest = &rest[length..];
        }
        lengths
    }
}

/// Returns a boundary known in advance, by the rule both cutters share: at `limit`, or where the input ends.
fn cut_at(limit: usize, buffered: &[u8], end_of_input: bool) -> Option<usize> {
    if buffered.len() >= limit {
        return Some(limit);
    }
    (end_of_input && !buffered.is_empty()).then_some(buffered.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_left_is_no_segment() {
        for kind in [ChunkerKind::Fixed, ChunkerKind::Cdc, ChunkerKind::File] {
            let mut cutter = Cutter::new(kind, 8192);
            assert_eq!(cutter.next(&[], false), None);
            assert_eq!(cutter.next(&[], true), None);
            assert_eq!(cutter.next(&[1], false), None);
            assert_eq!(cutter.next(&[1], true), Some(1));
        }
    }

    #[test]
    fn a_file_is_one_segment_until_it_exceeds_the_limit() {
        let limit = MAX_SEGMENT_BYTES as usize;
        let mut cutter = Cutter::new(ChunkerKind::File, 8192);
        assert_eq!(cutter.next(&vec![0; limit - 1], false), None);
        assert_eq!(cutter.next(&vec![0; limit - 1], true), Some(limit - 1));
        assert_eq!(cutter.next(&vec![0; limit + 5], false), Some(limit));
    }

    #[test]
    fn the_longest_segment_is_always_decided() {
        for kind in [ChunkerKind::Fixed, ChunkerKind::Cdc, ChunkerKind::File] {
            let mut cutter = Cutter::new(kind, 8192);
            let bytes = vec![7; cutter.max_segment_bytes()];
            assert!(cutter.next(&bytes, false).is_some(), "{kind}");
        }
    }
}
