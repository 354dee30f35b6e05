//! Snapshots: each is one file in a directory of the store's own, a listing of a tree's names and behind it their contents,
//! which its manifest shares with the files' own versions.

mod draft;
mod forget;
mod listing;
mod vanished;

use format::{
    Attributes, Change, FileId, FileKind, FileTime, FileTimes, SNAPSHOT_ATTRIBUTE, SNAPSHOT_DIRECTORY, SnapshotRecord,
    StorePath, VersionRecord,
};
use store::ClaimOwner;

pub use self::draft::{DraftEntry, SnapshotDraft};
pub use self::listing::SnapshotEntries;
use crate::list::list_everything;
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

/// What a put knows of its snapshot besides the names.
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
}

/// A snapshot that was recorded.
pub struct SnapshotReport {
    pub id: String,
    /// Names that left the place.
    pub removed: u64,
}

/// Returns whether the path is in the directory that stores keep for their snapshots.
pub fn is_reserved(path: &StorePath) -> bool {
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
    fn read(path: &StorePath, entry: catalog::FileEntry) -> Result<Option<Self>> {
        let Some(head) = entry.head else { return Ok(None) };
        let facts = facts_of(&entry.attributes).map_err(|why: String| unreadable(path, &why))?;
        let id = String::from_utf8_lossy(path.name()).into_owned();
        if facts.listing_bytes + facts.content_bytes != head.record.size {
            return Err(unreadable(path, "it is not as long as its facts say"));
        }
        let (file, attributes, record) = (entry.file, entry.attributes, head.record);
        Ok(Some(TreeSnapshot { id, taken: attributes.times.modified, file, facts, record, attributes }))
    }

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

fn unreadable(path: &StorePath, why: &str) -> Error {
    let id = String::from_utf8_lossy(path.name()).into_owned();
    let why = format!("the snapshot cannot be read: {why}; `thalweg forget STORE:: --snapshot {id}` drops it");
    Error::Refused { path: path.to_string(), why }
}

fn sorted(mut tags: Vec<String>) -> Vec<String> {
    tags.sort();
    tags.dedup();
    tags
}

impl Repository {
    /// Returns all snapshots, in the order in which they were recorded: clocks may be wrong.
    pub fn snapshots(&self) -> Result<Vec<TreeSnapshot>> {
        let mut snapshots = Vec::new();
        if !exist(self)? {
            return Ok(snapshots);
        }
        list_everything(self.catalog(), &directory(), false, |listed| {
            for (path, entry) in listed {
                snapshots.extend(TreeSnapshot::read(&path, entry)?);
            }
            Ok::<_, Error>(())
        })?;
        snapshots.sort_by_key(|snapshot| snapshot.file);
        Ok(snapshots)
    }

    /// Records a snapshot under the first of these names that is free, and takes from its place the names that are no longer
    /// at the source.
    pub fn record_snapshot<E: From<Error>>(
        &self,
        claim_owner: ClaimOwner,
        mut draft: SnapshotDraft,
        origin: SnapshotOrigin,
        mut id: impl FnMut() -> std::result::Result<String, E>,
    ) -> std::result::Result<SnapshotReport, E> {
        let SnapshotOrigin { taken, host, mut sources, tags, missing, unlisted } = origin;
        sources.sort();
        let built = draft.build(self, claim_owner)?;
        let facts = SnapshotRecord {
            host,
            sources,
            tags: sorted(tags),
            listing_bytes: built.listing_bytes,
            names: built.names,
            content_bytes: built.record.size - built.listing_bytes,
            missing,
        };
        let times = FileTimes { modified: taken, ..FileTimes::default() };
        let attributes = with_facts(Attributes { mode: 0o600, times, ..Attributes::default() }, &facts);
        let vanished = self.vanished(&draft, (&facts, &built.record), &unlisted)?;
        loop {
            let id = id()?;
            let write = Change::Write {
                path: own_path(id.as_bytes()),
                attributes: attributes.clone(),
                version: built.record.clone(),
                base: Some(None),
            };
            let mut changes = vanished.changes(&id, &attributes);
            let mut later = changes.split_off(changes.len().min(MAX_CHANGES));
            let removed = match self.commit_removing(claim_owner, Some(write), changes, &built.references) {
                Err(Error::Catalog(catalog::Error::HeadMoved { .. })) => continue,
                done => done?,
            };
            let mut recorded = SnapshotReport { id, removed };
            while !later.is_empty() {
                let rest = later.split_off(later.len().min(MAX_CHANGES));
                recorded.removed += self.commit_removing(claim_owner, None, later, &Default::default())?;
                later = rest;
            }
            return Ok(recorded);
        }
    }

    /// Commits without the removals that others have made impossible meanwhile; returns how many were made.
    fn commit_removing(
        &self,
        claim_owner: ClaimOwner,
        write: Option<Change>,
        mut removals: Vec<Change>,
        references: &std::collections::BTreeSet<format::ContainerId>,
    ) -> Result<u64> {
        for _ in 0..ATTEMPTS {
            let changes = write.iter().chain(&removals).cloned().collect();
            let refused = match self.commit(claim_owner, changes, references.clone(), Vec::new()) {
                Err(Error::Catalog(catalog::Error::NotFound { path } | catalog::Error::Refused { path, .. })) => path,
                done => {
                    done?;
                    let is_removal = |change: &&Change| !matches!(change, Change::Make { .. });
                    return Ok(removals.iter().filter(is_removal).count() as u64);
                }
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
