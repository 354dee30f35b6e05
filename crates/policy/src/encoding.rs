//! What a block's bytes go through before they are stored: filters, which make them more alike, then a codec.
//!
//! Plain data: ids on disk are `format`'s, the work is `segment`'s. Which combinations make sense is decided here, for
//! those that are about to be written and for those that were read from outside alike.

use crate::compression::Compression;

/// Filters of one block at most.
pub const MAX_FILTERS: usize = 4;

/// A change of a block's bytes that can be undone and leaves their number as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Filter {
    /// First bytes of all records (or elements), then all second bytes, and so on: a plane for each position.
    Shuffle,
    /// After a shuffle, or on single bytes: the lowest bits of a plane's bytes, then the next ones: eight planes of bits.
    BitShuffle,
    /// Each element minus the one of the record (or the element) before, wrapping.
    Delta,
    /// As `Delta`, but what differs by exclusive or: for floats, whose exponents stay.
    XorDelta,
    /// After a shuffle: each byte of a plane minus the one before, wrapping.
    ByteDelta,
    /// First elements of all records, then all second elements, and so on: what follows sees elements without records.
    Columns,
    /// Each element's bytes in reverse order, before all other filters, which see big-endian numbers as little-endian ones.
    ByteSwap,
}

/// The type of the numbers in a block; little-endian, behind a byte swap where there is one. `U8` where nothing is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Element {
    #[default]
    U8,
    U16,
    U32,
    U64,
    I16,
    I32,
    I64,
    F16,
    F32,
    F64,
}

impl Element {
    /// Returns the length of one element (bytes).
    pub fn bytes(self) -> usize {
        match self {
            Element::U8 => 1,
            Element::U16 | Element::I16 | Element::F16 => 2,
            Element::U32 | Element::I32 | Element::F32 => 4,
            Element::U64 | Element::I64 | Element::F64 => 8,
        }
    }
}

/// A block's whole encoding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding {
    pub compression: Compression,
    /// In the order in which they are applied; `None` ends the list.
    pub filters: [Option<Filter>; MAX_FILTERS],
    pub element: Element,
    /// Bytes of one record; 0: unknown, then elements follow each other without records.
    pub record_length: u32,
    /// Bytes before the first whole record, or element where there are no records; below the length of one.
    pub phase: u32,
}

impl Encoding {
    /// Returns the encoding without filters, of bytes of which nothing is known.
    pub fn plain(compression: Compression) -> Self {
        Encoding { compression, filters: [None; MAX_FILTERS], element: Element::U8, record_length: 0, phase: 0 }
    }

    /// Returns the encoding of big-endian elements that are otherwise encoded so. Their bytes are swapped before a delta and for
    /// Pcodec, which calculate; to other filters the order of an element's bytes makes no difference.
    pub fn of_big_endian(self) -> Self {
        let [first, second, third, fourth] = self.filters;
        let is_numeric = matches!(self.compression, Compression::Pco { .. });
        let swapped = Encoding { filters: [Some(Filter::ByteSwap), first, second, third], ..self };
        let is_of_use = (is_numeric || self.filters.contains(&Some(Filter::Delta))) && fourth.is_none();
        if is_of_use && swapped.check().is_ok() { swapped } else { self }
    }

    /// Returns the length of what stands side by side in the block: a record where they are known, else an element (bytes).
    pub fn unit_bytes(&self) -> usize {
        match self.record_length {
            0 => self.element.bytes(),
            known => known as usize,
        }
    }

    /// Returns whether the filters, the codec and what is said of the data go together; the error says what does not.
    pub fn check(&self) -> Result<(), &'static str> {
        let is_numeric = matches!(self.compression, Compression::Pco { .. });
        if self.filters == [None; MAX_FILTERS] && !is_numeric {
            return Ok(());
        }
        if self.phase as usize >= self.unit_bytes() {
            return Err("the phase is not below the length of a record or element");
        }
        for (number, filter) in self.filters.iter().enumerate() {
            let before = &self.filters[..number];
            match filter {
                Some(_) if before.last() == Some(&None) => return Err("a filter follows the end of the list"),
                Some(filter) => self.check_filter(*filter, before)?,
                None => {}
            }
        }
        if is_numeric { self.check_numeric() } else { Ok(()) }
    }

    fn check_filter(&self, filter: Filter, before: &[Option<Filter>]) -> Result<(), &'static str> {
        let in_columns = before.contains(&Some(Filter::Columns));
        let unit_bytes = if in_columns { self.element.bytes() } else { self.unit_bytes() };
        match filter {
            Filter::ByteDelta if before.last() != Some(&Some(Filter::Shuffle)) => {
                Err("byte delta needs a shuffle before")
            }
            Filter::BitShuffle if before.last() == Some(&Some(Filter::Shuffle)) => Ok(()),
            Filter::BitShuffle if unit_bytes > 1 => Err("bit shuffle needs a shuffle before"),
            Filter::ByteDelta => Ok(()),
            Filter::ByteSwap if !before.is_empty() => Err("a byte swap comes first"),
            Filter::ByteSwap if self.element.bytes() < 2 => Err("a byte swap needs elements of 2 bytes and more"),
            _ if !are_elements(before) => Err("a filter of elements follows one that took them apart"),
            Filter::Shuffle if unit_bytes < 2 => Err("shuffle needs records or elements of 2 bytes and more"),
            Filter::Shuffle | Filter::BitShuffle => Ok(()),
            Filter::Columns if in_columns => Err("columns come twice"),
            Filter::Columns if unit_bytes == self.element.bytes() => Err("columns need records of several elements"),
            Filter::Columns | Filter::Delta | Filter::XorDelta | Filter::ByteSwap => self.check_records(),
        }
    }

    fn check_numeric(&self) -> Result<(), &'static str> {
        if self.element == Element::U8 {
            return Err("pco needs elements of 2 bytes and more");
        }
        if !are_elements(&self.filters) {
            return Err("pco needs elements, and a filter took them apart");
        }
        self.check_records()
    }

    fn check_records(&self) -> Result<(), &'static str> {
        if !(self.record_length as usize).is_multiple_of(self.element.bytes()) {
            return Err("records are not made of whole elements");
        }
        Ok(())
    }
}

impl From<Compression> for Encoding {
    fn from(compression: Compression) -> Self {
        Encoding::plain(compression)
    }
}

/// Returns whether the bytes of each element are still together after these filters.
fn are_elements(filters: &[Option<Filter>]) -> bool {
    let keeps = |filter: &Option<Filter>| {
        matches!(filter, None | Some(Filter::Columns | Filter::Delta | Filter::XorDelta | Filter::ByteSwap))
    };
    filters.iter().all(keeps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoding(filters: &[Filter], element: Element, record_length: u32, phase: u32) -> Encoding {
        let mut list = [None; MAX_FILTERS];
        filters.iter().zip(&mut list).for_each(|(filter, slot)| *slot = Some(*filter));
        let compression = Compression::Zstd { level: 1 };
        Encoding { filters: list, element, record_length, phase, ..Encoding::plain(compression) }
    }

    #[test]
    fn sensible_combinations_pass() {
        use Filter::*;
        let of_records: [&[Filter]; 8] = [
            &[ByteSwap],
            &[ByteSwap, Columns, Delta, Shuffle],
            &[Columns, Delta, Shuffle, BitShuffle],
            &[Columns, Shuffle, ByteDelta],
            &[Delta, Columns, XorDelta],
            &[Shuffle, BitShuffle],
            &[Delta, Delta],
            &[],
        ];
        for filters in of_records {
            assert_eq!(encoding(filters, Element::F64, 56, 55).check(), Ok(()), "{filters:?}");
        }
        assert_eq!(encoding(&[BitShuffle], Element::U8, 0, 0).check(), Ok(()));
        assert_eq!(encoding(&[Shuffle, ByteDelta], Element::U8, 57, 0).check(), Ok(()));
        let numeric =
            Encoding { compression: Compression::Pco { level: 8 }, ..encoding(&[Columns], Element::F64, 56, 8) };
        assert_eq!(numeric.check(), Ok(()));
    }

    #[test]
    fn combinations_without_sense_are_refused() {
        use Filter::*;
        let refused = |filters: &[Filter], element, record_length, phase| {
            let encoding = encoding(filters, element, record_length, phase);
            assert!(encoding.check().is_err(), "{encoding:?}");
        };
        refused(&[ByteSwap], Element::U8, 0, 0);
        refused(&[ByteSwap], Element::F32, 6, 0);
        refused(&[ByteSwap, ByteSwap], Element::F32, 0, 0);
        refused(&[Delta, ByteSwap], Element::F32, 0, 0);
        refused(&[Shuffle], Element::U8, 0, 0);
        refused(&[Shuffle], Element::U32, 0, 4);
        refused(&[Shuffle, Delta], Element::U32, 0, 0);
        refused(&[Shuffle, Shuffle], Element::U32, 0, 0);
        refused(&[BitShuffle], Element::U32, 0, 0);
        refused(&[ByteDelta], Element::U32, 0, 0);
        refused(&[Shuffle, ByteDelta, ByteDelta], Element::U32, 0, 0);
        refused(&[Columns], Element::F64, 0, 0);
        refused(&[Columns], Element::F64, 8, 0);
        refused(&[Columns], Element::F64, 57, 0);
        refused(&[Columns, Columns], Element::F64, 56, 0);
        refused(&[Delta], Element::F32, 6, 0);
        let gap = [None, Some(Delta), None, None];
        assert!(Encoding { filters: gap, ..encoding(&[], Element::F32, 0, 0) }.check().is_err());
        let numeric = |filters: &[Filter], element, record_length, phase| Encoding {
            compression: Compression::Pco { level: 8 },
            ..encoding(filters, element, record_length, phase)
        };
        assert_eq!(numeric(&[ByteSwap, Columns], Element::F64, 56, 8).check(), Ok(()));
        assert!(numeric(&[], Element::U8, 0, 0).check().is_err());
        assert!(numeric(&[Shuffle], Element::F64, 0, 0).check().is_err());
        assert!(numeric(&[], Element::F64, 57, 0).check().is_err());
        assert!(numeric(&[], Element::F64, 0, 8).check().is_err());
    }
}
