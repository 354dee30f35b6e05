//! A chunk of an array in somebody else's file (HDF5, Zarr), as one block without segments.
//!
//! All doors to those formats pass through these two functions, so how bytes are encoded is chosen in one place.

use format::{BlockKind, ChunkHeader, CodecChoice, CodecId, ElementId, Fingerprint, FloatType};
use policy::Element;
use policy::compression::Data;

use crate::builder::BlockBuilder;
use crate::codec;
use crate::encoding::{self, described};
use crate::error::{Result, corrupt};
use crate::filter;
use crate::rounding::Rounder;

/// What is known of a chunk's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkType {
    /// The type of its numbers, `U8` where there is none.
    pub element: ElementId,
    /// Whether each number's highest byte stands first; never of numbers of one byte.
    pub is_big_endian: bool,
    /// The length of one record (bytes), 0 where elements follow each other without records.
    pub record_length: u32,
}

impl ChunkType {
    /// Bytes of which nothing is known.
    pub const UNKNOWN: ChunkType = ChunkType { element: ElementId::U8, is_big_endian: false, record_length: 0 };

    /// Returns the type of its numbers, where they are floats that can be rounded.
    pub fn float(&self) -> Option<FloatType> {
        FloatType::of_element(self.element, self.is_big_endian)
    }
}

/// Encodes the raw bytes of a chunk.
///
/// Panics when there are more than [`crate::MAX_BLOCK_BYTES`].
pub fn encode_chunk(raw: &[u8], known: ChunkType, choice: CodecChoice) -> Vec<u8> {
    encode_of(raw, known, choice, false)
}

/// As [`encode_chunk`], of floats that are rounded first.
pub fn encode_rounded_chunk(raw: &[u8], rounder: &Rounder, known: ChunkType, choice: CodecChoice) -> Vec<u8> {
    let mut rounded = raw.to_vec();
    rounder.round(&mut rounded);
    encode_of(&rounded, known, choice, true)
}

/// As [`encode_chunk`], of a chunk whose floats were rounded before; other numbers are encoded as they always are.
pub fn encode_chunk_of_rounded(raw: &[u8], known: ChunkType, choice: CodecChoice) -> Vec<u8> {
    encode_of(raw, known, choice, known.float().is_some())
}

fn encode_of(raw: &[u8], known: ChunkType, choice: CodecChoice, is_rounded: bool) -> Vec<u8> {
    let ChunkType { element, is_big_endian, record_length } = known;
    let mut builder = BlockBuilder::new(BlockKind::Data, record_length);
    let element_type = encoding::element(element);
    if element_type != Element::U8 {
        builder.describe(Data {
            element: element_type,
            record_length,
            phase: 0,
            is_known: true,
            is_rounded,
            is_big_endian,
        });
    }
    builder.push(Fingerprint([0; Fingerprint::BYTES]), raw);
    let mut block = builder.finish(choice);
    block.header.segments = 0;
    if block.header.filters == [0; 4] && block.header.codec != CodecId::Pco && !is_big_endian {
        block.header.element = element;
    }
    let mut chunk = ChunkHeader { block: block.header }.encode().to_vec();
    chunk.extend_from_slice(&block.payload);
    chunk
}

/// Returns the raw bytes of a chunk; an error when it is damaged, and when there are more than `max_bytes` of them,
/// before memory is set aside.
pub fn decode_chunk(chunk: &[u8], max_bytes: usize) -> Result<Vec<u8>> {
    let (ChunkHeader { block: header }, stored) = ChunkHeader::decode(chunk)?;
    let raw_bytes = header.raw_bytes as usize;
    if raw_bytes > max_bytes {
        return corrupt(format!("it has {raw_bytes} bytes, and at most {max_bytes} are expected"));
    }
    if header.cipher != 0 {
        return corrupt(format!("cipher {} is unknown to this program; use a newer thalweg", header.cipher));
    }
    if (header.kind, header.segments, header.offset) != (BlockKind::Data, 0, 0) {
        return corrupt("it is a block of a container, and no chunk");
    }
    let encoding = described(&header)?;
    let mut raw = codec::decode(&encoding, stored, raw_bytes)?;
    filter::undo(&encoding, &mut raw);
    Ok(raw)
}

#[cfg(test)]
mod tests {
    use std::thread;

    use format::{ErrorBound, Mode, Rounding};
    use random::Random;

    use super::*;
    use crate::random::{field, random_bytes, text};

    const CHOICES: [CodecChoice; 6] = [
        CodecChoice::AUTO,
        CodecChoice::None,
        CodecChoice::Lz4,
        CodecChoice::Zstd(3),
        CodecChoice::Zlib(6),
        CodecChoice::Xz(1),
    ];

    const F64: ChunkType = ChunkType { element: ElementId::F64, is_big_endian: false, record_length: 0 };

    fn reversed(raw: &[u8], element_bytes: usize) -> Vec<u8> {
        raw.chunks(element_bytes).flat_map(|number| number.iter().rev()).copied().collect()
    }

    #[test]
    fn chunks_come_back_whatever_they_are_said_to_hold() {
        let types = [ElementId::F64, ElementId::I16, ElementId::U8].repeat(4);
        for length in [0, 1, 7, 72, 4096, 100_001] {
            for raw in [random_bytes(1, length), text(2, length), field(3, length), vec![0; length]] {
                for ((choice, element), at) in CHOICES.repeat(2).into_iter().zip(&types).zip(0..) {
                    for record_length in [0, 8, 13] {
                        let known = ChunkType { element: *element, is_big_endian: at >= CHOICES.len(), record_length };
                        let chunk = encode_chunk(&raw, known, choice);
                        assert_eq!(decode_chunk(&chunk, length).unwrap(), raw, "{choice}, {known:?}, {length} bytes");
                    }
                }
            }
        }
    }

    /// Numbers of a type that deltas and Pcodec make less of, with bytes behind the last whole one.
    fn wave(element: ElementId) -> Vec<u8> {
        let mut raw = Vec::new();
        for number in 0..60_000u32 {
            let noise = f64::from(u32::wrapping_mul(number, 2_654_435_761) >> 28);
            let value = 3000.0 + 2000.0 * (f64::from(number) * 1e-3).sin() + noise;
            match element {
                ElementId::F64 => raw.extend(f64::from(value as f32).to_le_bytes()),
                ElementId::F32 => raw.extend((value.round() as f32).to_le_bytes()),
                ElementId::I32 => raw.extend(((value * 100.0) as i32).to_le_bytes()),
                _ => raw.extend((value as i16).to_le_bytes()),
            }
        }
        raw
    }

    #[test]
    fn big_endian_numbers_take_as_many_bytes_as_little_endian_ones() {
        for element in [ElementId::F64, ElementId::F32, ElementId::I32, ElementId::I16] {
            for mode in [Mode::Balanced, Mode::Archival] {
                for (record_elements, odd_bytes) in [(0, 0), (0, 1), (3, 5)] {
                    let element_bytes = 1 << (element as usize & 3);
                    let mut little = wave(element);
                    let mut big = reversed(&little, element_bytes);
                    little.extend_from_slice(&[7; 5][..odd_bytes]);
                    big.extend_from_slice(&[7; 5][..odd_bytes]);
                    let stored = [(little, false), (big, true)].map(|(raw, is_big_endian)| {
                        let record_length = (record_elements * element_bytes) as u32;
                        let known = ChunkType { element, is_big_endian, record_length };
                        // What was learned belongs to a thread, and each is to be chosen for by itself.
                        let encode = || encode_chunk(&raw, known, CodecChoice::Auto(mode));
                        let chunk = thread::scope(|scope| scope.spawn(encode).join().unwrap());
                        assert_eq!(decode_chunk(&chunk, raw.len()).unwrap(), raw);
                        chunk.len()
                    });
                    let [little, big] = stored.map(|bytes| bytes as f64);
                    assert!(big < 1.01 * little, "{element:?}, {mode:?}: {big} bytes, little-endian {little}");
                }
            }
        }
    }

    #[test]
    fn rounded_chunks_hold_the_rounded_values_in_a_tenth_of_the_bytes() {
        let wave =
            |number: u32| 300.0 + 20.0 * (f64::from(number) * 1e-3).sin() + 0.01 * (f64::from(number) * 1e-4).cos();
        let little: Vec<u8> = (0..60_000).flat_map(|number| wave(number).to_le_bytes()).collect();
        for (raw, is_big_endian) in [(little.clone(), false), (reversed(&little, 8), true)] {
            let known = ChunkType { is_big_endian, ..F64 };
            let rounding = Rounding { float: known.float().unwrap(), bound: ErrorBound::Absolute(0.02), missing: None };
            let rounder = Rounder::new(&rounding).unwrap();
            let mut expected = raw.clone();
            rounder.round(&mut expected);
            for (choice, ratio) in
                [(CodecChoice::AUTO, 30), (CodecChoice::Auto(Mode::Archival), 30), (CodecChoice::Zstd(3), 10)]
            {
                let chunk = encode_rounded_chunk(&raw, &rounder, known, choice);
                assert_eq!(decode_chunk(&chunk, raw.len()).unwrap(), expected);
                assert!(chunk.len() * ratio < raw.len(), "{known:?}, {choice}: {} of {}", chunk.len(), raw.len());
                let again = encode_chunk_of_rounded(&expected, known, choice);
                assert_eq!(decode_chunk(&again, raw.len()).unwrap(), expected);
                assert!(again.len() * ratio < raw.len(), "{known:?}, {choice}: {} of {}", again.len(), raw.len());
            }
        }
    }

    #[test]
    fn a_chunk_longer_than_expected_is_refused() {
        let chunk = encode_chunk(&[0; 5000], ChunkType { element: ElementId::F32, ..F64 }, CodecChoice::AUTO);
        assert!(decode_chunk(&chunk, 5000).is_ok());
        assert!(decode_chunk(&chunk, 4999).is_err_and(|why| why.to_string().contains("5000 bytes")));
    }

    #[test]
    fn a_changed_chunk_is_an_error_whatever_changed() {
        let good = encode_chunk(&field(4, 20_000), F64, CodecChoice::AUTO);
        for seed in 1..3000 {
            let mut dice = Random::new(seed);
            let mut bad = good.clone();
            let at = dice.next() as usize % bad.len();
            match seed % 3 {
                0 => bad.truncate(at),
                1 => bad[at] ^= 1 << (seed % 8),
                _ => bad.insert(at, bad[at].wrapping_add(1)),
            }
            assert!(decode_chunk(&bad, 20_000).is_err(), "seed {seed}");
        }
    }
}
