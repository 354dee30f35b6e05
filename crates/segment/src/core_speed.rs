//! How fast a core encodes here, beside one of the machine where the times of the built-in model were taken. Each process measures it once, by
//! encoding a text that is the same everywhere.

use std::sync::LazyLock;

use policy::{Compression, Encoding};
use rustix::time::{ClockId, clock_gettime};

use crate::codec;

/// Nanoseconds that a byte of the text takes a core of that machine. No text was timed there: this is what an AMD EPYC of 30 November takes,
/// by how many times as fast it encoded 1810 blocks as the model predicts. To be measured again when `text`, LZ4 or zstd change.
const REFERENCES: [(Compression, f32); 2] = [(Compression::LZ4, 1.8), (Compression::Zstd { level: 1 }, 3.9)];

const TEXT_BYTES: usize = 32 << 10;

/// The shortest time counts, once so many more were not shorter: the first ones fill caches, and a core that was idle becomes faster.
const ROUNDS_WITHOUT_GAIN: usize = 3;
const MAX_ROUNDS: usize = 32;

/// A core that seems further from the reference was not measured well (base-2 logarithm).
const MAX_LOG_SLOWNESS: f32 = 3.0;

static SLOWNESS: LazyLock<f32> = LazyLock::new(|| {
    let text = text();
    slowness_of(REFERENCES.map(|(compression, _)| encode_ns(compression, &text)))
});

/// Returns how many times as long a core encodes here as one of the reference machine; takes about a millisecond at the first call.
pub fn slowness() -> f32 {
    *SLOWNESS
}

/// The mean of the codecs' ratios; `measured_ns` is in the order of [`REFERENCES`].
fn slowness_of(measured_ns: [f32; REFERENCES.len()]) -> f32 {
    let log_ratios =
        measured_ns.iter().zip(REFERENCES).map(|(measured_ns, (_, reference_ns))| (measured_ns / reference_ns).log2());
    let mean = log_ratios.sum::<f32>() / REFERENCES.len() as f32;
    mean.clamp(-MAX_LOG_SLOWNESS, MAX_LOG_SLOWNESS).exp2()
}

/// Returns nanoseconds a byte.
fn encode_ns(compression: Compression, text: &[u8]) -> f32 {
    let encoding = Encoding::from(compression);
    let (mut least_ns, mut without_gain) = (u64::MAX, 0);
    for _ in 0..MAX_ROUNDS {
        let begin_ns = thread_ns();
        codec::encoded_bytes(&encoding, text);
        let taken_ns = thread_ns() - begin_ns;
        without_gain = if taken_ns < least_ns { 0 } else { without_gain + 1 };
        least_ns = least_ns.min(taken_ns);
        if without_gain == ROUNDS_WITHOUT_GAIN {
            break;
        }
    }
    least_ns.max(1) as f32 / text.len() as f32
}

/// What this thread computed, whatever else the machine does.
pub(crate) fn thread_ns() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Returns words of a vocabulary whose first ones are the most frequent.
pub(crate) fn text() -> Vec<u8> {
    let mut state = 1u64;
    let mut draw = |below: u64| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) % below
    };
    let mut text = Vec::with_capacity(TEXT_BYTES + 8);
    while text.len() < TEXT_BYTES {
        let rank = draw(40) * draw(40);
        let word = (rank + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        text.extend((0..2 + rank % 6).map(|letter| b'a' + (word >> (8 * letter)) as u8 % 26));
        text.push(b' ');
    }
    text.truncate(TEXT_BYTES);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_text_is_the_one_that_was_timed() {
        assert_eq!(
            blake3::hash(&text()).to_hex().as_str(),
            "575dd82fee90c861bca503c839c767ae04e1f747b50729854b1618a325f54dd5"
        );
    }

    #[test]
    fn slowness_is_the_mean_of_what_codecs_take_longer() {
        let scaled = |factors: [f32; 2]| [REFERENCES[0].1 * factors[0], REFERENCES[1].1 * factors[1]];
        for (factors, slowness) in
            [([1.0, 1.0], 1.0), ([0.5, 0.5], 0.5), ([4.0, 1.0], 2.0), ([1e9, 1e9], 8.0), ([1e-9, 1e-9], 0.125)]
        {
            assert!((slowness_of(scaled(factors)) / slowness - 1.0).abs() < 1e-5, "{factors:?}");
        }
    }

    #[test]
    fn a_core_is_measured() {
        let text = text();
        let [lz4, zstd] = REFERENCES.map(|(compression, _)| encode_ns(compression, &text));
        assert!(lz4 > 0.05 && zstd > lz4, "{lz4} {zstd}");
    }
}
