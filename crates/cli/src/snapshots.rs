//! Snapshots as users name them: by the beginning of a name, or as the newest of a place.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

use anyhow::Context;
use format::{ErrorCode, MAX_HOST_BYTES, MAX_TAG_BYTES, StorePath};
use repository::{Repository, SnapshotDirectory, TreeSnapshot};

use crate::error_code::{Coded, fail};
use crate::failure::misuse;
use crate::location::{Location, StoreAddress, is_location, store_of_argument};
use crate::output::Output;
use crate::shown;

/// Names the newest snapshot of a place.
const LATEST: &str = "latest";

/// Reads a tag; rules name tags between commas.
pub fn tag(written: &str) -> Result<String, String> {
    if written.is_empty() || written.len() > MAX_TAG_BYTES || written.contains(|c: char| c == ',' || c.is_control()) {
        return Err(format!("a tag has 1 to {MAX_TAG_BYTES} bytes, no comma and no control character"));
    }
    Ok(written.to_owned())
}

/// Reads a machine's name.
pub fn host(written: &str) -> Result<String, String> {
    if written.is_empty() || written.len() > MAX_HOST_BYTES || written.contains(char::is_control) {
        return Err(format!("a machine's name has 1 to {MAX_HOST_BYTES} bytes and no control character"));
    }
    Ok(written.to_owned())
}

/// Returns the store and the place in it of an argument that may leave the place out, or all: the root, `$THALWEG_STORE`.
pub fn place_of(written: Option<&OsStr>) -> anyhow::Result<(StoreAddress, StorePath)> {
    match written {
        Some(written) if is_location(written) && !written.as_bytes().ends_with(b"::") => {
            let location = Location::parse(written)?;
            Ok((location.store, location.path))
        }
        written => Ok((store_of_argument(written)?, StorePath::root())),
    }
}

/// Returns the snapshot whose name begins so, if there is only one, or the newest that has any of the place.
pub fn choose(repository: &Repository, written: &str, path: &StorePath) -> anyhow::Result<TreeSnapshot> {
    if written.is_empty() {
        misuse!(NoSuchSnapshot: "the snapshot's name is empty; `thalweg snapshots` lists them");
    }
    let SnapshotDirectory { readable: mut snapshots, unreadable, .. } = repository.snapshots()?;
    if written == LATEST {
        let newest = snapshots.into_iter().rfind(|snapshot| concerns(snapshot, path));
        return newest.with_context(|| match path.is_root() {
            true => {
                Coded::new(ErrorCode::NoSuchSnapshot, "the store has no snapshot; `put` of a directory records one")
            }
            false => {
                let why = format!("no snapshot has {}; `thalweg snapshots` lists all", shown::path(path));
                Coded::new(ErrorCode::NotInSnapshot, why)
            }
        });
    }
    snapshots.retain(|snapshot| snapshot.id.starts_with(written));
    if let Some(unreadable) = unreadable.iter().find(|snapshot| snapshot.id.starts_with(written))
        && snapshots.is_empty()
    {
        fail!(UnreadableSnapshot: "{unreadable}");
    }
    match snapshots.len() {
        1 => Ok(snapshots.remove(0)),
        0 => fail!(NoSuchSnapshot: "there is no snapshot {written}; `thalweg snapshots` lists them"),
        count => fail!(NoSuchSnapshot: "{count} snapshots have names that begin with {written}; write more of it"),
    }
}

/// Names the snapshots that cannot be read.
pub fn name_unreadable(found: &SnapshotDirectory, output: &Output) {
    found.unreadable.iter().for_each(|snapshot| output.note(snapshot));
}

/// Refuses a snapshot that has nothing of the place.
pub fn check_place(snapshot: &TreeSnapshot, path: &StorePath) -> anyhow::Result<()> {
    if !concerns(snapshot, path) {
        fail!(NotInSnapshot: "{}: snapshot {} is of other places", shown::path(path), snapshot.id);
    }
    Ok(())
}

/// Whether the snapshot has some of what lies at the path, above or below.
pub fn concerns(snapshot: &TreeSnapshot, path: &StorePath) -> bool {
    let mut targets = snapshot.facts.sources.iter().map(|(_, target)| target);
    targets.any(|target| target.is_within(path) || path.is_within(target))
}
