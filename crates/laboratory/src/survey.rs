//! What deduplication and compression would make of files, read once from the first to the last and not stored.
//!
//! Every byte is hashed, for segments of all lengths at once; of the blocks some are kept, at equal distances, to be encoded.

use format::ChunkerKind;
use segment::Cutter;

use crate::block_sample::BlockSample;
use crate::distinct::{Distinct, DistinctSample};

/// What the shortest segments have; longer ones are made of such pieces.
const PIECE_BYTES: usize = 4 << 10;
/// Lengths of fixed segments.
const FIXED_BYTES: [u64; 5] = [4 << 10, 8 << 10, 16 << 10, 32 << 10, 64 << 10];
/// The mean of content-defined segments, as stores have it.
const CONTENT_BYTES: u32 = 8 << 10;
/// Bytes that [`Survey::add`] should be given at once: whole segments of all lengths.
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
    content: Content,
    pub blocks: BlockSample,
    pub bytes: u64,
}

impl Survey {
    /// Begins without a file; the seed says which blocks are kept.
    pub fn new(seed: u64) -> Self {
        Survey {
            fixed: FIXED_BYTES.map(Pieces::new),
            whole: Pieces::new(u64::MAX),
            content: Content::new(),
            blocks: BlockSample::new(seed),
            bytes: 0,
        }
    }

    /// Takes what follows in a file; but for the last time [`READ_BYTES`].
    pub fn add(&mut self, bytes: &[u8]) {
        for piece in bytes.chunks(PIECE_BYTES) {
            let hash = hash(piece);
            self.fixed.iter_mut().chain([&mut self.whole]).for_each(|pieces| pieces.add(hash, piece.len() as u64));
        }
        self.content.add(bytes);
        self.blocks.add(bytes);
        self.bytes += bytes.len() as u64;
    }

    /// The next bytes are another file's.
    pub fn end_file(&mut self) {
        self.fixed.iter_mut().chain([&mut self.whole]).for_each(Pieces::end_segment);
        self.content.cut(true);
    }

    /// What each way to cut would find.
    pub fn distinct(&self) -> Vec<(Cut, Distinct)> {
        let fixed = self.fixed.iter().map(|pieces| (Cut::Fixed(pieces.segment_bytes), pieces.sample.estimate()));
        let content = (Cut::Content(u64::from(CONTENT_BYTES)), self.content.sample.estimate());
        fixed.chain([content, (Cut::Whole, self.whole.sample.estimate())]).collect()
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
        self.hash = mixed(self.hash ^ ODD[0], hash);
        self.bytes += bytes;
        if self.bytes == self.segment_bytes {
            self.end_segment();
        }
    }

    fn end_segment(&mut self) {
        if self.bytes > 0 {
            self.sample.add(mixed(self.hash, self.bytes ^ ODD[1]), self.bytes);
        }
        (self.hash, self.bytes) = (0, 0);
    }
}

/// Content-defined segments.
struct Content {
    cutter: Cutter,
    /// Bytes of segments that have not ended.
    buffer: Vec<u8>,
    sample: DistinctSample,
}

impl Content {
    fn new() -> Self {
        let cutter = Cutter::new(ChunkerKind::Cdc, CONTENT_BYTES);
        Content { cutter, buffer: Vec::new(), sample: DistinctSample::default() }
    }

    fn add(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        self.cut(false);
    }

    fn cut(&mut self, is_end: bool) {
        let mut begin = 0;
        while let Some(length) = self.cutter.next(&self.buffer[begin..], is_end) {
            self.sample.add(mixed(hash(&self.buffer[begin..][..length]), ODD[1]), length as u64);
            begin += length;
        }
        self.buffer.drain(..begin);
    }
}

/// Odd numbers with as many ones as zeros about: digits of the square roots of 2, 3 and 5.
const ODD: [u64; 3] = [0x6a09_e667_f3bc_c909, 0xbb67_ae85_84ca_a73b, 0x3c6e_f372_fe94_f82b];

/// Both halves of the product, one over the other.
fn mixed(one: u64, other: u64) -> u64 {
    let product = u128::from(one) * u128::from(other);
    product as u64 ^ (product >> 64) as u64
}

/// A hash for estimates, four times as fast as a fingerprint: equal bytes have equal hashes, and an enemy could make
/// others have them too.
fn hash(bytes: &[u8]) -> u64 {
    let word = |bytes: &[u8]| u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
    let mut lanes = [ODD[0], ODD[1]];
    let strides = bytes.chunks_exact(32);
    let rest = strides.remainder();
    for stride in strides {
        lanes[0] = mixed(lanes[0] ^ word(&stride[..8]), ODD[2] ^ word(&stride[8..16]));
        lanes[1] = mixed(lanes[1] ^ word(&stride[16..24]), ODD[0] ^ word(&stride[24..]));
    }
    let mut hash = mixed(lanes[0] ^ bytes.len() as u64, lanes[1] ^ ODD[2]);
    for eight in rest.chunks(8) {
        let mut padded = [0; 8];
        padded[..eight.len()].copy_from_slice(eight);
        hash = mixed(hash ^ word(&padded), ODD[1]);
    }
    mixed(hash ^ ODD[2], ODD[0])
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    fn survey(files: &[&[u8]]) -> Survey {
        let mut survey = Survey::new(1);
        for file in files {
            file.chunks(READ_BYTES).for_each(|bytes| survey.add(bytes));
            survey.end_file();
        }
        survey
    }

    fn unique_bytes(survey: &Survey, cut: Cut) -> u64 {
        let (_, found) = survey.distinct().into_iter().find(|(found, _)| *found == cut).unwrap();
        assert_eq!(found.error_bytes, 0.0);
        found.unique_bytes as u64
    }

    #[test]
    fn what_is_found_is_what_whole_segments_in_a_set_say() {
        let mut random = random::Random::new(5);
        let noise = random.bytes(3_000_001);
        let shifted = [&[1, 2, 3][..], &noise].concat();
        let repeated = noise[..65_536].repeat(40);
        let files: [&[u8]; 5] = [&noise, &shifted, &repeated, &noise, b"short"];
        let survey = survey(&files);
        for cut in survey.distinct().iter().map(|(cut, _)| *cut) {
            let (kind, bytes) = match cut {
                Cut::Fixed(bytes) => (ChunkerKind::Fixed, bytes as u32),
                Cut::Content(bytes) => (ChunkerKind::Cdc, bytes as u32),
                Cut::Whole => (ChunkerKind::File, CONTENT_BYTES),
            };
            let mut found: HashSet<&[u8]> = HashSet::new();
            for file in files {
                let mut rest = file;
                for length in Cutter::new(kind, bytes).cut_whole(file) {
                    found.insert(&rest[..length]);
                    rest = &rest[length..];
                }
            }
            let expected: usize = found.iter().map(|segment| segment.len()).sum();
            assert_eq!(unique_bytes(&survey, cut), expected as u64, "{cut:?}");
        }
        assert_eq!(survey.bytes, files.iter().map(|file| file.len() as u64).sum::<u64>());
    }

    #[test]
    fn hashes_are_even_and_differ_with_every_bit_and_length() {
        let mut bytes = vec![0; 100];
        let mut seen = HashSet::new();
        for bit in 0..800 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            seen.insert(hash(&bytes));
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
        seen.extend((0..100).map(|length| hash(&bytes[..length])));
        assert_eq!(seen.len(), 900);
        let upper_ones = (0..10_000u32).filter(|number| hash(&number.to_le_bytes()) >> 63 == 1).count();
        assert!((4800..5200).contains(&upper_ones), "{upper_ones}");
    }
}
