//! Which worker's cache holds which item, and what a full cache evicts.
//!
//! An *item* is held whole or not at all: a file, or a byte range of one. The index knows every *replica*, an item in
//! one worker's cache; it costs at most 64 bytes each. Eviction is one number a replica (`eviction`): the lowest goes
//! first.

mod eviction;
mod holders;
mod index;
mod note;
mod order;
mod prefetch;
mod table;
#[cfg(test)]
mod tests;

pub use eviction::Eviction;
pub use index::{Holding, Index};

/// A file or a byte range of one; numbered from 0 without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ItemId(pub u32);

/// A node with a cache and slots for tasks; numbered from 0 without gaps, never used again after it left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct WorkerId(pub u32);

impl ItemId {
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}

impl WorkerId {
    pub(crate) fn at(self) -> usize {
        self.0 as usize
    }
}
