//! A snapshot's names, with their contents as versions of files.

use std::collections::HashMap;

use catalog::{FileEntry, Version};
use format::{
    Attributes, FileId, FileKind, LinkKind, Page, Reader, Root, SnapshotContent, SnapshotEntry, StorePath,
    VersionRecord,
};

use super::TreeSnapshot;
use crate::tree::Cursor;
use crate::{Error, Repository, Result};

/// Of the listing, read at a time (bytes).
const READ_BYTES: u64 = 1 << 20;
/// Names handed over at a time.
const LISTED_AT_ONCE: usize = 4096;

/// The records of a listing, in the order of the paths. Refuses one that is not as its facts say.
pub(super) struct ListingReader<'a> {
    repository: &'a Repository,
    snapshot: &'a TreeSnapshot,
    buffer: Vec<u8>,
    /// Of the buffer, used.
    used: usize,
    /// Of the listing, read.
    read: u64,
    /// The last name.
    last: Option<StorePath>,
    names: u64,
    /// Of the files so far (bytes).
    content_bytes: u64,
}

impl<'a> ListingReader<'a> {
    pub fn of(repository: &'a Repository, snapshot: &'a TreeSnapshot) -> Self {
        let (buffer, last) = (Vec::new(), None);
        ListingReader { repository, snapshot, buffer, used: 0, read: 0, last, names: 0, content_bytes: 0 }
    }

    pub fn next(&mut self) -> Result<Option<SnapshotEntry>> {
        loop {
            let rest = &self.buffer[self.used..];
            let is_over = self.read == self.snapshot.facts.listing_bytes;
            if rest.is_empty() && is_over {
                return self.check_sums().map(|()| None);
            }
            let mut from = Reader::new("snapshot listing", rest);
            match SnapshotEntry::read(&mut from) {
                Err(format::Error::Truncated { .. }) if !is_over => self.fill()?,
                Err(error) => return Err(self.damaged(&error.to_string())),
                Ok(name) => {
                    let used = rest.len() - from.rest().len();
                    self.check(&name)?;
                    self.used += used;
                    return Ok(Some(name));
                }
            }
        }
    }

    /// Refuses a name that is not behind the last one, or more than the facts say.
    fn check(&mut self, name: &SnapshotEntry) -> Result<()> {
        if self.last.as_ref().is_some_and(|last| *last >= name.path) {
            return Err(self.damaged("its names are not in order"));
        }
        let own = name.content.filter(|content| content.link_kind != LinkKind::Again);
        self.last = Some(name.path.clone());
        self.names += 1;
        self.content_bytes = self.content_bytes.saturating_add(own.map_or(0, |content| content.size));
        let facts = &self.snapshot.facts;
        match self.names > facts.names || self.content_bytes > facts.content_bytes {
            true => Err(self.damaged("it has more than the snapshot's facts say")),
            false => Ok(()),
        }
    }

    fn check_sums(&self) -> Result<()> {
        let facts = &self.snapshot.facts;
        match (self.names, self.content_bytes) == (facts.names, facts.content_bytes) {
            true => Ok(()),
            false => Err(self.damaged("it has less than the snapshot's facts say")),
        }
    }

    fn damaged(&self, why: &str) -> Error {
        let offset = self.read - (self.buffer.len() - self.used) as u64;
        let why = format!("the snapshot's listing cannot be read: {why}");
        Error::Damaged { path: self.snapshot.path(), offset, why }
    }

    fn fill(&mut self) -> Result<()> {
        self.buffer.drain(..self.used);
        self.used = 0;
        let count = READ_BYTES.min(self.snapshot.facts.listing_bytes - self.read);
        let kept = self.buffer.len();
        self.buffer.resize(kept + count as usize, 0);
        let record = &self.snapshot.record;
        let read = self.repository.version_reader(record).read_at(self.read, &mut self.buffer[kept..])?;
        if read as u64 != count {
            return Err(self.damaged("it ends early"));
        }
        self.read += count;
        Ok(())
    }
}

impl TreeSnapshot {
    /// Reads the whole listing; fails where it is not as the facts say.
    pub(crate) fn check_listing(&self, repository: &Repository) -> Result<()> {
        let mut records = ListingReader::of(repository, self);
        while records.next()?.is_some() {}
        Ok(())
    }

    /// Returns the entry of a name as it was; directories above all names have no attributes of their own.
    pub fn entry(&self, repository: &Repository, path: &StorePath) -> Result<Option<FileEntry>> {
        let found = self.entries(repository)?.next(|name| name == path)?.map(|(_, entry)| entry);
        let root = || Attributes { kind: FileKind::Directory, mode: 0o755, ..Attributes::default() };
        let none = FileEntry { file: FileId::default(), attributes: root(), head: None, links: 1 };
        Ok(found.or_else(|| path.is_root().then_some(none)))
    }

    /// Hands over what lay in a directory, or all below it, in byte order, a batch at a time.
    pub fn list<E: From<Error>>(
        &self,
        repository: &Repository,
        directory: &StorePath,
        recursive: bool,
        mut take: impl FnMut(Vec<(StorePath, FileEntry)>) -> std::result::Result<(), E>,
    ) -> std::result::Result<(), E> {
        let is_listed = |path: &StorePath| {
            path.below(directory).is_some_and(|rest| !rest.is_empty() && (recursive || !rest.contains(&b'/')))
        };
        let mut entries = self.entries(repository)?;
        loop {
            let mut batch = Vec::new();
            while batch.len() < LISTED_AT_ONCE {
                match entries.next(is_listed)? {
                    Some(entry) => batch.push(entry),
                    None => return take(batch),
                }
            }
            take(batch)?;
        }
    }

    /// Returns all names, to be asked for one by one.
    pub fn entries<'a>(&'a self, repository: &'a Repository) -> Result<SnapshotEntries<'a>> {
        let contents = Contents::of(repository, self)?;
        Ok(SnapshotEntries { contents, records: ListingReader::of(repository, self) })
    }
}

/// A snapshot's names as entries, in byte order.
pub struct SnapshotEntries<'a> {
    contents: Contents<'a>,
    records: ListingReader<'a>,
}

impl SnapshotEntries<'_> {
    /// Returns the next name that is asked for.
    pub fn next(&mut self, is_asked_for: impl Fn(&StorePath) -> bool) -> Result<Option<(StorePath, FileEntry)>> {
        while let Some(SnapshotEntry { path, attributes, content }) = self.records.next()? {
            let is_asked_for = is_asked_for(&path);
            let head = match content {
                Some(content) => self.contents.next(content, is_asked_for)?,
                None => None,
            };
            if is_asked_for {
                let links = if content.is_some_and(|content| content.link_kind != LinkKind::Only) { 2 } else { 1 };
                let file = content.map_or(FileId::default(), |content| content.file);
                return Ok(Some((path, FileEntry { file, attributes, head, links })));
            }
        }
        Ok(None)
    }
}

/// The contents behind the listing, in the order of the names.
struct Contents<'a> {
    cursor: Cursor<'a>,
    committed_ns: i64,
    /// Those of files with several names.
    shared: HashMap<FileId, Version>,
}

impl<'a> Contents<'a> {
    fn of(repository: &'a Repository, snapshot: &TreeSnapshot) -> Result<Self> {
        let mut cursor = Cursor::at_start(repository, &snapshot.record.root)?;
        cursor.skip(snapshot.facts.listing_bytes)?;
        let committed_ns = i64::try_from(snapshot.taken.as_ns()).unwrap_or(i64::MAX);
        Ok(Contents { cursor, committed_ns, shared: HashMap::new() })
    }

    fn next(&mut self, content: SnapshotContent, is_asked_for: bool) -> Result<Option<Version>> {
        let SnapshotContent { size, digest, file, number, link_kind } = content;
        if link_kind == LinkKind::Again {
            let why = "a name of a file comes before the file's first".to_owned();
            let found = self.shared.get(&file).cloned();
            return found.map(Some).ok_or_else(|| format::Error::Corrupt { what: "snapshot listing", why }.into());
        }
        if !is_asked_for && link_kind == LinkKind::Only {
            self.cursor.skip(size)?;
            return Ok(None);
        }
        let root = match size {
            0 => Root::Inline(Page { level: 0, entries: Vec::new() }.encode()),
            size => self.cursor.take(size)?,
        };
        let record = VersionRecord { root, size, content: digest };
        let version = Version { number, committed_ns: self.committed_ns, record, attributes: None };
        if link_kind == LinkKind::First {
            self.shared.insert(file, version.clone());
        }
        Ok(Some(version))
    }
}
