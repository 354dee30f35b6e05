//! How fast this machine encodes, beside the one where the times of the built-in model were taken: measured once by encoding a text that
//! every process makes the same.

use std::sync::LazyLock;
use std::time::Instant;

use policy::{Compression, Encoding};

use crate::codec;

/// What that machine took for the text, by codec (ns a byte).
const REFERENCES: [(Compression, f32); 2] = [(Compression::LZ4, 1.8), (Compression::Zstd { level: 1 }, 3.9)];

const TEXT_BYTES: usize = 32 << 10;

/// The shortest of so many times counts: the first one fills caches, and one may be interrupted.
const ROUNDS: usize = 4;

/// What is further from the reference was not measured well (base-2 logarithm).
const MOST: f32 = 3.0;

static SLOWNESS: LazyLock<f32> = LazyLock::new(|| {
    let text = text();
    let log_ratio =
        |(compression, reference_ns): (Compression, f32)| (encode_ns(compression, &text) / reference_ns).log2();
    let mean = REFERENCES.map(log_ratio).iter().sum::<f32>() / REFERENCES.len() as f32;
    mean.clamp(-MOST, MOST).exp2()
});

/// Returns how many times as long this machine encodes as the reference; takes half a millisecond at the first call.
pub(crate) fn slowness() -> f32 {
    *SLOWNESS
}

/// Returns nanoseconds a byte.
fn encode_ns(compression: Compression, text: &[u8]) -> f32 {
    let encoding = Encoding::from(compression);
    let once = || {
        let begin = Instant::now();
        codec::encoded_bytes(&encoding, text);
        begin.elapsed().as_nanos() as f32
    };
    (0..ROUNDS).map(|_| once()).fold(f32::INFINITY, f32::min).max(1.0) / text.len() as f32
}

/// Returns words of a vocabulary whose first ones are the most frequent.
fn text() -> Vec<u8> {
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
    fn the_text_is_neither_empty_nor_random() {
        for (compression, _) in REFERENCES {
            let share = codec::encoded_bytes(&compression.into(), &text()) as f32 / TEXT_BYTES as f32;
            assert!((0.2..0.7).contains(&share), "{compression:?}: {share}");
        }
    }

    #[test]
    fn a_machine_has_one_speed() {
        assert_eq!(slowness(), slowness());
        assert!((-MOST..=MOST).contains(&slowness().log2()));
    }
}
