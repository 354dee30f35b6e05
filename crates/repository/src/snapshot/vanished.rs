//! Names that the snapshots before have and this one has not: they leave the place, unless others wrote there since.

use std::collections::{BTreeMap, HashSet};

use catalog::FileEntry;
use format::{Attributes, Change, FileKind, SnapshotEntry, SnapshotRecord, StorePath, VersionRecord};

use super::draft::SnapshotDraft;
use super::listing::ListingReader;
use super::{REMOVED, own_path};
use crate::list::list_everything;
use crate::repair::is_damage;
use crate::{Error, Repository, Result};

/// What is to leave the place.
#[derive(Default)]
pub(super) struct Removals {
    /// Names of which nothing is lost.
    removed: Vec<StorePath>,
    /// Files with versions that no snapshot may hold.
    moved: Vec<StorePath>,
    /// Empty then; those below come first.
    directories: Vec<StorePath>,
}

impl Repository {
    /// Finds the names that earlier snapshots of these sources have, back to the last one that is whole, and that the place
    /// still has as they were.
    pub(super) fn vanished(
        &self,
        draft: &SnapshotDraft,
        (facts, record): (&SnapshotRecord, &VersionRecord),
        unlisted: &[StorePath],
    ) -> Result<Removals> {
        let mut before = BTreeMap::new();
        for snapshot in self.snapshots()?.iter().rev() {
            if !snapshot.is_of_series(&facts.host, &facts.sources) {
                continue;
            }
            // The same tree: most nights of most sources.
            if snapshot.record == *record && snapshot.facts.missing == 0 {
                break;
            }
            let mut records = ListingReader::of(self, snapshot);
            // Of a listing that is damaged the rest is not known: those names stay.
            while let Some(name) = next_readable(&mut records)? {
                let is_in_place = facts.sources.iter().any(|(_, target)| name.path.is_within(target));
                let is_known = !unlisted.iter().any(|directory| name.path.is_within(directory));
                if is_in_place && is_known && !draft.has(&name.path) {
                    before.entry(name.path.clone()).or_insert(name);
                }
            }
            if snapshot.facts.missing == 0 {
                break;
            }
        }
        self.present(before)
    }

    /// Keeps the names that are what they were.
    fn present(&self, before: BTreeMap<StorePath, SnapshotEntry>) -> Result<Removals> {
        let mut by_directory = BTreeMap::<StorePath, Vec<SnapshotEntry>>::new();
        for name in before.into_values() {
            by_directory.entry(name.path.parent().unwrap_or_default()).or_default().push(name);
        }
        let (mut vanished, mut going) = (Removals::default(), HashSet::new());
        let mut directories = Vec::new();
        for (directory, names) in by_directory {
            let children = self.children(&directory)?;
            for name in names {
                let Some(entry) = children.get(&name.path) else { continue };
                match &name.content {
                    _ if entry.attributes.kind != name.attributes.kind => continue,
                    None if name.attributes.kind == FileKind::Directory => directories.push(name.path),
                    None if entry.attributes.target != name.attributes.target => continue,
                    None => vanished.removed.push(name.path),
                    Some(content) => match entry.head_id() {
                        Some(head) if head.file == content.file && head.number == content.number => {
                            let has_others = head.number > 1;
                            if has_others { &mut vanished.moved } else { &mut vanished.removed }.push(name.path);
                        }
                        _ => continue,
                    },
                }
            }
        }
        going.extend(vanished.removed.iter().chain(&vanished.moved).cloned());
        // Those below come behind those above in order.
        directories.sort();
        for directory in directories.into_iter().rev() {
            if self.children(&directory)?.keys().all(|child| going.contains(child)) {
                going.insert(directory.clone());
                vanished.directories.push(directory);
            }
        }
        Ok(vanished)
    }

    fn children(&self, directory: &StorePath) -> Result<BTreeMap<StorePath, FileEntry>> {
        let mut children = BTreeMap::new();
        let listed = list_everything(self.catalog(), directory, false, |listed| {
            children.extend(listed);
            Ok::<_, Error>(())
        });
        match listed {
            Err(Error::Catalog(catalog::Error::NotFound { .. } | catalog::Error::Refused { .. })) => {
                Ok(BTreeMap::new())
            }
            listed => listed.map(|()| children),
        }
    }
}

fn next_readable(records: &mut ListingReader) -> Result<Option<SnapshotEntry>> {
    match records.next() {
        Err(error) if is_damage(&error) => Ok(None),
        next => next,
    }
}

impl Removals {
    /// Returns the changes, for the snapshot of this name: `attributes` are its own.
    pub fn changes(&self, id: &str, attributes: &Attributes) -> Vec<Change> {
        let mut changes = Vec::new();
        if !self.moved.is_empty() {
            let path = own_path(&[id.as_bytes(), REMOVED].concat());
            let attributes = Attributes { kind: FileKind::Directory, mode: 0o700, ..attributes.clone() };
            changes.push(Change::Make { path: path.clone(), attributes });
            for from in &self.moved {
                match path.join(from.as_bytes()) {
                    Ok(to) => changes.push(Change::Rename { from: from.clone(), to }),
                    // A path that is as long as paths can be stays.
                    Err(_) => continue,
                }
            }
        }
        let removed = self.removed.iter().map(|path| Change::Remove { path: path.clone(), recursive: false });
        changes.extend(removed);
        let removed = self.directories.iter().map(|path| Change::Remove { path: path.clone(), recursive: false });
        changes.extend(removed);
        changes
    }
}
