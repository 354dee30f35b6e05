//! From checkpoints to a version: a session's writes are laid over the path's head as it is at that moment.

use catalog::{Checkpoint, FileEntry, PathSession, PathState};
use format::{Attributes, Change, Entry, EntryKind, FileTime, FileTimes, Root, SessionId, StorePath, VersionRecord};
use store::ClaimOwner;

use crate::recipe::DroppedContent;
use crate::tree::{BuiltManifest, Extents, entries_in, splice};
use crate::{Error, Repository, Result};

/// Tries against other writers of the same path before giving up.
const ATTEMPTS: usize = 64;

/// The version that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublishedVersion {
    pub path: StorePath,
    pub version: u64,
    pub size: u64,
}

/// Commits what the session's stripe sets have checkpointed. `now_ns` becomes the file's modification time. None: the
/// name was removed while programs had it open, and nothing is committed.
pub fn publish(
    repository: &Repository,
    claim_owner: ClaimOwner,
    session: SessionId,
    now_ns: i64,
) -> Result<Option<PublishedVersion>> {
    let catalog = repository.local_catalog()?;
    let mut path = None;
    for _ in 0..ATTEMPTS {
        // Others may rename or remove it meanwhile.
        let Some(found) = catalog.path_session(session)? else {
            return Err(Error::Failed(format!("session {session} has ended; nothing is left to commit")));
        };
        if catalog.path_state(session)? == Some(PathState::Removed) {
            return Ok(None);
        }
        path = Some(found.path.clone());
        let checkpoints = repository.catalog.checkpoints(session)?;
        match commit_over_head(repository, claim_owner, &found, &checkpoints, now_ns) {
            Err(Error::Catalog(catalog::Error::HeadMoved { .. })) => continue,
            other => return other.map(Some),
        }
    }
    let path = path.expect("there were attempts");
    Err(Error::Failed(format!("{path}: other writers kept committing first; try again")))
}

/// Publishes what an interrupted session had checkpointed, and drops the session.
pub fn recover(
    repository: &Repository,
    claim_owner: ClaimOwner,
    session: SessionId,
    now_ns: i64,
) -> Result<PublishedVersion> {
    let published = publish(repository, claim_owner, session, now_ns)?;
    let why =
        || Error::Failed(format!("session {session}: its file was removed while it was open; nothing is to recover"));
    let published = published.ok_or_else(why)?;
    repository.catalog.discard(session)?;
    Ok(published)
}

/// Returns root and size of the file as a commit of the session would make it now; commits nothing. The pages it stores
/// for that are garbage for collection.
pub fn unfinished(repository: &Repository, claim_owner: ClaimOwner, session: &PathSession) -> Result<(Root, u64)> {
    let checkpoints = repository.catalog.checkpoints(session.id)?;
    let head = repository.catalog.entry(&session.path)?.and_then(|entry| entry.head);
    let base = head.as_ref().map(|head| (&head.record.root, head.record.size));
    let (built, size) = laid_over(repository, claim_owner, session, base, &checkpoints)?;
    Ok((built.root, size))
}

/// Returns how many bytes of content the session has checkpointed; neither holes nor zeros count.
pub fn checkpointed_data(repository: &Repository, session: &PathSession) -> Result<u64> {
    let checkpoints = repository.catalog.checkpoints(session.id)?;
    let edits = edits(repository, session.nodes.len(), &checkpoints)?;
    Ok(edits.iter().map(|(_, entry)| data_of(&entry)).sum())
}

/// Returns how many bytes of a file's content are stored data; the others are holes or zeros.
pub fn data_bytes(repository: &Repository, root: &Root) -> Result<u64> {
    let mut bytes = 0;
    entries_in(repository, root, 0..u64::MAX, &mut |_, entry| {
        bytes += data_of(&entry);
        Ok(())
    })?;
    Ok(bytes)
}

fn data_of(entry: &Entry) -> u64 {
    if matches!(entry.kind, EntryKind::Data { .. }) { entry.length } else { 0 }
}

fn laid_over(
    repository: &Repository,
    claim_owner: ClaimOwner,
    session: &PathSession,
    base: Option<(&Root, u64)>,
    checkpoints: &[Checkpoint],
) -> Result<(BuiltManifest, u64)> {
    let edits = edits(repository, session.nodes.len(), checkpoints)?;
    let written = edits.iter().map(|(offset, entry)| offset + entry.length).max().unwrap_or(0);
    let size = final_size(base, session.nodes.len(), checkpoints, written);
    Ok((splice(repository, claim_owner, base, &edits, size)?, size))
}

/// Returns the writes of all stripe sets. Zeros of a stripe set may reach over stripes of others, since a file is cut
/// in one piece: they lie below all data, and hide what the head has there. So a cut counts for the whole file once one
/// stripe set has recorded it.
fn edits(repository: &Repository, stripe_sets: usize, checkpoints: &[Checkpoint]) -> Result<Extents> {
    let mut by_stripe_set = vec![Extents::default(); stripe_sets];
    for checkpoint in checkpoints {
        if let Some(extents) = by_stripe_set.get_mut(checkpoint.stripe_set as usize) {
            extents.lay_manifest(repository, &checkpoint.root)?;
        }
    }
    let mut edits = Extents::default();
    for are_zeros in [true, false] {
        for (offset, entry) in by_stripe_set.iter().flat_map(Extents::iter) {
            if (entry.kind == EntryKind::Zero) == are_zeros {
                edits.lay(repository, offset, entry)?;
            }
        }
    }
    Ok(edits)
}

fn commit_over_head(
    repository: &Repository,
    claim_owner: ClaimOwner,
    session: &PathSession,
    checkpoints: &[Checkpoint],
    now_ns: i64,
) -> Result<PublishedVersion> {
    let epoch = repository.lease.epoch();
    let entry = repository.catalog.entry(&session.path)?;
    let head = entry.as_ref().and_then(|entry| entry.head.as_ref());
    if let (Some(head), true) = (head, checkpoints.is_empty()) {
        let (version, size) = (head.number, head.record.size);
        return Ok(PublishedVersion { path: session.path.clone(), version, size });
    }
    if let Some(dropped) = head.and_then(|head| DroppedContent::of(&head.record)) {
        return Err(repository.dropped(&dropped.recipe));
    }
    let base = head.map(|head| (&head.record.root, head.record.size));
    let (built, size) = laid_over(repository, claim_owner, session, base, checkpoints)?;
    let attributes = attributes(entry.as_ref().map(|entry| &entry.attributes), now_ns);
    let mut changes = repository.make_above(&session.path, FileTime::from_ns(now_ns))?;
    changes.push(Change::Write {
        path: session.path.clone(),
        attributes,
        version: VersionRecord { root: built.root, size, content: None },
        base: Some(entry.as_ref().and_then(FileEntry::head_id)),
    });
    let committed = repository.commit_since(
        epoch,
        claim_owner,
        changes,
        built.references,
        checkpoint_keys(session.id, checkpoints),
    )?;
    Ok(PublishedVersion { path: session.path.clone(), version: committed.numbers[0].1, size })
}

/// A size that was set counts as it is (all stripe sets noted it). One that was grown into does not cut a longer head, and
/// ends where writes end: the checkpoints' size may be that of a head the session began over, which others have replaced.
fn final_size(base: Option<(&Root, u64)>, stripe_sets: usize, checkpoints: &[Checkpoint], written: u64) -> u64 {
    match checkpoints.iter().any(|checkpoint| checkpoint.resized) {
        true => checkpointed_size(stripe_sets, checkpoints),
        false => written.max(base.map_or(0, |(_, size)| size)),
    }
}

/// Returns the size of these checkpoints' content, over as many stripe sets. The newest of each stripe set counts: the
/// file may have been cut.
pub fn checkpointed_size(stripe_sets: usize, checkpoints: &[Checkpoint]) -> u64 {
    let newest = |stripe_set: u32| checkpoints.iter().rfind(|checkpoint| checkpoint.stripe_set == stripe_set);
    (0..stripe_sets as u32).filter_map(newest).map(|checkpoint| checkpoint.size).max().unwrap_or(0)
}

fn attributes(old: Option<&Attributes>, now_ns: i64) -> Attributes {
    let mut attributes = old.cloned().unwrap_or(Attributes { mode: 0o644, ..Attributes::default() });
    attributes.times = FileTimes { modified: FileTime::from_ns(now_ns), changed: FileTime::default() };
    attributes
}

/// Returns what the commit takes. A session without checkpoints is named too, by a number that none has: the commit is its
/// own, and does not supersede it.
fn checkpoint_keys(session: SessionId, checkpoints: &[Checkpoint]) -> Vec<(SessionId, u32, u64)> {
    let keys = checkpoints.iter().map(|checkpoint| (session, checkpoint.stripe_set, checkpoint.number));
    if checkpoints.is_empty() { vec![(session, 0, 0)] } else { keys.collect() }
}
