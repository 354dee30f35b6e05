//! Rearranges a block's bytes before they are compressed, and back: one file per filter, each with the same two functions.
//!
//! A filter sees the block's whole records only. `encode` and `decode` write all of `to`, which is as long as `from`, and
//! reverse each other for any bytes.

mod byte_delta;
mod delta;
mod shuffle;

use std::cell::RefCell;
use std::ops::Range;

use format::{BlockHeader, Filter};
use policy::compression::Filters;

use crate::error::{Result, corrupt};

/// Capacity a thread keeps of its buffers after a block of unusual size (bytes).
const KEPT_BUFFER_BYTES: usize = 1 << 20;

/// The filters of a block, and the records that they take it for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filtering {
    list: [Option<Filter>; 4],
    record_bytes: usize,
    /// Bytes before the first whole record.
    phase: usize,
    element_bytes: usize,
}

thread_local! {
    static BUFFERS: RefCell<[Vec<u8>; 2]> = const { RefCell::new([Vec::new(), Vec::new()]) };
}

impl Filtering {
    /// Returns the filters that `policy` chose for a block that begins with a record.
    pub fn chosen(filters: Filters) -> Self {
        let (list, record_bytes, element_bytes): (&[_], u32, u8) = match filters {
            Filters::None => (&[], 0, 0),
            Filters::Shuffle { record_bytes } => (&[Filter::Shuffle], record_bytes, 0),
            Filters::ShuffleByteDelta { record_bytes } => (&[Filter::Shuffle, Filter::ByteDelta], record_bytes, 0),
            Filters::DeltaShuffle { record_bytes, element_bytes } => {
                (&[Filter::Delta, Filter::Shuffle], record_bytes, element_bytes)
            }
        };
        let list = std::array::from_fn(|at| list.get(at).copied());
        Filtering { list, record_bytes: record_bytes as usize, phase: 0, element_bytes: element_bytes.into() }
    }

    /// Reads them from the header of a block, which anybody may have written.
    pub fn of(header: &BlockHeader) -> Result<Self> {
        let mut list = [None; 4];
        for (to, &number) in list.iter_mut().zip(header.filters.iter().take_while(|&&number| number != 0)) {
            *to = Some(Filter::from_byte(number)?);
        }
        let filtering = Filtering {
            list,
            record_bytes: header.record_length as usize,
            phase: header.phase as usize,
            element_bytes: header.element_bytes.into(),
        };
        filtering.check().map(|()| filtering)
    }

    fn check(&self) -> Result<()> {
        let is_delta = self.list.contains(&Some(Filter::Delta));
        let has_elements =
            matches!(self.element_bytes, 1 | 2 | 4 | 8) && self.record_bytes.is_multiple_of(self.element_bytes);
        match self {
            _ if self.is_empty() => Ok(()),
            Filtering { record_bytes: 0, .. } => corrupt("it has filters, but no length of a record"),
            _ if self.phase >= self.record_bytes => {
                corrupt(format!("phase {} is outside of a record of {} bytes", self.phase, self.record_bytes))
            }
            _ if is_delta && !has_elements => {
                let why =
                    format!("elements of {} bytes do not fill a record of {}", self.element_bytes, self.record_bytes);
                corrupt(why)
            }
            _ => Ok(()),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.list[0].is_none()
    }

    /// Writes the filters into the header of a block that was encoded with them.
    pub fn describe(&self, header: &mut BlockHeader) {
        if self.is_empty() {
            return;
        }
        header.filters = self.list.map(|filter| filter.map_or(0, |filter| filter as u8));
        header.record_length = self.record_bytes as u32;
        header.phase = self.phase as u32;
        header.element_bytes = self.element_bytes as u8;
    }

    /// Passes on the rearranged bytes.
    pub fn with_filtered<T>(&self, raw: &[u8], receive: impl FnOnce(&[u8]) -> T) -> T {
        if self.is_empty() {
            return receive(raw);
        }
        BUFFERS.with_borrow_mut(|[from, to]| {
            from.clear();
            from.extend_from_slice(raw);
            for filter in self.list.iter().flatten() {
                self.step(from, to, |from, to| self.encode(*filter, from, to));
                std::mem::swap(from, to);
            }
            let received = receive(from);
            for buffer in [from, to] {
                buffer.truncate(KEPT_BUFFER_BYTES);
                buffer.shrink_to(KEPT_BUFFER_BYTES);
            }
            received
        })
    }

    /// Returns the bytes as they were.
    pub fn undo(&self, filtered: Vec<u8>) -> Vec<u8> {
        let (mut from, mut to) = (filtered, Vec::new());
        for filter in self.list.iter().rev().flatten() {
            self.step(&from, &mut to, |from, to| self.decode(*filter, from, to));
            std::mem::swap(&mut from, &mut to);
        }
        from
    }

    /// Has the whole records of `from` written to `to`, and copies the rest.
    fn step(&self, from: &[u8], to: &mut Vec<u8>, rearrange: impl FnOnce(&[u8], &mut [u8])) {
        let Range { start, end } = self.records(from.len());
        to.resize(from.len(), 0);
        if start == end {
            return to.copy_from_slice(from);
        }
        to[..start].copy_from_slice(&from[..start]);
        to[end..].copy_from_slice(&from[end..]);
        rearrange(&from[start..end], &mut to[start..end]);
    }

    fn records(&self, bytes: usize) -> Range<usize> {
        let start = self.phase.min(bytes);
        start..start + (bytes - start) / self.record_bytes * self.record_bytes
    }

    fn encode(&self, filter: Filter, from: &[u8], to: &mut [u8]) {
        match filter {
            Filter::Shuffle => shuffle::encode(from, self.record_bytes, to),
            Filter::Delta => delta::encode(from, self.record_bytes, self.element_bytes, to),
            Filter::ByteDelta => byte_delta::encode(from, self.record_bytes, to),
        }
    }

    fn decode(&self, filter: Filter, from: &[u8], to: &mut [u8]) {
        match filter {
            Filter::Shuffle => shuffle::decode(from, self.record_bytes, to),
            Filter::Delta => delta::decode(from, self.record_bytes, self.element_bytes, to),
            Filter::ByteDelta => byte_delta::decode(from, self.record_bytes, to),
        }
    }
}

#[cfg(test)]
mod tests {
    use random::Random;

    use super::*;
    use crate::random::{field, random_bytes};

    const ALL: [Filter; 3] = [Filter::Shuffle, Filter::Delta, Filter::ByteDelta];

    /// Returns up to four filters, in any order, over records of any length.
    fn any_filtering(random: &mut Random) -> Filtering {
        let element_bytes = [1, 2, 4, 8][random.index(4)];
        let record_bytes = element_bytes * (1 + random.index(40));
        let list = std::array::from_fn(|_| Some(ALL[random.index(3)]));
        Filtering { list, record_bytes, phase: random.index(record_bytes), element_bytes }
    }

    #[test]
    fn whatever_is_filtered_comes_back() {
        for seed in 0..2000 {
            let mut random = Random::new(seed);
            let filtering = any_filtering(&mut random);
            let raw = [random_bytes, field][random.index(2)](seed, random.index(5000));
            let filtered = filtering.with_filtered(&raw, <[u8]>::to_vec);
            assert_eq!(filtered.len(), raw.len());
            assert_eq!(filtering.undo(filtered), raw, "seed {seed}, {filtering:?}, {} bytes", raw.len());
        }
    }

    #[test]
    fn shuffled_records_are_planes() {
        let shuffle = Filtering::chosen(Filters::Shuffle { record_bytes: 3 });
        assert_eq!(shuffle.with_filtered(b"abcabcabcab", <[u8]>::to_vec), b"aaabbbcccab");
        let behind_a_part = Filtering { phase: 1, ..shuffle };
        assert_eq!(behind_a_part.with_filtered(b"cabcabcab", <[u8]>::to_vec), b"caabbccab");
    }

    #[test]
    fn elements_that_grow_evenly_become_equal() {
        let delta =
            Filtering { list: [Some(Filter::Delta), None, None, None], record_bytes: 8, phase: 0, element_bytes: 4 };
        let raw: Vec<u8> = [7u32, 1_000, 8, 900, 9, 800].iter().flat_map(|value| value.to_le_bytes()).collect();
        let expected: Vec<u8> = [7u32, 1_000, 1, 100u32.wrapping_neg(), 1, 100u32.wrapping_neg()]
            .iter()
            .flat_map(|value| value.to_le_bytes())
            .collect();
        assert_eq!(delta.with_filtered(&raw, <[u8]>::to_vec), expected);
        let planes = Filtering::chosen(Filters::ShuffleByteDelta { record_bytes: 2 });
        assert_eq!(planes.with_filtered(&[1, 9, 2, 9, 3, 9], <[u8]>::to_vec), [1, 1, 1, 9, 0, 0]);
    }
}
