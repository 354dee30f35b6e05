//! The numbers by which a block header says how its bytes are encoded. Each is given once and never means anything else.

use crate::{Result, corrupt};

/// How a block's bytes are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum CodecId {
    None = 0,
    Lz4 = 1,
    Zstd = 2,
    ZeroRun = 3,
    Zlib = 4,
    Xz = 5,
    Pco = 6,
}

impl CodecId {
    pub const ALL: [CodecId; 7] =
        [CodecId::None, CodecId::Lz4, CodecId::Zstd, CodecId::ZeroRun, CodecId::Zlib, CodecId::Xz, CodecId::Pco];

    pub(crate) fn from_byte(byte: u8) -> Result<Self> {
        match CodecId::ALL.get(byte as usize) {
            Some(codec) => Ok(*codec),
            None => corrupt("block header", format!("unknown codec {byte}; a newer thalweg wrote it")),
        }
    }

    pub fn name(self) -> &'static str {
        ["none", "lz4", "zstd", "zero-run", "zlib", "xz", "pco"][self as usize]
    }
}

/// A change of a block's bytes before its codec, which decoding undoes. A header's list of them may hold numbers that
/// this program does not know, as long as nobody decodes the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum FilterId {
    Shuffle = 1,
    BitShuffle = 2,
    Delta = 3,
    XorDelta = 4,
    ByteDelta = 5,
    Columns = 6,
    ByteSwap = 7,
}

impl FilterId {
    /// In the order of their ids, from 1 on.
    pub const ALL: [FilterId; 7] = [
        FilterId::Shuffle,
        FilterId::BitShuffle,
        FilterId::Delta,
        FilterId::XorDelta,
        FilterId::ByteDelta,
        FilterId::Columns,
        FilterId::ByteSwap,
    ];

    /// Returns the filter with this id; none has 0, which ends a list.
    pub fn from_byte(byte: u8) -> Result<Self> {
        match FilterId::ALL.get((byte as usize).wrapping_sub(1)) {
            Some(filter) => Ok(*filter),
            None => corrupt("block header", format!("unknown filter {byte}; a newer thalweg wrote it")),
        }
    }
}

/// The type of the numbers in a block. The lowest two bits of an id are the binary logarithm of the bytes, the next two
/// the kind: unsigned, signed, floating point.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum ElementId {
    /// Bytes, or unknown.
    U8 = 0,
    U16 = 1,
    U32 = 2,
    U64 = 3,
    I16 = 5,
    I32 = 6,
    I64 = 7,
    F16 = 9,
    F32 = 10,
    F64 = 11,
}

impl ElementId {
    pub const ALL: [ElementId; 10] = [
        ElementId::U8,
        ElementId::U16,
        ElementId::U32,
        ElementId::U64,
        ElementId::I16,
        ElementId::I32,
        ElementId::I64,
        ElementId::F16,
        ElementId::F32,
        ElementId::F64,
    ];

    pub fn from_byte(byte: u8) -> Result<Self> {
        match ElementId::ALL.into_iter().find(|element| *element as u8 == byte) {
            Some(element) => Ok(element),
            None => corrupt("block header", format!("unknown element type {byte}; a newer thalweg wrote it")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_id_reads_as_itself_and_no_other_does() {
        let codecs = |byte| CodecId::from_byte(byte).ok().map(|codec| codec as u8);
        let filters = |byte| FilterId::from_byte(byte).ok().map(|filter| filter as u8);
        let elements = |byte| ElementId::from_byte(byte).ok().map(|element| element as u8);
        for byte in 0..=u8::MAX {
            assert_eq!(codecs(byte), (byte < 7).then_some(byte));
            assert_eq!(filters(byte), (1..8).contains(&byte).then_some(byte));
            assert_eq!(elements(byte), (byte < 12 && ![4, 8].contains(&byte)).then_some(byte));
        }
    }
}
