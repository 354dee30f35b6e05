//! Blocks of a remote store as they came, encoded: several times as many bytes of content fit into the same memory as
//! decoded, and a link is passed once.
//!
//! Blocks of a store on this machine are not kept: the kernel's page cache holds their containers, encoded, already. Neither
//! are those that are stored uncompressed: decoded they take no more. A block gets here after all its segments matched
//! their fingerprints, and is decoded and checked again each time it is used.

use std::sync::{Arc, Mutex, MutexGuard};

use format::{Run, SegmentAddress, SegmentEntry};
use store::StoredBlock;

use crate::block_map::BlockMap;

/// Encoded bytes kept at most, with the list of each block's segments.
pub(crate) const ENCODED_BYTES: usize = 64 << 20;

pub(crate) struct EncodedBlocks {
    blocks: Mutex<BlockMap<StoredBlock>>,
}

impl EncodedBlocks {
    pub fn new(max_bytes: usize) -> Self {
        EncodedBlocks { blocks: Mutex::new(BlockMap::new(max_bytes)) }
    }

    /// Keeps a block that passed its check, if it takes less memory so than decoded.
    pub fn keep(&self, placed: StoredBlock) {
        let bytes = memory_bytes(&placed);
        if bytes < placed.block.header.raw_bytes as usize {
            let placed = Arc::new(placed);
            self.blocks().insert(&placed.labels, placed.clone(), bytes);
        }
    }

    /// Returns the block that holds a segment, to be decoded.
    pub fn get(&self, address: SegmentAddress) -> Option<Arc<StoredBlock>> {
        let mut blocks = self.blocks();
        let found = blocks.find(address)?.0.clone();
        blocks.mark_used(&found);
        Some(found)
    }

    /// Returns fingerprint and length of a segment.
    pub fn entry(&self, address: SegmentAddress) -> Option<SegmentEntry> {
        let blocks = self.blocks();
        let (placed, index) = blocks.find(address)?;
        placed.block.segments.get(index).copied()
    }

    /// As [`BlockMap::next_label`].
    pub fn next_label(&self, run: Run) -> u32 {
        self.blocks().next_label(run)
    }

    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.blocks().bytes()
    }

    fn blocks(&self) -> MutexGuard<'_, BlockMap<StoredBlock>> {
        self.blocks.lock().expect("no panic holds it")
    }
}

/// What the maps take for a block, about.
const MAP_BYTES: usize = 512;

fn memory_bytes(placed: &StoredBlock) -> usize {
    let lists = size_of_val(&placed.block.segments[..]) + size_of_val(&placed.labels[..]);
    placed.block.payload.capacity() + lists + MAP_BYTES
}
