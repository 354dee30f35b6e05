//! State that belongs to the process that made it: threads, sockets, locks and SQLite connections do not survive a fork.

use std::mem::ManuallyDrop;

use pyo3::PyResult;
use pyo3::exceptions::PyRuntimeError;

use crate::error::misuse;

pub struct OfProcess<T> {
    process: u32,
    value: ManuallyDrop<Option<T>>,
}

impl<T> OfProcess<T> {
    pub fn new(value: T) -> Self {
        OfProcess { process: std::process::id(), value: ManuallyDrop::new(Some(value)) }
    }

    pub fn get(&self) -> PyResult<&T> {
        let ours = self.value.as_ref().filter(|_| self.is_ours());
        ours.ok_or_else(|| misuse::<PyRuntimeError>("it was opened by another process, before a fork; open it again"))
    }

    /// In another process there is nothing to take.
    pub fn take(&mut self) -> Option<T> {
        if self.is_ours() { self.value.take() } else { None }
    }

    fn is_ours(&self) -> bool {
        self.process == std::process::id()
    }
}

impl<T> Drop for OfProcess<T> {
    fn drop(&mut self) {
        // In a forked child, ending it would end its parent's: what the child holds is left as it is.
        if self.is_ours() {
            // SAFETY: dropped here and nowhere else.
            unsafe { ManuallyDrop::drop(&mut self.value) }
        }
    }
}
