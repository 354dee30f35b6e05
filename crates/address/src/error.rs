//! Why an address led to no open store.

use format::ErrorCode;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Not an address, or none at all, or a variable that makes no sense: the user's to correct.
    #[error("{0}")]
    Address(String),
    #[error(transparent)]
    Repository(#[from] repository::Error),
    #[error(transparent)]
    Transfer(#[from] transfer::Error),
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn code(&self) -> ErrorCode {
        match self {
            Error::Address(_) => ErrorCode::Address,
            Error::Repository(error) => error.code(),
            Error::Transfer(error) => error.code(),
        }
    }
}

impl From<catalog::Error> for Error {
    fn from(error: catalog::Error) -> Self {
        Error::Repository(error.into())
    }
}
