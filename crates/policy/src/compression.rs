//! How to compress a block, from a cheap probe of it.
//!
//! Two looks: the probe, which incompressible data must pass at the speed of a sum, and, for the rest, trials on
//! a sample. The thresholds were set on arrays, text, programs and archives (`segment`'s example `speed` measures
//! them): arrays of floats with noise have skewed exponent bytes and no matches, so zstd:1 stores what zstd:3 stores
//! at up to twice its speed; on text zstd:3 stores 5 % less than zstd:1 and takes 1.2 to 1.6 times as long.

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

/// Above this share LZ4 found nothing: the skew of the bytes is all there is to gain.
const NO_MATCHES_SHARE: f32 = 0.97;

/// LZ4 is taken when it stores at most this much more, as a share of the raw bytes: it decodes twice as fast.
const NEARLY_SHARE: f32 = 0.03;

/// At or below this share the time of a higher level is spent on data that rewards it.
const REWARDING_SHARE: f32 = 0.4;

const FAST: Compression = Compression::Zstd { level: 1 };
const THOROUGH: Compression = Compression::Zstd { level: 3 };

/// The baseline: stores everything as it is.
pub fn never() -> Compression {
    Compression::None
}

/// Decides for one block. `share_of` compresses a sample and returns encoded / raw bytes; it is only asked what
/// the decision hangs on, and never for what looks incompressible.
pub fn choose(probe: Probe, mut share_of: impl FnMut(Compression) -> f32) -> Compression {
    if probe.byte_collisions < EVEN_COLLISIONS {
        return if probe.repeats { FAST } else { Compression::None };
    }
    let lz4 = share_of(Compression::LZ4);
    if lz4 > NO_MATCHES_SHARE {
        return FAST;
    }
    let zstd = share_of(FAST);
    if lz4 <= zstd + NEARLY_SHARE {
        Compression::LZ4
    } else if zstd <= REWARDING_SHARE {
        THOROUGH
    } else {
        FAST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SKEWED: Probe = Probe { byte_collisions: 2.0, repeats: false };

    fn chosen(probe: Probe, lz4: f32, zstd: f32) -> Compression {
        choose(probe, |tried| if tried == Compression::LZ4 { lz4 } else { zstd })
    }

    #[test]
    fn incompressible_data_is_never_tried() {
        let random = Probe { byte_collisions: 1.01, repeats: false };
        assert_eq!(choose(random, |_| panic!("tried")), never());
    }

    #[test]
    fn repeats_among_random_bytes_are_compressed() {
        let repeated = Probe { byte_collisions: 1.01, repeats: true };
        assert_eq!(choose(repeated, |_| panic!("tried")), FAST);
    }

    #[test]
    fn noisy_arrays_get_the_fast_level_after_one_trial() {
        assert_eq!(choose(SKEWED, |tried| if tried == Compression::LZ4 { 1.0 } else { panic!("tried") }), FAST);
    }

    #[test]
    fn lz4_is_taken_when_nearly_as_good() {
        assert_eq!(chosen(SKEWED, 0.52, 0.5), Compression::LZ4);
        assert_eq!(chosen(SKEWED, 0.7, 0.5), FAST);
    }

    #[test]
    fn text_gets_the_thorough_level() {
        assert_eq!(chosen(SKEWED, 0.4, 0.28), THOROUGH);
    }
}
