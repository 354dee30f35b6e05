//! What deduplication and compression would make of files, read once from the first to the last and not stored.
//!
//! Every byte is hashed, for segments of all lengths at once; some blocks, at equal distances, are encoded. Two streams of blocks
//! are: of all bytes, and of segments that did not come before, which is what a store compresses.

use crate::block_sample::{BlockSample, SampledCodec};
use crate::content_hash::{ContentHash, joined};
use crate::content_segments::ContentSegments;
use crate::distinct::{Distinct, DistinctSample};
use crate::estimate::Compressed;

/// What the shortest segments have; longer ones are made of such pieces.
pub const PIECE_BYTES: usize = 4 << 10;
/// Lengths of fixed segments.
const FIXED_BYTES: [u64; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];
/// Mean lengths of content-defined segments.
const CONTENT_BYTES: [u32; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];
/// The one of stores, if nobody says otherwise.
const USUAL_CONTENT: usize = 1;
/// Bytes that [`Survey::add`] is best given at once: whole segments of all lengths.
pub const READ_BYTES: usize = 1 << 20;

/// How files would be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cut {
    Fixed(u64),
    Content(u64),
    Whole,
}

pub struct Survey {
    fixed: [Pieces; FIXED_BYTES.len()],
    whole: Pieces,
    content: ContentSegments,
    all_blocks: BlockSample,
    new_blocks: BlockSample,
    bytes: u64,
}

/// What a survey found.
pub struct Surveyed {
    pub bytes: u64,
    /// What each way to cut would find.
    pub cuts: Vec<(Cut, Distinct)>,
    /// By codec, what it makes of all bytes; none of nothing.
    pub of_all: Vec<Option<Compressed>>,
    /// By codec, what it makes of what deduplication leaves.
    pub of_new: Vec<Option<Compressed>>,
}

impl Survey {
    /// Begins without a file; the seed says which blocks are encoded.
    pub fn new(seed: u64, codecs: &[SampledCodec]) -> Self {
        Survey {
            fixed: FIXED_BYTES.map(Pieces::new),
            whole: Pieces::new(u64::MAX),
            content: ContentSegments::new(&CONTENT_BYTES, USUAL_CONTENT),
            all_blocks: BlockSample::new(seed, &codecs.iter().map(SampledCodec::with_fewer_blocks).collect::<Vec<_>>()),
            new_blocks: BlockSample::new(seed, codecs),
            bytes: 0,
        }
    }

    /// Takes what follows in a file; but for the last time whole [`PIECE_BYTES`].
    pub fn add(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(PIECE_BYTES) {
            let hash = ContentHash::of(piece);
            self.fixed.iter_mut().chain([&mut self.whole]).for_each(|pieces| pieces.add(hash, piece.len() as u64));
        }
        self.content.add(bytes, |segment| self.new_blocks.add(segment));
        self.all_blocks.add(bytes);
        self.bytes += bytes.len() as u64;
    }

    /// Passes over most of the zeros that follow in a file, as if they had been added; returns how many those were.
    ///
    /// Within zeros all segments are of their longest length, which divides [`READ_BYTES`], from that many bytes on. So whole
    /// multiples of it may be left out without moving what follows. They have no part in the estimates of compression.
    pub fn skip_zeros(&mut self, zeros: u64) -> u64 {
        let skipped = zeros.saturating_sub(READ_BYTES as u64) / READ_BYTES as u64 * READ_BYTES as u64;
        if skipped == 0 {
            return 0;
        }
        // Not a constant, which would make the program as much longer.
        self.add(&vec![0; READ_BYTES]);
        let rest = skipped - READ_BYTES as u64;
        self.whole.add(rest, rest);
        self.bytes += rest;
        skipped
    }

    /// The next bytes are another file's.
    pub fn end_file(&mut self) {
        self.fixed.iter_mut().chain([&mut self.whole]).for_each(Pieces::end_segment);
        self.content.end_file(|segment| self.new_blocks.add(segment));
    }

    /// Waits for the codecs.
    pub fn finish(self) -> Surveyed {
        let fixed = self.fixed.iter().map(|pieces| (Cut::Fixed(pieces.segment_bytes), pieces.sample.estimate()));
        let of_content = CONTENT_BYTES.iter().zip(self.content.samples());
        let content = of_content.map(|(mean, sample)| (Cut::Content(u64::from(*mean)), sample.estimate()));
        let cuts = fixed.chain(content).chain([(Cut::Whole, self.whole.sample.estimate())]).collect();
        let (of_all, of_new) = std::thread::scope(|scope| {
            let of_new = scope.spawn(|| self.new_blocks.finish());
            (self.all_blocks.finish(), of_new.join().expect("encoding does not panic"))
        });
        Surveyed { bytes: self.bytes, cuts, of_all, of_new }
    }
}

/// Segments made of pieces.
struct Pieces {
    segment_bytes: u64,
    hash: u64,
    bytes: u64,
    sample: DistinctSample,
}

impl Pieces {
    fn new(segment_bytes: u64) -> Self {
        Pieces { segment_bytes, hash: 0, bytes: 0, sample: DistinctSample::default() }
    }

    fn add(&mut self, hash: u64, bytes: u64) {
        self.hash = joined(self.hash, hash);
        self.bytes += bytes;
        if self.bytes == self.segment_bytes {
            self.end_segment();
        }
    }

    fn end_segment(&mut self) {
        if self.bytes > 0 {
            self.sample.add(joined(self.hash, self.bytes), self.bytes);
        }
        (self.hash, self.bytes) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use format::{ChunkerKind, CodecChoice};
    use segment::Cutter;

    use super::*;

    const CODECS: [SampledCodec; 1] = [SampledCodec { choice: CodecChoice::Lz4, max_blocks: 1024 }];

    fn surveyed(files: &[&[u8]]) -> Surveyed {
        let mut survey = Survey::new(1, &CODECS);
        for file in files {
            file.chunks(READ_BYTES).for_each(|bytes| survey.add(bytes));
            survey.end_file();
        }
        survey.finish()
    }

    fn found_in_a_set(files: &[&[u8]], kind: ChunkerKind, bytes: u32) -> u64 {
        let mut found: HashSet<&[u8]> = HashSet::new();
        for file in files {
            let mut rest = *file;
            for length in Cutter::new(kind, bytes).cut_whole(file) {
                found.insert(&rest[..length]);
                rest = &rest[length..];
            }
        }
        found.iter().map(|segment| segment.len() as u64).sum()
    }

    #[test]
    fn what_is_found_is_what_whole_segments_in_a_set_say() {
        let mut random = random::Random::new(5);
        let noise = random.bytes(3_000_001);
        let shifted = [&[1, 2, 3][..], &noise].concat();
        let repeated = noise[..65_536].repeat(40);
        let zeros = vec![0; 1_500_000];
        let files: [&[u8]; 6] = [&noise, &shifted, &repeated, &noise, b"short", &zeros];
        let surveyed = surveyed(&files);
        assert_eq!(surveyed.cuts.len(), 11);
        for (cut, found) in surveyed.cuts {
            let (kind, bytes) = match cut {
                Cut::Fixed(bytes) => (ChunkerKind::Fixed, bytes as u32),
                Cut::Content(bytes) => (ChunkerKind::Cdc, bytes as u32),
                Cut::Whole => (ChunkerKind::File, 8192),
            };
            assert_eq!(found.unique_bytes as u64, found_in_a_set(&files, kind, bytes), "{cut:?}");
            assert_eq!(found.error_bytes, 0.0);
        }
        assert_eq!(surveyed.bytes, files.iter().map(|file| file.len() as u64).sum::<u64>());
    }

    #[test]
    fn zeros_that_are_passed_over_are_as_if_they_were_read() {
        let noise = random::Random::new(6).bytes(301 * PIECE_BYTES);
        let zeros = vec![0; (7 << 20) + 3 * PIECE_BYTES];
        let read = surveyed(&[&[&noise[..], &zeros, &noise].concat(), &zeros]);
        let mut survey = Survey::new(1, &CODECS);
        let passed_over = |survey: &mut Survey| {
            let skipped = survey.skip_zeros(zeros.len() as u64);
            assert_eq!(skipped, 6 << 20);
            zeros[skipped as usize..].chunks(READ_BYTES).for_each(|bytes| survey.add(bytes));
        };
        noise.chunks(READ_BYTES).for_each(|bytes| survey.add(bytes));
        passed_over(&mut survey);
        noise.chunks(READ_BYTES).for_each(|bytes| survey.add(bytes));
        survey.end_file();
        passed_over(&mut survey);
        survey.end_file();
        let found = survey.finish();
        assert_eq!((found.bytes, found.cuts), (read.bytes, read.cuts));
    }

    #[test]
    fn what_deduplication_leaves_is_compressed_apart() {
        // Noise once, and a text nine times: nearly all of what is left is noise.
        let noise = random::Random::new(5).bytes(2_000_000);
        let text = b"some words that come again ".repeat(40_000);
        let files: Vec<&[u8]> = [&noise[..]].into_iter().chain([&text[..]; 9]).collect();
        let found = surveyed(&files);
        let share = |found: &[Option<Compressed>]| found[0].unwrap().stored_share;
        assert!(share(&found.of_all) < 0.25, "{:?}", found.of_all);
        assert!(share(&found.of_new) > 0.6, "{:?}", found.of_new);
    }
}
