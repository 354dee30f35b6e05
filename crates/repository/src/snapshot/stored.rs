//! The snapshots that a store has, read from its own directory. One that cannot be read stops none of the others.

use catalog::FileEntry;
use format::{FileKind, StorePath};

use super::unfinished::{UnfinishedList, is_unfinished};
use super::{REMOVED, TreeSnapshot, directory, exist, facts_of};
use crate::list::list_everything;
use crate::{Error, Repository, Result};

/// The contents of the store's own directory.
#[derive(Default)]
pub struct SnapshotDirectory {
    /// In the order in which they were recorded: clocks may be wrong.
    pub readable: Vec<TreeSnapshot>,
    pub unreadable: Vec<UnreadableSnapshot>,
    pub(crate) unfinished: Vec<UnfinishedList>,
}

/// A file that is no snapshot of ours, or a damaged one, or one of a newer version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableSnapshot {
    pub path: StorePath,
    pub id: String,
    pub why: String,
}

impl std::fmt::Display for UnreadableSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let UnreadableSnapshot { path, id, why } = self;
        write!(f, "{path}: the snapshot cannot be read: {why}; `thalweg forget STORE:: --snapshot '{id}'` drops it")
    }
}

impl SnapshotDirectory {
    /// Returns why the snapshot at this path cannot be read, its listing included.
    pub(crate) fn why_unreadable(&self, repository: &Repository, path: &StorePath) -> Option<String> {
        if let Some(unreadable) = self.unreadable.iter().find(|snapshot| snapshot.path == *path) {
            return Some(format!("the snapshot cannot be read: {}", unreadable.why));
        }
        let lists = self.unfinished.iter().map(|list| &list.names);
        let snapshot = self.readable.iter().chain(lists).find(|snapshot| snapshot.path() == *path)?;
        snapshot.check_listing(repository).err().map(|error| error.reason())
    }

    /// Returns all that stand for no file of a user.
    pub(crate) fn into_files(self) -> Vec<TreeSnapshot> {
        self.readable.into_iter().chain(self.unfinished.into_iter().map(|list| list.names)).collect()
    }

    fn add(&mut self, path: StorePath, entry: FileEntry) {
        if entry.attributes.kind == FileKind::Directory && path.name().ends_with(REMOVED) {
            return;
        }
        let committed_ns = entry.head.as_ref().map_or(0, |head| head.committed_ns);
        match TreeSnapshot::read(&path, entry) {
            Ok(names) if is_unfinished(&path) => self.unfinished.push(UnfinishedList { names, committed_ns }),
            Ok(snapshot) => self.readable.push(snapshot),
            Err(why) => {
                let id = String::from_utf8_lossy(path.name()).into_owned();
                self.unreadable.push(UnreadableSnapshot { path, id, why });
            }
        }
    }
}

impl TreeSnapshot {
    fn read(path: &StorePath, entry: FileEntry) -> std::result::Result<Self, String> {
        let head = entry.head.ok_or("it is no regular file")?;
        let facts = facts_of(&entry.attributes)?;
        if facts.listing_bytes + facts.content_bytes != head.record.size {
            return Err("it is not as long as its facts say".into());
        }
        let id = std::str::from_utf8(path.name()).map_err(|_| "its name is not UTF-8")?.to_owned();
        let (file, attributes, record) = (entry.file, entry.attributes, head.record);
        Ok(TreeSnapshot { id, taken: attributes.times.modified, file, facts, record, attributes })
    }
}

impl Repository {
    /// Returns all that the store has of snapshots.
    pub fn snapshots(&self) -> Result<SnapshotDirectory> {
        let mut found = SnapshotDirectory::default();
        if !exist(self)? {
            return Ok(found);
        }
        list_everything(self.catalog(), &directory(), false, |listed| {
            listed.into_iter().for_each(|(path, entry)| found.add(path, entry));
            Ok::<_, Error>(())
        })?;
        found.readable.sort_by_key(|snapshot| snapshot.file);
        Ok(found)
    }
}
