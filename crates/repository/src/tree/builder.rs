//! Builds a manifest from entries in file order, holding one open page per level.

use std::collections::BTreeSet;

use format::{
    BlockKind, ContainerId, ENTRY_BYTES, Entry, EntryKind, Fingerprint, PAGE_HEADER_BYTES, Page, Root, Run,
    SegmentAddress, page_digest, run_digest,
};
use store::ClaimOwner;

use crate::dedup::NewSegment;
use crate::{Repository, Result};

/// A root page of at most this many entries stands in the catalog itself: most files never need a page segment.
const INLINE_ENTRIES: usize = 7;
/// A page holds between these many entries, cut after one whose digest ends in eight zero bits (mean 64 + 256).
const MIN_ENTRIES: usize = 64;
const MAX_ENTRIES: usize = 1024;
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
    open: Option<OpenRun>,
    length: u64,
    references: BTreeSet<ContainerId>,
    /// Pages are put without asking whether the store has them.
    again: bool,
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
        let references = BTreeSet::new();
        Builder { repository, claim_owner, levels: vec![Vec::new()], open: None, length: 0, references, again: false }
    }

    /// Makes a builder that relies on nothing the store has: for moving a file out of containers that are going.
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

    fn root(&mut self, mut level: usize) -> Result<Root> {
        let mut entries = std::mem::take(&mut self.levels[level]);
        // A lone page needs no parent.
        if let (true, [Entry { kind: EntryKind::Page { address, digest }, .. }]) = (level > 0, &entries[..]) {
            return Ok(Root::Stored { address: *address, digest: *digest });
        }
        while entries.len() > MAX_ENTRIES {
            let chunks: Vec<_> = entries.chunks(MAX_ENTRIES).map(<[Entry]>::to_vec).collect();
            entries = chunks.into_iter().map(|chunk| self.store(level, chunk)).collect::<Result<_>>()?;
            level += 1;
        }
        let bytes = Page { level: level as u8, entries }.encode();
        if bytes.len() <= PAGE_HEADER_BYTES + INLINE_ENTRIES * ENTRY_BYTES {
            return Ok(Root::Inline(bytes));
        }
        let (address, digest) = self.store_page(&bytes)?;
        Ok(Root::Stored { address, digest })
    }

    fn close_run(&mut self) -> Result<()> {
        match self.open.take() {
            Some(open) => self.append(open.entry()),
            None => Ok(()),
        }
    }

    fn append(&mut self, entry: Entry) -> Result<()> {
        self.length += entry.length;
        self.add(0, entry)
    }

    fn add(&mut self, level: usize, entry: Entry) -> Result<()> {
        self.note(&entry);
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
            EntryKind::Zero | EntryKind::Hole => false,
        };
    }

    fn close_page(&mut self, level: usize) -> Result<()> {
        let entries = std::mem::take(&mut self.levels[level]);
        let page = self.store(level, entries)?;
        self.add(level + 1, page)
    }

    fn store(&mut self, level: usize, entries: Vec<Entry>) -> Result<Entry> {
        let page = Page { level: level as u8, entries };
        let (address, digest) = self.store_page(&page.encode())?;
        Ok(Entry { length: page.length(), kind: EntryKind::Page { address, digest } })
    }

    fn store_page(&mut self, page: &[u8]) -> Result<(SegmentAddress, [u8; 32])> {
        let segment = NewSegment { fingerprint: self.repository.fingerprint(page), bytes: page };
        let address = match self.again {
            true => self.repository.keep_again(self.claim_owner, BlockKind::Page, &[segment])?[0],
            false => self.repository.dedup(self.claim_owner, BlockKind::Page, &[segment])?.addresses[0],
        };
        self.references.insert(address.container);
        Ok((address, page_digest(page)))
    }
}

fn ends_a_page(entry: &Entry) -> bool {
    match entry.kind {
        EntryKind::Data { digest, .. } | EntryKind::Page { digest, .. } => digest[31] == 0,
        EntryKind::Zero | EntryKind::Hole => false,
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
