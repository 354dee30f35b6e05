//! Rearranges a block's bytes before its codec, and back: one file per filter, all with the same two functions.
//!
//! A filter takes as many bytes as it gives. It leaves the first `phase` bytes of a block as they are, works on all whole
//! records (or elements) behind, and leaves the unfinished one at the end as it is, too. `policy` has checked the
//! encoding before any of this runs.

mod bit_shuffle;
mod byte_delta;
mod byte_swap;
mod columns;
mod delta;
mod neighbours;
mod shuffle;
mod transpose;
mod xor_delta;

use std::cell::RefCell;

use policy::compression::Data;
use policy::{Compression, Encoding, Filter};

use crate::buffer::{grow, trim};

thread_local! {
    static BUFFERS: RefCell<[Vec<u8>; 2]> = const { RefCell::new([Vec::new(), Vec::new()]) };
}

/// How a filter finds the bytes it works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    pub element_bytes: usize,
    /// Length of a record, or of an element where there are no records (bytes).
    pub unit_bytes: usize,
    /// Bytes before the first unit.
    head_bytes: usize,
}

impl Layout {
    /// Returns the layout behind these filters: columns have no records any more.
    pub fn behind(encoding: &Encoding, filters: &[Option<Filter>]) -> Self {
        let element_bytes = encoding.element.bytes();
        let in_columns = filters.contains(&Some(Filter::Columns));
        let unit_bytes = if in_columns { element_bytes } else { encoding.unit_bytes() };
        Layout { element_bytes, unit_bytes, head_bytes: encoding.phase as usize }
    }

    /// Returns the head, the whole units, and the tail of a block.
    pub fn split<'a>(&self, block: &'a [u8]) -> (&'a [u8], &'a [u8], &'a [u8]) {
        let (head, rest) = block.split_at(self.head_bytes.min(block.len()));
        let (units, tail) = rest.split_at(rest.len() / self.unit_bytes * self.unit_bytes);
        (head, units, tail)
    }
}

/// Passes on `raw` as the encoding's filters leave it.
pub(crate) fn with_filtered<T>(encoding: &Encoding, raw: &[u8], receive: impl FnOnce(&[u8]) -> T) -> T {
    if encoding.filters[0].is_none() {
        return receive(raw);
    }
    BUFFERS.with_borrow_mut(|[from, to]| {
        for (number, filter) in encoding.filters.iter().flatten().enumerate() {
            grow(to, raw.len());
            let source = if number == 0 { raw } else { &from[..raw.len()] };
            let layout = Layout::behind(encoding, &encoding.filters[..number]);
            apply(encoder(*filter), &layout, source, &mut to[..raw.len()]);
            std::mem::swap(from, to);
        }
        let received = receive(&from[..raw.len()]);
        [from, to].into_iter().for_each(trim);
        received
    })
}

/// Returns a block of big-endian elements with the bytes of each in reverse order, as models know numbers.
pub(crate) fn little_endian(raw: &[u8], data: &Data) -> Vec<u8> {
    let Data { element, record_length, phase, .. } = *data;
    let filters = [Some(Filter::ByteSwap), None, None, None];
    let swap = Encoding { filters, element, record_length, phase, ..Encoding::plain(Compression::None) };
    match swap.check() {
        Ok(()) => with_filtered(&swap, raw, <[u8]>::to_vec),
        Err(_) => raw.to_vec(),
    }
}

/// Undoes the encoding's filters, the last one first.
pub(crate) fn undo(encoding: &Encoding, block: &mut [u8]) {
    if encoding.filters[0].is_none() {
        return;
    }
    BUFFERS.with_borrow_mut(|[buffer, _]| {
        grow(buffer, block.len());
        let mut to = &mut buffer[..block.len()];
        let mut from = block;
        let mut undone = 0;
        for (number, filter) in encoding.filters.iter().enumerate().rev() {
            let Some(filter) = filter else { continue };
            let layout = Layout::behind(encoding, &encoding.filters[..number]);
            apply(decoder(*filter), &layout, from, to);
            std::mem::swap(&mut from, &mut to);
            undone += 1;
        }
        if undone % 2 == 1 {
            to.copy_from_slice(from);
        }
        trim(buffer);
    });
}

/// Changes whole units, and writes as many bytes as it reads.
type Change = fn(&Layout, &[u8], &mut [u8]);

fn encoder(filter: Filter) -> Change {
    match filter {
        Filter::Shuffle => shuffle::encode,
        Filter::BitShuffle => bit_shuffle::encode,
        Filter::Delta => delta::encode,
        Filter::XorDelta => xor_delta::encode,
        Filter::ByteDelta => byte_delta::encode,
        Filter::Columns => columns::encode,
        Filter::ByteSwap => byte_swap::encode,
    }
}

fn decoder(filter: Filter) -> Change {
    match filter {
        Filter::Shuffle => shuffle::decode,
        Filter::BitShuffle => bit_shuffle::decode,
        Filter::Delta => delta::decode,
        Filter::XorDelta => xor_delta::decode,
        Filter::ByteDelta => byte_delta::decode,
        Filter::Columns => columns::decode,
        Filter::ByteSwap => byte_swap::decode,
    }
}

/// Applies a change to the units; copies head and tail.
fn apply(change: Change, layout: &Layout, from: &[u8], to: &mut [u8]) {
    let (head, units, tail) = layout.split(from);
    let (to_head, rest) = to.split_at_mut(head.len());
    let (to_units, to_tail) = rest.split_at_mut(units.len());
    to_head.copy_from_slice(head);
    to_tail.copy_from_slice(tail);
    if !units.is_empty() {
        change(layout, units, to_units);
    }
}

#[cfg(test)]
mod tests {
    use policy::{Element, MAX_FILTERS};
    use random::Random;

    use super::*;
    use crate::random::random_bytes;

    /// The smallest and plainest thing to compare with: what each filter does, byte by byte, as docs/format.md says it.
    fn plainly(filter: Filter, layout: &Layout, units: &[u8]) -> Vec<u8> {
        let (unit, element, count) = (layout.unit_bytes, layout.element_bytes, units.len() / layout.unit_bytes);
        let planes = || units.chunks_exact(count);
        match filter {
            Filter::Shuffle => {
                (0..unit).flat_map(|at| (0..count).map(move |number| units[number * unit + at])).collect()
            }
            Filter::BitShuffle => planes().flat_map(bit_planes).collect(),
            Filter::ByteDelta => planes().flat_map(|plane| integers(plane, 1, 1, u64::wrapping_sub)).collect(),
            Filter::Delta => integers(units, element, unit / element, u64::wrapping_sub),
            Filter::XorDelta => integers(units, element, unit / element, |now, before| now ^ before),
            Filter::ByteSwap => units.chunks_exact(element).flat_map(|number| number.iter().rev()).copied().collect(),
            Filter::Columns => {
                let column =
                    |at: usize| (0..count).flat_map(move |number| &units[number * unit + at * element..][..element]);
                (0..unit / element).flat_map(column).copied().collect()
            }
        }
    }

    fn bit_planes(plane: &[u8]) -> Vec<u8> {
        let whole = plane.len() / 8;
        let byte =
            |bit: usize, at: usize| (0..8).map(|number| (plane[at * 8 + number] >> bit & 1) << number).sum::<u8>();
        let planes = (0..8).flat_map(|bit| (0..whole).map(move |at| byte(bit, at)));
        planes.chain(plane[whole * 8..].iter().copied()).collect()
    }

    fn integers(bytes: &[u8], element: usize, distance: usize, between: fn(u64, u64) -> u64) -> Vec<u8> {
        let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | *byte as u64);
        let numbers: Vec<u64> = bytes.chunks_exact(element).map(number).collect();
        let before = |at: usize| at.checked_sub(distance).map_or(0, |at| numbers[at]);
        let changed = numbers.iter().enumerate().map(|(at, now)| between(*now, before(at)));
        changed.flat_map(|number| number.to_le_bytes().into_iter().take(element)).collect()
    }

    const FILTERS: [Filter; 7] = [
        Filter::Shuffle,
        Filter::BitShuffle,
        Filter::Delta,
        Filter::XorDelta,
        Filter::ByteDelta,
        Filter::Columns,
        Filter::ByteSwap,
    ];
    const ELEMENTS: [Element; 4] = [Element::U8, Element::I16, Element::F32, Element::F64];
    const RECORD_LENGTHS: [u32; 11] = [0, 1, 2, 3, 4, 8, 12, 16, 24, 56, 57];

    /// Returns all lists of two filters at most, and some longer ones, that pass the check.
    fn encodings() -> Vec<Encoding> {
        let ones = FILTERS.map(|filter| vec![filter]);
        let twos = FILTERS.iter().flat_map(|first| FILTERS.map(|second| vec![*first, second]));
        let long = [
            vec![Filter::Columns, Filter::Delta, Filter::Shuffle, Filter::BitShuffle],
            vec![Filter::Delta, Filter::Columns, Filter::Shuffle, Filter::ByteDelta],
            vec![Filter::Columns, Filter::XorDelta, Filter::Shuffle],
            vec![Filter::ByteSwap, Filter::Columns, Filter::Delta, Filter::Shuffle],
            vec![Filter::ByteSwap, Filter::Delta, Filter::Shuffle, Filter::ByteDelta],
        ];
        let lists: Vec<Vec<Filter>> = ones.into_iter().chain(twos).chain(long).collect();
        let mut encodings = Vec::new();
        for (element, record_length) in
            ELEMENTS.into_iter().flat_map(|element| RECORD_LENGTHS.map(|length| (element, length)))
        {
            for list in &lists {
                let mut filters = [None; MAX_FILTERS];
                filters.iter_mut().zip(list).for_each(|(slot, filter)| *slot = Some(*filter));
                let plain = Encoding::plain(Compression::None);
                encodings.push(Encoding { filters, element, record_length, ..plain });
            }
        }
        encodings.retain(|encoding| encoding.check().is_ok());
        encodings
    }

    #[test]
    fn filters_do_what_the_plain_ones_do_and_are_undone_at_every_length_and_phase() {
        let mut random = Random::new(1);
        let encodings = encodings();
        assert!(encodings.len() > 300, "{}", encodings.len());
        for encoding in encodings {
            let lengths = [0, 7, 64, 1000].map(|about| about + random.index(about + 9));
            for (length, number) in lengths.into_iter().zip(0..) {
                let phase = random.index(encoding.unit_bytes()) as u32 * (number % 2);
                let encoding = Encoding { phase, ..encoding };
                let raw = random_bytes(random.next(), length);
                let filtered = with_filtered(&encoding, &raw, <[u8]>::to_vec);
                assert!(filtered == expected(&encoding, &raw), "{encoding:?}, {length} bytes");
                let mut undone = filtered;
                undo(&encoding, &mut undone);
                assert!(undone == raw, "{encoding:?}, {length} bytes");
            }
        }
    }

    fn expected(encoding: &Encoding, raw: &[u8]) -> Vec<u8> {
        let mut bytes = raw.to_vec();
        for (number, filter) in encoding.filters.iter().flatten().enumerate() {
            let layout = Layout::behind(encoding, &encoding.filters[..number]);
            let (head, units, tail) = layout.split(&bytes);
            let units = if units.is_empty() { Vec::new() } else { plainly(*filter, &layout, units) };
            bytes = [head, &units, tail].concat();
        }
        bytes
    }
}
