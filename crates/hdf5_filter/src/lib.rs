//! HDF5's filter plugin: a library that unmodified programs load from `HDF5_PLUGIN_PATH`.
//!
//! HDF5 asks [`plugin_type`] and [`plugin_info`] once, calls `can_apply` and `set_local` when a dataset is made, and
//! `filter` for each chunk. Nothing here is linked to HDF5: which library calls is found when it does (`library`), since
//! a Python process may have several. No panic leaves these functions: it becomes an error on HDF5's stack.

mod client_data;
mod creation;
mod datatype;
mod library;
mod memory;
mod transform;

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use library::{Id, Library};

/// Numbers 256 to 511 are for filters that the HDF Group has not registered.
const FILTER: c_int = 305;
const NAME: &CStr = c"thalweg";

const PLUGIN_OF_FILTERS: c_int = 0;
const CLASS_VERSION: c_int = 1;

type Prelude = extern "C" fn(Id, Id, Id) -> c_int;
type Callback = unsafe extern "C" fn(c_uint, usize, *const c_uint, usize, *mut usize, *mut *mut c_void) -> usize;

/// `H5Z_class2_t` of `H5Zpublic.h`.
#[repr(C)]
pub struct FilterClass {
    version: c_int,
    id: c_int,
    encoder_present: c_uint,
    decoder_present: c_uint,
    name: *const c_char,
    can_apply: Option<Prelude>,
    set_local: Option<Prelude>,
    filter: Callback,
}

// SAFETY: it is never changed, and its name is a constant.
unsafe impl Sync for FilterClass {}

static CLASS: FilterClass = FilterClass {
    version: CLASS_VERSION,
    id: FILTER,
    encoder_present: 1,
    decoder_present: 1,
    name: NAME.as_ptr(),
    can_apply: Some(can_apply),
    set_local: Some(set_local),
    filter,
};

#[unsafe(export_name = "H5PLget_plugin_type")]
pub extern "C" fn plugin_type() -> c_int {
    PLUGIN_OF_FILTERS
}

#[unsafe(export_name = "H5PLget_plugin_info")]
pub extern "C" fn plugin_info() -> *const FilterClass {
    &CLASS
}

/// Returns 1, or -1 where a dataset cannot be made so; never 0, which HDF5 passes over when the filter is optional.
extern "C" fn can_apply(creation: Id, datatype: Id, space: Id) -> c_int {
    let checked = reported(|library| creation::check(library, creation, datatype, space));
    if checked.is_some() { 1 } else { -1 }
}

extern "C" fn set_local(creation: Id, datatype: Id, space: Id) -> c_int {
    let set = reported(|library| creation::describe(library, creation, datatype, space));
    if set.is_some() { 0 } else { -1 }
}

/// Returns how many bytes `*buffer` has now; 0 and nothing changed after an error.
unsafe extern "C" fn filter(
    flags: c_uint,
    values_count: usize,
    values: *const c_uint,
    bytes: usize,
    buffer_bytes: *mut usize,
    buffer: *mut *mut c_void,
) -> usize {
    let filtered = reported(|library| {
        // SAFETY: as HDF5 promises: so many values, and a buffer of its own that has at least so many bytes.
        let (values, from) =
            unsafe { (memory::slice(values, values_count), memory::slice(*buffer as *const u8, bytes)) };
        let to = transform::transform(flags, values, from)?;
        // SAFETY: as above; `to` is no part of the buffer.
        unsafe { memory::replace(library, buffer, buffer_bytes, &to) }?;
        Ok(to.len())
    });
    filtered.unwrap_or(0)
}

/// Runs one of HDF5's calls; pushes what goes wrong on the error stack of the library that called.
fn reported<T>(call: impl FnOnce(&Library) -> Result<T, String>) -> Option<T> {
    let library = catch_unwind(Library::calling).unwrap_or_default();
    let result = catch_unwind(AssertUnwindSafe(|| call(&library)));
    match result.unwrap_or_else(|_| Err("internal error of the filter: please report it".to_owned())) {
        Ok(value) => Some(value),
        Err(why) => {
            library.push_error(&format!("thalweg: {why}"));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use random::Random;

    use super::*;

    const REVERSE: c_uint = 0x100;

    /// A buffer as HDF5 has it: malloc's.
    struct Buffer {
        start: *mut c_void,
        bytes: usize,
    }

    impl Buffer {
        fn of(content: &[u8]) -> Self {
            // SAFETY: malloc's memory has so many bytes.
            unsafe {
                let start = libc::malloc(content.len());
                start.copy_from(content.as_ptr().cast(), content.len());
                Buffer { start, bytes: content.len() }
            }
        }

        fn filter(&mut self, flags: c_uint, values: &[c_uint]) -> Option<Vec<u8>> {
            // SAFETY: the values are as many as is said, and the buffer is malloc's.
            unsafe {
                let (used, bytes) = (self.bytes, &mut self.bytes);
                let used = filter(flags, values.len(), values.as_ptr(), used, bytes, &mut self.start);
                (used > 0).then(|| memory::slice(self.start as *const u8, used).to_vec())
            }
        }
    }

    impl Drop for Buffer {
        fn drop(&mut self) {
            // SAFETY: it is malloc's.
            unsafe { libc::free(self.start) }
        }
    }

    #[test]
    fn a_buffer_is_replaced_where_it_is_too_short_and_left_alone_after_an_error() {
        let raw = [7; 5000];
        let chunk = Buffer::of(&raw).filter(0, &[]).unwrap();
        assert!(chunk.len() < 200);
        let mut buffer = Buffer::of(&chunk);
        assert_eq!(buffer.filter(REVERSE, &[]).as_deref(), Some(&raw[..]));
        assert_eq!(buffer.bytes, 5000);
        let mut damaged = Buffer::of(&chunk[1..]);
        assert_eq!(damaged.filter(REVERSE, &[]), None);
        // SAFETY: the buffer was left as it is.
        assert_eq!(unsafe { memory::slice(damaged.start as *const u8, damaged.bytes) }, &chunk[1..]);
    }

    #[test]
    fn mutated_chunks_and_client_data_are_errors_and_leave_the_buffer_alone() {
        let raw: Vec<u8> = (0..2000u32).flat_map(|number| (number * number).to_le_bytes()).collect();
        let chunk = Buffer::of(&raw).filter(0, &[21, 6, 2]).unwrap();
        for seed in 0..5000 {
            let mut dice = Random::new(seed + 1);
            let mut bad = chunk.clone();
            let at = dice.index(bad.len());
            match seed % 3 {
                0 => bad.truncate(at),
                1 => bad[at] ^= 1 << dice.index(8),
                _ => drop(bad.drain(at..at + 1 + dice.index(bad.len() - at))),
            }
            let values: Vec<c_uint> = (0..dice.index(7)).map(|_| dice.next() as c_uint).collect();
            let mut buffer = Buffer::of(&bad);
            assert_eq!(buffer.filter(REVERSE, &values), None, "seed {seed}");
            // SAFETY: the buffer was left as it is.
            assert_eq!(unsafe { memory::slice(buffer.start as *const u8, buffer.bytes) }, bad);
        }
    }

    #[test]
    fn the_class_is_what_hdf5_expects() {
        assert_eq!(plugin_type(), 0);
        // SAFETY: it points to a constant.
        let class = unsafe { &*plugin_info() };
        assert_eq!((class.version, class.id, size_of::<FilterClass>()), (1, 305, 48));
    }
}
