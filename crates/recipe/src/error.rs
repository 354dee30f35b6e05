//! Why a command left no recipe, or made no data.

use format::ErrorCode;

/// By what the caller does about it.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Repository(#[from] repository::Error),
    /// What was asked for cannot be done, whatever the command does.
    #[error("{why}")]
    Refused { code: ErrorCode, why: String },
    /// The command failed, was ended, or did something else than it was to do.
    #[error("{0}")]
    Command(String),
    /// It made something else than it once did.
    #[error("{0}")]
    Differs(String),
    /// The caller asked to stop.
    #[error("stopped; the command was ended, and the store is as before")]
    Stopped,
    #[error("{path}: {source}")]
    Io { path: String, source: std::io::Error },
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn code(&self) -> ErrorCode {
        match self {
            Error::Repository(error) => error.code(),
            Error::Refused { code, .. } => *code,
            Error::Command(_) => ErrorCode::CommandFailed,
            Error::Differs(_) => ErrorCode::ResultDiffers,
            Error::Stopped => ErrorCode::Interrupted,
            Error::Io { source, .. } => ErrorCode::of_io(source.kind()),
        }
    }

    pub(crate) fn refused(code: ErrorCode, why: impl Into<String>) -> Self {
        Error::Refused { code, why: why.into() }
    }

    pub(crate) fn io(path: &std::path::Path, source: std::io::Error) -> Self {
        Error::Io { path: path.display().to_string(), source }
    }
}

impl From<catalog::Error> for Error {
    fn from(error: catalog::Error) -> Self {
        Error::Repository(error.into())
    }
}
