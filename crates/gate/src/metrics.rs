//! What is counted while the gate serves.

pub mod histogram;

pub use histogram::Histogram;
