//! Why a verb failed: the engines' reasons, and a few of its own.

use format::StorePath;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(transparent)]
    Store(#[from] store::Error),
    #[error(transparent)]
    Catalog(#[from] catalog::Error),
    #[error(transparent)]
    Segment(#[from] segment::Error),
    #[error(transparent)]
    Format(#[from] format::Error),
    /// No store where one was named.
    #[error("{path}: no thalweg store there; `thalweg init {path}` makes one")]
    NoStore { path: String },
    #[error("{path}: {why}")]
    Refused { path: String, why: String },
    #[error("{path}: {source}")]
    Io { path: String, source: std::io::Error },
    /// A manifest does not agree with the segments it names.
    #[error("{path}: byte {offset} on: {why}; `thalweg verify --data` lists what is affected")]
    Damaged { path: StorePath, offset: u64, why: String },
    /// An earlier failure for want of room; nothing more is taken until the session is opened anew.
    #[error("{0}")]
    NoRoom(String),
    /// An earlier failure of this session; nothing more is taken, and nothing was silently lost.
    #[error("{0}")]
    Failed(String),
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn io(path: impl std::fmt::Display, source: std::io::Error) -> Self {
        Error::Io { path: path.to_string(), source }
    }

    /// Whether the disk is full: the one failure a user mends by making room.
    pub fn is_full(&self) -> bool {
        match self {
            Error::Store(store::Error::Full { .. }) | Error::Catalog(catalog::Error::Full { .. }) => true,
            Error::NoRoom(_) => true,
            Error::Io { source, .. } => source.kind() == std::io::ErrorKind::StorageFull,
            _ => false,
        }
    }
}
