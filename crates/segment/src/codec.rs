//! Bytes to fewer bytes and back: one file per codec, all with the same two functions.
//!
//! `encode` appends to a scratch buffer that lives as long as its thread, and keeps its context there too:
//! making them anew would cost as much as compressing. `decode` is told the length to expect and never
//! yields, or allocates for, more than that; broken input is an error.

mod lz4;
mod none;
mod zstd;

use std::cell::RefCell;

use format::{CodecId, MAX_SEGMENT_BYTES};
use policy::Compression;

use crate::error::{corrupt, Result};

/// A block holds at least one segment and never more raw bytes than the longest one.
pub const MAX_BLOCK_BYTES: usize = MAX_SEGMENT_BYTES as usize;

/// Compressed bytes are kept only where they save at least 1/64: less does not pay for decoding them.
const LEAST_SAVING: usize = 64;

thread_local! {
    static SCRATCH: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// The bytes in a smaller form, or `None` when `compression` asks for none or saves too little.
pub(crate) fn encode(compression: Compression, raw: &[u8]) -> Option<Vec<u8>> {
    with_encoded(compression, raw, |encoded| (encoded.len() <= raw.len() - raw.len() / LEAST_SAVING && encoded.len() < raw.len()).then(|| encoded.to_vec()))
}

/// How many bytes `raw` would take (bytes).
pub(crate) fn encoded_bytes(compression: Compression, raw: &[u8]) -> usize {
    with_encoded(compression, raw, <[u8]>::len)
}

fn with_encoded<T>(compression: Compression, raw: &[u8], receive: impl FnOnce(&[u8]) -> T) -> T {
    SCRATCH.with_borrow_mut(|scratch| {
        match compression {
            Compression::None => none::encode(raw, 0, scratch),
            Compression::Lz4 => lz4::encode(raw, 0, scratch),
            Compression::Zstd { level } => zstd::encode(raw, level, scratch),
        }
        receive(scratch)
    })
}

/// The `raw_bytes` bytes that were encoded as `stored`.
pub(crate) fn decode(codec: CodecId, stored: &[u8], raw_bytes: usize) -> Result<Vec<u8>> {
    if raw_bytes > MAX_BLOCK_BYTES {
        return corrupt(format!("{raw_bytes} bytes are more than a block holds ({MAX_BLOCK_BYTES})"));
    }
    let decoded = match codec {
        CodecId::None => none::decode(stored, raw_bytes),
        CodecId::Lz4 => lz4::decode(stored, raw_bytes),
        CodecId::Zstd => zstd::decode(stored, raw_bytes),
    };
    match decoded {
        Ok(raw) if raw.len() == raw_bytes => Ok(raw),
        Ok(raw) => corrupt(format!("it decodes to {} bytes, {raw_bytes} were stored", raw.len())),
        Err(why) => corrupt(format!("{} cannot decode it: {why}", codec.name())),
    }
}
