//! The catalog: names, versions, the state of every container, sessions and their checkpoints.
//!
//! [`Catalog`] is the one trait every engine offers; `conformance` (feature `testing`) is the suite each
//! passes. Its content can be rebuilt from the journal that containers keep.

mod interface;

pub use interface::*;
