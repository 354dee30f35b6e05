//! The encodings among which a block's is chosen.

use super::Compression;
use crate::encoding::{Element, Encoding, Filter, MAX_FILTERS};

/// What is known of a block's data, or was found in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Data {
    /// `U8` where there are no numbers.
    pub element: Element,
    /// As in [`Encoding`].
    pub record_length: u32,
    pub phase: u32,
    /// Whether the element's type is known: else only its length was found, and its kind is anybody's guess.
    pub is_known: bool,
    /// Whether they are floats that were rounded within a bound.
    pub is_rounded: bool,
    /// Whether each element's highest byte stands first.
    pub is_big_endian: bool,
}

/// Which kind of numbers a candidate is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbers {
    /// Those with a type, or whole numbers where only their length is known.
    Integers,
    Floats,
    Any,
}

/// One way to encode blocks, whatever their records and elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    pub compression: Compression,
    filters: [Option<Filter>; 2],
    numbers: Numbers,
}

const fn plain(compression: Compression) -> Candidate {
    Candidate { compression, filters: [None; 2], numbers: Numbers::Any }
}

const fn filtered(filters: [Option<Filter>; 2], compression: Compression) -> Candidate {
    Candidate { compression, filters, numbers: Numbers::Any }
}

const fn pco(level: u8, numbers: Numbers) -> Candidate {
    Candidate { compression: Compression::Pco { level }, filters: [Some(Filter::Columns), None], numbers }
}

const fn zstd(level: i8) -> Compression {
    Compression::Zstd { level }
}

const SHUFFLED: [Option<Filter>; 2] = [Some(Filter::Shuffle), None];
const BITS: [Option<Filter>; 2] = [Some(Filter::Shuffle), Some(Filter::BitShuffle)];
const BYTE_DELTA: [Option<Filter>; 2] = [Some(Filter::Shuffle), Some(Filter::ByteDelta)];
const DELTA: [Option<Filter>; 2] = [Some(Filter::Delta), Some(Filter::Shuffle)];
const XOR_DELTA: [Option<Filter>; 2] = [Some(Filter::XorDelta), Some(Filter::Shuffle)];

/// The order is part of a model's meaning.
pub const CANDIDATES: [Candidate; 26] = [
    plain(Compression::None),
    plain(Compression::ZeroRun),
    plain(Compression::LZ4),
    plain(zstd(1)),
    plain(zstd(3)),
    filtered(SHUFFLED, Compression::LZ4),
    filtered(SHUFFLED, zstd(1)),
    filtered(BITS, Compression::LZ4),
    filtered(BITS, zstd(1)),
    filtered(BYTE_DELTA, zstd(1)),
    filtered(DELTA, zstd(1)),
    filtered(XOR_DELTA, zstd(1)),
    pco(4, Numbers::Integers),
    pco(4, Numbers::Floats),
    pco(8, Numbers::Integers),
    pco(8, Numbers::Floats),
    plain(zstd(9)),
    plain(zstd(19)),
    plain(Compression::Xz { level: 6 }),
    filtered(SHUFFLED, zstd(19)),
    filtered(BITS, zstd(19)),
    filtered(BYTE_DELTA, zstd(19)),
    filtered(DELTA, zstd(19)),
    filtered(SHUFFLED, Compression::Xz { level: 6 }),
    pco(12, Numbers::Integers),
    pco(12, Numbers::Floats),
];

impl Candidate {
    /// Returns the encoding for such data, or `None` where this candidate has no meaning for them.
    pub fn encoding(&self, data: &Data) -> Option<Encoding> {
        if self.filters == [None; 2] {
            return Some(self.compression.into());
        }
        let element = self.element(data)?;
        let encoding = Encoding {
            compression: self.compression,
            filters: self.filters_for(element, data),
            element,
            record_length: data.record_length,
            phase: data.phase,
        };
        let encoding = if data.is_big_endian { encoding.of_big_endian() } else { encoding };
        encoding.check().is_ok().then_some(encoding)
    }

    /// Returns the filters for records of several elements, in a block header's places.
    pub fn filters(&self) -> [Option<Filter>; MAX_FILTERS] {
        [self.filters[0], self.filters[1], None, None]
    }

    /// Returns a number for the kind of numbers it takes: 0 any, 1 integers, 2 floats.
    pub fn numbers_flag(&self) -> u8 {
        match self.numbers {
            Numbers::Any => 0,
            Numbers::Integers => 1,
            Numbers::Floats => 2,
        }
    }

    fn element(&self, data: &Data) -> Option<Element> {
        let is_float = matches!(data.element, Element::F16 | Element::F32 | Element::F64);
        match self.numbers {
            Numbers::Any => Some(data.element),
            Numbers::Integers if data.is_known && is_float => None,
            Numbers::Floats if data.is_known && !is_float => None,
            Numbers::Floats => float_of(data.element),
            Numbers::Integers if is_float => integer_of(data.element),
            Numbers::Integers => Some(data.element),
        }
    }

    /// One element is no column.
    fn filters_for(&self, element: Element, data: &Data) -> [Option<Filter>; MAX_FILTERS] {
        let is_one_column = data.record_length == 0 || data.record_length as usize == element.bytes();
        match self.filters {
            [Some(Filter::Columns), None] if is_one_column => [None; MAX_FILTERS],
            [first, second] => [first, second, None, None],
        }
    }
}

fn integer_of(element: Element) -> Option<Element> {
    match element.bytes() {
        2 => Some(Element::U16),
        4 => Some(Element::U32),
        8 => Some(Element::U64),
        _ => None,
    }
}

fn float_of(element: Element) -> Option<Element> {
    match element.bytes() {
        2 => Some(Element::F16),
        4 => Some(Element::F32),
        8 => Some(Element::F64),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encodings(data: Data) -> Vec<Encoding> {
        CANDIDATES.iter().filter_map(|candidate| candidate.encoding(&data)).collect()
    }

    #[test]
    fn each_candidate_is_another_encoding_that_passes_its_check() {
        for element in [Element::U16, Element::U32, Element::F64] {
            for record_length in [0, 56] {
                let found = encodings(Data { element, record_length, ..Data::default() });
                assert_eq!(found.len(), CANDIDATES.len());
                assert!(found.iter().all(|encoding| encoding.check().is_ok()));
                assert!(found.iter().enumerate().all(|(at, one)| !found[..at].contains(one)), "{found:?}");
            }
        }
    }

    #[test]
    fn bytes_are_not_filtered_and_known_floats_are_no_integers() {
        let of_bytes = encodings(Data::default());
        assert!(of_bytes.iter().all(|encoding| encoding.filters[0].is_none()), "{of_bytes:?}");
        let floats = encodings(Data { element: Element::F64, is_known: true, ..Data::default() });
        assert_eq!(floats.iter().filter(|encoding| matches!(encoding.compression, Compression::Pco { .. })).count(), 3);
        assert!(floats.iter().all(|encoding| encoding.element != Element::U64));
    }

    #[test]
    fn records_without_elements_are_shuffled_alone() {
        let found = encodings(Data { record_length: 57, ..Data::default() });
        assert!(found.iter().any(|encoding| encoding.filters[0] == Some(Filter::Shuffle)));
        assert!(found.iter().all(|encoding| encoding.check().is_ok()));
    }
}
