//! A part being assembled, and the footer.
//!
//! A part's bytes are two buffers, header with index and data, that go out in one vectored write: the
//! index stands before the data on disk, but its length is known only when the data is complete.

use format::{
    BLOCK_HEADER_BYTES, Block, BlockHeader, ContainerId, LABEL_BYTES, Label, PART_ENTRY_BYTES, PART_HEADER_BYTES,
    PartEntry, PartHeader, SEGMENT_ENTRY_BYTES, SegmentEntry, Writer, checksum,
};

use super::PartIndex;

/// Labels, blocks and segments gathered for one part.
#[derive(Default)]
pub struct PartBuilder {
    labels: Vec<Label>,
    blocks: Vec<BlockHeader>,
    segments: Vec<SegmentEntry>,
    data: Vec<u8>,
}

/// A part ready to be written.
pub struct Part {
    pub index: PartIndex,
    /// Header and index as stored.
    pub head: Vec<u8>,
    pub data: Vec<u8>,
}

impl PartBuilder {
    /// Makes a builder whose data goes into `buffer`, so that buffers are reused instead of allocated again.
    pub fn with_buffer(mut buffer: Vec<u8>) -> Self {
        buffer.clear();
        PartBuilder { data: buffer, ..Self::default() }
    }

    /// Appends a block whose segments have `labels`.
    pub fn append(&mut self, labels: &[Label], block: &Block) {
        self.blocks.push(BlockHeader { offset: self.data.len() as u64, ..block.header });
        self.segments.extend_from_slice(&block.segments);
        self.data.extend_from_slice(&block.payload);
        for label in labels {
            match self.labels.last_mut() {
                Some(last) if last.container == label.container && last.first + last.count == label.first => {
                    last.count += label.count;
                }
                _ => self.labels.push(*label),
            }
        }
    }

    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub fn data_bytes(&self) -> usize {
        self.data.len()
    }

    /// Returns the length of the part as it would be written now (bytes).
    pub fn part_bytes(&self) -> u64 {
        let index_bytes = self.labels.len() * LABEL_BYTES
            + self.blocks.len() * BLOCK_HEADER_BYTES
            + self.segments.len() * SEGMENT_ENTRY_BYTES;
        (PART_HEADER_BYTES + index_bytes + self.data.len()) as u64
    }

    /// Returns each block with its segments and payload, in order.
    pub fn blocks(&self) -> impl Iterator<Item = (&BlockHeader, &[SegmentEntry], &[u8])> + '_ {
        let mut segment = 0;
        self.blocks.iter().map(move |header| {
            let first = segment;
            segment += header.segments as usize;
            let payload = &self.data[header.offset as usize..][..header.stored_bytes as usize];
            (header, &self.segments[first..segment], payload)
        })
    }

    pub fn finish(self, container: ContainerId, number: u32) -> Part {
        let mut to = Writer::new();
        self.labels.iter().for_each(|label| label.write(&mut to));
        self.blocks.iter().for_each(|block| block.write(&mut to));
        self.segments.iter().for_each(|segment| segment.write(&mut to));
        let index = to.finish();
        let header = PartHeader {
            container,
            number,
            footer: false,
            labels: self.labels.len() as u32,
            blocks: self.blocks.len() as u32,
            segments: self.segments.len() as u32,
            data_bytes: self.data.len() as u64,
            index_checksum: checksum(&index),
        };
        let mut head = header.encode().to_vec();
        head.extend_from_slice(&index);
        let index = PartIndex { header, labels: self.labels, blocks: self.blocks, segments: self.segments };
        Part { index, head, data: self.data }
    }
}

/// Returns the last part, to be written at `offset`. Its data lists all parts and, last, the footer itself: so the last
/// bytes of a file say where its footer begins. Its index checksum covers the list.
pub fn footer(container: ContainerId, number: u32, offset: u64, parts: &[PartEntry]) -> Vec<u8> {
    let data_bytes = ((parts.len() + 1) * PART_ENTRY_BYTES) as u64;
    let itself = PartEntry { offset, bytes: PART_HEADER_BYTES as u64 + data_bytes, segments: 0 };
    let mut to = Writer::new();
    parts.iter().chain([&itself]).for_each(|part| part.write(&mut to));
    let list = to.finish();
    let header = PartHeader {
        container,
        number,
        footer: true,
        labels: 0,
        blocks: 0,
        segments: 0,
        data_bytes,
        index_checksum: checksum(&list),
    };
    let mut bytes = header.encode().to_vec();
    bytes.extend_from_slice(&list);
    bytes
}
