//! The segment store: which segments exist, where they lie, and how they become durable.
//!
//! [`SegmentStore`] is the one trait every engine offers, local or remote, and `conformance` (feature `testing`) is the
//! suite each passes. [`LocalStore`] is the engine over [`Files`](files::Files): containers are the truth, the
//! fingerprint table is a hint that can be lost and rebuilt.

#[cfg(any(test, feature = "testing"))]
pub mod conformance;
mod container;
pub mod files;
mod guard;
mod local;
mod lru;
mod memory;
mod segment_store;
mod table;

pub use container::{
    BlockPlan, BlockSpot, ContainerIndex, Damage, FOLDER as CONTAINERS_FOLDER, file_name as container_file_name,
};
pub use local::{Counters, LocalStore, Options, ReadableParts, Report, UNCLOSED_END};
pub use lru::Lru;
pub use memory::{CountingRegistrar, MemoryStore};
pub use segment_store::{
    Answer, ClaimOwner, Error, FAR, Registrar, Result, SealedContainer, SegmentStore, StoredBlock, get_one_by_one,
};
pub use table::TABLE_FOLDER;
