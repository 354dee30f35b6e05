//! LZ4 that looks at fewer positions, by the library in C: encoding only, `lz4` decodes it.

use lz4::block::{CompressionMode, compress_to_buffer};

/// Here the level is the acceleration, which the library clamps.
pub(super) fn encode(raw: &[u8], acceleration: i32, to: &mut [u8]) -> Option<usize> {
    compress_to_buffer(raw, Some(CompressionMode::FAST(acceleration)), false, to).ok()
}
