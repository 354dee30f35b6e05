//! Thalweg's decisions: numbers in, decision out. No I/O, no clock, nothing random.
//!
//! One file per decision; each keeps the plainest possible answer as a baseline. What is decided here is done
//! elsewhere, and the doer may decline.

pub mod compression;
pub mod fairness;
pub mod reduction;

pub use compression::Compression;
