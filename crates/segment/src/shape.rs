//! Finds what numbers a block consists of, where nobody says: the length of their records, and of the elements in them.

use policy::Element;
use policy::compression::Data;

use crate::record::{self, Records, WINDOW_BYTES};

/// The longest byte of an element must be equal to the record's before so much more often than the byte behind it (share).
const MIN_STEP: f32 = 0.04;

/// A shorter element is taken where its steps are nearly as high as those of one twice as long: half as high, they are that
/// one's, of which every second is none.
const SAME_STEP: f32 = 0.7;

/// Returns what the bytes look like; elements are named as whole numbers, since only their length is found.
pub fn found(raw: &[u8]) -> Data {
    RecentRecords::default().found(raw, false)
}

/// The records of the last block, which are looked for first in the next ones where two searches in a row found the same.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct RecentRecords {
    records: Option<Records>,
    /// For so many blocks more; then all lengths are looked at again.
    left: u32,
}

/// All lengths are looked at once in so many blocks.
const SEARCH_EVERY: u32 = 16;

impl RecentRecords {
    /// As [`found`]; of big-endian numbers where that is said.
    pub fn found(&mut self, raw: &[u8], is_big_endian: bool) -> Data {
        let Some((begin, window)) = record::window(raw) else { return Data::default() };
        let Some(records) = self.records(window) else { return Data::default() };
        let record_length = records.bytes;
        let equal = equal_at(window, record_length as usize);
        let (element, first) = if is_big_endian { big_endian_element(equal) } else { element(&equal) };
        let phase = (begin + first) % record_length as usize;
        let is_big_endian = is_big_endian && element != Element::U8;
        Data { element, record_length, phase: phase as u32, is_big_endian, ..Data::default() }
    }

    fn records(&mut self, window: &[u8]) -> Option<Records> {
        if self.left > 0 && self.records.is_some_and(|records| record::are_still(records, window)) {
            self.left -= 1;
            return self.records;
        }
        let found = record::found(window);
        let bytes = |records: Option<Records>| records.map(|records| records.bytes);
        let is_confirmed = found.is_some() && bytes(found) == bytes(self.records);
        *self = RecentRecords { records: found, left: if is_confirmed { SEARCH_EVERY - 1 } else { 0 } };
        self.records
    }
}

/// As [`element`]: read backwards, big-endian numbers are little-endian ones.
fn big_endian_element(mut equal: Vec<f32>) -> (Element, usize) {
    equal.reverse();
    let (element, first) = element(&equal);
    (element, (element.bytes() - first) % element.bytes())
}

/// Returns how often the byte at each position of a record is equal to that of the record before (share).
fn equal_at(window: &[u8], record_bytes: usize) -> Vec<f32> {
    let records = WINDOW_BYTES / record_bytes;
    let mut equal = vec![0.0; record_bytes];
    for (one, other) in
        window.chunks_exact(record_bytes).zip(window[record_bytes..].chunks_exact(record_bytes)).take(records)
    {
        equal.iter_mut().zip(one.iter().zip(other)).for_each(|(sum, (one, other))| *sum += (one == other) as u8 as f32);
    }
    equal.iter_mut().for_each(|sum| *sum /= records as f32);
    equal
}

/// Returns the elements that the records consist of, and where in the window the first one begins: the highest byte of a
/// number is the most alike from record to record, and the lowest one, which follows it, the least.
fn element(equal: &[f32]) -> (Element, usize) {
    let mut found = (Element::U8, 0, MIN_STEP);
    for element in [Element::U64, Element::U32, Element::U16] {
        if !equal.len().is_multiple_of(element.bytes()) {
            continue;
        }
        let (first, step) = highest_step(equal, element.bytes());
        let wanted = if found.0 == Element::U8 { MIN_STEP } else { found.2 * SAME_STEP };
        if step >= wanted {
            found = (element, first, step);
        }
    }
    (found.0, found.1)
}

/// Returns where elements of this length begin, and how much more often the bytes before those places are equal than the bytes there.
fn highest_step(equal: &[f32], element_bytes: usize) -> (usize, f32) {
    let step_at = |position: usize| equal[(position + equal.len() - 1) % equal.len()] - equal[position];
    let mean = |first: usize| {
        let positions = (first..equal.len()).step_by(element_bytes);
        positions.map(step_at).sum::<f32>() * element_bytes as f32 / equal.len() as f32
    };
    let steps = (0..element_bytes).map(|first| (first, mean(first)));
    steps.max_by(|one, other| one.1.total_cmp(&other.1)).expect("elements have bytes")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::{field, random_bytes, text};

    fn found_big_endian(raw: &[u8]) -> Data {
        RecentRecords::default().found(raw, true)
    }

    fn floats(count: usize, bytes: impl Fn(f64) -> Vec<u8>) -> Vec<u8> {
        let noise = random_bytes(9, count);
        let value = |(at, noise): (usize, &u8)| (at as f64 * 0.01).sin() + *noise as f64 * 1e-5 + 1.5;
        noise.iter().enumerate().map(value).flat_map(bytes).collect()
    }

    #[test]
    fn elements_are_found_wherever_they_begin() {
        let doubles = floats(30_000, |value| value.to_le_bytes().to_vec());
        let singles = floats(60_000, |value| (value as f32).to_le_bytes().to_vec());
        for shift in [0, 1, 3, 6] {
            let data = found(&doubles[shift..]);
            assert_eq!((data.element, data.record_length), (Element::U64, 8), "shift {shift}");
            assert_eq!(data.phase, (8 - shift as u32) % 8);
            let data = found(&singles[shift..]);
            assert_eq!((data.element, data.record_length), (Element::U32, 4), "shift {shift}");
            assert_eq!(data.phase, (4 - shift as u32 % 4) % 4);
        }
    }

    #[test]
    fn big_endian_numbers_are_found_wherever_they_begin() {
        let doubles = floats(30_000, |value| value.to_be_bytes().to_vec());
        let singles = floats(60_000, |value| (value as f32).to_be_bytes().to_vec());
        for (raw, bytes) in [(doubles, 8), (singles, 4)] {
            for shift in [0, 1, 3, 6] {
                let data = found_big_endian(&raw[shift..]);
                assert!(data.is_big_endian, "{bytes} bytes, shift {shift}: {data:?}");
                assert_eq!((data.element.bytes(), data.record_length as usize), (bytes, bytes));
                assert_eq!(data.phase as usize, (bytes - shift % bytes) % bytes);
            }
        }
        assert!(!found_big_endian(&text(1, 60_000)).is_big_endian);
    }

    #[test]
    fn pairs_of_short_numbers_are_not_one_long_number() {
        let pairs =
            floats(30_000, |value| [(value as f32).to_le_bytes(), (-7.0 * value as f32).to_le_bytes()].concat());
        assert_eq!(found(&pairs).element, Element::U32);
        assert_eq!(found(&field(3, 60_000)).element, Element::U64);
    }

    #[test]
    fn bytes_stay_bytes() {
        for raw in [random_bytes(1, 60_000), text(1, 60_000), vec![0; 60_000], vec![1; 100]] {
            assert_eq!(found(&raw).element, Element::U8);
        }
    }
}
