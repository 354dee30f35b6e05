//! The HDF5 library that called us, and its functions.
//!
//! Python loads libraries for itself, where a look-up among global symbols does not see them, and h5py and netCDF4 bring
//! one each, whose ids mean nothing to the other. So the look-up begins at the caller's code: the first function on the
//! stack that is not ours belongs to the library to ask. Where it does not show its functions, as when it is linked into
//! a program that was stripped, `Library` has none: chunks are encoded all the same, with less known about them.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::mem::{MaybeUninit, transmute_copy};
use std::ptr::null_mut;

/// `hid_t` since HDF5 1.10.
pub type Id = i64;

/// Frames of ours that stand between a callback and its caller at most, and some to spare.
const MAX_FRAMES: usize = 24;

/// A handle of `dlopen`, where the caller shows its functions.
#[derive(Clone, Copy, Default)]
pub struct Library(Option<usize>);

/// Declares functions of HDF5, each as a method that is `None` where the library has no such function.
macro_rules! functions {
    ($($name:ident, $symbol:literal, fn($($argument:ty),*) -> $result:ty;)+) => {
        impl Library {
            $(pub fn $name(&self) -> Option<unsafe extern "C" fn($($argument),*) -> $result> {
                let address = self.symbol($symbol)?;
                // SAFETY: HDF5 declares it so in all versions since 1.10.
                Some(unsafe { transmute_copy(&address) })
            })+
        }
    };
}

functions! {
    allocate_memory, c"H5allocate_memory", fn(usize, bool) -> *mut c_void;
    fill_value, c"H5Pget_fill_value", fn(Id, Id, *mut c_void) -> c_int;
    fill_value_defined, c"H5Pfill_value_defined", fn(Id, *mut c_int) -> c_int;
    free_memory, c"H5free_memory", fn(*mut c_void) -> c_int;
    get_filter, c"H5Pget_filter_by_id2",
        fn(Id, c_int, *mut c_uint, *mut usize, *mut c_uint, usize, *mut c_char, *mut c_uint) -> c_int;
    get_numbered_filter, c"H5Pget_filter2",
        fn(Id, c_uint, *mut c_uint, *mut usize, *mut c_uint, usize, *mut c_char, *mut c_uint) -> c_int;
    modify_filter, c"H5Pmodify_filter", fn(Id, c_int, c_uint, usize, *const c_uint) -> c_int;
    points, c"H5Sget_simple_extent_npoints", fn(Id) -> i64;
    type_class, c"H5Tget_class", fn(Id) -> c_int;
    type_close, c"H5Tclose", fn(Id) -> c_int;
    type_exponent_bias, c"H5Tget_ebias", fn(Id) -> usize;
    type_fields, c"H5Tget_fields", fn(Id, *mut usize, *mut usize, *mut usize, *mut usize, *mut usize) -> c_int;
    type_member, c"H5Tget_member_type", fn(Id, c_uint) -> Id;
    type_member_offset, c"H5Tget_member_offset", fn(Id, c_uint) -> usize;
    type_members, c"H5Tget_nmembers", fn(Id) -> c_int;
    type_norm, c"H5Tget_norm", fn(Id) -> c_int;
    type_order, c"H5Tget_order", fn(Id) -> c_int;
    type_precision, c"H5Tget_precision", fn(Id) -> usize;
    type_sign, c"H5Tget_sign", fn(Id) -> c_int;
    type_size, c"H5Tget_size", fn(Id) -> usize;
    type_super, c"H5Tget_super", fn(Id) -> Id;
}

type PushError =
    unsafe extern "C" fn(Id, *const c_char, *const c_char, c_uint, Id, Id, Id, *const c_char, ...) -> c_int;

impl Library {
    /// Returns the library whose code called ours.
    pub fn calling() -> Self {
        let mut frames = [null_mut(); MAX_FRAMES];
        // SAFETY: there are as many frames as is said.
        let count = unsafe { libc::backtrace(frames.as_mut_ptr(), MAX_FRAMES as c_int) };
        let ours = object_of(Library::calling as fn() -> Self as *const c_void);
        let objects = frames[..count as usize].iter().filter_map(|frame| object_of(*frame));
        let caller = objects.into_iter().find(|object| Some(object.base) != ours.as_ref().map(|ours| ours.base));
        Library(caller.and_then(|object| object.handle()))
    }

    /// Puts a message on the library's error stack.
    pub fn push_error(&self, why: &str) {
        let Some(address) = self.symbol(c"H5Epush2") else { return };
        // SAFETY: HDF5 declares it so.
        let push: PushError = unsafe { transmute_copy(&address) };
        let variable = |name| self.symbol(name).map_or(0, |address| unsafe { *(address as *const Id) });
        let (class, major, minor) =
            (variable(c"H5E_ERR_CLS_g"), variable(c"H5E_PLINE_g"), variable(c"H5E_CANTFILTER_g"));
        let why = CString::new(why.replace('\0', "?")).expect("no zero byte is left");
        let here = (c"hdf5_filter".as_ptr(), c"filter".as_ptr());
        // SAFETY: the strings end in zero bytes; of the format's arguments there is one.
        unsafe { push(0, here.0, here.1, line!(), class, major, minor, c"%s".as_ptr(), why.as_ptr()) };
    }

    fn symbol(&self, name: &CStr) -> Option<usize> {
        // SAFETY: the handle is one of `dlopen`, which is never closed.
        let address = unsafe { libc::dlsym(self.0? as *mut c_void, name.as_ptr()) };
        (!address.is_null()).then_some(address as usize)
    }
}

/// A file of code in the process.
struct Object {
    base: usize,
    name: *const c_char,
}

impl Object {
    /// Returns a handle on it; it is loaded, since it is running. A program itself has no name to `dlopen`.
    fn handle(&self) -> Option<usize> {
        let flags = libc::RTLD_LAZY | libc::RTLD_NOLOAD;
        // SAFETY: the name ends in a zero byte and lives as long as the object; null means the program.
        let named = unsafe { libc::dlopen(self.name, flags) };
        let handle = if named.is_null() { unsafe { libc::dlopen(std::ptr::null(), flags) } } else { named };
        (!handle.is_null()).then_some(handle as usize)
    }
}

fn object_of(address: *const c_void) -> Option<Object> {
    let mut found = MaybeUninit::<libc::Dl_info>::uninit();
    // SAFETY: it is filled in where the result is not 0.
    let found = unsafe { (libc::dladdr(address, found.as_mut_ptr()) != 0).then(|| found.assume_init()) }?;
    Some(Object { base: found.dli_fbase as usize, name: found.dli_fname })
}
