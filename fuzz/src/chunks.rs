//! A chunk of HDF5 or Zarr: as it is, and sealed again, so that every codec gets whatever the stored bytes are.

use format::{BLOCK_HEADER_BYTES, BlockHeader, BlockKind, CHUNK_HEADER_BYTES, ChunkHeader, CodecId, Reader, checksum};

/// Bytes that a reader expects at most.
const MAX_CHUNK_BYTES: usize = 1 << 20;

pub fn chunk(bytes: &[u8]) {
    decode(bytes);
    let Some((header, stored)) = bytes.split_at_checked(CHUNK_HEADER_BYTES) else { return };
    let block = Reader::new("block", &header[CHUNK_HEADER_BYTES - BLOCK_HEADER_BYTES..]);
    let Ok(block) = BlockHeader::read(&mut { block }) else { return };
    for codec in CodecId::ALL {
        decode(&sealed(BlockHeader { codec, ..block }, stored));
    }
}

/// Returns the chunk of these stored bytes, whose checksums fit.
fn sealed(block: BlockHeader, stored: &[u8]) -> Vec<u8> {
    let block = BlockHeader {
        kind: BlockKind::Data,
        cipher: 0,
        segments: 0,
        offset: 0,
        stored_bytes: stored.len() as u32,
        checksum: checksum(stored),
        ..block
    };
    [&ChunkHeader { block }.encode()[..], stored].concat()
}

fn decode(chunk: &[u8]) {
    if let Ok(raw) = segment::decode_chunk(chunk, MAX_CHUNK_BYTES) {
        let (header, _) = ChunkHeader::decode(chunk).expect("a chunk that decodes has a header");
        assert_eq!(raw.len(), header.block.raw_bytes as usize);
        assert!(raw.len() <= MAX_CHUNK_BYTES);
    }
}
