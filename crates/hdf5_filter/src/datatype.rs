//! What numbers a dataset's type is made of.
//!
//! Values of a compound type are records, of elements where all members are of the same type and order of bytes, and lie as an
//! array's items would: then a record is an array of such numbers, some of which may be padding. What is rounded relies on it.

use std::ops::Range;

use format::ElementId;
use segment::ChunkType;

use crate::library::{Id, Library};

/// `H5T_class_t`, `H5T_order_t` and `H5T_sign_t` of `H5Tpublic.h`.
const INTEGER: i32 = 0;
const FLOAT: i32 = 1;
const BITFIELD: i32 = 4;
const COMPOUND: i32 = 6;
const ENUM: i32 = 8;
const ARRAY: i32 = 10;
const COMPLEX: i32 = 11;
const LITTLE_ENDIAN: i32 = 0;
const BIG_ENDIAN: i32 = 1;
const SIGNED: i32 = 1;

/// Types within types, before one counts as bytes.
const MAX_DEPTH: usize = 8;

/// `H5T_norm_t`: the first bit of a fraction is not stored.
const IMPLIED: i32 = 0;

/// Where floats of 4 and 8 bytes have their parts, as IEEE 754 has them.
const SINGLE: FloatLayout = FloatLayout { precision: 32, fields: [31, 23, 8, 0, 23], bias: 127, norm: IMPLIED };
const DOUBLE: FloatLayout = FloatLayout { precision: 64, fields: [63, 52, 11, 0, 52], bias: 1023, norm: IMPLIED };

/// An element type, and whether its numbers are big-endian.
type Number = (ElementId, bool);

/// Returns what chunks of values of this type consist of.
pub fn describe(library: &Library, datatype: Id) -> Option<ChunkType> {
    // SAFETY: the id is valid while HDF5's call lasts.
    let size = unsafe { library.type_size()?(datatype) };
    let whole = |number: &Number| size.is_multiple_of(element_bytes(number.0));
    let (element, is_big_endian) = element_of(library, datatype, 0).filter(whole).unwrap_or((ElementId::U8, false));
    let record_length = if size == element_bytes(element) { 0 } else { u32::try_from(size).ok()? };
    Some(ChunkType { element, is_big_endian, record_length })
}

fn element_bytes(element: ElementId) -> usize {
    1 << (element as usize & 3)
}

fn element_of(library: &Library, datatype: Id, depth: usize) -> Option<Number> {
    if depth > MAX_DEPTH {
        return None;
    }
    // SAFETY: the id is valid, here and below.
    match unsafe { library.type_class()?(datatype) } {
        INTEGER | FLOAT | BITFIELD | ENUM => number(library, datatype),
        ARRAY | COMPLEX => {
            let item = unsafe { library.type_super()?(datatype) };
            element_of_owned(library, item, depth)
        }
        COMPOUND => element_of_compound(library, datatype, depth),
        _ => None,
    }
}

fn element_of_compound(library: &Library, datatype: Id, depth: usize) -> Option<Number> {
    // SAFETY: the id is valid.
    let (count, size) = unsafe { (library.type_members()?(datatype), library.type_size()?(datatype)) };
    let members = (0..u32::try_from(count).ok()?).map(|at| member(library, datatype, at, depth));
    let members = members.collect::<Option<Vec<_>>>()?;
    let (first, _) = *members.first()?;
    let places = members.iter().map(|(_, place)| place.clone()).collect();
    let is_array =
        members.iter().all(|(number, _)| *number == first) && lie_in_array(places, size, element_bytes(first.0));
    is_array.then_some(first)
}

/// Returns what a member of a compound type consists of, and the bytes where it lies.
fn member(library: &Library, datatype: Id, at: u32, depth: usize) -> Option<(Number, Range<usize>)> {
    // SAFETY: the ids are valid; the member's is ours to close.
    unsafe {
        let start = library.type_member_offset()?(datatype, at);
        let member = library.type_member()?(datatype, at);
        let bytes = if member < 0 { 0 } else { library.type_size()?(member) };
        Some((element_of_owned(library, member, depth)?, start..start.checked_add(bytes)?))
    }
}

/// Returns whether records of this size hold nothing in these places but whole items of an array that begins where they do.
fn lie_in_array(mut places: Vec<Range<usize>>, size: usize, item: usize) -> bool {
    places.sort_by_key(|place| place.start);
    let are_apart = places.windows(2).all(|pair| pair[0].end <= pair[1].start);
    are_apart && size.is_multiple_of(item) && places.iter().all(|place| place.start.is_multiple_of(item))
}

/// As [`element_of`] of a type that is ours to close.
fn element_of_owned(library: &Library, datatype: Id, depth: usize) -> Option<Number> {
    if datatype < 0 {
        return None;
    }
    let element = element_of(library, datatype, depth + 1);
    // SAFETY: it is closed once, here.
    unsafe { library.type_close()?(datatype) };
    element
}

fn number(library: &Library, datatype: Id) -> Option<Number> {
    // SAFETY: the id is valid.
    let (class, order, size) =
        unsafe { (library.type_class()?(datatype), library.type_order()?(datatype), library.type_size()?(datatype)) };
    if ![LITTLE_ENDIAN, BIG_ENDIAN].contains(&order) || !size.is_power_of_two() || size > 8 {
        return None;
    }
    // A number of one byte has no sign here: it makes no difference to anything.
    let kind = match class {
        _ if size == 1 => 0,
        FLOAT if size < 4 || is_ieee(library, datatype, size) => 2,
        // Of another's floats it is not known what a change of a bit changes: numbers they are all the same.
        FLOAT => 0,
        BITFIELD => 0,
        _ => (unsafe { library.type_sign()?(datatype) } == SIGNED) as u8,
    };
    let element = ElementId::from_byte(kind << 2 | size.trailing_zeros() as u8).ok()?;
    Some((element, order == BIG_ENDIAN && size > 1))
}

/// What the bits of a float mean.
#[derive(PartialEq)]
struct FloatLayout {
    precision: usize,
    /// Positions: of the sign, of the exponent, its length, of the fraction, its length.
    fields: [usize; 5],
    bias: usize,
    norm: i32,
}

/// The types that HDF5 has of IEEE's floats are not compared with: they are variables of the library, of which a program that names
/// them has a copy, and the library's own stays empty.
fn is_ieee(library: &Library, float: Id, size: usize) -> bool {
    float_layout(library, float) == Some(if size == 4 { SINGLE } else { DOUBLE })
}

fn float_layout(library: &Library, float: Id) -> Option<FloatLayout> {
    let mut fields = [0; 5];
    let [sign, exponent, exponent_bits, fraction, fraction_bits] = &mut fields;
    // SAFETY: the id is valid, and there is room for each number.
    unsafe {
        let status = library.type_fields()?(float, sign, exponent, exponent_bits, fraction, fraction_bits);
        let (precision, bias) = (library.type_precision()?(float), library.type_exponent_bias()?(float));
        let norm = library.type_norm()?(float);
        (status >= 0).then_some(FloatLayout { precision, fields, bias, norm })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_lie_in_an_array_where_they_are_aligned_and_apart() {
        assert!(lie_in_array(vec![0..4, 4..8], 8, 4) && lie_in_array(vec![8..12, 0..4], 16, 4));
        assert!(!lie_in_array(vec![2..6, 6..10], 12, 4), "not aligned");
        assert!(!lie_in_array(vec![0..8, 4..8], 8, 4), "overlapping");
        assert!(!lie_in_array(vec![0..4, 4..8], 10, 4), "the next record is not aligned");
    }
}
