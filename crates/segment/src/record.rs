//! Finds the length of the records that a block consists of, where nobody says: bytes are equal more often at that distance.

/// Longest record that is found (bytes).
pub(crate) const MAX_RECORD_BYTES: usize = 256;
/// Bytes that are compared with those behind them, in the middle of the block.
pub(crate) const WINDOW_BYTES: usize = 2048;
/// So many more bytes than at the mean of all distances must be equal.
const MIN_EXCESS: u32 = WINDOW_BYTES as u32 / 32;

/// Records that were found in a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Records {
    /// Of one record.
    pub bytes: u32,
    /// So many more bytes of the window are equal at that distance than at the mean of all.
    excess: u32,
}

/// Returns what of a block is looked at: its middle, or another place where the middle is nearly all of one value, as in files that
/// are written in parts.
pub(crate) fn window(raw: &[u8]) -> Option<(usize, &[u8])> {
    let at = |eighth: usize| {
        let begin = raw.len() * eighth / 8;
        raw.get(begin..)?.get(..WINDOW_BYTES + MAX_RECORD_BYTES).map(|window| (begin, window))
    };
    let says_something = |(_, window): &(usize, &[u8])| equal_bytes(&window[..WINDOW_BYTES], &window[1..]) < ONE_VALUE;
    PLACES.into_iter().filter_map(at).find(says_something).or_else(|| at(PLACES[0]))
}

/// In eighths of a block.
const PLACES: [usize; 7] = [4, 2, 6, 1, 5, 3, 7];
/// From so many bytes on that are equal to the next one, a window is nearly all of one value.
const ONE_VALUE: u32 = WINDOW_BYTES as u32 / 8 * 7;

/// Returns the shortest distance at which bytes of the window are equal nearly as often as at any, beyond the mean of all: multiples of
/// a record's length are as good as it, and a little better by chance.
pub(crate) fn found(window: &[u8]) -> Option<Records> {
    let (first, second) = window.split_at(WINDOW_BYTES / 2);
    // Of the first half all distances are looked at, and of the second those that may be the one.
    let half = by_distance(|distance| 2 * equal_bytes(first, &window[distance..]));
    let (mean, most) = mean_and_most(&half);
    let is_promising = |count: u32| (count - mean.min(count)) * 2 > most - mean;
    let counts = by_distance(|distance| match half[distance] {
        count if is_promising(count) => count / 2 + equal_bytes(&second[..WINDOW_BYTES / 2], &second[distance..]),
        count => count,
    });
    let (mean, most) = mean_and_most(&counts);
    let most = most - mean;
    let is_record = |&distance: &usize| {
        let is_nearly_most = counts[distance].saturating_sub(mean) * 8 >= most * 7;
        let behind = counts.get(distance + 1).copied().unwrap_or(0);
        is_nearly_most && counts[distance] >= counts[distance - 1].max(behind)
    };
    let found = (2..counts.len()).find(is_record).filter(|_| most >= MIN_EXCESS)?;
    Some(Records { bytes: found as u32, excess: counts[found] - mean })
}

/// Returns whether a window consists of records as they were found in another block: about as many bytes are equal at their distance, beyond
/// the mean of a few others, and neither nearly as many at a part of it nor many more at a multiple.
pub(crate) fn are_still(records: Records, window: &[u8]) -> bool {
    let record_bytes = records.bytes as usize;
    let equal_at = |distance: usize| equal_bytes(&window[..WINDOW_BYTES], &window[distance..]);
    let others = OTHER_DISTANCES.iter().filter(|distance| !distance.is_multiple_of(record_bytes));
    let count = others.clone().count() as u32;
    let mean = others.map(|distance| equal_at(*distance)).sum::<u32>() / count.max(1);
    let excess_at = |distance: usize| equal_at(distance).saturating_sub(mean);
    let excess = excess_at(record_bytes);
    let is_as_before = excess >= MIN_EXCESS && excess * 4 >= records.excess * 3 && excess * 3 <= records.excess * 4;
    let mut parts = (2..=record_bytes / 2).filter(|part| record_bytes.is_multiple_of(*part));
    let mut multiples = [2, 3].into_iter().map(|times| times * record_bytes).filter(|bytes| *bytes <= MAX_RECORD_BYTES);
    is_as_before
        && !parts.any(|part| excess_at(part) * 8 >= excess * 7)
        && !multiples.any(|multiple| excess_at(multiple) * 7 > excess * 8)
}

/// Odd ones, which elements seldom have in common.
const OTHER_DISTANCES: [usize; 8] = [9, 31, 61, 87, 125, 163, 197, 241];

type Counts = [u32; MAX_RECORD_BYTES + 1];

/// Counts for all distances; a run of one value is no record of one byte.
fn by_distance(count: impl Fn(usize) -> u32) -> Counts {
    std::array::from_fn(|distance| if distance < 2 { 0 } else { count(distance) })
}

fn mean_and_most(counts: &Counts) -> (u32, u32) {
    (counts.iter().sum::<u32>() / counts.len() as u32, counts.iter().copied().max().unwrap_or(0))
}

/// Bytes that are counted at a time, in bytes, which many lanes of a register do at once.
pub(crate) const FEW: usize = 128;

/// Returns how many bytes are equal to those at the same place of the other, which may be longer.
pub(crate) fn equal_bytes(one: &[u8], other: &[u8]) -> u32 {
    let count = |(one, other): (&[u8], &[u8])| {
        one.iter().zip(other).map(|(one, other)| (one == other) as u8).fold(0u8, u8::wrapping_add) as u32
    };
    one.chunks(FEW).zip(other.chunks(FEW)).map(count).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{field, random_bytes, text};

    fn record_bytes(raw: &[u8]) -> Option<u32> {
        found(window(raw)?.1).map(|records| records.bytes)
    }

    #[test]
    fn records_of_numbers_are_found() {
        for width in [5, 28, 56, 88] {
            let mut bytes = random_bytes(1, 60_000);
            // Every second byte of a record is the same in all.
            let fixed = |(at, byte): (usize, &mut u8)| {
                if at % width % 2 == 0 {
                    *byte = (at % width * 37) as u8
                }
            };
            bytes.iter_mut().enumerate().for_each(fixed);
            assert_eq!(record_bytes(&bytes), Some(width as u32));
        }
        assert_eq!(record_bytes(&field(3, 60_000)), Some(8));
    }

    #[test]
    fn records_are_found_behind_what_was_not_written_yet() {
        for begin in [8_000, 20_000, 34_000, 50_000] {
            let mut raw = vec![0; 60_000];
            raw[begin..].copy_from_slice(&field(3, 60_000 - begin));
            assert_eq!(record_bytes(&raw), Some(8), "from {begin} on");
        }
    }

    #[test]
    fn records_of_an_earlier_block_are_known_again_and_others_are_not() {
        let window_of = |raw: &'static [u8]| window(raw).unwrap().1;
        let leaked = |raw: Vec<u8>| window_of(raw.leak());
        let records = found(leaked(field(3, 60_000))).unwrap();
        for shift in [0, 1, 5] {
            assert!(are_still(records, leaked(field(4, 60_000)[shift..].to_vec())));
        }
        let singles = (0..15_000).flat_map(|at| ((at as f32 * 0.01).sin() + 1.5).to_le_bytes()).collect();
        for other in [random_bytes(1, 60_000), text(1, 60_000), vec![0; 60_000], singles] {
            assert!(!are_still(records, leaked(other)));
        }
    }

    #[test]
    fn where_there_are_none_none_are_found() {
        assert_eq!(record_bytes(&random_bytes(1, 60_000)), None);
        assert_eq!(record_bytes(&[0; 60_000]), None);
        assert_eq!(record_bytes(&text(1, 2000)), None);
    }
}
