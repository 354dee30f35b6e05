//! The container: a header, then parts; each part is a header, an index and encoded blocks.
//!
//! A part is written in one go and never changes; its index names every segment, so the table can be
//! rebuilt from containers alone. The last part is the footer, which lists the parts before it.

use crate::{
    CodecId, ContainerId, ElementId, Fingerprint, FingerprintKind, Reader, Result, StoreId, Writer, check_version,
    checksum, corrupt,
};
use crate::{FORMAT_VERSION, MAX_SEGMENT_BYTES};

pub const CONTAINER_MAGIC: [u8; 8] = *b"TWGCONT\0";
const PART_MAGIC: [u8; 8] = *b"TWGPART\0";

pub const CONTAINER_HEADER_BYTES: usize = 96;
pub const PART_HEADER_BYTES: usize = 96;
pub const LABEL_BYTES: usize = 16;
pub const BLOCK_HEADER_BYTES: usize = 64;
pub const SEGMENT_ENTRY_BYTES: usize = 36;
pub const PART_ENTRY_BYTES: usize = 32;

/// Opens a container file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContainerHeader {
    pub store: StoreId,
    /// The file's own number; the labels of its parts say which logical numbers its segments have.
    pub container: ContainerId,
    pub fingerprint: FingerprintKind,
    /// 0: not encrypted. Reserved so that encryption needs no new layout.
    pub cipher: u8,
    pub key_id: u32,
    /// The owner group of the data, where users must not learn of each other's; 0 is shared by all.
    pub group: u32,
    /// Filters applied before the codec, unless a block says otherwise; 0 ends the list.
    pub filters: [u8; 4],
    /// Bytes of one record of the data, when known; 0 when not.
    pub record_length: u32,
}

impl ContainerHeader {
    pub fn encode(&self) -> [u8; CONTAINER_HEADER_BYTES] {
        let mut to = Writer::new();
        to.put(&CONTAINER_MAGIC).u16(FORMAT_VERSION).u8(self.fingerprint as u8).u8(self.cipher).u32(self.key_id);
        to.u64(self.container.0).put(&self.store.0).u32(self.group).put(&self.filters).u32(self.record_length);
        to.put(&[0; 36]);
        sealed(to.finish())
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut from = unseal::<CONTAINER_HEADER_BYTES>("container header", &CONTAINER_MAGIC, bytes)?;
        check_version("container header", from.u16()?)?;
        let fingerprint = FingerprintKind::from_byte(from.u8()?)?;
        let (cipher, key_id) = (from.u8()?, from.u32()?);
        let container = ContainerId(from.u64()?);
        let store = StoreId(from.array()?);
        let (group, filters, record_length) = (from.u32()?, from.array()?, from.u32()?);
        Ok(ContainerHeader { store, container, fingerprint, cipher, key_id, group, filters, record_length })
    }
}

/// Opens a part. The index (labels, block headers, segment entries) follows, then the blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartHeader {
    pub container: ContainerId,
    /// 0, 1, 2 … within the file.
    pub number: u32,
    /// The last part: its data is the list of parts before it ([`PartEntry`]) and, as the last entry, of itself, so
    /// that the file's last bytes say where the footer begins. Its index is empty; `index_checksum` covers the list.
    pub footer: bool,
    pub labels: u32,
    pub blocks: u32,
    pub segments: u32,
    pub data_bytes: u64,
    /// [`checksum`] of the index bytes.
    pub index_checksum: u64,
}

impl PartHeader {
    pub fn encode(&self) -> [u8; PART_HEADER_BYTES] {
        let mut to = Writer::new();
        to.put(&PART_MAGIC).u64(self.container.0).u32(self.number).u32(self.footer as u32);
        to.u32(self.labels).u32(self.blocks).u32(self.segments).u32(0);
        to.u64(self.data_bytes).u64(self.index_checksum).put(&[0; 32]);
        sealed(to.finish())
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let mut from = unseal::<PART_HEADER_BYTES>("part header", &PART_MAGIC, bytes)?;
        let container = ContainerId(from.u64()?);
        let (number, flags) = (from.u32()?, from.u32()?);
        let (labels, blocks, segments, _) = (from.u32()?, from.u32()?, from.u32()?, from.u32()?);
        let (data_bytes, index_checksum) = (from.u64()?, from.u64()?);
        Ok(PartHeader {
            container,
            number,
            footer: flags & 1 == 1,
            labels,
            blocks,
            segments,
            data_bytes,
            index_checksum,
        })
    }

    pub fn index_bytes(&self) -> u64 {
        self.labels as u64 * LABEL_BYTES as u64
            + self.blocks as u64 * BLOCK_HEADER_BYTES as u64
            + self.segments as u64 * SEGMENT_ENTRY_BYTES as u64
    }

    /// Returns the length of the whole part: header, index and data; the largest number there is when a forged header
    /// says more.
    pub fn part_bytes(&self) -> u64 {
        (PART_HEADER_BYTES as u64 + self.index_bytes()).saturating_add(self.data_bytes)
    }
}

/// The logical numbers of the next `count` segments of a part. A container as first written has one label a part, its
/// own; one that collection wrote has the numbers of those it replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Label {
    pub container: ContainerId,
    pub first: u32,
    pub count: u32,
}

impl Label {
    pub fn write(&self, to: &mut Writer) {
        to.u64(self.container.0).u32(self.first).u32(self.count);
    }

    pub fn read(from: &mut Reader) -> Result<Self> {
        Ok(Label { container: ContainerId(from.u64()?), first: from.u32()?, count: from.u32()? })
    }
}

/// The kind of a block's segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum BlockKind {
    /// Content of files.
    Data = 0,
    /// Pages of manifests.
    Page = 1,
    /// Records of the catalog's changes.
    Journal = 2,
}

impl BlockKind {
    fn from_byte(byte: u8) -> Result<Self> {
        match byte {
            0 => Ok(BlockKind::Data),
            1 => Ok(BlockKind::Page),
            2 => Ok(BlockKind::Journal),
            _ => corrupt("block header", format!("unknown kind {byte}")),
        }
    }
}

/// Describes segments that are compressed together. Stands in a part's index and, with
/// `offset` 0, before a block on the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockHeader {
    pub kind: BlockKind,
    pub codec: CodecId,
    pub cipher: u8,
    /// The codec's level, for information; decoding does not need it.
    pub level: i8,
    /// [`FilterId`](crate::FilterId)s in the order in which they were applied; 0 ends the list.
    pub filters: [u8; 4],
    pub key_id: u32,
    pub group: u32,
    /// Bytes of one record, and bytes before the first whole one; 0 and 0 when unknown.
    pub record_length: u32,
    pub phase: u32,
    pub element: ElementId,
    pub segments: u32,
    pub raw_bytes: u32,
    pub stored_bytes: u32,
    /// From the start of the part's data.
    pub offset: u64,
    /// [`checksum`] of the stored bytes.
    pub checksum: u64,
}

impl BlockHeader {
    pub fn write(&self, to: &mut Writer) {
        to.u8(self.kind as u8).u8(self.codec as u8).u8(self.cipher).u8(self.level as u8).put(&self.filters);
        to.u32(self.key_id).u32(self.group).u32(self.record_length).u32(self.phase);
        to.u32(self.segments).u32(self.raw_bytes).u32(self.stored_bytes);
        to.u8(self.element as u8).put(&[0; 3]);
        to.u64(self.offset).u64(self.checksum).u64(0);
    }

    pub fn read(from: &mut Reader) -> Result<Self> {
        let kind = BlockKind::from_byte(from.u8()?)?;
        let codec = CodecId::from_byte(from.u8()?)?;
        let (cipher, level, filters) = (from.u8()?, from.u8()? as i8, from.array()?);
        let (key_id, group, record_length, phase) = (from.u32()?, from.u32()?, from.u32()?, from.u32()?);
        let (segments, raw_bytes, stored_bytes) = (from.u32()?, from.u32()?, from.u32()?);
        let (element, _) = (ElementId::from_byte(from.u8()?)?, from.take(3)?);
        let (offset, checksum, _) = (from.u64()?, from.u64()?, from.u64()?);
        Ok(BlockHeader {
            kind,
            codec,
            cipher,
            level,
            filters,
            key_id,
            group,
            record_length,
            phase,
            element,
            segments,
            raw_bytes,
            stored_bytes,
            offset,
            checksum,
        })
    }
}

/// One segment in a part's index, and on the wire before a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentEntry {
    pub fingerprint: Fingerprint,
    /// Decoded length.
    pub bytes: u32,
}

impl SegmentEntry {
    pub fn write(&self, to: &mut Writer) {
        to.put(&self.fingerprint.0).u32(self.bytes);
    }

    pub fn read(from: &mut Reader) -> Result<Self> {
        let entry = SegmentEntry { fingerprint: Fingerprint(from.array()?), bytes: from.u32()? };
        if entry.bytes > MAX_SEGMENT_BYTES {
            return corrupt("segment entry", format!("a segment of {} bytes is above the limit", entry.bytes));
        }
        Ok(entry)
    }
}

/// Segments compressed together, with everything needed to decode and to check them, on the wire and at rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    pub header: BlockHeader,
    /// In order; their lengths add up to `header.raw_bytes`.
    pub segments: Vec<SegmentEntry>,
    /// `header.stored_bytes` bytes, as the codec left them.
    pub payload: Vec<u8>,
}

impl Block {
    /// Checks that header, segments and payload agree with each other; says nothing of the content.
    pub fn check(&self) -> Result<()> {
        let what = "block";
        let raw: u64 = self.segments.iter().map(|segment| segment.bytes as u64).sum();
        if raw != self.header.raw_bytes as u64 || self.segments.len() != self.header.segments as usize {
            return corrupt(what, "its segments do not add up to its header");
        }
        if self.payload.len() != self.header.stored_bytes as usize || checksum(&self.payload) != self.header.checksum {
            return corrupt(what, "the payload does not match its checksum");
        }
        Ok(())
    }
}

/// One part, as the footer lists it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartEntry {
    /// From the start of the file.
    pub offset: u64,
    pub bytes: u64,
    pub segments: u32,
}

impl PartEntry {
    pub fn write(&self, to: &mut Writer) {
        to.u64(self.offset).u64(self.bytes).u32(self.segments).put(&[0; 12]);
    }

    pub fn read(from: &mut Reader) -> Result<Self> {
        let entry = PartEntry { offset: from.u64()?, bytes: from.u64()?, segments: from.u32()? };
        from.take(12)?;
        Ok(entry)
    }
}

/// Appends the closing checksum to a header.
fn sealed<const N: usize>(mut bytes: Vec<u8>) -> [u8; N] {
    let sum = checksum(&bytes);
    bytes.extend_from_slice(&sum.to_le_bytes());
    bytes.try_into().expect("the layout has its stated size")
}

/// Checks the magic and the closing checksum, and returns what lies between.
fn unseal<'a, const N: usize>(what: &'static str, magic: &[u8; 8], bytes: &'a [u8]) -> Result<Reader<'a>> {
    let bytes = Reader::new(what, bytes).take(N)?;
    let (body, sum) = bytes.split_at(N - 8);
    let mut from = Reader::new(what, body);
    if from.array::<8>()? != *magic {
        return corrupt(what, "the magic bytes are not there");
    }
    if checksum(body).to_le_bytes() != *sum {
        return corrupt(what, "the checksum does not match");
    }
    Ok(from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn layouts_have_their_stated_sizes_and_come_back() {
        let header = ContainerHeader {
            store: StoreId([7; 16]),
            container: ContainerId(9),
            fingerprint: FingerprintKind::Blake3,
            cipher: 0,
            key_id: 1,
            group: 2,
            filters: [1, 0, 0, 0],
            record_length: 8,
        };
        assert_eq!(ContainerHeader::decode(&header.encode()).unwrap(), header);

        let part = PartHeader {
            container: ContainerId(9),
            number: 3,
            footer: false,
            labels: 1,
            blocks: 2,
            segments: 3,
            data_bytes: 99,
            index_checksum: 5,
        };
        assert_eq!(PartHeader::decode(&part.encode()).unwrap(), part);

        let block = BlockHeader {
            kind: BlockKind::Page,
            codec: CodecId::Zstd,
            cipher: 0,
            level: -3,
            filters: [0; 4],
            key_id: 0,
            group: 0,
            record_length: 0,
            phase: 0,
            element: ElementId::F32,
            segments: 4,
            raw_bytes: 10,
            stored_bytes: 8,
            offset: 77,
            checksum: 1,
        };
        let mut to = Writer::new();
        block.write(&mut to);
        assert_eq!(to.len(), BLOCK_HEADER_BYTES);
        assert_eq!(BlockHeader::read(&mut Reader::new("block", &to.finish())).unwrap(), block);

        Label { container: ContainerId(1), first: 2, count: 3 }.write(&mut to);
        assert_eq!(to.finish().len(), LABEL_BYTES);
        SegmentEntry { fingerprint: Fingerprint([1; 32]), bytes: 5 }.write(&mut to);
        assert_eq!(to.finish().len(), SEGMENT_ENTRY_BYTES);
        PartEntry { offset: 1, bytes: 2, segments: 3 }.write(&mut to);
        assert_eq!(to.finish().len(), PART_ENTRY_BYTES);
    }

    #[test]
    fn a_flipped_bit_in_a_header_is_noticed() {
        let good = PartHeader {
            container: ContainerId(1),
            number: 0,
            footer: true,
            labels: 0,
            blocks: 0,
            segments: 0,
            data_bytes: 0,
            index_checksum: 0,
        }
        .encode();
        for bit in 0..good.len() * 8 {
            let mut bad = good;
            bad[bit / 8] ^= 1 << (bit % 8);
            assert!(PartHeader::decode(&bad).is_err(), "bit {bit}");
        }
    }
}
