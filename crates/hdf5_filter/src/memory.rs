//! Buffers that pass between HDF5 and us: allocated and freed by the library that owns them.

use std::ffi::c_void;
use std::ptr::copy_nonoverlapping;

use crate::library::Library;

/// Returns the items there; none where the pointer is null.
///
/// # Safety
/// As `std::slice::from_raw_parts`, apart from null pointers.
pub unsafe fn slice<'a, T>(items: *const T, count: usize) -> &'a [T] {
    if items.is_null() {
        return &[];
    }
    // SAFETY: the caller promises it.
    unsafe { std::slice::from_raw_parts(items, count) }
}

/// Leaves `content` in `*buffer`, in another buffer where that one is too short.
///
/// # Safety
/// `*buffer` is memory of the library with `*buffer_bytes` bytes, of which `content` is no part.
pub unsafe fn replace(
    library: &Library,
    buffer: *mut *mut c_void,
    buffer_bytes: *mut usize,
    content: &[u8],
) -> Result<(), String> {
    // SAFETY: the caller promises what is needed; a new buffer has as many bytes as are copied.
    unsafe {
        if content.len() > *buffer_bytes {
            let longer = allocate(library, content.len());
            if longer.is_null() {
                return Err(format!("no memory for a chunk of {} bytes", content.len()));
            }
            free(library, *buffer);
            (*buffer, *buffer_bytes) = (longer, content.len());
        }
        copy_nonoverlapping(content.as_ptr(), *buffer as *mut u8, content.len());
    }
    Ok(())
}

unsafe fn allocate(library: &Library, bytes: usize) -> *mut c_void {
    // SAFETY: both take any number.
    match library.allocate_memory() {
        Some(allocate) => unsafe { allocate(bytes, false) },
        None => unsafe { libc::malloc(bytes) },
    }
}

unsafe fn free(library: &Library, memory: *mut c_void) {
    // SAFETY: the caller hands over memory of the library; without functions of its own it is malloc's.
    match library.free_memory() {
        Some(free) => drop(unsafe { free(memory) }),
        None => unsafe { libc::free(memory) },
    }
}
