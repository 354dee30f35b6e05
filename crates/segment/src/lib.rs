//! Bytes to segments to fingerprints to encoded blocks, and back. No I/O, but that `core_speed` reads a
//! thread's processor time, and `core_energy` the processors' counters of energy, once a process.
//!
//! Reading order is the path of a byte: [`Cutter`] finds where segments end, [`fingerprint`] identifies them, and
//! [`BlockBuilder`] compresses neighbours together, `filter` before `codec`; [`decode`] and [`decode_verified`] reverse it.
//! `policy` chooses how a block is compressed, from what `probe` measures in it.

mod block;
mod buffer;
mod builder;
mod chooser;
mod chunk;
mod codec;
mod conditions;
mod core_energy;
mod core_speed;
mod cut;
mod encoding;
mod energy_counters;
mod error;
mod features;
mod filter;
mod fingerprint;
#[cfg(test)]
mod made_powercap;
mod model;
mod probe;
#[cfg(test)]
mod random;
mod record;
mod rounding;
mod shape;

pub use block::{decode, decode_verified, encode, encode_anew, encode_with, is_encoded_by, segments, take_verified};
pub use builder::{BLOCK_BYTES, BlockBuilder, Numbers, encode_in_blocks};
pub use chunk::{ChunkType, decode_chunk, encode_chunk, encode_chunk_of_rounded, encode_rounded_chunk};
pub use codec::MAX_BLOCK_BYTES;
pub use conditions::set_conditions;
pub use core_energy::core_watts;
pub use core_speed::slowness;
pub use cut::{ContentCutter, Cutter, FixedCutter, SeveralCutter};
pub use encoding::described as header_encoding;
pub use energy_counters::EnergyCounters;
pub use error::{Error, Result};
pub use features::{FEATURES, FEATURES_VERSION, features};
pub use fingerprint::{fingerprint, is_zero, names_digest};
pub use model::{OUTPUTS_PER_CANDIDATE, built_in_model, logarithms, model_file, use_built_in_model, use_model};
pub use rounding::{Rounded, Rounder, ValueRange};
pub use shape::found as found_data;
