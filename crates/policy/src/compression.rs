//! How to compress a block, from a cheap probe of it.
//!
//! Two looks: the probe, which incompressible data must pass at the speed of a sum, and, for the rest, trials on
//! a sample. The thresholds were set on arrays, text, programs and archives (`segment`'s example `speed` measures
//! them): arrays of floats with noise have skewed exponent bytes and no matches, so zstd:1 stores what zstd:3 stores
//! at up to twice its speed; on text zstd:3 stores 5 % less than zstd:1 and takes 1.2 to 1.6 times as long.

pub mod candidates;
pub mod choice;
pub mod mode;

pub use candidates::{CANDIDATES, Candidate, Data};
pub use choice::{Choices, Chosen, Likeness, Prediction, Predictions, Trials};
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

/// Answers what the choice asks about a block.
pub trait Sample {
    /// Returns the distance at which bytes are equal most often, where that is clearly more often than at others (bytes).
    fn record_bytes(&mut self) -> Option<u32>;

    /// Encodes a part of the block; returns encoded / raw bytes.
    fn share(&mut self, encoding: Encoding) -> f32;
}

/// Entropy coding gains about (collisions − 1) / (2 ln 2) bits of 8 when bytes are nearly even: 0.4 % at this
/// value, which is 7 standard deviations from random for a sample of 4 KiB.
const EVEN_COLLISIONS: f32 = 1.04;

/// Above this share LZ4 found nothing: the skew of the bytes is all there is to gain.
const NO_MATCHES_SHARE: f32 = 0.97;

/// LZ4 is taken when it stores at most this much more, as a share of the raw bytes: it decodes twice as fast.
const NEARLY_SHARE: f32 = 0.03;

/// At or below this share the time of a higher level is spent on data that rewards it.
const REWARDING_SHARE: f32 = 0.4;

/// Filters are taken where they save at least so much of what is stored without: they cost a pass over the block in each
/// direction, and a tenth of the trial may be chance.
const WORTHWHILE_SHARE: f32 = 0.97;

const FAST: Compression = Compression::Zstd { level: 1 };
const THOROUGH: Compression = Compression::Zstd { level: 3 };

/// The baseline: stores everything as it is.
pub fn never() -> Compression {
    Compression::None
}

/// Decides for one block. The sample is only asked what the decision hangs on, and nothing for what looks incompressible.
pub fn choose(probe: Probe, sample: &mut impl Sample) -> Encoding {
    if probe.byte_collisions < EVEN_COLLISIONS {
        return if probe.repeats { FAST } else { Compression::None }.into();
    }
    let plain = choose_compression(|compression| sample.share(compression.into()));
    let Some(record_bytes) = sample.record_bytes() else { return plain.compression.into() };
    let tried = filtered(record_bytes).map(|encoding| (sample.share(encoding), encoding));
    match tried.min_by(|(one, _), (other, _)| one.total_cmp(other)) {
        Some((share, encoding)) if share < plain.share * WORTHWHILE_SHARE => encoding,
        _ => plain.compression.into(),
    }
}

struct Tried {
    compression: Compression,
    share: f32,
}

/// Chooses among codecs without filters.
fn choose_compression(mut share_of: impl FnMut(Compression) -> f32) -> Tried {
    let lz4 = share_of(Compression::LZ4);
    let fast = share_of(FAST);
    let (compression, share) = match () {
        _ if lz4 > NO_MATCHES_SHARE => (FAST, fast),
        _ if lz4 <= fast + NEARLY_SHARE => (Compression::LZ4, lz4),
        _ if fast <= REWARDING_SHARE => (THOROUGH, fast),
        _ => (FAST, fast),
    };
    Tried { compression, share }
}

/// Returns the encodings with filters that are worth a try on records of this length. Where a record is one number, whole
/// numbers are subtracted; of others it is not known where their elements begin.
fn filtered(record_bytes: u32) -> impl Iterator<Item = Encoding> {
    let element = match record_bytes {
        2 => Some(Element::U16),
        4 => Some(Element::U32),
        8 => Some(Element::U64),
        _ => None,
    };
    let encoding = move |filters: [Filter; 2], element| Encoding {
        filters: [Some(filters[0]), Some(filters[1]), None, None],
        element,
        record_length: record_bytes,
        ..FAST.into()
    };
    let planes = encoding([Filter::Shuffle, Filter::ByteDelta], Element::U8);
    let shuffled = Encoding { filters: [Some(Filter::Shuffle), None, None, None], ..planes };
    let differences = element.map(|element| encoding([Filter::Delta, Filter::Shuffle], element));
    [shuffled, planes].into_iter().chain(differences)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SKEWED: Probe = Probe { byte_collisions: 2.0, repeats: false };

    /// A block with records of this length, if any, and what each encoding makes of it.
    struct Block<F>(Option<u32>, F);

    impl<F: FnMut(Encoding) -> f32> Sample for Block<F> {
        fn record_bytes(&mut self) -> Option<u32> {
            self.0
        }

        fn share(&mut self, encoding: Encoding) -> f32 {
            self.1(encoding)
        }
    }

    fn untried(probe: Probe) -> Encoding {
        choose(probe, &mut Block(Some(8), |_| panic!("tried")))
    }

    fn chosen(lz4: f32, zstd: f32) -> Compression {
        let share = |tried: Encoding| if tried.compression == Compression::LZ4 { lz4 } else { zstd };
        let chosen = choose(SKEWED, &mut Block(None, share));
        assert_eq!(chosen.filters, [None; 4]);
        chosen.compression
    }

    #[test]
    fn incompressible_data_is_never_tried() {
        assert_eq!(untried(Probe { byte_collisions: 1.01, repeats: false }), never().into());
    }

    #[test]
    fn repeats_among_random_bytes_are_compressed() {
        assert_eq!(untried(Probe { byte_collisions: 1.01, repeats: true }), FAST.into());
    }

    #[test]
    fn records_are_filtered_where_that_saves_more_than_its_cost() {
        let is_delta = |tried: &Encoding| tried.filters[0] == Some(Filter::Delta);
        let share_with = |best: f32| move |tried: Encoding| if is_delta(&tried) { best } else { 0.8 };
        let chosen = choose(SKEWED, &mut Block(Some(8), share_with(0.7)));
        assert!(is_delta(&chosen) && chosen.record_length == 8 && chosen.element == Element::U64, "{chosen:?}");
        assert_eq!(choose(SKEWED, &mut Block(Some(8), share_with(0.79))).filters, [None; 4]);
        let planes = |tried: Encoding| if tried.filters[0].is_none() { 0.9 } else { 0.5 };
        let chosen = choose(SKEWED, &mut Block(Some(56), planes));
        assert_eq!((chosen.filters[0], chosen.record_length), (Some(Filter::Shuffle), 56));
        assert!(filtered(2).chain(filtered(5)).chain(filtered(8)).all(|encoding| encoding.check().is_ok()));
    }

    #[test]
    fn lz4_is_taken_when_nearly_as_good() {
        assert_eq!(chosen(0.52, 0.5), Compression::LZ4);
        assert_eq!(chosen(0.7, 0.5), FAST);
    }

    #[test]
    fn text_gets_the_thorough_level() {
        assert_eq!(chosen(0.4, 0.28), THOROUGH);
    }
}
