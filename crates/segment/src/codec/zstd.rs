//! One Zstandard frame, with a level.

use std::cell::RefCell;

use zstd::bulk::{Compressor, Decompressor};

thread_local! {
    static COMPRESSOR: RefCell<Compressor<'static>> = RefCell::default();
    static DECOMPRESSOR: RefCell<Decompressor<'static>> = RefCell::default();
}

pub(super) fn encode(raw: &[u8], level: i32, to: &mut [u8]) -> Option<usize> {
    let encoded = COMPRESSOR.with_borrow_mut(|compressor| {
        compressor.set_compression_level(level)?;
        compressor.compress_to_buffer(raw, to)
    });
    encoded.ok()
}

pub(super) fn decode(stored: &[u8], raw_bytes: usize) -> Result<Vec<u8>, String> {
    // The capacity bounds the output; memory is only touched as far as bytes arrive.
    let mut raw = Vec::with_capacity(raw_bytes);
    let decoded = DECOMPRESSOR.with_borrow_mut(|decompressor| decompressor.decompress_to_buffer(stored, &mut raw));
    decoded.map_err(|error| error.to_string())?;
    Ok(raw)
}
