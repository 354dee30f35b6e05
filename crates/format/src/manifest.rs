//! The manifest: a tree of pages that lists the segments of a file.
//!
//! An entry covers `length` bytes of the file: a run of segments, zeros, a hole, a recipe's output that was dropped, or (in
//! an interior page) a child page. A page is stored as a segment; its digest covers, through the digests of its entries,
//! the content of everything below it, so the root's digest is the file's.

use crate::FORMAT_VERSION;
use crate::{ContainerId, Fingerprint, Reader, Result, SegmentAddress, Writer, check_version, corrupt};

pub const PAGE_HEADER_BYTES: usize = 32;
pub const ENTRY_BYTES: usize = 64;
const PAGE_MAGIC: [u8; 4] = *b"TWGM";
/// The longest length: a few of them can be added within 64 bits.
const MAX_LENGTH: u64 = i64::MAX as u64;

/// Consecutive segments of one container.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Run {
    pub container: ContainerId,
    /// Ordinal of the first segment.
    pub first: u32,
    pub count: u32,
}

impl Run {
    pub fn single(address: SegmentAddress) -> Self {
        Run { container: address.container, first: address.ordinal, count: 1 }
    }

    /// Returns whether all its addresses are possible.
    pub fn is_possible(&self) -> bool {
        let last = u64::from(self.first) + u64::from(self.count).saturating_sub(1);
        u32::try_from(last).is_ok_and(|last| SegmentAddress::new(self.container, last).is_possible())
    }

    pub fn addresses(&self) -> impl Iterator<Item = SegmentAddress> + use<> {
        let container = self.container;
        (self.first..self.first + self.count).map(move |ordinal| SegmentAddress { container, ordinal })
    }

    pub fn write(&self, to: &mut Writer) {
        to.u64(self.container.0).u32(self.first).u32(self.count);
    }

    pub fn read(from: &mut Reader) -> Result<Self> {
        let run = Run { container: ContainerId(from.u64()?), first: from.u32()?, count: from.u32()? };
        if run.first.checked_add(run.count).is_none() {
            return corrupt("run", "ordinals beyond 32 bits");
        }
        Ok(run)
    }
}

/// The content of an entry's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EntryKind {
    /// Bytes of a run of segments, beginning `skip` bytes into the first; bytes of the last beyond the entry's length
    /// are not used. `digest` is BLAKE3 over the fingerprints of the whole run.
    Data { run: Run, skip: u32, digest: [u8; 32] },
    /// Zeros that were written.
    Zero,
    /// Bytes that never were written; they read as zeros.
    Hole,
    /// A page one level below; `digest` is BLAKE3 of the page's bytes.
    Page { address: SegmentAddress, digest: [u8; 32] },
    /// Bytes that are not kept: all of the output of this number of a recipe, which makes them again. `recipe` is the
    /// recipe's digest.
    Dropped { output: u32, recipe: [u8; 32] },
}

/// `length` bytes of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    pub length: u64,
    pub kind: EntryKind,
}

impl Entry {
    pub fn write(&self, to: &mut Writer) {
        to.u64(self.length);
        let (kind, run, skip, digest) = match self.kind {
            EntryKind::Data { run, skip, digest } => (0, run, skip, digest),
            EntryKind::Zero => (1, NO_RUN, 0, [0; 32]),
            EntryKind::Hole => (2, NO_RUN, 0, [0; 32]),
            EntryKind::Page { address, digest } => (3, Run::single(address), 0, digest),
            EntryKind::Dropped { output, recipe } => (4, NO_RUN, output, recipe),
        };
        run.write(to.u32(kind));
        to.u32(skip).put(&digest);
    }

    pub fn read(from: &mut Reader) -> Result<Self> {
        let (length, kind) = (from.u64()?, from.u32()?);
        let (run, skip, digest) = (Run::read(from)?, from.u32()?, from.array()?);
        let kind = match kind {
            0 if run.count > 0 => EntryKind::Data { run, skip, digest },
            1 => EntryKind::Zero,
            2 => EntryKind::Hole,
            3 if run.count == 1 => EntryKind::Page { address: SegmentAddress::new(run.container, run.first), digest },
            4 if run == NO_RUN => EntryKind::Dropped { output: skip, recipe: digest },
            _ => return corrupt("manifest entry", format!("kind {kind} with a run of {} segments", run.count)),
        };
        Ok(Entry { length, kind })
    }
}

const NO_RUN: Run = Run { container: ContainerId(0), first: 0, count: 0 };

/// A node of the tree. Level 0 holds content, level n holds pages of level n − 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    pub level: u8,
    pub entries: Vec<Entry>,
}

impl Page {
    /// Returns how many bytes of the file this page covers.
    pub fn length(&self) -> u64 {
        self.entries.iter().map(|entry| entry.length).sum()
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut to = Writer::new();
        to.put(&PAGE_MAGIC).u16(FORMAT_VERSION).u8(self.level).u8(0);
        to.u64(self.length()).u64(0);
        // The count stands last in the header, right before what it counts.
        to.u32(0).list(&self.entries, |to, entry| entry.write(to));
        to.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let what = "manifest page";
        let mut from = Reader::new(what, bytes);
        if from.array::<4>()? != PAGE_MAGIC {
            return corrupt(what, "the magic bytes are not there");
        }
        check_version(what, from.u16()?)?;
        let (level, _) = (from.u8()?, from.u8()?);
        let (length, _, _) = (from.u64()?, from.u64()?, from.u32()?);
        let page = Page { level, entries: from.list(ENTRY_BYTES, Entry::read)? };
        from.end()?;
        page.check(length)?;
        Ok(page)
    }

    fn check(&self, length: u64) -> Result<()> {
        let sum = self.entries.iter().try_fold(0u64, |sum, entry| sum.checked_add(entry.length));
        if sum != Some(length) || length > MAX_LENGTH {
            return corrupt("manifest page", "its entries do not add up to its length, or to that of no file");
        }
        let pages = self.entries.iter().filter(|entry| matches!(entry.kind, EntryKind::Page { .. })).count();
        if (self.level == 0 && pages > 0) || (self.level > 0 && pages < self.entries.len()) {
            return corrupt("manifest page", format!("level {} mixes pages and content", self.level));
        }
        Ok(())
    }
}

/// Where a file's tree begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Root {
    /// A page small enough to stand in the catalog itself.
    Inline(Vec<u8>),
    /// A page stored as a segment, with BLAKE3 of its bytes.
    Stored { address: SegmentAddress, digest: [u8; 32] },
}

impl Root {
    /// Names the content, though equal contents may have several names: the page itself where it is small, else its digest.
    pub fn key(&self) -> &[u8] {
        match self {
            Root::Inline(page) => page,
            Root::Stored { digest, .. } => digest,
        }
    }

    pub fn write(&self, to: &mut Writer) {
        match self {
            Root::Inline(page) => to.u8(0).blob(page),
            Root::Stored { address, digest } => {
                address.write(to.u8(1));
                to.put(digest)
            }
        };
    }

    pub fn read(from: &mut Reader) -> Result<Self> {
        match from.u8()? {
            0 => Ok(Root::Inline(from.blob()?.to_vec())),
            1 => Ok(Root::Stored { address: SegmentAddress::read(from)?, digest: from.array()? }),
            other => corrupt("manifest root", format!("unknown form {other}")),
        }
    }

    pub fn encode(&self) -> Vec<u8> {
        let mut to = Writer::new();
        self.write(&mut to);
        to.finish()
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut from = Reader::new("manifest root", bytes);
        let root = Root::read(&mut from)?;
        from.end()?;
        Ok(root)
    }
}

/// Returns the digest of a page, and of a file by its root page.
pub fn page_digest(page: &[u8]) -> [u8; 32] {
    *blake3::hash(page).as_bytes()
}

/// Returns a data entry's digest: over the fingerprints of its run, in order.
pub fn run_digest<'a>(fingerprints: impl IntoIterator<Item = &'a Fingerprint>) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    fingerprints.into_iter().for_each(|fingerprint| {
        hasher.update(&fingerprint.0);
    });
    *hasher.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page() -> Page {
        let run = Run { container: ContainerId(5), first: 7, count: 3 };
        Page {
            level: 0,
            entries: vec![
                Entry { length: 20_000, kind: EntryKind::Data { run, skip: 100, digest: [9; 32] } },
                Entry { length: 5, kind: EntryKind::Zero },
                Entry { length: 1 << 40, kind: EntryKind::Hole },
                Entry { length: 7, kind: EntryKind::Dropped { output: 3, recipe: [8; 32] } },
            ],
        }
    }

    #[test]
    fn pages_come_back_and_have_their_stated_size() {
        let bytes = page().encode();
        assert_eq!(bytes.len(), PAGE_HEADER_BYTES + 4 * ENTRY_BYTES);
        assert_eq!(Page::decode(&bytes).unwrap(), page());
    }

    #[test]
    fn pages_that_do_not_add_up_are_refused() {
        let mut bytes = page().encode();
        bytes[8] ^= 1;
        assert!(Page::decode(&bytes).is_err());
        let mut child = page();
        child.level = 1;
        assert!(Page::decode(&child.encode()).is_err());
    }

    #[test]
    fn roots_come_back() {
        for root in [
            Root::Inline(page().encode()),
            Root::Stored { address: SegmentAddress::new(ContainerId(1), 2), digest: [3; 32] },
        ] {
            assert_eq!(Root::decode(&root.encode()).unwrap(), root);
        }
    }
}
