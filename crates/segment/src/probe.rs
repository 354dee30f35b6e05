//! A cheap test of a block before deciding how to compress it.
//!
//! Incompressible data must cost next to nothing, so the probe reads a few KiB of a block, whatever its size:
//! how even the bytes are, and, where they are even, whether stretches repeat, which no histogram shows.
//! Samples are spread over the block: a block may hold segments of many files.

use policy::compression::Probe;

use crate::fingerprint::is_zero;
use crate::record::equal_bytes;

/// Runs of bytes that are counted, and their length: a cache line each, 4 KiB in all.
const RUNS: usize = 64;
const RUN_BYTES: usize = 64;

/// Runs that are looked at where time is short.
const FEW_RUNS: usize = 16;

/// Even bytes below this many collisions are searched for repeats; `policy` sets its threshold lower.
const LOOK_FOR_REPEATS_BELOW: f32 = 1.1;

/// Collisions where all bytes are equal.
const CONSTANT: f32 = 256.0;

/// Words remembered by the search for repeats, and stretches of the block that are compared with them.
const ANCHORS: usize = 1024;
const STRETCHES: usize = 8;
const WORD_BYTES: usize = 8;

/// Returns what a look at a few KiB of the block says.
pub(crate) fn probe(raw: &[u8]) -> Probe {
    let byte_collisions = byte_collisions(raw);
    Probe {
        byte_collisions,
        repeats: byte_collisions < LOOK_FOR_REPEATS_BELOW && repeats(raw),
        zeros: byte_collisions == CONSTANT && is_zero(raw),
    }
}

/// Returns whether neighbouring bytes are equal nearly everywhere, by a look at 1 KiB: such blocks shrink most and take the least time.
pub(crate) fn is_nearly_constant(raw: &[u8]) -> bool {
    if raw.len() <= RUNS * RUN_BYTES {
        return is_zero(raw);
    }
    let few = runs(raw).step_by(RUNS / FEW_RUNS);
    let equal: u32 = few.map(|run| equal_bytes(&run[..RUN_BYTES - 1], &run[1..])).sum();
    equal as usize * 4 > FEW_RUNS * (RUN_BYTES - 1) * 3
}

/// Returns Σ count·(count − 1) over all byte values, relative to what random bytes would give; free of bias, whatever
/// the size of the sample.
fn byte_collisions(raw: &[u8]) -> f32 {
    let counts = if raw.len() <= RUNS * RUN_BYTES { count(raw.chunks(RUN_BYTES)) } else { count(runs(raw)) };
    let sampled: u32 = counts.iter().sum();
    if sampled < 2 {
        return 1.0;
    }
    let equal_pairs: u64 = counts.iter().map(|&count| count as u64 * count.saturating_sub(1) as u64).sum();
    equal_pairs as f32 * 256.0 / (sampled as f32 * (sampled - 1) as f32)
}

/// Returns runs spread over a block longer than all of them; unevenly, so as not to fall in step with records in it.
fn runs(raw: &[u8]) -> impl Iterator<Item = &[u8]> {
    let step = raw.len() / RUNS;
    let play = step - RUN_BYTES + 1;
    (0..RUNS).map(move |run| {
        let at = run * step + run * 1_000_003 % play;
        &raw[at..at + RUN_BYTES]
    })
}

/// Counts how often each byte value occurs. Four tables, since equal neighbours would wait for each other in one.
fn count<'a>(runs: impl Iterator<Item = &'a [u8]>) -> [u32; 256] {
    let [mut one, mut two, mut three, mut four] = [[0u32; 256]; 4];
    for run in runs {
        let (fours, rest) = run.as_chunks::<4>();
        for &[a, b, c, d] in fours {
            one[a as usize] += 1;
            two[b as usize] += 1;
            three[c as usize] += 1;
            four[d as usize] += 1;
        }
        rest.iter().for_each(|&byte| one[byte as usize] += 1);
    }
    std::array::from_fn(|value| one[value] + two[value] + three[value] + four[value])
}

/// Returns whether the words at anchors, spread evenly over the block, occur elsewhere too. A stretch is as long as
/// anchors are apart: one that lies in a repetition meets an anchor of the original, however the two are aligned. A
/// word of zeros passes for a repetition: the table begins as zeros, and such a block deserves a try.
fn repeats(raw: &[u8]) -> bool {
    let apart = (raw.len() / ANCHORS).max(WORD_BYTES);
    let mut anchors = [0u64; 2 * ANCHORS];
    for piece in raw.chunks_exact(apart) {
        let word = word(piece);
        if std::mem::replace(&mut anchors[slot(word)], word) == word {
            return true;
        }
    }
    // From just behind an anchor to just before the next one, so that none meets itself.
    let stretch = |anchor: usize| raw.get(anchor * apart + 1..(anchor + 1) * apart + WORD_BYTES - 1);
    let step = (raw.len() / apart / STRETCHES).max(1);
    let mut stretches = (0..STRETCHES).filter_map(|number| stretch(number * step));
    stretches.any(|bytes| bytes.windows(WORD_BYTES).any(|at| anchors[slot(word(at))] == word(at)))
}

fn word(bytes: &[u8]) -> u64 {
    u64::from_le_bytes(*bytes.first_chunk::<WORD_BYTES>().expect("pieces and windows hold a word"))
}

/// Returns a word's slot: the top bits of a product depend on all bits of the word.
fn slot(word: u64) -> usize {
    (word.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (u64::BITS - (2 * ANCHORS).ilog2())) as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{random_bytes, text};

    #[test]
    fn random_bytes_look_even_and_without_repeats_at_every_size() {
        for length in [2048, 4096, 5000, 65_536, 262_144, 1 << 20] {
            for seed in 1..50 {
                let seen = probe(&random_bytes(seed, length));
                assert!((0.8..1.2).contains(&seen.byte_collisions) && !seen.repeats, "{length}, seed {seed}: {seen:?}");
                assert!(length < 4096 || seen.byte_collisions < 1.04, "{length}, seed {seed}: {seen:?}");
            }
        }
    }

    #[test]
    fn a_repetition_far_away_and_unaligned_is_seen() {
        let mut bytes = random_bytes(3, 262_144);
        let copy = bytes[1000..131_000].to_vec();
        bytes[132_077..132_077 + copy.len()].copy_from_slice(&copy);
        assert!(probe(&bytes).repeats);
        assert!(!policy::compression::is_incompressible(probe(&bytes)));
    }

    #[test]
    fn short_and_constant_blocks_can_be_probed() {
        for length in 0..40 {
            probe(&random_bytes(1, length));
            probe(&vec![5; length]);
        }
        assert_eq!(probe(&[7; 10_000]).byte_collisions, 256.0);
    }

    #[test]
    fn nearly_constant_blocks_are_told_from_others() {
        let mut sparse = vec![0; 256 << 10];
        sparse[100_000..140_000].copy_from_slice(&random_bytes(2, 40_000));
        assert!(is_nearly_constant(&sparse) && is_nearly_constant(&vec![7; 256 << 10]));
        for raw in [random_bytes(1, 256 << 10), text(1, 256 << 10), vec![1; 4096]] {
            assert!(!is_nearly_constant(&raw));
        }
    }
}
