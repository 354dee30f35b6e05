//! The cutters against naive or well-known ones: a rescan of everything, and the `fastcdc` crate.

use std::collections::HashSet;

use fastcdc::v2020::FastCDC;
use format::ChunkerKind;
use proptest::prelude::*;
use random::Random;

use super::{ContentCutter, Cutter, SeveralCutter};
use crate::random::{random_bytes, text};

const MEAN_BYTES: u32 = 8192;

/// Returns the lengths found when the input arrives in the given portions.
fn cut_in_portions(mut cutter: Cutter, bytes: &[u8], mut portion: impl FnMut() -> usize) -> Vec<usize> {
    let (mut lengths, mut from, mut to) = (Vec::new(), 0, 0);
    loop {
        match cutter.next(&bytes[from..to], to == bytes.len()) {
            Some(length) => {
                lengths.push(length);
                from += length;
            }
            None if to == bytes.len() => return lengths,
            None => to = (to + portion()).min(bytes.len()),
        }
    }
}

/// Returns portion lengths; every seventh is a single byte, so that edges fall everywhere.
fn portions(seed: u64, longest: usize) -> impl FnMut() -> usize {
    let mut random = Random::new(seed);
    move || if random.index(7) == 0 { 1 } else { 1 + random.index(longest) }
}

/// Cuts by the definition, with no state and no unrolling: a cut is where the hash of the last 64 bytes is small.
fn plain_cut(bytes: &[u8], mean: usize) -> Vec<usize> {
    let hash = |window: &[u8]| {
        window.iter().fold(0u64, |hash, &byte| (hash << 1).wrapping_add(super::content::GEAR[byte as usize]))
    };
    let (mut lengths, mut from) = (Vec::new(), 0);
    while from < bytes.len() {
        let rest = &bytes[from..];
        let is_cut = |&length: &usize| {
            let probability = if length <= mean * 842 / 1024 { 0.25 } else { 4.0 };
            (hash(&rest[length - 64..length]) as f64) < 2f64.powi(64) * probability / mean as f64
        };
        let length = (mean / 4..rest.len().min(mean * 8)).find(is_cut).unwrap_or(rest.len().min(mean * 8));
        lengths.push(length);
        from += length;
    }
    lengths
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn boundaries_do_not_depend_on_how_the_bytes_arrive(seed: u64, length in 0usize..300_000, longest in 1usize..50_000) {
        let bytes = if seed % 2 == 0 { random_bytes(seed, length) } else { text(seed, length) };
        for kind in [ChunkerKind::Cdc, ChunkerKind::Fixed, ChunkerKind::File] {
            let whole = Cutter::new(kind, 1024).cut_whole(&bytes);
            prop_assert_eq!(whole.iter().sum::<usize>(), length);
            prop_assert_eq!(cut_in_portions(Cutter::new(kind, 1024), &bytes, portions(seed, longest)), whole);
        }
    }

    #[test]
    fn the_content_cutter_cuts_as_its_definition_says(seed: u64, length in 0usize..40_000) {
        let bytes = if seed % 2 == 0 { random_bytes(seed, length) } else { text(seed, length) };
        prop_assert_eq!(Cutter::new(ChunkerKind::Cdc, 512).cut_whole(&bytes), plain_cut(&bytes, 512));
    }
}

/// Returns the lengths that a cutter for several means finds for each of them, fed in the given portions.
fn cut_by_several(means: &[u32], bytes: &[u8], mut portion: impl FnMut() -> usize) -> Vec<Vec<usize>> {
    let mut cutter = SeveralCutter::new(means);
    let (mut ends, mut from) = (vec![Vec::new(); means.len()], 0);
    // The file before has left its last bytes in the hash.
    cutter.feed(&random_bytes(99, 10_000), |_, _| ());
    cutter.end_file();
    while from < bytes.len() {
        let to = (from + portion()).min(bytes.len());
        cutter.feed(&bytes[from..to], |mean, end| ends[mean].push(from + end));
        from = to;
    }
    let lengths = |mut ends: Vec<usize>| {
        if ends.last().copied().unwrap_or(0) < bytes.len() {
            ends.push(bytes.len());
        }
        [0].iter().chain(&ends).zip(&ends).map(|(begin, end)| end - begin).collect()
    };
    ends.into_iter().map(lengths).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn several_lengths_in_one_pass_are_cut_as_each_by_itself(seed: u64, length in 0usize..300_000, longest in 1usize..50_000) {
        let mut bytes = if seed % 2 == 0 { random_bytes(seed, length) } else { text(seed, length) };
        // Where nothing varies, segments end at their longest.
        bytes.extend(vec![0; length % 70_000]);
        bytes.extend(random_bytes(seed ^ 1, length / 3));
        let means = [512, 4096, 1024];
        let found = cut_by_several(&means, &bytes, portions(seed, longest));
        for (mean, found) in means.into_iter().zip(found) {
            prop_assert_eq!(Cutter::new(ChunkerKind::Cdc, mean).cut_whole(&bytes), found, "{}", mean);
        }
    }
}

#[test]
fn segments_have_the_mean_length_asked_for() {
    let bytes = random_bytes(11, 16 << 20);
    for mean in [1024, MEAN_BYTES, 65_536] {
        let found = bytes.len() as f64 / Cutter::new(ChunkerKind::Cdc, mean).cut_whole(&bytes).len() as f64;
        assert!((found / mean as f64 - 1.0).abs() < 0.05, "{found} for {mean}");
    }
}

#[test]
fn constant_data_is_cut_at_the_longest_length() {
    let longest = ContentCutter::new(512).max_segment_bytes();
    assert_eq!(Cutter::new(ChunkerKind::Cdc, 512).cut_whole(&vec![0; 3 * longest]), [longest; 3]);
}

/// Cut points decide what deduplicates across versions: this test may gain lines, but none may change.
#[test]
fn cut_points_are_frozen() {
    let lengths = Cutter::new(ChunkerKind::Cdc, 1024).cut_whole(&random_bytes(1, 10_000));
    assert_eq!(lengths, [1131, 942, 858, 1276, 739, 911, 1319, 1035, 934, 855]);
    let table: Vec<u8> = super::content::GEAR.iter().flat_map(|number| number.to_le_bytes()).collect();
    assert_eq!(blake3::hash(&table).to_hex()[..16], *"e4c0e523b1550683");
}

/// Returns the share of bytes of `edited` that occur as a segment of `original`.
fn found_again(original: &[u8], edited: &[u8], cut: impl Fn(&[u8]) -> Vec<usize>) -> f64 {
    let segments = |bytes: &'_ [u8]| {
        let mut from = 0;
        let ends = cut(bytes).into_iter().map(move |length| {
            from += length;
            from - length..from
        });
        ends.collect::<Vec<_>>()
    };
    let known: HashSet<&[u8]> = segments(original).into_iter().map(|range| &original[range]).collect();
    let found: usize = segments(edited)
        .into_iter()
        .filter(|range| known.contains(&edited[range.clone()]))
        .map(|range| range.len())
        .sum();
    found as f64 / edited.len() as f64
}

/// Inserts a few bytes at random places, about 64 KiB apart.
fn with_insertions(bytes: &[u8], seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let mut edited = Vec::with_capacity(bytes.len() + bytes.len() / 100);
    let mut rest = bytes;
    while !rest.is_empty() {
        let (kept, after) = rest.split_at(rest.len().min(1 + random.index(131_072)));
        edited.extend_from_slice(kept);
        edited.extend(random_bytes(random.next(), 1 + random.index(20)));
        rest = after;
    }
    edited
}

/// Minimum and centre for `fastcdc`. Its nominal setting yields segments of 10 KiB, not 8.
const NOMINAL: (usize, usize) = (2048, 8192);
/// With this one its segments are as long as ours.
const MATCHED: (usize, usize) = (1024, 5800);

#[test]
fn fastcdc_matched_to_us_has_our_mean_length() {
    let bytes = random_bytes(5, 16 << 20);
    let theirs = FastCDC::new(&bytes, MATCHED.0, MATCHED.1, 65_536).count() as f64;
    let ours = Cutter::new(ChunkerKind::Cdc, MEAN_BYTES).cut_whole(&bytes).len() as f64;
    assert!((theirs / ours - 1.0).abs() < 0.05, "{theirs} segments against {ours}");
}

#[test]
fn savings_after_insertions_are_those_of_fastcdc() {
    for (least, centre) in [NOMINAL, MATCHED] {
        let fastcdc = |bytes: &[u8]| FastCDC::new(bytes, least, centre, 65_536).map(|piece| piece.length).collect();
        for (seed, bytes) in [(1, random_bytes(1, 24 << 20)), (2, text(2, 24 << 20))] {
            let edited = with_insertions(&bytes, seed);
            let theirs = found_again(&bytes, &edited, fastcdc);
            let ours = found_again(&bytes, &edited, |bytes| Cutter::new(ChunkerKind::Cdc, MEAN_BYTES).cut_whole(bytes));
            println!("fastcdc {least}/{centre}: ours {ours:.4}, theirs {theirs:.4}");
            assert!(ours > theirs - 0.01, "seed {seed}, {least}/{centre}: {ours} against {theirs}");
        }
    }
}
