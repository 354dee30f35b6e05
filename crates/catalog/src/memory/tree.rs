//! Names, their targets, and the changes a commit makes to them.
//!
//! All changes go through [`Tree::set_name`] and [`Tree::set_file`], which remember what was there before:
//! that is how a commit that fails half-way leaves nothing behind.

use std::collections::BTreeMap;

use format::{Attributes, Change, FileId, FileKind, Root, StorePath, VersionId, VersionRecord};

use crate::counters::{Counters, ROOT};
use crate::refusal::*;
use crate::subtree::{MAX_PATH_BYTES, bounds, child_end, successor};
use crate::{Error, FileEntry, Result, Statistics, Version};

#[derive(Clone)]
pub(super) struct Tree {
    names: BTreeMap<Vec<u8>, FileId>,
    files: BTreeMap<FileId, File>,
    undo: Vec<Undo>,
    /// Versions ever made: the last one's cursor in `roots`.
    versions: u64,
}

#[derive(Clone)]
struct File {
    attributes: Attributes,
    links: u64,
    last_version: u64,
    /// The version that was written last: it has the file's attributes.
    newest: u64,
    /// By number; each with its cursor in `roots`.
    versions: BTreeMap<u64, (u64, Version)>,
}

impl File {
    fn new(attributes: &Attributes) -> Self {
        File { attributes: attributes.clone(), links: 0, last_version: 0, newest: 0, versions: BTreeMap::new() }
    }

    fn head(&self) -> Option<&Version> {
        self.versions.last_key_value().map(|(_, (_, version))| version)
    }
}

/// One step of undoing a commit.
#[derive(Clone)]
enum Undo {
    Name(Vec<u8>, Option<FileId>),
    File(FileId, Option<File>),
}

fn implicit_directory() -> Attributes {
    Attributes { kind: FileKind::Directory, mode: 0o755, ..Default::default() }
}

impl Tree {
    pub fn new() -> Self {
        let root = File { links: 1, ..File::new(&implicit_directory()) };
        Tree {
            names: BTreeMap::from([(Vec::new(), ROOT)]),
            files: BTreeMap::from([(ROOT, root)]),
            undo: Vec::new(),
            versions: 0,
        }
    }

    /// Applies all changes of `body`, or none when it fails.
    pub fn attempt<T>(&mut self, body: impl FnOnce(&mut Self) -> Result<T>) -> Result<T> {
        self.undo.clear();
        let result = body(self);
        if result.is_err() {
            while let Some(step) = self.undo.pop() {
                match step {
                    Undo::Name(path, file) => drop(replace(&mut self.names, path, file)),
                    Undo::File(id, file) => drop(replace(&mut self.files, id, file)),
                }
            }
        }
        result
    }

    /// Applies one change; `number` is given in replay only, where bases do not count. Returns the numbers of a write.
    pub fn apply(
        &mut self,
        change: &Change,
        committed_ns: i64,
        number: Option<(FileId, u64)>,
        counters: &mut Counters,
    ) -> Result<Option<(FileId, u64)>> {
        match change {
            Change::Write { path, attributes, version, base } => {
                let base = base.filter(|_| number.is_none());
                self.check_write(path, attributes, base)?;
                self.make_above(path, counters)?;
                return Ok(Some(self.write(path, attributes, version, committed_ns, number, counters)));
            }
            Change::Make { path, attributes } => self.make(path, attributes, counters)?,
            Change::Link { path, target } => self.link(path, target, counters)?,
            Change::Remove { path, recursive } => self.remove(path, *recursive)?,
            Change::Rename { from, to } => self.rename(from, to, counters)?,
            Change::Attributes { path, attributes } => self.set_attributes(path, attributes)?,
            Change::Forget { path, file, versions } => self.forget(path, *file, versions)?,
            Change::Manifest { path, version, root } => self.set_root(path, *version, root)?,
        }
        Ok(None)
    }

    /// Returns the number of the newest version a file has or had; 0 for a file that does not exist.
    pub fn last_version(&self, id: FileId) -> u64 {
        self.files.get(&id).map_or(0, |file| file.last_version)
    }

    fn check_write(&self, path: &StorePath, attributes: &Attributes, base: Option<Option<VersionId>>) -> Result<()> {
        if attributes.kind != FileKind::Regular {
            return refused(path, Refusal::WriteIsRegular);
        }
        if self.kind(path) == Some(FileKind::Directory) {
            return refused(path, Refusal::IsDirectory);
        }
        let head = self.entry(path).and_then(|entry| entry.head_id());
        match base {
            Some(base) if base != head => Err(Error::HeadMoved { path: path.clone(), head }),
            _ => Ok(()),
        }
    }

    fn write(
        &mut self,
        path: &StorePath,
        attributes: &Attributes,
        record: &VersionRecord,
        committed_ns: i64,
        number: Option<(FileId, u64)>,
        counters: &mut Counters,
    ) -> (FileId, u64) {
        let present = self.find(path).filter(|(_, file)| file.attributes.kind == FileKind::Regular).map(|(id, _)| id);
        let id = number.map(|(id, _)| id).or(present).unwrap_or_else(|| counters.next_versioned());
        let mut file = self.files.get(&id).cloned().unwrap_or_else(|| File::new(attributes));
        let number = number.map_or(file.last_version + 1, |(_, number)| number);
        self.versions += 1;
        let newest = file.newest;
        if let Some((_, newest)) = file.versions.get_mut(&newest) {
            newest.attributes = Some(Box::new(file.attributes.clone()));
        }
        file.attributes = attributes.clone();
        file.newest = number;
        file.last_version = file.last_version.max(number);
        let version = Version { number, committed_ns, record: record.clone(), attributes: None };
        file.versions.insert(number, (self.versions, version));
        self.set_file(id, Some(file));
        self.point(path.as_bytes(), Some(id));
        (id, number)
    }

    fn make(&mut self, path: &StorePath, attributes: &Attributes, counters: &mut Counters) -> Result<()> {
        if attributes.kind == FileKind::Regular {
            return refused(path, Refusal::MakeIsNotRegular);
        }
        match self.kind(path) {
            Some(kind) if kind == attributes.kind => return self.set_attributes(path, attributes),
            Some(FileKind::Directory) => return refused(path, Refusal::IsDirectory),
            Some(_) if attributes.kind == FileKind::Directory => return refused(path, Refusal::NotDirectory),
            _ => self.make_above(path, counters)?,
        }
        self.create(path.as_bytes(), attributes, counters);
        Ok(())
    }

    fn link(&mut self, path: &StorePath, target: &StorePath, counters: &mut Counters) -> Result<()> {
        let (id, file) = self.find(target).ok_or_else(|| not_found(target))?;
        if file.attributes.kind == FileKind::Directory {
            return refused(target, Refusal::IsDirectory);
        }
        if self.kind(path) == Some(FileKind::Directory) {
            return refused(path, Refusal::IsDirectory);
        }
        self.make_above(path, counters)?;
        self.point(path.as_bytes(), Some(id));
        Ok(())
    }

    fn remove(&mut self, path: &StorePath, recursive: bool) -> Result<()> {
        if path.is_root() {
            return refused(path, Refusal::RootStays);
        }
        self.find(path).ok_or_else(|| not_found(path))?;
        let below = self.below(path);
        if !below.is_empty() && !recursive {
            return refused(path, Refusal::NotEmpty);
        }
        below.iter().for_each(|name| self.point(name, None));
        self.point(path.as_bytes(), None);
        Ok(())
    }

    fn rename(&mut self, from: &StorePath, to: &StorePath, counters: &mut Counters) -> Result<()> {
        if from.is_root() {
            return refused(from, Refusal::RootStays);
        }
        let kind = self.kind(from).ok_or_else(|| not_found(from))?;
        if from == to {
            return Ok(());
        }
        if to.is_within(from) {
            return refused(to, Refusal::IntoItself);
        }
        match self.kind(to) {
            Some(FileKind::Directory) => return refused(to, Refusal::IsDirectory),
            Some(_) if kind == FileKind::Directory => return refused(to, Refusal::NotDirectory),
            _ => {}
        }
        let mut names = self.below(from);
        names.push(from.as_bytes().to_vec());
        let moved = |name: &[u8]| [to.as_bytes(), &name[from.as_bytes().len()..]].concat();
        if names.iter().any(|name| moved(name).len() > MAX_PATH_BYTES) {
            return refused(to, Refusal::TooLong);
        }
        self.make_above(to, counters)?;
        for name in &names {
            self.point(&moved(name), self.names.get(name).copied());
            self.point(name, None);
        }
        Ok(())
    }

    fn set_attributes(&mut self, path: &StorePath, attributes: &Attributes) -> Result<()> {
        let (id, file) = self.find(path).ok_or_else(|| not_found(path))?;
        if file.attributes.kind != attributes.kind {
            return refused(path, Refusal::KindStays);
        }
        self.set_file(id, Some(File { attributes: attributes.clone(), ..file.clone() }));
        Ok(())
    }

    fn set_root(&mut self, path: &StorePath, version: VersionId, root: &Root) -> Result<()> {
        let (id, file) = self.find(path).ok_or_else(|| not_found(path))?;
        if id != version.file {
            return refused(path, Refusal::IsAnotherFile);
        }
        let mut file = file.clone();
        let (_, kept) = file.versions.get_mut(&version.number).ok_or_else(|| not_found(path))?;
        kept.record.root = root.clone();
        self.set_file(id, Some(file));
        Ok(())
    }

    fn forget(&mut self, path: &StorePath, expected: FileId, versions: &[u64]) -> Result<()> {
        let (id, file) = self.find(path).ok_or_else(|| not_found(path))?;
        if id != expected {
            return refused(path, Refusal::IsAnotherFile);
        }
        if file.head().is_some_and(|head| versions.contains(&head.number)) {
            return refused(path, Refusal::HeadStays);
        }
        let mut file = file.clone();
        file.versions.retain(|number, _| !versions.contains(number));
        self.set_file(id, Some(file));
        Ok(())
    }

    /// Makes the directories above `path` that are missing.
    fn make_above(&mut self, path: &StorePath, counters: &mut Counters) -> Result<()> {
        let mut missing = Vec::new();
        let mut above = path.parent();
        while let Some(directory) = above {
            match self.kind(&directory) {
                Some(FileKind::Directory) => break,
                Some(_) => return refused(path, Refusal::AboveNotDirectory),
                None => above = directory.parent(),
            }
            missing.push(directory);
        }
        for directory in missing.iter().rev() {
            self.create(directory.as_bytes(), &implicit_directory(), counters);
        }
        Ok(())
    }

    fn create(&mut self, path: &[u8], attributes: &Attributes, counters: &mut Counters) {
        let id = counters.next_unversioned();
        self.set_file(id, Some(File::new(attributes)));
        self.point(path, Some(id));
    }

    /// Points a name at another file, or removes it. A file goes with its last name.
    fn point(&mut self, path: &[u8], file: Option<FileId>) {
        if let Some(id) = file {
            self.count_links(id, 1);
        }
        if let Some(former) = self.set_name(path.to_vec(), file) {
            self.count_links(former, -1);
        }
    }

    fn count_links(&mut self, id: FileId, change: i64) {
        let file = self.files.get(&id).expect("a name points to a file that is there");
        let links = file.links.checked_add_signed(change).expect("links count names");
        let file = (links > 0).then(|| File { links, ..file.clone() });
        self.set_file(id, file);
    }

    fn set_name(&mut self, path: Vec<u8>, file: Option<FileId>) -> Option<FileId> {
        let former = replace(&mut self.names, path.clone(), file);
        self.undo.push(Undo::Name(path, former));
        former
    }

    fn set_file(&mut self, id: FileId, file: Option<File>) {
        let former = replace(&mut self.files, id, file);
        self.undo.push(Undo::File(id, former));
    }

    fn find(&self, path: &StorePath) -> Option<(FileId, &File)> {
        let id = *self.names.get(path.as_bytes())?;
        Some((id, &self.files[&id]))
    }

    fn kind(&self, path: &StorePath) -> Option<FileKind> {
        self.find(path).map(|(_, file)| file.attributes.kind)
    }

    fn below(&self, path: &StorePath) -> Vec<Vec<u8>> {
        let (from, to) = bounds(path);
        self.names.range(from..to).map(|(name, _)| name.clone()).collect()
    }

    fn entry_of(&self, id: FileId) -> FileEntry {
        let file = &self.files[&id];
        let head = file.head().map(|head| Version { attributes: None, ..head.clone() });
        FileEntry { file: id, attributes: file.attributes.clone(), head, links: file.links }
    }

    pub fn entry(&self, path: &StorePath) -> Option<FileEntry> {
        self.names.get(path.as_bytes()).map(|id| self.entry_of(*id))
    }

    pub fn list(
        &self,
        directory: &StorePath,
        recursive: bool,
        after: Option<&StorePath>,
        limit: usize,
    ) -> Result<Vec<(StorePath, FileEntry)>> {
        match self.kind(directory) {
            None => return Err(not_found(directory)),
            Some(FileKind::Directory) => {}
            Some(_) => return refused(directory, Refusal::NotDirectory),
        }
        let (from, to) = bounds(directory);
        let from = after.map_or(from.clone(), |after| successor(after).max(from));
        if from >= to {
            return Ok(Vec::new());
        }
        let wanted = |name: &[u8]| recursive || child_end(directory, name).is_none();
        let found = self.names.range(from..to).filter(|(name, _)| wanted(name)).take(limit);
        let path = |name: &[u8]| StorePath::new(name).expect("names came from paths");
        Ok(found.map(|(name, id)| (path(name), self.entry_of(*id))).collect())
    }

    pub fn versions(&self, path: &StorePath) -> Option<Vec<Version>> {
        let (_, file) = self.find(path)?;
        Some(file.versions.values().map(|(_, version)| version.clone()).collect())
    }

    pub fn roots(&self) -> Vec<(u64, Root)> {
        let versions = self.files.values().flat_map(|file| file.versions.values());
        versions.map(|(cursor, version)| (*cursor, version.record.root.clone())).collect()
    }

    pub fn statistics(&self) -> Statistics {
        let count = |kind| self.files.values().filter(|file| file.attributes.kind == kind).count() as u64;
        let versions = || self.files.values().flat_map(|file| file.versions.values());
        Statistics {
            files: count(FileKind::Regular),
            // The root is always there and not counted.
            directories: count(FileKind::Directory) - 1,
            versions: versions().count() as u64,
            logical_bytes: self.files.values().flat_map(contents).fold(0, u64::saturating_add),
            ..Default::default()
        }
    }
}

/// Returns the sizes of a file's versions, without those that differ from the one before in attributes alone.
fn contents(file: &File) -> impl Iterator<Item = u64> {
    let mut former = None;
    file.versions.values().filter_map(move |(_, version)| {
        let is_new = former.replace(&version.record.root) != Some(&version.record.root);
        is_new.then_some(version.record.size)
    })
}

/// Sets or removes a value; returns the previous one.
fn replace<K: Ord, V>(map: &mut BTreeMap<K, V>, key: K, value: Option<V>) -> Option<V> {
    match value {
        Some(value) => map.insert(key, value),
        None => map.remove(&key),
    }
}
