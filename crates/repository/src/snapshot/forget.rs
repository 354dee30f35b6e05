//! Snapshots that go, and the files that were kept for their sake.

use catalog::FileEntry;
use format::{Change, FileKind, FileTime, SnapshotRecord, StorePath};

use super::{REMOVED, SnapshotDirectory, TreeSnapshot, directory, exist, facts_of, own_path};
use crate::list::list_everything;
use crate::{Error, Repository, Result};

/// Files that left a place and were kept with their versions.
struct KeptFiles {
    path: StorePath,
    taken: FileTime,
    facts: SnapshotRecord,
}

impl Repository {
    /// Returns the changes that drop these snapshots, and kept files that only they and older ones may have held.
    pub fn without_snapshots(&self, dropped: &[TreeSnapshot]) -> Result<Vec<Change>> {
        let is_dropped = |snapshot: &TreeSnapshot| dropped.iter().any(|dropped| dropped.id == snapshot.id);
        let kept: Vec<TreeSnapshot> =
            self.snapshots()?.readable.into_iter().filter(|snapshot| !is_dropped(snapshot)).collect();
        let paths = dropped.iter().map(|snapshot| own_path(snapshot.id.as_bytes()));
        let mut changes: Vec<Change> = paths.map(|path| Change::Remove { path, recursive: false }).collect();
        for files in self.kept_files()? {
            let holds = |snapshot: &TreeSnapshot| {
                snapshot.taken < files.taken && snapshot.is_of_series(&files.facts.host, &files.facts.sources)
            };
            if !kept.iter().any(holds) {
                changes.push(Change::Remove { path: files.path, recursive: true });
            }
        }
        Ok(changes)
    }

    fn kept_files(&self) -> Result<Vec<KeptFiles>> {
        let mut kept = Vec::new();
        if !exist(self)? {
            return Ok(kept);
        }
        list_everything(self.catalog(), &directory(), false, |listed| {
            for (path, FileEntry { attributes, .. }) in listed {
                if attributes.kind == FileKind::Directory && path.name().ends_with(REMOVED) {
                    // Those of which it is not known whose they were stay.
                    let Ok(facts) = facts_of(&attributes) else { continue };
                    kept.push(KeptFiles { path, taken: attributes.times.modified, facts });
                }
            }
            Ok::<_, Error>(())
        })?;
        Ok(kept)
    }

    /// Returns the change that drops the unreadable snapshot of this name, or the list; none where there is none.
    pub fn without_unreadable_snapshot(&self, id: &str) -> Result<Option<Change>> {
        let SnapshotDirectory { unreadable, unfinished, .. } = self.snapshots()?;
        let unreadable = unreadable.into_iter().map(|snapshot| (snapshot.id, snapshot.path));
        let lists = unfinished.into_iter().map(|list| (list.names.id.clone(), list.path()));
        let found = unreadable.chain(lists).find(|(name, _)| name == id);
        Ok(found.map(|(_, path)| Change::Remove { path, recursive: true }))
    }
}
