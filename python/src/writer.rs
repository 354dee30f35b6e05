//! A file on its way in, and its content once it is there.

use std::sync::{Mutex, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use repository::FileWriter;

use crate::error::{misuse, of_repository};
use crate::process::OfProcess;

/// Dropped unfinished, it leaves nothing that anyone sees.
#[pyclass(frozen, module = "thalweg._thalweg")]
pub struct Writer {
    writer: OfProcess<Mutex<Option<FileWriter>>>,
}

/// Content in the store, without a name until `Store.commit_drafts`.
#[pyclass(frozen, module = "thalweg._thalweg")]
pub struct Draft {
    draft: OfProcess<Mutex<Option<repository::Draft>>>,
}

impl Writer {
    pub fn new(writer: FileWriter) -> Self {
        Writer { writer: OfProcess::new(Mutex::new(Some(writer))) }
    }
}

impl Draft {
    pub fn new(draft: repository::Draft) -> Self {
        Draft { draft: OfProcess::new(Mutex::new(Some(draft))) }
    }

    /// Once.
    pub fn take(&self) -> PyResult<repository::Draft> {
        let draft = self.draft.get()?.lock().unwrap_or_else(PoisonError::into_inner).take();
        draft.ok_or_else(|| misuse::<PyValueError>("the draft has been used already"))
    }
}

fn closed() -> PyErr {
    misuse::<PyValueError>("the writer is finished, or failed before")
}

#[pymethods]
impl Writer {
    /// A writer that failed takes nothing more.
    fn write(&self, py: Python<'_>, content: &[u8]) -> PyResult<()> {
        let writer = self.writer.get()?;
        py.detach(|| {
            let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
            let mut open = writer.take().ok_or_else(closed)?;
            open.write(content).map_err(of_repository)?;
            *writer = Some(open);
            Ok(())
        })
    }

    fn finish(&self, py: Python<'_>) -> PyResult<Draft> {
        let writer = self.writer.get()?;
        py.detach(|| {
            let open = writer.lock().unwrap_or_else(PoisonError::into_inner).take().ok_or_else(closed)?;
            Ok(Draft::new(open.finish().map_err(of_repository)?))
        })
    }

    fn discard(&self, py: Python<'_>) -> PyResult<()> {
        let writer = self.writer.get()?;
        py.detach(|| drop(writer.lock().unwrap_or_else(PoisonError::into_inner).take()));
        Ok(())
    }
}
