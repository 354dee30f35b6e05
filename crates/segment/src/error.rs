//! Why a block could not be decoded. Its location is known to the caller, which adds path, container and offset.

/// An error in bytes that came from outside.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The block has changed since it was encoded; `segment` is the damaged one, counted within the block, when it is
    /// known.
    #[error("block{} is damaged: {why}", segment.map(|number| format!(", segment {number},")).unwrap_or_default())]
    Corrupt { segment: Option<usize>, why: String },
    /// Header, segment list and payload do not agree with each other.
    #[error(transparent)]
    Format(#[from] format::Error),
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn code(&self) -> format::ErrorCode {
        match self {
            Error::Corrupt { .. } => format::ErrorCode::DataDamaged,
            Error::Format(error) => error.code(),
        }
    }
}

/// Returns the error of a block damaged as a whole.
pub(crate) fn corrupt<T>(why: impl Into<String>) -> Result<T> {
    Err(Error::Corrupt { segment: None, why: why.into() })
}
