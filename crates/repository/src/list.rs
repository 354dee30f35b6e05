//! Listings of any length, a batch at a time.

use catalog::{FileEntry, Names};
use format::StorePath;

use crate::reserved::is_reserved;

/// Names asked of the catalog at a time.
const LISTED_AT_ONCE: usize = 4096;

/// Hands over what lies in a directory, or all below it, in byte order, a batch at a time; of the root without the store's
/// own directories.
pub fn list<E: From<catalog::Error>>(
    catalog: &dyn Names,
    directory: &StorePath,
    recursive: bool,
    mut take: impl FnMut(Vec<(StorePath, FileEntry)>) -> Result<(), E>,
) -> Result<(), E> {
    let is_root = directory.is_root();
    list_everything(catalog, directory, recursive, |mut listed| {
        if is_root {
            listed.retain(|(path, _)| !is_reserved(path));
        }
        take(listed)
    })
}

/// As `list`, with those directories.
pub(crate) fn list_everything<E: From<catalog::Error>>(
    catalog: &dyn Names,
    directory: &StorePath,
    recursive: bool,
    mut take: impl FnMut(Vec<(StorePath, FileEntry)>) -> Result<(), E>,
) -> Result<(), E> {
    let mut after = None;
    loop {
        let listed = catalog.list(directory, recursive, after.as_ref(), LISTED_AT_ONCE)?;
        let is_last = listed.len() < LISTED_AT_ONCE;
        after = listed.last().map(|(path, _)| path.clone());
        take(listed)?;
        if is_last {
            return Ok(());
        }
    }
}
