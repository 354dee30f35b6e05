//! What a core of this machine does with sample data: cut and fingerprint them, encode them.

use format::{BlockKind, ChunkerKind, CodecChoice, Fingerprint, FingerprintKind, Mode};
use segment::{BLOCK_BYTES, Cutter, encode, fingerprint};

use crate::measurement::timed;

/// Codecs and modes that are rated, as plans try them, the quickest of all first.
pub const RATED: [CodecChoice; 5] = [
    CodecChoice::Lz4,
    CodecChoice::Zstd(3),
    CodecChoice::Auto(Mode::Performance),
    CodecChoice::Auto(Mode::Balanced),
    CodecChoice::Auto(Mode::Archival),
];

/// Blocks of sample data; their bytes are the unit of one fingerprinting round, too.
const BLOCKS: usize = 4;

/// Rounds, of which the shortest counts: others of a core's threads slow it down now and then.
const ROUNDS: usize = 5;

/// The mean of segments.
const SEGMENT_BYTES: u32 = 8 << 10;

/// Returns the MB/s that a core cuts by content and fingerprints.
pub fn fingerprint_mb_per_s() -> f64 {
    let bytes = sample();
    let name_all = || {
        let mut rest = &bytes[..];
        for length in Cutter::new(ChunkerKind::Cdc, SEGMENT_BYTES).cut_whole(&bytes) {
            std::hint::black_box(fingerprint(FingerprintKind::Blake3, &rest[..length]));
            rest = &rest[length..];
        }
    };
    mb_per_s(bytes.len(), (0..ROUNDS).map(|_| timed(name_all).0).min())
}

/// Returns the MB/s that a core encodes, for each of [`RATED`] that is wanted; 0 for the others.
pub fn encode_mb_per_s(is_wanted: [bool; RATED.len()]) -> [f64; RATED.len()] {
    let bytes = sample();
    std::array::from_fn(|number| if is_wanted[number] { rate(&bytes, RATED[number]) } else { 0.0 })
}

/// In a thread of its own, which has learned nothing of other data; what it learns in the first round counts for the next.
fn rate(bytes: &[u8], choice: CodecChoice) -> f64 {
    let encode_all = || {
        for raw in bytes.chunks(BLOCK_BYTES) {
            std::hint::black_box(encode(BlockKind::Data, &[(Fingerprint([0; 32]), raw)], choice, 0));
        }
    };
    let rounds = if choice == CodecChoice::Auto(Mode::Archival) { 1 } else { ROUNDS };
    let shortest = || (0..rounds).map(|_| timed(encode_all).0).min();
    mb_per_s(bytes.len(), std::thread::scope(|scope| scope.spawn(shortest).join().expect("encoding does not panic")))
}

fn mb_per_s(bytes: usize, ns: Option<u64>) -> f64 {
    bytes as f64 * 1e3 / ns.unwrap_or(1).max(1) as f64
}

/// Half of them are doubles of a wave with noise in their lower bytes, half are floats of few digits, as simulations write both.
fn sample() -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut noise = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64
    };
    let half = BLOCKS * BLOCK_BYTES / 2;
    let wave = |number: usize| (number as f64 * 1e-3).sin();
    let doubles: Vec<u8> = (0..half / 8).flat_map(|number| (wave(number) + noise() * 1e-12).to_le_bytes()).collect();
    let floats = (0..half / 4).map(|number| ((wave(number) * 1e3 + noise() * 1e-7).round() / 1e3) as f32);
    doubles.into_iter().chain(floats.flat_map(f32::to_le_bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_those_of_a_processor() {
        assert!((10.0..1e5).contains(&fingerprint_mb_per_s()));
        let found = encode_mb_per_s([true, true, false, true, false]);
        assert!(found[0] > found[1] && found[1] > 1.0, "{found:?}");
        assert_eq!((found[2], found[4]), (0.0, 0.0));
    }
}
