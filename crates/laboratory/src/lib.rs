//! The laboratory: what each candidate encoding makes of blocks of a user's files, what the chooser makes of it, and models
//! fitted to that.
//!
//! Reading order: [`Blocks`] draws blocks from files, [`measure`] encodes one in every way, and [`fit`] makes a model of
//! many measurements. [`candidate_totals`] sums them up; [`run_chooser`] encodes the blocks as a store would, and [`compare`]
//! holds that against an oracle; [`figure`] draws both. [`Survey`] estimates what a store would make of all bytes of files,
//! and [`encode_mb_per_s`] rates a core of this machine.

mod block_sample;
mod blocks;
mod chooser_run;
mod comparison;
mod content_hash;
mod content_segments;
mod core_rates;
mod distinct;
mod encoding_name;
mod estimate;
mod figure;
#[cfg(test)]
mod made;
mod measurement;
mod reference;
mod regret;
mod seen_filter;
mod survey;
mod totals;
mod training;

pub use block_sample::{BlockSample, SampledCodec};
pub use blocks::{Block, Blocks};
pub use chooser_run::{Choice, run_chooser};
pub use comparison::{ModeComparison, best_single, compare, oracle};
pub use core_rates::{RATED, encode_mb_per_s, fingerprint_mb_per_s};
pub use distinct::{Distinct, DistinctSample};
pub use encoding_name::candidate_name;
pub use estimate::Compressed;
pub use figure::{Drawn, figure};
pub use measurement::{Measured, Measurement, measure};
pub use reference::{REFERENCES, measure_references, reference_name, reference_totals};
pub use regret::Regret;
pub use survey::{Cut, PIECE_BYTES, READ_BYTES, Survey, Surveyed};
pub use totals::{HEADER_BYTES, Total, candidate_totals, pareto_front};
pub use training::fit;
