//! Uncompressed bytes: the plain baseline.

pub(super) fn encode(raw: &[u8], _level: i32, to: &mut [u8]) -> Option<usize> {
    to.get_mut(..raw.len())?.copy_from_slice(raw);
    Some(raw.len())
}

pub(super) fn decode(stored: &[u8], raw_bytes: usize) -> Result<Vec<u8>, String> {
    if stored.len() != raw_bytes {
        return Err(format!("{} bytes instead of {raw_bytes}", stored.len()));
    }
    Ok(stored.to_vec())
}
