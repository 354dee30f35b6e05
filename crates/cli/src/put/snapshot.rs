//! The names of a run on their way into a snapshot.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};

use anyhow::Context;
use catalog::FileEntry;
use format::{Change, ContainerId, FileId, FileTime, StorePath};
use repository::{DraftEntry, Repository, SnapshotDraft, SnapshotOrigin, SnapshotReport};
use store::ClaimOwner;

use super::Source;
use super::outcome::Known;
use crate::clock::now_ns;

/// Random bytes of a snapshot's name.
const ID_BYTES: usize = 4;
/// Of a list's: no other is to have it.
const LIST_ID_BYTES: usize = 12;

/// The options of a snapshot.
#[derive(Clone, Debug, Default)]
pub struct SnapshotOptions {
    /// This machine's name, if none is given.
    pub host: Option<String>,
    pub tags: Vec<String>,
}

pub struct SnapshotNames {
    draft: SnapshotDraft,
    /// The places that could not be read are added as they come: what the store has there, and below, stays.
    origin: SnapshotOrigin,
    /// Its claims at the store are its own.
    claim_owner: ClaimOwner,
}

impl SnapshotNames {
    /// Begins a snapshot where a directory is among the sources.
    pub fn begin(
        repository: &Repository,
        sources: &[Source],
        options: &SnapshotOptions,
        claim_owner: ClaimOwner,
    ) -> anyhow::Result<Option<Self>> {
        if !sources.iter().any(Source::is_tree) {
            return Ok(None);
        }
        let host = match &options.host {
            Some(host) => host.clone(),
            None => rustix::system::uname().nodename().to_string_lossy().replace(char::is_control, "?"),
        };
        let mut sources: Vec<_> = sources.iter().map(absolute).collect::<anyhow::Result<_>>()?;
        sources.sort();
        let mut origin = SnapshotOrigin {
            taken: FileTime::from_ns(now_ns()),
            host,
            sources,
            tags: options.tags.clone(),
            missing: 0,
            unlisted: Vec::new(),
            unfinished: Vec::new(),
            own_lists: Vec::new(),
        };
        // Before the walk: of what others put meanwhile this run has not seen everything.
        origin.unfinished = repository.unfinished_lists(&origin)?;
        Ok(Some(SnapshotNames { draft: SnapshotDraft::default(), origin, claim_owner }))
    }

    /// Says that what the store has there, and below, stays.
    pub fn keep(&mut self, unread: impl IntoIterator<Item = StorePath>) {
        self.origin.unlisted.extend(unread);
    }

    /// Lists what a commit makes, for the case that the run does not come to its snapshot.
    pub fn list(
        &mut self,
        repository: &Repository,
        changes: &[Change],
    ) -> anyhow::Result<(Change, BTreeSet<ContainerId>)> {
        let id = random_id::<LIST_ID_BYTES>()?;
        let (change, references) = repository.list_unfinished(self.claim_owner, &self.origin, &id, changes)?;
        self.origin.own_lists.push(change.path().clone());
        Ok((change, references))
    }

    pub fn unchanged(&mut self, path: &StorePath, known: Known) {
        match known {
            Known::Entry(entry) => self.entry(path, &entry),
            Known::SameAs(other) => self.draft.link(path.clone(), other),
            Known::Nothing => {}
        }
    }

    fn entry(&mut self, path: &StorePath, entry: &FileEntry) {
        let Some(head) = &entry.head else { return self.draft.add(path, &entry.attributes) };
        let pending = self.draft.add_file(path, &entry.attributes, &head.record);
        self.draft.number(pending, (entry.file, head.number));
        if entry.links > 1 {
            self.draft.share(entry.file);
        }
    }

    /// Adds a file that a dry run would read.
    pub fn plan(&mut self, path: &StorePath) {
        self.draft.add_name(path, None);
    }

    /// Adds what a change makes of a name; `known` is the file of which it changes attributes alone. A new version gets its
    /// number with the commit.
    pub fn change(&mut self, change: &Change, known: Option<&FileEntry>) -> Option<DraftEntry> {
        match change {
            Change::Write { path, attributes, version, .. } => {
                return Some(self.draft.add_file(path, attributes, version));
            }
            Change::Make { path, attributes } => self.draft.add(path, attributes),
            Change::Link { path, target } => self.draft.link(path.clone(), target.clone()),
            Change::Attributes { path, attributes } => {
                let entry = known.map(|known| FileEntry { attributes: attributes.clone(), ..known.clone() });
                entry.iter().for_each(|entry| self.entry(path, entry));
            }
            Change::Remove { .. } | Change::Rename { .. } | Change::Forget { .. } | Change::Manifest { .. } => {}
        }
        None
    }

    /// Gives the versions of a commit their numbers.
    pub fn number(&mut self, pending: Vec<DraftEntry>, numbers: Vec<(FileId, u64)>) {
        pending.into_iter().zip(numbers).for_each(|(pending, number)| self.draft.number(pending, number));
    }

    /// Records the snapshot; `missing` names could not be read.
    pub fn record(self, repository: &Repository, missing: u64) -> anyhow::Result<SnapshotReport> {
        let SnapshotNames { draft, origin, claim_owner } = self;
        let origin = SnapshotOrigin { missing, ..origin };
        repository.record_snapshot(claim_owner, draft, origin, random_id::<ID_BYTES>)
    }

    /// Returns the names that would leave the place with this snapshot.
    pub fn names_to_remove(self, repository: &Repository) -> anyhow::Result<Vec<StorePath>> {
        Ok(repository.names_to_remove(self.draft, self.origin)?)
    }
}

fn absolute(source: &Source) -> anyhow::Result<(Vec<u8>, StorePath)> {
    let from = std::path::absolute(&source.from).context("the working directory")?;
    Ok((without_dots(&from).into_os_string().into_encoded_bytes(), source.target.clone()))
}

/// Returns the path without `..` and a slash at its end, so that however it is written it is the same tree. Where a symbolic link
/// comes before `..`, another directory lies there: the links are followed then.
fn without_dots(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => drop(plain.pop()),
            other => plain.push(other),
        }
    }
    let identity = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
    let has_dots = path.components().any(|component| component == Component::ParentDir);
    match has_dots && identity(&plain) != identity(path) {
        true => path.canonicalize().unwrap_or(plain),
        false => plain,
    }
}

fn random_id<const BYTES: usize>() -> anyhow::Result<String> {
    let id: [u8; BYTES] = transfer::random_bytes()?;
    Ok(id.iter().map(|byte| format!("{byte:02x}")).collect())
}
