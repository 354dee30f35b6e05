//! Why a file could not be opened: a node's failure, or missing or unusable configuration of the nodes.

#[derive(Clone, Debug, thiserror::Error)]
pub enum OpenError {
    /// No store is configured, or the configuration cannot be understood.
    #[error("{0}")]
    Configuration(String),
    #[error(transparent)]
    Transfer(#[from] crate::Error),
}
