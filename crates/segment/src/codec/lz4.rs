//! The LZ4 block format, without a length before it: the block's header has it.

use std::cell::RefCell;

use lz4_flex::block::{CompressTable, compress_into_with_table, decompress_into};

/// LZ4 cannot make more than this many bytes of one; a larger claim is refused before memory is allocated.
const MAX_EXPANSION: usize = 255;

thread_local! {
    static TABLE: RefCell<CompressTable> = RefCell::new(CompressTable::large());
}

pub(super) fn encode(raw: &[u8], _level: i32, to: &mut [u8]) -> Option<usize> {
    TABLE.with_borrow_mut(|table| compress_into_with_table(raw, to, table)).ok()
}

pub(super) fn decode(stored: &[u8], raw_bytes: usize) -> Result<Vec<u8>, String> {
    if raw_bytes > stored.len().saturating_mul(MAX_EXPANSION) {
        return Err(format!("{} bytes cannot hold {raw_bytes}", stored.len()));
    }
    let mut raw = vec![0; raw_bytes];
    let decoded_bytes = decompress_into(stored, &mut raw).map_err(|error| error.to_string())?;
    raw.truncate(decoded_bytes);
    Ok(raw)
}
