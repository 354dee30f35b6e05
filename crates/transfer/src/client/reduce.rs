//! Reduction at the client: whole segments are offered by fingerprint, and only what the node is missing is sent. For
//! many segments one digest over their fingerprints is sent first: the node may have had them from other clients.
//!
//! This crate moves bytes and knows no digest or codec: the maker of a [`super::Client`] passes in a [`Reducer`].

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use format::{Block, Fingerprint, SegmentEntry, Settings};

use super::frame::Content;
use super::window::Payload;
use crate::message::{Extent, Request};

/// Fingerprints and encodes; `settings` are the store's.
pub trait Reducer: Send + Sync {
    /// Returns the segment's fingerprint; [`ZEROS`] when all its bytes are zero.
    fn fingerprint(&self, settings: &Settings, segment: &[u8]) -> Fingerprint;

    /// Returns the digest over the fingerprints and lengths of segments, by which a node may know them all.
    fn digest(&self, entries: &[SegmentEntry]) -> [u8; 32];

    /// Chooses codecs by the model of a store from now on, as its file has it; one that is of no use here changes nothing.
    fn use_model(&self, model: &[u8]);

    /// Returns the segments as blocks, in order.
    fn encode(&self, settings: &Settings, segments: &[(Fingerprint, &[u8])]) -> Vec<Block>;
}

/// Fewer segments than this are offered by fingerprint at once: a digest could not save its round trip.
const MIN_DIGESTS_KNOWN: usize = 8;

/// Stands in an offer for a segment of zeros only; such segments are never asked for.
pub const ZEROS: Fingerprint = Fingerprint([0; 32]);

/// Where a whole segment goes in the file, and where its bytes lie in the payload.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Slot {
    offset: u64,
    at: usize,
}

/// Whole segments, all of one length: offered by fingerprint, or written as they are.
pub(super) struct Whole {
    slots: Vec<Slot>,
    segment_bytes: u32,
    /// The segments one after another, or among others where they are offered anyway.
    payload: Payload,
    /// Whether they are offered; decided when the frame is sent for the first time.
    is_offered: OnceLock<bool>,
    names: OnceLock<Names>,
    /// A node did not know the digest, or is unlikely to: from then on the full list is sent, on every retry too.
    sent_in_full: AtomicBool,
    /// Encoded bytes that went to a node.
    block_bytes: AtomicU64,
}

struct Names {
    entries: Vec<SegmentEntry>,
    /// Set where there are enough segments to be offered by digest.
    digest: Option<[u8; 32]>,
}

impl Whole {
    fn new(slots: Vec<Slot>, segment_bytes: u32, payload: Payload) -> Self {
        Whole {
            slots,
            segment_bytes,
            payload,
            is_offered: OnceLock::new(),
            names: OnceLock::new(),
            sent_in_full: AtomicBool::new(false),
            block_bytes: AtomicU64::new(0),
        }
    }

    /// Asks once whether the segments are offered; returns what was decided.
    pub fn decide(&self, is_offered: impl FnOnce() -> bool) -> bool {
        *self.is_offered.get_or_init(is_offered)
    }

    pub fn is_offered(&self) -> bool {
        self.is_offered.get().is_some_and(|is_offered| *is_offered)
    }

    /// Returns all bytes, for a frame that is not offered.
    pub fn raw_bytes(&self) -> &[u8] {
        self.payload.bytes()
    }

    /// Fingerprints all segments, once; an I/O thread calls it before the frame is sent. Returns whether it was now.
    pub fn fingerprint(&self, reducer: &dyn Reducer, settings: &Settings) -> bool {
        let mut is_first = false;
        self.names.get_or_init(|| {
            is_first = true;
            let entry = |slot: &Slot| SegmentEntry {
                fingerprint: reducer.fingerprint(settings, self.segment(slot)),
                bytes: self.segment_bytes,
            };
            let entries: Vec<SegmentEntry> = self.slots.iter().map(entry).collect();
            let digest = (entries.len() >= MIN_DIGESTS_KNOWN).then(|| reducer.digest(&entries));
            Names { entries, digest }
        });
        is_first
    }

    pub fn segments(&self) -> usize {
        self.slots.len()
    }

    /// Returns the program's bytes in it.
    pub fn bytes(&self) -> u64 {
        self.slots.len() as u64 * u64::from(self.segment_bytes)
    }

    pub fn note_sent(&self, block_bytes: u64) {
        self.block_bytes.fetch_add(block_bytes, Ordering::Relaxed);
    }

    /// Returns whether any of its segments was sent.
    pub fn was_wanted(&self) -> bool {
        self.block_bytes.load(Ordering::Relaxed) > 0
    }

    /// Returns the bytes that have travelled for it, but for headers.
    pub fn sent_bytes(&self) -> u64 {
        let names_bytes = if self.digest().is_some() { 32 } else { 32 * self.slots.len() as u64 };
        names_bytes + self.block_bytes.load(Ordering::Relaxed)
    }

    pub fn extents(&self) -> Vec<Extent> {
        Extent::of_segments(self.slots.iter().map(|slot| slot.offset), self.segment_bytes)
    }

    pub fn fingerprints(&self) -> Vec<Fingerprint> {
        self.names().entries.iter().map(|entry| entry.fingerprint).collect()
    }

    /// Returns the digest to offer, unless the full list must be sent.
    pub fn digest(&self) -> Option<[u8; 32]> {
        self.names().digest.filter(|_| !self.sent_in_full.load(Ordering::Relaxed))
    }

    /// Switches to the full list; false when there is no digest, or it is not sent any more.
    pub fn send_full_list(&self) -> bool {
        self.names().digest.is_some() && !self.sent_in_full.swap(true, Ordering::Relaxed)
    }

    /// Returns the blocks that hold the wanted segments. Indices that were never offered are left out, and so are any
    /// beyond the number offered.
    pub fn blocks(&self, wanted: &[u32], reducer: &dyn Reducer, settings: &Settings) -> Vec<Block> {
        let entries = &self.names().entries;
        let named = |index: &u32| {
            let (slot, entry) = self.slots.get(*index as usize).zip(entries.get(*index as usize))?;
            Some((entry.fingerprint, self.segment(slot)))
        };
        let segments: Vec<(Fingerprint, &[u8])> = wanted.iter().take(entries.len()).filter_map(named).collect();
        reducer.encode(settings, &segments)
    }

    fn names(&self) -> &Names {
        self.names.get().expect("fingerprints are taken before a frame is sent")
    }

    fn segment(&self, slot: &Slot) -> &[u8] {
        &self.payload.bytes()[slot.at..slot.at + self.segment_bytes as usize]
    }
}

/// Returns the message that supplies blocks, and its payload.
pub(super) fn send_blocks(
    session: format::SessionId,
    stripe_set: u32,
    sequence: u64,
    blocks: Vec<Block>,
) -> (Request, Vec<u8>) {
    let payload = blocks.iter().flat_map(|block| block.payload.iter().copied()).collect();
    let blocks = blocks.into_iter().map(|block| (block.header, block.segments)).collect();
    (Request::SendBlocks { session, stripe_set, sequence, blocks }, payload)
}

/// Returns whether extents begin and end where segments do, so that they need not be divided.
pub(super) fn are_whole(extents: &[Extent], segment_bytes: u32) -> bool {
    let unit = u64::from(segment_bytes);
    extents.iter().all(|extent| extent.offset.is_multiple_of(unit) && extent.bytes.is_multiple_of(unit))
}

/// Divides what was written into whole segments and the rest. Extents that overlap stay raw: apart, their order
/// would be lost.
pub(super) fn divide(extents: Vec<Extent>, payload: Payload, segment_bytes: u32) -> Vec<Content> {
    let unit = segment_bytes as u64;
    let is_whole = |extent: &Extent| extent.offset.next_multiple_of(unit) + unit <= extent.offset + extent.bytes;
    if !extents.iter().any(is_whole) || overlap(&extents) {
        return vec![Content::Raw { extents, payload: payload.fit() }];
    }
    let (mut slots, mut rest, mut rest_bytes) = (Vec::new(), Vec::new(), Vec::new());
    let mut at = 0;
    for extent in &extents {
        let end = extent.offset + extent.bytes;
        let mut offset = extent.offset;
        while offset < end {
            let boundary = end.min((offset / unit + 1) * unit);
            let bytes = boundary - offset;
            if bytes == unit {
                slots.push(Slot { offset, at });
            } else {
                rest.push(Extent { offset, bytes });
                rest_bytes.extend_from_slice(&payload.bytes()[at..at + bytes as usize]);
            }
            at += bytes as usize;
            offset = boundary;
        }
    }
    let rest_payload = Payload::uncharged(rest_bytes, payload.window());
    let whole = Whole::new(slots, segment_bytes, payload);
    if rest.is_empty() {
        return vec![Content::Whole(whole)];
    }
    whole.decide(|| true);
    vec![Content::Whole(whole), Content::Raw { extents: rest, payload: rest_payload }]
}

fn overlap(extents: &[Extent]) -> bool {
    let mut sorted: Vec<&Extent> = extents.iter().collect();
    sorted.sort_by_key(|extent| extent.offset);
    sorted.windows(2).any(|pair| pair[0].offset + pair[0].bytes > pair[1].offset)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::waker::Waker;
    use super::super::window::Window;
    use super::*;

    fn written(extents: &[(u64, u64)]) -> (Vec<Extent>, Payload) {
        let window = Arc::new(Window::new(8 << 20, Arc::new(Waker::new().unwrap())));
        let mut payload = Payload::new(&window);
        for (offset, bytes) in extents {
            let source: Vec<u8> = (*offset..offset + bytes).map(|position| position as u8).collect();
            assert!(payload.append(&source, 0));
        }
        (extents.iter().map(|(offset, bytes)| Extent { offset: *offset, bytes: *bytes }).collect(), payload)
    }

    #[test]
    fn whole_segments_are_parted_from_their_edges() {
        let (extents, payload) = written(&[(10, 40), (64, 8)]);
        let contents = divide(extents, payload, 16);
        let Content::Whole(whole) = &contents[0] else { panic!("two segments are whole") };
        assert_eq!(whole.slots, [Slot { offset: 16, at: 6 }, Slot { offset: 32, at: 22 }]);
        assert_eq!(whole.segment(&whole.slots[1]), (32..48).collect::<Vec<u8>>());
        let Content::Raw { extents, payload } = &contents[1] else { panic!("there are edges") };
        assert_eq!(
            extents.iter().map(|extent| (extent.offset, extent.bytes)).collect::<Vec<_>>(),
            [(10, 6), (48, 2), (64, 8)]
        );
        assert_eq!(payload.bytes(), (10..16).chain(48..50).chain(64..72).collect::<Vec<u8>>());
    }

    #[test]
    fn overlapping_extents_keep_their_order() {
        let (extents, payload) = written(&[(0, 32), (8, 4)]);
        assert!(matches!(&divide(extents, payload, 16)[..], [Content::Raw { .. }]));
    }
}
