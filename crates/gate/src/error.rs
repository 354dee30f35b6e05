//! Why the gate cannot start or cannot take a new configuration, by what its administrator does about it.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The file cannot be read at all.
    #[error("{path}: {source}")]
    Unreadable { path: PathBuf, source: io::Error },
    /// The file is read and wrong: `line` counts from 1, `key` is written as in the file.
    #[error("{path}:{line}: {key}: {why}", path = path.display())]
    Configuration { path: PathBuf, line: usize, key: String, why: String },
    /// Nobody can connect there.
    #[error("{address}: cannot listen there ({source}); choose another address or end who uses it")]
    Listen { address: String, source: io::Error },
    /// A certificate or key cannot be used.
    #[error("{path}: {why}")]
    Certificate { path: PathBuf, why: String },
    /// The operating system refuses something every gate needs.
    #[error("{what}: {source}")]
    System { what: &'static str, source: io::Error },
}

pub type Result<T> = std::result::Result<T, Error>;
