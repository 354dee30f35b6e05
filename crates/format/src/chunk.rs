//! The chunk: one block that stands alone in somebody else's file, as HDF5's filter and Zarr's codec store it.
//!
//! Such files outlive stores, so a chunk says its version; and they come from strangers, so its header is sealed.

use crate::bytes::{Reader, Writer};
use crate::container::{BLOCK_HEADER_BYTES, BlockHeader};
use crate::{FORMAT_VERSION, Result, check_version, checksum, corrupt};

pub const CHUNK_MAGIC: [u8; 6] = *b"TWGCHK";
pub const CHUNK_HEADER_BYTES: usize = 72;

const PREFIX_BYTES: usize = CHUNK_MAGIC.len() + size_of::<u16>();
const SEAL_BYTES: usize = size_of::<u64>();
const _: () = assert!(PREFIX_BYTES + BLOCK_HEADER_BYTES == CHUNK_HEADER_BYTES);

const WHAT: &str = "chunk";

/// Precedes a chunk's stored bytes: a block header whose last reserved bytes are the seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChunkHeader {
    /// Of a data block without segments.
    pub block: BlockHeader,
}

impl ChunkHeader {
    pub fn encode(&self) -> [u8; CHUNK_HEADER_BYTES] {
        let mut to = Writer::new();
        to.put(&CHUNK_MAGIC).u16(FORMAT_VERSION);
        self.block.write(&mut to);
        let mut bytes: [u8; CHUNK_HEADER_BYTES] = to.finish().try_into().expect("the layout has its stated size");
        let (sealed, seal) = bytes.split_at_mut(CHUNK_HEADER_BYTES - SEAL_BYTES);
        seal.copy_from_slice(&checksum(sealed).to_le_bytes());
        bytes
    }

    /// Reads the header at the beginning of `bytes`; returns with it what follows, the stored bytes.
    pub fn decode(bytes: &[u8]) -> Result<(Self, &[u8])> {
        let mut from = Reader::new(WHAT, bytes);
        if from.array()? != CHUNK_MAGIC {
            return corrupt(
                WHAT,
                "the magic bytes are not there: it is no chunk of thalweg, or not in this order of filters",
            );
        }
        check_version(WHAT, from.u16()?)?;
        let header = Reader::new(WHAT, bytes).take(CHUNK_HEADER_BYTES)?;
        let (sealed, seal) = header.split_at(CHUNK_HEADER_BYTES - SEAL_BYTES);
        if checksum(sealed).to_le_bytes() != *seal {
            return corrupt(WHAT, "the checksum of its header does not match");
        }
        let block = BlockHeader::read(&mut from)?;
        let stored = from.rest();
        if block.stored_bytes as usize != stored.len() || block.checksum != checksum(stored) {
            return corrupt(WHAT, "the stored bytes do not match their checksum");
        }
        Ok((ChunkHeader { block }, stored))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BlockKind, CodecId, ElementId, Error};

    fn encoded() -> Vec<u8> {
        let stored = b"stored";
        let block = BlockHeader {
            kind: BlockKind::Data,
            codec: CodecId::None,
            cipher: 0,
            level: 0,
            filters: [0; 4],
            key_id: 0,
            group: 0,
            record_length: 0,
            phase: 0,
            element: ElementId::F32,
            segments: 0,
            raw_bytes: 6,
            stored_bytes: 6,
            offset: 0,
            checksum: checksum(stored),
        };
        let bytes = [&ChunkHeader { block }.encode()[..], stored].concat();
        assert_eq!(ChunkHeader::decode(&bytes), Ok((ChunkHeader { block }, &stored[..])));
        bytes
    }

    #[test]
    fn a_flipped_bit_anywhere_in_a_chunk_is_noticed() {
        let good = encoded();
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(ChunkHeader::decode(&bad).is_err(), "bit {bit}");
        }
    }

    #[test]
    fn a_chunk_that_is_cut_short_or_goes_on_is_refused() {
        let good = encoded();
        (0..good.len()).for_each(|bytes| assert!(ChunkHeader::decode(&good[..bytes]).is_err(), "{bytes} bytes"));
        assert!(ChunkHeader::decode(&[&good[..], b"x"].concat()).is_err());
    }

    #[test]
    fn a_newer_chunk_says_so() {
        let mut newer = encoded();
        newer[CHUNK_MAGIC.len()] = 1;
        assert!(matches!(ChunkHeader::decode(&newer), Err(Error::TooNew { .. })));
    }
}
