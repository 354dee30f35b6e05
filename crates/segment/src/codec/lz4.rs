//! The LZ4 block format, without a length before it: the block's header has it.

use std::cell::RefCell;

use lz4_flex::block::{compress_into_with_table, decompress_into, get_maximum_output_size, CompressTable};

thread_local! {
    static TABLE: RefCell<CompressTable> = RefCell::new(CompressTable::large());
}

pub(super) fn encode(raw: &[u8], _level: i8, to: &mut Vec<u8>) {
    let worst_bytes = get_maximum_output_size(raw.len());
    if to.len() < worst_bytes {
        to.resize(worst_bytes, 0);
    }
    let encoded = TABLE.with_borrow_mut(|table| compress_into_with_table(raw, to, table));
    to.truncate(encoded.expect("the buffer holds the worst case"));
}

pub(super) fn decode(stored: &[u8], raw_bytes: usize) -> Result<Vec<u8>, String> {
    let mut raw = vec![0; raw_bytes];
    let decoded_bytes = decompress_into(stored, &mut raw).map_err(|error| error.to_string())?;
    raw.truncate(decoded_bytes);
    Ok(raw)
}
