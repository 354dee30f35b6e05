//! The in-memory index of one container: its labels, blocks and segments.
//!
//! Searched by address and by fingerprint; about 44 bytes a segment. Damaged parts are not in it and are reported as
//! [`Damage`]. An index never loses what it had: refreshing one only adds parts.

use std::sync::atomic::{AtomicU32, Ordering};

use format::{
    Block, BlockHeader, ContainerId, Fingerprint, Label, PART_HEADER_BYTES, PartEntry, PartHeader, Reader, Run,
    SegmentAddress, SegmentEntry, TableEntry, checksum,
};

use super::slots::Slots;
use crate::StoredBlock;

/// A part that cannot be read, or only partly.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Offset in the container's file.
    pub offset: u64,
    pub why: String,
    /// Segments that this makes unreadable, as far as known.
    pub lost_segments: u64,
}

/// The index of one part, as stored between its header and its data.
#[derive(Clone, Debug)]
pub struct PartIndex {
    pub header: PartHeader,
    pub labels: Vec<Label>,
    pub blocks: Vec<BlockHeader>,
    pub segments: Vec<SegmentEntry>,
}

impl PartIndex {
    /// Reads and checks the index bytes that follow `header`.
    pub fn decode(header: PartHeader, bytes: &[u8]) -> format::Result<Self> {
        let mut from = Reader::new("part index", bytes);
        if checksum(bytes) != header.index_checksum {
            return from.refuse("the checksum does not match");
        }
        let labels = (0..header.labels).map(|_| Label::read(&mut from)).collect::<format::Result<Vec<_>>>()?;
        let blocks = (0..header.blocks).map(|_| BlockHeader::read(&mut from)).collect::<format::Result<Vec<_>>>()?;
        let segments =
            (0..header.segments).map(|_| SegmentEntry::read(&mut from)).collect::<format::Result<Vec<_>>>()?;
        let part = PartIndex { header, labels, blocks, segments };
        match part.contradiction() {
            Some(why) => from.refuse(why),
            None => from.end().map(|()| part),
        }
    }

    /// Returns why labels, blocks and segments contradict each other, if they do.
    fn contradiction(&self) -> Option<&'static str> {
        let labelled: u64 = self.labels.iter().map(|label| label.count as u64).sum();
        let blocked: u64 = self.blocks.iter().map(|block| block.segments as u64).sum();
        let (mut segment, mut offset) = (0, 0);
        if labelled != self.segments.len() as u64 || blocked != self.segments.len() as u64 {
            return Some("labels, blocks and segments do not add up");
        }
        if self.labels.iter().any(|label| {
            label.count == 0
                || label.container.0 > TableEntry::MAX_CONTAINER
                || label.first as u64 + label.count as u64 > TableEntry::MAX_ORDINAL as u64 + 1
        }) {
            return Some("a label is empty or beyond the limits");
        }
        let mut sorted: Vec<&Label> = self.labels.iter().collect();
        sorted.sort_by_key(|label| (label.container, label.first));
        if sorted.windows(2).any(|pair| overlap(pair[0], pair[1])) {
            return Some("two labels give the same place");
        }
        for block in &self.blocks {
            let inside = &self.segments[segment..segment + block.segments as usize];
            if inside.is_empty() {
                return Some("a block holds no segment");
            }
            if inside.iter().map(|entry| entry.bytes as u64).sum::<u64>() != block.raw_bytes as u64 {
                return Some("a block's segments do not add up to its length");
            }
            if block.offset != offset {
                return Some("a block does not begin where the one before it ends");
            }
            segment += block.segments as usize;
            offset += block.stored_bytes as u64;
        }
        (offset != self.header.data_bytes).then_some("the blocks do not fill the part")
    }
}

/// Returns whether some address is in both labels.
fn overlap(one: &Label, other: &Label) -> bool {
    one.container == other.container && one.first < other.first + other.count && other.first < one.first + one.count
}

/// A block and its offset in the file.
#[derive(Clone, Copy, Debug)]
pub struct BlockSpot {
    pub header: BlockHeader,
    pub file_offset: u64,
    first_segment: u32,
}

/// A block to be read, and the segments it will hold.
#[derive(Clone, Debug)]
pub struct BlockPlan {
    pub spot: BlockSpot,
    pub labels: Vec<Label>,
    pub segments: Vec<SegmentEntry>,
}

impl BlockPlan {
    /// Returns the block, given its payload; none when that is not the payload that was stored.
    pub fn complete(self, payload: Vec<u8>) -> Option<StoredBlock> {
        let header = BlockHeader { offset: 0, ..self.spot.header };
        let whole = checksum(&payload) == header.checksum;
        let block = Block { header, segments: self.segments, payload };
        whole.then_some(StoredBlock { labels: self.labels, block })
    }
}

/// The logical numbers of consecutive segments of the index.
#[derive(Clone, Copy, Debug)]
struct Span {
    label: Label,
    segment: u32,
}

#[derive(Clone, Debug)]
struct UnreadablePart {
    offset: u64,
    labels: Vec<Label>,
    segments: Vec<SegmentEntry>,
}

/// The index of one container's file.
pub struct ContainerIndex {
    container: ContainerId,
    sealed: bool,
    /// Where the next part would begin: everything before has been read (bytes).
    end_offset: u64,
    /// Number of the next part.
    next_part: u32,
    parts: Vec<PartEntry>,
    /// In the order of the segments; neighbours that continue each other are one.
    spans: Vec<Span>,
    /// Indices into `spans`, sorted by address.
    by_address: Vec<u32>,
    blocks: Vec<BlockSpot>,
    segments: Vec<SegmentEntry>,
    slots: Slots,
    damages: Vec<Damage>,
    /// Parts with an unreadable block: only the fingerprints of their segments are of use.
    unreadable: Vec<UnreadablePart>,
    /// This many first segments are known to survive power loss.
    durable_segments: AtomicU32,
}

impl ContainerIndex {
    /// Makes the index of a container in whose file nothing has been read before `end_offset`.
    pub fn new(container: ContainerId, end_offset: u64) -> Self {
        ContainerIndex {
            container,
            sealed: false,
            end_offset,
            next_part: 0,
            parts: Vec::new(),
            spans: Vec::new(),
            by_address: Vec::new(),
            blocks: Vec::new(),
            segments: Vec::new(),
            slots: Slots::default(),
            damages: Vec::new(),
            unreadable: Vec::new(),
            durable_segments: AtomicU32::new(0),
        }
    }

    /// Returns a copy to which parts can be added; holders of this one are not affected.
    pub fn copy(&self) -> Self {
        let mut copy = ContainerIndex::new(self.container, self.end_offset);
        copy.next_part = self.next_part;
        copy.parts = self.parts.clone();
        copy.spans = self.spans.clone();
        copy.by_address = self.by_address.clone();
        copy.blocks = self.blocks.clone();
        copy.segments = self.segments.clone();
        copy.slots.reserve(copy.segments.len(), &copy.segments);
        copy.damages = self.damages.clone();
        copy.unreadable = self.unreadable.iter().filter(|part| part.offset < self.end_offset).cloned().collect();
        copy.durable_segments = AtomicU32::new(self.durable_segments());
        copy
    }

    /// Returns the part if it can be one of this container, else why not: each address occurs once.
    pub fn accept(&self, part: PartIndex) -> Result<PartIndex, String> {
        let is_taken = |label: &Label| {
            let key = |span: u32| {
                let label = self.spans[span as usize].label;
                (label.container, label.first)
            };
            // Spans do not overlap each other, so only those next to the label can overlap it.
            let after = self.by_address.partition_point(|&span| key(span) <= (label.container, label.first));
            let around = &self.by_address[after.saturating_sub(1)..self.by_address.len().min(after + 1)];
            around.iter().any(|&span| overlap(&self.spans[span as usize].label, label))
        };
        match part.labels.iter().any(is_taken) {
            true => Err("an earlier part of the container has one of its places".to_owned()),
            false => Ok(part),
        }
    }

    /// Adds the part at `offset`, which was accepted or is our own.
    pub fn add_part(&mut self, offset: u64, part: PartIndex) {
        let data_offset = offset + PART_HEADER_BYTES as u64 + part.header.index_bytes();
        let mut segment = self.segments.len() as u32;
        self.parts.push(PartEntry { offset, bytes: part.header.part_bytes(), segments: part.header.segments });
        for block in part.blocks {
            self.blocks.push(BlockSpot {
                header: block,
                file_offset: data_offset + block.offset,
                first_segment: segment,
            });
            segment += block.segments;
        }
        self.add_labels(&part.labels);
        let known = self.segments.len();
        self.segments.extend(part.segments);
        self.slots.reserve(self.segments.len(), &self.segments[..known]);
        for (index, segment) in self.segments.iter().enumerate().skip(known) {
            self.slots.insert(index as u32, &segment.fingerprint);
        }
        self.next_part = part.header.number + 1;
        self.end_offset = offset + part.header.part_bytes();
    }

    fn add_labels(&mut self, labels: &[Label]) {
        let mut segment = self.segments.len() as u32;
        let spans_before = self.spans.len();
        for label in labels {
            match self.spans.last_mut() {
                Some(Span { label: last, .. })
                    if last.container == label.container && last.first + last.count == label.first =>
                {
                    last.count += label.count;
                }
                _ => self.spans.push(Span { label: *label, segment }),
            }
            segment += label.count;
        }
        if self.spans.len() > spans_before {
            self.by_address = (0..self.spans.len() as u32).collect();
            self.by_address.sort_by_key(|&span| {
                let label = self.spans[span as usize].label;
                (label.container, label.first)
            });
        }
    }

    /// Notes a lost part whose length is known: what follows is still readable.
    pub fn lose_part(&mut self, part: &PartEntry, why: String) {
        self.damages.push(Damage { offset: part.offset, why, lost_segments: part.segments as u64 });
        self.next_part += 1;
        self.end_offset = part.offset + part.bytes;
    }

    /// Keeps the fingerprints of the part at `offset`, which is not added, since a block of it cannot be read.
    pub fn keep_names(&mut self, offset: u64, part: PartIndex) {
        self.unreadable.push(UnreadablePart { offset, labels: part.labels, segments: part.segments });
    }

    /// Returns the fingerprint of a segment in a part that cannot be read.
    pub fn unreadable_fingerprint(&self, address: SegmentAddress) -> Option<Fingerprint> {
        let holds = |label: &Label| {
            label.container == address.container && (label.first..label.first + label.count).contains(&address.ordinal)
        };
        self.unreadable.iter().find_map(|part| {
            let at = part.labels.iter().position(holds)?;
            let before: u32 = part.labels[..at].iter().map(|label| label.count).sum();
            let segment = before + (address.ordinal - part.labels[at].first);
            part.segments.get(segment as usize).map(|entry| entry.fingerprint)
        })
    }

    /// Seals the index: the container has its footer and no longer grows; the file ends at `end_offset`.
    pub fn seal(&mut self, end_offset: u64) {
        self.sealed = true;
        self.end_offset = end_offset;
        *self.durable_segments.get_mut() = self.segments.len() as u32;
    }

    /// Returns the file's own container number.
    pub fn container(&self) -> ContainerId {
        self.container
    }

    pub fn is_sealed(&self) -> bool {
        self.sealed
    }

    /// Returns the length of the part of the file that has been parsed (bytes).
    pub fn end_offset(&self) -> u64 {
        self.end_offset
    }

    pub fn next_part(&self) -> u32 {
        self.next_part
    }

    pub fn parts(&self) -> &[PartEntry] {
        &self.parts
    }

    pub fn blocks(&self) -> &[BlockSpot] {
        &self.blocks
    }

    pub fn damages(&self) -> &[Damage] {
        &self.damages
    }

    /// Returns the segments of the parts that are not damaged, in the order of the file.
    pub fn segments(&self) -> &[SegmentEntry] {
        &self.segments
    }

    pub fn durable_segments(&self) -> u32 {
        self.durable_segments.load(Ordering::Relaxed)
    }

    /// Notes that the first `segments` segments were synced.
    pub fn made_durable(&self, segments: u32) {
        self.durable_segments.fetch_max(segments, Ordering::Relaxed);
    }

    /// Notes that a table lists this segment, and tables list only durable ones. Containers become durable from their
    /// beginning and a part at a time: so all up to the end of the segment's part is.
    pub fn known_durable(&self, segment: u32) {
        if segment < self.durable_segments() {
            return;
        }
        let mut end = 0;
        for part in &self.parts {
            end += part.segments;
            if segment < end {
                break;
            }
        }
        self.made_durable(end);
    }

    /// Returns the index of a segment with this fingerprint.
    pub fn find(&self, fingerprint: &Fingerprint) -> Option<u32> {
        self.slots.candidates(fingerprint).find(|&index| self.segments[index as usize].fingerprint == *fingerprint)
    }

    /// Returns the index of the segment with this address.
    pub fn segment_at(&self, address: SegmentAddress) -> Option<u32> {
        self.stretch_at(address).map(|(segment, _)| segment)
    }

    /// Returns a segment's address.
    pub fn address_of(&self, segment: u32) -> SegmentAddress {
        let span = self.spans[self.spans.partition_point(|span| span.segment <= segment) - 1];
        SegmentAddress::new(span.label.container, span.label.first + (segment - span.segment))
    }

    /// Returns all segments with their addresses.
    pub fn addresses(&self) -> impl Iterator<Item = (SegmentAddress, &SegmentEntry)> + '_ {
        let addresses = self.spans.iter().flat_map(|span| {
            (span.label.first..span.label.first + span.label.count)
                .map(|ordinal| SegmentAddress::new(span.label.container, ordinal))
        });
        addresses.zip(&self.segments)
    }

    /// Returns the run's segments as ranges of indices, in order; or the first address that is missing.
    pub fn ranges_of(&self, run: Run) -> Result<Vec<std::ops::Range<u32>>, SegmentAddress> {
        let mut ranges = Vec::new();
        let (mut ordinal, end) = (run.first as u64, run.first as u64 + run.count as u64);
        while ordinal < end {
            let address = SegmentAddress::new(run.container, ordinal as u32);
            let (segment, left) = self.stretch_at(address).ok_or(address)?;
            let count = (left as u64).min(end - ordinal) as u32;
            ranges.push(segment..segment + count);
            ordinal += count as u64;
        }
        Ok(ranges)
    }

    /// Returns the blocks that hold the segments, each once, in order.
    pub fn blocks_of(&self, ranges: &[std::ops::Range<u32>]) -> Vec<BlockSpot> {
        let mut blocks: Vec<BlockSpot> = Vec::new();
        let mut seen = std::collections::HashSet::new();
        for range in ranges {
            let first = self.blocks.partition_point(|spot| spot.first_segment <= range.start) - 1;
            let inside = self.blocks[first..].iter().take_while(|spot| spot.first_segment < range.end);
            blocks.extend(inside.filter(|spot| seen.insert(spot.first_segment)));
        }
        blocks
    }

    /// Returns a block with its labels and segments: all but its payload.
    pub fn describe(&self, spot: &BlockSpot) -> BlockPlan {
        let (first, end) = (spot.first_segment, spot.first_segment + spot.header.segments);
        let mut labels = Vec::new();
        let mut segment = first;
        while segment < end {
            let span = self.spans[self.spans.partition_point(|span| span.segment <= segment) - 1];
            let skipped = segment - span.segment;
            let count = (span.label.count - skipped).min(end - segment);
            labels.push(Label { container: span.label.container, first: span.label.first + skipped, count });
            segment += count;
        }
        BlockPlan { spot: *spot, labels, segments: self.segments[first as usize..end as usize].to_vec() }
    }

    /// Returns the approximate memory use of this index (bytes).
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>()
            + self.segments.capacity() * size_of::<SegmentEntry>()
            + self.slots.memory_bytes()
            + self.blocks.capacity() * size_of::<BlockSpot>()
            + self.spans.capacity() * (size_of::<Span>() + size_of::<u32>())
            + self.parts.capacity() * size_of::<PartEntry>()
    }

    /// Returns the segment at an address, and how many from it on have consecutive addresses.
    fn stretch_at(&self, address: SegmentAddress) -> Option<(u32, u32)> {
        let key = (address.container, address.ordinal);
        let after = self.by_address.partition_point(|&span| {
            let label = self.spans[span as usize].label;
            (label.container, label.first) <= key
        });
        let span = self.spans[*self.by_address.get(after.checked_sub(1)?)? as usize];
        let skipped = address.ordinal - span.label.first.min(address.ordinal);
        (span.label.container == address.container && skipped < span.label.count)
            .then(|| (span.segment + skipped, span.label.count - skipped))
    }
}
