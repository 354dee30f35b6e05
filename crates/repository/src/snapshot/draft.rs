//! A snapshot being made: its names in memory, a few hundred bytes each, until the tree is whole.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::ops::Range;

use format::{
    Attributes, ContainerId, ErrorCode, FileId, FileKind, FileTime, FileTimes, Fingerprint, LinkKind, MAX_FILE_BYTES,
    Root, StorePath, VersionRecord, Writer, ends_listing_segment, version_fields,
};
use store::ClaimOwner;

use crate::dedup::NewSegment;
use crate::tree::{Builder, append, collect_runs};
use crate::{Error, Repository, Result};

/// Of the listing, stored at a time (bytes).
const BATCH_BYTES: usize = 1 << 20;

/// The names of a tree, as they come.
#[derive(Default)]
pub struct SnapshotDraft {
    /// For each name what stands in the listing up to its file's number, then the root.
    bytes: Writer,
    names: Vec<Name>,
    /// Names that are links, with their targets.
    links: BTreeMap<StorePath, StorePath>,
    /// Files with several names in the store.
    shared: HashSet<FileId>,
}

/// A name, in the draft's bytes.
#[derive(Clone)]
struct Name {
    /// Of its record.
    start: usize,
    path_bytes: u32,
    record_bytes: u32,
    root_bytes: u32,
    /// Of a regular file.
    content: Option<Content>,
}

#[derive(Clone, Copy)]
struct Content {
    file: FileId,
    number: u64,
    size: u64,
    kind: LinkKind,
}

/// Where the number of a name's version is to be filled in.
#[derive(Clone, Copy)]
pub struct DraftEntry(usize);

/// A snapshot's content.
pub(super) struct Built {
    pub record: VersionRecord,
    pub references: BTreeSet<ContainerId>,
    pub listing_bytes: u64,
    pub names: u64,
}

/// Length of a path's length.
const LENGTH_BYTES: usize = 4;

impl SnapshotDraft {
    /// Adds a directory or symlink.
    pub fn add(&mut self, path: &StorePath, attributes: &Attributes) {
        let start = self.write(path, attributes);
        let record_bytes = (self.bytes.len() - start) as u32;
        let path_bytes = path.as_bytes().len() as u32;
        self.names.push(Name { start, path_bytes, record_bytes, root_bytes: 0, content: None });
    }

    /// Adds a version of a file that is to get its number.
    pub fn add_file(&mut self, path: &StorePath, attributes: &Attributes, version: &VersionRecord) -> DraftEntry {
        let start = self.write(path, attributes);
        self.bytes.u64(version.size).option(version.content.as_ref(), |to, digest| {
            to.put(digest);
        });
        let record_bytes = (self.bytes.len() - start) as u32;
        version.root.write(&mut self.bytes);
        let root_bytes = (self.bytes.len() - start) as u32 - record_bytes;
        let content = Content { file: FileId::default(), number: 0, size: version.size, kind: LinkKind::Only };
        let path_bytes = path.as_bytes().len() as u32;
        self.names.push(Name { start, path_bytes, record_bytes, root_bytes, content: Some(content) });
        DraftEntry(self.names.len() - 1)
    }

    /// Adds a regular file of which no more is to be known, and not its content.
    pub fn add_name(&mut self, path: &StorePath, digest: Option<[u8; 32]>) {
        let version = VersionRecord { root: Root::Inline(Vec::new()), size: 0, content: digest };
        self.add_file(path, &Attributes::default(), &version);
    }

    /// Fills in file and number of the version.
    pub fn number(&mut self, name: DraftEntry, (file, number): (FileId, u64)) {
        if let Some(content) = &mut self.names[name.0].content {
            (content.file, content.number) = (file, number);
        }
    }

    /// Adds another name of the file that is at `target` in the end.
    pub fn link(&mut self, path: StorePath, target: StorePath) {
        self.links.insert(path, target);
    }

    /// Says that the file has other names in the store.
    pub fn share(&mut self, file: FileId) {
        self.shared.insert(file);
    }

    fn write(&mut self, path: &StorePath, attributes: &Attributes) -> usize {
        let start = self.bytes.len();
        // Attributes that are not restored would make records of unchanged files differ.
        let times = FileTimes { changed: FileTime::default(), ..attributes.times };
        let attributes = Attributes { times, inode: 0, ..attributes.clone() };
        attributes.write(self.bytes.blob(path.as_bytes()));
        start
    }

    /// Sorts the names, links and the directories above them included.
    pub(super) fn arrange(&mut self) {
        let links = std::mem::take(&mut self.links);
        self.sort(links.keys());
        self.add_links(links);
        self.add_directories();
        self.mark_shared();
    }

    /// Arranges the names, and makes the snapshot's file of them.
    pub(super) fn build(&mut self, repository: &Repository, claim_owner: ClaimOwner) -> Result<Built> {
        self.arrange();
        let mut builder = Builder::new(repository, claim_owner);
        let listing_bytes = self.store_listing(repository, claim_owner, &mut builder)?;
        let mut references = self.store_contents(repository, &mut builder, listing_bytes)?;
        let built = builder.finish()?;
        references.extend(built.references);
        let record = VersionRecord { root: built.root, size: built.length, content: None };
        Ok(Built { record, references, listing_bytes, names: self.names.len() as u64 })
    }

    /// Returns the versions that the draft has of these files.
    pub(super) fn versions_of(&self, files: &HashSet<FileId>) -> HashSet<(FileId, u64)> {
        let contents = self.names.iter().filter_map(|name| name.content);
        contents.filter(|content| files.contains(&content.file)).map(|content| (content.file, content.number)).collect()
    }

    /// Returns whether the arranged draft has this path.
    pub(super) fn has(&self, path: &StorePath) -> bool {
        self.find(path.as_bytes()).is_some()
    }

    fn find(&self, path: &[u8]) -> Option<usize> {
        self.names.binary_search_by(|name| self.path(name).cmp(path)).ok()
    }

    fn bytes(&self) -> &[u8] {
        self.bytes.as_bytes()
    }

    fn path(&self, name: &Name) -> &[u8] {
        let start = name.start + LENGTH_BYTES;
        &self.bytes()[start..start + name.path_bytes as usize]
    }

    /// Of names that came twice the last stays; those that are links come again.
    fn sort<'a>(&mut self, links: impl Iterator<Item = &'a StorePath>) {
        let links: HashSet<&[u8]> = links.map(StorePath::as_bytes).collect();
        let mut names = std::mem::take(&mut self.names);
        names.retain(|name| !links.contains(self.path(name)));
        names.sort_by(|one, other| self.path(one).cmp(self.path(other)));
        let mut sorted: Vec<Name> = Vec::with_capacity(names.len());
        for name in names {
            match sorted.last_mut() {
                Some(last) if self.path(last) == self.path(&name) => *last = name,
                _ => sorted.push(name),
            }
        }
        self.names = sorted;
    }

    /// A link whose target is not there has none of its content here. The target may be a link itself.
    fn add_links(&mut self, links: BTreeMap<StorePath, StorePath>) {
        let mut added = Vec::new();
        for (path, target) in &links {
            let Some(at) = self.find(linked_name(&links, target).as_bytes()) else { continue };
            let name = self.names[at].clone();
            let after_path = name.start + LENGTH_BYTES + name.path_bytes as usize;
            let rest = self.bytes()[after_path..name.start + (name.record_bytes + name.root_bytes) as usize].to_vec();
            let start = self.bytes.len();
            self.bytes.blob(path.as_bytes()).put(&rest);
            let path_bytes = path.as_bytes().len() as u32;
            let record_bytes = name.record_bytes + path_bytes - name.path_bytes;
            self.shared.extend(name.content.map(|content| content.file));
            added.push(Name { start, path_bytes, record_bytes, ..name });
        }
        if !added.is_empty() {
            self.names.extend(added);
            self.sort(std::iter::empty());
        }
    }

    /// Adds the directories above that have no name of their own: above the place, or what could not be read.
    fn add_directories(&mut self) {
        let (mut missing, mut last) = (BTreeSet::new(), Vec::new());
        for name in &self.names {
            let path = self.path(name);
            let mut above = &path[..path.iter().rposition(|byte| *byte == b'/').unwrap_or(0)];
            if above == last {
                continue;
            }
            last = above.to_vec();
            while !above.is_empty() && self.find(above).is_none() && missing.insert(above.to_vec()) {
                above = &above[..above.iter().rposition(|byte| *byte == b'/').unwrap_or(0)];
            }
        }
        if missing.is_empty() {
            return;
        }
        let attributes = Attributes { kind: FileKind::Directory, mode: 0o755, ..Attributes::default() };
        missing.iter().filter_map(|path| StorePath::new(path).ok()).for_each(|path| self.add(&path, &attributes));
        self.sort(std::iter::empty());
    }

    fn mark_shared(&mut self) {
        let mut first = HashSet::new();
        let contents = self.names.iter_mut().filter_map(|name| name.content.as_mut());
        for content in contents.filter(|content| self.shared.contains(&content.file)) {
            content.kind = if first.insert(content.file) { LinkKind::First } else { LinkKind::Again };
        }
    }

    /// Returns the listing's length.
    fn store_listing(&self, repository: &Repository, claim_owner: ClaimOwner, builder: &mut Builder) -> Result<u64> {
        let (mut listing, mut listing_bytes) = (ListingSegments::default(), 0);
        for name in &self.names {
            let record = &self.bytes()[name.start..name.start + name.record_bytes as usize];
            listing.add(record, name.content, self.path(name));
            if listing.bytes.len() >= BATCH_BYTES {
                listing_bytes += listing.store(repository, claim_owner, builder)?;
            }
        }
        listing.end_segment();
        Ok(listing_bytes + listing.store(repository, claim_owner, builder)?)
    }

    /// Returns the containers of pages that are shared as they are: a node finds them by itself.
    fn store_contents(
        &self,
        repository: &Repository,
        builder: &mut Builder,
        listing_bytes: u64,
    ) -> Result<BTreeSet<ContainerId>> {
        let (mut references, mut total) = (BTreeSet::new(), listing_bytes);
        for name in &self.names {
            let Some(content) = name.content.filter(|content| content.kind != LinkKind::Again) else { continue };
            total = total.saturating_add(content.size);
            if total > MAX_FILE_BYTES {
                let why = "the sizes of all its files add up to more than 4 EiB; no snapshot can be made".to_owned();
                return Err(Error::Refused { code: ErrorCode::TooLarge, path: "the tree".into(), why });
            }
            if content.size == 0 {
                continue;
            }
            let start = name.start + name.record_bytes as usize;
            let root = Root::decode(&self.bytes()[start..start + name.root_bytes as usize])?;
            append(repository, &root, content.size, builder)?;
            if repository.local.is_some() && has_pages(repository, &root)? {
                collect_runs(repository, &root, &mut |run| {
                    references.insert(run.container);
                })?;
            }
        }
        Ok(references)
    }
}

fn has_pages(repository: &Repository, root: &Root) -> Result<bool> {
    Ok(matches!(root, Root::Stored { .. }) || repository.root_page(root)?.level > 0)
}

/// ListingReader of the listing on their way into segments.
#[derive(Default)]
struct ListingSegments {
    bytes: Vec<u8>,
    /// Of the segments that have ended.
    ranges: Vec<Range<usize>>,
    start: usize,
}

impl ListingSegments {
    fn add(&mut self, record: &[u8], content: Option<Content>, path: &[u8]) {
        self.bytes.extend_from_slice(record);
        if let Some(Content { file, number, kind, .. }) = content {
            self.bytes.extend_from_slice(&version_fields(file, number, kind));
        }
        if ends_listing_segment(path, self.bytes.len() - self.start) {
            self.end_segment();
        }
    }

    fn end_segment(&mut self) {
        if self.start < self.bytes.len() {
            self.ranges.push(self.start..self.bytes.len());
            self.start = self.bytes.len();
        }
    }

    /// Stores the segments that have ended; returns their length.
    fn store(&mut self, repository: &Repository, claim_owner: ClaimOwner, builder: &mut Builder) -> Result<u64> {
        let ranges = std::mem::take(&mut self.ranges);
        let segments: Vec<(Fingerprint, &[u8])> = ranges
            .into_iter()
            .map(|range| (repository.fingerprint(&self.bytes[range.clone()]), &self.bytes[range]))
            .collect();
        let new: Vec<_> =
            segments.iter().map(|(fingerprint, bytes)| NewSegment { fingerprint: *fingerprint, bytes }).collect();
        let addresses = repository.dedup(claim_owner, repository.data_blocks(), &new)?.addresses;
        for ((fingerprint, bytes), address) in segments.iter().zip(addresses) {
            builder.segment(address, *fingerprint, bytes.len() as u32)?;
        }
        self.bytes.drain(..self.start);
        Ok(std::mem::take(&mut self.start) as u64)
    }
}

/// Follows links (name to target) to the name that is none, as far as they lead.
pub fn linked_name<'a>(links: &'a BTreeMap<StorePath, StorePath>, target: &'a StorePath) -> &'a StorePath {
    let mut name = target;
    for _ in 0..links.len() {
        let Some(next) = links.get(name) else { break };
        name = next;
    }
    name
}
