//! Buffers that live as long as their thread: making them again for every block takes longer than many a block.

/// Capacity a thread keeps of a buffer after a block of unusual size (bytes).
const KEPT_BYTES: usize = 1 << 20;

/// Makes a buffer at least this long (bytes); what is in it is of earlier blocks.
pub(crate) fn grow(buffer: &mut Vec<u8>, bytes: usize) {
    if buffer.len() < bytes {
        buffer.resize(bytes, 0);
    }
}

/// Gives memory back after a block of unusual size.
pub(crate) fn trim(buffer: &mut Vec<u8>) {
    if buffer.len() > KEPT_BYTES {
        buffer.truncate(KEPT_BYTES);
        buffer.shrink_to_fit();
    }
}
