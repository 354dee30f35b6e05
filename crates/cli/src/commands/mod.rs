//! One file per verb: its arguments, and what it does with them.

pub mod cat;
pub mod codecs;
pub mod collect;
pub mod completions;
pub mod config;
pub mod dedup;
pub mod diff;
pub mod drop;
pub mod du;
pub mod explain;
pub mod find;
pub mod forget;
pub mod gate;
pub mod get;
pub mod init;
pub mod ls;
pub mod manual;
pub mod mv;
pub mod plan;
pub mod put;
pub mod recipes;
pub mod recompute;
pub mod record;
pub mod recover;
pub mod repack;
pub mod repair;
pub mod rm;
pub mod secret;
pub mod sessions;
pub mod simulate;
pub mod snapshots;
pub mod stat;
pub mod stats;
pub mod tag;
pub mod train;
pub mod verify;

use catalog::{FileEntry, Names, PathSession};
use format::{Change, StorePath};
use repository::Repository;
use store::ClaimOwner;

use crate::error_code::fail;
use crate::location::Location;
use crate::output::Output;
use crate::shown;

/// The main thread's claim owner, for commits, not for packing.
pub const COMMITTER: ClaimOwner = ClaimOwner(0);

/// Other errors of a full disk advise removals.
const FULL_WITHOUT_RESERVE: &str = "the disk is full, and the store's reserve has no room for this removal either; nothing was removed; remove less at a \
     time, end what writes to the store, or free some MiB outside of the store, and run it again";

/// Commits changes of names alone.
pub fn commit_names(repository: &Repository, changes: Vec<Change>) -> anyhow::Result<()> {
    let only_removes = changes.iter().all(|change| matches!(change, Change::Remove { .. } | Change::Forget { .. }));
    match repository.commit(COMMITTER, changes, Default::default(), Vec::new()) {
        Err(error) if only_removes && error.is_full() => fail!(DiskFull: "{FULL_WITHOUT_RESERVE}"),
        done => Ok(done.map(drop)?),
    }
}

/// [`repository::list`], for callers that may fail in any way.
pub fn list(
    catalog: &dyn Names,
    directory: &StorePath,
    recursive: bool,
    take: impl FnMut(Vec<(StorePath, FileEntry)>) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    repository::list(catalog, directory, recursive, take)
}

/// Sessions of this path that have not been committed, oldest first.
pub fn sessions_of(catalog: &dyn Names, path: &StorePath) -> anyhow::Result<Vec<PathSession>> {
    let mut sessions = catalog.path_sessions()?;
    sessions.retain(|session| session.path == *path);
    Ok(sessions)
}

/// Refuses a session that holds none of a file's content, but its size at most: a job that found the disk full leaves one.
pub fn refuse_without_data(
    repository: &Repository,
    session: &PathSession,
    location: &Location,
    advice: &str,
) -> anyhow::Result<()> {
    if repository::checkpointed_data(repository, session)? > 0 {
        return Ok(());
    }
    let id = session.id;
    match checkpointed(repository.catalog(), session)? {
        (0, _) => fail!(SessionEmpty: "{location}: session {id} has stored no data; {advice}"),
        (size, _) => {
            let size = shown::size(size);
            fail!(SessionEmpty: "{location}: session {id} has stored no data of the {size} that the file would have; {advice}")
        }
    }
}

/// Describes the repaired records of the journal.
pub fn journal_is_whole(paths: u64) -> String {
    let them = if paths == 1 { "it" } else { "them" };
    format!("the journal had lost {}, and has {them} again", shown::count(paths, "name"))
}

/// A note where the file is longer than its data.
pub fn note_holes(output: &Output, location: &Location, data_bytes: u64, size: u64) {
    if data_bytes < size {
        let (data, size) = (shown::size(data_bytes), shown::size(size));
        output.note(format_args!(
            "{location}: {data} of {size} are data; the rest was never stored, or zeros, and reads as zeros"
        ));
    }
}

/// Returns the size and number of a session's checkpoints.
pub fn checkpointed(catalog: &dyn Names, session: &PathSession) -> anyhow::Result<(u64, usize)> {
    let checkpoints = catalog.checkpoints(session.id)?;
    let size = repository::checkpointed_size(session.nodes.len(), &checkpoints);
    Ok((size, checkpoints.len()))
}
