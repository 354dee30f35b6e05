//! Ends what an object of Python stood in front of, once that object is collected.

use pyo3::prelude::*;

use crate::process::OfProcess;
use crate::unwinding::is_left_by_exception;

/// Calls a function when it is released: after the finalizers of whatever held it, also of a cycle of garbage, since
/// garbage collection does not look into it. The argument is whether an exception has left it so.
#[pyclass(frozen, module = "thalweg._thalweg")]
pub struct Finalizer {
    call: OfProcess<Py<PyAny>>,
}

#[pymethods]
impl Finalizer {
    #[new]
    fn new(call: Py<PyAny>) -> Self {
        Finalizer { call: OfProcess::new(call) }
    }
}

impl Drop for Finalizer {
    fn drop(&mut self) {
        // In a forked child there is nothing to end.
        let Some(call) = self.call.take() else { return };
        // None when the interpreter is going.
        Python::try_attach(|py| {
            let is_left = is_left_by_exception(py);
            let pending = PyErr::take(py);
            if let Err(error) = call.call1(py, (is_left,)) {
                error.write_unraisable(py, Some(call.bind(py)));
            }
            drop(call);
            if let Some(pending) = pending {
                pending.restore(py);
            }
        });
    }
}
