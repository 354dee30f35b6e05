//! The directories in the root of a store that are its own.

use format::StorePath;

use crate::{recipe, snapshot};

/// Returns whether the path is in a directory that stores keep for their snapshots or recipes.
pub fn is_reserved(path: &StorePath) -> bool {
    snapshot::is_own(path) || recipe::is_own(path)
}
