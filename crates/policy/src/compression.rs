//! How to compress a block.
//!
//! A cheap probe first, which incompressible data must pass at the speed of a sum; for the rest [`Choices`] picks one of the
//! [`CANDIDATES`], by what a model predicts of them and by the cost function of the [`Mode`].

pub mod candidates;
pub mod choice;
pub mod mode;

pub use candidates::{CANDIDATES, Candidate, Data};
pub use choice::{Choices, Chosen, Glance, Goal, Likeness, Prediction, Predictions, Trials};
pub use mode::{Conditions, Mode, Outcome};

use crate::encoding::{Element, Encoding, Filter};

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
}

/// Entropy coding gains about (collisions − 1) / (2 ln 2) bits of 8 when bytes are nearly even: 0.4 % at this
/// value, which is 7 standard deviations from random for a sample of 4 KiB.
const EVEN_COLLISIONS: f32 = 1.04;

/// Returns whether a block looks random all over: it is stored as it is, without another look.
pub fn is_incompressible(probe: Probe) -> bool {
    probe.byte_collisions < EVEN_COLLISIONS && !probe.repeats
}

/// Shorter blocks are compressed without a look at them: it would cost more than there is to win, and a model has seen few
/// (bytes).
const MIN_MODELLED_BYTES: usize = 16 << 10;

/// Returns how a block too short for a look is encoded, and `None` for a longer one.
pub fn of_short_block(mode: Mode, raw_bytes: usize, data: &Data) -> Option<Encoding> {
    let level = if mode == Mode::Archival { 19 } else { 1 };
    let is_wanted = |candidate: &&Candidate| {
        let is_shuffled = candidate.filters() == [Some(Filter::Shuffle), None, None, None];
        let is_plain = candidate.filters() == [None; 4];
        let is_for = if data.is_known && data.element != Element::U8 { is_shuffled } else { is_plain };
        is_for && candidate.compression == Compression::Zstd { level }
    };
    let is_short = raw_bytes < MIN_MODELLED_BYTES;
    CANDIDATES.iter().find(is_wanted).filter(|_| is_short)?.encoding(data)
}

/// The baseline: stores everything as it is.
pub fn never() -> Compression {
    Compression::None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn even_bytes_are_incompressible_unless_stretches_repeat() {
        assert!(is_incompressible(Probe { byte_collisions: 1.01, repeats: false }));
        assert!(!is_incompressible(Probe { byte_collisions: 1.01, repeats: true }));
        assert!(!is_incompressible(Probe { byte_collisions: 2.0, repeats: false }));
    }

    #[test]
    fn short_blocks_need_no_model() {
        let floats = Data { element: Element::F64, is_known: true, ..Data::default() };
        let encoding = of_short_block(Mode::Balanced, 5000, &floats).unwrap();
        assert_eq!(
            (encoding.filters[0], encoding.compression),
            (Some(Filter::Shuffle), Compression::Zstd { level: 1 })
        );
        let archived = of_short_block(Mode::Archival, 5000, &Data::default());
        assert_eq!(archived, Some(Compression::Zstd { level: 19 }.into()));
        assert_eq!(of_short_block(Mode::Balanced, 16 << 10, &floats), None);
    }
}
