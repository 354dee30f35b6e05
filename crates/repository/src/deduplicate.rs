//! Offline deduplication: segments that are stored more than once get one address in all manifests, beside readers and
//! writers.
//!
//! A version keeps its number, its time and its content; its manifest is replaced by one that names, of each segment, the
//! lowest address with the same fingerprint. That copy is read and compared first. The other copies are needed by nothing
//! then, and collection frees them. Commits are ordinary ones: they name the containers they refer to and the epoch of the
//! look-ups, and are journaled. A version that was done has nothing to replace: so a killed run is gone on with.

use std::collections::{BTreeSet, HashMap};

use catalog::{FileEntry, Version};
use format::{Change, ContainerId, Entry, EntryKind, Root, Run, SegmentAddress, SegmentEntry, StorePath, VersionId};
use store::{ClaimOwner, LocalStore};

use crate::list::list_everything;
use crate::marks::LiveBitmap;
use crate::read::SEGMENTS_AT_ONCE;
use crate::repair::is_damage;
use crate::snapshot::is_snapshot;
use crate::tree::{Builder, BuiltManifest, entries_in};
use crate::verify::versions_of;
use crate::{Error, Repository, Result};

/// Stores the new manifests' pages.
const DEDUPLICATOR: ClaimOwner = ClaimOwner(u64::MAX - 2);
/// Versions that get their manifests in one commit.
const CHANGES_AT_ONCE: usize = 256;

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DedupScope {
    /// All segments.
    Segments,
    /// Segments of files whose whole content is stored under several names or versions.
    Files,
}

/// The result of a deduplication.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DedupReport {
    /// Versions that were looked at, and those among them that got another manifest.
    pub versions: u64,
    pub changed: u64,
    /// Versions that cannot be read whole, and those that were removed, replaced or being written meanwhile: all stay.
    pub damaged: u64,
    pub skipped: u64,
    /// Segments that the fingerprint table does not know, since something still writes them, or that are damaged.
    pub unlisted_segments: u64,
    /// Copies that these versions do not need any more, and their length decoded.
    pub duplicate_segments: u64,
    pub duplicate_bytes: u64,
}

/// Deduplicates a store, which must be on this machine. `advance` is called with the bytes of the versions that were looked
/// at, and may wait.
pub fn deduplicate(repository: &Repository, scope: DedupScope, advance: &mut dyn FnMut(u64)) -> Result<DedupReport> {
    let local = repository.local_store("dedup")?;
    let repeated = match scope {
        DedupScope::Segments => None,
        DedupScope::Files => Some(repeated_contents(repository)?),
    };
    repository.lease.refresh_now()?;
    let mut run = DedupRun {
        repository,
        local,
        repeated,
        replaced: Replaced::default(),
        unlisted: LiveBitmap::default(),
        pending: Vec::new(),
        epoch: repository.lease.epoch(),
        report: DedupReport::default(),
    };
    each_version(repository, &mut |path, entry, version| run.version((path, entry, version), advance))?;
    run.commit_pending()?;
    Ok(DedupReport {
        duplicate_segments: run.replaced.copies.references,
        duplicate_bytes: run.replaced.bytes,
        unlisted_segments: run.unlisted.references,
        ..run.report
    })
}

/// Visits the versions of files, and then the snapshots that share their content.
fn each_version(
    repository: &Repository,
    visit: &mut dyn FnMut(&StorePath, &FileEntry, &Version) -> Result<()>,
) -> Result<()> {
    for of_snapshots in [false, true] {
        list_everything(repository.catalog(), &StorePath::root(), true, |listed| {
            let files = listed.iter().filter(|(path, entry)| entry.head.is_some() && is_snapshot(path) == of_snapshots);
            for (path, entry) in files {
                versions_of(repository, path)?.iter().try_for_each(|version| visit(path, entry, version))?;
            }
            Ok::<_, Error>(())
        })?;
    }
    Ok(())
}

/// Returns the digests of contents that several versions have by different manifests.
fn repeated_contents(repository: &Repository) -> Result<BTreeSet<[u8; 32]>> {
    let (mut first, mut repeated) = (HashMap::new(), BTreeSet::new());
    each_version(repository, &mut |_, _, version| {
        let Some(content) = version.record.content else { return Ok(()) };
        let root = *blake3::hash(&version.record.root.encode()).as_bytes();
        if *first.entry(content).or_insert(root) != root {
            repeated.insert(content);
        }
        Ok(())
    })?;
    Ok(repeated)
}

/// Copies that no manifest looked at so far needs any more.
#[derive(Default)]
struct Replaced {
    copies: LiveBitmap,
    bytes: u64,
    containers: BTreeSet<ContainerId>,
}

impl Replaced {
    fn note(&mut self, address: SegmentAddress, bytes: u32) {
        if !self.copies.is_marked(address.container, address.ordinal) {
            self.copies.mark(Run::single(address));
            self.bytes += u64::from(bytes);
            self.containers.insert(address.container);
        }
    }
}

/// A deduplication under way.
struct DedupRun<'a> {
    repository: &'a Repository,
    local: &'a LocalStore,
    /// With [`DedupScope::Files`]: the contents to look at.
    repeated: Option<BTreeSet<[u8; 32]>>,
    replaced: Replaced,
    unlisted: LiveBitmap,
    /// Changes that wait for their commit, with the containers they refer to.
    pending: Vec<(Change, BTreeSet<ContainerId>)>,
    /// From before the look-ups that the pending changes rest on.
    epoch: u64,
    report: DedupReport,
}

impl DedupRun<'_> {
    fn version(
        &mut self,
        (path, entry, version): (&StorePath, &FileEntry, &Version),
        advance: &mut dyn FnMut(u64),
    ) -> Result<()> {
        if self.is_looked_at(path, version) {
            self.report.versions += 1;
            match self.deduplicated(&version.record.root, is_snapshot(path)) {
                Ok(Some(built)) => {
                    let version = VersionId { file: entry.file, number: version.number };
                    let change = Change::Manifest { path: path.clone(), version, root: built.root };
                    self.pending.push((change, built.references));
                }
                Ok(None) => {}
                Err(error) if is_damage(&error) => self.report.damaged += 1,
                Err(error) => return Err(error),
            }
        }
        if self.pending.len() >= CHANGES_AT_ONCE {
            self.commit_pending()?;
        }
        advance(version.record.size);
        Ok(())
    }

    /// Snapshots have no digest of their content, and are looked at where they share that of files.
    fn is_looked_at(&self, path: &StorePath, version: &Version) -> bool {
        match &self.repeated {
            None => true,
            Some(_) if is_snapshot(path) => true,
            Some(repeated) => version.record.content.is_some_and(|content| repeated.contains(&content)),
        }
    }

    /// Returns another manifest of the same content; none where that would be the same.
    fn deduplicated(&mut self, root: &Root, is_snapshot: bool) -> Result<Option<BuiltManifest>> {
        let repository = self.repository;
        let mut builder = Builder::new(repository, DEDUPLICATOR);
        let mut is_changed = false;
        entries_in(repository, root, 0..u64::MAX, &mut |_, entry| {
            is_changed |= self.entry(entry, is_snapshot, &mut builder)?;
            Ok(())
        })?;
        if is_changed { builder.finish().map(Some) } else { Ok(None) }
    }

    /// Adds an entry's content to a manifest; returns whether other segments stand for some of it.
    fn entry(&mut self, entry: Entry, is_snapshot: bool, builder: &mut Builder) -> Result<bool> {
        let (run, skip, digest) = match entry.kind {
            EntryKind::Data { run, skip, digest } => (run, skip, digest),
            EntryKind::Dropped { .. } => return builder.entry(entry).map(|()| false),
            EntryKind::Zero => return builder.zeros(entry.length).map(|()| false),
            EntryKind::Hole | EntryKind::Page { .. } => return builder.hole(entry.length).map(|()| false),
        };
        if is_snapshot && self.repeated.is_some() && !self.replaced.containers.contains(&run.container) {
            return builder.entry(entry).map(|()| false);
        }
        let segments = self.repository.checked_entries(run, &digest)?;
        let addresses = self.kept_addresses(run, &segments)?;
        if run.addresses().eq(addresses.iter().copied()) {
            return builder.entry(entry).map(|()| false);
        }
        let (mut left, mut skip) = (entry.length, skip);
        for ((own, address), segment) in run.addresses().zip(addresses).zip(&segments) {
            let bytes = u64::from(segment.bytes - skip).min(left) as u32;
            builder.part(address, segment.fingerprint, skip, bytes, skip + bytes == segment.bytes)?;
            if address != own {
                self.replaced.note(own, segment.bytes);
            }
            (left, skip) = (left - u64::from(bytes), 0);
        }
        Ok(true)
    }

    /// Returns the address by which each segment of a run is to be found: the lowest one, or its own where that cannot be
    /// read.
    fn kept_addresses(&mut self, run: Run, segments: &[SegmentEntry]) -> Result<Vec<SegmentAddress>> {
        let fingerprints: Vec<_> = segments.iter().map(|segment| segment.fingerprint).collect();
        let lowest = self.local.lowest_addresses(&fingerprints)?;
        for (own, _) in run.addresses().zip(&lowest).filter(|(_, lowest)| lowest.is_none()) {
            self.unlisted.mark(Run::single(own));
        }
        let lower = |(own, lowest): (SegmentAddress, Option<SegmentAddress>)| lowest.filter(|lowest| *lowest < own);
        let mut kept: Vec<Option<SegmentAddress>> = run.addresses().zip(lowest).map(lower).collect();
        let mut at = 0;
        while at < kept.len() {
            let count = following(&kept[at..]);
            if let Some(first) = kept[at]
                && !self.are_readable(first, &segments[at..at + count])?
            {
                kept[at..at + count].fill(None);
            }
            at += count;
        }
        Ok(run.addresses().zip(kept).map(|(own, kept)| kept.unwrap_or(own)).collect())
    }

    /// Whether the segments from an address on can be read, and are these.
    fn are_readable(&self, first: SegmentAddress, segments: &[SegmentEntry]) -> Result<bool> {
        let run = Run { container: first.container, first: first.ordinal, count: segments.len() as u32 };
        match self.repository.named_segments(run, segments) {
            Err(error) if is_damage(&error) => Ok(false),
            read => read.map(|_| true),
        }
    }

    /// Where a change of several is refused, each is committed by itself.
    fn commit_pending(&mut self) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            return Ok(());
        }
        match self.commit(&pending) {
            Err(error) if is_refusal(&error) => pending.chunks(1).try_for_each(|one| self.commit_one(one))?,
            done => done?,
        }
        // Nothing that was learned is relied on any more.
        self.repository.lease.refresh_now()?;
        self.epoch = self.repository.lease.epoch();
        Ok(())
    }

    fn commit_one(&mut self, one: &[(Change, BTreeSet<ContainerId>)]) -> Result<()> {
        match self.commit(one) {
            Err(error) if is_refusal(&error) => self.report.skipped += 1,
            done => done?,
        }
        Ok(())
    }

    fn commit(&mut self, pending: &[(Change, BTreeSet<ContainerId>)]) -> Result<()> {
        let changes = pending.iter().map(|(change, _)| change.clone()).collect();
        let references = pending.iter().flat_map(|(_, references)| references.iter().copied()).collect();
        self.repository.commit_since(self.epoch, DEDUPLICATOR, changes, references, Vec::new())?;
        self.report.changed += pending.len() as u64;
        Ok(())
    }
}

/// The file was removed or replaced meanwhile, or is being written.
fn is_refusal(error: &Error) -> bool {
    matches!(error, Error::Catalog(catalog::Error::Refused { .. } | catalog::Error::NotFound { .. }))
}

/// Returns how many addresses, from the first, follow each other, or how many are none; few enough to be read at once.
fn following(addresses: &[Option<SegmentAddress>]) -> usize {
    let is_next = |pair: &[Option<SegmentAddress>]| match (pair[0], pair[1]) {
        (Some(one), Some(next)) => one.container == next.container && one.ordinal + 1 == next.ordinal,
        (None, None) => true,
        _ => false,
    };
    (1 + addresses.windows(2).take_while(|pair| is_next(pair)).count()).min(SEGMENTS_AT_ONCE)
}
