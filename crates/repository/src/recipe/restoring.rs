//! Dropped files whose data was made again.

use std::collections::BTreeSet;

use catalog::FileEntry;
use format::{Change, StorePath};
use store::ClaimOwner;

use super::DroppedContent;
use crate::{Draft, Repository, Result};

/// A file that gets its data back.
pub struct RestoredFile {
    pub path: StorePath,
    /// As it was when the data was planned.
    pub entry: FileEntry,
    pub draft: Draft,
}

impl Repository {
    /// Gives files their data back, in place of the versions without; all or none. Refused where one of them has changed
    /// since.
    pub fn restore_files(&self, claim_owner: ClaimOwner, files: &[RestoredFile]) -> Result<()> {
        let (mut changes, mut references) = (Vec::new(), BTreeSet::new());
        for RestoredFile { path, entry, draft } in files {
            let version = draft.version().clone();
            self.with_references(&version.root, &mut references)?;
            let (attributes, base) = (entry.attributes.clone(), Some(entry.head_id()));
            changes.push(Change::Write { path: path.clone(), attributes, version, base });
            let content = entry.head.as_ref().and_then(|head| DroppedContent::of(&head.record));
            let versions = self.catalog.versions(path)?.into_iter();
            let same = versions.filter(|version| content.is_some() && DroppedContent::of(&version.record) == content);
            let versions = same.map(|version| version.number).collect();
            changes.push(Change::Forget { path: path.clone(), file: entry.file, versions });
        }
        self.commit(claim_owner, changes, references, Vec::new())?;
        Ok(())
    }
}
