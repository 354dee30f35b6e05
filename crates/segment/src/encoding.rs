//! Filters and codec together.

use format::{BlockHeader, CodecId};
use policy::Compression;
use policy::compression::Encoding;

use crate::codec;
use crate::error::Result;
use crate::filter::Filtering;

/// Returns the encoded bytes, or `None` when no compression is requested or it saves too little.
pub(crate) fn encode(encoding: Encoding, raw: &[u8]) -> Option<Vec<u8>> {
    if encoding.compression == Compression::None {
        return None;
    }
    Filtering::chosen(encoding.filters).with_filtered(raw, |filtered| codec::encode(encoding.compression, filtered))
}

/// Returns the encoded length of `raw`, which may be a little more than its own.
pub(crate) fn encoded_bytes(encoding: Encoding, raw: &[u8]) -> usize {
    let filtering = Filtering::chosen(encoding.filters);
    filtering.with_filtered(raw, |filtered| codec::encoded_bytes(encoding.compression, filtered))
}

/// Writes into the header of a block how its payload was encoded.
pub(crate) fn describe(encoding: Encoding, header: &mut BlockHeader) {
    (header.codec, header.level) = match encoding.compression {
        Compression::None => (CodecId::None, 0),
        Compression::Lz4 => (CodecId::Lz4, 0),
        Compression::Zstd { level } => (CodecId::Zstd, level),
    };
    Filtering::chosen(encoding.filters).describe(header);
}

/// Returns the raw bytes of a block with this header and payload.
pub(crate) fn decode(header: &BlockHeader, payload: &[u8]) -> Result<Vec<u8>> {
    let filtering = Filtering::of(header)?;
    Ok(filtering.undo(codec::decode(header.codec, payload, header.raw_bytes as usize)?))
}
