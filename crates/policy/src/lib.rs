//! Thalweg's decisions: numbers in, decision out. No I/O, no clock; random draws take a seed.
//!
//! One file per decision; each keeps the plainest possible answer as a baseline. Decisions are carried out elsewhere,
//! and the code that does so may decline.

pub mod cache;
pub mod compression;
pub mod cost;
pub mod dropping;
pub mod encoding;
pub mod fairness;
pub mod forest;
pub mod pipelining;
pub mod placement;
pub mod provisioning;
pub mod read_ahead;
pub mod reduction;
pub mod streams;

pub use compression::Compression;
pub use encoding::{Element, Encoding, Filter, MAX_FILTERS};
