//! What happens when a dataset is made: its choice is checked, and what is known of its data noted for the filter.

use std::ffi::{c_int, c_uint};
use std::ptr::null_mut;

use format::FloatType;
use segment::ChunkType;

use crate::FILTER;
use crate::client_data::{ClientData, MAX_COUNT};
use crate::datatype;
use crate::library::{Id, Library};

/// `H5D_FILL_VALUE_USER_DEFINED` of `H5Dpublic.h`.
const DEFINED_BY_USER: c_int = 2;

/// Refuses a choice that this program does not have, a bound on the error of what are no floats, and chunks that are too long.
pub fn check(library: &Library, creation: Id, datatype: Id, space: Id) -> Result<(), String> {
    let Some((_, data)) = read(library, creation) else { return Ok(()) };
    data.codec()?;
    if data.is_bounded() {
        data.of_dataset(known(library, creation, datatype), 0).rounder()?;
    }
    match chunk_bytes(library, datatype, space) {
        Some(bytes) if bytes > segment::MAX_BLOCK_BYTES as u64 => Err(too_long(bytes)),
        _ => Ok(()),
    }
}

pub fn too_long(bytes: u64) -> String {
    format!("a chunk of {bytes} bytes is longer than {}: make the dataset's chunks smaller", segment::MAX_BLOCK_BYTES)
}

/// Completes the client data. Behind another filter nothing is known of the bytes that come.
pub fn describe(library: &Library, creation: Id, datatype: Id, space: Id) -> Result<(), String> {
    let Some((flags, data)) = read(library, creation) else { return Ok(()) };
    let Some(modify_filter) = library.modify_filter() else { return Ok(()) };
    let known = known(library, creation, datatype);
    let chunk_bytes = match is_first(library, creation) {
        true => chunk_bytes(library, datatype, space).unwrap_or(0) as u32,
        false => 0,
    };
    let missing = match known {
        ChunkType { record_length: 0, .. } => fill_value(library, creation, datatype, known),
        _ => None,
    };
    let values = data.of_dataset(known, chunk_bytes).with_missing(missing).values();
    // SAFETY: there are as many values as is said.
    match unsafe { modify_filter(creation, FILTER, flags, values.len(), values.as_ptr()) } {
        0.. => Ok(()),
        _ => Err("its client data cannot be set".to_owned()),
    }
}

/// Returns what is known of the numbers that come to the filter.
fn known(library: &Library, creation: Id, datatype: Id) -> ChunkType {
    let described = if is_first(library, creation) { datatype::describe(library, datatype) } else { None };
    described.unwrap_or(ChunkType::UNKNOWN)
}

/// Returns the value that the user gave for what is not written, of a dataset of floats: it shows where a dataset grows, and
/// programs compare it.
fn fill_value(library: &Library, creation: Id, datatype: Id, known: ChunkType) -> Option<f64> {
    let float = known.float()?;
    let (mut defined, mut bytes) = (0, [0u8; 8]);
    // SAFETY: HDF5 passes ids that are valid while its call lasts; floats have at most eight bytes.
    unsafe {
        if library.fill_value_defined()?(creation, &mut defined) < 0 || defined != DEFINED_BY_USER {
            return None;
        }
        if library.fill_value()?(creation, datatype, bytes.as_mut_ptr().cast()) < 0 {
            return None;
        }
    }
    let single = *bytes.first_chunk()?;
    Some(match float {
        FloatType::F32 => f32::from_le_bytes(single).into(),
        FloatType::F32Be => f32::from_be_bytes(single).into(),
        FloatType::F64 => f64::from_le_bytes(bytes),
        FloatType::F64Be => f64::from_be_bytes(bytes),
    })
}

/// Returns the filter's flags and client data.
fn read(library: &Library, creation: Id) -> Option<(c_uint, ClientData)> {
    let get_filter = library.get_filter()?;
    let (mut flags, mut values, mut count) = (0, [0; MAX_COUNT], MAX_COUNT);
    // SAFETY: there is room for as many values as is said, and for no name.
    let status =
        unsafe { get_filter(creation, FILTER, &mut flags, &mut count, values.as_mut_ptr(), 0, null_mut(), null_mut()) };
    (status >= 0).then(|| (flags, ClientData::read(&values[..count.min(MAX_COUNT)])))
}

fn is_first(library: &Library, creation: Id) -> bool {
    let Some(get_numbered_filter) = library.get_numbered_filter() else { return false };
    let (mut flags, mut count) = (0, 0);
    // SAFETY: there is room for no values and no name.
    let first: c_int =
        unsafe { get_numbered_filter(creation, 0, &mut flags, &mut count, null_mut(), 0, null_mut(), null_mut()) };
    first == FILTER
}

fn chunk_bytes(library: &Library, datatype: Id, space: Id) -> Option<u64> {
    // SAFETY: HDF5 passes ids that are valid while its call lasts.
    let (points, size) = unsafe { (library.points()?(space), library.type_size()?(datatype)) };
    u64::try_from(points).ok()?.checked_mul(size as u64)
}
