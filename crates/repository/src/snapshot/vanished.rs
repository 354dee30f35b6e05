//! Names that earlier puts of the same sources made and this one has not found there: they leave the place, unless others
//! wrote there since.

use std::collections::{BTreeMap, HashMap, HashSet};

use catalog::FileEntry;
use format::{Attributes, Change, FileId, FileKind, SnapshotEntry, StorePath, VersionId, VersionRecord};

use super::draft::SnapshotDraft;
use super::listing::ListingReader;
use super::{REMOVED, SnapshotOrigin, TreeSnapshot, own_path};
use crate::list::list_everything;
use crate::repair::is_damage;
use crate::{Error, Repository, Result};

/// The names that are to leave the place.
#[derive(Default)]
pub(super) struct Removals {
    /// Names of which nothing is lost.
    removed: Vec<StorePath>,
    /// The last names of files with versions that no snapshot may hold.
    moved: Vec<StorePath>,
    /// Empty then; those below come first.
    directories: Vec<StorePath>,
}

/// A name as an earlier put made it.
struct MadeName {
    kind: FileKind,
    /// Of a symlink.
    target: Vec<u8>,
    content: MadeContent,
}

/// Which contents of a file were that put's.
enum MadeContent {
    /// This version, which a snapshot holds.
    Held(VersionId),
    /// Names committed by then (nanoseconds since 1970), with this digest if it was written under the name.
    Listed { committed_ns: i64, digest: Option<[u8; 32]> },
}

/// The names that earlier puts made and the source no longer has.
struct Candidates {
    by_path: BTreeMap<StorePath, Vec<MadeName>>,
    /// When unfinished puts of these sources committed: what was written then is theirs, under any name.
    commits: HashSet<i64>,
}

/// A file's name in the place that is to go.
struct Leaving {
    path: StorePath,
    head: VersionId,
    /// Of the file, all its names.
    links: u64,
    is_held: bool,
}

impl Repository {
    /// Finds the names that earlier puts of these sources made, and that the place still has as they were. `record` is that of the
    /// new snapshot.
    pub(super) fn vanished(
        &self,
        draft: &SnapshotDraft,
        origin: &SnapshotOrigin,
        record: Option<&VersionRecord>,
    ) -> Result<Removals> {
        let commits = origin.unfinished.iter().map(|list| list.committed_ns).collect();
        let mut candidates = Candidates { by_path: BTreeMap::new(), commits };
        for list in &origin.unfinished {
            let content = |name: &SnapshotEntry| MadeContent::Listed {
                committed_ns: list.committed_ns,
                digest: name.content.as_ref().and_then(|content| content.digest),
            };
            self.add_names(&list.names, (draft, origin), &content, &mut candidates)?;
        }
        // Back to the last one that is whole.
        for snapshot in self.snapshots()?.readable.iter().rev() {
            if !snapshot.is_of_series(&origin.host, &origin.sources) {
                continue;
            }
            let is_whole = snapshot.facts.missing == 0;
            // The same tree: most nights of most sources.
            if !(is_whole && record == Some(&snapshot.record)) {
                self.add_names(snapshot, (draft, origin), &held, &mut candidates)?;
            }
            if is_whole {
                break;
            }
        }
        self.still_there(candidates, draft)
    }

    /// Adds the names of a listing that are not at the source. Of a listing that is damaged the rest is not known: those names
    /// stay.
    fn add_names(
        &self,
        snapshot: &TreeSnapshot,
        (draft, origin): (&SnapshotDraft, &SnapshotOrigin),
        content: &dyn Fn(&SnapshotEntry) -> MadeContent,
        candidates: &mut Candidates,
    ) -> Result<()> {
        let mut records = ListingReader::of(self, snapshot);
        while let Some(name) = next_readable(&mut records)? {
            let is_in_place = origin.sources.iter().any(|(_, target)| name.path.is_within(target));
            let is_known = !origin.unlisted.iter().any(|directory| name.path.is_within(directory));
            if is_in_place && is_known && !draft.has(&name.path) {
                let content = content(&name);
                let SnapshotEntry { path, attributes: Attributes { kind, target, .. }, .. } = name;
                candidates.by_path.entry(path).or_default().push(MadeName { kind, target, content });
            }
        }
        Ok(())
    }

    /// Keeps the names that are what they were.
    fn still_there(&self, mut candidates: Candidates, draft: &SnapshotDraft) -> Result<Removals> {
        let mut by_directory = BTreeMap::<StorePath, Vec<(StorePath, Vec<MadeName>)>>::new();
        for (path, made) in std::mem::take(&mut candidates.by_path) {
            by_directory.entry(path.parent().unwrap_or_default()).or_default().push((path, made));
        }
        let (mut removals, mut found, mut directories) = (Removals::default(), Vec::new(), Vec::new());
        for (directory, names) in by_directory {
            let mut children = self.children(&directory)?;
            for (path, made) in names {
                let Some(entry) = children.remove(&path) else { continue };
                let mut same_kind = made.iter().filter(|made| made.kind == entry.attributes.kind).peekable();
                match entry.attributes.kind {
                    _ if same_kind.peek().is_none() => {}
                    FileKind::Directory => directories.push(path),
                    FileKind::Symlink if same_kind.any(|made| made.target == entry.attributes.target) => {
                        removals.removed.push(path)
                    }
                    FileKind::Symlink => {}
                    FileKind::Regular => found.push((path, entry, made)),
                }
            }
        }
        let files: HashSet<FileId> = found.iter().map(|(_, entry, _)| entry.file).collect();
        let in_draft = draft.versions_of(&files);
        let leaving = found.into_iter().filter_map(|(path, entry, made)| {
            let head = entry.head_id()?;
            let is_held = made.iter().any(|made| made.holds(head));
            let is_ours =
                is_held || candidates.has_written(&entry, &made) || in_draft.contains(&(head.file, head.number));
            is_ours.then_some(Leaving { path, head, links: entry.links, is_held })
        });
        removals.add_files(leaving.collect());
        self.add_emptied(directories, &mut removals)?;
        Ok(removals)
    }

    fn add_emptied(&self, mut directories: Vec<StorePath>, removals: &mut Removals) -> Result<()> {
        let mut going: HashSet<StorePath> = removals.removed.iter().chain(&removals.moved).cloned().collect();
        // Those below come behind those above in order.
        directories.sort();
        for directory in directories.into_iter().rev() {
            if self.children(&directory)?.keys().all(|child| going.contains(child)) {
                going.insert(directory.clone());
                removals.directories.push(directory);
            }
        }
        Ok(())
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

fn held(name: &SnapshotEntry) -> MadeContent {
    let (file, number) = name.content.as_ref().map_or_else(Default::default, |content| (content.file, content.number));
    MadeContent::Held(VersionId { file, number })
}

fn next_readable(records: &mut ListingReader) -> Result<Option<SnapshotEntry>> {
    match records.next() {
        Err(error) if is_damage(&error) || matches!(error, Error::Damaged { .. }) => Ok(None),
        next => next,
    }
}

impl MadeName {
    /// Returns whether a snapshot has this version under the name.
    fn holds(&self, head: VersionId) -> bool {
        matches!(self.content, MadeContent::Held(held) if held == head)
    }
}

impl Candidates {
    /// Returns whether unfinished puts wrote what the name has: they listed it, and no other has written since, or they wrote it
    /// through another name of the file.
    fn has_written(&self, entry: &FileEntry, made: &[MadeName]) -> bool {
        let Some(head) = &entry.head else { return false };
        let mut is_written_here = false;
        for made in made {
            if let MadeContent::Listed { committed_ns, digest } = made.content {
                let is_same = digest.is_none() || digest == head.record.content;
                if is_same && head.committed_ns <= committed_ns {
                    return true;
                }
                is_written_here |= committed_ns == head.committed_ns;
            }
        }
        !is_written_here && self.commits.contains(&head.committed_ns)
    }
}

impl Removals {
    /// A file that keeps a name in the place loses nothing; of others the versions that no snapshot holds are kept.
    fn add_files(&mut self, leaving: Vec<Leaving>) {
        let mut leaving_names = HashMap::<FileId, u64>::new();
        leaving.iter().for_each(|name| *leaving_names.entry(name.head.file).or_default() += 1);
        for Leaving { path, head, links, is_held } in leaving {
            let keeps_a_name = links > leaving_names[&head.file];
            let is_lossless = keeps_a_name || (is_held && head.number == 1);
            if is_lossless { &mut self.removed } else { &mut self.moved }.push(path);
        }
    }

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
