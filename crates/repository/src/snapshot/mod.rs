//! Snapshots: each is one file in a directory of the store's own, a listing of a tree's names and behind it their contents,
//! which its manifest shares with the files' own versions.

mod draft;
mod forget;
mod listing;
mod stored;
mod unfinished;
mod vanished;

use std::collections::BTreeSet;

use format::{
    Attributes, Change, ContainerId, FileId, FileKind, FileTime, FileTimes, SNAPSHOT_ATTRIBUTE, SNAPSHOT_DIRECTORY,
    SnapshotRecord, StorePath, VersionRecord,
};
use store::ClaimOwner;

pub use self::draft::{DraftEntry, SnapshotDraft, linked_name};
pub use self::listing::SnapshotEntries;
pub use self::stored::{SnapshotDirectory, UnreadableSnapshot};
pub use self::unfinished::UnfinishedList;
use crate::{Error, Repository, Result};

/// Behind a snapshot's name: the directory of files that left the place with it and have more versions than snapshots hold.
const REMOVED: &[u8] = b".removed";
/// How often a commit is tried while others change what it is to remove.
const ATTEMPTS: usize = 1000;
/// Changes committed at once.
const MAX_CHANGES: usize = 100_000;

/// A snapshot of a tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeSnapshot {
    pub id: String,
    /// When its put began, by the clock of the machine that ran it.
    pub taken: FileTime,
    /// Files are numbered in the order of their commits.
    file: FileId,
    pub facts: SnapshotRecord,
    record: VersionRecord,
    attributes: Attributes,
}

/// The facts a put has about its snapshot besides the names.
pub struct SnapshotOrigin {
    pub taken: FileTime,
    pub host: String,
    /// Each absolute path that was put, with its place in the store.
    pub sources: Vec<(Vec<u8>, StorePath)>,
    pub tags: Vec<String>,
    /// Names that could not be read.
    pub missing: u64,
    /// Directories, as places in the store, that could not be listed: what they have is not known.
    pub unlisted: Vec<StorePath>,
    /// Lists that puts of these sources had left when this one began.
    pub unfinished: Vec<UnfinishedList>,
    /// The lists of its own commits.
    pub own_lists: Vec<StorePath>,
}

/// A snapshot that was recorded.
pub struct SnapshotReport {
    pub id: String,
    /// Names that left the place, in order.
    pub removed: Vec<StorePath>,
}

impl SnapshotOrigin {
    /// Returns the changes that drop the lists which this snapshot stands in for. Where it has not all names, an earlier put may
    /// have listed those that it misses.
    fn superseded_lists(&self) -> impl Iterator<Item = Change> {
        let earlier = self.unfinished.iter().filter(|_| self.missing == 0).map(UnfinishedList::path);
        let paths = earlier.chain(self.own_lists.iter().cloned());
        paths.map(|path| Change::Remove { path, recursive: false })
    }
}

/// Returns whether the path is in the directory that stores keep for their snapshots.
pub(crate) fn is_own(path: &StorePath) -> bool {
    path.is_within(&directory())
}

/// Returns whether the path is of a file that left a place and is kept with its versions.
pub fn is_kept_file(path: &StorePath) -> bool {
    let below = path.below(&directory()).unwrap_or_default();
    below.split(|byte| *byte == b'/').next().is_some_and(|name| name.ends_with(REMOVED))
}

/// Returns whether the path is that of a snapshot's own file.
pub fn is_snapshot(path: &StorePath) -> bool {
    path.below(&directory()).is_some_and(|rest| !rest.is_empty() && !rest.contains(&b'/'))
}

/// Returns whether the store has ever had a snapshot.
pub(crate) fn exist(repository: &Repository) -> Result<bool> {
    let found = repository.catalog.entry(&directory())?;
    Ok(found.is_some_and(|entry| entry.attributes.kind == FileKind::Directory))
}

fn directory() -> StorePath {
    StorePath::new(SNAPSHOT_DIRECTORY).expect("a constant name")
}

impl TreeSnapshot {
    /// Returns the path of the snapshot's own file.
    pub fn path(&self) -> StorePath {
        own_path(self.id.as_bytes())
    }

    /// Returns the length of its file (bytes).
    pub(crate) fn size(&self) -> u64 {
        self.record.size
    }

    /// Returns its manifest's root, encoded.
    pub(crate) fn root(&self) -> Vec<u8> {
        self.record.root.encode()
    }

    /// Returns whether both are of the same sources on the same host.
    fn is_of_series(&self, host: &str, sources: &[(Vec<u8>, StorePath)]) -> bool {
        self.facts.host == host && self.facts.sources == sources
    }

    /// Returns the change that gives it these tags.
    pub fn with_tags(&self, tags: Vec<String>) -> Change {
        let facts = SnapshotRecord { tags: sorted(tags), ..self.facts.clone() };
        Change::Attributes { path: self.path(), attributes: with_facts(self.attributes.clone(), &facts) }
    }
}

fn own_path(name: &[u8]) -> StorePath {
    directory().join(name).expect("names of snapshots are short")
}

fn facts_of(attributes: &Attributes) -> std::result::Result<SnapshotRecord, String> {
    let facts = attributes.extended.iter().find(|(name, _)| name == SNAPSHOT_ATTRIBUTE);
    let (_, facts) = facts.ok_or("its facts are missing")?;
    SnapshotRecord::decode(facts).map_err(|error| error.to_string())
}

fn with_facts(attributes: Attributes, facts: &SnapshotRecord) -> Attributes {
    Attributes { extended: vec![(SNAPSHOT_ATTRIBUTE.to_vec(), facts.encode())], ..attributes }
}

fn sorted(mut tags: Vec<String>) -> Vec<String> {
    tags.sort();
    tags.dedup();
    tags
}

/// Returns the attributes of a file with these facts.
fn snapshot_attributes(taken: FileTime, facts: &SnapshotRecord) -> Attributes {
    let times = FileTimes { modified: taken, ..FileTimes::default() };
    with_facts(Attributes { mode: 0o600, times, ..Attributes::default() }, facts)
}

impl Repository {
    /// Records a snapshot under the first of these names that is free, and takes from its place the names that are no longer
    /// at the source.
    pub fn record_snapshot<E: From<Error>>(
        &self,
        claim_owner: ClaimOwner,
        mut draft: SnapshotDraft,
        mut origin: SnapshotOrigin,
        mut id: impl FnMut() -> std::result::Result<String, E>,
    ) -> std::result::Result<SnapshotReport, E> {
        origin.sources.sort();
        let built = draft.build(self, claim_owner)?;
        let facts = SnapshotRecord {
            host: origin.host.clone(),
            sources: origin.sources.clone(),
            tags: sorted(std::mem::take(&mut origin.tags)),
            listing_bytes: built.listing_bytes,
            names: built.names,
            content_bytes: built.record.size - built.listing_bytes,
            missing: origin.missing,
        };
        let attributes = snapshot_attributes(origin.taken, &facts);
        let vanished = self.vanished(&draft, &origin, Some(&built.record))?;
        let mut id_drawn = id()?;
        let mut changes = vanished.changes(&id_drawn, &attributes);
        changes.extend(origin.superseded_lists());
        let mut removed = Vec::new();
        // Of a run that breaks off between them, older snapshots have these names, or the directory of removed files.
        while changes.len() > MAX_CHANGES {
            let rest = changes.split_off(MAX_CHANGES);
            let first = std::mem::replace(&mut changes, rest);
            removed.extend(self.commit_removing(claim_owner, None, first, &BTreeSet::new())?);
        }
        loop {
            let write = Change::Write {
                path: own_path(id_drawn.as_bytes()),
                attributes: attributes.clone(),
                version: built.record.clone(),
                base: Some(None),
            };
            match self.commit_removing(claim_owner, Some(write), changes.clone(), &built.references) {
                Err(Error::Catalog(catalog::Error::HeadMoved { .. })) => id_drawn = id()?,
                done => {
                    removed.extend(done?);
                    return Ok(SnapshotReport { id: id_drawn, removed });
                }
            }
        }
    }

    /// Returns the names that would leave the place if these were all that is at the source.
    pub fn names_to_remove(&self, mut draft: SnapshotDraft, mut origin: SnapshotOrigin) -> Result<Vec<StorePath>> {
        origin.sources.sort();
        draft.arrange();
        let vanished = self.vanished(&draft, &origin, None)?;
        Ok(removed_names(&vanished.changes("", &Attributes::default())))
    }

    /// Commits without the removals that others have made impossible meanwhile; returns the names that left the place.
    fn commit_removing(
        &self,
        claim_owner: ClaimOwner,
        write: Option<Change>,
        mut removals: Vec<Change>,
        references: &BTreeSet<ContainerId>,
    ) -> Result<Vec<StorePath>> {
        for _ in 0..ATTEMPTS {
            let changes = write.iter().chain(&removals).cloned().collect();
            let refused = match self.commit(claim_owner, changes, references.clone(), Vec::new()) {
                Err(Error::Catalog(catalog::Error::NotFound { path } | catalog::Error::Refused { path, .. })) => path,
                done => return done.map(|_| removed_names(&removals)),
            };
            let before = removals.len();
            removals.retain(|change| {
                *change.path() != refused && !matches!(change, Change::Rename { to, .. } if *to == refused)
            });
            if removals.len() == before {
                break;
            }
        }
        Err(Error::Failed("the place kept changing while its snapshot was recorded; run it again".into()))
    }
}

/// Returns the names that these changes take from a place, in the order of the paths.
fn removed_names(changes: &[Change]) -> Vec<StorePath> {
    let names = changes.iter().filter(|change| matches!(change, Change::Remove { .. } | Change::Rename { .. }));
    let mut names: Vec<StorePath> = names.map(Change::path).filter(|path| !is_own(path)).cloned().collect();
    names.sort();
    names
}
