//! Lists of names that puts made in a place and that no snapshot has: what a put commits before its snapshot, one list with
//! each commit, and what only a forgotten snapshot had. The next put of the same sources learns from them what the place has
//! of the earlier ones, and drops them.

use std::collections::BTreeSet;

use format::{Change, ContainerId, FileTime, SnapshotEntry, SnapshotRecord, StorePath};
use store::ClaimOwner;

use super::listing::ListingReader;
use super::vanished::next_readable;
use super::{SnapshotDraft, SnapshotOrigin, TreeSnapshot, own_path, snapshot_attributes};
use crate::{Repository, Result};

/// Behind the name of a list.
const UNFINISHED: &[u8] = b".unfinished";

/// A list that a put left, or a forgotten snapshot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnfinishedList {
    /// Without contents.
    pub(super) names: TreeSnapshot,
    /// When its names were committed: in the same transaction.
    pub(super) committed_ns: i64,
}

impl UnfinishedList {
    pub fn path(&self) -> StorePath {
        self.names.path()
    }
}

pub(super) fn is_unfinished(path: &StorePath) -> bool {
    path.name().ends_with(UNFINISHED)
}

impl Repository {
    /// Returns the change that lists the names which these changes make, to be committed with them as the last, and the
    /// containers it refers to.
    pub fn list_unfinished(
        &self,
        claim_owner: ClaimOwner,
        origin: &SnapshotOrigin,
        id: &str,
        changes: &[Change],
    ) -> Result<(Change, BTreeSet<ContainerId>)> {
        let mut draft = SnapshotDraft::default();
        changes.iter().for_each(|change| list_names(&mut draft, change));
        let facts =
            SnapshotRecord { host: origin.host.clone(), sources: origin.sources.clone(), ..SnapshotRecord::default() };
        self.write_list(claim_owner, draft, (id, origin.taken), facts)
    }

    /// Returns the change that lists the names of a snapshot which is to go, with their versions' numbers.
    pub(super) fn list_forgotten(
        &self,
        claim_owner: ClaimOwner,
        snapshot: &TreeSnapshot,
    ) -> Result<(Change, BTreeSet<ContainerId>)> {
        let mut draft = SnapshotDraft::default();
        let mut records = ListingReader::of(self, snapshot);
        while let Some(SnapshotEntry { path, attributes, content }) = next_readable(&mut records)? {
            match content {
                None => draft.add(&path, &attributes),
                Some(content) => {
                    let name = draft.add_name(&path, content.digest);
                    draft.number(name, (content.file, content.number));
                }
            }
        }
        let SnapshotRecord { host, sources, .. } = snapshot.facts.clone();
        let facts = SnapshotRecord { host, sources, ..SnapshotRecord::default() };
        self.write_list(claim_owner, draft, (&snapshot.id, snapshot.taken), facts)
    }

    fn write_list(
        &self,
        claim_owner: ClaimOwner,
        mut draft: SnapshotDraft,
        (id, taken): (&str, FileTime),
        facts: SnapshotRecord,
    ) -> Result<(Change, BTreeSet<ContainerId>)> {
        let built = draft.build(self, claim_owner)?;
        let facts = SnapshotRecord { listing_bytes: built.listing_bytes, names: built.names, ..facts };
        let path = own_path(&[id.as_bytes(), UNFINISHED].concat());
        let attributes = snapshot_attributes(taken, &facts);
        Ok((Change::Write { path, attributes, version: built.record, base: Some(None) }, built.references))
    }

    /// Returns the lists that puts of these sources left, or that run now.
    pub fn unfinished_lists(&self, origin: &SnapshotOrigin) -> Result<Vec<UnfinishedList>> {
        let lists = self.snapshots()?.unfinished.into_iter();
        Ok(lists.filter(|list| list.names.is_of_series(&origin.host, &origin.sources)).collect())
    }
}

fn list_names(draft: &mut SnapshotDraft, change: &Change) {
    match change {
        Change::Make { path, attributes } => draft.add(path, attributes),
        Change::Write { path, version, .. } => drop(draft.add_name(path, version.content)),
        Change::Link { path, .. } | Change::Attributes { path, .. } => drop(draft.add_name(path, None)),
        Change::Remove { .. } | Change::Rename { .. } | Change::Forget { .. } => {}
    }
}
