//! The directories in the root of a store that are its own.

use format::{ErrorCode, StorePath};

use crate::{Error, Result, recipe, snapshot};

/// Refuses a path in a directory that the store keeps for its own files.
pub fn refuse_reserved(path: &StorePath) -> Result<()> {
    if !is_reserved(path) {
        return Ok(());
    }
    let (code, why) = (ErrorCode::ReservedName, "the store keeps this directory for its own files".into());
    Err(Error::Refused { code, path: path.to_string(), why })
}

/// Returns whether the path is in a directory that stores keep for their snapshots or recipes.
pub fn is_reserved(path: &StorePath) -> bool {
    snapshot::is_own(path) || recipe::is_own(path)
}
