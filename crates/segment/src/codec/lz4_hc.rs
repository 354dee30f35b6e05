//! LZ4 that searches longer for what it refers to, by the library in C: encoding only, `lz4` decodes it.

use lz4::block::{CompressionMode, compress_to_buffer};

/// The library clamps levels to 1 to 12. It computes addresses a few bytes before the input's end, so an empty slice, whose
/// address is none, would lead it astray.
pub(super) fn encode(raw: &[u8], level: i32, to: &mut [u8]) -> Option<usize> {
    if raw.is_empty() {
        return None;
    }
    compress_to_buffer(raw, Some(CompressionMode::HIGHCOMPRESSION(level)), false, to).ok()
}
