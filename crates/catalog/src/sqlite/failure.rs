//! Failures inside a transaction, and the errors they become.

use std::path::Path;

use format::StorePath;
use rusqlite::{ErrorCode, ffi};

use crate::Error;
use crate::refusal::Refusal;

/// An answer of ours passes through unchanged; the rest is classified in [`Failure::explain`].
#[derive(Debug)]
pub(super) enum Failure {
    Answer(Error),
    Sqlite(rusqlite::Error),
    /// A column holds bytes that no program of ours wrote.
    Format(format::Error),
    /// The data read without locks may be of two states.
    ChangedMeanwhile,
}

pub(super) type Attempt<T> = Result<T, Failure>;

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Failure::Answer(error)
    }
}

impl From<rusqlite::Error> for Failure {
    fn from(error: rusqlite::Error) -> Self {
        Failure::Sqlite(error)
    }
}

impl From<format::Error> for Failure {
    fn from(error: format::Error) -> Self {
        Failure::Format(error)
    }
}

impl Failure {
    /// Returns whether another process was in the way: the transaction has not begun, or is undone, and can be tried
    /// again.
    pub fn is_busy(&self) -> bool {
        use ErrorCode::{DatabaseBusy, DatabaseLocked, FileLockingProtocolFailed};
        let error = match self {
            Failure::Sqlite(error) => error,
            Failure::ChangedMeanwhile => return true,
            Failure::Answer(_) | Failure::Format(_) => return false,
        };
        matches!(error.sqlite_error_code(), Some(DatabaseBusy | DatabaseLocked | FileLockingProtocolFailed))
    }

    /// Returns whether the log or its index is missing, and may not be made: for a reader it may just have been
    /// removed.
    pub fn lacks_log(&self) -> bool {
        use ErrorCode::{CannotOpen, ReadOnly};
        let Failure::Sqlite(error) = self else { return false };
        matches!(error.sqlite_error_code(), Some(CannotOpen | ReadOnly))
    }

    pub fn explain(self, path: &Path) -> Error {
        let path = path.display().to_string();
        match self {
            Failure::Answer(error) => error,
            Failure::Format(error) => Error::Corrupt { path, why: error.to_string() },
            Failure::Sqlite(error) => explain_sqlite(error, path),
            Failure::ChangedMeanwhile => {
                let why =
                    "it is written to all the time, and cannot be locked from here; read through a node".to_owned();
                Error::Unavailable { peer: path, why }
            }
        }
    }
}

fn explain_sqlite(error: rusqlite::Error, path: String) -> Error {
    let why = error.to_string();
    let rusqlite::Error::SqliteFailure(failure, _) = error else {
        // A column of another type, a row that must be there: the file is not as we wrote it.
        return Error::Corrupt { path, why };
    };
    match failure.code {
        ErrorCode::DiskFull => Error::Full { path },
        ErrorCode::ReadOnly => Error::ReadOnly { path },
        // The log's index is grown by writing zeros: that it failed means there was no room.
        _ if failure.extended_code == ffi::SQLITE_IOERR_SHMSIZE => Error::Full { path },
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => Error::Corrupt { path, why },
        // Our statements fit our schema: one that does not compile met another schema.
        ErrorCode::Unknown | ErrorCode::ConstraintViolation | ErrorCode::TypeMismatch => Error::Corrupt { path, why },
        ErrorCode::TooBig => Error::Refused { path: StorePath::root(), why: Refusal::CommitTooLarge },
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
            let why = "another process holds its lock; run this again".to_owned();
            Error::Unavailable { peer: path, why }
        }
        _ => Error::Io { path, why },
    }
}
