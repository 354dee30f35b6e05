//! One file per verb: its arguments, and what it does with them.

pub mod collect;
pub mod forget;
pub mod gate;
pub mod get;
pub mod init;
pub mod ls;
pub mod mv;
pub mod put;
pub mod recover;
pub mod repair;
pub mod rm;
pub mod secret;
pub mod sessions;
pub mod simulate;
pub mod stat;
pub mod stats;
pub mod verify;

use catalog::{Catalog, FileEntry, PathSession};
use format::{Change, StorePath};
use repository::Repository;
use store::Claimant;

/// The main thread's: what commits, not what packs.
pub const COMMITTER: Claimant = Claimant(0);

/// Commits changes of names alone.
pub fn commit_names(repository: &Repository, changes: Vec<Change>) -> anyhow::Result<()> {
    repository.commit(COMMITTER, changes, Default::default(), Vec::new())?;
    Ok(())
}

/// [`repository::list`], for those who may fail in any way.
pub fn list(
    catalog: &dyn Catalog,
    directory: &StorePath,
    recursive: bool,
    take: impl FnMut(Vec<(StorePath, FileEntry)>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    repository::list(catalog, directory, recursive, take)
}

/// Sessions of this path that have not been committed, oldest first.
pub fn sessions_of(catalog: &dyn Catalog, path: &StorePath) -> anyhow::Result<Vec<PathSession>> {
    let mut sessions = catalog.path_sessions()?;
    sessions.retain(|session| session.path == *path);
    Ok(sessions)
}

/// Size and number of a session's checkpoints.
pub fn checkpointed(catalog: &dyn Catalog, session: &PathSession) -> anyhow::Result<(u64, usize)> {
    let checkpoints = catalog.checkpoints(session.id)?;
    let size = repository::checkpointed_size(session.nodes.len(), &checkpoints);
    Ok((size, checkpoints.len()))
}
