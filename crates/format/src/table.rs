//! A run of the fingerprint table: entries sorted by fingerprint prefix, then a filter.

use crate::FORMAT_VERSION;
use crate::{
    ContainerId, Fingerprint, Reader, Result, SegmentAddress, StoreId, Writer, check_version, checksum, corrupt,
};

pub const TABLE_HEADER_BYTES: usize = 64;
pub const TABLE_ENTRY_BYTES: usize = 24;
/// Bytes of the fingerprint in an entry: a hit only counts when the container's index confirms the rest.
pub const TABLE_PREFIX_BYTES: usize = 16;
const TABLE_MAGIC: [u8; 8] = *b"TWGTABL\0";

/// A fingerprint's prefix and its segment's address: 40 bits of container, 24 bits of ordinal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TableEntry {
    pub prefix: [u8; TABLE_PREFIX_BYTES],
    pub address: SegmentAddress,
}

impl TableEntry {
    /// Containers above 40 bits and ordinals above 24 bits do not fit an entry.
    pub const MAX_CONTAINER: u64 = (1 << 40) - 1;
    pub const MAX_ORDINAL: u32 = (1 << 24) - 1;

    pub fn new(fingerprint: &Fingerprint, address: SegmentAddress) -> Self {
        TableEntry { prefix: fingerprint.0[..TABLE_PREFIX_BYTES].try_into().expect("16 of 32 bytes"), address }
    }

    pub fn encode(&self) -> [u8; TABLE_ENTRY_BYTES] {
        assert!(self.address.container.0 <= Self::MAX_CONTAINER && self.address.ordinal <= Self::MAX_ORDINAL);
        let packed = self.address.container.0 << 24 | self.address.ordinal as u64;
        let mut bytes = [0; TABLE_ENTRY_BYTES];
        bytes[..TABLE_PREFIX_BYTES].copy_from_slice(&self.prefix);
        bytes[TABLE_PREFIX_BYTES..].copy_from_slice(&packed.to_le_bytes());
        bytes
    }

    pub fn decode(bytes: &[u8; TABLE_ENTRY_BYTES]) -> Self {
        let packed = u64::from_le_bytes(bytes[TABLE_PREFIX_BYTES..].try_into().expect("8 of 24 bytes"));
        TableEntry {
            prefix: bytes[..TABLE_PREFIX_BYTES].try_into().expect("16 of 24 bytes"),
            address: SegmentAddress::new(ContainerId(packed >> 24), packed as u32 & Self::MAX_ORDINAL),
        }
    }
}

/// Opens a run. Entries follow, then the filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableHeader {
    pub store: StoreId,
    pub entries: u64,
    pub filter_bytes: u64,
    /// [`checksum`] of the filter bytes; entries need none, since a hit is confirmed by the container.
    pub filter_checksum: u64,
}

impl TableHeader {
    pub fn encode(&self) -> [u8; TABLE_HEADER_BYTES] {
        let mut to = Writer::new();
        to.put(&TABLE_MAGIC).u16(FORMAT_VERSION).put(&[0; 6]).put(&self.store.0);
        to.u64(self.entries).u64(self.filter_bytes).u64(self.filter_checksum);
        let mut bytes = to.finish();
        let sum = checksum(&bytes);
        bytes.extend_from_slice(&sum.to_le_bytes());
        bytes.try_into().expect("the layout has its stated size")
    }

    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let what = "table run header";
        let bytes = Reader::new(what, bytes).take(TABLE_HEADER_BYTES)?;
        let (body, sum) = bytes.split_at(TABLE_HEADER_BYTES - 8);
        let mut from = Reader::new(what, body);
        if from.array::<8>()? != TABLE_MAGIC {
            return corrupt(what, "the magic bytes are not there");
        }
        if checksum(body).to_le_bytes() != *sum {
            return corrupt(what, "the checksum does not match");
        }
        check_version(what, from.u16()?)?;
        from.take(6)?;
        let store = StoreId(from.array()?);
        Ok(TableHeader { store, entries: from.u64()?, filter_bytes: from.u64()?, filter_checksum: from.u64()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_and_headers_come_back() {
        let address = SegmentAddress::new(ContainerId(TableEntry::MAX_CONTAINER), TableEntry::MAX_ORDINAL);
        let entry = TableEntry::new(&Fingerprint([5; 32]), address);
        assert_eq!(TableEntry::decode(&entry.encode()), entry);
        let header = TableHeader { store: StoreId([1; 16]), entries: 3, filter_bytes: 4, filter_checksum: 5 };
        assert_eq!(TableHeader::decode(&header.encode()).unwrap(), header);
    }
}
