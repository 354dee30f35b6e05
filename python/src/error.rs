//! Errors as Python's own: an `OSError` with the number whose subclass says what a caller can do, and our sentence, in which
//! nothing that a node said can steer a terminal.

use std::io::ErrorKind;

use catalog::Refusal;
use pyo3::PyErr;
use pyo3::exceptions::{PyConnectionError, PyOSError, PyValueError};
use transfer::one_line;

pub fn of_address(error: address::Error) -> PyErr {
    match error {
        address::Error::Address(_) => PyValueError::new_err(one_line(&error.to_string())),
        address::Error::Repository(error) => of_repository(error),
        address::Error::Transfer(transfer::Error::Refused(why)) => PyOSError::new_err((libc::EINVAL, one_line(&why))),
        address::Error::Transfer(error) => PyConnectionError::new_err(one_line(&error.to_string())),
    }
}

pub fn of_repository(error: repository::Error) -> PyErr {
    match &error {
        repository::Error::Store(store::Error::Unavailable { .. })
        | repository::Error::Catalog(catalog::Error::Unavailable { .. }) => {
            PyConnectionError::new_err(one_line(&error.to_string()))
        }
        _ => numbered(number(&error), &error),
    }
}

pub fn of_path(error: format::Error) -> PyErr {
    PyValueError::new_err(one_line(&error.to_string()))
}

/// Python makes the subclass that fits the number: `FileNotFoundError`, `IsADirectoryError`, …
pub fn numbered(number: i32, error: &dyn std::error::Error) -> PyErr {
    PyOSError::new_err((number, one_line(&error.to_string())))
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
