//! How to compress a block.
//!
//! A cheap probe first, which incompressible data must pass at the speed of a sum; for the rest [`Choices`] picks one of the
//! [`CANDIDATES`], by what a model predicts of them and by the cost function of the [`Mode`].

mod allowance;
pub mod candidates;
pub mod choice;
mod class;
mod credit;
pub mod mode;
mod rounded;
mod unlooked;
mod weighing;

pub use candidates::{CANDIDATES, Candidate, Data};
pub use choice::{Choices, Chosen, EncodingResult, Glance, Goal, Prediction, Predictions, Trials};
pub use class::Likeness;
pub use mode::{Conditions, Mode, Outcome};
pub use rounded::by_trials;
pub use unlooked::{can_pay, is_incompressible, without_a_look};

/// A codec and its level; levels outside a codec's range mean its nearest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    None,
    /// Leaves out runs of zeros, and nothing else.
    ZeroRun,
    /// 1: LZ4 as usual; 2 to 127: looks at ever fewer positions.
    Lz4 {
        acceleration: u8,
    },
    /// LZ4 that searches longer, 1 to 12; decoded as LZ4 is.
    Lz4Hc {
        level: u8,
    },
    /// -128 to 22.
    Zstd {
        level: i8,
    },
    /// 1 to 9.
    Zlib {
        level: u8,
    },
    /// 0 to 9.
    Xz {
        level: u8,
    },
    /// Numbers of a known type, 0 to 12.
    Pco {
        level: u8,
    },
}

impl Compression {
    /// LZ4 as usual.
    pub const LZ4: Compression = Compression::Lz4 { acceleration: 1 };
}

/// The result of a cheap probe of a block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe {
    /// How often two bytes drawn from the block are equal, relative to random bytes: 1 for those, 256 for a constant.
    pub byte_collisions: f32,
    /// Whether stretches of some hundred bytes occur more than once.
    pub repeats: bool,
    /// Whether all bytes are zero.
    pub zeros: bool,
}

/// The baseline: stores everything as it is.
pub fn never() -> Compression {
    Compression::None
}
