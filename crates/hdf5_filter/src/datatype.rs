//! What numbers a dataset's type is made of.
//!
//! Values of a compound type are records, of elements where all members are of the same type and order of bytes.

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
        COMPOUND => {
            let count = unsafe { library.type_members()?(datatype) } as u32;
            let get_member = library.type_member()?;
            let mut members =
                (0..count).map(|at| element_of_owned(library, unsafe { get_member(datatype, at) }, depth));
            let first = members.next()??;
            members.all(|member| member == Some(first)).then_some(first)
        }
        _ => None,
    }
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
        FLOAT => 2,
        BITFIELD => 0,
        _ => (unsafe { library.type_sign()?(datatype) } == SIGNED) as u8,
    };
    let element = ElementId::from_byte(kind << 2 | size.trailing_zeros() as u8).ok()?;
    Some((element, order == BIG_ENDIAN && size > 1))
}
