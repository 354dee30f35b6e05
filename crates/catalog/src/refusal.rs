//! Reasons for refusing a change. One list, so that all engines use the same, and callers near and far can distinguish them
//! apart.

use std::fmt;

use format::{ErrorCode, StorePath};

use crate::{Error, Result};

/// Checkpoints count up from 1; no owner counts beyond this.
pub(crate) const MAX_CHECKPOINT: u64 = 1 << 62;

/// Why a change, or a listing, is refused. The numbers travel to clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Refusal {
    IsDirectory = 1,
    NotDirectory = 2,
    AboveNotDirectory = 3,
    NotEmpty = 4,
    RootStays = 5,
    IntoItself = 6,
    TooLong = 7,
    KindStays = 8,
    WriteIsRegular = 9,
    MakeIsNotRegular = 10,
    HeadStays = 11,
    IsAnotherFile = 12,
    CheckpointNumber = 13,
    CatalogNotEmpty = 14,
    CommitTooLarge = 15,
    /// Refused on the way to a node.
    TooManyChanges = 16,
    HasSession = 17,
}

impl Refusal {
    pub const ALL: [Refusal; 17] = {
        use Refusal::*;
        [
            IsDirectory,
            NotDirectory,
            AboveNotDirectory,
            NotEmpty,
            RootStays,
            IntoItself,
            TooLong,
            KindStays,
            WriteIsRegular,
            MakeIsNotRegular,
            HeadStays,
            IsAnotherFile,
            CheckpointNumber,
            CatalogNotEmpty,
            CommitTooLarge,
            TooManyChanges,
            HasSession,
        ]
    };

    pub fn code(self) -> ErrorCode {
        use Refusal::*;
        match self {
            IsDirectory => ErrorCode::IsDirectory,
            NotDirectory | AboveNotDirectory => ErrorCode::NotDirectory,
            NotEmpty => ErrorCode::DirectoryNotEmpty,
            RootStays | IntoItself => ErrorCode::CannotMove,
            TooLong => ErrorCode::InvalidName,
            KindStays | WriteIsRegular | MakeIsNotRegular => ErrorCode::WrongKind,
            HeadStays => ErrorCode::NewestVersionStays,
            IsAnotherFile => ErrorCode::ReplacedMeanwhile,
            CheckpointNumber => ErrorCode::Internal,
            CatalogNotEmpty => ErrorCode::StoreInUse,
            CommitTooLarge | TooManyChanges => ErrorCode::TooLarge,
            HasSession => ErrorCode::BeingWritten,
        }
    }

    /// Returns the words shown after the path.
    fn words(self) -> &'static str {
        use Refusal::*;
        match self {
            IsDirectory => "is a directory",
            NotDirectory => "is not a directory",
            AboveNotDirectory => "something above it is not a directory",
            NotEmpty => "the directory is not empty; remove it recursively",
            RootStays => "the root of the store can be neither moved nor removed",
            IntoItself => "it cannot be moved into itself",
            TooLong => "a path below it would become longer than 4096 bytes",
            KindStays => "its kind cannot be changed by setting attributes",
            WriteIsRegular => "only regular files have content",
            MakeIsNotRegular => "only directories and symlinks are made without content",
            HeadStays => "its newest version cannot be forgotten",
            IsAnotherFile => "is another file now: it was removed or replaced, and made again",
            CheckpointNumber => "checkpoints count up from the number that taking the stripe set returned",
            CatalogNotEmpty => "only an empty catalog can be filled from a journal",
            CommitTooLarge => "the commit is too large for the catalog; commit in smaller batches",
            TooManyChanges => "a commit of more than 524,288 changes, which a node does not take; commit them in parts",
            HasSession => "is being written, or was until a job broke off; its session has to end first",
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, to: &mut fmt::Formatter) -> fmt::Result {
        to.write_str(self.words())
    }
}

pub(crate) fn refused<T>(path: &StorePath, why: Refusal) -> Result<T> {
    Err(Error::Refused { path: path.clone(), why })
}

pub(crate) fn not_found(path: &StorePath) -> Error {
    Error::NotFound { path: path.clone() }
}
