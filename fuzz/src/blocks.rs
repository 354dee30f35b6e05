//! A block as it travels: header, segment entries, payload. Its codec and filters get whatever the payload is, and so does
//! every other codec.

use format::{Block, BlockHeader, CodecId, FingerprintKind, Reader, SegmentEntry, checksum};

pub fn block(bytes: &[u8]) {
    let Ok(mut block) = read(bytes) else { return };
    decode(&block);
    block.header.checksum = checksum(&block.payload);
    block.header.stored_bytes = block.payload.len() as u32;
    block.header.raw_bytes = block.segments.iter().fold(0, |sum, segment| segment.bytes.saturating_add(sum));
    for codec in CodecId::ALL {
        block.header.codec = codec;
        decode(&block);
    }
}

/// Header, then as many entries as it says, then the payload.
pub fn read(bytes: &[u8]) -> format::Result<Block> {
    let mut from = Reader::new("block", bytes);
    let header = BlockHeader::read(&mut from)?;
    let segments = (0..header.segments).map(|_| SegmentEntry::read(&mut from)).collect::<format::Result<_>>()?;
    Ok(Block { header, segments, payload: from.rest().to_vec() })
}

fn decode(block: &Block) {
    if let Ok(raw) = segment::decode(block) {
        assert_eq!(raw.len(), block.header.raw_bytes as usize);
        assert_eq!(segment::segments(block, &raw).map(|(_, bytes)| bytes.len()).sum::<usize>(), raw.len());
    }
    let _ = segment::decode_verified(block, FingerprintKind::Blake3);
}
