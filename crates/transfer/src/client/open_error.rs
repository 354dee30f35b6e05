//! Why a file could not be opened: besides what nodes say, nobody may have said which nodes.

#[derive(Clone, Debug, thiserror::Error)]
pub enum OpenError {
    /// No store is configured, or not understandably.
    #[error("{0}")]
    Configuration(String),
    #[error(transparent)]
    Transfer(#[from] crate::Error),
}
