//! The catalog: names, versions, the state of every container, sessions and their checkpoints.
//!
//! [`Names`] is what every client needs, through a node too; [`LocalCatalog`] adds what only the machine of the store
//! offers. Every engine implements both; `conformance` (feature `testing`) is the suite each
//! passes. Its content can be rebuilt from the journal that containers keep.

#[cfg(any(test, feature = "testing"))]
pub mod conformance;

mod clock;
mod counters;
mod interface;
mod memory;
mod open_paths;
mod rebuild;
mod refusal;
mod restate;
mod sqlite;
mod subtree;

pub use clock::{Clock, system_clock};
pub use interface::*;
pub use memory::MemoryCatalog;
pub use rebuild::{CONTAINER_LIMIT, impossible};
pub use refusal::Refusal;
pub use sqlite::{ReserveSource, SqliteCatalog};
