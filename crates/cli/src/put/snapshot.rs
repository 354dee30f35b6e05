//! The names of a run on their way into a snapshot.

use std::path::PathBuf;

use anyhow::Context;
use catalog::FileEntry;
use format::{Change, FileId, FileTime, StorePath};
use repository::{DraftEntry, Repository, SnapshotDraft, SnapshotOrigin, SnapshotReport};
use store::ClaimOwner;

use super::Source;
use super::outcome::Known;
use crate::clock::now_ns;

/// Random bytes of a snapshot's name.
const ID_BYTES: usize = 4;

/// What the user says of a snapshot.
#[derive(Clone, Debug, Default)]
pub struct SnapshotOptions {
    /// This machine's name, if none is given.
    pub host: Option<String>,
    pub tags: Vec<String>,
}

pub struct SnapshotNames {
    draft: SnapshotDraft,
    origin: SnapshotOrigin,
    /// Its claims at the store are its own.
    claim_owner: ClaimOwner,
    /// What the store has there, and below, stays.
    pub unread: Vec<StorePath>,
}

impl SnapshotNames {
    /// Begins a snapshot where a directory is among the sources.
    pub fn begin(
        sources: &[Source],
        options: &SnapshotOptions,
        claim_owner: ClaimOwner,
    ) -> anyhow::Result<Option<Self>> {
        let is_tree = |source: &Source| source.from.symlink_metadata().is_ok_and(|found| found.is_dir());
        if !sources.iter().any(is_tree) {
            return Ok(None);
        }
        let host = match &options.host {
            Some(host) => host.clone(),
            None => rustix::system::uname().nodename().to_string_lossy().into_owned(),
        };
        let absolute = |source: &Source| -> anyhow::Result<(Vec<u8>, StorePath)> {
            let from = std::path::absolute(&source.from).context("the working directory")?;
            // Without a slash at its end.
            let from: PathBuf = from.components().collect();
            Ok((from.into_os_string().into_encoded_bytes(), source.target.clone()))
        };
        let origin = SnapshotOrigin {
            taken: FileTime::from_ns(now_ns()),
            host,
            sources: sources.iter().map(absolute).collect::<anyhow::Result<_>>()?,
            tags: options.tags.clone(),
            missing: 0,
            unlisted: Vec::new(),
        };
        let (draft, unread) = (SnapshotDraft::default(), Vec::new());
        Ok(Some(SnapshotNames { draft, origin, claim_owner, unread }))
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
            Change::Remove { .. } | Change::Rename { .. } | Change::Forget { .. } => {}
        }
        None
    }

    /// Gives the versions of a commit their numbers.
    pub fn number(&mut self, pending: Vec<DraftEntry>, numbers: Vec<(FileId, u64)>) {
        pending.into_iter().zip(numbers).for_each(|(pending, number)| self.draft.number(pending, number));
    }

    /// Records the snapshot; `missing` names could not be read.
    pub fn record(self, repository: &Repository, missing: u64) -> anyhow::Result<SnapshotReport> {
        let SnapshotNames { draft, origin, claim_owner, unread } = self;
        let origin = SnapshotOrigin { missing, unlisted: unread, ..origin };
        let mut id = [0; ID_BYTES];
        let random = || -> anyhow::Result<String> {
            id = transfer::random_bytes()?;
            Ok(id.iter().map(|byte| format!("{byte:02x}")).collect())
        };
        let recorded = repository.record_snapshot(claim_owner, draft, origin, random)?;
        Ok(recorded)
    }
}
