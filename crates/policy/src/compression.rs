//! How to compress a block, from a cheap probe of it.
//!
//! Two looks: the probe, which incompressible data must pass at the speed of a sum, and, for the rest, trials on
//! a sample. The thresholds were set on arrays, text, programs and archives (`segment`'s example `speed` measures
//! them): arrays of floats with noise have skewed exponent bytes and no matches, so zstd:1 stores what zstd:3 stores
//! at up to twice its speed; on text zstd:3 stores 5 % less than zstd:1 and takes 1.2 to 1.6 times as long.

/// How a block is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    None,
    Lz4,
    Zstd { level: i8 },
}

/// How a block's bytes are rearranged before they are compressed, taking it for records of `record_bytes` each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Filters {
    None,
    /// The first bytes of all records, then their second bytes, and so on: a plane for each byte of a record.
    Shuffle {
        record_bytes: u32,
    },
    /// As `Shuffle`, and then each byte less the one before it in its plane.
    ShuffleByteDelta {
        record_bytes: u32,
    },
    /// Each element less the same one of the record before, and then as `Shuffle`.
    DeltaShuffle {
        record_bytes: u32,
        element_bytes: u8,
    },
}

/// How a block is encoded: filters first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding {
    pub filters: Filters,
    pub compression: Compression,
}

impl From<Compression> for Encoding {
    fn from(compression: Compression) -> Self {
        Encoding { filters: Filters::None, compression }
    }
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
    let candidates = filters_for(record_bytes).map(|filters| Encoding { filters, compression: FAST });
    let tried = candidates.map(|encoding| (sample.share(encoding), encoding));
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
    let lz4 = share_of(Compression::Lz4);
    let fast = share_of(FAST);
    let (compression, share) = match () {
        _ if lz4 > NO_MATCHES_SHARE => (FAST, fast),
        _ if lz4 <= fast + NEARLY_SHARE => (Compression::Lz4, lz4),
        _ if fast <= REWARDING_SHARE => (THOROUGH, fast),
        _ => (FAST, fast),
    };
    Tried { compression, share }
}

/// Returns the filters that are worth a try on records of this length. Where a record is one number, whole numbers are
/// subtracted; of others it is not known where their elements begin.
fn filters_for(record_bytes: u32) -> impl Iterator<Item = Filters> {
    let is_number = matches!(record_bytes, 2 | 4 | 8);
    let delta = is_number.then_some(Filters::DeltaShuffle { record_bytes, element_bytes: record_bytes as u8 });
    [Filters::Shuffle { record_bytes }, Filters::ShuffleByteDelta { record_bytes }].into_iter().chain(delta)
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
        let share = |tried: Encoding| if tried.compression == Compression::Lz4 { lz4 } else { zstd };
        let chosen = choose(SKEWED, &mut Block(None, share));
        assert_eq!(chosen.filters, Filters::None);
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
        let delta = Filters::DeltaShuffle { record_bytes: 8, element_bytes: 8 };
        let share_with = |best: f32| move |tried: Encoding| if tried.filters == delta { best } else { 0.8 };
        let filtered = Encoding { filters: delta, compression: FAST };
        assert_eq!(choose(SKEWED, &mut Block(Some(8), share_with(0.7))), filtered);
        assert_eq!(choose(SKEWED, &mut Block(Some(8), share_with(0.79))).filters, Filters::None);
        let planes = |tried: Encoding| if tried.filters == Filters::None { 0.9 } else { 0.5 };
        assert_eq!(choose(SKEWED, &mut Block(Some(56), planes)).filters, Filters::Shuffle { record_bytes: 56 });
    }

    #[test]
    fn lz4_is_taken_when_nearly_as_good() {
        assert_eq!(chosen(0.52, 0.5), Compression::Lz4);
        assert_eq!(chosen(0.7, 0.5), FAST);
    }

    #[test]
    fn text_gets_the_thorough_level() {
        assert_eq!(chosen(0.4, 0.28), THOROUGH);
    }
}
