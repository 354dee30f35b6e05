//! Reasons for refusing a change, in the words shown after the path. One list, so that all engines use the same.

use format::StorePath;

use crate::{Error, Result};

pub(crate) const IS_DIRECTORY: &str = "is a directory";
pub(crate) const NOT_DIRECTORY: &str = "is not a directory";
pub(crate) const ABOVE_NOT_DIRECTORY: &str = "something above it is not a directory";
pub(crate) const NOT_EMPTY: &str = "the directory is not empty; remove it recursively";
pub(crate) const ROOT_STAYS: &str = "the root of the store can be neither moved nor removed";
pub(crate) const INTO_ITSELF: &str = "it cannot be moved into itself";
pub(crate) const TOO_LONG: &str = "a path below it would become longer than 4096 bytes";
pub(crate) const KIND_STAYS: &str = "its kind cannot be changed by setting attributes";
pub(crate) const WRITE_IS_REGULAR: &str = "only regular files have content";
pub(crate) const MAKE_IS_NOT_REGULAR: &str = "only directories and symlinks are made without content";
pub(crate) const HEAD_STAYS: &str = "its newest version cannot be forgotten";
pub(crate) const IS_ANOTHER_FILE: &str = "is another file now: it was removed or replaced, and made again";
pub(crate) const CHECKPOINT_NUMBER: &str = "checkpoints count up from the number that taking the stripe set returned";
pub(crate) const CATALOG_NOT_EMPTY: &str = "only an empty catalog can be filled from a journal";
pub(crate) const COMMIT_TOO_LARGE: &str = "the commit is too large for the catalog; commit in smaller batches";

/// Checkpoints count up from 1; no owner counts beyond this.
pub(crate) const MAX_CHECKPOINT: u64 = 1 << 62;

pub(crate) fn refused<T>(path: &StorePath, why: &'static str) -> Result<T> {
    Err(Error::Refused { path: path.clone(), why })
}

pub(crate) fn not_found(path: &StorePath) -> Error {
    Error::NotFound { path: path.clone() }
}

/// Refusals that callers distinguish.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    IsDirectory,
    /// It, or something above it.
    NotDirectory,
    NotEmpty,
}

impl Error {
    pub fn refusal(&self) -> Option<Refusal> {
        match self {
            Error::Refused { why: IS_DIRECTORY, .. } => Some(Refusal::IsDirectory),
            Error::Refused { why: NOT_DIRECTORY | ABOVE_NOT_DIRECTORY, .. } => Some(Refusal::NotDirectory),
            Error::Refused { why: NOT_EMPTY, .. } => Some(Refusal::NotEmpty),
            _ => None,
        }
    }
}
