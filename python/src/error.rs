//! Errors as Python's own: an `OSError` with the number whose subclass says what a caller can do, and our sentence, in which
//! nothing that a node said can steer a terminal. Its code (docs/errors.md) ends the sentence and is the attribute `code`.

use std::fmt::Display;
use std::io::ErrorKind;

use catalog::Refusal;
use format::ErrorCode;
use pyo3::exceptions::{PyConnectionError, PyKeyboardInterrupt, PyOSError, PyRuntimeError, PyTypeError, PyValueError};
use pyo3::types::PyAnyMethods;
use pyo3::{Bound, PyAny, PyErr, PyResult, PyTypeInfo, Python};
use transfer::one_line;

pub fn of_address(error: address::Error) -> PyErr {
    let (code, text) = sentence(error.code(), &error);
    match error {
        address::Error::Address(_) => coded(PyValueError::new_err(text), code),
        address::Error::Repository(error) => of_repository(error),
        address::Error::Transfer(transfer::Error::Refused(..)) => coded(PyOSError::new_err((libc::EINVAL, text)), code),
        address::Error::Transfer(_) => coded(PyConnectionError::new_err(text), code),
    }
}

pub fn of_repository(error: repository::Error) -> PyErr {
    match &error {
        repository::Error::Store(store::Error::Unavailable { .. })
        | repository::Error::Catalog(catalog::Error::Unavailable { .. }) => {
            let (code, text) = sentence(error.code(), &error);
            coded(PyConnectionError::new_err(text), code)
        }
        _ => numbered(number(&error), error.code(), &error),
    }
}

/// What a command did wrong is no fault of the store's: a `RuntimeError`.
pub fn of_recipe(error: recipe::Error) -> PyErr {
    let (code, text) = sentence(error.code(), &error);
    match error {
        recipe::Error::Repository(error) => of_repository(error),
        recipe::Error::Refused { code, .. } => numbered(libc::EINVAL, code, &error),
        recipe::Error::Io { ref source, .. } => numbered(number_of(source), code, &error),
        recipe::Error::Stopped => coded(PyKeyboardInterrupt::new_err(text), code),
        recipe::Error::Command(_) | recipe::Error::Differs(_) => coded(PyRuntimeError::new_err(text), code),
    }
}

pub fn of_path(error: format::Error) -> PyErr {
    let (code, text) = sentence(error.code(), &error);
    coded(PyValueError::new_err(text), code)
}

/// A call that cannot be meant, in the class that Python has for it.
pub fn misuse<E: PyTypeInfo>(why: impl Display) -> PyErr {
    with_code::<E>(ErrorCode::PythonUsage, why)
}

/// Returns an argument that should be a word; an error that names it where it is none.
pub fn text(argument: &Bound<'_, PyAny>, name: &str) -> PyResult<String> {
    argument.extract().map_err(|_| {
        let shown = argument.repr().map_or_else(|_| "it".to_owned(), |repr| repr.to_string());
        misuse::<PyTypeError>(format_args!("{name}: {} is no text", one_line(&shown)))
    })
}

/// An exception of any class, with a code.
pub fn with_code<E: PyTypeInfo>(code: ErrorCode, why: impl Display) -> PyErr {
    coded(PyErr::new::<E, _>(code.after(why)), code)
}

/// Python makes the subclass that fits the number: `FileNotFoundError`, `IsADirectoryError`, …
pub fn numbered(number: i32, code: ErrorCode, error: &dyn std::error::Error) -> PyErr {
    let (code, text) = sentence(code, error);
    coded(PyOSError::new_err((number, text)), code)
}

fn sentence(code: ErrorCode, error: &dyn std::error::Error) -> (ErrorCode, String) {
    (code, code.after(one_line(&error.to_string())))
}

/// Gives the exception the attribute.
fn coded(error: PyErr, code: ErrorCode) -> PyErr {
    // Exceptions of these types have attributes; without one, the sentence still has the code.
    let _ = Python::attach(|py| error.value(py).setattr("code", code.as_str()));
    error
}

fn number(error: &repository::Error) -> i32 {
    match error {
        error if error.is_full() => libc::ENOSPC,
        repository::Error::Store(error) => number_of_store(error),
        repository::Error::Catalog(error) => number_of_catalog(error),
        repository::Error::NoStore { .. } => libc::ENOENT,
        repository::Error::Refused { .. } => libc::EINVAL,
        repository::Error::Io { source, .. } => number_of(source),
        _ => libc::EIO,
    }
}

/// `ESTALE`: this handle on the store is of no use any more, a new one is.
fn number_of_store(error: &store::Error) -> i32 {
    match error {
        store::Error::NotFound { .. } | store::Error::Failed { .. } | store::Error::Replaced { .. } => libc::ESTALE,
        store::Error::Io { source, .. } => number_of(source),
        _ => libc::EIO,
    }
}

fn number_of_catalog(error: &catalog::Error) -> i32 {
    match error {
        catalog::Error::NotFound { .. } => libc::ENOENT,
        catalog::Error::HeadMoved { .. } => libc::EBUSY,
        catalog::Error::ReadOnly { .. } => libc::EROFS,
        catalog::Error::LeaseLost { .. } | catalog::Error::Replaced { .. } => libc::ESTALE,
        catalog::Error::Refused { why, .. } => match why {
            Refusal::IsDirectory => libc::EISDIR,
            Refusal::NotDirectory | Refusal::AboveNotDirectory => libc::ENOTDIR,
            Refusal::NotEmpty => libc::ENOTEMPTY,
            _ => libc::EINVAL,
        },
        _ => libc::EIO,
    }
}

fn number_of(error: &std::io::Error) -> i32 {
    match error.kind() {
        ErrorKind::ReadOnlyFilesystem => libc::EROFS,
        _ => error.raw_os_error().unwrap_or(libc::EIO),
    }
}
