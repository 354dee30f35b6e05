//! Why talking to a node failed, by what the caller does about it.

use format::ErrorCode;

use crate::message::{Failure, FailureKind};

#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The node does not answer, or the connection broke and could not be made again in time.
    #[error("{peer}: {why}")]
    Unavailable { peer: String, why: String },
    /// The bytes that arrived are no frame of ours, or damaged.
    #[error("{peer}: {source}")]
    Protocol { peer: String, source: format::Error },
    /// The node understood and refused or failed.
    #[error("{}", .0.text)]
    Failed(Failure),
    /// The node serves another store than the one that was opened.
    #[error("another store is served at {peer} now; begin again")]
    Replaced { peer: String },
    /// The caller's mistake: a name, flag, secret or certificate that does not fit.
    #[error("{1}")]
    Refused(ErrorCode, String),
}

/// Why a file could not be opened: a node's failure, or missing or unusable configuration of the nodes.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OpenError {
    /// No store is configured, or the configuration cannot be understood.
    #[error("{0}")]
    Configuration(String),
    #[error(transparent)]
    Transfer(#[from] Error),
}

pub type Result<T> = std::result::Result<T, Error>;

impl OpenError {
    pub fn code(&self) -> ErrorCode {
        match self {
            OpenError::Configuration(_) => ErrorCode::NoStoreForProgram,
            OpenError::Transfer(error) => error.code(),
        }
    }
}

impl Error {
    pub fn code(&self) -> ErrorCode {
        match self {
            Error::Unavailable { .. } => ErrorCode::NodeUnreachable,
            Error::Protocol { source, .. } => match source.code() {
                code @ (ErrorCode::ProtocolMismatch | ErrorCode::NoThalwegPeer) => code,
                _ => ErrorCode::DamagedMessage,
            },
            Error::Failed(failure) => failure.code(),
            Error::Replaced { .. } => ErrorCode::StoreReplaced,
            Error::Refused(code, _) => *code,
        }
    }

    /// Returns the node's own failure kind, if the node answered with one.
    pub fn failure(&self) -> Option<FailureKind> {
        match self {
            Error::Failed(failure) => Some(failure.kind),
            _ => None,
        }
    }

    /// Adds the address to a node's refusal of a client: the node knows its own address no better than the client does.
    pub(crate) fn of_node(peer: &str, mut failure: Failure) -> Self {
        failure.text = format!("{peer}: {}", failure.text);
        Error::Failed(failure)
    }
}
