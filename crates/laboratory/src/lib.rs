//! The laboratory: what each candidate encoding makes of blocks of a user's files, and models fitted to that.
//!
//! Reading order: [`Blocks`] draws blocks from files, [`measure`] encodes one in every way, and [`fit`] makes a model of
//! many measurements.

mod blocks;
mod measurement;
mod training;

pub use blocks::{Block, Blocks};
pub use measurement::{Measured, Measurement, measure};
pub use training::fit;
