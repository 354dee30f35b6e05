//! Snapshots that go, and the files that were kept for their sake.

use std::collections::BTreeSet;

use catalog::FileEntry;
use format::{Change, ContainerId, FileKind, FileTime, SnapshotRecord, StorePath};
use store::ClaimOwner;

use super::{REMOVED, SnapshotDirectory, TreeSnapshot, directory, exist, facts_of, own_path};
use crate::list::list_everything;
use crate::{Error, Repository, Result};

/// Files that left a place and were kept with their versions.
struct KeptFiles {
    path: StorePath,
    taken: FileTime,
    facts: SnapshotRecord,
}

/// The changes of a forgetting.
pub struct SnapshotRemoval {
    pub changes: Vec<Change>,
    /// Lists of names that only these snapshots have: their puts may have left them in a place.
    pub lists: Vec<Change>,
    /// Of the lists.
    pub references: BTreeSet<ContainerId>,
}

fn has(snapshots: &[TreeSnapshot], snapshot: &TreeSnapshot) -> bool {
    snapshots.iter().any(|other| other.id == snapshot.id)
}

/// Returns those of the dropped ones that the next put of their sources would read: back to the last whole one of each tree.
fn asked_for<'a>(all: &'a [TreeSnapshot], dropped: &[TreeSnapshot]) -> Vec<&'a TreeSnapshot> {
    let is_asked_for = |(at, snapshot): &(usize, &TreeSnapshot)| {
        let mut newer = all[at + 1..].iter();
        let SnapshotRecord { host, sources, .. } = &snapshot.facts;
        has(dropped, snapshot) && !newer.any(|newer| newer.is_of_series(host, sources) && newer.facts.missing == 0)
    };
    all.iter().enumerate().filter(is_asked_for).map(|(_, snapshot)| snapshot).collect()
}

impl Repository {
    /// Returns what drops these snapshots: with lists of the names that the next put of their sources asks for.
    pub fn forget_snapshots(&self, claim_owner: ClaimOwner, dropped: &[TreeSnapshot]) -> Result<SnapshotRemoval> {
        let changes = self.without_snapshots(dropped)?;
        let mut removal = SnapshotRemoval { changes, lists: Vec::new(), references: BTreeSet::new() };
        for snapshot in asked_for(&self.snapshots()?.readable, dropped) {
            match self.list_forgotten(claim_owner, snapshot) {
                // The names stay then, and space is freed.
                Err(error) if error.is_full() => {}
                listed => {
                    let (list, references) = listed?;
                    removal.lists.push(list);
                    removal.references.extend(references);
                }
            }
        }
        Ok(removal)
    }

    /// Returns the changes that drop the lists of trees that have no place but these.
    pub fn without_lists(&self, places: &[StorePath]) -> Result<Vec<Change>> {
        let is_within = |target: &StorePath| places.iter().any(|place| target.is_within(place));
        let mut lists = self.snapshots()?.unfinished;
        lists.retain(|list| list.names.facts.sources.iter().all(|(_, target)| is_within(target)));
        Ok(lists.iter().map(|list| Change::Remove { path: list.path(), recursive: false }).collect())
    }

    /// Returns the changes that drop these snapshots, and kept files that only they and older ones may have held.
    pub fn without_snapshots(&self, dropped: &[TreeSnapshot]) -> Result<Vec<Change>> {
        let kept: Vec<TreeSnapshot> =
            self.snapshots()?.readable.into_iter().filter(|snapshot| !has(dropped, snapshot)).collect();
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
