//! Why the gate cannot start or cannot take a new configuration, by what its administrator does about it.

use std::io;
use std::path::PathBuf;

use format::ErrorCode;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read at all.
    #[error("{path}: {error}")]
    Unreadable { path: PathBuf, error: io::Error },
    /// The file is read and wrong: `line` counts from 1, `key` is written as in the file.
    #[error("{path}:{line}: {key}: {why}", path = path.display())]
    Configuration { path: PathBuf, line: usize, key: String, why: String },
    /// The address cannot be listened at.
    #[error("{address}: cannot listen there ({error}); choose another address, or end the process that uses it")]
    Listen { address: String, error: io::Error },
    /// A certificate or key cannot be used.
    #[error("{path}: {why}")]
    Certificate { path: PathBuf, why: String },
    /// The operating system refuses something every gate needs.
    #[error("{what}: {error}")]
    System { what: &'static str, error: io::Error },
}

pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub fn code(&self) -> ErrorCode {
        match self {
            Error::Unreadable { .. } | Error::Configuration { .. } => ErrorCode::GateConfiguration,
            Error::Listen { .. } => ErrorCode::GateCannotListen,
            Error::Certificate { .. } => ErrorCode::GateCertificate,
            Error::System { .. } => ErrorCode::GateSystem,
        }
    }
}
