//! Builds a manifest from entries in file order, holding one open page per level, and closed pages until there are
//! enough to store at once: a far store is not asked for each of them.

use std::collections::BTreeSet;

use format::{
    ContainerId, ENTRY_BYTES, Entry, EntryKind, Fingerprint, PAGE_HEADER_BYTES, Page, Root, Run, SegmentAddress,
    page_digest, run_digest,
};
use store::ClaimOwner;

use crate::dedup::{NewBlocks, NewSegment};
use crate::{Repository, Result};

/// A root page of at most this many entries stands in the catalog itself: most files never need a page segment.
const INLINE_ENTRIES: usize = 7;
/// A page holds between these many entries, cut after one whose digest ends in eight zero bits (mean 64 + 256).
const MIN_ENTRIES: usize = 64;
const MAX_ENTRIES: usize = 1024;
/// Closed pages are stored when they are this many bytes.
const PENDING_BYTES: usize = 1 << 20;
/// Stands in an entry until its page is stored.
const NOT_STORED: SegmentAddress = SegmentAddress { container: ContainerId(0), ordinal: 0 };
/// A run is cut here, so that narrowing it needs the index of a bounded number of segments.
const MAX_RUN_SEGMENTS: u32 = 8192;

/// A finished manifest.
#[derive(Clone, Debug)]
pub struct BuiltManifest {
    pub root: Root,
    /// Bytes of the file.
    pub length: u64,
    /// Every container the new tree refers to, as far as this builder stored or was handed entries.
    pub references: BTreeSet<ContainerId>,
}

/// Takes what a file is made of, in order.
pub struct Builder<'a> {
    repository: &'a Repository,
    claim_owner: ClaimOwner,
    levels: Vec<Vec<Entry>>,
    /// Pages that are closed and not stored: their entries have no address yet.
    pending: Vec<PendingPage>,
    pending_bytes: usize,
    open: Option<OpenRun>,
    length: u64,
    references: BTreeSet<ContainerId>,
    /// Pages are put without asking whether the store has them.
    again: bool,
}

struct PendingPage {
    bytes: Vec<u8>,
    /// Where its entry stands.
    level: usize,
    index: usize,
}

/// Segments that follow each other in file and container alike.
struct OpenRun {
    run: Run,
    length: u64,
    skip: u32,
    fingerprints: Vec<Fingerprint>,
    /// The last segment is not used to its end: nothing can follow in this run.
    cut: bool,
}

impl<'a> Builder<'a> {
    pub fn new(repository: &'a Repository, claim_owner: ClaimOwner) -> Self {
        Builder {
            repository,
            claim_owner,
            levels: vec![Vec::new()],
            pending: Vec::new(),
            pending_bytes: 0,
            open: None,
            length: 0,
            references: BTreeSet::new(),
            again: false,
        }
    }

    /// Makes a builder that asks for nothing the store has: for moving a file out of containers that are going, and for
    /// writing without look-ups.
    pub(crate) fn anew(repository: &'a Repository, claim_owner: ClaimOwner) -> Self {
        Builder { again: true, ..Self::new(repository, claim_owner) }
    }

    /// Adds a whole segment of `bytes`.
    pub fn segment(&mut self, address: SegmentAddress, fingerprint: Fingerprint, bytes: u32) -> Result<()> {
        self.part(address, fingerprint, 0, bytes, true)
    }

    /// Adds part of a segment: `bytes` of it from `skip` on; `to_its_end` when they reach the segment's end.
    pub fn part(
        &mut self,
        address: SegmentAddress,
        fingerprint: Fingerprint,
        skip: u32,
        bytes: u32,
        to_its_end: bool,
    ) -> Result<()> {
        let follows = self.open.as_ref().is_some_and(|open| open.is_followed_by(address, skip));
        if !follows {
            self.close_run()?;
        }
        let open = self.open.get_or_insert_with(|| OpenRun::starting(address, skip));
        open.run.count += 1;
        open.length += bytes as u64;
        open.fingerprints.push(fingerprint);
        open.cut = !to_its_end;
        Ok(())
    }

    /// Zeros that were written.
    pub fn zeros(&mut self, length: u64) -> Result<()> {
        self.fill(length, EntryKind::Zero)
    }

    /// Adds a range without data.
    pub fn hole(&mut self, length: u64) -> Result<()> {
        self.fill(length, EntryKind::Hole)
    }

    fn fill(&mut self, length: u64, kind: EntryKind) -> Result<()> {
        self.close_run()?;
        if let Some(last) = self.levels[0].last_mut().filter(|last| last.kind == kind) {
            last.length += length;
            self.length += length;
            return Ok(());
        }
        if length > 0 { self.entry(Entry { length, kind }) } else { Ok(()) }
    }

    /// Adds a content entry made elsewhere.
    pub fn entry(&mut self, entry: Entry) -> Result<()> {
        self.close_run()?;
        self.append(entry)
    }

    /// Adds a whole page of level 0 that is stored already.
    pub fn leaf(&mut self, page: Entry) -> Result<()> {
        self.close_run()?;
        if !self.levels[0].is_empty() {
            self.close_page(0)?;
        }
        self.length += page.length;
        self.note(&page);
        self.add(1, page)
    }

    pub fn finish(mut self) -> Result<BuiltManifest> {
        self.close_run()?;
        let mut level = 0;
        while level + 1 < self.levels.len() {
            if !self.levels[level].is_empty() {
                self.close_page(level)?;
            }
            level += 1;
        }
        let root = self.root(level)?;
        Ok(BuiltManifest { root, length: self.length, references: self.references })
    }

    fn root(&mut self, level: usize) -> Result<Root> {
        self.store_pending()?;
        let entries = std::mem::take(&mut self.levels[level]);
        // A lone page needs no parent.
        if let (true, [Entry { kind: EntryKind::Page { address, digest }, .. }]) = (level > 0, &entries[..]) {
            return Ok(Root::Stored { address: *address, digest: *digest });
        }
        let bytes = Page { level: level as u8, entries }.encode();
        if bytes.len() <= PAGE_HEADER_BYTES + INLINE_ENTRIES * ENTRY_BYTES {
            return Ok(Root::Inline(bytes));
        }
        let address = self.store(&[&bytes])?[0];
        Ok(Root::Stored { address, digest: page_digest(&bytes) })
    }

    fn close_run(&mut self) -> Result<()> {
        match self.open.take() {
            Some(open) => self.append(open.entry()),
            None => Ok(()),
        }
    }

    fn append(&mut self, entry: Entry) -> Result<()> {
        self.length += entry.length;
        self.note(&entry);
        self.add(0, entry)
    }

    fn add(&mut self, level: usize, entry: Entry) -> Result<()> {
        if self.levels.len() == level {
            self.levels.push(Vec::new());
        }
        self.levels[level].push(entry);
        let entries = self.levels[level].len();
        if entries >= MAX_ENTRIES || (entries >= MIN_ENTRIES && ends_a_page(&entry)) {
            self.close_page(level)?;
        }
        Ok(())
    }

    fn note(&mut self, entry: &Entry) {
        match entry.kind {
            EntryKind::Data { run, .. } => self.references.insert(run.container),
            EntryKind::Page { address, .. } => self.references.insert(address.container),
            EntryKind::Zero | EntryKind::Hole | EntryKind::Dropped { .. } => false,
        };
    }

    fn close_page(&mut self, level: usize) -> Result<()> {
        if level > 0 || self.pending_bytes >= PENDING_BYTES {
            self.store_pending()?;
        }
        let page = Page { level: level as u8, entries: std::mem::take(&mut self.levels[level]) };
        let bytes = page.encode();
        let kind = EntryKind::Page { address: NOT_STORED, digest: page_digest(&bytes) };
        let index = self.levels.get(level + 1).map_or(0, Vec::len);
        self.pending_bytes += bytes.len();
        self.pending.push(PendingPage { bytes, level: level + 1, index });
        self.add(level + 1, Entry { length: page.length(), kind })
    }

    /// Stores the pages that are closed, and gives their entries the addresses.
    fn store_pending(&mut self) -> Result<()> {
        let pending = std::mem::take(&mut self.pending);
        self.pending_bytes = 0;
        if pending.is_empty() {
            return Ok(());
        }
        let pages: Vec<_> = pending.iter().map(|page| &page.bytes[..]).collect();
        let addresses = self.store(&pages)?;
        for (page, stored_at) in pending.iter().zip(addresses) {
            if let EntryKind::Page { address, .. } = &mut self.levels[page.level][page.index].kind {
                *address = stored_at;
            }
        }
        Ok(())
    }

    fn store(&mut self, pages: &[&[u8]]) -> Result<Vec<SegmentAddress>> {
        let segment = |bytes| NewSegment { fingerprint: self.repository.fingerprint(bytes), bytes };
        let segments: Vec<_> = pages.iter().map(|bytes| segment(bytes)).collect();
        let addresses = match self.again {
            true => self.repository.keep_again(self.claim_owner, NewBlocks::PAGES, &segments)?,
            false => self.repository.dedup(self.claim_owner, NewBlocks::PAGES, &segments)?.addresses,
        };
        self.references.extend(addresses.iter().map(|address| address.container));
        Ok(addresses)
    }
}

fn ends_a_page(entry: &Entry) -> bool {
    match entry.kind {
        EntryKind::Data { digest, .. } | EntryKind::Page { digest, .. } => digest[31] == 0,
        EntryKind::Zero | EntryKind::Hole | EntryKind::Dropped { .. } => false,
    }
}

impl OpenRun {
    fn starting(address: SegmentAddress, skip: u32) -> Self {
        let run = Run { container: address.container, first: address.ordinal, count: 0 };
        OpenRun { run, length: 0, skip, fingerprints: Vec::new(), cut: false }
    }

    fn is_followed_by(&self, address: SegmentAddress, skip: u32) -> bool {
        let next = SegmentAddress::new(self.run.container, self.run.first + self.run.count);
        !self.cut && skip == 0 && address == next && self.run.count < MAX_RUN_SEGMENTS
    }

    fn entry(self) -> Entry {
        let digest = run_digest(&self.fingerprints);
        Entry { length: self.length, kind: EntryKind::Data { run: self.run, skip: self.skip, digest } }
    }
}
