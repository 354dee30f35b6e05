//! Finds the length of the records that a block consists of, where nobody says: bytes are equal more often at that distance.

/// Longest record that is found (bytes).
pub(crate) const MAX_RECORD_BYTES: usize = 256;
/// Bytes that are compared with those behind them, in the middle of the block.
pub(crate) const WINDOW_BYTES: usize = 2048;
/// So many more bytes than at the mean of all distances must be equal.
const MIN_EXCESS: u32 = WINDOW_BYTES as u32 / 32;

/// Returns the shortest distance at which bytes are equal nearly as often as at any, beyond the mean of all: multiples of a
/// record's length are as good as it, and a little better by chance.
pub(crate) fn record_bytes(raw: &[u8]) -> Option<u32> {
    let sample = raw.get(raw.len() / 2..)?.get(..WINDOW_BYTES + MAX_RECORD_BYTES)?;
    let (first, second) = sample.split_at(WINDOW_BYTES / 2);
    // Of the first half all distances are looked at, and of the second those that may be the one.
    let half = by_distance(|distance| 2 * equal_bytes(first, &sample[distance..]));
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
    let found = (2..counts.len()).find(is_record);
    found.filter(|_| most >= MIN_EXCESS).map(|distance| distance as u32)
}

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
    fn where_there_are_none_none_are_found() {
        assert_eq!(record_bytes(&random_bytes(1, 60_000)), None);
        assert_eq!(record_bytes(&[0; 60_000]), None);
        assert_eq!(record_bytes(&text(1, 2000)), None);
    }
}
