//! Lists of the names that a put commits before its snapshot, one with each commit. A put that breaks off leaves them
//! behind: the next one of the same sources learns from them what the place has of it, and drops them.

use std::collections::BTreeSet;

use format::{Change, ContainerId, SnapshotRecord, StorePath};
use store::ClaimOwner;

use super::{SnapshotDraft, SnapshotOrigin, TreeSnapshot, own_path, snapshot_attributes};
use crate::{Repository, Result};

/// Behind the name of a list.
const UNFINISHED: &[u8] = b".unfinished";

/// A list that a put left.
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
        let built = draft.build(self, claim_owner)?;
        let facts = SnapshotRecord {
            host: origin.host.clone(),
            sources: origin.sources.clone(),
            listing_bytes: built.listing_bytes,
            names: built.names,
            ..SnapshotRecord::default()
        };
        let change = Change::Write {
            path: own_path(&[id.as_bytes(), UNFINISHED].concat()),
            attributes: snapshot_attributes(origin.taken, &facts),
            version: built.record,
            base: Some(None),
        };
        Ok((change, built.references))
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
        Change::Write { path, version, .. } => draft.add_name(path, version.content),
        Change::Link { path, .. } | Change::Attributes { path, .. } => draft.add_name(path, None),
        Change::Remove { .. } | Change::Rename { .. } | Change::Forget { .. } | Change::Manifest { .. } => {}
    }
}
