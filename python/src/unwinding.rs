//! Whether what is being released now was left by an exception.
//!
//! A file that a function holds when an exception leaves it lives on in the function's frame, which the exception's
//! traceback holds. It is released with these, when the exception was handled and nothing refers to it any more but the
//! stack: below us on it the interpreter is deallocating a traceback. Two ways leave no such mark there: a cycle of
//! garbage, of which the collector may clear the file first, and more than fifty calls, as the interpreter puts off what it
//! finds that deep.

use std::ffi::{c_int, c_void};

use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;

// From CPython's typeslots.h, stable since 3.2.
const PY_TP_CLEAR: c_int = 51;
const PY_TP_DEALLOC: c_int = 52;

/// Where the interpreter's functions begin that release tracebacks and what they hold.
static RELEASING: PyOnceLock<Vec<usize>> = PyOnceLock::new();

// Of libgcc_s, which the standard library is linked to anyway.
#[cfg(all(target_os = "linux", target_env = "gnu"))]
unsafe extern "C" {
    fn _Unwind_Backtrace(visit: extern "C" fn(*mut c_void, *mut c_void) -> c_int, argument: *mut c_void) -> c_int;
    fn _Unwind_GetIP(context: *mut c_void) -> usize;
    fn _Unwind_FindEnclosingFunction(address: *mut c_void) -> *mut c_void;
}

/// Whether an exception is on its way, or one that was handled is being released.
#[pyfunction]
pub fn is_left_by_exception(py: Python) -> bool {
    // SAFETY: asks only, with the interpreter's lock held.
    let is_on_its_way = unsafe { !ffi::PyErr_Occurred().is_null() };
    is_on_its_way || RELEASING.get_or_try_init(py, || releasing(py)).is_ok_and(|functions| is_any_on_stack(functions))
}

fn releasing(py: Python) -> PyResult<Vec<usize>> {
    let types = py.import("types")?;
    let slots = |name: &str, slots: &[c_int]| -> PyResult<Vec<usize>> {
        let kind = types.getattr(name)?.cast_into::<PyType>()?;
        // SAFETY: a type, and slots that every version has.
        let addresses = slots.iter().map(|&slot| unsafe { ffi::PyType_GetSlot(kind.as_type_ptr(), slot) as usize });
        let addresses = addresses.filter(|address| *address != 0).collect();
        // Before 3.10 slots of the interpreter's own types are not reported.
        drop(PyErr::take(py));
        Ok(addresses)
    };
    let mut found = slots("TracebackType", &[PY_TP_DEALLOC, PY_TP_CLEAR])?;
    // Frames that outlive their call are a traceback's; before 3.11 others were deallocated, too.
    let of_frames: &[c_int] = if py.version_info() >= (3, 11) { &[PY_TP_DEALLOC, PY_TP_CLEAR] } else { &[PY_TP_CLEAR] };
    found.extend(slots("FrameType", of_frames)?);
    Ok(found)
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
struct Search<'a> {
    functions: &'a [usize],
    is_found: bool,
}

#[cfg(all(target_os = "linux", target_env = "gnu"))]
fn is_any_on_stack(functions: &[usize]) -> bool {
    extern "C" fn visit(context: *mut c_void, search: *mut c_void) -> c_int {
        const GO_ON: c_int = 0;
        const END_OF_STACK: c_int = 5;
        // SAFETY: called by `_Unwind_Backtrace` alone, with the search below and a context of its own. An address of
        // return may lie behind its function's end.
        unsafe {
            let search = &mut *search.cast::<Search>();
            let address = _Unwind_GetIP(context).saturating_sub(1);
            search.is_found =
                search.functions.contains(&(_Unwind_FindEnclosingFunction(address as *mut c_void) as usize));
            if search.is_found { END_OF_STACK } else { GO_ON }
        }
    }
    let mut search = Search { functions, is_found: false };
    if !functions.is_empty() {
        // SAFETY: the search outlives the walk.
        unsafe { _Unwind_Backtrace(visit, (&raw mut search).cast()) };
    }
    search.is_found
}

#[cfg(not(all(target_os = "linux", target_env = "gnu")))]
fn is_any_on_stack(_: &[usize]) -> bool {
    false
}
