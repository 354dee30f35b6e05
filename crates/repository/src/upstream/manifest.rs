//! A manifest of the near store made one of the far store: segments that lie near are found or stored there, and the pages
//! that name them are built again. What the far store has already is taken over by its pages.

use std::collections::BTreeSet;

use format::{ContainerId, Entry, EntryKind, Page, Root, Run, SegmentAddress, SegmentEntry};
use store::ClaimOwner;

use super::forwarder::Forwarder;
use super::is_near;
use super::sent_segments::SentSegments;
use crate::dedup::NewSegment;
use crate::tree::{Builder, is_leaf_of_pages};
use crate::{Repository, Result};

/// Content that is sent at once (bytes), and segments whose addresses are looked up at once.
const BATCH_BYTES: u64 = 16 << 20;
const BATCH_SEGMENTS: usize = 1 << 16;

/// Of one file, pages that are named twice counted twice: as admission has it.
const MAX_ENTRIES: u64 = 1 << 32;

/// The two stores, and what is known of one in the other.
#[derive(Clone, Copy)]
pub(super) struct StorePair<'a> {
    /// Reads both.
    pub near: &'a Repository,
    pub far: &'a Repository,
    pub sent: &'a SentSegments,
    pub forwarder: &'a Forwarder,
}

/// Returns a root for the far store, whose segments are all there, and some of the containers it refers to.
pub(super) fn send(stores: StorePair, claim_owner: ClaimOwner, root: &Root) -> Result<(Root, BTreeSet<ContainerId>)> {
    if let Root::Stored { address, .. } = root
        && !is_near(address.container)
    {
        return Ok((root.clone(), BTreeSet::from([address.container])));
    }
    let page = stores.near.root_page(root)?;
    let builder = Builder::new(stores.far, claim_owner);
    let mut sender = Sender { stores, claim_owner, builder, waiting: Vec::new(), unsent_bytes: 0, entries: 0 };
    sender.page(&page)?;
    sender.flush()?;
    let built = sender.builder.finish()?;
    Ok((built.root, built.references))
}

struct Sender<'a> {
    stores: StorePair<'a>,
    claim_owner: ClaimOwner,
    builder: Builder<'a>,
    /// In the order of the file.
    waiting: Vec<Part>,
    unsent_bytes: u64,
    /// Visited so far.
    entries: u64,
}

enum Part {
    Near(NearPart),
    /// Content of the far store, or none.
    Content(Entry),
    /// A page of level 0 of the far store.
    Leaf(Entry),
}

/// Some of a segment that lies near.
struct NearPart {
    near: SegmentAddress,
    segment: SegmentEntry,
    far: Option<SegmentAddress>,
    skip: u32,
    bytes: u32,
}

impl Sender<'_> {
    fn page(&mut self, page: &Page) -> Result<()> {
        self.entries += page.entries.len() as u64;
        if self.entries > MAX_ENTRIES {
            let why = format!("more than {MAX_ENTRIES} entries");
            return Err(format::Error::Corrupt { what: "manifest", why }.into());
        }
        page.entries.iter().try_for_each(|entry| match &entry.kind {
            EntryKind::Page { address, .. } if !is_near(address.container) && is_leaf_of_pages(page) => {
                self.add(Part::Leaf(*entry))
            }
            EntryKind::Page { address, digest } => {
                let child = self.stores.near.child(page, entry, *address, digest)?;
                self.page(&child)
            }
            EntryKind::Data { run, skip, digest } if is_near(run.container) => {
                let segments = self.stores.near.checked_entries(*run, digest)?;
                self.segments(*run, &segments, *skip, entry.length)
            }
            EntryKind::Data { .. } | EntryKind::Zero | EntryKind::Hole | EntryKind::Dropped { .. } => {
                self.add(Part::Content(*entry))
            }
        })
    }

    /// Adds so many bytes of a run's segments, from `skip` on.
    fn segments(&mut self, run: Run, segments: &[SegmentEntry], mut skip: u32, mut left: u64) -> Result<()> {
        for (near, segment) in run.addresses().zip(segments) {
            if left == 0 {
                break;
            }
            if skip >= segment.bytes {
                skip -= segment.bytes;
                continue;
            }
            let bytes = u64::from(segment.bytes - skip).min(left) as u32;
            let far = self.stores.sent.far_address(near);
            self.unsent_bytes += if far.is_none() { u64::from(segment.bytes) } else { 0 };
            self.add(Part::Near(NearPart { near, segment: *segment, far, skip, bytes }))?;
            left -= u64::from(bytes);
            skip = 0;
        }
        Ok(())
    }

    fn add(&mut self, part: Part) -> Result<()> {
        self.waiting.push(part);
        if self.unsent_bytes >= BATCH_BYTES || self.waiting.len() >= BATCH_SEGMENTS { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        self.send_unsent()?;
        self.stores.forwarder.advance();
        self.unsent_bytes = 0;
        for part in std::mem::take(&mut self.waiting) {
            match part {
                Part::Near(NearPart { segment, far: Some(far), skip, bytes, .. }) => {
                    self.builder.part(far, segment.fingerprint, skip, bytes, skip + bytes == segment.bytes)?;
                }
                Part::Near(_) => unreachable!("all were sent"),
                Part::Leaf(page) => self.builder.leaf(page)?,
                Part::Content(Entry { length, kind: EntryKind::Zero }) => self.builder.zeros(length)?,
                Part::Content(Entry { length, kind: EntryKind::Hole }) => self.builder.hole(length)?,
                Part::Content(entry) => self.builder.entry(entry)?,
            }
        }
        Ok(())
    }

    /// StorePair what the far store lacks of the segments whose place there is not known.
    fn send_unsent(&mut self) -> Result<()> {
        let unsent = self.waiting.iter_mut().filter_map(|part| match part {
            Part::Near(part) if part.far.is_none() => Some(part),
            _ => None,
        });
        let mut unsent: Vec<_> = unsent.collect();
        if unsent.is_empty() {
            return Ok(());
        }
        let (near, far) = (self.stores.near, self.stores.far);
        let read = |part: &&mut NearPart| near.named_segments(Run::single(part.near), &[part.segment]);
        let content = unsent.iter().map(read).collect::<Result<Vec<_>>>()?;
        let new = unsent.iter().zip(&content);
        let new: Vec<_> =
            new.map(|(part, bytes)| NewSegment { fingerprint: part.segment.fingerprint, bytes: &bytes[0] }).collect();
        let addresses = far.dedup(self.claim_owner, far.data_blocks(), &new)?.addresses;
        self.stores.sent.note(unsent.iter().zip(&addresses).map(|(part, far)| (part.near, *far)));
        unsent.iter_mut().zip(addresses).for_each(|(part, far)| part.far = Some(far));
        Ok(())
    }
}
