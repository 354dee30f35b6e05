//! A chunk of an array in somebody else's file (HDF5, Zarr), as one block without segments.
//!
//! All doors to those formats pass through these two functions, so how bytes are encoded is chosen in one place.

use format::{BlockKind, ChunkHeader, CodecChoice, CodecId, ElementId, Fingerprint};
use policy::Element;
use policy::compression::Data;

use crate::builder::BlockBuilder;
use crate::codec;
use crate::encoding::{self, described};
use crate::error::{Result, corrupt};
use crate::filter;
use crate::rounding::Rounder;

/// Encodes the raw bytes of a chunk. Says of them what is known: `element` is the type of its numbers, `U8` where there
/// is none, and `record_length` the length of one record (bytes), 0 where elements follow each other without records.
///
/// Panics when there are more than [`crate::MAX_BLOCK_BYTES`].
pub fn encode_chunk(raw: &[u8], element: ElementId, record_length: u32, choice: CodecChoice) -> Vec<u8> {
    encode_of(raw, (element, record_length), choice, false)
}

/// As [`encode_chunk`], of floats that are rounded first.
pub fn encode_rounded_chunk(
    raw: &[u8],
    rounder: &Rounder,
    (element, record_length): (ElementId, u32),
    choice: CodecChoice,
) -> Vec<u8> {
    let mut rounded = raw.to_vec();
    rounder.round(&mut rounded);
    encode_of(&rounded, (element, record_length), choice, true)
}

fn encode_of(raw: &[u8], (element, record_length): (ElementId, u32), choice: CodecChoice, is_rounded: bool) -> Vec<u8> {
    let mut builder = BlockBuilder::new(BlockKind::Data, record_length);
    let element_type = encoding::element(element);
    if element_type != Element::U8 {
        builder.describe(Data {
            element: element_type,
            record_length,
            phase: 0,
            is_known: true,
            is_rounded,
            is_big_endian: false,
        });
    }
    builder.push(Fingerprint([0; Fingerprint::BYTES]), raw);
    let mut block = builder.finish(choice);
    block.header.segments = 0;
    if block.header.filters == [0; 4] && block.header.codec != CodecId::Pco {
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
    use format::{ErrorBound, FloatType, Mode, Rounding};
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

    #[test]
    fn chunks_come_back_whatever_they_are_said_to_hold() {
        for length in [0, 1, 7, 72, 4096, 100_001] {
            for raw in [random_bytes(1, length), text(2, length), field(3, length), vec![0; length]] {
                for (choice, element) in
                    CHOICES.into_iter().zip([ElementId::F64, ElementId::I16, ElementId::U8].repeat(2))
                {
                    for record_length in [0, 8, 13] {
                        let chunk = encode_chunk(&raw, element, record_length, choice);
                        assert_eq!(decode_chunk(&chunk, length).unwrap(), raw, "{choice}, {length} bytes");
                    }
                }
            }
        }
    }

    #[test]
    fn rounded_chunks_hold_the_rounded_values_in_a_tenth_of_the_bytes() {
        let wave =
            |number: u32| 300.0 + 20.0 * (f64::from(number) * 1e-3).sin() + 0.01 * (f64::from(number) * 1e-4).cos();
        let raw: Vec<u8> = (0..60_000).flat_map(|number| wave(number).to_le_bytes()).collect();
        let bound = ErrorBound::Absolute(0.02);
        let rounder = Rounder::new(&Rounding { float: FloatType::F64, bound, missing: None }).unwrap();
        let mut expected = raw.clone();
        rounder.round(&mut expected);
        for (choice, ratio) in
            [(CodecChoice::AUTO, 30), (CodecChoice::Auto(Mode::Archival), 30), (CodecChoice::Zstd(3), 10)]
        {
            let chunk = encode_rounded_chunk(&raw, &rounder, (ElementId::F64, 0), choice);
            assert_eq!(decode_chunk(&chunk, raw.len()).unwrap(), expected);
            assert!(chunk.len() * ratio < raw.len(), "{choice}: {} of {}", chunk.len(), raw.len());
        }
    }

    #[test]
    fn a_chunk_longer_than_expected_is_refused() {
        let chunk = encode_chunk(&[0; 5000], ElementId::F32, 0, CodecChoice::AUTO);
        assert!(decode_chunk(&chunk, 5000).is_ok());
        assert!(decode_chunk(&chunk, 4999).is_err_and(|why| why.to_string().contains("5000 bytes")));
    }

    #[test]
    fn a_changed_chunk_is_an_error_whatever_changed() {
        let good = encode_chunk(&field(4, 20_000), ElementId::F64, 0, CodecChoice::AUTO);
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
