//! The segment store: which segments there are, where they lie, and how they become durable.
//!
//! [`SegmentStore`] is the one trait every engine offers, near or far, and `conformance` (feature
//! `testing`) is the suite each passes. [`LocalStore`] is the engine over [`Files`]: containers are the
//! truth, the fingerprint table is a hint that can be lost and rebuilt.

mod segment_store;

pub use segment_store::{Answer, Claimant, ContainerFacts, Error, PlacedBlock, Registrar, Result, SegmentStore};
