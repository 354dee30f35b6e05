//! A fake node's state of one stripe set.

use std::collections::HashMap;

use crate::message::Extent;

/// One stripe set's bytes, each with the stamp of its writer; by (client, stream) the last sequence they hold.
#[derive(Clone, Default)]
pub struct StripeSet {
    pub bytes: Vec<u8>,
    pub stamps: Vec<u64>,
    pub size: u64,
    pub sequences: HashMap<(u64, u32), u64>,
}

impl StripeSet {
    pub fn write(&mut self, stamp: u64, extents: &[Extent], mut payload: &[u8]) {
        for extent in extents {
            let end = (extent.offset + extent.bytes) as usize;
            self.bytes.resize(self.bytes.len().max(end), 0);
            self.stamps.resize(self.bytes.len(), 0);
            self.size = self.size.max(end as u64);
            let (mine, rest) = payload.split_at(extent.bytes as usize);
            payload = rest;
            for (at, byte) in (extent.offset as usize..end).zip(mine) {
                if self.stamps[at] <= stamp {
                    (self.bytes[at], self.stamps[at]) = (*byte, stamp);
                }
            }
        }
        assert!(payload.is_empty(), "the extents give the payload's length");
    }

    pub fn read(&self, extent: &Extent) -> Vec<u8> {
        let byte = |at: u64| self.bytes.get(at as usize).copied().unwrap_or(0);
        (extent.offset..extent.offset + extent.bytes).map(byte).collect()
    }
}
